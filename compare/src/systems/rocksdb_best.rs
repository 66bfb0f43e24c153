//! The fastest blind RocksDB we know that can still be read: small memtables that stay in the
//! CPU's cache, sorted batches built as raw bytes, pipelined writes.
//!
//! Printed beside the pinned one for honesty: the pinned settings are common ones, not the best.

use std::path::Path;

use rocksdb::{DB, Options, WriteBatch, WriteOptions};

use super::rocksdb_settings::{self, ROWS, any_database};
use super::sorted::sorted;
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::Rows;

pub const SETTINGS: &str = "RocksDB, blind as rocksdb_blind but tuned for it: memtables 8 MB x16, \
    sorted batches built as raw bytes, pipelined writes, level 0 up to 16 files";

/// A write batch's header: 8 bytes of sequence number, then the count of records.
const HEADER_BYTES: usize = 12;
/// The longest id whose length is one byte.
const LENGTH_MAX: usize = 127;
/// The tag of a put into the default column family.
const PUT: u8 = 1;

pub struct RocksdbBest {
    db: DB,
    writing: WriteOptions,
}

/// A thread's buffer.
struct Writer<'a> {
    db: &'a DB,
    writing: &'a WriteOptions,
    bytes: Vec<u8>,
}

impl RocksdbBest {
    pub fn open(dir: &Path, setup: Setup) -> Result<RocksdbBest> {
        let db = rocksdb_settings::open(dir, &options(setup))?;
        Ok(RocksdbBest {
            db,
            writing: rocksdb_settings::writing(setup),
        })
    }
}

fn options(setup: Setup) -> Options {
    let mut options = rocksdb_settings::pinned(setup);
    options.set_write_buffer_size(8 << 20);
    options.set_max_write_buffer_number(16);
    options.set_enable_pipelined_write(true);
    options.set_level_zero_file_num_compaction_trigger(16);
    options.set_level_zero_slowdown_writes_trigger(64);
    options.set_level_zero_stop_writes_trigger(96);
    options
}

/// The bytes of a batch that puts each id with an empty value; `None` if an id's length needs
/// more than one byte.
fn encode<'a>(ids: &[impl Key], bytes: &'a mut Vec<u8>) -> Option<&'a [u8]> {
    bytes.clear();
    bytes.resize(HEADER_BYTES, 0);
    bytes[8..].copy_from_slice(&u32::try_from(ids.len()).ok()?.to_le_bytes());
    for id in ids {
        let id = id.as_ref();
        if id.len() > LENGTH_MAX {
            return None;
        }
        bytes.extend_from_slice(&[PUT, id.len() as u8]);
        bytes.extend_from_slice(id);
        bytes.push(0);
    }
    Some(bytes)
}

impl Writer<'_> {
    fn write(&mut self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let ids = sorted(ids);
        let batch = match rows {
            Some(rows) => {
                let family = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
                let mut batch = WriteBatch::default();
                for id in &ids {
                    batch.put_cf(&family, id, rows.of(id.as_ref()));
                }
                batch
            }
            None => match encode(&ids, &mut self.bytes) {
                Some(bytes) => WriteBatch::from_data(bytes),
                None => {
                    let mut batch = WriteBatch::default();
                    ids.iter().for_each(|id| batch.put(id, []));
                    batch
                }
            },
        };
        self.db.write_opt(batch, self.writing)?;
        Ok(None)
    }
}

impl Worker for Writer<'_> {
    writes_any!();
}

impl System for RocksdbBest {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(Writer {
            db: &self.db,
            writing: &self.writing,
            bytes: Vec::new(),
        }))
    }

    any_database!(but the worker);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_what_the_library_would() {
        let ids = [[1; 16], [2; 16]];
        let mut batch = WriteBatch::default();
        ids.iter().for_each(|id| batch.put(id, []));
        assert_eq!(encode(&ids, &mut Vec::new()), Some(batch.data()));
        assert_eq!(encode(&[&[7; 128][..]], &mut Vec::new()), None);
    }
}
