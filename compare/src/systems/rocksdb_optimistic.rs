//! RocksDB's optimistic transactions: one transaction a batch, each id read for update, put if
//! missing, the whole repeated when another writer came between.

use std::path::Path;

use rocksdb::{ErrorKind, OptimisticTransactionDB, OptimisticTransactionOptions, WriteOptions};

use super::rocksdb_settings::{self, ROWS, any_database};
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::Rows;

pub const SETTINGS: &str = "RocksDB, OptimisticTransactionDB, one transaction a batch: \
    get_for_update, put if missing, commit, again on conflict; options as rocksdb_get_put";

pub struct RocksdbOptimistic {
    db: OptimisticTransactionDB,
    writing: WriteOptions,
}

impl RocksdbOptimistic {
    pub fn open(dir: &Path, setup: Setup) -> Result<RocksdbOptimistic> {
        let options = rocksdb_settings::reading(setup);
        let families = rocksdb_settings::families(&options);
        let db = OptimisticTransactionDB::open_cf_descriptors(&options, dir, families)?;
        Ok(RocksdbOptimistic {
            db,
            writing: rocksdb_settings::writing(setup),
        })
    }

    fn write(&self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        loop {
            let result = self.try_once(ids, rows);
            match result {
                Err(e) if is_conflict(&e) => {}
                other => return Ok(Some(other?)),
            }
        }
    }

    fn try_once(
        &self,
        ids: &[impl Key],
        rows: Option<&Rows>,
    ) -> std::result::Result<u64, rocksdb::Error> {
        let family = self.db.cf_handle(ROWS);
        let how = OptimisticTransactionOptions::default();
        let transaction = self.db.transaction_opt(&self.writing, &how);
        let mut firsts = 0;
        for id in ids {
            let id = id.as_ref();
            if transaction.get_pinned_for_update(id, true)?.is_some() {
                continue;
            }
            transaction.put(id, [])?;
            if let (Some(rows), Some(family)) = (rows, &family) {
                transaction.put_cf(family, id, rows.of(id))?;
            }
            firsts += 1;
        }
        transaction.commit()?;
        Ok(firsts)
    }
}

fn is_conflict(e: &rocksdb::Error) -> bool {
    matches!(e.kind(), ErrorKind::Busy | ErrorKind::TryAgain)
}

impl Worker for &RocksdbOptimistic {
    writes_any!();
}

impl System for RocksdbOptimistic {
    any_database!();
}
