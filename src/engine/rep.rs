//! A write batch in RocksDB's own representation, built without a call per record.
//!
//! Format (RocksDB's `write_batch.cc`): 8 bytes sequence, 4 bytes count, both little-endian,
//! then records: `0x05 varint(family) varint(len) key varint(len) value` for a put,
//! `0x04 varint(family) varint(len) key` for a delete. Families here are never the default
//! one, so the short forms do not occur.
//!
//! A `Rep` without its header is a *body*: bodies concatenate, which is how many commits become
//! one write.
//!
//! A key may be *numbered*: it is the next number of its family, which only the leader can draw
//! (protocol step 8), since the order of commits is its to say. Where such keys stand is kept
//! beside the body, and they are filled in as the body is written.

use std::sync::Arc;

use crate::sync::atomic::{AtomicU64, Ordering};

const PUT: u8 = 0x05;
const DELETE: u8 = 0x04;
/// Sequence and count.
const HEADER_BYTES: usize = 12;

/// Records of a batch, counted.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rep {
    body: Vec<u8>,
    count: u32,
    /// Where numbered keys begin, ascending, and who numbers them.
    numbered: Vec<(usize, Arc<Numbering>)>,
}

/// A numbered key: u64 big-endian, so that keys ascend as numbers do.
pub(crate) const NUMBERED_KEY_BYTES: usize = 8;

/// The numbers of a family's rows: from 1, in the order of commits, without a gap.
///
/// The leader alone draws, and says whether what it drew was written; the numbers of a write that
/// failed are drawn again. All others see only what was written.
#[derive(Debug)]
pub(crate) struct Numbering {
    drawn: AtomicU64,
    written: AtomicU64,
}

impl Numbering {
    /// `last`: the number of the last row there is; 0: none.
    pub(crate) fn new(last: u64) -> Numbering {
        Numbering {
            drawn: AtomicU64::new(last),
            written: AtomicU64::new(last),
        }
    }

    /// The last number that is written.
    pub(crate) fn last(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    fn draw(&self) -> u64 {
        self.drawn.fetch_add(1, Ordering::Relaxed) + 1
    }
}

impl Rep {
    pub(crate) fn put(&mut self, family: u32, key: &[u8], value: &[u8]) {
        self.body.push(PUT);
        varint(&mut self.body, family);
        sized(&mut self.body, key);
        sized(&mut self.body, value);
        self.count += 1;
    }

    pub(crate) fn delete(&mut self, family: u32, key: &[u8]) {
        self.body.push(DELETE);
        varint(&mut self.body, family);
        sized(&mut self.body, key);
        self.count += 1;
    }

    /// A put under a numbered key.
    pub(crate) fn put_numbered(&mut self, family: u32, numbering: &Arc<Numbering>, value: &[u8]) {
        self.put(family, &[0; NUMBERED_KEY_BYTES], value);
        let behind = varint_bytes(value.len()) + value.len();
        let at = self.body.len() - behind - NUMBERED_KEY_BYTES;
        self.numbered.push((at, Arc::clone(numbering)));
    }

    /// Appends all records of another `Rep`.
    pub(crate) fn append(&mut self, other: &Rep) {
        let start = self.body.len();
        self.copy(&other.body, other.count);
        let numbered = other.numbered.iter();
        self.numbered
            .extend(numbered.map(|(at, numbering)| (start + at, Arc::clone(numbering))));
    }

    /// Appends the records to a batch that is written as bytes, with numbers drawn for their
    /// keys; the leader's. [`Rep::end_numbers`] must follow.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.body);
        for (at, numbering) in &self.numbered {
            let key = &mut out[start + at..][..NUMBERED_KEY_BYTES];
            key.copy_from_slice(&numbering.draw().to_be_bytes());
        }
    }

    /// Shows the numbers that were drawn, or takes them back if the write failed.
    pub(crate) fn end_numbers(&self, is_written: bool) {
        for (_, numbering) in &self.numbered {
            let (from, to) = match is_written {
                true => (&numbering.drawn, &numbering.written),
                false => (&numbering.written, &numbering.drawn),
            };
            to.store(from.load(Ordering::Relaxed), Ordering::Release);
        }
    }

    /// Appends records, none with a numbered key, that another `Rep` holds between two of its
    /// lengths.
    pub(crate) fn copy(&mut self, body: &[u8], count: u32) {
        self.body.extend_from_slice(body);
        self.count += count;
    }

