//! The standard library's hash set: nothing is durable, nothing expires. The upper bound.

use std::collections::{HashMap, HashSet};

use super::{Result, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "std HashSet (SipHash), in memory, nothing durable: the upper bound";

#[derive(Default)]
pub struct Hashset {
    ids: HashSet<Id>,
    rows: HashMap<Id, Box<[u8]>>,
}

impl System for Hashset {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        let mut firsts = 0;
        for id in ids {
            firsts += u64::from(self.ids.insert(*id));
        }
        Ok(Some(firsts))
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        let mut firsts = 0;
        for id in ids {
            if self.ids.insert(*id) {
                self.rows.insert(*id, rows.of(id).into());
                firsts += 1;
            }
        }
        Ok(Some(firsts))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.get(id).map(|row| row.to_vec()))
    }

    fn settle(&mut self) -> Result<()> {
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
