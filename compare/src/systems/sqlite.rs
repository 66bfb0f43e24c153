//! SQLite: a table whose primary key is the id, INSERT OR IGNORE, one transaction a batch.
//!
//! It has one writer at a time; threads share one connection, which is faster than several that
//! wait for each other's file lock.

use std::path::Path;

use parking_lot::Mutex;
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::sorted::sorted;
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "SQLite, INSERT OR IGNORE into a WITHOUT ROWID table, one transaction \
    a batch of sorted ids; WAL mode, synchronous=NORMAL (synced workloads: FULL), exclusive \
    lock, 1 GiB cache, mmap (none when larger than memory), checkpoint at 64 MB";

const SETUP: &str = "
    PRAGMA page_size = 4096;
    PRAGMA locking_mode = EXCLUSIVE;
    PRAGMA journal_mode = WAL;
    PRAGMA temp_store = MEMORY;
    PRAGMA wal_autocheckpoint = 16384;
    CREATE TABLE IF NOT EXISTS ids (id BLOB PRIMARY KEY) WITHOUT ROWID;
    CREATE TABLE IF NOT EXISTS rows (id BLOB PRIMARY KEY, row BLOB NOT NULL) WITHOUT ROWID;
";

pub struct Sqlite {
    db: Mutex<Connection>,
}

impl Sqlite {
    pub fn open(dir: &Path, setup: Setup) -> Result<Sqlite> {
        let db = Connection::open(dir.join("ids.sqlite"))?;
        db.execute_batch(SETUP)?;
        let synchronous = if setup.synced() { "FULL" } else { "NORMAL" };
        let mapped = match setup.cache_bytes {
            Some(_) => 0,
            None => 8_u64 << 30,
        };
        db.execute_batch(&format!(
            "PRAGMA synchronous = {synchronous};
             PRAGMA cache_size = -{};
             PRAGMA mmap_size = {mapped};",
            (setup.peer_cache() / 1024).max(64),
        ))?;
        Ok(Sqlite { db: Mutex::new(db) })
    }

    fn write(&self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let ids = sorted(ids);
        let mut db = self.db.lock();
        let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut firsts = 0;
        {
            let mut insert = transaction.prepare_cached("INSERT OR IGNORE INTO ids VALUES (?1)")?;
            let mut put =
                transaction.prepare_cached("INSERT OR REPLACE INTO rows VALUES (?1, ?2)")?;
            for id in &ids {
                let id = id.as_ref();
                if insert.execute([id])? == 0 {
                    continue;
                }
                firsts += 1;
                if let Some(rows) = rows {
                    put.execute([id, rows.of(id)])?;
                }
            }
        }
        transaction.commit()?;
        Ok(Some(firsts))
    }
}

fn checkpoint(db: &Connection) -> Result<()> {
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))?;
    Ok(())
}

impl Worker for &Sqlite {
    writes_any!();
}

impl System for Sqlite {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(self))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        let db = self.db.lock();
        let mut get = db.prepare_cached("SELECT row FROM rows WHERE id = ?1")?;
        Ok(get.query_row([&id[..]], |row| row.get(0)).optional()?)
    }

    fn settle(&self) -> Result<()> {
        checkpoint(&self.db.lock())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let db = self.db.into_inner();
        checkpoint(&db)?;
        db.close().map_err(|(_, e)| e)?;
        Ok(())
    }
}
