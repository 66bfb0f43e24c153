//! RocksDB with plain puts and no check: the ceiling of deduplicating on it the usual way.
//!
//! It can't tell a duplicate, so it is a measure and not a choice. With rows it writes the rows
//! alone, which is what the program would write if it didn't deduplicate at all.

use std::path::Path;

use rocksdb::{DB, WriteBatch};

use super::rocksdb_settings::{self, ROWS, settle_and_close};
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "RocksDB, one write batch of plain puts, no check; skip-list memtable \
    128 MB x4, WAL on, LZ4, 10-bit filters, 2 background jobs; with rows: the rows alone";

pub struct RocksdbBlind {
    db: DB,
}

impl RocksdbBlind {
    pub fn open(dir: &Path) -> Result<RocksdbBlind> {
        Ok(RocksdbBlind {
            db: rocksdb_settings::open(dir, &rocksdb_settings::pinned())?,
        })
    }
}

impl System for RocksdbBlind {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        let mut batch = WriteBatch::default();
        for id in ids {
            batch.put(id, []);
        }
        self.db.write(batch)?;
        Ok(None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        let family = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
        let mut batch = WriteBatch::default();
        for id in ids {
            batch.put_cf(&family, id, rows.of(id));
        }
        self.db.write(batch)?;
        Ok(None)
    }

    settle_and_close!();
}
