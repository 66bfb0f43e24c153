//! What a store measures beside counting: times, top sources, surges.

use std::time::{Duration, SystemTime};

/// How long things took, since the open.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TimeStats {
    /// Calls that committed, from call to answer, by level: [`Buffered`](crate::Durability).
    /// Waits for ids, rows, room and the disk are in it, a closure's own time is not. A submitted
    /// commit counts from its submission.
    pub buffered: DurationStats,
    /// At the level `Written`.
    pub written: DurationStats,
    /// At the level `Synced`.
    pub synced: DurationStats,
    /// Syncs of the write-ahead log.
    pub syncs: DurationStats,
    /// Segments sealed.
    pub seals: DurationStats,
    /// Merges of runs, seals that went before them meanwhile included.
    pub merges: DurationStats,
    /// Generations dropped.
    pub drops: DurationStats,
}

/// Durations, in buckets of a quarter of an octave from one microsecond to 67 s.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DurationStats {
    /// The first duration above each bucket and how many are in it; the last one has no end.
    buckets: Vec<(Option<Duration>, u64)>,
    sum: Duration,
}

impl DurationStats {
    pub(crate) fn new(buckets: Vec<(Option<Duration>, u64)>, sum: Duration) -> DurationStats {
        DurationStats { buckets, sum }
    }

    /// How many there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|b| b.1).sum()
    }

    /// All together.
    #[must_use]
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// A duration that this part of them, 0 to 1, does not exceed, at most a quarter too high;
    /// above 67 s it says 67 s. `None` if there were none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, Options, Policy, Store};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// # let _ = store.scope("s", Policy::remember(days(1)))?.insert("a")?;
    /// let p99 = store.stats()?.times.written.quantile(0.99);
    /// assert!(p99.is_some());
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn quantile(&self, part: f64) -> Option<Duration> {
        let count = self.count();
        let wanted = ((count as f64 * part.clamp(0.0, 1.0)).ceil() as u64).max(1);
        let mut seen = 0;
        let mut last_end = Duration::ZERO;
        for (end, n) in self.buckets.iter().filter(|_| count > 0) {
            seen += n;
            last_end = end.unwrap_or(last_end);
            if seen >= wanted {
                return Some(last_end);
            }
        }
        None
    }

    /// Cumulated buckets that end at powers of two of microseconds, as they are exported.
    pub(crate) fn octaves(&self) -> impl Iterator<Item = (Duration, u64)> {
        let mut seen = 0;
        self.buckets.iter().filter_map(move |(end, n)| {
            seen += n;
            let end = (*end)?;
            end.as_micros().is_power_of_two().then_some((end, seen))
        })
    }
}

/// Where the duplicates of the last minutes come from; see
/// [`Options::top_sources`](crate::Options::top_sources).
///
/// Counted with Space-Saving (Metwally, Agrawal, El Abbadi 2005) over six panes of time, so in
/// bounded memory and within bounds: no entry's error is above `with_source / capacity`
/// (`duplicates / capacity` for scopes), and every name with more duplicates than that is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Top {
    /// When it was counted, by the store's clock.
    pub at: SystemTime,
    /// The time that is looked back at: five sixths of it to all of it.
    pub window: Duration,
    /// Duplicates in it, exactly.
    pub duplicates: u64,
    /// Those of them whose id brought a source, exactly.
    pub with_source: u64,
    /// Sources, the most frequent first.
    pub sources: Vec<TopEntry>,
    /// Scopes, the most frequent first.
    pub scopes: Vec<TopEntry>,
    /// Sources within each scope, the most frequent first.
    pub sources_by_scope: Vec<TopSource>,
}

impl Top {
    /// Nothing, over the same time.
    pub(crate) fn none(like: &Top) -> Top {
        Top {
            duplicates: 0,
            with_source: 0,
            sources: Vec::new(),
            scopes: Vec::new(),
            sources_by_scope: Vec::new(),
            ..*like
        }
    }
}

/// A source's duplicates within a scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopSource {
    /// The scope's name.
    pub scope: String,
    /// The source's name; of a longer one the first 255 bytes.
    pub source: String,
    /// Duplicates, at most this many.
    pub count: u64,
    /// By how much `count` may be too high.
    pub error: u64,
}

impl TopSource {
    /// Duplicates, at least this many.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

/// A source or scope and its duplicates.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopEntry {
    /// Its name; of a longer one the first 255 bytes.
    pub name: String,
    /// Duplicates, at most this many.
    pub count: u64,
    /// By how much `count` may be too high.
    pub error: u64,
}

impl TopEntry {
    /// Duplicates, at least this many.
    #[must_use]
    pub fn at_least(&self) -> u64 {
        self.count - self.error
    }
}

/// Rates that left their usual band.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SurgeStats {
    /// How often one left it, since the open.
    pub begun: u64,
    /// How many are outside of it now.
    pub now: u64,
}
