//! From samples to results: medians, ratios, JSON.
//!
//! A ratio is taken inside each round, then the median over rounds: what disturbs the machine for
//! a while disturbs both sides of a ratio, so it holds where absolute figures wander.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use crate::sample::Sample;
use crate::systems::Kind;
use crate::workload::{Size, Workload};

/// The figures that come first in the output; the others follow by name.
const FIRST: [&str; 6] = [
    "ids_per_s",
    "p50_us",
    "p99_us",
    "p999_us",
    "rss_mib",
    "disk_bytes_per_id",
];

/// The systems that every other is measured against: the pinned one, the hand-written check on
/// the same engine, and the upper bound.
pub const YARDSTICKS: [Kind; 3] = [Kind::RocksdbBlind, Kind::RocksdbGetPut, Kind::Hashset];

/// Why there are no samples.
#[derive(Debug, PartialEq)]
pub enum Missing {
    /// It ran and broke.
    Failed(String),
    /// It can't do this, or isn't there.
    Skipped(String),
}

/// All rounds of one system on one workload, or why there are none.
pub struct Outcome {
    pub system: Kind,
    pub size: Size,
    pub samples: Result<Vec<Sample>, Missing>,
}

impl Outcome {
    pub fn samples(&self) -> &[Sample] {
        self.samples.as_deref().unwrap_or_default()
    }

    /// A figure over the rounds, if its runs have it.
    pub fn spread(&self, name: &str) -> Option<Spread> {
        Spread::of(self.samples().iter().filter_map(|s| s.get(name)).collect())
    }

    pub fn median(&self, name: &str) -> Option<f64> {
        self.spread(name).map(|s| s.median)
    }

    fn speed(&self) -> f64 {
        self.median("ids_per_s").unwrap_or(0.0)
    }

    /// How many times faster this one is than the other, round by round.
    pub fn times(&self, other: Option<&Outcome>) -> Option<Spread> {
        let pairs = self.samples().iter().zip(other?.samples());
        let ratios = pairs.map(|(a, b)| Some(a.get("ids_per_s")? / b.get("ids_per_s")?));
        Spread::of(ratios.collect::<Option<_>>()?)
    }
}

/// The median of a few values, with the lowest and the highest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Spread {
    fn of(mut values: Vec<f64>) -> Option<Spread> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let (below, above) = (values[(values.len() - 1) / 2], values[values.len() / 2]);
        Some(Spread {
            median: f64::midpoint(below, above),
            min,
            max,
        })
    }
}

/// The outcomes of one workload.
pub struct Report {
    pub workload: Workload,
    pub outcomes: Vec<Outcome>,
}

impl Report {
    /// Whether any system failed.
    pub fn failed(&self) -> bool {
        let failed = |o: &Outcome| matches!(o.samples, Err(Missing::Failed(_)));
        self.outcomes.iter().any(failed)
    }

    /// A system's outcome, if it was asked for.
    pub fn of(&self, system: Kind) -> Option<&Outcome> {
        self.outcomes.iter().find(|o| o.system == system)
    }

    /// The fastest other system whose data outlives the process, blind ones included.
    pub fn best_peer(&self) -> Option<&Outcome> {
        let peers = self
            .outcomes
            .iter()
            .filter(|o| o.system.is_peer() && o.speed() > 0.0);
        peers.max_by(|a, b| a.speed().total_cmp(&b.speed()))
    }

    /// One line of JSON for each system.
    pub fn json_lines(&self) -> impl Iterator<Item = String> {
        self.outcomes
            .iter()
            .map(|o| Value::Object(self.json(o)).to_string())
    }

    fn json(&self, outcome: &Outcome) -> Map<String, Value> {
        let mut line = Map::new();
        line.insert("workload".into(), self.workload.name().into());
        line.insert("system".into(), outcome.system.name().into());
        for name in figure_names(outcome) {
            if let Some(spread) = outcome.spread(name) {
                line.insert(name.into(), rounded(spread.median));
                line.insert(format!("{name}_min"), rounded(spread.min));
                line.insert(format!("{name}_max"), rounded(spread.max));
            }
        }
        match &outcome.samples {
            Err(Missing::Failed(why)) => line.insert("error".into(), why.as_str().into()),
            Err(Missing::Skipped(why)) => line.insert("skipped".into(), why.as_str().into()),
            Ok(_) => None,
        };
        line.insert("rounds".into(), outcome.samples().len().into());
        line.insert("ids".into(), outcome.size.ids.into());
        line.insert("preload".into(), outcome.size.preload.into());
        for kind in YARDSTICKS {
            if let Some(times) = outcome.times(self.of(kind)) {
                line.insert(format!("x_{}", kind.name()), rounded(times.median));
            }
        }
        if let (Some(best), Some(times)) = (self.best_peer(), outcome.times(self.best_peer())) {
            line.insert("best_peer".into(), best.system.name().into());
            line.insert("x_best_peer".into(), rounded(times.median));
        }
        if let Some(last) = outcome.samples().last().filter(|s| !s.moments.is_empty()) {
            line.insert("moments".into(), json!(last.moments));
        }
        line
    }
}

