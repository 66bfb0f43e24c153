//! The thread that renews a store's claims: one a store, started with the first claim that is.
//!
//! Each lease is due at a third of its time, so that two renewals may fail before it runs out; all
//! that are due go into one commit. A lease that a commit finds lost is never renewed again (its
//! nonce is not the row's any more), nor one whose handle is gone: the list holds it weakly.
//!
//! It waits in real time, as what it keeps alive does. Failure: a renewal that could not be
//! written is tried again soon; the lease runs on meanwhile.

use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::claims::{Entry, Nonce};
use crate::clock;
use crate::commit::{ClaimOp, Committer, Draft, DraftCaps, ScopeUse};
use crate::id::Id;
use crate::options::Durability;
use crate::policy::Policy;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};
use crate::verdict::Verdict;

/// What a claim's handle and its renewal share.
pub(crate) struct Lease {
    pub(crate) used: ScopeUse,
    pub(crate) id: Box<[u8]>,
    pub(crate) remember: Option<Duration>,
    pub(crate) nonce: Nonce,
    pub(crate) lease_ms: u64,
    pub(crate) until_mono_ms: AtomicU64,
    /// Found to be somebody else's.
    pub(crate) is_lost: AtomicBool,
    /// Ended by its handle.
    pub(crate) is_over: AtomicBool,
    /// Of a scope that only observed: there is no claim behind it.
    pub(crate) is_unclaimed: bool,
}

impl Lease {
    pub(crate) fn is_lost(&self, mono_ms: u64) -> bool {
        let is_over = self.is_over.load(Ordering::Acquire);
        let has_run_out = self.until_mono_ms.load(Ordering::Acquire) <= mono_ms;
        !is_over && (has_run_out || self.is_lost.load(Ordering::Acquire))
    }

    pub(crate) fn renewed(&self, entry: &Entry) {
        self.until_mono_ms
            .fetch_max(entry.until_mono_ms, Ordering::AcqRel);
    }

    fn is_renewable(&self) -> bool {
        let is_ended = self.is_over.load(Ordering::Acquire) || self.is_lost.load(Ordering::Acquire);
        // One of a dropped scope would fail the commit of all others.
        !is_ended && !self.used.state.is_dropped()
    }

    pub(crate) fn add_to(
        &self,
        draft: &mut Draft,
        used: &ScopeUse,
        op: ClaimOp,
        caps: DraftCaps,
    ) -> u32 {
        let mut id = Id::new(&*self.id);
        id.remember = self.remember;
        draft.add_claim(used, &id, op, caps)
    }

    /// What a call wants of the claim.
    pub(crate) fn op(&self, op: ClaimOp) -> ClaimOp {
        if self.is_unclaimed {
            return ClaimOp::Unclaimed;
        }
        op
    }

    fn third(&self) -> Duration {
        Duration::from_millis((self.lease_ms / 3).max(1))
    }
}

/// A store's renewals.
#[derive(Default)]
pub(crate) struct Renewals {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    leases: Vec<Due>,
    is_closed: bool,
}

struct Due {
    lease: Weak<Lease>,
    at: Instant,
}

/// Claims renewed in one commit.
const RENEW_MAX: usize = 10_000;
/// How long the thread sleeps when nothing is due.
const IDLE: Duration = Duration::from_secs(3_600);

impl Renewals {
    /// Renews a lease from now on.
    pub(crate) fn add(&self, committer: &Arc<Committer>, lease: &Arc<Lease>, level: Durability) {
        let mut state = self.shared.state.lock();
        if state.is_closed
            || state
                .leases
                .iter()
                .any(|d| d.lease.as_ptr() == Arc::as_ptr(lease))
        {
            return;
        }
        state.leases.push(Due {
            lease: Arc::downgrade(lease),
            at: clock::deadline(lease.third()),
        });
        drop(state);
        let mut thread = self.thread.lock();
        if thread.is_none() {
            let (shared, committer) = (Arc::clone(&self.shared), Arc::clone(committer));
            let run = move || renew_all(&shared, &committer, level);
            let spawned = std::thread::Builder::new()
                .name("firstseen-renew".to_string())
                .spawn(run);
            match spawned {
                Ok(spawned) => *thread = Some(spawned),
                Err(error) => log::error!("claims are not renewed by themselves: {error}"),
            }
        }
        drop(thread);
        self.shared.changed.notify_one();
    }

    /// Ends the thread; leases run out.
    pub(crate) fn close(&self) {
        self.shared.state.lock().is_closed = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

fn renew_all(shared: &Shared, committer: &Arc<Committer>, level: Durability) {
    while let Some(due) = wait_due(shared) {
        let again = renew(committer, &due, level);
        let mut state = shared.state.lock();
        for (lease, after) in due.iter().zip(again) {
            if lease.is_renewable() {
                state.leases.push(Due {
                    lease: Arc::downgrade(lease),
                    at: clock::deadline(after),
                });
            }
        }
    }
}

/// The leases that are due, taken from the list; `None` once the store is closed.
fn wait_due(shared: &Shared) -> Option<Vec<Arc<Lease>>> {
    let mut state = shared.state.lock();
    loop {
        if state.is_closed {
            return None;
        }
        let mut due = Vec::new();
        state.leases.retain(|entry| {
            let Some(lease) = entry.lease.upgrade().filter(|l| l.is_renewable()) else {
                return false;
            };
            let is_due = clock::left(entry.at).is_zero() && due.len() < RENEW_MAX;
            if is_due {
                due.push(lease);
            }
            !is_due
        });
        if !due.is_empty() {
            return Some(due);
        }
        let next = state.leases.iter().map(|entry| entry.at).min();
        let until = next.unwrap_or_else(|| clock::deadline(IDLE));
        let _ = shared.changed.wait_until(&mut state, until);
    }
}

/// Renews leases in one commit; when each is due again.
fn renew(committer: &Arc<Committer>, due: &[Arc<Lease>], level: Durability) -> Vec<Duration> {
    let mut draft = Draft::default();
    let caps = DraftCaps {
        items: usize::MAX,
        bytes: 1 << 30,
        sources: false,
    };
    for lease in due {
        // One that is being ended must not keep the others waiting.
        let policy = Policy {
            wait: Some(Duration::ZERO),
            ..(*lease.used.policy).clone()
        };
        let used = ScopeUse {
            policy: Arc::new(policy),
            ..lease.used.clone()
        };
        lease.add_to(&mut draft, &used, ClaimOp::Renew(lease.nonce), caps);
    }
    let soon = |lease: &Lease| (lease.third() / 4).max(Duration::from_millis(1));
    let verdicts = match committer.commit_claim(&mut draft, level) {
        Ok(verdicts) => verdicts,
        Err(error) => {
            log::warn!("claims were not renewed, and are tried again: {error}");
            return due.iter().map(|lease| soon(lease)).collect();
        }
    };
    let mut renewed = draft
        .changes()
        .iter()
        .filter_map(|(_, entry)| entry.as_ref());
    let each = due.iter().zip(&verdicts).map(|(lease, verdict)| {
        match verdict {
            Verdict::First(()) => {
                if let Some(entry) = renewed.next() {
                    lease.renewed(entry);
                }
                return lease.third();
            }
            Verdict::LeaseLost => lease.is_lost.store(true, Ordering::Release),
            _ => {}
        }
        soon(lease)
    });
    each.collect()
}
