//! The floor: how far the store was once durable, in a file RocksDB knows nothing of.
//!
//! RocksDB, asked to recover to a point in time, silently drops synced commits that follow a
//! damaged byte of its log. The floor notices: it holds the last commit number that was known
//! durable, and opening below it is the error "recovered short".
//!
//! ```text
//! FLOOR: two slots, at 0 and at 4096; the valid one with the greater sequence counts
//! slot:  magic u32 "FSf1" | sequence u64 | n u64 | flags u8 | incarnation 16 | checksum u64 (LE)
//! flags: bit 0: a commit may have been unsynced (sticky)
//! ```
//!
//! - F1: `n` only rises (but for a short recovery that the caller accepts), and only to numbers
//!   that were durable before it was written.
//! - F2: the sticky bit is durable before the first unsynced commit is written; it decides how
//!   RocksDB recovers.
//! - F3: a torn slot leaves the other one valid.
//! - F4: what is sticky (made, unsynced) is in both slots: with either of them damaged, a store
//!   never passes for one that was not made yet, nor for one that was always synced.

use xxhash_rust::xxh3::xxh3_64;

use crate::engine::{Home, failpoint};
use crate::error::{Error, Result};
use crate::sync::Mutex;

use super::random;

pub(super) const NAME: &str = "FLOOR";
const MAGIC: u32 = 0x3166_5346;
const SLOT_AT: [u64; 2] = [0, 4096];
const SLOT_BYTES: usize = 4 + 8 + 8 + 1 + 16 + 8;
const UNSYNCED: u8 = 1;
/// The sequence of a floor whose store may not have been made yet.
const FRESH: u64 = 1;

/// What a slot says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    sequence: u64,
    /// The last commit known durable.
    pub(crate) n: u64,
    /// Whether a commit may ever have been unsynced.
    pub(crate) unsynced: bool,
    /// Random, new for each copy of the store.
    pub(crate) incarnation: [u8; 16],
}

impl Mark {
    /// How often the file was written until this.
    pub(super) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Whether the store it belongs to may not have been made yet.
    pub(crate) fn is_fresh(&self) -> bool {
        self.sequence == FRESH && self.n == 0 && !self.unsynced
    }

    pub(super) fn encode(&self) -> [u8; SLOT_BYTES] {
        let mut out = [0; SLOT_BYTES];
        out[..4].copy_from_slice(&MAGIC.to_le_bytes());
        out[4..12].copy_from_slice(&self.sequence.to_le_bytes());
        out[12..20].copy_from_slice(&self.n.to_le_bytes());
        out[20] = if self.unsynced { UNSYNCED } else { 0 };
        out[21..37].copy_from_slice(&self.incarnation);
        let checksum = xxh3_64(&out[..37]);
        out[37..].copy_from_slice(&checksum.to_le_bytes());
        out
    }

    pub(super) fn decode(slot: &[u8]) -> Option<Mark> {
        let slot: &[u8; SLOT_BYTES] = slot.try_into().ok()?;
        let u64_at = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&slot[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        let is_whole = slot[..4] == MAGIC.to_le_bytes() && u64_at(37) == xxh3_64(&slot[..37]);
        if !is_whole || slot[20] & !UNSYNCED != 0 {
            return None;
        }
        let mut incarnation = [0; 16];
        incarnation.copy_from_slice(&slot[21..37]);
        let unsynced = slot[20] & UNSYNCED != 0;
        Some(Mark {
            sequence: u64_at(4),
            n: u64_at(12),
            unsynced,
            incarnation,
        })
    }
}

/// What is in a slot of the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Slot {
    Valid(Mark),
    /// Never written.
    Unused,
    Damaged,
}

impl Slot {
    fn read(file: &[u8], at: u64) -> Slot {
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let Some(slot) = file.get(at..).and_then(|rest| rest.get(..SLOT_BYTES)) else {
            return Slot::Damaged;
        };
        match Mark::decode(slot) {
            Some(mark) => Slot::Valid(mark),
            None if slot.iter().all(|byte| *byte == 0) => Slot::Unused,
            None => Slot::Damaged,
        }
    }
}

