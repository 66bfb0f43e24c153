//! RocksDB with plain puts and no check: the ceiling of deduplicating on it the usual way.
//!
//! It can't tell a duplicate, so it is a measure and not a choice. With rows it writes the rows
//! alone, which is what the program would write if it didn't deduplicate at all.

use std::path::Path;

use rocksdb::{DB, WriteBatch, WriteOptions};

use super::rocksdb_settings::{self, ROWS, any_database};
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::Rows;

pub const SETTINGS: &str = "RocksDB, one write batch of plain puts, no check; skip-list memtable \
    128 MB x4, WAL on, LZ4, 10-bit filters, 2 background jobs; with rows: the rows alone";

pub struct RocksdbBlind {
    db: DB,
    writing: WriteOptions,
}

impl RocksdbBlind {
    pub fn open(dir: &Path, setup: Setup) -> Result<RocksdbBlind> {
        Ok(RocksdbBlind {
            db: rocksdb_settings::open(dir, &rocksdb_settings::pinned(setup))?,
            writing: rocksdb_settings::writing(setup),
        })
    }

    fn write(&self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let mut batch = WriteBatch::default();
        match rows {
            None => ids.iter().for_each(|id| batch.put(id, [])),
            Some(rows) => {
                let family = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
                for id in ids {
                    batch.put_cf(&family, id, rows.of(id.as_ref()));
                }
            }
        }
        self.db.write_opt(batch, &self.writing)?;
        Ok(None)
    }
}

impl Worker for &RocksdbBlind {
    writes_any!();
}

impl System for RocksdbBlind {
    any_database!();
}
