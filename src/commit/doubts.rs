//! Prepared transactions in memory: which there are, what they hold, and how the latest ended.
//!
//! Invariants:
//! - Z1: a transaction is in here from its durable prepare to its durable end, and its ids and
//!   rows are held in the hold tables for just as long; an open takes them before the first
//!   verdict.
//! - Z2: one caller at a time ends a transaction (`Doubt::is_ended`); others wait and are told how
//!   it ended.
//! - Z3: whatever drops a scope, a table or sequences does so under the lock of this table, having
//!   seen that no transaction uses it, not one that is just being prepared either.
//!
//! Concurrency: `inner` is held for moments, but for a drop's mark in the catalog; `held` is asked
//! by callers that met a held id. Order: a transaction's `is_ended`, `inner`, the catalog's lock.
//!
//! Failure: a prepare that failed leaves nothing in here; one of unknown outcome leaves its holds,
//! as every such commit does, and an open finds it or doesn't.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::options::DoubtLimits;
use crate::prepared::EndedRow;
use crate::stats::PreparedStats;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};

use super::Committer;
use super::holds::Owner;

/// What a transaction keeps from being dropped, by number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Uses {
    pub(crate) scopes: Vec<u16>,
    pub(crate) tables: Vec<u32>,
    pub(crate) spaces: Vec<u16>,
}

/// Hashes that an owner has in one of the hold tables.
pub(super) struct Kept {
    pub(super) owner: Owner,
    pub(super) hashes: Vec<u64>,
}

/// A prepared transaction.
pub(crate) struct Doubt {
    pub(crate) txn: Box<[u8]>,
    pub(crate) prepared_ms: u64,
    /// Ids that its commit records.
    pub(crate) ids: u64,
    /// Rows that it writes, those of the store's own families included.
    pub(crate) writes: u64,
    /// What it takes as it is stored.
    pub(crate) bytes: u64,
    pub(crate) uses: Uses,
    pub(super) id_holds: Kept,
    pub(super) row_holds: Kept,
    /// Locked by whoever ends it.
    pub(super) is_ended: Mutex<bool>,
}

/// The table.
pub(crate) struct Doubts {
    limits: DoubtLimits,
    inner: Mutex<Inner>,
    held: RwLock<HeldHashes>,
    /// Held while an end is written: ends are forgotten in their order.
    pub(super) ending: Mutex<()>,
    committed: AtomicU64,
    aborted: AtomicU64,
}

#[derive(Default)]
struct Inner {
    now: BTreeMap<Box<[u8]>, Arc<Doubt>>,
    /// Those that are being prepared.
    coming: HashMap<Box<[u8]>, Uses>,
    bytes: u64,
    ended: HashMap<Box<[u8]>, EndedRow>,
    /// The same by serial.
    order: BTreeMap<u64, Box<[u8]>>,
    next_serial: u64,
}

#[derive(Default)]
struct HeldHashes {
    ids: HashSet<u64>,
    rows: HashSet<u64>,
}

/// How many there are.
#[derive(Clone, Copy, Debug, Default)]
struct DoubtCounts {
    now: u64,
    bytes: u64,
    oldest_ms: Option<u64>,
}

impl Doubts {
    pub(crate) fn new(limits: DoubtLimits) -> Doubts {
        Doubts {
            limits,
            inner: Mutex::default(),
            held: RwLock::default(),
            ending: Mutex::new(()),
            committed: AtomicU64::new(0),
            aborted: AtomicU64::new(0),
        }
    }

