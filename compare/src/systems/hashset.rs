//! The standard library's hash set: nothing is durable, nothing expires. The upper bound.

use std::collections::{HashMap, HashSet};

use parking_lot::Mutex;

use super::{Result, System, Worker};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "std HashSet (SipHash) behind one lock a batch, in memory, nothing \
    durable: the upper bound";

#[derive(Default)]
pub struct Hashset {
    all: Mutex<All>,
}

#[derive(Default)]
struct All {
    ids: HashSet<Id>,
    any: HashSet<Box<[u8]>>,
    rows: HashMap<Id, Box<[u8]>>,
}

impl Worker for &Hashset {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        let mut all = self.all.lock();
        let mut firsts = 0;
        for id in ids {
            firsts += u64::from(all.ids.insert(*id));
        }
        Ok(Some(firsts))
    }

    fn insert_any(&mut self, ids: &[&[u8]]) -> Result<Option<u64>> {
        let mut all = self.all.lock();
        let mut firsts = 0;
        for id in ids {
            // Looked up first: a duplicate needs no copy.
            if !all.any.contains(*id) {
                all.any.insert((*id).into());
                firsts += 1;
            }
        }
        Ok(Some(firsts))
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        let mut all = self.all.lock();
        let mut firsts = 0;
        for id in ids {
            if all.ids.insert(*id) {
                all.rows.insert(*id, rows.of(id).into());
                firsts += 1;
            }
        }
        Ok(Some(firsts))
    }
}

impl System for Hashset {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(self))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.all.lock().rows.get(id).map(|row| row.to_vec()))
    }

    fn settle(&self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
