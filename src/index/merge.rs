//! Merging the runs of a generation, so that few are probed.
//!
//! A generation that no new ids reach any more gets one run, or keeps a few behind sieves: these
//! rule a new id out in all of them, and a merge would rewrite everything once for nothing. One
//! that still grows is merged in
//! tiers: eight neighbours of about one size become one, so that each id is rewritten a few
//! times only and some eight runs a tier are probed. (Merging *all* runs whenever there are
//! more than eight, as first planned, rewrites a generation of n runs n²/16 times over.)
//!
//! - M1: only runs that are neighbours in the order of writing are merged, and the result takes
//!   the highest order of its inputs and a serial above all: it stands where they stood.
//! - M2: the newest record of an id stays; what is expired by the persisted mark and supersedes
//!   nothing goes; tombstones and `over` records stay until the generation goes.
//! - M3: the result is ingested, then the view is swapped, then the inputs' files go. A crash
//!   leaves either set of runs or both; all answer the same, and strays go at open.

use std::sync::Arc;

use crate::clock::Stopwatch;
use crate::engine::failpoint;
use crate::error::{Error, Result};
use crate::trace::span;

use super::Index;
use super::maintain::{Garbage, Maintenance};
use super::run::{Run, RunKey, RunPlan, RunWriter, WrittenRun};
use super::seal::{LOOK_BYTES, is_worthless};
use super::space::WORK_SHARE;
use super::stream::{Source, Stream};
use super::view::Generation;

/// Runs of one tier that make one of the next.
const FAN_IN: usize = 8;
/// So many runs a generation may keep that no new ids reach any more.
const CLOSED_RUNS_MAX: usize = 4;
/// How often a merge looks whether a segment waits to be sealed: callers may wait for it.
const RECORDS_PER_LOOK: u32 = 1 << 15;

impl Index {
    /// Whether a generation has runs that are worth merging now.
    pub(super) fn merge_is_due(&self, generation: &Generation, now: u64) -> bool {
        !self.merge_candidates(generation, now).is_empty()
    }

    /// The runs to merge: neighbours, newest first; none if nothing is due.
    fn merge_candidates<'a>(&self, generation: &'a Generation, now: u64) -> &'a [Arc<Run>] {
        let runs = &generation.runs;
        let closed = now >= self.classes.closes_ms(generation.slice);
        if closed && runs.len() > 1 {
            let largest = runs.iter().map(|r| r.info.ids).max().unwrap_or(0);
            // A straggler alone is not worth rewriting a whole generation. And behind sieves a few
            // runs cost new ids no more than one.
            let is_fine = generation.ids() - largest < largest / 16
                || self.view().stand_sieves_before(generation);
            if runs.len() > CLOSED_RUNS_MAX || !is_fine {
                return runs;
            }
        }
        tier(runs)
    }

    pub(super) fn merge_due(&self, m: &mut Maintenance) -> Result<()> {
        let now = self.time.now_ms();
        let generations = self.view().generations.clone();
        for found in &generations {
            let mut generation = Arc::clone(found);
            loop {
                let runs = self.merge_candidates(&generation, now).to_vec();
                if runs.is_empty() {
                    break;
                }
                generation = self.merge(m, &generation, runs)?;
                self.seal_waiting(m)?;
                if let Some(grown) = self.view().generation(generation.slice) {
                    generation = Arc::clone(grown);
                }
            }
            self.snapshot_filters(&generation, now)?;
        }
        Ok(())
    }

    /// Merges neighbouring runs of a generation into one; returns the generation after it.
    pub(super) fn merge(
        &self,
        m: &mut Maintenance,
        generation: &Arc<Generation>,
        runs: Vec<Arc<Run>>,
    ) -> Result<Arc<Generation>> {
        let watch = Stopwatch::start();
        let end_ms = generation.slice.end_ms;
        let span = span!(INFO, "merge", {slice_end_ms = end_ms, runs = runs.len()}, [ids]);
        self.persist_mark()?;
        failpoint!("merge::begun");
        let merged = self.write_merged(m, generation, &runs)?;
        span.record("ids", merged.info.ids);
        failpoint!("merge::written");
        // Seals went on meanwhile.
        let grown = self.view().generation(generation.slice).cloned();
        let generation = grown.as_ref().unwrap_or(generation);
        let mut kept: Vec<Arc<Run>> = generation.runs.clone();
        kept.retain(|run| runs.iter().all(|r| r.info.key != run.info.key));
        kept.push(self.ingest(generation, merged)?);
        failpoint!("merge::ingested");
        let next = generation.with_runs(kept);
        {
            let _swap = self.swap.lock();
            let view = self.view.load().with_generations(vec![Arc::clone(&next)]);
            self.view.store(Arc::new(view));
        }
        failpoint!("merge::published");
        m.garbage.extend(runs.into_iter().map(|run| Garbage {
            slice: generation.slice,
            family: Arc::clone(&generation.family),
            run,
        }));
        Index::count(&self.counts.merges);
        self.counts.merge_times.record(watch.elapsed());
        Ok(next)
    }

    fn write_merged(
        &self,
        m: &mut Maintenance,
        generation: &Generation,
        runs: &[Arc<Run>],
    ) -> Result<WrittenRun> {
        let order = runs.iter().map(|r| r.info.key.order).max().unwrap_or(0);
        let first_order = runs.iter().map(|r| r.info.first_order).min().unwrap_or(0);
        let plan = RunPlan {
            slice: generation.slice,
            width_ms: generation.width_ms,
            key: RunKey {
                order,
                serial: generation.next_serial(),
            },
            first_order,
            ids: runs.iter().map(|r| r.info.ids).sum(),
            extras_bytes: runs.iter().map(|r| r.info.extras_bytes).sum(),
            filter_bits: self.limits.filter_bits,
        };
        let mark = self.time.persisted_ms();
        let dropped = self.dropped_scopes.lock().clone();
        let sources = runs
            .iter()
            .map(|run| Source::run(&generation.family, generation.slice, &run.info))
            .collect();
        let mut stream = Stream::new(self.ids, sources)?;
        self.check_room_for(LOOK_BYTES, WORK_SHARE)?;
        let mut writer = RunWriter::new(&self.engine, &plan, &self.resources)?;
        let mut streamed = 0_u32;
        while let Some(record) = stream.next()? {
            streamed = streamed.wrapping_add(1);
            if streamed.is_multiple_of(RECORDS_PER_LOOK) {
                if self.is_closing() {
                    return Err(Error::closed());
                }
                self.check_room_for(LOOK_BYTES, WORK_SHARE)?;
                self.seal_waiting(m)?;
            }
            let scope = record.meta.stamp.scope;
            if is_worthless(&record.meta, mark) || dropped.contains(&scope) {
                continue;
            }
            writer.push(record.hash, &record.meta, &record.id, record.extras())?;
        }
        // Also an empty result is ingested: its footer covers the inputs, so that a crash
        // before their files are gone can't bring an expired record back above a newer one.
        writer.finish()
    }
}

/// The newest neighbours of one tier, if there are enough of them.
fn tier(runs: &[Arc<Run>]) -> &[Arc<Run>] {
    let level = |run: &Run| run.info.ids.max(1).ilog2() / FAN_IN.ilog2();
    let mut from = 0;
    while from < runs.len() {
        let same = runs[from..]
            .iter()
            .take_while(|r| level(r) == level(&runs[from]))
            .count();
        if same >= FAN_IN {
            return &runs[from..from + same];
        }
        from += same;
    }
    // Sizes that never line up must not let runs pile up.
    if runs.len() > 3 * FAN_IN { runs } else { &[] }
}
