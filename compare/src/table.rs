//! Results as a table for people.

use crate::report::{Missing, Outcome, Report, Spread, YARDSTICKS};
use crate::systems::Kind;
use crate::workload::Workload;

type Row = Vec<String>;

/// The table of one workload, with a line above it.
pub fn table(report: &Report) -> String {
    let best = report
        .best_peer()
        .map_or_else(|| "none".to_owned(), |b| b.system.name());
    let mut text = format!("{} (best peer: {best})\n", report.workload.name());
    let mut rows: Vec<Row> = vec![heads(report.workload)];
    let ran = |o: &&Outcome| !matches!(o.samples, Err(Missing::Skipped(_)));
    let measured = report.outcomes.iter().filter(ran);
    rows.extend(measured.map(|o| row(report, o)));
    text.push_str(&aligned(&rows));
    text.push_str(&ours(report));
    for outcome in &report.outcomes {
        let name = outcome.system.name();
        match &outcome.samples {
            Err(Missing::Failed(why)) => text.push_str(&format!("  {name} FAILED: {why}\n")),
            Err(Missing::Skipped(why)) => text.push_str(&format!("  {name} skipped: {why}\n")),
            Ok(_) => {}
        }
    }
    text
}

/// Rows as lines: the first column to the left, figures to the right.
pub fn aligned(rows: &[Row]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let wide = |c: usize| rows.iter().map(|r| r[c].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(wide).collect();
    let mut text = String::new();
    for row in rows {
        text.push_str(&format!("  {:<width$}", row[0], width = widths[0]));
        for (cell, width) in row.iter().zip(&widths).skip(1) {
            text.push_str(&format!("  {cell:>width$}"));
        }
        text.push('\n');
    }
    text
}

/// firstseen against each yardstick, in one line; nothing if either didn't run.
fn ours(report: &Report) -> String {
    let ours = report.of(Kind::Firstseen);
    let mut parts = Vec::new();
    for kind in YARDSTICKS {
        if let Some(times) = ours.and_then(|o| o.times(report.of(kind))) {
            parts.push(format!("{} {}", kind.name(), ratio(times)));
        }
    }
    if parts.is_empty() {
        return String::new();
    }
    format!("  firstseen x {}\n", parts.join(", x "))
}

/// What firstseen makes of one workload against another, where both ran.
pub fn across(reports: &[Report]) -> String {
    let of = |workload: Workload| {
        let report = reports.iter().find(|r| r.workload == workload)?;
        report.of(Kind::Firstseen)
    };
    let mut text = String::new();
    for (workload, to, name) in [
        (
            Workload::Mixed1PctBatch1000,
            Workload::NewBatch1000,
            "ids_per_s",
        ),
        (
            Workload::NewTimeBatch1000,
            Workload::NewBatch1000,
            "ids_per_s",
        ),
        (
            Workload::NewBatch100Threads2,
            Workload::NewBatch100,
            "ids_per_s",
        ),
        (
            Workload::NewBatch100Threads2,
            Workload::NewBatch100,
            "cpu_ns_per_id",
        ),
        (Workload::Live10m, Workload::Live1m, "ids_per_s"),
        (Workload::Live100m, Workload::Live1m, "ids_per_s"),
    ] {
        let median = |w| of(w).and_then(|o| o.median(name));
        if let Some((this, that)) = median(workload).zip(median(to)) {
            let (this, workload, to) = (this / that, workload.name(), to.name());
            text.push_str(&format!(
                "  {workload}: {this:.2}x the {name} of {to}, which ran before or after it\n"
            ));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("firstseen, one workload against another\n{text}")
}

fn ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.min, spread.max)
}

fn heads(workload: Workload) -> Row {
    let mut heads = vec!["system"];
    if !workload.reopens() {
        heads.extend(["ids/s", "(min-max)", "p50 us", "p99 us", "p99.9 us"]);
    }
    heads.extend(["rss MiB", "disk B/id"]);
    heads.extend(workload.columns().iter().map(|(_, head, _)| *head));
    if !workload.reopens() {
        heads.extend(["x rocksdb_blind (min-max)", "x best peer"]);
    }
    heads.push("ids + preload");
    heads.into_iter().map(str::to_owned).collect()
}

fn row(report: &Report, outcome: &Outcome) -> Row {
    let figure = |name: &str, places: usize| {
        cell(outcome.spread(name), |s| {
            format!("{:.places$}", s.median, places = places)
        })
    };
    let mut row = vec![outcome.system.name()];
    let speed = outcome.spread("ids_per_s");
    if !report.workload.reopens() {
        row.push(cell(speed, |s| grouped(s.median)));
        row.push(cell(speed, |s| {
            format!("({}-{})", grouped(s.min), grouped(s.max))
        }));
        row.extend(["p50_us", "p99_us", "p999_us"].map(|name| figure(name, 1)));
    }
    row.extend([figure("rss_mib", 0), figure("disk_bytes_per_id", 1)]);
    let columns = report.workload.columns().iter();
    row.extend(columns.map(|(name, _, places)| figure(name, *places)));
    if !report.workload.reopens() {
        row.push(cell(outcome.times(report.of(Kind::RocksdbBlind)), ratio));
        row.push(cell(outcome.times(report.best_peer()), |s| {
            format!("{:.2}", s.median)
        }));
    }
    let (ids, preload) = (outcome.size.ids, outcome.size.preload);
    row.push(format!("{} + {}", short(ids), short(preload)));
    row
}

fn cell(spread: Option<Spread>, text: impl Fn(Spread) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), text)
}

