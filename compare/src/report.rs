//! From samples to results: medians, ratios, JSON.
//!
//! A ratio is taken inside each round, then the median over rounds: what disturbs the machine for
//! a while disturbs both sides of a ratio, so it holds where absolute figures wander.

use serde_json::{Map, Value};

use crate::run::Sample;
use crate::systems::Kind;
use crate::workload::{Size, Workload};

type Field = (&'static str, fn(&Sample) -> f64);

/// The measured fields, under the names that the output uses.
const FIELDS: [Field; 6] = [
    ("ids_per_s", |s| s.ids_per_s),
    ("p50_us", |s| s.p50_us),
    ("p99_us", |s| s.p99_us),
    ("p999_us", |s| s.p999_us),
    ("rss_mib", |s| s.rss_mib),
    ("disk_bytes_per_id", |s| s.disk_bytes_per_id),
];

/// The systems that every other is measured against: the pinned one, the hand-written check on
/// the same engine, and the upper bound.
pub const YARDSTICKS: [Kind; 3] = [Kind::RocksdbBlind, Kind::RocksdbGetPut, Kind::Hashset];

/// All rounds of one system on one workload, or why there are none.
pub struct Outcome {
    pub system: Kind,
    pub size: Size,
    pub samples: Result<Vec<Sample>, String>,
}

impl Outcome {
    fn samples(&self) -> &[Sample] {
        self.samples.as_deref().unwrap_or_default()
    }

    pub fn spread(&self, of: impl Fn(&Sample) -> f64) -> Option<Spread> {
        Spread::of(self.samples().iter().map(of).collect())
    }

    fn speed(&self) -> f64 {
        self.spread(|s| s.ids_per_s).map_or(0.0, |s| s.median)
    }

    /// How many times faster this one is than the other, round by round.
    pub fn times(&self, other: Option<&Outcome>) -> Option<Spread> {
        let pairs = self.samples().iter().zip(other?.samples());
        Spread::of(pairs.map(|(a, b)| a.ids_per_s / b.ids_per_s).collect())
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
        self.outcomes.iter().any(|o| o.samples.is_err())
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
        for (name, of) in FIELDS {
            if let Some(spread) = outcome.spread(of) {
                line.insert(name.into(), rounded(spread.median));
                line.insert(format!("{name}_min"), rounded(spread.min));
                line.insert(format!("{name}_max"), rounded(spread.max));
            }
        }
        if let Err(why) = &outcome.samples {
            line.insert("error".into(), why.as_str().into());
        }
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
        line
    }
}

/// Three places after the point are enough; large values need none.
fn rounded(value: f64) -> Value {
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
        let sample = |ids_per_s: &f64| Sample {
            ids_per_s: *ids_per_s,
            p50_us: 1.5,
            p99_us: 2.0,
            p999_us: 12_345.6,
            rss_mib: 10.0,
            disk_bytes_per_id: 20.25,
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
        broken.samples = Err("disk full".into());
        Report {
            workload: Workload::NewBatch1000,
            outcomes: vec![
                outcome(Kind::Firstseen, &[3e6, 8e6, 2e6]),
                outcome(Kind::RocksdbBlind, &[3e5, 4e5, 4e5]),
                outcome(Kind::RocksdbBest, &[6e5, 1e6, 1e6]),
                outcome(Kind::Hashset, &[9e6, 9e6, 9e6]),
                broken,
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
        assert_eq!(lines.len(), 5);
        assert_eq!(lines[0]["workload"], "new_batch1000");
        assert_eq!(lines[0]["system"], "firstseen");
        assert_eq!(lines[0]["ids_per_s"], 3_000_000);
        assert_eq!(lines[0]["p999_us"], 12_346);
        assert_eq!(lines[0]["disk_bytes_per_id"], 20.25);
        assert_eq!(lines[0]["x_rocksdb_blind"], 10.0);
        assert_eq!(lines[0].get("x_rocksdb_get_put"), None);
        assert_eq!(lines[4]["error"], "disk full");
        assert_eq!(lines[4].get("ids_per_s"), None);
        assert!(report().failed());
    }
}
