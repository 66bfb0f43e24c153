//! The packed log: the new ids of one commit as one value.
//!
//! A log record's key is its commit number `n`, 8 bytes big-endian, in the log family of its
//! segment. Its value is a sequence of *sections*, each holding ids that share everything but
//! their bytes. An empty value is a commit without ids.
//!
//! ```text
//! section: flags u8 | scope u16 | version u8 | class u8 | expiry u64 | slice end u64
//!          | id bytes u16 | count u32 | ids
//! flags:   bit 0 forgotten (tombstone), bit 1 over, bit 2 rich
//! ids:     count × id bytes; rich: each id is followed by (len u16, extras)
//! ```
//! All integers little-endian but the key. Invariant L1: decode ∘ encode is the identity, and
//! decoding arbitrary bytes is an error or right, never a panic.

use crate::error::{Error, Result};

use super::record::{Meta, Slice, Stamp, State};

const FORGOTTEN: u8 = 1;
const OVER: u8 = 2;
const RICH: u8 = 4;
const HEADER_BYTES: usize = 1 + 2 + 1 + 1 + 8 + 8 + 2 + 4;

/// The key of commit `n`.
pub(crate) fn log_key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// The commit number of a log key.
pub(crate) fn log_number(key: &[u8]) -> Result<u64> {
    let key = key
        .try_into()
        .map_err(|_| Error::damaged("a log key is not 8 bytes"))?;
    match u64::from_be_bytes(key) {
        // There is always a next commit.
        u64::MAX => Err(Error::damaged("a log key is no commit's")),
        n => Ok(n),
    }
}

/// Builds the value of one log record. Ids that share a section must come one after the other
/// to share it.
#[derive(Debug, Default, Clone)]
pub(crate) struct LogBuilder {
    value: Vec<u8>,
    hashes: Vec<u64>,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    meta: Meta,
    placement: Slice,
    id_len: usize,
    rich: bool,
    count_at: usize,
    count: u32,
}

impl LogBuilder {
    /// Adds one record. `hash` is the id's, kept for the active set.
    #[inline]
    pub(crate) fn add(
        &mut self,
        hash: u64,
        meta: &Meta,
        placement: Slice,
        id: &[u8],
        extras: Option<&[u8]>,
    ) {
        self.stand_in(meta, placement, id.len(), extras.is_some());
        self.value.extend_from_slice(id);
        if let Some(extras) = extras {
            let len = u16::try_from(extras.len()).expect("extras are bounded at 64 KiB");
            self.value.extend_from_slice(&len.to_le_bytes());
            self.value.extend_from_slice(extras);
        }
        self.hashes.push(hash);
        if let Some(open) = &mut self.open {
            open.count += 1;
        }
    }

    /// Adds plain records that share everything but their ids, of `id_len` bytes each.
    pub(crate) fn add_all(
        &mut self,
        hashes: &[u64],
        meta: &Meta,
        placement: Slice,
        id_len: usize,
        ids: &[u8],
    ) {
        debug_assert_eq!(hashes.len() * id_len, ids.len(), "a hash for each id");
        self.stand_in(meta, placement, id_len, false);
        self.value.extend_from_slice(ids);
        self.hashes.extend_from_slice(hashes);
        if let Some(open) = &mut self.open {
            open.count += hashes.len() as u32;
        }
    }

    /// Goes on with the open section, if it is of that kind, or starts one that is.
    #[inline]
    fn stand_in(&mut self, meta: &Meta, placement: Slice, id_len: usize, rich: bool) {
        let fits = self.open.is_some_and(|o| {
            o.id_len == id_len && o.rich == rich && o.meta == *meta && o.placement == placement
        });
        if !fits {
            self.start(meta, placement, id_len, rich);
        }
    }

    #[cold]
    fn start(&mut self, meta: &Meta, placement: Slice, id_len: usize, rich: bool) {
        self.close();
        let mut flags = 0;
        flags |= if meta.state == State::Forgotten {
            FORGOTTEN
        } else {
            0
        };
        flags |= if meta.over { OVER } else { 0 };
        flags |= if rich { RICH } else { 0 };
        let v = &mut self.value;
        v.push(flags);
        v.extend_from_slice(&meta.stamp.scope.to_le_bytes());
        v.push(meta.stamp.version);
        v.push(placement.class);
        v.extend_from_slice(&meta.expiry_ms.to_le_bytes());
        v.extend_from_slice(&placement.end_ms.to_le_bytes());
        let len = u16::try_from(id_len).expect("ids are bounded at 16 KiB");
        v.extend_from_slice(&len.to_le_bytes());
        let count_at = v.len();
        v.extend_from_slice(&0_u32.to_le_bytes());
        self.open = Some(Open {
            meta: *meta,
            placement,
            id_len,
            rich,
            count_at,
            count: 0,
        });
    }

