//! All claims of an open store, in memory: asked before the index, by every path.
//!
//! Invariants:
//! - W2: an id's entry changes only while its id is held, after the commit that says so and before
//!   the id is released. So whoever holds an id sees the claim as the last commit left it.
//! - W3: leases run in monotonic time. A wall clock that jumps ends none of them; a reopening
//!   gives each what is left by effective time, at most its lease.
//! - W4: what has expired by effective time means nothing, whatever its phase.
//!
//! `census` counts them by scope and state, under the same lock.
//!
//! One lock, held for a look or a change. A claim costs a commit, mostly a synced one, so the lock
//! is idle; and callers of scopes without claims never take it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

use super::census::{Census, Counted};
use super::row::{ClaimRow, Nonce, Phase, scope_of};

/// A claim in memory.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) row: ClaimRow,
    /// The row's `until` in monotonic time.
    pub(crate) until_mono_ms: u64,
}

/// A claim as a caller meets it now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Standing {
    /// It has expired.
    Gone,
    /// It is not to be had for so many milliseconds, at least 1.
    Taken(u64),
    /// The next attempt may begin.
    Open,
    /// Somebody must decide.
    Unknown,
}

impl Entry {
    /// How it stands. `abandoned`: of which runs the claims count no more.
    pub(crate) fn standing(&self, now_ms: u64, mono_ms: u64, is_abandoned: bool) -> Standing {
        let row = &self.row;
        if row.expiry_ms <= now_ms {
            return Standing::Gone;
        }
        let left_ms = self.until_mono_ms.saturating_sub(mono_ms);
        match row.phase {
            Phase::Unknown => Standing::Unknown,
            Phase::Held if is_abandoned || left_ms == 0 => Standing::Open,
            Phase::Free if left_ms == 0 => Standing::Open,
            Phase::Held | Phase::Free => Standing::Taken(left_ms),
        }
    }
}

/// What a commit makes of an id's claim.
pub(crate) type Change = (Box<[u8]>, Option<Arc<Entry>>);

/// The table.
pub(crate) struct Claims {
    /// This run of the store.
    run: u64,
    serials: AtomicU64,
    claims_max: usize,
    inner: Mutex<Inner>,
    changed: Condvar,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Box<[u8]>, Arc<Entry>>,
    /// By the scope's number.
    census: HashMap<u16, Census>,
}

impl Inner {
    fn put(&mut self, key: Box<[u8]>, entry: Arc<Entry>) {
        let census = self.census.entry(scope_of(&key).unwrap_or_default());
        let census = census.or_default();
        census.add(&entry);
        if let Some(before) = self.entries.insert(key, entry) {
            census.remove(&before);
        }
    }

    fn remove(&mut self, key: &[u8]) {
        let census = self.census.get_mut(&scope_of(key).unwrap_or_default());
        if let (Some(before), Some(census)) = (self.entries.remove(key), census) {
            census.remove(&before);
        }
    }
}

