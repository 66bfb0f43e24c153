//! What a metric is, and the form in which the list of them is written.

use crate::stats::{DurationStats, Stats};

/// What kind of metric one is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MetricKind {
    /// It only rises, from the open of the store.
    Counter,
    /// A value of now.
    Gauge,
    /// Durations in buckets: `_bucket` with `le`, `_sum` and `_count`.
    Histogram,
}

/// A metric that the library exports.
#[derive(Debug)]
pub struct Metric {
    pub(super) name: &'static str,
    pub(super) kind: MetricKind,
    pub(super) help: &'static str,
    pub(super) labels: &'static [&'static str],
    pub(super) read: fn(&Stats, &mut Put<'_>),
}

/// A value as it leaves.
pub(super) enum Value<'a> {
    Count(u64),
    Number(f64),
    Times(&'a DurationStats),
}

/// Takes the values of a metric's labels, and its value.
pub(super) type Put<'a> = dyn FnMut(&[&str], Value<'_>) + 'a;

impl Metric {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What it says, in a sentence.
    #[must_use]
    pub fn help(&self) -> &'static str {
        self.help
    }

    /// What kind it is of.
    #[must_use]
    pub fn kind(&self) -> MetricKind {
        self.kind
    }

    /// The names of its labels.
    #[must_use]
    pub fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    pub(super) fn read(&self, stats: &Stats, put: &mut Put<'_>) {
        (self.read)(stats, put);
    }
}

/// Rows of the list.
macro_rules! metrics {
    ($($kind:ident $name:literal [$($label:literal)*] $help:literal,
        |$s:ident, $put:ident| $read:block)*) => {
        /// All metrics, in the order in which they are exported. docs/metrics.md shows the list.
        pub static METRICS: &[Metric] = &[$(Metric {
            name: concat!("firstseen_", $name),
            kind: MetricKind::$kind,
            help: $help,
            labels: &[$($label),*],
            read: |$s, $put| $read,
        }),*];
    };
}

pub(super) use metrics;
