//! Verdicts of one scope, by kind.
//!
//! A batch adds once for each kind it has, to a shard that its thread rarely shares, so that
//! counting costs a batch a few instructions and no waiting for another core's cache line.
//!
//! Why not a counter for each thread: threads come and go, and their counters would have to
//! outlive them.

use std::cell::RefCell;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, thread_local};
use crate::verdict::Verdict;

/// Kinds of verdicts.
pub(crate) const KINDS: usize = 14;

/// How many of each kind.
pub(crate) type Counts = [u64; KINDS];

/// The places of two kinds in [`Counts`].
pub(crate) const FIRST: usize = 0;
pub(crate) const DUPLICATE: usize = 1;
/// Of a third one: let through by a scope that only observes.
pub(crate) const OBSERVED: usize = 13;

/// The place of a verdict's kind in [`Counts`]; none of one that answers no message.
pub(crate) fn kind_of(verdict: &Verdict) -> Option<usize> {
    Some(match verdict {
        Verdict::First(()) => FIRST,
        Verdict::Duplicate(_) => DUPLICATE,
        Verdict::InProgress(_) => 2,
        Verdict::Refused(_) => 3,
        Verdict::BadId(_) => 4,
        Verdict::Declined(()) => 5,
        Verdict::PayloadMismatch(_) => 6,
        Verdict::Failed(_) => 7,
        Verdict::DeadLettered(_) => 8,
        Verdict::OutcomeUnknown(_) => 9,
        Verdict::Late(_) => 10,
        Verdict::Fenced => 11,
        Verdict::UnknownProducer => 12,
        Verdict::Observed(..) => OBSERVED,
        Verdict::LeaseLost => return None,
    })
}

/// Shards, as a power of two.
const SHARD_BITS: u32 = 3;
const SHARDS: usize = 1 << SHARD_BITS;

thread_local! {
    /// Only its address is used: it tells threads apart.
    static HERE: RefCell<u8> = const { RefCell::new(0) };
}

/// This thread's shard.
pub(super) fn shard() -> usize {
    let address = HERE.with_borrow(|here| std::ptr::from_ref(here) as usize as u64);
    (address.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - SHARD_BITS)) as usize
}

/// Live counters of a scope.
#[derive(Default)]
pub(crate) struct Tally {
    shards: [CachePadded<[AtomicU64; KINDS]>; SHARDS],
}

impl Tally {
    pub(crate) fn add(&self, counts: &Counts) {
        let shard = &self.shards[shard()];
        for (counter, n) in shard.iter().zip(counts).filter(|(_, n)| **n > 0) {
            counter.fetch_add(*n, Ordering::Relaxed);
        }
    }

    pub(crate) fn read(&self) -> Counts {
        let mut sums = [0; KINDS];
        for shard in &self.shards {
            for (sum, counter) in sums.iter_mut().zip(shard.iter()) {
                *sum += counter.load(Ordering::Relaxed);
            }
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(first: u64, duplicates: u64, declined: u64) -> Counts {
        let mut counts = Counts::default();
        (counts[FIRST], counts[DUPLICATE], counts[5]) = (first, duplicates, declined);
        counts
    }

    #[test]
    fn what_all_threads_added_is_read() {
        let tally = Tally::default();
        std::thread::scope(|s| {
            for thread in 1..=4 {
                let tally = &tally;
                s.spawn(move || (0..1000).for_each(|_| tally.add(&counts(thread, 1, 2))));
            }
        });
        assert_eq!(tally.read(), counts(10_000, 4_000, 8_000));
    }

    #[test]
    fn threads_mostly_have_shards_of_their_own() {
        let mut seen = std::collections::BTreeSet::new();
        // All alive at once, or one would follow the other in its place.
        let gate = &std::sync::Barrier::new(8);
        std::thread::scope(|s| {
            let threads: Vec<_> = (0..8)
                .map(|_| {
                    s.spawn(move || {
                        gate.wait();
                        shard()
                    })
                })
                .collect();
            seen.extend(threads.into_iter().map(|t| t.join().expect("it runs")));
        });
        assert!(seen.len() >= 3, "{seen:?}");
    }
}
