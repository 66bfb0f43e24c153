//! redb, a copy-on-write B-tree in Rust: one transaction a batch, insert if missing.
//!
//! redb knows only commits that are fsynced and commits that a crash of the process loses. The
//! first kind would compare an fsync with none, so it gets the second kind with a durable commit
//! now and then: a weaker promise than the others give.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, TableDefinition};

use super::sorted::Sorted;
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "redb, one transaction a batch of sorted ids, insert if missing; \
    Durability::None with an immediate commit every 20,000 ids (weaker than the others: a crash \
    of the process loses what came after it), 1 GiB cache";

const IDS: TableDefinition<&Id, ()> = TableDefinition::new("ids");
const ROWS: TableDefinition<&Id, &[u8]> = TableDefinition::new("rows");
const CACHE_BYTES: usize = 1 << 30;
const IDS_PER_DURABLE_COMMIT: usize = 20_000;

pub struct Redb {
    db: Database,
    sorted: Sorted,
    undurable: usize,
}

impl Redb {
    pub fn open(dir: &Path) -> Result<Redb> {
        let db = Database::builder()
            .set_cache_size(CACHE_BYTES)
            .create(dir.join("ids.redb"))?;
        let mut redb = Redb {
            db,
            sorted: Sorted::default(),
            undurable: 0,
        };
        redb.settle()?;
        Ok(redb)
    }

    fn write_missing(&mut self, ids: &[Id], rows: Option<&Rows>) -> Result<Option<u64>> {
        self.undurable += ids.len();
        let mut transaction = self.db.begin_write()?;
        if self.undurable < IDS_PER_DURABLE_COMMIT {
            transaction.set_durability(Durability::None)?;
        } else {
            self.undurable = 0;
        }
        let mut firsts = 0;
        {
            let mut seen = transaction.open_table(IDS)?;
            let mut put = transaction.open_table(ROWS)?;
            for id in self.sorted.of(ids) {
                if seen.get(id)?.is_some() {
                    continue;
                }
                seen.insert(id, ())?;
                if let Some(rows) = rows {
                    put.insert(id, rows.of(id))?;
                }
                firsts += 1;
            }
        }
        transaction.commit()?;
        Ok(Some(firsts))
    }
}

impl System for Redb {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write_missing(ids, None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        self.write_missing(ids, Some(rows))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let table = self.db.begin_read()?.open_table(ROWS)?;
        Ok(table.get(id)?.map(|row| row.value().to_vec()))
    }

    fn settle(&mut self) -> Result<()> {
        let transaction = self.db.begin_write()?;
        transaction.open_table(IDS)?;
        transaction.open_table(ROWS)?;
        transaction.commit()?;
        self.undurable = 0;
        Ok(())
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.settle()?;
        self.db.close()?;
        Ok(())
    }
}
