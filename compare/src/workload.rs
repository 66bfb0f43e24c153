//! The named workloads: what each is about, in what sizes.

use clap::ValueEnum;

use crate::plan::FILL_BATCH;
use crate::systems::Level;

/// The workloads, under the names that the command line and the output use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Workload {
    /// New ids, one a call.
    #[value(name = "new_batch1")]
    NewBatch1,
    /// New ids, 100 a call.
    #[value(name = "new_batch100")]
    NewBatch100,
    /// New ids, 1,000 a call.
    #[value(name = "new_batch1000")]
    NewBatch1000,
    /// New ids, 100 a call, two threads; see cpu_ns_per_id.
    #[value(name = "new_batch100_threads2")]
    NewBatch100Threads2,
    /// New ids that carry their time (UUIDs of version 7), 1,000 a call.
    #[value(name = "new_time_batch1000")]
    NewTimeBatch1000,
    /// New ids, 1,000 a call, on the disk before it returns.
    #[value(name = "synced_batch1000")]
    SyncedBatch1000,
    /// New ids, 64 threads, one a call, on the disk before it returns.
    #[value(name = "synced_single_threads64")]
    SyncedSingleThreads64,
    /// New ids, each with one 200-byte row that is written in the same commit.
    #[value(name = "commit_with_mutation_batch100")]
    CommitWithMutationBatch100,
    /// Duplicates of ids of the last few batches.
    #[value(name = "dup_recent_batch1000")]
    DupRecentBatch1000,
    /// Duplicates of ids that lie in their resting form, cached. The yardstick is
    /// rocksdb_get_put: one sorted MultiGet over one compacted, cached family.
    #[value(name = "dup_old_batch1000")]
    DupOldBatch1000,
    /// As dup_old_batch1000, with a cache of a tenth of the ids' bytes. The system's own cache
    /// of files is left as it is.
    #[value(name = "larger_than_memory_batch1000")]
    LargerThanMemoryBatch1000,
    /// New ids with 1 % duplicates, half of them old.
    #[value(name = "mixed_1pct_batch1000")]
    Mixed1PctBatch1000,
    /// New ids, 1,000 a call, among a million live ones.
    #[value(name = "live_1m")]
    Live1m,
    /// The same among ten million.
    #[value(name = "live_10m")]
    Live10m,
    /// The same among a hundred million.
    #[value(name = "live_100m")]
    Live100m,
    /// New ids, 100 a call: p99.9 while generations are dropped, against a quiet time before.
    #[value(name = "expiry")]
    Expiry,
    /// A process with so many unsealed ids (--ids) is killed: time from opening to the first
    /// verdict.
    #[value(name = "reopen")]
    Reopen,
    /// The same with a 200-byte row for each unsealed id.
    #[value(name = "reopen_with_rows")]
    ReopenWithRows,
    /// Bytes an id takes on disk, in filters and in memory, everything compacted.
    #[value(name = "footprint")]
    Footprint,
    /// The ids of a file, in its order: see --input.
    #[value(name = "input")]
    Input,
}

impl Workload {
    /// What runs if nobody says: what is done in minutes.
    pub fn usual() -> Vec<Workload> {
        let all = Workload::value_variants().iter().copied();
        let large = [Workload::Live10m, Workload::Live100m, Workload::Input];
        all.filter(|w| !large.contains(w)).collect()
    }

    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    pub fn batch(self) -> u64 {
        match self {
            Workload::NewBatch1 | Workload::SyncedSingleThreads64 => 1,
            Workload::NewBatch100
            | Workload::NewBatch100Threads2
            | Workload::CommitWithMutationBatch100
            | Workload::Expiry => 100,
            _ => 1000,
        }
    }

    pub fn threads(self) -> u32 {
        match self {
            Workload::NewBatch100Threads2 => 2,
            Workload::SyncedSingleThreads64 => 64,
            _ => 1,
        }
    }

    pub fn level(self) -> Level {
        match self {
            Workload::SyncedBatch1000 | Workload::SyncedSingleThreads64 => Level::Synced,
            _ => Level::Written,
        }
    }

    pub fn synced(self) -> bool {
        self.level() == Level::Synced
    }

