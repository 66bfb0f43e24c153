//! Closures that read, change and write rows, under row locks in the in-flight table.
//!
//! A closure locks a row when it first touches it, without waiting. On a conflict all its rows
//! are released, the set it has touched so far is locked in hash order, waiting, and it runs again.

use std::collections::BTreeMap;
use std::sync::Arc;

use shuttle::thread;

use crate::holds::{HoldError, Holds, Owner};
use crate::sync::{Mutex, far};

/// A rule to leave out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// None: everything holds.
    Nothing,
    /// The row is read before it is locked.
    ReadBeforeLock,
    /// The rows are released before the write.
    ReleaseBeforeWrite,
}

struct Table {
    locks: Holds,
    rows: Mutex<BTreeMap<u64, u64>>,
    broken: Broken,
}

impl Table {
    /// Adds one to each of `rows`, in that order, as one write.
    fn once(&self, rows: &[u64]) {
        let owner = self.locks.owner();
        let mut recorded = Vec::new();
        loop {
            let again = self
                .locks
                .hold_sorted(owner, &recorded, &mut Vec::new(), far());
            assert_eq!(again, Ok(()), "no poison, no deadline");
            match self.run(owner, rows, &mut recorded) {
                Some(changes) => return self.write(owner, &recorded, changes),
                None => self.locks.release(owner, &recorded),
            }
        }
    }

    /// One run of the closure. `None`: a row was locked by another; it is recorded, not held.
    fn run(
        &self,
        owner: Owner,
        rows: &[u64],
        recorded: &mut Vec<u64>,
    ) -> Option<BTreeMap<u64, u64>> {
        let mut changes = BTreeMap::new();
        for &row in rows {
            let early = self.read(row);
            let mut met = Vec::new();
            let locked = self.locks.try_hold(owner, &[row], &mut met);
            let is_new = met.is_empty();
            if is_new {
                recorded.push(row);
            }
            match locked {
                Ok(()) => {}
                Err(HoldError::Foreign(_)) => return None,
                Err(HoldError::Poisoned) => panic!("nobody poisons"),
            }
            let stale = self.broken == Broken::ReadBeforeLock && is_new;
            let read = if stale { early } else { self.read(row) };
            *changes.entry(row).or_insert(read) += 1;
        }
        Some(changes)
    }

    fn read(&self, row: u64) -> u64 {
        self.rows.lock().get(&row).copied().unwrap_or(0)
    }

    fn write(&self, owner: Owner, held: &[u64], changes: BTreeMap<u64, u64>) {
        if self.broken == Broken::ReleaseBeforeWrite {
            self.locks.release(owner, held);
        }
        self.rows.lock().extend(changes);
        self.locks.release(owner, held);
    }
}

/// Three closures over two or three rows in conflicting orders, one of them touching a row twice.
pub fn read_modify_write(broken: Broken) {
    let (locks, rows) = (Holds::new(), Mutex::new(BTreeMap::new()));
    let table = Arc::new(Table {
        locks,
        rows,
        broken,
    });
    const A: u64 = 1;
    const B: u64 = 2;
    const C: u64 = 3 << 60;
    let closures: [&[u64]; 3] = [&[A, B], &[B, A, B], &[C, B, A]];
    let threads: Vec<_> = closures
        .into_iter()
        .map(|rows| {
            let table = Arc::clone(&table);
            thread::spawn(move || (0..2).for_each(|_| table.once(rows)))
        })
        .collect();
    for thread in threads {
        thread.join().expect("a closure panicked");
    }
    let found = std::mem::take(&mut *table.rows.lock());
    assert_eq!(
        found,
        BTreeMap::from([(A, 6), (B, 8), (C, 2)]),
        "lost update"
    );
    assert_eq!(table.locks.len(), 0, "a row lock was left behind");
}
