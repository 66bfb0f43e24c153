//! Counters of verdicts and of the tiers that gave them.

use crate::index::Tiers;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::verdict::Verdict;

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
    first, duplicates, in_progress, refused, bad_ids, declined, payload_mismatches, unkeyed, undecided, forgotten,
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
        let mut counts = [0_u64; 7];
        for verdict in verdicts {
            let kind = match verdict {
                Verdict::First(()) => 0,
                Verdict::Duplicate(_) => 1,
                Verdict::InProgress(_) => 2,
                Verdict::Refused(_) => 3,
                Verdict::BadId(_) => 4,
                Verdict::Declined(()) => 5,
                Verdict::PayloadMismatch(_) => 6,
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
    }

    pub(crate) fn commit(&self, ids: usize, unkeyed: u64) {
        add(&self.commits, 1);
        add(&self.ids_written, ids as u64);
        add(&self.unkeyed, unkeyed);
    }
}
