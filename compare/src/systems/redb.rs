//! redb, a copy-on-write B-tree in Rust: one transaction a batch, insert if missing.
//!
//! redb knows only commits that are fsynced and commits that a crash of the process loses. The
//! first kind would compare an fsync with none, so it gets the second kind with a durable commit
//! now and then: a weaker promise than the others give. In synced workloads each is durable.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use redb::{
    Database, Durability, Key as TableKey, ReadableDatabase, ReadableTable, TableDefinition,
};

use super::sorted::sorted;
use super::{Result, Setup, System, Worker};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "redb, one transaction a batch of sorted ids, insert if missing; \
    Durability::None with an immediate commit every 20,000 ids (weaker than the others: a crash \
    of the process loses what came after it; synced workloads: each immediate), 1 GiB cache";

const IDS: TableDefinition<&Id, ()> = TableDefinition::new("ids");
const ANY: TableDefinition<&[u8], ()> = TableDefinition::new("any");
const ROWS: TableDefinition<&Id, &[u8]> = TableDefinition::new("rows");
const IDS_PER_DURABLE_COMMIT: usize = 20_000;

pub struct Redb {
    db: Database,
    undurable: AtomicUsize,
    ids_per_durable_commit: usize,
}

impl Redb {
    pub fn open(dir: &Path, setup: Setup) -> Result<Redb> {
        let db = Database::builder()
            .set_cache_size(usize::try_from(setup.peer_cache())?)
            .create(dir.join("ids.redb"))?;
        let every = if setup.synced() {
            1
        } else {
            IDS_PER_DURABLE_COMMIT
        };
        let redb = Redb {
            db,
            undurable: AtomicUsize::new(0),
            ids_per_durable_commit: every,
        };
        redb.settle()?;
        Ok(redb)
    }

    /// One transaction: those of the sorted ids that `table` lacks are inserted, with rows.
    fn write<'k, K, T>(
        &self,
        ids: &'k [T],
        table: TableDefinition<K, ()>,
        key: impl Fn(&'k T) -> K::SelfType<'k>,
        mut row: impl FnMut(&'k T, &mut redb::Table<'_, &Id, &[u8]>) -> Result<()>,
    ) -> Result<Option<u64>>
    where
        K: TableKey + 'static,
    {
        let mut transaction = self.db.begin_write()?;
        // Only the one writer is here.
        let undurable = self.undurable.load(Ordering::Relaxed) + ids.len();
        if undurable < self.ids_per_durable_commit {
            transaction.set_durability(Durability::None)?;
            self.undurable.store(undurable, Ordering::Relaxed);
        } else {
            self.undurable.store(0, Ordering::Relaxed);
        }
        let mut firsts = 0;
        {
            let mut seen = transaction.open_table(table)?;
            let mut rows = transaction.open_table(ROWS)?;
            for id in ids {
                if seen.get(key(id))?.is_some() {
                    continue;
                }
                seen.insert(key(id), ())?;
                row(id, &mut rows)?;
                firsts += 1;
            }
        }
        transaction.commit()?;
        Ok(Some(firsts))
    }
}

impl Worker for &Redb {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write(&sorted(ids), IDS, |id| id, |_, _| Ok(()))
    }

    fn insert_any(&mut self, ids: &[&[u8]]) -> Result<Option<u64>> {
        self.write(&sorted(ids), ANY, |id| *id, |_, _| Ok(()))
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        let put = |id: &Id, table: &mut redb::Table<'_, &Id, &[u8]>| {
            table.insert(id, rows.of(id))?;
            Ok(())
        };
        self.write(&sorted(ids), IDS, |id| id, put)
    }
}

impl System for Redb {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(self))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        Ok(table.get(id)?.map(|row| row.value().to_vec()))
    }

    fn settle(&self) -> Result<()> {
        let transaction = self.db.begin_write()?;
        transaction.open_table(IDS)?;
        transaction.open_table(ANY)?;
        transaction.open_table(ROWS)?;
        transaction.commit()?;
        self.undurable.store(0, Ordering::Relaxed);
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.db.close()?;
        Ok(())
    }
}