/// A whole number with commas between thousands.
pub fn grouped(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A count of ids as the command line takes it.
pub fn short(count: u64) -> String {
    match count {
        0 => "0".to_owned(),
        n if n % 1_000_000 == 0 => format!("{}m", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::{outcome, report};

    #[test]
    fn numbers_are_grouped_and_shortened() {
        assert_eq!(grouped(1_234_567.4), "1,234,567");
        assert_eq!(
            (grouped(999.0), grouped(1000.0)),
            ("999".to_owned(), "1,000".to_owned())
        );
        assert_eq!(
            [short(0), short(400_000), short(20_000_000), short(1_001)].join(" "),
            "0 400k 20m 1001"
        );
    }

    #[test]
    fn every_system_has_a_line_and_columns_align() {
        let text = table(&report());
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 + 5 + 3);
        assert!(lines[0].contains("best peer: rocksdb_best"));
        assert!(lines[2].contains("firstseen") && lines[2].contains("10.00 (5.00-20.00)"));
        assert!(lines[1..7].iter().all(|l| l.len() == lines[1].len()));
        assert_eq!(
            lines[7],
            "  firstseen x rocksdb_blind 10.00 (5.00-20.00), x hashset 0.33 (0.22-0.89)"
        );
        assert!(lines[8].contains("sqlite FAILED: disk full"));
        assert!(lines[9].contains("redis skipped: not installed"));
    }

    #[test]
    fn workloads_have_columns_of_their_own() {
        let mut report = report();
        report.workload = Workload::NewBatch100Threads2;
        let text = table(&report);
        assert!(text.contains("cpu ns/id") && text.contains("p99.9 us"));
        report.workload = Workload::Reopen;
        let text = table(&report);
        assert!(text.contains("first verdict ms") && !text.contains("ids/s"));
    }

    #[test]
    fn workloads_are_set_side_by_side_where_both_ran() {
        let report = |workload, speeds: &[f64]| Report {
            workload,
            outcomes: vec![outcome(Kind::Firstseen, speeds)],
        };
        let new = report(Workload::NewBatch1000, &[4e6]);
        assert_eq!(across(std::slice::from_ref(&new)), "");
        let mixed = report(Workload::Mixed1PctBatch1000, &[3e6]);
        let text = across(&[new, mixed]);
        assert!(text.contains("mixed_1pct_batch1000: 0.75x the ids_per_s of new_batch1000"));
    }
}
