//! The hand-written way: under a lock, look the batch up, put what is missing.
//!
//! The lock is what makes it right with several threads. A batch is looked up by one sorted
//! MultiGet, RocksDB's fastest way to read many keys.

use std::path::Path;

use parking_lot::Mutex;
use rocksdb::{DB, WriteBatch, WriteOptions};

use super::rocksdb_settings::{self, ROWS, any_database};
use super::sorted::sorted;
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::Rows;

pub const SETTINGS: &str = "RocksDB, sorted MultiGet then a write batch under one lock; as \
    rocksdb_blind, with memtable filters and a 1 GiB block cache";

pub struct RocksdbGetPut {
    db: DB,
    writing: WriteOptions,
    lock: Mutex<()>,
}

impl RocksdbGetPut {
    pub fn open(dir: &Path, setup: Setup) -> Result<RocksdbGetPut> {
        let db = rocksdb_settings::open(dir, &rocksdb_settings::reading(setup))?;
        Ok(RocksdbGetPut {
            db,
            writing: rocksdb_settings::writing(setup),
            lock: Mutex::default(),
        })
    }

    fn write(&self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let family = self.db.cf_handle(ROWS).ok_or("no family of rows")?;
        let _one_at_a_time = self.lock.lock();
        let ids = sorted(ids);
        let missing = missing(&self.db, &ids)?;
        if missing.is_empty() {
            return Ok(Some(0));
        }
        let mut batch = WriteBatch::default();
        for id in &missing {
            let id = id.as_ref();
            batch.put(id, []);
            if let Some(rows) = rows {
                batch.put_cf(&family, id, rows.of(id));
            }
        }
        self.db.write_opt(batch, &self.writing)?;
        Ok(Some(missing.len() as u64))
    }
}

/// Those of the sorted ids that aren't stored.
fn missing<'a, K: Key>(db: &DB, ids: &'a [K]) -> Result<Vec<&'a K>> {
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

impl Worker for &RocksdbGetPut {
    writes_any!();
}

impl System for RocksdbGetPut {
    any_database!();
}