    /// The records: family, key, and the value unless it is a delete.
    pub(crate) fn records(&self) -> impl Iterator<Item = (u32, &[u8], Option<&[u8]>)> {
        let mut rest = &self.body[..];
        std::iter::from_fn(move || {
            let (&kind, after) = rest.split_first()?;
            let (family, after) = take_varint(after)?;
            let (key, after) = take_sized(after)?;
            let (value, after) = match kind {
                PUT => take_sized(after).map(|(value, after)| (Some(value), after))?,
                _ => (None, after),
            };
            rest = after;
            Some((family, key, value))
        })
    }

    /// The last record of a row: its value, or that it is deleted; `None` if there is none.
    pub(crate) fn last(&self, family: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let records = self.records().filter(|r| r.0 == family && r.1 == key);
        records.last().map(|(_, _, value)| value)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.body
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes back everything after an earlier length and count.
    pub(crate) fn truncate(&mut self, body: usize, count: u32) {
        self.body.truncate(body);
        self.count = count;
        while self.numbered.last().is_some_and(|(at, _)| *at >= body) {
            self.numbered.pop();
        }
    }

    pub(crate) fn clear(&mut self) {
        self.body.clear();
        self.count = 0;
        self.numbered.clear();
    }

    /// Starts a whole batch in `out`; records are appended behind it.
    pub(crate) fn start(out: &mut Vec<u8>) {
        out.clear();
        out.resize(HEADER_BYTES, 0);
    }

    /// Appends a put to a batch that is being written as bytes.
    pub(crate) fn put_into(out: &mut Vec<u8>, family: u32, key: &[u8], value: &[u8]) {
        out.push(PUT);
        varint(out, family);
        sized(out, key);
        sized(out, value);
    }

    /// Ends a whole batch: sets its count.
    pub(crate) fn finish(out: &mut [u8], count: u32) {
        out[8..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// This body, without numbered keys, as a whole batch.
    pub(crate) fn whole(&self) -> Vec<u8> {
        debug_assert!(self.numbered.is_empty(), "numbers are the leader's to draw");
        let mut out = Vec::with_capacity(HEADER_BYTES + self.body.len());
        Rep::start(&mut out);
        out.extend_from_slice(&self.body);
        Rep::finish(&mut out, self.count);
        out
    }
}

/// The family number of a batch that holds one put into it. The crate has no getter for it.
pub(super) fn family_of(batch: &[u8]) -> Option<u32> {
    let record = batch.get(HEADER_BYTES..)?;
    let (&PUT, rest) = record.split_first()? else {
        return None;
    };
    take_varint(rest).map(|(number, _)| number)
}

/// A put's key and value, or a delete's key.
#[cfg(feature = "raw")]
pub(crate) type Record<'a> = (&'a [u8], Option<&'a [u8]>);

/// The records of a caller's batch: puts and deletes of the default family, nothing else.
#[cfg(feature = "raw")]
pub(crate) fn records(batch: &[u8]) -> crate::error::Result<Vec<Record<'_>>> {
    use crate::error::Error;
    let wrong = || Error::invalid("the RocksDB batch is not well formed");
    let mut rest = batch.get(HEADER_BYTES..).ok_or_else(wrong)?;
    let mut records = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        let (key, after_key) = take_sized(after).ok_or_else(wrong)?;
        rest = after_key;
        match kind {
            DEFAULT_PUT => {
                let (value, after) = take_sized(rest).ok_or_else(wrong)?;
                rest = after;
                records.push((key, Some(value)));
            }
            DEFAULT_DELETE => records.push((key, None)),
            _ => {
                return Err(Error::invalid(
                    "a RocksDB batch may only put and delete rows of the default family",
                ));
            }
        }
    }
    Ok(records)
}

#[cfg(feature = "raw")]
const DEFAULT_PUT: u8 = 0x01;
#[cfg(feature = "raw")]
const DEFAULT_DELETE: u8 = 0x00;

fn take_sized(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (len, rest) = take_varint(bytes)?;
    rest.split_at_checked(len as usize)
}

fn take_varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0_u32;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        number |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((number, bytes.get(i + 1..)?));
        }
    }
    None
}

fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    varint(
        out,
        u32::try_from(bytes.len()).expect("keys and values are bounded far below 4 GiB"),
    );
    out.extend_from_slice(bytes);
}

fn varint_bytes(n: usize) -> usize {
    let bits = (usize::BITS - n.leading_zeros()).max(1) as usize;
    bits.div_ceil(7)
}

fn varint(out: &mut Vec<u8>, mut n: u32) {
    while n >= 0x80 {
        out.push((n as u8 & 0x7f) | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The representation equals the one RocksDB itself writes, default family aside.
    #[test]
    fn records_are_golden() {
        let mut rep = Rep::default();
        rep.put(300, b"key", b"value");
        rep.delete(1, b"k");
        let mut expected = vec![0; 8];
        expected.extend([2, 0, 0, 0]);
        expected.extend([
            5, 0xac, 0x02, 3, b'k', b'e', b'y', 5, b'v', b'a', b'l', b'u', b'e',
        ]);
        expected.extend([4, 1, 1, b'k']);
        assert_eq!(rep.whole(), expected);
        assert_eq!(rep.last(300, b"key"), Some(Some(&b"value"[..])));
        assert_eq!(rep.last(1, b"k"), Some(None));
        assert_eq!((rep.last(1, b"key"), rep.last(300, b"k")), (None, None));
        assert_eq!(family_of(&rep.whole()), Some(300));
        assert_eq!(family_of(&[0; 12]), None);
    }

    #[test]
    fn numbered_keys_are_filled_in_wherever_their_records_came_from() {
        let (own, other) = (
            Arc::new(Numbering::new(0x0101)),
            Arc::new(Numbering::new(0)),
        );
        let mut part = Rep::default();
        part.put(1, b"k", b"v");
        part.put_numbered(300, &other, &[7; 200]);
        let mut rep = Rep::default();
        rep.put_numbered(2, &own, b"");
        let (body, count) = (rep.body().len(), rep.count());
        rep.put_numbered(2, &own, b"taken back");
        rep.truncate(body, count);
        rep.append(&part);
        rep.append(&part);
        let key = |n: u16| [&[0; 6][..], &n.to_be_bytes()].concat();
        let mut expected = vec![9, 9, 5, 2, 8];
        expected.extend(key(0x0102));
        expected.push(0);
        for n in [1, 2] {
            expected.extend([5, 1, 1, b'k', 1, b'v', 5, 0xac, 0x02, 8]);
            expected.extend(key(n));
            expected.extend([0xc8, 0x01]);
            expected.extend([7; 200]);
        }
        // A write that failed leaves no gap, and shows nothing.
        for is_written in [false, true] {
            let mut out = vec![9, 9];
            rep.write_to(&mut out);
            assert_eq!(out, expected);
            assert_eq!((own.last(), other.last()), (0x0101, 0));
            rep.end_numbers(is_written);
        }
        assert_eq!((own.last(), other.last()), (0x0102, 2));
        assert_eq!(rep.count(), 5);
        rep.clear();
        rep.put(1, b"k", b"v");
        let mut again = Vec::new();
        rep.write_to(&mut again);
        assert_eq!(again, [5, 1, 1, b'k', 1, b'v']);
    }

    #[test]
    fn rocksdb_reads_what_we_write() {
        struct Seen(Vec<(u32, Vec<u8>, Option<Vec<u8>>)>);
        impl rocksdb::WriteBatchIteratorCf for Seen {
            fn put_cf(&mut self, cf: u32, key: &[u8], value: &[u8]) {
                self.0.push((cf, key.to_vec(), Some(value.to_vec())));
            }
            fn delete_cf(&mut self, cf: u32, key: &[u8]) {
                self.0.push((cf, key.to_vec(), None));
            }
            fn merge_cf(&mut self, _: u32, _: &[u8], _: &[u8]) {
                panic!("no merge was written");
            }
        }
        let mut rep = Rep::default();
        let long = vec![7; 70_000];
        rep.put(9, &long, &long);
        rep.delete(9, b"x");
        let batch = rocksdb::WriteBatch::from_data(&rep.whole());
        assert_eq!(batch.len(), 2);
        let mut seen = Seen(Vec::new());
        batch.iterate_cf(&mut seen);
        assert_eq!(
            seen.0,
            [(9, long.clone(), Some(long)), (9, b"x".to_vec(), None)]
        );
    }
}
