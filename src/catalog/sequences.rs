//! The spaces of sequences that a store has.
//!
//! A space's producers are read when it is first asked for, so that a store whose spaces are not
//! used pays nothing for them at open. A drop marks the space first, durably; its producers go
//! then, or at the next open.
//!
//! ```text
//! sequences/<u16 BE>   flags u8 (1: dropped) | window bits u16 LE | name
//! ```

use std::sync::Arc;

use crate::engine::{Family, Rep};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Book, Index};
use crate::producer::{SequencePolicy, is_window};
use crate::sequence::{Known, Space, decode, key_prefix, split_key};
use crate::sync::atomic::{AtomicBool, Ordering};

use super::{Catalog, check_name};

const PREFIX: &[u8] = b"sequences/";
const DROPPED: u8 = 1;
/// Rows removed at a time.
const ROWS: usize = 4096;

/// A space of sequences as all its handles share it.
pub(crate) struct SequencesState {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(crate) window_bits: usize,
    /// The number that write batches name the producers' family by.
    pub(crate) family_number: u32,
    pub(crate) producers: Space,
    dropped: AtomicBool,
}

impl SequencesState {
    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}

/// A space as the catalog has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stored {
    number: u16,
    name: String,
    window_bits: usize,
    dropped: bool,
}

impl Stored {
    fn row(&self) -> (Vec<u8>, Vec<u8>) {
        let key = [PREFIX, &self.number.to_be_bytes()].concat();
        let mut value = vec![if self.dropped { DROPPED } else { 0 }];
        let bits = u16::try_from(self.window_bits).unwrap_or(u16::MAX);
        value.extend_from_slice(&bits.to_le_bytes());
        value.extend_from_slice(self.name.as_bytes());
        (key, value)
    }

    fn decode(number: &[u8], value: &[u8]) -> Option<Stored> {
        let number = u16::from_be_bytes(number.try_into().ok()?);
        let (&flags, rest) = value.split_first()?;
        let (bits, name) = rest.split_first_chunk::<2>()?;
        let window_bits = usize::from(u16::from_le_bytes(*bits));
        // Of spaces there is always a next one.
        if flags & !DROPPED != 0 || !is_window(window_bits) || number == u16::MAX {
            return None;
        }
        Some(Stored {
            number,
            name: String::from_utf8(name.to_vec()).ok()?,
            window_bits,
            dropped: flags & DROPPED != 0,
        })
    }
}

/// All spaces, by number.
pub(super) fn read_sequences(meta: &Arc<Family>) -> Result<Vec<Stored>> {
    let mut all = Vec::new();
    for row in meta.rows(PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(PREFIX) else {
            break;
        };
        let wrong = || Error::damaged("a stored space of sequences is of an unknown form");
        let stored = Stored::decode(number, &value).ok_or_else(wrong)?;
        if usize::from(stored.number) != all.len() {
            let text = format!("the space of sequences {} is missing", all.len());
            return Err(Error::damaged(text));
        }
        all.push(stored);
    }
    Ok(all)
}

/// The spaces of an open store.
#[derive(Default)]
pub(super) struct Spaces {
    /// All, also the dropped ones.
    stored: Vec<Stored>,
    /// Those that were asked for.
    open: Vec<Arc<SequencesState>>,
}

impl Spaces {
    /// Reads them; removes the producers of those whose drop was cut short.
    pub(super) fn load(index: &Index) -> Result<Spaces> {
        let stored = read_sequences(&index.meta)?;
        let is_reader = index.poison.is_reader();
        for space in stored.iter().filter(|s| s.dropped && !is_reader) {
            // They are never asked again; the next open tries once more.
            if let Err(error) = remove_producers(index, space.number) {
                log::warn!("producers of dropped sequences stay: {error}");
            }
        }
        Ok(Spaces {
            stored,
            open: Vec::new(),
        })
    }

    fn position(&self, name: &str) -> Option<usize> {
        let mut stored = self.stored.iter();
        stored.position(|s| s.name == name && !s.dropped)
    }
}

impl Catalog {
    /// Makes a space, or finds the one of that name and window.
    pub(crate) fn sequences(
        &self,
        name: &str,
        policy: &SequencePolicy,
    ) -> Result<Arc<SequencesState>> {
        policy.validate(name)?;
        check_name(name, "space of sequences")?;
        let mut inner = self.inner.lock();
        let spaces = &mut inner.spaces;
        if let Some(open) = spaces.open.iter().find(|s| s.name == name) {
            check_window(name, open.window_bits, policy)?;
            return Ok(Arc::clone(open));
        }
        let stored = match spaces.position(name) {
            Some(at) => spaces.stored[at].clone(),
            None => {
                let live = spaces.stored.iter().filter(|s| !s.dropped).count();
                if live >= self.caps.scopes || spaces.stored.len() >= usize::from(u16::MAX) {
                    let text = format!("the store may have {} spaces", self.caps.scopes);
                    return Err(Error::new(ErrorKind::Full, text));
                }
                let stored = Stored {
                    number: u16::try_from(spaces.stored.len()).unwrap_or(u16::MAX),
                    name: name.to_string(),
                    window_bits: policy.window_bits,
                    dropped: false,
                };
                self.put(stored.row())?;
                spaces.stored.push(stored.clone());
                stored
            }
        };
        check_window(name, stored.window_bits, policy)?;
        let state = Arc::new(self.open_space(stored)?);
        spaces.open.push(Arc::clone(&state));
        Ok(state)
    }