    fn close(&mut self) {
        if let Some(open) = self.open.take() {
            let at = open.count_at;
            self.value[at..at + 4].copy_from_slice(&open.count.to_le_bytes());
        }
    }

    /// Appends the records of another, finished one.
    pub(crate) fn append(&mut self, other: &LogBuilder) -> Result<()> {
        let mut hashes = other.hashes.iter();
        for section in Sections::new(&other.value) {
            let section = section?;
            for ((id, extras), hash) in section.ids().zip(&mut hashes) {
                self.add(*hash, &section.meta, section.placement, id, extras);
            }
        }
        Ok(())
    }

    /// Empties it and keeps its memory.
    pub(crate) fn clear(&mut self) {
        self.value.clear();
        self.hashes.clear();
        self.open = None;
    }

    /// Bytes of its value so far.
    pub(crate) fn bytes(&self) -> usize {
        self.value.len()
    }

    /// Ends the last section.
    pub(crate) fn finish(&mut self) {
        self.close();
    }

    /// The value; [`LogBuilder::finish`] must have ended it.
    pub(crate) fn value(&self) -> &[u8] {
        debug_assert!(self.open.is_none());
        &self.value
    }

    /// The ids' hashes, in order.
    pub(crate) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.hashes.is_empty()
    }
}

/// A section of a log record.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Section<'a> {
    pub(crate) meta: Meta,
    pub(crate) placement: Slice,
    pub(crate) count: u32,
    id_len: u16,
    rich: bool,
    ids: &'a [u8],
}

/// The sections of a log record's value.
pub(crate) struct Sections<'a> {
    rest: &'a [u8],
}

impl<'a> Sections<'a> {
    pub(crate) fn new(value: &'a [u8]) -> Sections<'a> {
        Sections { rest: value }
    }

    fn read(&mut self) -> Result<Section<'a>> {
        let cut = || Error::damaged("a log record is cut short");
        let (header, rest) = self.rest.split_at_checked(HEADER_BYTES).ok_or_else(cut)?;
        let flags = header[0];
        if flags & !(FORGOTTEN | OVER | RICH) != 0 {
            return Err(Error::damaged("a log record has unknown flags"));
        }
        let u64_at = |at: usize| u64::from_le_bytes(take(header, at));
        let stamp = Stamp {
            scope: u16::from_le_bytes(take(header, 1)),
            version: header[3],
        };
        let state = if flags & FORGOTTEN != 0 {
            State::Forgotten
        } else {
            State::Seen
        };
        let meta = Meta {
            stamp,
            state,
            over: flags & OVER != 0,
            expiry_ms: u64_at(5),
        };
        let placement = Slice {
            end_ms: u64_at(13),
            class: header[4],
        };
        if !placement.is_possible() {
            return Err(Error::damaged("a log record is of no slice there can be"));
        }
        let id_len = u16::from_le_bytes(take(header, 21));
        let count = u32::from_le_bytes(take(header, 23));
        // Whatever is sized by the count may rely on the bytes being there.
        if id_len == 0 || count == 0 {
            return Err(Error::damaged("a log record has a section without ids"));
        }
        let rich = flags & RICH != 0;
        let mut end = 0_usize;
        if rich {
            for _ in 0..count {
                let at = end.checked_add(id_len.into()).ok_or_else(cut)?;
                let len = rest.get(at..at + 2).ok_or_else(cut)?;
                end = at + 2 + usize::from(u16::from_le_bytes(take(len, 0)));
            }
        } else {
            end = (count as usize)
                .checked_mul(id_len.into())
                .ok_or_else(cut)?;
        }
        let (ids, rest) = rest.split_at_checked(end).ok_or_else(cut)?;
        self.rest = rest;
        Ok(Section {
            meta,
            placement,
            count,
            id_len,
            rich,
            ids,
        })
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[at..at + N]);
    out
}

impl<'a> Iterator for Sections<'a> {
    type Item = Result<Section<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let section = self.read();
        if section.is_err() {
            self.rest = &[];
        }
        Some(section)
    }
}

