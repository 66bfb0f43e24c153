//! Fjall, a log-structured engine in Rust: under a lock, look each id up, insert what is missing
//! with one batch.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions};
use parking_lot::Mutex;

use super::sorted::Sorted;
use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "fjall, contains_key then a write batch of sorted ids under one lock; \
    journal handed to the system at each commit, LZ4, default filters, 1 GiB cache, 2 workers";

const CACHE_BYTES: u64 = 1 << 30;

pub struct Fjall {
    db: Database,
    ids: Keyspace,
    rows: Keyspace,
    sorted: Mutex<Sorted>,
}

impl Fjall {
    pub fn open(dir: &Path) -> Result<Fjall> {
        let db = Database::builder(dir)
            .cache_size(CACHE_BYTES)
            .worker_threads(2)
            .open()?;
        let ids = db.keyspace("ids", KeyspaceCreateOptions::default)?;
        let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
        Ok(Fjall {
            db,
            ids,
            rows,
            sorted: Mutex::default(),
        })
    }

    fn write_missing(&self, ids: &[Id], rows: Option<&Rows>) -> Result<Option<u64>> {
        let mut buffer = self.sorted.lock();
        let mut batch = self.db.batch();
        let mut firsts = 0;
        for id in buffer.of(ids) {
            if self.ids.contains_key(id)? {
                continue;
            }
            batch.insert(&self.ids, &id[..], &[][..]);
            if let Some(rows) = rows {
                batch.insert(&self.rows, &id[..], rows.of(id));
            }
            firsts += 1;
        }
        batch.commit()?;
        Ok(Some(firsts))
    }
}

impl System for Fjall {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        self.write_missing(ids, None)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        self.write_missing(ids, Some(rows))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.get(id)?.map(|row| row.to_vec()))
    }

    fn settle(&mut self) -> Result<()> {
        self.ids.rotate_memtable_and_wait()?;
        self.ids.major_compact()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.ids.rotate_memtable_and_wait()?;
        self.rows.rotate_memtable_and_wait()?;
        Ok(())
    }
}