    /// Begins a prepare: the name is taken and what it uses stays until what is returned goes.
    pub(super) fn begin(&self, txn: &[u8], uses: Uses, now_ms: u64) -> Result<Coming<'_>> {
        let limits = &self.limits;
        if txn.is_empty() || txn.len() > limits.txn_bytes_max {
            let most = limits.txn_bytes_max;
            let text =
                format!("a transaction's name must have 1 to {most} bytes (`txn_bytes_max`)");
            return Err(Error::invalid(text));
        }
        let mut inner = self.inner.lock();
        if inner.now.contains_key(txn) || inner.coming.contains_key(txn) {
            let text = format!("transaction {} is prepared already", txn.escape_ascii());
            return Err(Error::new(ErrorKind::InDoubt, text));
        }
        if let Some(ended) = inner.remembered(txn, limits, now_ms) {
            return Err(has_ended(txn, &ended));
        }
        if inner.now.len() + inner.coming.len() >= limits.count_max {
            let most = limits.count_max;
            let text = format!("the store has {most} prepared transactions (`prepared_max`)");
            return Err(Error::new(ErrorKind::Full, text));
        }
        inner.coming.insert(txn.into(), uses);
        Ok(Coming {
            doubts: self,
            txn: txn.into(),
            bytes: 0,
        })
    }

    /// Takes over a transaction that was found when the store was opened.
    pub(super) fn found(&self, doubt: Doubt) {
        let mut inner = self.inner.lock();
        inner.bytes += doubt.bytes;
        self.hold(&doubt);
        inner.now.insert(doubt.txn.clone(), Arc::new(doubt));
    }

    /// Takes over the end of one.
    pub(super) fn found_ended(&self, txn: &[u8], row: EndedRow) {
        self.inner.lock().remember(txn, row);
    }

    fn hold(&self, doubt: &Doubt) {
        let mut held = self.held.write();
        held.ids.extend(&doubt.id_holds.hashes);
        held.rows.extend(&doubt.row_holds.hashes);
    }

    /// A transaction that is in doubt, or how it ended.
    ///
    /// # Errors
    /// `UnknownTransaction` if neither is known.
    pub(super) fn find(&self, txn: &[u8], now_ms: u64) -> Result<Found> {
        let inner = self.inner.lock();
        if let Some(doubt) = inner.now.get(txn) {
            return Ok(Found::InDoubt(Arc::clone(doubt)));
        }
        let ended = inner.remembered(txn, &self.limits, now_ms);
        ended.map(Found::Ended).ok_or_else(|| {
            let text = format!(
                "no transaction {} is prepared, and none is remembered to have ended",
                txn.escape_ascii()
            );
            Error::new(ErrorKind::UnknownTransaction, text)
        })
    }

    /// Which of these ids prepared transactions hold, by position.
    pub(super) fn holding(&self, hashes: &[u64]) -> Vec<usize> {
        let held = self.held.read();
        if held.ids.is_empty() {
            return Vec::new();
        }
        let positions = (0..).zip(hashes);
        let found = positions.filter(|(_, hash)| held.ids.contains(*hash));
        found.map(|(at, _)| at).collect()
    }

    /// How many ids are held for transactions in doubt, and not by calls under way.
    pub(super) fn held_ids(&self) -> usize {
        self.held.read().ids.len()
    }

    fn locks_any(&self, hashes: &[u64]) -> bool {
        let held = self.held.read();
        !held.rows.is_empty() && hashes.iter().any(|hash| held.rows.contains(hash))
    }

    /// The ends to be forgotten when one more is to be remembered; and that one's serial.
    pub(super) fn make_room(&self, now_ms: u64) -> (u64, Vec<Box<[u8]>>) {
        let mut inner = self.inner.lock();
        let serial = inner.next_serial;
        inner.next_serial += 1;
        let too_many = (inner.ended.len() + 1).saturating_sub(self.limits.ended_max);
        let is_over = |txn: &[u8]| inner.remembered(txn, &self.limits, now_ms).is_none();
        let oldest = inner.order.values().take(FORGOTTEN_AT_ONCE).enumerate();
        let gone = oldest.take_while(|(i, txn)| *i < too_many || is_over(txn));
        (serial, gone.map(|(_, txn)| txn.clone()).collect())
    }

    /// An end is written, and these others are forgotten. Called under `ending`, so that memory
    /// and rows agree; whoever asks is still told that it is in doubt.
    pub(super) fn remember(&self, txn: &[u8], row: EndedRow, gone: &[Box<[u8]>]) {
        let mut inner = self.inner.lock();
        for txn in gone {
            if let Some(row) = inner.ended.remove(txn) {
                inner.order.remove(&row.serial);
            }
        }
        inner.remember(txn, row);
    }

    /// The transaction has ended, durably.
    pub(super) fn end(&self, doubt: &Doubt, committed: bool) {
        let mut inner = self.inner.lock();
        inner.bytes -= doubt.bytes;
        inner.now.remove(&doubt.txn);
        drop(inner);
        let mut held = self.held.write();
        for hash in &doubt.id_holds.hashes {
            held.ids.remove(hash);
        }
        for hash in &doubt.row_holds.hashes {
            held.rows.remove(hash);
        }
        drop(held);
        let counter = if committed {
            &self.committed
        } else {
            &self.aborted
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Drops something unless a transaction uses it (Z3).
    ///
    /// # Errors
    /// `InDoubt`, naming the transaction; those of the drop.
    pub(super) fn unless_used<T>(
        &self,
        what: &str,
        is_used: impl Fn(&Uses) -> bool,
        drop_it: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        let inner = self.inner.lock();
        let now = inner.now.iter().map(|(txn, doubt)| (txn, &doubt.uses));
        let mut all = now.chain(&inner.coming);
        if let Some((txn, _)) = all.find(|(_, uses)| is_used(uses)) {
            let txn = txn.escape_ascii();
            let text = format!("{what} is used by the prepared transaction {txn}");
            return Err(Error::new(ErrorKind::InDoubt, text));
        }
        drop_it()
    }

    /// Those in doubt, the oldest first.
    pub(crate) fn list(&self) -> Vec<Arc<Doubt>> {
        let inner = self.inner.lock();
        let mut all: Vec<_> = inner.now.values().cloned().collect();
        drop(inner);
        all.sort_by_key(|doubt| doubt.prepared_ms);
        all
    }

    fn counts(&self) -> DoubtCounts {
        let inner = self.inner.lock();
        DoubtCounts {
            now: inner.now.len() as u64,
            bytes: inner.bytes,
            oldest_ms: inner.now.values().map(|doubt| doubt.prepared_ms).min(),
        }
    }
}

/// When a caller is told to ask again for an id that a prepared transaction holds.
pub(super) const ASK_PREPARED: Duration = Duration::from_millis(100);

/// Adds items to those that a call leaves out, which stay ascending; each once.
pub(super) fn leave_out(
    left_out: &mut Vec<(u32, Duration)>,
    items: impl IntoIterator<Item = (u32, Duration)>,
) {
    left_out.extend(items);
    left_out.sort_unstable();
    left_out.dedup_by_key(|l| l.0);
}

/// The most ends that one end has forgotten.
const FORGOTTEN_AT_ONCE: usize = 100;

/// What is known of a name.
pub(super) enum Found {
    InDoubt(Arc<Doubt>),
    Ended(EndedRow),
}

/// The name is used up, or the other end was asked for.
pub(super) fn has_ended(txn: &[u8], ended: &EndedRow) -> Error {
    let how = if ended.committed {
        "committed"
    } else {
        "aborted"
    };
    let text = format!("transaction {} was {how}", txn.escape_ascii());
    Error::new(ErrorKind::TransactionEnded, text)
}

impl Committer {
    /// Nobody waits for what a transaction holds (H6).
    pub(super) fn stand(&self, doubt: &Doubt) {
        self.ids.stand(&doubt.id_holds.hashes);
        self.rows.stand(&doubt.row_holds.hashes);
    }

    pub(super) fn prepared_stats(&self, now_ms: u64) -> PreparedStats {
        let counts = self.doubts.counts();
        let age_ms = |prepared_ms| now_ms.saturating_sub(prepared_ms);
        PreparedStats {
            now: counts.now,
            bytes: counts.bytes,
            oldest: counts.oldest_ms.map(age_ms).map(Duration::from_millis),
            committed: self.doubts.committed.load(Ordering::Relaxed),
            aborted: self.doubts.aborted.load(Ordering::Relaxed),
        }
    }

    /// Nobody knows when a prepared transaction ends: its rows are not waited for either.
    pub(super) fn check_not_prepared(&self, rows: &[u64]) -> Result<()> {
        if !self.doubts.locks_any(rows) {
            return Ok(());
        }
        let text = "a row is locked by a prepared transaction, until that is committed or aborted";
        Err(Error::new(ErrorKind::Busy, text))
    }
}

impl Inner {
    fn remembered(&self, txn: &[u8], limits: &DoubtLimits, now_ms: u64) -> Option<EndedRow> {
        let ended = self.ended.get(txn).copied()?;
        (now_ms < ended.at_ms.saturating_add(limits.ended_ms)).then_some(ended)
    }

    fn remember(&mut self, txn: &[u8], row: EndedRow) {
        self.next_serial = self.next_serial.max(row.serial + 1);
        if let Some(before) = self.ended.insert(txn.into(), row) {
            self.order.remove(&before.serial);
        }
        self.order.insert(row.serial, txn.into());
    }
}

/// A transaction that is being prepared.
pub(super) struct Coming<'a> {
    doubts: &'a Doubts,
    txn: Box<[u8]>,
    bytes: u64,
}