    fn open_space(&self, stored: Stored) -> Result<SequencesState> {
        let family = self.index.make_book(Book::Producers)?;
        let producers = Space::default();
        for row in family.rows(&key_prefix(stored.number)) {
            let (key, value) = row?;
            let (space, name) = split_key(&key)?;
            if space != stored.number {
                break;
            }
            let known = decode(&value)?;
            if known.window.bits() != stored.window_bits as u64 {
                return Err(Error::damaged("a stored producer has another window"));
            }
            producers.insert(name, known);
        }
        Ok(SequencesState {
            number: stored.number,
            name: stored.name,
            window_bits: stored.window_bits,
            family_number: family.number(),
            producers,
            dropped: AtomicBool::new(false),
        })
    }

    pub(crate) fn sequences_names(&self) -> Vec<String> {
        let inner = self.inner.lock();
        let live = inner.spaces.stored.iter().filter(|s| !s.dropped);
        live.map(|s| s.name.clone()).collect()
    }

    /// The window of an existing space.
    pub(crate) fn sequences_window(&self, name: &str) -> Option<usize> {
        let inner = self.inner.lock();
        let at = inner.spaces.position(name)?;
        Some(inner.spaces.stored[at].window_bits)
    }

    /// Producers in memory.
    pub(crate) fn producers(&self) -> usize {
        let open = &self.inner.lock().spaces.open;
        open.iter().map(|s| s.producers.len()).sum()
    }

    /// The number of an existing space.
    pub(crate) fn sequences_number(&self, name: &str) -> Option<u16> {
        let inner = self.inner.lock();
        let at = inner.spaces.position(name)?;
        Some(inner.spaces.stored[at].number)
    }

    /// Whether there is a space of that number.
    pub(crate) fn has_sequences(&self, number: u16) -> bool {
        let stored = &self.inner.lock().spaces.stored;
        stored.iter().any(|s| s.number == number && !s.dropped)
    }

    /// Lets memory follow the row of a producer that was written, whose lock is held. A space
    /// that nobody asked for yet reads the row when it is.
    pub(crate) fn follow_producer(&self, space: u16, name: &[u8], known: Option<Known>) {
        let inner = self.inner.lock();
        let Some(open) = inner.spaces.open.iter().find(|s| s.number == space) else {
            return;
        };
        match known {
            Some(known) => open.producers.insert(name, known),
            None => open.producers.remove(name),
        }
    }

    /// Marks a space as dropped, durably; from now on no call may use it. Returns its number.
    pub(crate) fn retire_sequences(&self, name: &str) -> Result<Option<u16>> {
        let mut inner = self.inner.lock();
        let spaces = &mut inner.spaces;
        let Some(at) = spaces.position(name) else {
            return Ok(None);
        };
        let dropped = Stored {
            dropped: true,
            ..spaces.stored[at].clone()
        };
        self.put(dropped.row())?;
        if let Some(open) = spaces.open.iter().position(|s| s.number == dropped.number) {
            let state = spaces.open.remove(open);
            state.dropped.store(true, Ordering::Release);
        }
        let number = dropped.number;
        spaces.stored[at] = dropped;
        Ok(Some(number))
    }

    /// Removes a retired space's producers. If that fails, the next open does it.
    pub(crate) fn remove_producers(&self, number: u16) -> Result<()> {
        remove_producers(&self.index, number)
    }
}

fn check_window(name: &str, bits: usize, policy: &SequencePolicy) -> Result<()> {
    if bits == policy.window_bits {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the sequences {name:?} have a window of {bits} bits, not {}",
        policy.window_bits
    )))
}

fn remove_producers(index: &Index, space: u16) -> Result<()> {
    let Some(family) = index.book(Book::Producers) else {
        return Ok(());
    };
    loop {
        let mut rows = Rep::default();
        for row in family.rows(&key_prefix(space)).take(ROWS) {
            let (key, _) = row?;
            if !key.starts_with(&key_prefix(space)) {
                break;
            }
            rows.delete(family.number(), &key);
        }
        if rows.is_empty() {
            return Ok(());
        }
        index.write_rows(&rows)?;
    }
}

/// Number and row of a space, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn sequences_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (number, value) = bytes.split_first_chunk::<2>()?;
    let stored = Stored::decode(number, value)?;
    let (key, value) = stored.row();
    let number = key.strip_prefix(PREFIX)?;
    Some((format!("{stored:?}"), [number, &value].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_golden_and_reads_back() {
        let stored = Stored {
            number: 0x0102,
            name: "s".to_string(),
            window_bits: 4096,
            dropped: true,
        };
        let (key, value) = stored.row();
        assert_eq!(key, b"sequences/\x01\x02");
        assert_eq!(value, b"\x01\0\x10s");
        assert_eq!(Stored::decode(b"\x01\x02", &value), Some(stored));
        for wrong in [&b"\x02\0\x10s"[..], b"\0\x60\0s", b"\0\0", b"\0\0\x10\xff"] {
            assert_eq!(Stored::decode(b"\0\0", wrong), None, "{wrong:?}");
        }
        assert_eq!(
            Stored::decode(b"\xff\xff", b"\0\0\x10s"),
            None,
            "no next one"
        );
    }
}