/// The error for a floor that another release wrote: its slots begin with another digit. It is
/// read before anything else, so a store of a newer format is left as it is.
fn other_format(bytes: &[u8]) -> Option<Error> {
    let digit = *bytes.strip_prefix(b"FSf")?.first()?;
    let known = MAGIC.to_le_bytes()[3];
    (digit.is_ascii_digit() && digit != known).then(|| {
        let (format, known) = (char::from(digit), char::from(known));
        Error::damaged(format!(
            "the store is of format {format}; this release reads format {known}"
        ))
    })
}

/// The floor of an open store.
pub(crate) struct Floor {
    home: Home,
    mark: Mutex<Mark>,
}

impl Floor {
    /// The stored mark; `None` if there is no floor file.
    ///
    /// # Errors
    /// `Damaged` if neither slot is valid, or they are of another format.
    pub(crate) fn read(home: &Home) -> Result<Option<Mark>> {
        let Some(bytes) = home.read(NAME)? else {
            return Ok(None);
        };
        match Floor::counting(Floor::slots_of(&bytes)) {
            Some(mark) => Ok(Some(mark)),
            None => Err(other_format(&bytes)
                .unwrap_or_else(|| Error::damaged("the floor file has no valid slot"))),
        }
    }

    fn counting(slots: [Slot; 2]) -> Option<Mark> {
        let valid = slots.into_iter().filter_map(|slot| match slot {
            Slot::Valid(mark) => Some(mark),
            Slot::Unused | Slot::Damaged => None,
        });
        valid.max_by_key(|m| m.sequence)
    }

    fn slots_of(file: &[u8]) -> [Slot; 2] {
        SLOT_AT.map(|at| Slot::read(file, at))
    }

    /// The mark of a floor file that counts.
    #[cfg(feature = "testing")]
    pub(super) fn newest(file: &[u8]) -> Option<Mark> {
        Floor::counting(Floor::slots_of(file))
    }

    /// Both slots; `None` if there is no floor file.
    pub(super) fn slots(home: &Home) -> Result<Option<[Slot; 2]>> {
        let bytes = home.read(NAME)?;
        Ok(bytes.map(|bytes| Floor::slots_of(&bytes)))
    }

    /// Writes a new floor file into a home that has none.
    pub(crate) fn create(home: &Home, n: u64, unsynced: bool) -> Result<Mark> {
        let mark = Mark {
            sequence: FRESH,
            n,
            unsynced,
            incarnation: random()?,
        };
        let mut bytes = vec![0; 8192];
        bytes[..SLOT_BYTES].copy_from_slice(&mark.encode());
        home.replace(NAME, &bytes)?;
        Ok(mark)
    }

    pub(crate) fn new(home: Home, mark: Mark) -> Floor {
        Floor {
            home,
            mark: Mutex::new(mark),
        }
    }

    /// The last commit known durable.
    pub(crate) fn n(&self) -> u64 {
        self.mark.lock().n
    }

    /// Random, new for each copy of the store.
    pub(crate) fn incarnation(&self) -> [u8; 16] {
        self.mark.lock().incarnation
    }

    /// Whether unsynced commits were ever allowed.
    pub(crate) fn unsynced(&self) -> bool {
        self.mark.lock().unsynced
    }

    /// Records that the store was made: without its catalog it is damaged from now on, not new.
    pub(crate) fn note_made(&self) -> Result<()> {
        self.write_both(|mark| mark.sequence == FRESH)
    }

    /// Raises the floor to `n`, which must be durable (F1). One fsync.
    pub(crate) fn raise(&self, n: u64) -> Result<()> {
        self.write(|mark| {
            let higher = n > mark.n;
            mark.n = mark.n.max(n);
            higher
        })?;
        Ok(())
    }

    /// Records that commits may be unsynced from now on (F2). Two fsyncs, once.
    pub(crate) fn allow_unsynced(&self) -> Result<()> {
        self.write_both(|mark| !std::mem::replace(&mut mark.unsynced, true))
    }

