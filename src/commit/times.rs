//! How long commits take, by level.

use crate::meter::Histogram;
use crate::options::Durability;
use crate::stats::TimeStats;

/// Live histograms of a store's commits.
#[derive(Default)]
pub(crate) struct Times {
    buffered: Histogram,
    written: Histogram,
    synced: Histogram,
}

impl Times {
    pub(super) fn at(&self, level: Durability) -> &Histogram {
        match level {
            Durability::Buffered => &self.buffered,
            Durability::Written => &self.written,
            Durability::Synced => &self.synced,
        }
    }

    /// The commits' part of the picture.
    pub(super) fn read(&self) -> TimeStats {
        TimeStats {
            buffered: self.buffered.read(),
            written: self.written.read(),
            synced: self.synced.read(),
            ..TimeStats::default()
        }
    }
}
