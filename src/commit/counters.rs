//! Counters of verdicts and of the tiers that gave them.

use crate::index::Tiers;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::verdict::Verdict;

use super::claim_op::ClaimOp;

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
    first, duplicates, in_progress, refused, bad_ids, declined, payload_mismatches,
    failed, dead_lettered, outcome_unknown, leases_lost, claims_taken, claims_completed,
    claims_failed, claims_retried, claims_renewed, late, fenced, unknown_producers,
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

    /// Counts the verdicts of a call that took effect.
    pub(crate) fn verdicts(&self, verdicts: &[Verdict]) {
        let mut counts = [0_u64; 14];
        for verdict in verdicts {
            let kind = match verdict {
                Verdict::First(()) => 0,
                Verdict::Duplicate(_) => 1,
                Verdict::InProgress(_) => 2,
                Verdict::Refused(_) => 3,
                Verdict::BadId(_) => 4,
                Verdict::Declined(()) => 5,
                Verdict::PayloadMismatch(_) => 6,
                Verdict::Failed(_) => 7,
                Verdict::DeadLettered(_) => 8,
                Verdict::OutcomeUnknown(_) => 9,
                Verdict::LeaseLost => 10,
                Verdict::Late(_) => 11,
                Verdict::Fenced => 12,
                Verdict::UnknownProducer => 13,
            };
            counts[kind] += 1;
        }
        add(&self.first, counts[0]);
        add(&self.duplicates, counts[1]);
        add(&self.in_progress, counts[2]);
        add(&self.refused, counts[3]);
        add(&self.bad_ids, counts[4]);
        add(&self.declined, counts[5]);
        add(&self.payload_mismatches, counts[6]);
        add(&self.failed, counts[7]);
        add(&self.dead_lettered, counts[8]);
        add(&self.outcome_unknown, counts[9]);
        add(&self.leases_lost, counts[10]);
        add(&self.late, counts[11]);
        add(&self.fenced, counts[12]);
        add(&self.unknown_producers, counts[13]);
    }

    /// Counts what was done with a claim; taking one is an answer to a message as well.
    pub(crate) fn claim(&self, op: &ClaimOp, verdict: &Verdict) {
        let is_lost = matches!(verdict, Verdict::LeaseLost);
        let counter = match op {
            ClaimOp::Take => {
                self.verdicts(std::slice::from_ref(verdict));
                add(&self.claims_taken, u64::from(verdict.is_first()));
                return;
            }
            ClaimOp::Redrive(_) | ClaimOp::Purge(_) | ClaimOp::Decide(..) => return,
            _ if is_lost => &self.leases_lost,
            ClaimOp::Renew(_) => &self.claims_renewed,
            ClaimOp::Complete(_) => &self.claims_completed,
            ClaimOp::Fail(_) => &self.claims_failed,
            ClaimOp::Retry(_) | ClaimOp::Release(_) | ClaimOp::Unknown(..) => &self.claims_retried,
        };
        add(counter, u64::from(is_lost || verdict.is_first()));
    }

    pub(crate) fn commit(&self, ids: usize, unkeyed: u64) {
        add(&self.commits, 1);
        add(&self.ids_written, ids as u64);
        add(&self.unkeyed, unkeyed);
    }
}
