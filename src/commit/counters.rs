//! Counters of the tiers that gave answers, of commits, and of verdicts by scope.

use crate::claims::Change;
use crate::index::Tiers;
use crate::meter::{Counts, DUPLICATE, FIRST, OBSERVED, kind_of};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::verdict::Verdict;

use super::Committer;
use super::claim_op::ClaimOp;
use super::draft::Draft;
use super::item::Item;

/// A table of counters and their snapshot, so that no name is written twice.
macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// Live counters of a store.
        #[derive(Default)]
        pub(crate) struct Counters {
            $($(#[$doc])* pub(crate) $name: AtomicU64,)*
        }
    };
}

counters! {
    leases_lost, claims_taken, claims_completed, claims_failed, claims_retried, claims_renewed,
    claims_repeated, claims_redriven, claims_purged, claims_decided,
    producers_evicted, unkeyed, undecided, forgotten,
    from_active, from_filters, from_disk, disk_missed, filter_probes, false_positives, unfiltered,
    commits, ids_written,
}

fn add(counter: &AtomicU64, n: u64) {
    if n > 0 {
        counter.fetch_add(n, Ordering::Relaxed);
    }
}

impl Counters {
    pub(crate) fn tiers(&self, t: &Tiers) {
        add(&self.from_active, t.active);
        add(&self.from_filters, t.filtered);
        add(&self.from_disk, t.disk);
        add(&self.disk_missed, t.disk_missed);
        add(&self.filter_probes, t.filter_probes);
        add(&self.false_positives, t.false_positives);
        add(&self.unfiltered, t.unfiltered);
    }

    /// Counts what was done with a claim.
    fn claim(&self, op: &ClaimOp, verdict: &Verdict) {
        let is_lost = matches!(verdict, Verdict::LeaseLost);
        let counter = match op {
            ClaimOp::Take => &self.claims_taken,
            // Lost is, of what is done by hand, that there was nothing to do.
            ClaimOp::Redrive(_) | ClaimOp::Purge(_) | ClaimOp::Decide(..) if is_lost => return,
            ClaimOp::Unclaimed => return,
            ClaimOp::Redrive(_) => &self.claims_redriven,
            ClaimOp::Purge(_) => &self.claims_purged,
            ClaimOp::Decide(..) => &self.claims_decided,
            _ if is_lost => &self.leases_lost,
            ClaimOp::Renew(_) => &self.claims_renewed,
            ClaimOp::Complete(_) => &self.claims_completed,
            ClaimOp::Fail(_) => &self.claims_failed,
            ClaimOp::Retry(_) | ClaimOp::Release(_) | ClaimOp::Unknown(..) => &self.claims_retried,
        };
        add(counter, u64::from(is_lost || verdict.is_first()));
    }

    /// Counts a claim that was taken if it is no first attempt. It is a draft's only item.
    pub(super) fn attempt(&self, draft: &Draft, changes: &[Change]) {
        let op = draft.items.first().and_then(|item| draft.more(item));
        let op = op.and_then(|more| more.claim.as_ref());
        if matches!(op, Some(ClaimOp::Take)) {
            let taken = changes.iter().filter_map(|(_, entry)| entry.as_ref());
            let repeated = taken.filter(|entry| entry.row.attempt > 1).count();
            add(&self.claims_repeated, repeated as u64);
        }
    }

    pub(crate) fn commit(&self, ids: usize, unkeyed: u64) {
        add(&self.commits, 1);
        add(&self.ids_written, ids as u64);
        add(&self.unkeyed, unkeyed);
    }
}

/// Counts of a batch's scopes: nearly always one, which needs no memory of its own.
enum Few {
    One([Counts; 1]),
    Many(Vec<Counts>),
}

impl Few {
    fn new(scopes: usize) -> Few {
        match scopes {
            1 => Few::One([Counts::default()]),
            many => Few::Many(vec![Counts::default(); many]),
        }
    }

    fn all(&mut self) -> &mut [Counts] {
        match self {
            Few::One(one) => one,
            Few::Many(many) => many,
        }
    }
}

impl Committer {
    /// Counts the verdicts of a call that took effect; those of a claim's later life are no
    /// answers to messages.
    pub(super) fn count(&self, draft: &Draft, verdicts: &[Verdict], now_ms: u64) {
        let mut counts = Few::new(draft.scopes.len());
        // Numbers of producers have no scope.
        let mut numbers = Counts::default();
        for (item, verdict) in draft.items.iter().zip(verdicts) {
            if draft.has_claims && !self.is_answer(draft, item, verdict) {
                continue;
            }
            if let Some(instead) = verdict.would_be() {
                draft.scopes[item.scope as usize]
                    .state
                    .switches
                    .count_observed(instead);
            }
            if let Some(kind) = kind_of(verdict) {
                if item.is_sequence {
                    numbers[kind] += 1;
                } else {
                    counts.all()[item.scope as usize][kind] += 1;
                }
            }
        }
        // A message without a producer's name is in no sequence, and is counted all the same.
        if numbers != Counts::default() {
            self.sequence_tally.add(&numbers);
        }
        let counts = counts.all();
        for (scope, counts) in draft.scopes.iter().zip(&*counts) {
            scope.state.tally.add(counts);
        }
        if counts.iter().any(|c| c[DUPLICATE] + c[OBSERVED] > 0) {
            self.count_duplicates(draft, verdicts, counts, now_ms);
        }
    }

    /// Counts what was done with an item's claim, if anything. Taking one answers a message.
    fn is_answer(&self, draft: &Draft, item: &Item, verdict: &Verdict) -> bool {
        match draft.more(item).and_then(|more| more.claim.as_ref()) {
            None => true,
            Some(op) => {
                self.counters.claim(op, verdict);
                matches!(op, ClaimOp::Take)
            }
        }
    }

    /// Counts a batch of ids of one scope that are all first seen.
    pub(super) fn count_all_first(&self, draft: &Draft) {
        if let Some(scope) = draft.scopes.first() {
            let mut counts = Counts::default();
            counts[FIRST] = draft.items.len() as u64;
            scope.state.tally.add(&counts);
        }
    }

    /// Counts duplicates by where they come from, if that was asked for.
    fn count_duplicates(
        &self,
        draft: &Draft,
        verdicts: &[Verdict],
        counts: &[Counts],
        now_ms: u64,
    ) {
        let Some(duplicates) = &self.duplicates else {
            return;
        };
        let observed = |scope: u32| {
            let items = draft.items.iter().zip(verdicts);
            let of = items.filter(|(item, v)| item.scope == scope && v.would_be().is_some());
            of.filter(|(_, verdict)| verdict.is_duplicate()).count() as u64
        };
        let scopes = (0..).zip(draft.scopes.iter().zip(counts));
        let scopes = scopes.map(|(at, (scope, counts))| {
            let more = if counts[OBSERVED] > 0 {
                observed(at)
            } else {
                0
            };
            (&*scope.state.name, counts[DUPLICATE] + more)
        });
        let items = draft.items.iter().zip(verdicts);
        let repeated = items.filter(|(_, verdict)| verdict.is_duplicate());
        let sources = repeated.filter_map(|(item, _)| {
            let source = item.source.as_ref()?;
            let source = std::str::from_utf8(draft.get(source)).ok()?;
            Some((&*draft.scopes[item.scope as usize].state.name, source))
        });
        duplicates.add(now_ms, scopes.filter(|(_, n)| *n > 0), sources);
    }
}
