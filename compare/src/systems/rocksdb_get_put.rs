//! The hand-written way: under a lock, look the batch up, put what is missing.
//!
//! The lock is what makes it right with several threads. A batch is looked up by one sorted
//! MultiGet, RocksDB's fastest way to read many keys.

use std::path::Path;

use parking_lot::Mutex;
use rocksdb::{DB, WriteBatch};

use super::rocksdb_settings::{self, ROWS, settle_and_close};
use super::sorted::Sorted;
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "RocksDB, sorted MultiGet then a write batch under one lock; as \
    rocksdb_blind, with memtable filters and a 1 GiB block cache";

pub struct RocksdbGetPut {
    db: DB,
    sorted: Mutex<Sorted>,
}

impl RocksdbGetPut {
    pub fn open(dir: &Path) -> Result<RocksdbGetPut> {
        let db = rocksdb_settings::open(dir, &rocksdb_settings::reading())?;
        Ok(RocksdbGetPut {
            db,
            sorted: Mutex::default(),
        })
    }

    fn write_missing(&self, ids: &[Id], rows: Option<&Rows>) -> Result<Option<u64>> {
        let family = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
        let mut buffer = self.sorted.lock();
        let ids = buffer.of(ids);
        let missing = missing(&self.db, ids)?;
        if missing.is_empty() {
            return Ok(Some(0));
        }
        let mut batch = WriteBatch::default();
        for id in &missing {
            batch.put(id, []);
            if let Some(rows) = rows {
                batch.put_cf(&family, id, rows.of(id));
            }
        }
        self.db.write(batch)?;
        Ok(Some(missing.len() as u64))
    }
}

/// Those of the sorted ids that aren't stored.
fn missing<'a>(db: &DB, ids: &'a [Id]) -> Result<Vec<&'a Id>> {
    if let [id] = ids {
        let found = db.get_pinned(id)?.is_some();
        return Ok(if found { Vec::new() } else { vec![id] });
    }
    let family = db
        .cf_handle(rocksdb::DEFAULT_COLUMN_FAMILY_NAME)
        .ok_or("no family of ids")?;
    let mut missing = Vec::with_capacity(ids.len());
    for (id, found) in ids.iter().zip(db.batched_multi_get_cf(&family, ids, true)) {
        if found?.is_none() {
            missing.push(id);
        }
    }
    Ok(missing)
}

impl System for RocksdbGetPut {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write_missing(ids, None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        self.write_missing(ids, Some(rows))
    }

    settle_and_close!();
}
