//! What is done in one run, as a sequence of steps.
//!
//! Every step is one batch, timed or not, with the number of ids that must come out as first
//! seen. The same plan is made for every system of a round.
//!
//! A run has up to four parts: *preload* (new ids that fill the live generations, untimed),
//! *settle* (the system brings what it holds into its resting form), *warm* (every preloaded id
//! once more, untimed, only where the workload is about cached ids), and the *timed* part. The
//! timed part of several threads isn't planned: each takes the next numbers there are.
//!
//! Invariants:
//! - I1: an id that a step counts as a duplicate was inserted before and has not expired.
//! - I2: the timed part holds exactly the asked number of ids.

use crate::ids::{EPOCH_MS, Id, WINDOW_MS, id, timed_id};
use crate::workload::{Size, Workload};

/// The size of a preloading or warming batch.
pub const FILL_BATCH: u64 = 1000;
/// "A moment ago": at most so many batches back.
const RECENT_BATCHES: u64 = 16;

/// One step of a plan; its ids are in the buffer given to [`Plan::next`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The preload is complete: bring it into the resting form.
    Settle,
    /// Insert the ids; `firsts` of them are first seen.
    Batch { timed: bool, firsts: u64 },
}

/// The steps of one run.
pub struct Plan {
    workload: Workload,
    size: Size,
    seed: u64,
    random: fastrand::Rng,
    window: u64,
    inserted: u64,
    settled: bool,
    warmed: u64,
    timed: u64,
    fresh: bool,
}

impl Plan {
    pub fn new(workload: Workload, size: Size, seed: u64) -> Plan {
        Plan {
            workload,
            size,
            seed,
            random: fastrand::Rng::with_seed(seed),
            window: size.window(workload.batch()),
            inserted: 0,
            settled: size.preload == 0,
            warmed: 0,
            timed: 0,
            fresh: false,
        }
    }

    /// The number of different ids inserted so far. It is also what the clock shows: an id
    /// expires when this number has grown by the window.
    pub fn inserted(&self) -> u64 {
        self.inserted
    }

    /// Fills `out` for the next step; `None` at the end.
    pub fn next(&mut self, out: &mut Vec<Id>) -> Option<Step> {
        out.clear();
        if self.inserted < self.size.preload {
            let firsts = self.new_ids(FILL_BATCH.min(self.size.preload - self.inserted), out);
            return Some(Step::Batch {
                timed: false,
                firsts,
            });
        }
        if !self.settled {
            self.settled = true;
            return Some(Step::Settle);
        }
        if self.workload.warms() && self.warmed < self.inserted {
            let len = FILL_BATCH.min(self.inserted - self.warmed);
            out.extend((self.warmed..self.warmed + len).map(|n| self.id(n)));
            self.warmed += len;
            return Some(Step::Batch {
                timed: false,
                firsts: 0,
            });
        }
        let len = self.workload.batch().min(self.size.ids - self.timed);
        if len == 0 || self.workload.threads() > 1 {
            None
        } else {
            Some(self.timed_step(len, out))
        }
    }

    fn timed_step(&mut self, len: u64, out: &mut Vec<Id>) -> Step {
        if self.workload == Workload::DupRecentBatch1000 && !self.fresh {
            self.fresh = true;
            let firsts = self.new_ids(len, out);
            return Step::Batch {
                timed: false,
                firsts,
            };
        }
        self.fresh = false;
        self.timed += len;
        let firsts = match self.workload {
            Workload::DupRecentBatch1000 => self.recent_batch(len, out),
            w if w.asks_old() => self.any_ids(len, out),
            Workload::Mixed1PctBatch1000 => self.mixed_ids(len, out),
            _ => self.new_ids(len, out),
        };
        Step::Batch {
            timed: true,
            firsts,
        }
    }

    /// The id with a number. Where ids carry a time it is when the clock was at that number, but
    /// for one batch: none is from the future.
    fn id(&self, n: u64) -> Id {
        if !self.workload.own_time() {
            return id(self.seed, n);
        }
        let past = u128::from(n.saturating_sub(FILL_BATCH)) * u128::from(WINDOW_MS);
        let ms = u64::try_from(past / u128::from(self.window)).unwrap_or(u64::MAX);
        timed_id(self.seed, n, EPOCH_MS.saturating_add(ms))
    }

