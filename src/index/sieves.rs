//! Which sieve stands before which segments and runs.
//!
//! A segment's commits put their ids into a sieve too, the same one for a stretch of segments. So a
//! sieve has every record of these segments, and of a run whose segments (its orders, R1) lie in
//! its stretch. Seals and merges move records and change nothing for it, and neither do
//! generations: that is why there are a few sieves, not one a run.
//!
//! Invariants
//! 1. A sieve has every id that was committed to a segment of its stretch, before its hold ends.
//! 2. Stretches in a view don't overlap.
//! 3. A run is ruled out by sieves only if all of its segments lie in them.
//!
//! Concurrency: the commit leader alone adds (S2), to the sieve of the current segment; readers
//! need no lock. Who holds an id sees what was committed of it before, through the hold table.
//!
//! Failure: a sieve is a convenience. Segments that were replayed at open have none, and without
//! memory there is none: then sets and filters are asked as if there were no sieves.

use std::sync::Arc;

use crate::front::Sieve;
use crate::resources::Resources;

use super::run::RunInfo;
use super::segment::{Segment, WARM_IDS_MIN};

/// So many a view; one more, and the oldest goes. They grow with what is live, so four or five are
/// usual.
const SIEVES_MAX: usize = 8;
/// Room for so many full segments, at least.
const SEGMENTS_MIN: usize = 8;
/// They take this part of the budget of filters at most, and only while so much is not in use.
const BUDGET_PART: usize = 4;

/// A sieve, its memory counted in the budget of filters.
pub(super) struct Counted {
    sieve: Sieve,
    resources: Resources,
}

impl Counted {
    /// For a segment of so many ids at most, which follows those of `newest`: that one if it has
    /// room for it and for the one that fills now, else a new one, large enough that with so many
    /// ids live a few are enough. None without memory.
    pub(super) fn for_segment(
        newest: Option<&Arc<Counted>>,
        ids: usize,
        live: u64,
        resources: &Resources,
    ) -> Option<Arc<Counted>> {
        if let Some(newest) = newest.filter(|s| s.sieve.has_room(ids.saturating_mul(2))) {
            return Some(Arc::clone(newest));
        }
        let half = usize::try_from(live / 2).unwrap_or(usize::MAX);
        let room = ids.saturating_mul(SEGMENTS_MIN).max(half);
        let filters = &resources.shared().filters;
        let bytes = Sieve::bytes_for(room);
        let most = filters.limit() / BUDGET_PART;
        if filters.used().saturating_add(bytes) > most || !filters.take(bytes) {
            return None;
        }
        let Ok(mut sieve) = Sieve::with_room(room) else {
            filters.give(bytes);
            return None;
        };
        // Not the first one, which is made while the store is opened.
        if newest.is_some() && ids >= WARM_IDS_MIN {
            sieve.prefault();
        }
        let resources = resources.clone();
        Some(Arc::new(Counted { sieve, resources }))
    }

    pub(super) fn sieve(&self) -> &Sieve {
        &self.sieve
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.resources.shared().filters.give(self.sieve.bytes());
    }
}

/// A sieve and the stretch of segments that put their ids into it.
#[derive(Clone)]
pub(super) struct Stretch {
    counted: Arc<Counted>,
    first: u64,
    last: u64,
}

impl Stretch {
    pub(super) fn sieve(&self) -> &Sieve {
        &self.counted.sieve
    }

    /// How many of a run's segments are in it.
    fn shared_with(&self, run: &RunInfo) -> u64 {
        let (first, last) = (
            self.first.max(run.first_order),
            self.last.min(run.key.order),
        );
        (last + 1).saturating_sub(first)
    }

    fn has(&self, segment: &Segment) -> bool {
        (self.first..=self.last).contains(&segment.number)
    }
}

/// The sieves of a view, newest first: those there were, with the stretches of its segments, as far
/// as a segment or a run needs them.
pub(super) fn of_view<'a>(
    before: &[Stretch],
    segments: &[Arc<Segment>],
    runs: impl Iterator<Item = &'a RunInfo> + Clone,
) -> Vec<Stretch> {
    let mut all = before.to_vec();
    for segment in segments.iter().rev() {
        let Some(sieve) = segment.sieve() else {
            continue;
        };
        if !all.iter().any(|stretch| stretch.has(segment)) {
            extend(&mut all, sieve, segment.number);
        }
    }
    all.retain(|stretch| {
        segments.iter().any(|segment| stretch.has(segment))
            || runs.clone().any(|run| stretch.shared_with(run) > 0)
    });
    all.truncate(SIEVES_MAX);
    all
}

