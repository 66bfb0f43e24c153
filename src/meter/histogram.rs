//! Durations in buckets, log-linear: each octave of microseconds is cut in four.
//!
//! So a quantile is known to a quarter, from one microsecond to a minute, in a kilobyte a shard;
//! what is longer stands in the last bucket. Recording is two additions to a shard that the
//! thread rarely shares. (The idea is that of HdrHistogram by Gil Tene; its crate also sizes,
//! subtracts and writes histograms, which nothing here needs.)

use std::time::Duration;

use crate::stats::DurationStats;
use crate::sync::CachePadded;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::tally::shard;

/// Buckets of an octave.
const PARTS: usize = 1 << PART_BITS;
const PART_BITS: u32 = 2;
/// The octave of microseconds from which on all is one bucket: above 67 s.
const OCTAVE_MAX: u32 = 26;
/// Below `PARTS` microseconds each has its own.
pub(crate) const BUCKETS: usize = (OCTAVE_MAX as usize - 1) * PARTS + 1;
/// Threads that record at once are fewer here than in a tally.
const SHARDS: usize = 4;

/// The bucket of a time in microseconds.
fn bucket(us: u64) -> usize {
    if us < PARTS as u64 {
        return us as usize;
    }
    let octave = us.ilog2();
    if octave >= OCTAVE_MAX {
        return BUCKETS - 1;
    }
    let part = (us >> (octave - PART_BITS)) as usize & (PARTS - 1);
    (octave - 1) as usize * PARTS + part
}

/// The first time, in microseconds, that is above a bucket; none for the last.
pub(crate) fn end_us(bucket: usize) -> Option<u64> {
    if bucket + 1 >= BUCKETS {
        return None;
    }
    let (next, parts) = (bucket + 1, PARTS);
    if next < parts {
        return Some(next as u64);
    }
    let octave = (next / parts) as u32 + 1;
    Some(((parts + next % parts) as u64) << (octave - PART_BITS))
}

struct Shard {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

/// A live histogram.
pub(crate) struct Histogram {
    shards: Box<[CachePadded<Shard>]>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        let shard = || {
            CachePadded::new(Shard {
                buckets: std::array::from_fn(|_| AtomicU64::new(0)),
                sum_ns: AtomicU64::new(0),
            })
        };
        Histogram {
            shards: (0..SHARDS).map(|_| shard()).collect(),
        }
    }
}

impl Histogram {
    pub(crate) fn record(&self, time: Duration) {
        let us = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let shard = &self.shards[shard() % SHARDS];
        shard.buckets[bucket(us)].fetch_add(1, Ordering::Relaxed);
        shard.sum_ns.fetch_add(ns, Ordering::Relaxed);
    }

    pub(crate) fn read(&self) -> DurationStats {
        let mut counts = vec![0; BUCKETS];
        let mut sum = Duration::ZERO;
        for shard in &self.shards {
            for (count, counter) in counts.iter_mut().zip(&shard.buckets) {
                *count += counter.load(Ordering::Relaxed);
            }
            sum += Duration::from_nanos(shard.sum_ns.load(Ordering::Relaxed));
        }
        let buckets = counts.into_iter().enumerate();
        let buckets = buckets.map(|(i, n)| (end_us(i).map(Duration::from_micros), n));
        DurationStats::new(buckets.collect(), sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_is_in_the_one_bucket_that_holds_it() {
        let mut before = 0;
        for i in 0..BUCKETS - 1 {
            let end = end_us(i).expect("not the last");
            assert!(end > before, "bucket {i}");
            assert_eq!((bucket(before), bucket(end - 1)), (i, i));
            assert!(
                before < 4 || (end - before) * 4 <= before,
                "bucket {i} is wide"
            );
            before = end;
        }
        assert_eq!(before, 1 << OCTAVE_MAX);
        assert_eq!(
            (bucket(before), bucket(u64::MAX)),
            (BUCKETS - 1, BUCKETS - 1)
        );
        assert_eq!(end_us(BUCKETS - 1), None);
    }

    #[test]
    fn quantiles_are_right_to_a_quarter() {
        let histogram = Histogram::default();
        for us in 1..=1000 {
            histogram.record(Duration::from_micros(us));
        }
        histogram.record(Duration::from_secs(1000));
        let stats = histogram.read();
        assert_eq!(stats.count(), 1001);
        assert_eq!(
            stats.sum(),
            Duration::from_micros(500_500) + Duration::from_secs(1000)
        );
        for (q, us) in [(0.0, 1), (0.5, 500), (0.9, 900), (0.99, 990)] {
            let got = stats.quantile(q).expect("it has some").as_micros() as u64;
            assert!(us <= got && got <= us + us / 4 + 1, "{q}: {got}");
        }
        assert_eq!(
            stats.quantile(1.0),
            Some(Duration::from_micros(1 << OCTAVE_MAX))
        );
        assert_eq!(Histogram::default().read().quantile(0.5), None);
    }
}