/// The names of an outcome's figures, in the order of the output.
fn figure_names(outcome: &Outcome) -> Vec<&str> {
    let all: BTreeSet<&str> = outcome.samples().iter().flat_map(Sample::names).collect();
    let first = FIRST.into_iter().filter(|n| all.contains(n));
    first
        .chain(all.iter().copied().filter(|n| !FIRST.contains(n)))
        .collect()
}

/// Three places after the point are enough; large values need none.
pub fn rounded(value: f64) -> Value {
    if value >= 10_000.0 {
        (value.round() as u64).into()
    } else {
        ((value * 1e3).round() / 1e3).into()
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;

    pub fn outcome(system: Kind, speeds: &[f64]) -> Outcome {
        let sample = |ids_per_s: &f64| {
            let mut sample = Sample::default();
            let figures = [
                ("ids_per_s", *ids_per_s),
                ("p50_us", 1.5),
                ("p99_us", 2.0),
                ("p999_us", 12_345.6),
                ("rss_mib", 10.0),
                ("disk_bytes_per_id", 20.25),
                ("cpu_ns_per_id", 7.0),
            ];
            figures.iter().for_each(|(n, v)| sample.set(n, *v));
            sample
        };
        let samples = Ok(speeds.iter().map(sample).collect());
        Outcome {
            system,
            size: Size {
                ids: 400_000,
                preload: 50,
            },
            samples,
        }
    }

    pub fn report() -> Report {
        let mut broken = outcome(Kind::Sqlite, &[]);
        broken.samples = Err(Missing::Failed("disk full".into()));
        let mut absent = outcome(Kind::Redis, &[]);
        absent.samples = Err(Missing::Skipped("not installed".into()));
        Report {
            workload: Workload::NewBatch1000,
            outcomes: vec![
                outcome(Kind::Firstseen, &[3e6, 8e6, 2e6]),
                outcome(Kind::RocksdbBlind, &[3e5, 4e5, 4e5]),
                outcome(Kind::RocksdbBest, &[6e5, 1e6, 1e6]),
                outcome(Kind::Hashset, &[9e6, 9e6, 9e6]),
                broken,
                absent,
            ],
        }
    }

    #[test]
    fn medians_of_odd_and_even_counts() {
        assert_eq!(
            Spread::of(vec![3.0, 1.0, 2.0]),
            Some(Spread {
                median: 2.0,
                min: 1.0,
                max: 3.0
            })
        );
        assert_eq!(Spread::of(vec![4.0, 1.0]).map(|s| s.median), Some(2.5));
        assert_eq!(Spread::of(Vec::new()), None);
    }

    #[test]
    fn ratios_are_taken_inside_rounds() {
        let report = report();
        let times = report.outcomes[0].times(report.of(Kind::RocksdbBlind));
        assert_eq!(
            times,
            Some(Spread {
                median: 10.0,
                min: 5.0,
                max: 20.0
            })
        );
        assert_eq!(
            report.outcomes[4].times(report.of(Kind::RocksdbBlind)),
            None
        );
        assert_eq!(report.outcomes[0].times(None), None);
    }

    #[test]
    fn the_best_peer_is_durable_and_not_us() {
        assert_eq!(
            report().best_peer().map(|o| o.system),
            Some(Kind::RocksdbBest)
        );
    }

    #[test]
    fn json_has_the_published_fields_and_failures_have_no_figures() {
        let lines: Vec<Value> = report()
            .json_lines()
            .filter_map(|l| serde_json::from_str(&l).ok())
            .collect();
        assert_eq!(lines.len(), 6);
        assert_eq!(lines[0]["workload"], "new_batch1000");
        assert_eq!(lines[0]["system"], "firstseen");
        assert_eq!(lines[0]["ids_per_s"], 3_000_000);
        assert_eq!(lines[0]["p999_us"], 12_346);
        assert_eq!(lines[0]["disk_bytes_per_id"], 20.25);
        assert_eq!(lines[0]["x_rocksdb_blind"], 10.0);
        assert_eq!(lines[0]["cpu_ns_per_id"], 7.0);
        assert_eq!(lines[0].get("x_rocksdb_get_put"), None);
        assert_eq!(lines[4]["error"], "disk full");
        assert_eq!(lines[4].get("ids_per_s"), None);
        assert_eq!(lines[5]["skipped"], "not installed");
        assert_eq!(lines[5].get("error"), None);
        assert!(report().failed());
    }

    #[test]
    fn who_is_skipped_did_not_fail() {
        let mut report = report();
        report.outcomes.remove(4);
        assert!(!report.failed());
    }
}