/// Adds a segment, newer than all there are: to the newest stretch, if it is of the same sieve
/// and ends before it.
fn extend(all: &mut Vec<Stretch>, sieve: &Arc<Counted>, number: u64) {
    match all.first_mut() {
        Some(newest) if Arc::ptr_eq(&newest.counted, sieve) && newest.last + 1 == number => {
            newest.last = number;
        }
        _ => {
            let stretch = Stretch {
                counted: Arc::clone(sieve),
                first: number,
                last: number,
            };
            all.insert(0, stretch);
        }
    }
}

/// The sieves that a run's ids are all in, one bit each; 0 if some are in none.
pub(super) fn before(sieves: &[Stretch], run: &RunInfo) -> u32 {
    let (mut bits, mut segments) = (0, 0);
    for (i, stretch) in sieves.iter().enumerate() {
        let shared = stretch.shared_with(run);
        bits |= u32::from(shared > 0) << i;
        segments += shared;
    }
    let whole = segments == run.key.order - run.first_order + 1;
    if whole { bits } else { 0 }
}

/// Whether all of a segment's ids are in one of the sieves.
pub(super) fn is_behind(sieves: &[Stretch], segment: &Segment) -> bool {
    sieves.iter().any(|stretch| stretch.has(segment))
}

#[cfg(test)]
mod tests {
    use super::super::run::RunKey;
    use super::*;

    fn run(first_order: u64, order: u64) -> RunInfo {
        RunInfo {
            key: RunKey { order, serial: 0 },
            id: [0; 16],
            ids: 1,
            pages: 1,
            first_order,
            extras_bytes: 0,
        }
    }

    /// Segments of 100 ids, each full: a sieve has room for eight of them.
    fn filled(numbers: impl Iterator<Item = u64>, resources: &Resources) -> Vec<Stretch> {
        let (mut all, mut newest) = (Vec::new(), None);
        for number in numbers {
            let sieve = Counted::for_segment(newest.as_ref(), 100, 0, resources);
            let sieve = sieve.expect("there is memory");
            extend(&mut all, &sieve, number);
            sieve
                .sieve()
                .add_all((0..100).map(|i| (number * 100 + i) << 40));
            newest = Some(sieve);
        }
        all
    }

    #[test]
    fn a_run_is_behind_the_sieves_of_all_its_segments_or_none() {
        let resources = Resources::new();
        let sieves = filled(3..21, &resources);
        let stretches: Vec<_> = sieves.iter().map(|s| (s.first, s.last)).collect();
        assert_eq!(stretches, [(17, 20), (10, 16), (3, 9)]);
        assert_eq!(before(&sieves, &run(20, 20)), 0b001);
        assert_eq!(before(&sieves, &run(9, 12)), 0b110);
        assert_eq!(before(&sieves, &run(3, 20)), 0b111);
        assert_eq!(before(&sieves, &run(2, 20)), 0, "segment 2 is in none");
        assert_eq!(before(&sieves, &run(20, 21)), 0, "segment 21 neither");
        // A segment without a sieve leaves a gap, and the same sieve begins anew behind it.
        let gap = filled([3, 4, 6].into_iter(), &resources);
        assert_eq!(before(&gap, &run(3, 6)), 0);
        assert_eq!((before(&gap, &run(6, 6)), gap.len()), (0b01, 2));
    }

    #[test]
    fn what_no_run_needs_goes_and_its_memory_with_it() {
        let resources = Resources::new();
        let sieves = filled(0..40, &resources);
        let one = Sieve::bytes_for(800);
        assert_eq!(resources.shared().filters.used(), sieves.len() * one);
        let runs = [run(38, 38), run(20, 22)];
        let kept = of_view(&sieves, &[], runs.iter());
        drop(sieves);
        assert_eq!(kept.len(), 3);
        assert_eq!(resources.shared().filters.used(), 3 * one);
        assert!(of_view(&kept, &[], [].iter()).is_empty());
        let many = filled(0..400, &resources);
        assert_eq!(of_view(&many, &[], [run(0, 399)].iter()).len(), SIEVES_MAX);
    }

    #[test]
    fn without_room_in_the_budget_there_is_none() {
        let resources = Resources::new().filter_bytes(4 * Sieve::bytes_for(800) - 1);
        assert!(Counted::for_segment(None, 100, 0, &resources).is_none());
        assert_eq!(resources.shared().filters.used(), 0);
        let resources = Resources::new();
        let sieve = Counted::for_segment(None, 100, 1_000_000, &resources);
        let bytes = sieve.expect("there is memory").sieve().bytes();
        assert_eq!(bytes, Sieve::bytes_for(500_000), "half of what is live");
    }
}
