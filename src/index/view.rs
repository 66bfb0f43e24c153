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
}

impl View {
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
        View {
            segments,
            generations: self.generations.clone(),
        }
    }

    /// A copy with generations put in place of those of the same slice, or added.
    pub(crate) fn with_generations(&self, new: Vec<Arc<Generation>>) -> View {
        let mut generations = self.generations.clone();
        for generation in new {
            generations.retain(|g| g.slice != generation.slice);
            generations.push(generation);
        }
        generations.sort_by_key(|g| std::cmp::Reverse(g.slice));
        View {
            segments: self.segments.clone(),
            generations,
        }
    }

    /// A copy without one segment.
    pub(crate) fn without_segment(mut self, number: u64) -> View {
        self.segments.retain(|s| s.number != number);
        self
    }

    /// A copy without one generation.
    pub(crate) fn without_generation(&self, slice: Slice) -> View {
        let generations = self
            .generations
            .iter()
            .filter(|g| g.slice != slice)
            .cloned()
            .collect();
        View {
            segments: self.segments.clone(),
            generations,
        }
    }
}
