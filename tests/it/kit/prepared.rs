//! The model's prepared transactions.
//!
//! Rules, as the library's documentation states them:
//! - a prepared batch is decided, and shows nothing until it is committed; then it takes effect
//!   whole, whatever happened meanwhile;
//! - the ids that it will record are in progress for everybody, the guarded rows, resume points
//!   and producers that it will write are locked, and what it uses is not dropped;
//! - its ids are first seen when it is committed, and remembered from then on; what is prolonged
//!   was prolonged by the prepare;
//! - an end may be asked for again, as long as it is remembered, and excludes the other end.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::Key;
use super::draft::Staged;
use super::model::{Effects, Model, failed};
use super::numbers::Producer;
use super::op::{Batch, GIVEN, Item, Name, Point, Table, Write};
use super::said::{BUSY, IN_DOUBT, Kind, TRANSACTION_ENDED, UNKNOWN_TRANSACTION, list};

/// How long ends are remembered, in milliseconds.
pub(crate) const OUTCOMES_MS: u64 = 20_000;

/// What others can't have while it is locked.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Lock {
    Row(String),
    Point(usize),
    Producer(usize, u8),
}

/// A prepared transaction: what its commit does.
#[derive(Clone, Debug)]
pub(super) struct Prepared {
    at_ms: u64,
    ids: BTreeMap<Key, Staged>,
    rows: BTreeMap<(Table, String), Option<Vec<u8>>>,
    points: BTreeMap<usize, Point>,
    numbers: BTreeMap<(usize, u8), Option<Producer>>,
    claims: BTreeSet<Key>,
    dead: BTreeMap<Key, (u32, u64)>,
    /// Payloads of messages, numbered at the end.
    sent: Vec<Vec<u8>>,
}

/// All of them by name, and how the latest ended.
#[derive(Clone, Debug, Default)]
pub(super) struct InDoubt {
    of: BTreeMap<u8, Prepared>,
    ended: BTreeMap<u8, (bool, u64)>,
}

/// A batch as it is prepared. Two things are left out that depend on when expired claims are
/// swept: older forms of ids, and ids that are late.
pub(super) fn prepared(batch: &Batch) -> Batch {
    let plain = |item: &Item| Item {
        also: None,
        ago_ms: item.ago_ms.map(|ago_ms| ago_ms.min(0)),
        ..item.clone()
    };
    let items = batch.items.iter();
    Batch {
        items: items.map(|(scope, item)| (*scope, plain(item))).collect(),
        ..batch.clone()
    }
}

fn row_lock(write: &Write) -> Option<Lock> {
    let (table, row) = write.place()?;
    (table == Table::Guarded).then_some(Lock::Row(row))
}

impl InDoubt {
    /// Ids that others can't have.
    pub(super) fn ids(&self) -> impl Iterator<Item = Key> {
        let all = self.of.values();
        all.flat_map(|p| p.ids.keys().chain(&p.claims)).cloned()
    }

    fn has_lock(&self, lock: &Lock) -> bool {
        self.of.values().any(|p| match lock {
            Lock::Row(row) => p.rows.contains_key(&(Table::Guarded, row.clone())),
            Lock::Point(source) => p.points.contains_key(source),
            Lock::Producer(space, n) => p.numbers.contains_key(&(*space, *n)),
        })
    }

    fn find(&self, txn: u8, now_ms: u64) -> Option<bool> {
        let (committed, at_ms) = self.ended.get(&txn)?;
        (now_ms < at_ms + OUTCOMES_MS).then_some(*committed)
    }
}

impl Model {
    pub(super) fn check_lock(&self, lock: &Lock) -> Result<(), Kind> {
        match self.in_doubt.has_lock(lock) {
            true => Err(BUSY),
            false => Ok(()),
        }
    }

    /// Whether a write's row can be had.
    pub(super) fn check_write(&self, write: &Write) -> Result<(), Kind> {
        row_lock(write).map_or(Ok(()), |lock| self.check_lock(&lock))
    }

    /// Whether all rows, sources and producers of a batch can be had.
    pub(super) fn check_locks(&self, batch: &Batch) -> Result<(), Kind> {
        for (_, item) in &batch.items {
            let fallback = item.if_refused.iter().flatten();
            for write in item.writes.iter().chain(fallback) {
                self.check_write(write)?;
            }
            if let Name::Sequence(n) = item.name {
                self.check_lock(&Lock::Producer(n.space, n.producer))?;
            }
        }
        for write in &batch.always {
            self.check_write(write)?;
        }
        for (source, _) in &batch.points {
            self.check_lock(&Lock::Point(*source))?;
        }
        Ok(())
    }

    /// Producers that can't be evicted.
    pub(super) fn locked_producers(&self) -> BTreeSet<(usize, u8)> {
        let all = self.in_doubt.of.values();
        all.flat_map(|p| p.numbers.keys().copied()).collect()
    }

    pub(super) fn uses_scope(&self, scope: usize) -> bool {
        let mut keys = self.in_doubt.of.values().flat_map(|p| {
            let ids = p.ids.keys().chain(&p.claims);
            ids.chain(p.dead.keys())
        });
        keys.any(|key| key.0 == scope)
    }

