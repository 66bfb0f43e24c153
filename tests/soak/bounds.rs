//! What memory, files and disk may come to, by the sizing in docs/operations.md and the options
//! of the run, and what they are.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::lanes::{
    CACHE_BYTES, FILTER_BYTES, LANES, Lane, MEMTABLE_BYTES, SEGMENT_BYTES, WAL_BYTES,
};

const MIB: u64 = 1 << 20;
/// A 16-byte id on disk with its share of page and file.
const ID_BYTES: f64 = 20.1;
/// Seconds until what has expired is gone: a segment's age, a look of the background, ours.
const LATE: usize = 10;
/// The program itself, RocksDB without its caches, the book, a copy that is open.
const OWN_BYTES: u64 = 192 * MIB;
/// Rows, their compactions, logs, files of a few bytes.
const ROWS_BYTES: u64 = 128 * MIB;

/// What is measured each second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measured {
    pub(crate) rss_bytes: u64,
    pub(crate) files: u64,
    pub(crate) disk_bytes: u64,
    pub(crate) stall_us: u64,
}

impl Measured {
    pub(crate) fn max(self, other: Measured) -> Measured {
        Measured {
            rss_bytes: self.rss_bytes.max(other.rss_bytes),
            files: self.files.max(other.files),
            disk_bytes: self.disk_bytes.max(other.disk_bytes),
            stall_us: self.stall_us.max(other.stall_us),
        }
    }

    /// What is above its bound, in words.
    pub(crate) fn above(&self, bounds: &Measured) -> Option<String> {
        let all = [
            ("resident memory", self.rss_bytes, bounds.rss_bytes),
            ("open files", self.files, bounds.files),
            ("disk", self.disk_bytes, bounds.disk_bytes),
            ("longest commit, us", self.stall_us, bounds.stall_us),
        ];
        let above = all.into_iter().find(|(_, found, bound)| found > bound);
        above.map(|(what, found, bound)| format!("{what}: {found}, more than {bound}"))
    }
}

/// The width of a retention's slices: an eighth of the next power of 4, in seconds. A run ends
/// before anything leaves that is kept for days.
fn slice(ms: u64) -> u64 {
    let mut span = 1;
    while span < ms {
        span *= 4;
    }
    span.div_ceil(8 * 1000)
}

/// The ids of a lane that may lie on the disk: all of T + W, and W more while a merge runs.
fn ids_on_disk(lane: &Lane, ids: &VecDeque<u64>) -> u64 {
    let (Some(now), Some(first)) = (ids.back(), ids.front()) else {
        return 0;
    };
    let Some(ms) = lane.retention_ms else {
        return now - first;
    };
    let seconds = lane.cap_ms.unwrap_or(ms) / 1000 + 2 * slice(ms);
    let back = usize::try_from(seconds)
        .unwrap_or(usize::MAX)
        .saturating_add(LATE);
    let then = ids.len().checked_sub(back).map_or(first, |at| &ids[at]);
    now - then
}

/// The bounds, given the ids each lane has recorded by each second so far.
pub(crate) fn bounds(ids: &[VecDeque<u64>], stall_us: u64) -> Measured {
    let on_disk = LANES
        .iter()
        .zip(ids)
        .map(|(lane, ids)| ids_on_disk(lane, ids));
    let on_disk: u64 = on_disk.sum();
    // A quarter for segments that are merged in tiers, and for records written again.
    let ids_bytes = (1.25 * ID_BYTES * on_disk as f64) as u64;
    let index_bytes = on_disk / 25;
    let shared = [2 * SEGMENT_BYTES, CACHE_BYTES, FILTER_BYTES, MEMTABLE_BYTES];
    let shared: usize = shared.into_iter().sum();
    // A filter that a merge builds comes on top of the budget.
    let building = 2 * on_disk;
    let generations: u64 = LANES
        .iter()
        .map(|lane| match lane.retention_ms {
            Some(ms) => ms / 1000 / slice(ms).max(1) + 2,
            None => 1,
        })
        .sum();
    // Growing generations: two a lane, of 24 runs; the others of one, or two during a merge.
    let files = 24 * 2 * LANES.len() as u64 + 2 * generations;
    Measured {
        rss_bytes: shared as u64 + index_bytes + building + OWN_BYTES,
        files: files + 2 * 15 + 8 * 6 + 16,
        disk_bytes: ids_bytes + 2 * WAL_BYTES + ROWS_BYTES,
        stall_us,
    }
}

/// How far back the ids of a second matter.
pub(crate) const SECONDS_BACK: usize = 3_600;

/// What a process takes now; `None` when it is gone.
pub(crate) fn measure(process: u32, store: &Path) -> Option<Measured> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let rss = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = rss.trim().trim_end_matches(" kB").trim().parse().ok()?;
    let files = std::fs::read_dir(format!("/proc/{process}/fd")).ok()?;
    Some(Measured {
        rss_bytes: kib * 1024,
        files: files.count() as u64,
        disk_bytes: disk_bytes(store),
        stall_us: 0,
    })
}

/// Blocks that are taken below a directory. What is removed meanwhile takes none.
fn disk_bytes(dir: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return 0;
    };
    let bytes = entries.flatten().map(|entry| match entry.metadata() {
        Ok(meta) if meta.is_dir() => disk_bytes(&entry.path()),
        Ok(meta) => meta.blocks() * 512,
        Err(_) => 0,
    });
    bytes.sum()
}
