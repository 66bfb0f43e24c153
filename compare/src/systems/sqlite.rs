//! SQLite: a table whose primary key is the id, INSERT OR IGNORE, one transaction a batch.

use std::path::Path;

use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::sorted::Sorted;
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "SQLite, INSERT OR IGNORE into a WITHOUT ROWID table, one transaction \
    a batch of sorted ids; WAL mode, synchronous=NORMAL, exclusive lock, 1 GiB cache, mmap, \
    checkpoint at 64 MB";

const SETUP: &str = "
    PRAGMA page_size = 4096;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = NORMAL;
    PRAGMA cache_size = -1048576;
    PRAGMA mmap_size = 8589934592;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 16384;
    CREATE TABLE ids (id BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE rows (id BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
";

pub struct Sqlite {
    db: Connection,
    sorted: Sorted,
}

impl Sqlite {
    pub fn open(dir: &Path) -> Result<Sqlite> {
        let db = Connection::open(dir.join("ids.sqlite"))?;
        db.execute_batch(SETUP)?;
        Ok(Sqlite {
            db,
            sorted: Sorted::default(),
        })
    }

    fn write_missing(&mut self, ids: &[Id], rows: Option<&Rows>) -> Result<Option<u64>> {
        let ids = self.sorted.of(ids);
        let transaction = self
            .db
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut firsts = 0;
        {
            let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO ids VALUES (?1)")?;
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?;
            for id in ids {
                if insert.execute([&id[..]])? == 0 {
                    continue;
                }
                firsts += 1;
                if let Some(rows) = rows {
                    put.execute([&id[..], rows.of(id)])?;
                }
            }
        }
        transaction.commit()?;
        Ok(Some(firsts))
    }

    fn checkpoint(&self) -> Result<()> {
        self.db
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
        Ok(())
    }
}

impl System for Sqlite {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write_missing(ids, None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        self.write_missing(ids, Some(rows))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let mut get = self
            .db
            .prepare_cached("SELECT row FROM rows WHERE id = ?1")?;
        Ok(get.query_row([&id[..]], |row| row.get(0)).optional()?)
    }

    fn settle(&mut self) -> Result<()> {
        self.checkpoint()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.checkpoint()?;
        self.db.close().map_err(|(_, e)| e)?;
        Ok(())
    }
}
