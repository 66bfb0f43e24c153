//! Time, memory and disk: everything that is measured, in one place.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

/// Reads the monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring real time is what this program is for"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// The times of the timed calls, and their sum.
pub struct Latencies {
    each_ns: Vec<u32>,
    total: Duration,
}

impl Latencies {
    /// Room for `calls` calls, touched now so that memory measured later doesn't include it.
    pub fn new(calls: usize) -> Latencies {
        let mut each_ns = vec![1; calls];
        each_ns.clear();
        Latencies {
            each_ns,
            total: Duration::ZERO,
        }
    }

    /// Records one call.
    pub fn record(&mut self, took: Duration) {
        self.each_ns
            .push(u32::try_from(took.as_nanos()).unwrap_or(u32::MAX));
        self.total += took;
    }

    /// Time that belongs to the timed part but to no call.
    pub fn add(&mut self, took: Duration) {
        self.total += took;
    }

    pub fn total(&self) -> Duration {
        self.total
    }

    /// The given percentiles, in microseconds.
    pub fn percentiles_us<const N: usize>(&mut self, of: [f64; N]) -> [f64; N] {
        self.each_ns.sort_unstable();
        of.map(|p| f64::from(percentile(&self.each_ns, p)) / 1000.0)
    }
}

/// The smallest value that at least `percent` of a sorted list do not exceed; 0 of an empty one.
fn percentile(sorted: &[u32], percent: f64) -> u32 {
    // The small step down keeps 99.9 % of 1,000 from rounding up to the 1,000th.
    let rank = (percent / 100.0 * sorted.len() as f64 - 1e-6).ceil();
    let at = (rank.max(1.0) as usize - 1).min(sorted.len().saturating_sub(1));
    sorted.get(at).copied().unwrap_or(0)
}

/// The resident memory of this process in bytes, 0 where the system doesn't say.
pub fn resident_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// The space that a directory's files take on disk.
///
/// # Errors
///
/// The directory can't be listed. A file that vanishes meanwhile counts as empty.
pub fn disk_bytes(dir: &Path) -> io::Result<u64> {
    let mut sum = 0;
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sum += disk_bytes(&entry.path())?;
        } else if let Ok(meta) = entry.metadata() {
            sum += allocated(&meta);
        }
    }
    Ok(sum)
}

#[cfg(unix)]
fn allocated(meta: &fs::Metadata) -> u64 {
    use std::os::unix::fs::MetadataExt;
    meta.blocks() * 512
}

#[cfg(not(unix))]
fn allocated(meta: &fs::Metadata) -> u64 {
    meta.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_nearest_rank() {
        let list: Vec<u32> = (1..=1000).collect();
        assert_eq!(percentile(&list, 50.0), 500);
        assert_eq!(percentile(&list, 99.0), 990);
        assert_eq!(percentile(&list, 99.9), 999);
        assert_eq!(percentile(&list, 100.0), 1000);
        assert_eq!(percentile(&[7], 99.9), 7);
        assert_eq!(percentile(&[], 50.0), 0);
    }

    #[test]
    fn latencies_sum_calls_and_the_rest() {
        let mut l = Latencies::new(2);
        l.record(Duration::from_micros(30));
        l.record(Duration::from_micros(10));
        l.add(Duration::from_micros(60));
        assert_eq!(l.total(), Duration::from_micros(100));
        assert_eq!(l.percentiles_us([50.0, 99.0]), [10.0, 30.0]);
    }

    #[test]
    fn disk_counts_files_in_folders() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        assert_eq!(disk_bytes(dir.path())?, 0);
        fs::create_dir(dir.path().join("in"))?;
        fs::write(dir.path().join("in/file"), vec![1; 100_000])?;
        assert!(disk_bytes(dir.path())? >= 100_000);
        Ok(())
    }

    #[test]
    fn resident_memory_is_seen_where_there_is_proc() {
        assert!(!Path::new("/proc/self/status").exists() || resident_bytes() > 100_000);
    }
}
