//! Guarded writes: evaluated in order over an overlay, under the locks of their rows.
//!
//! Earlier items' effects are seen by later ones (two `add(-1)` on a stock of 1: the second is
//! refused). An item's writes take effect together or not at all: a refusal undoes what the
//! item did before it.
//!
//! Rows as conditions see them: a counter is an `i64` little-endian, absent is 0; a state is the
//! whole value; a versioned row is a `u64` little-endian version before the value.

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::TableState;
use crate::engine::{Family, Rep};
use crate::error::{Error, Result};

use super::write::Op;

/// What a row's lock is: the hash of table and key.
pub(crate) fn row_hash(table: &TableState, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(table.number) + 1)
}

/// What a source's resume point is locked by.
pub(crate) fn point_hash(source: &str) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(source.as_bytes(), u64::MAX)
}

type RowKey = (u32, Box<[u8]>);

/// The rows as the commit would leave them.
#[derive(Default)]
pub(crate) struct Overlay {
    rows: HashMap<RowKey, Option<Vec<u8>>>,
    /// Values before the current item, for undoing it.
    undo: Vec<(RowKey, Option<Option<Vec<u8>>>)>,
}

/// Where an item began.
pub(crate) struct ItemMark {
    body: usize,
    count: u32,
}

impl Overlay {
    /// Begins an item.
    pub(crate) fn begin(&mut self, out: &Rep) -> ItemMark {
        self.undo.clear();
        ItemMark {
            body: out.body().len(),
            count: out.count(),
        }
    }

    /// Undoes everything since the item began.
    pub(crate) fn undo(&mut self, mark: &ItemMark, out: &mut Rep) {
        for (key, before) in self.undo.drain(..).rev() {
            match before {
                Some(value) => self.rows.insert(key, value),
                None => self.rows.remove(&key),
            };
        }
        out.truncate(mark.body, mark.count);
    }

    /// A row's value with the writes so far.
    pub(crate) fn get(&self, table: &TableState, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if let Some(value) = self.rows.get(&(table.number, key.into())) {
            return Ok(value.clone());
        }
        read(&*table.family()?, key)
    }

    /// Applies one write; false if its condition does not hold.
    pub(crate) fn apply(
        &mut self,
        table: &Arc<TableState>,
        key: &[u8],
        op: Op<'_>,
        out: &mut Rep,
    ) -> Result<bool> {
        let value = match op {
            Op::Put { value } => Some(value.to_vec()),
            Op::Delete => None,
            Op::Add { by, low, high } => {
                let now = counter(self.get(table, key)?.as_deref(), table, key)?;
                match now.checked_add(by).filter(|n| (low..=high).contains(n)) {
                    Some(sum) => Some(sum.to_le_bytes().to_vec()),
                    None => return Ok(false),
                }
            }
            Op::Transition { from, to } => {
                if self.get(table, key)?.as_deref() != Some(from) {
                    return Ok(false);
                }
                Some(to.to_vec())
            }
            Op::CompareAndSet { expected, value } => {
                if self.get(table, key)?.as_deref() != expected {
                    return Ok(false);
                }
                Some(value.to_vec())
            }
            Op::CompareVersion { expected, value } => {
                let row = self.get(table, key)?;
                let version = row.as_deref().map(|r| version(r, table, key)).transpose()?;
                if version != expected {
                    return Ok(false);
                }
                let next = version.map_or(0, |v| v.wrapping_add(1));
                Some([&next.to_le_bytes()[..], value].concat())
            }
        };
        self.set(table, key, value, out);
        Ok(true)
    }

    fn set(&mut self, table: &TableState, key: &[u8], value: Option<Vec<u8>>, out: &mut Rep) {
        match &value {
            Some(value) => out.put(table.family_number, key, value),
            None => out.delete(table.family_number, key),
        }
        let row = (table.number, Box::from(key));
        let before = self.rows.insert(row.clone(), value);
        self.undo.push((row, before));
    }
}

fn read(family: &Family, key: &[u8]) -> Result<Option<Vec<u8>>> {
    Ok(family.get(key)?.map(|v| v.to_vec()))
}

fn counter(row: Option<&[u8]>, table: &TableState, key: &[u8]) -> Result<i64> {
    match row.map(<[u8; 8]>::try_from) {
        None => Ok(0),
        Some(Ok(bytes)) => Ok(i64::from_le_bytes(bytes)),
        Some(Err(_)) => Err(Error::invalid(format!(
            "row {} of table {:?} is no counter (8 bytes)",
            key.escape_ascii(),
            table.name
        ))),
    }
}

fn version(row: &[u8], table: &TableState, key: &[u8]) -> Result<u64> {
    match row.split_first_chunk::<8>() {
        Some((version, _)) => Ok(u64::from_le_bytes(*version)),
        None => Err(Error::invalid(format!(
            "row {} of table {:?} has no version (8 bytes before the value)",
            key.escape_ascii(),
            table.name
        ))),
    }
}
