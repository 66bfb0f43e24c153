//! A load that can be checked: batches of ids with a row each, one after another.
//!
//! A batch that is refused is made again as it was; if it was not recorded, as its error said,
//! all its ids are first seen then. So a refusal that recorded something is noticed.

use firstseen::{Durability, ErrorKind, Recorded, Scope, Store, Table};

use super::week;

/// Ids a batch.
pub(crate) const BATCH: u64 = 20;

pub(crate) struct Load {
    store: Store,
    pub(crate) ids: Scope,
    pub(crate) rows: Table,
    level: Durability,
    /// Batches acknowledged.
    pub(crate) acknowledged: u64,
    /// Those of them that a sync has seen.
    synced: u64,
    pub(crate) refused: u64,
}

fn id(n: u64) -> String {
    format!("order-{n:020}")
}

fn row(n: u64) -> Vec<u8> {
    let mut row = n.to_le_bytes().to_vec();
    // Not to be compressed away.
    let mut rng = fastrand::Rng::with_seed(n);
    row.extend((0..200).map(|_| rng.u8(..)));
    row
}

impl Load {
    pub(crate) fn new(store: &Store, level: Durability) -> Load {
        Load {
            store: store.clone(),
            ids: week(store),
            rows: store.table("rows").unwrap(),
            level,
            acknowledged: 0,
            synced: 0,
            refused: 0,
        }
    }

    /// One batch; false if it was refused for want of space.
    pub(crate) fn step(&mut self) -> bool {
        let mut batch = self.store.batch();
        batch.durability(self.level);
        for n in self.acknowledged * BATCH..(self.acknowledged + 1) * BATCH {
            let name = id(n);
            batch.once(&self.ids, &name).put(&self.rows, &name, row(n));
        }
        match batch.commit() {
            Ok(verdicts) => {
                let firsts = verdicts.iter().filter(|v| v.is_first()).count() as u64;
                assert_eq!(
                    firsts, BATCH,
                    "batch {}: something of it was there",
                    self.acknowledged
                );
                self.acknowledged += 1;
                true
            }
            Err(error) => {
                let said = (error.kind(), error.recorded(), error.is_retryable());
                assert_eq!(said, (ErrorKind::Full, Recorded::No, true), "{error}");
                self.refused += 1;
                false
            }
        }
    }

    /// Makes all so far durable.
    pub(crate) fn sync(&mut self) {
        self.store.sync().unwrap();
        self.synced = self.acknowledged;
    }

    /// Batches until one is refused.
    pub(crate) fn until_refused(&mut self) {
        for _ in 0..200_000 {
            if !self.step() {
                return;
            }
        }
        panic!("never refused");
    }

    /// Reads are answered by a store that has stopped: what is known of ids, and rows.
    pub(crate) fn reads_go_on_but_not_inserts(&self) {
        let ids = self.acknowledged * BATCH;
        for n in [0, ids / 2, ids - 1] {
            assert!(self.ids.peek(&id(n)).unwrap().is_some(), "{n}");
            assert_eq!(self.rows.get(id(n)).unwrap().as_deref(), Some(&row(n)[..]));
        }
    }

    /// Reads are answered: known ids as duplicates, their rows, and that unknown ones are so.
    pub(crate) fn reads_go_on(&self) {
        let ids = self.acknowledged * BATCH;
        // What is buffered is held, and its rows are read from the buffer.
        let written = match self.level {
            Durability::Buffered => self.synced * BATCH,
            _ => ids,
        };
        assert_eq!(
            self.rows.get(id(ids - 1)).unwrap().as_deref(),
            Some(&row(ids - 1)[..])
        );
        for n in [0, written / 3, written / 2, written - 1] {
            assert!(self.ids.insert(&id(n)).unwrap().is_duplicate(), "{n}");
            assert!(self.ids.peek(&id(n)).unwrap().is_some(), "{n}");
            assert_eq!(self.rows.get(id(n)).unwrap().as_deref(), Some(&row(n)[..]));
        }
        assert!(self.ids.peek(&id(ids + BATCH)).unwrap().is_none());
        assert!(self.rows.get(id(ids + BATCH)).unwrap().is_none());
    }
}

/// Asserts that a store has exactly the acknowledged batches; one more may be there whole, if it
/// was under way.
pub(crate) fn verify(store: &Store, acknowledged: u64, under_way: bool) {
    let (ids, rows) = (week(store), store.table("rows").unwrap());
    let there = |n: u64| {
        let known = ids.peek(&id(n)).unwrap().is_some();
        let kept = rows.get(id(n)).unwrap();
        assert_eq!(known, kept.is_some(), "id and row {n} are not together");
        assert!(kept.is_none_or(|kept| kept[..] == row(n)), "row {n}");
        known
    };
    for n in 0..acknowledged * BATCH {
        assert!(there(n), "{n} of {} is lost", acknowledged * BATCH);
    }
    let next = acknowledged * BATCH..(acknowledged + 1) * BATCH;
    let more = next.filter(|n| there(*n)).count() as u64;
    assert!(
        more == 0 || under_way && more == BATCH,
        "{more} of a refused batch"
    );
}
