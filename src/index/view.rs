//! The immutable picture {segments, generations, filters} that a lookup sees.
//!
//! - V1: a caller loads the view once, after it holds its ids (protocol: hold → view → probe).
//!   Whatever was committed before the hold is in that view; whatever moves from a segment to a
//!   generation meanwhile is in both or in either, never in neither, since one swap moves it.
//! - V2: swaps are serialised by one lock, never taken on the write path except to rotate.
//! - V3: old views keep their segments, runs and families alive; what they no longer need is
//!   freed by the last one that lets go.

use std::sync::Arc;

use crate::engine::Family;

use super::record::Slice;
use super::run::Run;
use super::segment::Segment;
use super::sieves::{self, Stretch};

/// The ids that expire in the same slice of time.
pub(crate) struct Generation {
    pub(crate) slice: Slice,
    pub(crate) width_ms: u64,
    pub(crate) family: Arc<Family>,
    /// Newest first.
    pub(crate) runs: Vec<Arc<Run>>,
}

impl Generation {
    /// The same generation with other runs, put newest first.
    pub(crate) fn with_runs(&self, mut runs: Vec<Arc<Run>>) -> Arc<Generation> {
        runs.sort_by_key(|run| std::cmp::Reverse(run.info.key));
        Arc::new(Generation {
            slice: self.slice,
            width_ms: self.width_ms,
            family: Arc::clone(&self.family),
            runs,
        })
    }

    pub(crate) fn ids(&self) -> u64 {
        self.runs.iter().map(|r| r.info.ids).sum()
    }

    /// The greatest serial of its runs, from which a new run's is taken.
    pub(crate) fn next_serial(&self) -> u32 {
        self.runs
            .iter()
            .map(|r| r.info.key.serial + 1)
            .max()
            .unwrap_or(0)
    }
}

/// The picture.
pub(crate) struct View {
    /// Newest first; the first one is current.
    pub(crate) segments: Vec<Arc<Segment>>,
    /// Latest first, in the total order of slices.
    pub(crate) generations: Vec<Arc<Generation>>,
    /// Newest first.
    sieves: Vec<Stretch>,
    /// For each run, in the order of generations, the sieves that stand before it.
    before: Vec<u32>,
    is_sieved: bool,
}

impl View {
    pub(crate) fn new(segments: Vec<Arc<Segment>>, generations: Vec<Arc<Generation>>) -> View {
        View::made(segments, generations, &[])
    }

    fn made(
        segments: Vec<Arc<Segment>>,
        generations: Vec<Arc<Generation>>,
        sieves: &[Stretch],
    ) -> View {
        let runs = generations.iter().flat_map(|g| &g.runs);
        let runs = runs.map(|run| &run.info);
        let sieves = sieves::of_view(sieves, &segments, runs.clone());
        let before: Vec<u32> = runs.map(|run| sieves::before(&sieves, run)).collect();
        let mut behind = segments.iter().map(|s| sieves::is_behind(&sieves, s));
        let is_sieved = behind.all(|behind| behind) && before.iter().all(|bits| *bits != 0);
        View {
            segments,
            generations,
            sieves,
            before,
            is_sieved,
        }
    }

    /// Whether sieves stand before all that there is.
    pub(super) fn is_sieved(&self) -> bool {
        self.is_sieved
    }

    pub(super) fn sieves(&self) -> &[Stretch] {
        &self.sieves
    }

    /// Whether sieves stand before all runs of a generation.
    pub(super) fn stand_sieves_before(&self, generation: &Generation) -> bool {
        let mut runs = generation.runs.iter();
        runs.all(|run| sieves::before(&self.sieves, &run.info) != 0)
    }

    /// Memory of the sieves.
    pub(crate) fn sieve_bytes(&self) -> u64 {
        self.sieves.iter().map(|s| s.sieve().bytes() as u64).sum()
    }

    /// The sieves that stand before a run, one bit each, by the run's place in the order of
    /// probing; 0 if it must always be asked.
    pub(super) fn sieves_before(&self, run: usize) -> u32 {
        self.before[run]
    }

    pub(crate) fn current(&self) -> &Arc<Segment> {
        &self.segments[0]
    }

    /// Segments that are immutable and not sealed yet.
    pub(crate) fn unsealed(&self) -> usize {
        self.segments.len() - 1
    }

    pub(crate) fn generation(&self, slice: Slice) -> Option<&Arc<Generation>> {
        self.generations.iter().find(|g| g.slice == slice)
    }

    /// A copy with a new current segment.
    pub(crate) fn rotated(&self, next: Arc<Segment>) -> View {
        let mut segments = Vec::with_capacity(self.segments.len() + 1);
        segments.push(next);
        segments.extend(self.segments.iter().cloned());
        View::made(segments, self.generations.clone(), &self.sieves)
    }

    /// A copy with generations put in place of those of the same slice, or added.
    pub(crate) fn with_generations(&self, new: Vec<Arc<Generation>>) -> View {
        let mut generations = self.generations.clone();
        for generation in new {
            generations.retain(|g| g.slice != generation.slice);
            generations.push(generation);
        }
        generations.sort_by_key(|g| std::cmp::Reverse(g.slice));
        View::made(self.segments.clone(), generations, &self.sieves)
    }

    /// A copy without one segment.
    pub(crate) fn without_segment(mut self, number: u64) -> View {
        self.segments.retain(|s| s.number != number);
        View::made(self.segments, self.generations, &self.sieves)
    }

    /// A copy without one generation.
    pub(crate) fn without_generation(&self, slice: Slice) -> View {
        let generations = self
            .generations
            .iter()
            .filter(|g| g.slice != slice)
            .cloned()
            .collect();
        View::made(self.segments.clone(), generations, &self.sieves)
    }
}