impl Claims {
    /// A table for this run of a store, of at most so many claims but for those found.
    pub(crate) fn new(run: u64, claims_max: usize) -> Claims {
        Claims {
            run,
            serials: AtomicU64::new(0),
            claims_max,
            inner: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Takes over a claim that was found when the store was opened.
    pub(crate) fn found(&self, key: Box<[u8]>, row: ClaimRow, now_ms: u64, mono_ms: u64) {
        // The end of a lease may lie far off if the clock was wrong; a backoff has no lease.
        let left_ms = row.until_ms.saturating_sub(now_ms);
        let left_ms = match row.phase {
            Phase::Held => left_ms.min(row.lease_ms),
            Phase::Free | Phase::Unknown => left_ms,
        };
        let until_mono_ms = mono_ms.saturating_add(left_ms);
        let entry = Arc::new(Entry { row, until_mono_ms });
        self.inner.lock().put(key, entry);
    }

    /// A new claim's nonce.
    pub(crate) fn nonce(&self) -> Nonce {
        Nonce {
            run: self.run,
            serial: self.serials.fetch_add(1, Ordering::Relaxed),
        }
    }

    /// Whether a claim is of this run of the store.
    pub(crate) fn is_of_this_run(&self, nonce: Nonce) -> bool {
        nonce.run == self.run
    }

    pub(crate) fn get(&self, key: &[u8]) -> Option<Arc<Entry>> {
        self.inner.lock().entries.get(key).cloned()
    }

    /// # Errors
    /// `Full` if there is no room for one more claim.
    pub(crate) fn check_room(&self) -> Result<()> {
        if self.len() < self.claims_max {
            return Ok(());
        }
        let text = format!("the store has {} claims (`claims_max`)", self.claims_max);
        Err(Error::new(ErrorKind::Full, text))
    }

    /// Makes what a commit wrote visible (W2).
    pub(crate) fn apply(&self, changes: &[Change]) {
        if changes.is_empty() {
            return;
        }
        let mut inner = self.inner.lock();
        for (key, entry) in changes {
            match entry {
                Some(entry) => inner.put(key.clone(), Arc::clone(entry)),
                None => inner.remove(key),
            }
        }
        drop(inner);
        self.changed.notify_all();
    }

    /// Waits until an id's claim is not `before` any more, or until the time.
    pub(crate) fn wait_changed(&self, key: &[u8], before: &Arc<Entry>, until: Instant) {
        let mut inner = self.inner.lock();
        let is_same = |e: Option<&Arc<Entry>>| e.is_some_and(|e| Arc::ptr_eq(e, before));
        while is_same(inner.entries.get(key)) {
            if self.changed.wait_until(&mut inner, until).timed_out() {
                return;
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.lock().entries.len()
    }

    /// A scope's claims by state, at a monotonic time.
    pub(crate) fn count(&self, scope: u16, mono_ms: u64) -> Counted {
        let mut inner = self.inner.lock();
        let census = inner.census.get_mut(&scope);
        census.map_or_else(Counted::default, |census| census.read(mono_ms))
    }

    /// The claims that a condition holds of, in the order of their keys.
    pub(crate) fn list(&self, of: impl Fn(&[u8], &Entry) -> bool) -> Vec<(Box<[u8]>, Arc<Entry>)> {
        let inner = self.inner.lock();
        let chosen = inner.entries.iter().filter(|(key, entry)| of(key, entry));
        let mut chosen: Vec<_> = chosen.map(|(k, e)| (k.clone(), Arc::clone(e))).collect();
        drop(inner);
        chosen.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(phase: Phase) -> ClaimRow {
        ClaimRow {
            phase,
            nonce: Nonce { run: 1, serial: 0 },
            attempt: 1,
            pardoned: 0,
            first_ms: 0,
            lease_ms: 10,
            until_ms: 110,
            expiry_ms: 1_000,
            why: String::new(),
            reference: Vec::new(),
            extras: Vec::new(),
        }
    }

    #[test]
    fn a_lease_that_was_found_is_never_longer_than_it_was() {
        for (now_ms, left_ms) in [(0, 10), (100, 10), (105, 5), (110, 0), (500, 0)] {
            let claims = Claims::new(2, 9);
            claims.found(Box::from(*b"k"), row(Phase::Held), now_ms, 70);
            let entry = claims.get(b"k").unwrap();
            assert_eq!(entry.until_mono_ms, 70 + left_ms, "at {now_ms}");
        }
    }

    #[test]
    fn every_phase_obeys_its_expiry() {
        for phase in [Phase::Held, Phase::Free, Phase::Unknown] {
            let entry = Entry {
                row: row(phase),
                until_mono_ms: u64::MAX,
            };
            assert_ne!(entry.standing(999, 0, false), Standing::Gone);
            assert_eq!(entry.standing(1_000, 0, false), Standing::Gone);
        }
    }

    #[test]
    fn only_a_lease_or_a_backoff_keeps_others_out() {
        let standing = |phase, mono_ms, is_abandoned| {
            let entry = Entry {
                row: row(phase),
                until_mono_ms: 10,
            };
            entry.standing(0, mono_ms, is_abandoned)
        };
        for phase in [Phase::Held, Phase::Free] {
            assert_eq!(standing(phase, 9, false), Standing::Taken(1));
            assert_eq!(standing(phase, 10, false), Standing::Open);
        }
        assert_eq!(standing(Phase::Unknown, 99, true), Standing::Unknown);
        assert_eq!(standing(Phase::Held, 0, true), Standing::Open);
        assert_eq!(standing(Phase::Free, 0, true), Standing::Taken(10));
    }
}
