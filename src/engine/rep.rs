//! A write batch in RocksDB's own representation, built without a call per record.
//!
//! Format (RocksDB's `write_batch.cc`): 8 bytes sequence, 4 bytes count, both little-endian,
//! then records: `0x05 varint(family) varint(len) key varint(len) value` for a put,
//! `0x04 varint(family) varint(len) key` for a delete. Families here are never the default
//! one, so the short forms do not occur.
//!
//! A `Rep` without its header is a *body*: bodies concatenate, which is how many commits become
//! one write.

const PUT: u8 = 0x05;
const DELETE: u8 = 0x04;
/// Sequence and count.
const HEADER_BYTES: usize = 12;

/// Records of a batch, counted.
#[derive(Debug, Default, Clone)]
pub(crate) struct Rep {
    body: Vec<u8>,
    count: u32,
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

    /// Appends records that another `Rep` holds between two of its lengths.
    pub(crate) fn copy(&mut self, body: &[u8], count: u32) {
        self.body.extend_from_slice(body);
        self.count += count;
    }

    /// The last record of a row: its value, or that it is deleted; `None` if there is none.
    pub(crate) fn last(&self, family: u32, key: &[u8]) -> Option<Option<&[u8]>> {
        let mut rest = &self.body[..];
        let mut found = None;
        while let Some((&kind, after)) = rest.split_first() {
            let (number, after) = take_varint(after)?;
            let (record_key, after) = take_sized(after)?;
            let (value, after) = match kind {
                PUT => take_sized(after).map(|(value, after)| (Some(value), after))?,
                _ => (None, after),
            };
            if number == family && record_key == key {
                found = Some(value);
            }
            rest = after;
        }
        found
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
    }

    pub(crate) fn clear(&mut self) {
        self.body.clear();
        self.count = 0;
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

    /// This body as a whole batch.
    pub(crate) fn whole(&self) -> Vec<u8> {
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