    pub(super) fn uses_table(&self, table: Table) -> bool {
        let mut rows = self.in_doubt.of.values().flat_map(|p| p.rows.keys());
        rows.any(|row| row.0 == table)
    }

    pub(super) fn uses_sequences(&self, space: usize) -> bool {
        self.locked_producers().iter().any(|p| p.0 == space)
    }

    pub(super) fn prepare(&mut self, txn: u8, batch: &Batch) -> String {
        let batch = prepared(batch);
        match self.try_prepare(txn, &batch) {
            Ok(said) => said,
            Err(kind) => self.told_of(kind, &batch),
        }
    }

    fn try_prepare(&mut self, txn: u8, batch: &Batch) -> Result<String, Kind> {
        self.misused(batch)?;
        if self.in_doubt.of.contains_key(&txn) {
            return Err(IN_DOUBT);
        }
        if self.in_doubt.find(txn, self.now_ms).is_some() {
            return Err(TRANSACTION_ENDED);
        }
        let (said, effects, _) = self.decided(batch)?;
        let Effects {
            claims,
            rows,
            numbers,
            ids,
            touched,
            unkeyed,
            ..
        } = effects;
        let sent = rows.1.sent_since(&self.rows.1);
        let rows = touched.into_iter().map(|row| {
            let value = rows.0.get(&row).cloned();
            (row, value)
        });
        let all = numbers.0.keys().chain(self.numbers.0.keys());
        let changed = all.filter(|p| numbers.0.get(p) != self.numbers.0.get(p));
        let gone = self.claims.of.keys();
        let gone = gone.filter(|key| !claims.of.contains_key(key));
        let dead = claims.dead.iter();
        let dead = dead.filter(|(key, letter)| self.claims.dead.get(key) != Some(letter));
        let prepared = Prepared {
            at_ms: self.now_ms,
            ids,
            rows: rows.collect(),
            points: batch.points.iter().copied().collect(),
            numbers: changed.map(|p| (*p, numbers.0.get(p).cloned())).collect(),
            claims: gone.cloned().collect(),
            dead: dead.map(|(key, letter)| (key.clone(), *letter)).collect(),
            sent,
        };
        self.in_doubt.of.insert(txn, prepared);
        self.totals.unkeyed += unkeyed;
        said.iter().for_each(|s| self.totals.count(s));
        Ok(list(&said))
    }

    /// Commits or aborts.
    pub(super) fn end_prepared(&mut self, txn: u8, commits: bool) -> String {
        let Some(prepared) = self.in_doubt.of.remove(&txn) else {
            return match self.in_doubt.find(txn, self.now_ms) {
                Some(committed) if committed == commits => "before".to_string(),
                Some(_) => failed(TRANSACTION_ENDED),
                None => failed(UNKNOWN_TRANSACTION),
            };
        };
        self.in_doubt.ended.insert(txn, (commits, self.now_ms));
        if !commits {
            return "0 ids".to_string();
        }
        let mut recorded = 0;
        for (key, staged) in prepared.ids {
            let later_ms = self.now_ms - prepared.at_ms;
            let (seen, stands) = match staged {
                Staged::Prolonged(seen) => (seen, true),
                Staged::Recorded(mut seen) => {
                    if seen.attempt == 0 {
                        seen.first_ms = self.now_ms;
                    }
                    let stands = key.0 == GIVEN || seen.expiry_ms == u64::MAX;
                    if !stands {
                        seen.expiry_ms += later_ms;
                    }
                    (seen, stands)
                }
            };
            if !stands || seen.expiry_ms > self.now_ms {
                recorded += 1;
                self.ids.insert(key, seen);
            }
        }
        for (row, value) in prepared.rows {
            match value {
                Some(value) => self.rows.0.insert(row, value),
                None => self.rows.0.remove(&row),
            };
        }
        self.rows.1.send_all(prepared.sent);
        for (name, producer) in prepared.numbers {
            match producer {
                Some(producer) => drop(self.numbers.0.insert(name, producer)),
                None => {
                    self.numbers.0.remove(&name);
                    self.totals.evicted += 1;
                }
            }
        }
        self.points.extend(prepared.points);
        let claims = &mut self.claims;
        claims.of.retain(|key, _| !prepared.claims.contains(key));
        claims.dead.extend(prepared.dead);
        format!("{recorded} ids")
    }

    /// What is in doubt.
    pub(super) fn doubts(&self) -> String {
        let all = self.in_doubt.of.iter();
        let all = all.map(|(txn, p)| told(*txn, p.ids.len() as u64, p.at_ms));
        list(&all.collect::<Vec<_>>())
    }
}

/// One transaction in doubt.
pub(super) fn told(txn: u8, ids: u64, at_ms: u64) -> String {
    format!("{}: {ids} ids, at {at_ms}", name(txn))
}

/// A transaction's name.
pub(super) fn name(txn: u8) -> String {
    format!("txn-{txn}")
}
