//! The sizing model: what a load takes of disk and memory, and whether it fits.
//!
//! One model for the program (`firstseen plan`), for tests and for docs/operations.md, whose
//! figures a test compares with this. The bytes are measured ones of the format.

use std::time::Duration;

use crate::clock::millis;
use crate::error::{Error, Result};
use crate::index::Classes;

/// Bytes of a sealed id besides its own: its time, its part of a page, of its key and its block.
const BYTES_OF_AN_ID: f64 = 4.4;
/// RocksDB's index of pages in memory: some 40 bytes for each 256 ids.
const INDEX_BYTES: f64 = 0.16;
/// Filter bytes of an id. Sieves take only what filters leave of a quarter of their budget.
const FILTER_BYTES: f64 = 17.0 / 8.0;
/// Beside what is computed, so much of the disk should be free.
const RESERVE: f64 = 0.1;
/// The defaults of [`Options`](crate::Options) and [`Resources`](crate::Resources).
const WAL_BYTES: u64 = 1 << 30;
const CACHE_BYTES: u64 = 256 << 20;
const SEGMENT_BYTES: u64 = 256 << 20;
const SLICES: u32 = 8;
const GENERATIONS_MAX: u32 = 32;
/// The longest id that a policy allows without being told.
const ID_BYTES_MAX: u32 = 4096;
/// More new ids a second than one store took where it was measured, in docs/performance.md.
const IDS_PER_S_MEASURED: f64 = 3_000_000.0;

/// What is expected of a store.
///
/// ```
/// use firstseen::{Load, days};
/// let plan = Load::new(100_000, 24, days(7)).horizon(days(3)).plan()?;
/// assert_eq!(plan.ids, 100_000 * 7 * 86_400);
/// assert!(plan.disk_bytes_most > 2_000_000_000_000 && plan.findings.is_empty());
/// # Ok::<(), firstseen::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[must_use]
pub struct Load {
    ids_per_s: u64,
    id_bytes: u32,
    retention: Duration,
    extra_bytes: u32,
    horizon: Option<Duration>,
    disk_bytes: Option<u64>,
    memory_bytes: Option<u64>,
}

/// What a load takes, by the model, with the default options.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Plan {
    /// Ids that are remembered at a time.
    pub ids: u64,
    /// The width of a generation's slice of time, if the retention has a class of its own.
    pub slice: Duration,
    /// Generations alive at a time, at most.
    pub generations: u64,
    /// Ids on disk, on average and at most: expired ones leave with their slice.
    pub ids_on_disk: u64,
    /// See `ids_on_disk`.
    pub ids_on_disk_most: u64,
    /// Bytes for ids on disk, on average and at most.
    pub disk_bytes: u64,
    /// See `disk_bytes`.
    pub disk_bytes_most: u64,
    /// More, while the largest merge runs.
    pub merge_bytes: u64,
    /// The write-ahead log, at most.
    pub wal_bytes: u64,
    /// What the disk should have: all of these, and a tenth.
    pub disk_bytes_needed: u64,
    /// `Resources::filter_bytes` that keep a filter for every id.
    pub filter_bytes: u64,
    /// RocksDB's index of pages.
    pub index_bytes: u64,
    /// Block cache, unsealed ids and their log, with the default resources.
    pub other_memory_bytes: u64,
    /// The memory in which all of it fits.
    pub memory_bytes_needed: u64,
    /// Generations without a filter in the memory there is: each new id reads a page of each.
    pub generations_unfiltered: u64,
    /// What is wrong with it, or will be.
    pub findings: Vec<String>,
}

impl Load {
    /// So many new ids a second, of so many bytes, each remembered for so long.
    pub fn new(ids_per_s: u64, id_bytes: u32, retention: Duration) -> Load {
        Load {
            ids_per_s,
            id_bytes,
            retention,
            extra_bytes: 0,
            horizon: None,
            disk_bytes: None,
            memory_bytes: None,
        }
    }

    /// Bytes that are kept with an id: 11 to 25 and the source's length for sources, sliding
    /// scopes and ids with a retention of their own. Default: 0.
    pub fn extra_bytes(mut self, bytes: u32) -> Load {
        self.extra_bytes = bytes;
        self
    }

    /// The longest time after which a message may come again.
    pub fn horizon(mut self, horizon: Duration) -> Load {
        self.horizon = Some(horizon);
        self
    }

    /// The disk there is, in bytes.
    pub fn disk(mut self, bytes: u64) -> Load {
        self.disk_bytes = Some(bytes);
        self
    }

    /// The memory there is for it, in bytes.
    pub fn memory(mut self, bytes: u64) -> Load {
        self.memory_bytes = Some(bytes);
        self
    }

