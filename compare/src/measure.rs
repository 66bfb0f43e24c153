//! Time, memory and disk: everything that is measured, in one place.

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::server;

/// Reads the monotonic clock.
#[expect(
    clippy::disallowed_methods,
    reason = "measuring real time is what this program is for"
)]
pub fn now() -> Instant {
    Instant::now()
}

/// Waits.
#[expect(
    clippy::disallowed_methods,
    reason = "servers start, and a steady run waits for its next batch, in real time"
)]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
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

    /// Takes what another thread recorded meanwhile: the time of both is that of the longer one.
    pub fn join(&mut self, other: &Latencies) {
        self.each_ns.extend_from_slice(&other.each_ns);
        self.total = self.total.max(other.total);
    }

    pub fn total(&self) -> Duration {
        self.total
    }

    pub fn calls(&self) -> usize {
        self.each_ns.len()
    }

    /// Calls that took longer.
    pub fn longer_than(&self, time: Duration) -> usize {
        let calls = self.each_ns.iter();
        calls
            .filter(|ns| u128::from(**ns) > time.as_nanos())
            .count()
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

/// The memory of this process and of its server, in bytes, 0 where the system doesn't say. What
/// the processes of a server share counts once.
pub fn resident_bytes(server: Option<u32>) -> u64 {
    let own = kib("/proc/self/status", "VmRSS:");
    let of_server = |id: u32| -> u64 {
        let all = std::iter::once(id).chain(server::children(id));
        all.map(|id| kib(&format!("/proc/{id}/smaps_rollup"), "Pss:"))
            .sum()
    };
    (own + server.map_or(0, of_server)) * 1024
}

fn kib(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap_or_default();
    let kib = text
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.unwrap_or(0)
}

/// The processor time that this process and its server have used.
pub fn processor_time(server: Option<u32>) -> Duration {
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let own = Duration::new(own.tv_sec.cast_unsigned(), own.tv_nsec as u32);
    let ticks = server.map_or(0, server::processor_ticks);
    own + Duration::from_secs(ticks) / rustix::param::clock_ticks_per_second() as u32
}

/// What this process and its server have written to files, in bytes; `None` where the system
/// doesn't say.
pub fn written_bytes(server: Option<u32>) -> Option<u64> {
    let of = |file: String| -> Option<u64> {
        let text = fs::read_to_string(file).ok()?;
        let mut lines = text.lines();
        let line = lines.find_map(|line| line.strip_prefix("write_bytes:"))?;
        line.trim().parse().ok()
    };
    let mut sum = of("/proc/self/io".to_owned())?;
    if let Some(id) = server {
        let all = std::iter::once(id).chain(server::children(id));
        sum += all
            .filter_map(|id| of(format!("/proc/{id}/io")))
            .sum::<u64>();
    }
    Some(sum)
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
    fn threads_share_their_time() {
        let (mut one, mut other) = (Latencies::new(1), Latencies::new(1));
        one.record(Duration::from_micros(30));
        other.record(Duration::from_micros(50));
        one.join(&other);
        assert_eq!(one.total(), Duration::from_micros(50));
        assert_eq!(one.percentiles_us([50.0, 100.0]), [30.0, 50.0]);
        assert_eq!(one.longer_than(Duration::from_micros(30)), 1);
    }

    #[test]
    fn processor_time_passes_with_work() {
        let before = processor_time(None);
        let mut sum = 0_u64;
        while processor_time(None) == before {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(processor_time(Some(std::process::id())) > before);
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
        assert!(!Path::new("/proc/self/status").exists() || resident_bytes(None) > 100_000);
    }
}