    pub fn writes_rows(self) -> bool {
        matches!(
            self,
            Workload::CommitWithMutationBatch100 | Workload::ReopenWithRows
        )
    }

    /// Whether the timed part works on generations that were filled before it.
    pub fn preloads(self) -> bool {
        !matches!(self, Workload::DupRecentBatch1000 | Workload::Input)
    }

    /// Whether the timed part is only about preloaded ids.
    pub fn asks_old(self) -> bool {
        self.warms() || self.is_cold() || self == Workload::Footprint
    }

    /// Whether the preloaded ids are all asked once before the timed part.
    pub fn warms(self) -> bool {
        self == Workload::DupOldBatch1000
    }

    /// Whether the ids are more than the cache holds.
    pub fn is_cold(self) -> bool {
        self == Workload::LargerThanMemoryBatch1000
    }

    /// Whether it is about opening again after a kill.
    pub fn reopens(self) -> bool {
        matches!(self, Workload::Reopen | Workload::ReopenWithRows)
    }

    pub fn own_time(self) -> bool {
        self == Workload::NewTimeBatch1000
    }

    /// The live ids that its name says.
    pub fn live(self) -> Option<u64> {
        match self {
            Workload::Live1m => Some(1_000_000),
            Workload::Live10m => Some(10_000_000),
            Workload::Live100m => Some(100_000_000),
            _ => None,
        }
    }

    /// Figures of this workload besides those that all have: name, head of the column, places.
    pub fn columns(self) -> &'static [(&'static str, &'static str, usize)] {
        match self {
            Workload::NewBatch100 | Workload::NewBatch100Threads2 => {
                &[("cpu_ns_per_id", "cpu ns/id", 0)]
            }
            Workload::Expiry => &[
                ("quiet_p999_us", "quiet p99.9", 1),
                ("x_quiet_p999", "x quiet", 2),
                ("dropped_under_load", "dropped", 0),
            ],
            Workload::Reopen | Workload::ReopenWithRows => &[
                ("first_verdict_ms", "first verdict ms", 1),
                ("ready_ms", "ready ms", 1),
                ("lost_ids", "lost", 0),
            ],
            Workload::Footprint => &[
                ("filter_bytes_per_id", "filter B/id", 2),
                ("false_positives_percent", "false pos. %", 3),
                ("rss_bytes_per_id", "rss B/id", 1),
            ],
            Workload::LargerThanMemoryBatch1000 => &[("cache_mib", "cache MiB", 1)],
            _ => &[],
        }
    }
}

/// How large a run is.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Ids in the timed part.
    pub ids: u64,
    /// New ids before it.
    pub preload: u64,
}

impl Size {
    /// The ids that are live at once: so many new ids later, an id expires.
    pub fn window(self, batch: u64) -> u64 {
        let filled = if self.preload > 0 {
            self.preload
        } else {
            self.ids
        };
        // A whole batch gets one time: with one batch more than the preload, all of it is live at
        // its end; and a window of a few batches is the smallest that makes sense.
        let batch = batch.max(FILL_BATCH);
        (filled + batch).max(8 * batch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_the_published_ones() {
        let names: Vec<String> = Workload::value_variants()
            .iter()
            .map(|w| w.name())
            .collect();
        assert_eq!(
            names,
            [
                "new_batch1",
                "new_batch100",
                "new_batch1000",
                "new_batch100_threads2",
                "new_time_batch1000",
                "synced_batch1000",
                "synced_single_threads64",
                "commit_with_mutation_batch100",
                "dup_recent_batch1000",
                "dup_old_batch1000",
                "larger_than_memory_batch1000",
                "mixed_1pct_batch1000",
                "live_1m",
                "live_10m",
                "live_100m",
                "expiry",
                "reopen",
                "reopen_with_rows",
                "footprint",
                "input"
            ]
        );
    }

    #[test]
    fn what_takes_hours_runs_only_if_asked() {
        let usual = Workload::usual();
        assert!(usual.contains(&Workload::Live1m) && usual.contains(&Workload::Reopen));
        assert!(!usual.contains(&Workload::Live100m) && !usual.contains(&Workload::Input));
    }
}