    /// What it takes, and whether that fits.
    ///
    /// # Errors
    /// `Invalid` for a retention, rate or id of length 0, or beyond what there can be.
    pub fn plan(&self) -> Result<Plan> {
        let retention_ms = millis(self.retention);
        if self.ids_per_s == 0 || self.id_bytes == 0 || retention_ms == 0 {
            let what = "rate, id length and retention must be above 0";
            return Err(Error::invalid(what));
        }
        let class = Classes::new(Vec::new(), SLICES, GENERATIONS_MAX).propose(retention_ms)?;
        let rate = self.ids_per_s as f64;
        let [kept_s, slice_s] = [retention_ms, class.width_ms].map(|ms| ms as f64 / 1e3);
        let most = rate * (kept_s + slice_s);
        if most > 1e15 {
            return Err(Error::invalid("that is beyond a quadrillion ids"));
        }
        let average = rate * (kept_s + slice_s / 2.0);
        let each = f64::from(self.id_bytes) + f64::from(self.extra_bytes) + BYTES_OF_AN_ID;
        let merge = each * rate * slice_s;
        let disk = (each * most + merge + WAL_BYTES as f64) * (1.0 + RESERVE);
        let (filters, index) = (most * FILTER_BYTES, most * INDEX_BYTES);
        // Unsealed ids are in the log's memtables once more.
        let other = CACHE_BYTES + 2 * SEGMENT_BYTES;
        let generations = retention_ms / class.width_ms + 2;
        let mut plan = Plan {
            ids: whole(rate * kept_s),
            slice: Duration::from_millis(class.width_ms),
            generations,
            ids_on_disk: whole(average),
            ids_on_disk_most: whole(most),
            disk_bytes: whole(each * average),
            disk_bytes_most: whole(each * most),
            merge_bytes: whole(merge),
            wal_bytes: WAL_BYTES,
            disk_bytes_needed: whole(disk),
            filter_bytes: whole(filters),
            index_bytes: whole(index),
            other_memory_bytes: other,
            memory_bytes_needed: whole(filters + index) + other,
            generations_unfiltered: 0,
            findings: Vec::new(),
        };
        self.judge(&mut plan);
        Ok(plan)
    }

    fn judge(&self, plan: &mut Plan) {
        let mut found = Vec::new();
        if let Some(horizon) = self.horizon.filter(|h| *h > self.retention) {
            found.push(format!(
                "the retention of {} s is below the redelivery horizon of {} s: what comes again \
                 later than it is first seen again",
                self.retention.as_secs(),
                horizon.as_secs()
            ));
        }
        if let Some(disk) = self
            .disk_bytes
            .filter(|disk| *disk < plan.disk_bytes_needed)
        {
            found.push(format!(
                "the disk of {disk} bytes is too small: {} are needed",
                plan.disk_bytes_needed
            ));
        }
        if let Some(memory) = self.memory_bytes {
            let fixed = plan.index_bytes + plan.other_memory_bytes;
            let left = memory.saturating_sub(fixed) as f64;
            let part = (1.0 - left / plan.filter_bytes.max(1) as f64).clamp(0.0, 1.0);
            plan.generations_unfiltered = whole((part * plan.generations as f64).ceil());
            if memory < fixed {
                found.push(format!(
                    "the memory of {memory} bytes is too small: {fixed} are needed without any \
                     filter"
                ));
            } else if plan.generations_unfiltered > 0 {
                found.push(format!(
                    "with {memory} bytes of memory {} of {} generations have no filter: each new \
                     id reads a page of each from disk; {} bytes hold all",
                    plan.generations_unfiltered, plan.generations, plan.memory_bytes_needed
                ));
            }
        }
        if self.id_bytes > ID_BYTES_MAX {
            found.push(format!(
                "ids of more than {ID_BYTES_MAX} bytes are refused without `id_bytes_max`"
            ));
        }
        if self.ids_per_s as f64 > IDS_PER_S_MEASURED {
            found.push(
                "no store was measured to take so many new ids a second: run `firstseen bench`, \
                 and use several stores on several disks"
                    .to_string(),
            );
        }
        plan.findings = found;
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "it is above 0, and bounded by the caller"
)]
fn whole(n: f64) -> u64 {
    n.round() as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::days;

    #[test]
    fn it_says_what_is_wrong() {
        let load = Load::new(100_000, 24, days(1));
        let plan = load.plan().unwrap();
        assert_eq!(plan.findings, [""; 0]);
        let enough = load.disk(plan.disk_bytes_needed).horizon(days(1));
        let enough = enough.memory(plan.memory_bytes_needed);
        assert_eq!(enough.plan().unwrap().findings, [""; 0]);
        let wrong = Load::new(4_000_000, 5_000, days(1)).horizon(days(2));
        let wrong = wrong.disk(1 << 40).memory(16 << 30).plan().unwrap();
        assert_eq!(wrong.findings.len(), 5, "{:?}", wrong.findings);
        let half = (plan.memory_bytes_needed - plan.filter_bytes) + plan.filter_bytes / 2;
        let half = load.memory(half).plan().unwrap();
        assert_eq!((half.generations_unfiltered, half.findings.len()), (2, 1));
        assert!(Load::new(0, 1, days(1)).plan().is_err());
        assert!(Load::new(1, 1, Duration::ZERO).plan().is_err());
        assert!(Load::new(u64::MAX, 1, days(1)).plan().is_err());
    }
}
