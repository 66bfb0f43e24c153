//! The model's tables: rows as plain maps, and what each write does to them.

use std::collections::BTreeMap;

use super::op::{Table, Write, key, value};
use super::outbox::Outbox;
use super::said::{INVALID, Kind};

/// All rows, and the outbox, which shares their fate.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rows(
    pub(crate) BTreeMap<(Table, String), Vec<u8>>,
    pub(crate) Outbox,
);

impl Rows {
    pub(crate) fn get(&self, table: Table, row: u8) -> Option<&[u8]> {
        self.0.get(&(table, key(row))).map(Vec::as_slice)
    }

    pub(crate) fn put(&mut self, table: Table, row: u8, value: Vec<u8>) {
        self.0.insert((table, key(row)), value);
    }

    /// Makes one write; false if its condition does not hold.
    ///
    /// # Errors
    /// `Invalid` if the row has not the form that the write needs.
    pub(crate) fn write(&mut self, write: &Write) -> Result<bool, Kind> {
        match *write {
            Write::Put(table, row, v) => self.put(table, row, value(v)),
            Write::Send(v) => self.1.send(v),
            Write::Delete(table, row) => {
                self.0.remove(&(table, key(row)));
            }
            Write::Add(table, row, by, low, high) => {
                let now = match self.get(table, row) {
                    None => 0,
                    Some(bytes) => i64::from_le_bytes(bytes.try_into().map_err(|_| INVALID)?),
                };
                let sum = now.checked_add(by).filter(|sum| {
                    low.is_none_or(|low| *sum >= low) && high.is_none_or(|high| *sum <= high)
                });
                let Some(sum) = sum else { return Ok(false) };
                self.put(table, row, sum.to_le_bytes().to_vec());
            }
            Write::Transition(table, row, from, to) => {
                if self.get(table, row) != Some(&value(from)) {
                    return Ok(false);
                }
                self.put(table, row, value(to));
            }
            Write::CompareAndSet(table, row, expected, v) => {
                if self.get(table, row) != expected.map(value).as_deref() {
                    return Ok(false);
                }
                self.put(table, row, value(v));
            }
            Write::CompareVersion(table, row, expected, v) => {
                let version = match self.get(table, row) {
                    None => None,
                    Some(bytes) => {
                        let version = bytes.first_chunk::<8>().ok_or(INVALID)?;
                        Some(u64::from_le_bytes(*version))
                    }
                };
                if version != expected {
                    return Ok(false);
                }
                let next = version.map_or(0, |v| v.wrapping_add(1));
                self.put(table, row, [&next.to_le_bytes()[..], &value(v)].concat());
            }
        }
        Ok(true)
    }

    /// Makes all writes or none; the position of the first one that is refused.
    pub(crate) fn write_all(&mut self, writes: &[Write]) -> Result<Option<usize>, Kind> {
        let mut after = self.clone();
        for (at, write) in writes.iter().enumerate() {
            if !after.write(write)? {
                return Ok(Some(at));
            }
        }
        *self = after;
        Ok(None)
    }
}