impl<'a> Section<'a> {
    /// The ids with their extras. Lengths were checked when the section was read.
    pub(crate) fn ids(&self) -> impl Iterator<Item = (&'a [u8], Option<&'a [u8]>)> + use<'a> {
        let (mut rest, rich, id_len) = (self.ids, self.rich, usize::from(self.id_len));
        (0..self.count).map(move |_| {
            let (id, behind) = rest.split_at(id_len);
            if !rich {
                rest = behind;
                return (id, None);
            }
            let len = usize::from(u16::from_le_bytes(take(behind, 0)));
            rest = &behind[2 + len..];
            (id, Some(&behind[2..2 + len]))
        })
    }

    /// Bytes of the ids' extras.
    pub(crate) fn extras_bytes(&self) -> u64 {
        if !self.rich {
            return 0;
        }
        let beside = self.count as usize * (usize::from(self.id_len) + 2);
        (self.ids.len() - beside) as u64
    }

    /// The extras' length of rich ids is needed to size an active set.
    pub(crate) fn words(&self) -> usize {
        let ids = self.ids();
        let each = ids.map(|(id, extras)| {
            super::active::ActiveSet::words_for(id.len(), extras.map(<[u8]>::len))
        });
        super::active::ActiveSet::SECTION_WORDS + each.sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn meta(expiry_ms: u64) -> Meta {
        let stamp = Stamp {
            scope: 0x0102,
            version: 3,
        };
        Meta {
            stamp,
            state: State::Seen,
            over: false,
            expiry_ms,
        }
    }

    const PLACE: Slice = Slice {
        end_ms: 0x1122,
        class: 4,
    };

    #[test]
    fn a_section_is_golden() {
        let mut log = LogBuilder::default();
        log.add(1, &meta(0x0a0b), PLACE, b"ab", None);
        log.add(2, &meta(0x0a0b), PLACE, b"cd", None);
        log.finish();
        let mut expected = vec![0, 2, 1, 3, 4, 0x0b, 0x0a, 0, 0, 0, 0, 0, 0];
        expected.extend([0x22, 0x11, 0, 0, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0]);
        expected.extend(b"abcd");
        assert_eq!(log.value(), expected);
        assert_eq!(log.hashes(), [1, 2]);
    }

    #[test]
    fn what_was_added_is_read_back() {
        let mut log = LogBuilder::default();
        let forgotten = Meta {
            state: State::Forgotten,
            over: true,
            ..meta(9)
        };
        let ids = [
            (meta(5), "a", None),
            (meta(5), "bb", None),
            (meta(5), "cc", Some("more")),
            (meta(5), "dd", Some("")),
            (forgotten, "dd", None),
        ];
        let ids = ids.map(|(m, id, more)| (m, id.as_bytes(), more.map(str::as_bytes)));
        for (meta, id, extras) in &ids {
            log.add(7, meta, PLACE, id, *extras);
        }
        log.finish();
        let mut back = Vec::new();
        for section in Sections::new(log.value()) {
            let section = section.unwrap();
            let extras = section
                .ids()
                .map(|(_, extras)| extras.map_or(0, <[u8]>::len) as u64);
            assert_eq!(section.extras_bytes(), extras.sum::<u64>());
            back.extend(section.ids().map(|(id, extras)| (section.meta, id, extras)));
        }
        assert_eq!(back, ids);
    }

    #[test]
    fn a_section_has_ids_and_a_possible_slice() {
        let mut log = LogBuilder::default();
        log.add(1, &meta(5), PLACE, b"a", None);
        log.finish();
        for (at, wrong) in [(4, 32), (4, 31), (21, 0), (23, 0)] {
            let mut bytes = log.value().to_vec();
            bytes[at] = wrong;
            assert!(Sections::new(&bytes).any(|s| s.is_err()), "{wrong} at {at}");
            // A count is no promise: with empty ids there could be four thousand million.
            bytes[23..27].copy_from_slice(&[0xff; 4]);
            assert!(Sections::new(&bytes).any(|s| s.is_err()), "{wrong} at {at}");
        }
        assert!(log_number(&[0xff; 8]).is_err());
    }

    #[test]
    fn damage_is_an_error_and_never_a_panic() {
        let mut log = LogBuilder::default();
        log.add(1, &meta(5), PLACE, b"abc", Some(b"x"));
        log.add(1, &meta(5), PLACE, b"abc", None);
        log.finish();
        for cut in 1..log.value().len() {
            let whole = Sections::new(&log.value()[..cut]).all(|s| s.is_ok());
            // A cut between the sections is a shorter record, any other an error.
            assert_eq!(whole, cut == HEADER_BYTES + 3 + 2 + 1, "{cut}");
        }
        for at in 0..log.value().len() {
            let mut bytes = log.value().to_vec();
            bytes[at] ^= 0xff;
            for section in Sections::new(&bytes).flatten() {
                assert!(section.ids().count() == section.count as usize);
            }
        }
    }
}
