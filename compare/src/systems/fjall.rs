//! Fjall, a log-structured engine in Rust: under a lock, look each id up, insert what is missing
//! with one batch.

use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use parking_lot::Mutex;

use super::sorted::sorted;
use super::{Key, Result, Setup, System, Worker, writes_any};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "fjall, contains_key then a write batch of sorted ids under one lock; \
    journal handed to the system at each commit (synced workloads: SyncData), LZ4, default \
    filters, 1 GiB cache, 2 workers";

pub struct Fjall {
    db: Database,
    ids: Keyspace,
    rows: Keyspace,
    lock: Mutex<()>,
    durability: Option<PersistMode>,
}

impl Fjall {
    pub fn open(dir: &Path, setup: Setup) -> Result<Fjall> {
        let db = Database::builder(dir)
            .cache_size(setup.peer_cache())
            .worker_threads(2)
            .open()?;
        let ids = db.keyspace("ids", KeyspaceCreateOptions::default)?;
        let rows = db.keyspace("rows", KeyspaceCreateOptions::default)?;
        Ok(Fjall {
            db,
            ids,
            rows,
            lock: Mutex::default(),
            durability: setup.synced().then_some(PersistMode::SyncData),
        })
    }

    fn write(&self, ids: &[impl Key], rows: Option<&Rows>) -> Result<Option<u64>> {
        let _one_at_a_time = self.lock.lock();
        let mut batch = self.db.batch();
        if self.durability.is_some() {
            batch = batch.durability(self.durability);
        }
        let mut firsts = 0;
        for id in sorted(ids) {
            let id = id.as_ref();
            if self.ids.contains_key(id)? {
                continue;
            }
            batch.insert(&self.ids, id, &[][..]);
            if let Some(rows) = rows {
                batch.insert(&self.rows, id, rows.of(id));
            }
            firsts += 1;
        }
        batch.commit()?;
        Ok(Some(firsts))
    }
}

impl Worker for &Fjall {
    writes_any!();
}

impl System for Fjall {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(self))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.get(id)?.map(|row| row.to_vec()))
    }

    fn settle(&self) -> Result<()> {
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