    /// Lowers the floor to what was found, when the caller accepted a short recovery.
    pub(crate) fn lower(&self, n: u64) -> Result<()> {
        self.write(|mark| std::mem::replace(&mut mark.n, n) != n)?;
        Ok(())
    }

    /// Writes a change that must not be lost with one slot (F4).
    fn write_both(&self, change: impl FnOnce(&mut Mark) -> bool) -> Result<()> {
        if self.write(change)? {
            self.write(|_| true)?;
        }
        Ok(())
    }

    /// Writes a change, if it is one, over the older slot; whether it was one.
    fn write(&self, change: impl FnOnce(&mut Mark) -> bool) -> Result<bool> {
        let mut mark = self.mark.lock();
        let mut next = *mark;
        if !change(&mut next) {
            return Ok(false);
        }
        let wrong = || Error::damaged("the floor file's sequence is at its end");
        next.sequence = next.sequence.checked_add(1).ok_or_else(wrong)?;
        failpoint!("floor::before_write");
        let slot = SLOT_AT[usize::from(next.sequence.is_multiple_of(2))];
        self.home.overwrite(NAME, slot, &next.encode())?;
        *mark = next;
        failpoint!("floor::after_write");
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn no_slot_of_a_made_store_says_that_it_is_fresh() {
        let home = Home::memory().unwrap();
        let mark = Floor::create(&home, 0, false).unwrap();
        assert!(Floor::read(&home).unwrap().unwrap().is_fresh());
        Floor::new(home.clone(), mark).note_made().unwrap();
        for at in SLOT_AT {
            let bytes = home.read(NAME).unwrap().unwrap();
            home.overwrite(NAME, at, &[0; SLOT_BYTES]).unwrap();
            assert!(!Floor::read(&home).unwrap().unwrap().is_fresh(), "{at}");
            home.overwrite(NAME, 0, &bytes).unwrap();
        }
    }

    #[test]
    fn a_slot_is_golden() {
        let mark = Mark {
            sequence: 2,
            n: 3,
            unsynced: true,
            incarnation: [9; 16],
        };
        let bytes = mark.encode();
        let mut expected = b"FSf1".to_vec();
        expected.extend([2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
        expected.extend([9; 16]);
        assert_eq!(bytes[..37], expected);
        assert_eq!(bytes[37..], xxh3_64(&expected).to_le_bytes());
        assert_eq!(Mark::decode(&bytes), Some(mark));
    }

    #[test]
    fn a_torn_slot_leaves_the_other_one() {
        let home = Home::memory().unwrap();
        let mark = Floor::create(&home, 0, false).unwrap();
        let floor = Floor::new(home.clone(), mark);
        floor.raise(5).unwrap();
        floor.allow_unsynced().unwrap();
        floor.raise(4).unwrap();
        let read = Floor::read(&home).unwrap().unwrap();
        assert_eq!((read.n, read.unsynced), (5, true));
        let at = SLOT_AT[usize::from(read.sequence.is_multiple_of(2))];
        home.overwrite(NAME, at + 12, &[0xff]).unwrap();
        let older = Floor::read(&home).unwrap().unwrap();
        assert_eq!((older.n, older.unsynced), (5, true));
        let whole = home.read(NAME).unwrap().unwrap();
        home.replace(NAME, &whole[..SLOT_BYTES]).unwrap();
        let mark = Floor::read(&home).unwrap().unwrap();
        let floor = Floor::new(home.clone(), mark);
        floor.raise(9).unwrap();
        floor.raise(10).unwrap();
        let read = Floor::read(&home).unwrap().unwrap();
        assert_eq!(read.n, 10, "a slot that was cut away is written again");
        home.replace(NAME, &whole).unwrap();
        home.overwrite(NAME, SLOT_AT[0], &[0; 8]).unwrap();
        home.overwrite(NAME, SLOT_AT[1], &[0; 8]).unwrap();
        assert_eq!(Floor::read(&home).unwrap_err().kind(), ErrorKind::Damaged);
    }
}
