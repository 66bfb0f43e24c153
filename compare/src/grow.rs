//! What it costs as the ids grow: speed, memory, disk, reopening, expiry, at each size.

use std::path::Path;

use serde_json::{Map, Value};

use crate::args::Args;
use crate::plot::{Chart, Line, Scale};
use crate::report::{Missing, Outcome, rounded};
use crate::rounds::Asked;
use crate::table::{aligned, grouped, short};
use crate::workload::{Size, Workload};

/// What is measured at each size.
const WORKLOADS: [Workload; 3] = [Workload::NewBatch1000, Workload::Reopen, Workload::Expiry];

/// A figure: where from, its name there and in the output, the head of its column, places.
type Column = (Workload, &'static str, &'static str, usize);

const COLUMNS: [Column; 8] = [
    (Workload::NewBatch1000, "ids_per_s", "ids/s", 0),
    (Workload::NewBatch1000, "p999_us", "p99.9 us", 1),
    (Workload::NewBatch1000, "rss_mib", "rss MiB", 0),
    (Workload::NewBatch1000, "disk_bytes_per_id", "disk B/id", 1),
    (Workload::Reopen, "first_verdict_ms", "first verdict ms", 1),
    (Workload::Reopen, "ready_ms", "ready ms", 1),
    (Workload::Expiry, "quiet_p999_us", "quiet p99.9 us", 1),
    (Workload::Expiry, "x_quiet_p999", "x while dropping", 2),
];

/// The outcomes at one size.
pub struct Grown {
    pub live: u64,
    pub outcomes: Vec<(Workload, Vec<Outcome>)>,
}

/// Measures every size.
pub fn run(args: &Args, sizes: &[u64], dir: &Path) -> Vec<Grown> {
    let systems = args.grow_systems();
    let measure = |live: u64, workload| {
        let size = Size {
            ids: args.ids,
            preload: live,
        };
        let asked = Asked {
            args,
            workload,
            pace: None,
            size: Some(size),
        };
        (workload, asked.run(&systems, dir))
    };
    sizes
        .iter()
        .map(|live| Grown {
            live: *live,
            outcomes: WORKLOADS.map(|w| measure(*live, w)).into(),
        })
        .collect()
}

/// Whether anything failed.
pub fn failed(sizes: &[Grown]) -> bool {
    let mut all = sizes.iter().flat_map(|s| s.outcomes.iter());
    all.any(|(_, o)| {
        o.iter()
            .any(|o| matches!(o.samples, Err(Missing::Failed(_))))
    })
}

impl Grown {
    fn systems(&self) -> impl Iterator<Item = String> {
        let first = self.outcomes.first().map(|(_, o)| o.as_slice());
        first.unwrap_or_default().iter().map(|o| o.system.name())
    }

    fn figure(&self, system: &str, workload: Workload, name: &str) -> Option<f64> {
        let (_, outcomes) = self.outcomes.iter().find(|(w, _)| *w == workload)?;
        let outcome = outcomes.iter().find(|o| o.system.name() == system)?;
        outcome.median(name)
    }
}

/// One line of JSON for each size and system.
pub fn json_lines(sizes: &[Grown]) -> Vec<String> {
    let mut lines = Vec::new();
    for size in sizes {
        for system in size.systems() {
            let mut line = Map::new();
            line.insert("grow".into(), size.live.into());
            line.insert("system".into(), system.as_str().into());
            for (workload, name, _, _) in COLUMNS {
                if let Some(value) = size.figure(&system, workload, name) {
                    line.insert(format!("{}_{name}", workload.name()), rounded(value));
                }
            }
            lines.push(Value::Object(line).to_string());
        }
    }
    lines
}

/// A table for people, with who was skipped or failed below it.
pub fn table(sizes: &[Grown]) -> String {
    let mut heads = vec!["system".to_owned(), "live ids".to_owned()];
    heads.extend(COLUMNS.iter().map(|(_, _, head, _)| (*head).to_owned()));
    let (mut rows, mut notes) = (vec![heads], String::new());
    for size in sizes {
        for system in size.systems() {
            let mut row = vec![system.clone(), short(size.live)];
            for (workload, name, _, places) in COLUMNS {
                let figure = size.figure(&system, workload, name);
                row.push(match (figure, places) {
                    (None, _) => "-".to_owned(),
                    (Some(value), 0) => grouped(value),
                    (Some(value), places) => format!("{value:.places$}"),
                });
            }
            rows.push(row);
        }
        for (workload, outcomes) in &size.outcomes {
            for outcome in outcomes {
                if let Err(missing) = &outcome.samples {
                    let (what, why) = match missing {
                        Missing::Failed(why) => ("FAILED", why),
                        Missing::Skipped(why) => ("skipped", why),
                    };
                    notes.push_str(&format!(
                        "  {} {what} in {} at {}: {why}\n",
                        outcome.system.name(),
                        workload.name(),
                        short(size.live)
                    ));
                }
            }
        }
    }
    format!("as the live ids grow\n{}{notes}", aligned(&rows))
}

/// A chart for each figure.
pub fn charts(sizes: &[Grown]) -> Vec<Chart> {
    let mut systems: Vec<String> = Vec::new();
    for system in sizes.iter().flat_map(Grown::systems) {
        if !systems.contains(&system) {
            systems.push(system);
        }
    }
    let chart = |(workload, name, head, _): Column| {
        let line = |system: &String| {
            let point = |s: &Grown| Some((s.live as f64, s.figure(system, workload, name)?));
            Line {
                name: system.clone(),
                points: sizes.iter().filter_map(point).collect(),
            }
        };
        Chart {
            title: format!("{}: {head}", workload.name()),
            x: "live ids",
            scale: Scale::Log,
            lines: systems.iter().map(line).collect(),
        }
    };
    COLUMNS.map(chart).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::outcome;
    use crate::systems::Kind;

    fn sizes() -> Vec<Grown> {
        let at = |live, speed| {
            let mut skipped = outcome(Kind::RocksdbBlind, &[]);
            skipped.samples = Err(Missing::Skipped("it can't".to_owned()));
            Grown {
                live,
                outcomes: vec![
                    (
                        Workload::NewBatch1000,
                        vec![
                            outcome(Kind::Firstseen, &[speed]),
                            outcome(Kind::RocksdbBlind, &[1e5]),
                        ],
                    ),
                    (
                        Workload::Reopen,
                        vec![outcome(Kind::Firstseen, &[]), skipped],
                    ),
                ],
            }
        };
        vec![at(1_000_000, 3e6), at(10_000_000, 2e6)]
    }

    #[test]
    fn sizes_are_rows_in_order() {
        let text = table(&sizes());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 4 + 2);
        assert!(lines[2].contains("firstseen") && lines[2].contains("1m"));
        assert!(lines[4].contains("10m") && lines[4].contains("2,000,000"));
        assert!(lines[7].contains("rocksdb_blind skipped in reopen at 10m: it can't"));
        assert!(!failed(&sizes()));
    }

    #[test]
    fn json_and_charts_hold_the_same_figures() {
        let sizes = sizes();
        let lines = json_lines(&sizes);
        let line: Value = serde_json::from_str(&lines[2]).unwrap_or_default();
        assert_eq!(line["grow"], 10_000_000);
        assert_eq!(line["new_batch1000_ids_per_s"], 2_000_000);
        let charts = charts(&sizes);
        assert_eq!(charts.len(), COLUMNS.len());
        assert_eq!(charts[0].lines[0].points, [(1e6, 3e6), (1e7, 2e6)]);
        assert!(charts[4].lines[0].points.is_empty());
    }
}
