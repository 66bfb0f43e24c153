//! How many dead letters each scope has, so that nobody has to count them.
//!
//! - A5: a scope's number is written in the commit that writes or removes its dead letters, so it
//!   is exact, also after a crash, and an open reads it instead of the letters.
//! - A6: whoever changes it holds the turn until that commit is written; what others read is what
//!   was written last.
//!
//! ```text
//! meta  "dead/" scope u16 BE    u64 LE; absent: none
//! ```
//! Concurrency: as the audit's tally, which is taken before it. Commits with dead letters are
//! never buffered, and rare.
//!
//! Failure: what was not written leaves the number as it was.

use std::collections::BTreeMap;

use crate::claims::scope_of;
use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::{Book, Index};
use crate::sync::{Mutex, MutexGuard};

use super::Committer;

const PREFIX: &[u8] = b"dead/";

/// Dead letters that came, less those that went, by the scope's number.
pub(super) type DeadChange = BTreeMap<u16, i64>;

/// The numbers of an open store.
#[derive(Default)]
pub(crate) struct DeadTally {
    turn: Mutex<()>,
    letters: Mutex<BTreeMap<u16, u64>>,
}

/// Numbers being written. Kept until their commit is.
#[must_use = "the turn must be held until the commit is written"]
pub(super) struct DeadTurn<'a> {
    tally: &'a DeadTally,
    after: Vec<(u16, u64)>,
    _turn: MutexGuard<'a, ()>,
}

fn key(scope: u16) -> Vec<u8> {
    [PREFIX, &scope.to_be_bytes()].concat()
}

/// A scope and its number, if the row is one of these.
fn read(key: &[u8], value: &[u8]) -> Option<(u16, u64)> {
    let scope = key.strip_prefix(PREFIX)?.try_into().ok()?;
    let letters = value.try_into().ok()?;
    Some((u16::from_be_bytes(scope), u64::from_le_bytes(letters)))
}

impl DeadTally {
    /// Reads the numbers. A store that never wrote any has its letters counted.
    pub(crate) fn load(&self, index: &Index) -> Result<()> {
        let mut letters = BTreeMap::new();
        for row in index.meta.rows(PREFIX) {
            let (key, value) = row?;
            if !key.starts_with(PREFIX) {
                break;
            }
            let row = read(&key, &value);
            let row = row.ok_or_else(|| Error::damaged("a number of dead letters is not whole"));
            letters.extend([row?]);
        }
        if let Some(dead) = index.book(Book::Dead).filter(|_| letters.is_empty()) {
            for row in dead.rows(&[]) {
                if let Some(scope) = scope_of(&row?.0) {
                    *letters.entry(scope).or_default() += 1;
                }
            }
        }
        *self.letters.lock() = letters;
        Ok(())
    }

    /// How many a scope has.
    pub(crate) fn of(&self, scope: u16) -> u64 {
        self.letters.lock().get(&scope).copied().unwrap_or(0)
    }
}

impl Committer {
    /// Adds to a commit what becomes of the numbers, if anything.
    pub(super) fn put_dead_tally(
        &self,
        rows: &mut Rep,
        change: &DeadChange,
    ) -> Option<DeadTurn<'_>> {
        if change.values().all(|by| *by == 0) {
            return None;
        }
        let turn = self.dead.turn.lock();
        let after = change.iter().map(|(scope, by)| {
            let letters = self.dead.of(*scope).saturating_add_signed(*by);
            rows.put(
                self.index.meta.number(),
                &key(*scope),
                &letters.to_le_bytes(),
            );
            (*scope, letters)
        });
        Some(DeadTurn {
            after: after.collect(),
            tally: &self.dead,
            _turn: turn,
        })
    }
}

impl DeadTurn<'_> {
    /// The commit was written.
    pub(super) fn written(self) {
        self.tally.letters.lock().extend(self.after);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_golden_and_reads_back() {
        assert_eq!(key(0x0102), b"dead/\x01\x02");
        let value = 7_u64.to_le_bytes();
        assert_eq!(read(b"dead/\x01\x02", &value), Some((0x0102, 7)));
        assert_eq!(read(b"dead/\x01", &value), None);
        assert_eq!(read(b"dead/\x01\x02", &value[1..]), None);
        assert_eq!(read(b"deaf/\x01\x02", &value), None);
    }
}
