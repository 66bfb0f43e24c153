//! RocksDB's optimistic transactions: one transaction a batch, each id read for update, put if
//! missing, the whole repeated when another writer came between.

use std::path::Path;

use rocksdb::{ErrorKind, OptimisticTransactionDB};

use super::rocksdb_settings::{self, ROWS, settle_and_close};
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "RocksDB, OptimisticTransactionDB, one transaction a batch: \
    get_for_update, put if missing, commit, again on conflict; options as rocksdb_get_put";

pub struct RocksdbOptimistic {
    db: OptimisticTransactionDB,
}

impl RocksdbOptimistic {
    pub fn open(dir: &Path) -> Result<RocksdbOptimistic> {
        let options = rocksdb_settings::reading();
        let families = rocksdb_settings::families(&options);
        let db = OptimisticTransactionDB::open_cf_descriptors(&options, dir, families)?;
        Ok(RocksdbOptimistic { db })
    }

    fn write_missing(&self, ids: &[Id], rows: Option<&Rows>) -> Result<Option<u64>> {
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
        ids: &[Id],
        rows: Option<&Rows>,
    ) -> std::result::Result<u64, rocksdb::Error> {
        let family = self.db.cf_handle(ROWS);
        let transaction = self.db.transaction();
        let mut firsts = 0;
        for id in ids {
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

impl System for RocksdbOptimistic {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write_missing(ids, None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        self.write_missing(ids, Some(rows))
    }

    settle_and_close!();
}