impl Coming<'_> {
    pub(super) fn txn(&self) -> &[u8] {
        &self.txn
    }

    /// Reserves what it takes.
    ///
    /// # Errors
    /// `Full` beyond the bound.
    pub(super) fn reserve(&mut self, bytes: u64) -> Result<()> {
        let mut inner = self.doubts.inner.lock();
        let most = self.doubts.limits.bytes_max;
        if inner.bytes + bytes > most {
            let text = format!(
                "prepared transactions take {} bytes, with these {bytes} it would be more than \
                 {most} (`prepared_bytes_max`)",
                inner.bytes
            );
            return Err(Error::new(ErrorKind::Full, text));
        }
        inner.bytes += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// It is prepared, durably. Its holds stand before anybody can end it.
    pub(super) fn finish(mut self, doubt: Doubt, stand: impl FnOnce(&Doubt)) {
        let mut inner = self.doubts.inner.lock();
        // What it takes stays reserved.
        self.bytes = 0;
        self.doubts.hold(&doubt);
        stand(&doubt);
        inner.now.insert(doubt.txn.clone(), Arc::new(doubt));
        // The name goes over from one to the other under one lock.
        inner.coming.remove(&self.txn);
    }
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let mut inner = self.doubts.inner.lock();
        inner.bytes -= self.bytes;
        inner.coming.remove(&self.txn);
    }
}