    fn new_ids(&mut self, len: u64, out: &mut Vec<Id>) -> u64 {
        out.extend((self.inserted..self.inserted + len).map(|n| self.id(n)));
        self.inserted += len;
        len
    }

    /// A whole batch of the last few ones once more.
    fn recent_batch(&mut self, len: u64, out: &mut Vec<Id>) -> u64 {
        let batches = (self.window / self.workload.batch()).saturating_sub(2);
        let back = self.random.u64(0..batches.clamp(1, RECENT_BATCHES)) * self.workload.batch();
        let start = self.inserted.saturating_sub(len + back);
        out.extend((start..start + len).map(|n| self.id(n)));
        0
    }

    /// Ids from anywhere in what was inserted; the clock stands still meanwhile.
    fn any_ids(&mut self, len: u64, out: &mut Vec<Id>) -> u64 {
        let (seed, inserted) = (self.seed, self.inserted.max(1));
        out.extend((0..len).map(|_| id(seed, self.random.u64(0..inserted))));
        0
    }

    /// New ids, and in every hundredth place a duplicate: an old and a recent one in turn.
    fn mixed_ids(&mut self, len: u64, out: &mut Vec<Id>) -> u64 {
        let before = self.inserted;
        for place in 0..len {
            let old = (place / 100) % 2 == 1;
            match (place % 100 == 99)
                .then(|| self.duplicate(before, old))
                .flatten()
            {
                Some(n) => out.push(id(self.seed, n)),
                None => {
                    out.push(id(self.seed, self.inserted));
                    self.inserted += 1;
                }
            }
        }
        self.inserted - before
    }

    /// The number of a live id inserted before `before`; an old one lies at least a quarter of
    /// the window back where there is one.
    fn duplicate(&mut self, before: u64, old: bool) -> Option<u64> {
        let batch = self.workload.batch();
        let (mut nearest, mut farthest) = (1, RECENT_BATCHES * batch);
        if old {
            (nearest, farthest) = (self.window / 4, self.window);
        }
        farthest = farthest
            .min(self.window.saturating_sub(2 * batch))
            .min(before);
        nearest = nearest.min(farthest).max(1);
        (before > 0 && farthest > 0).then(|| before - self.random.u64(nearest..=farthest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;
    use std::collections::HashMap;

    /// Runs a plan against a model in which an id expires after a window of new ids.
    fn check(workload: Workload, size: Size) -> (u64, u64, u64) {
        let mut plan = Plan::new(workload, size, 3);
        let window = size.window(workload.batch());
        let (mut seen, mut ids) = (HashMap::new(), Vec::new());
        let (mut timed_ids, mut duplicates, mut settles) = (0, 0, 0);
        loop {
            let now = plan.inserted();
            match plan.next(&mut ids) {
                None => break,
                Some(Step::Settle) => settles += 1,
                Some(Step::Batch { timed, firsts }) => {
                    let mut counted = 0;
                    for id in &ids {
                        let at = seen.entry(*id).or_insert_with(|| {
                            counted += 1;
                            now
                        });
                        assert!(*at + window > now, "an expired id was used");
                    }
                    assert_eq!(counted, firsts);
                    timed_ids += if timed { ids.len() as u64 } else { 0 };
                    duplicates += if timed { ids.len() as u64 - firsts } else { 0 };
                }
            }
        }
        (timed_ids, duplicates, settles)
    }

    #[test]
    fn every_workload_keeps_its_promises_i1_i2() {
        for workload in Workload::value_variants() {
            for (ids, preload) in [(2_000, 2_000), (20_500, 10_000), (30_000, 0), (999, 70_000)] {
                if workload.asks_old() && preload == 0 {
                    continue;
                }
                let (timed, duplicates, settles) = check(*workload, Size { ids, preload });
                assert_eq!(settles, u64::from(preload > 0));
                if workload.threads() > 1 {
                    assert_eq!(timed, 0, "{workload:?}");
                    continue;
                }
                assert_eq!(timed, ids, "{workload:?}");
                match workload {
                    Workload::DupRecentBatch1000 => assert_eq!(duplicates, ids),
                    w if w.asks_old() => assert_eq!(duplicates, ids),
                    Workload::Mixed1PctBatch1000 => assert!(duplicates.abs_diff(ids / 100) <= 10),
                    _ => assert_eq!(duplicates, 0),
                }
            }
        }
    }
}
