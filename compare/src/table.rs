//! Results as a table for people.

use crate::report::{Outcome, Report, Spread, YARDSTICKS};
use crate::systems::Kind;

const HEADS: [&str; 11] = [
    "system",
    "ids/s",
    "(min-max)",
    "p50 us",
    "p99 us",
    "p99.9 us",
    "rss MiB",
    "disk B/id",
    "x rocksdb_blind (min-max)",
    "x best peer",
    "ids + preload",
];

type Row = [String; HEADS.len()];

/// The table of one workload, with a line above it.
pub fn table(report: &Report) -> String {
    let best = report
        .best_peer()
        .map_or_else(|| "none".to_owned(), |b| b.system.name());
    let mut text = format!("{} (best peer: {best})\n", report.workload.name());
    let mut rows: Vec<Row> = vec![HEADS.map(str::to_owned)];
    rows.extend(report.outcomes.iter().map(|o| row(report, o)));
    let widths: Vec<usize> = (0..HEADS.len())
        .map(|c| rows.iter().map(|r| r[c].len()).max().unwrap_or(0))
        .collect();
    for row in &rows {
        text.push_str(&line(row, &widths));
    }
    text.push_str(&ours(report));
    for outcome in &report.outcomes {
        if let Err(why) = &outcome.samples {
            text.push_str(&format!("  {} FAILED: {why}\n", outcome.system.name()));
        }
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

fn ratio(spread: Spread) -> String {
    format!("{:.2} ({:.2}-{:.2})", spread.median, spread.min, spread.max)
}

/// The first column to the left, figures to the right.
fn line(row: &Row, widths: &[usize]) -> String {
    let mut text = format!("  {:<width$}", row[0], width = widths[0]);
    for (cell, width) in row.iter().zip(widths).skip(1) {
        text.push_str(&format!("  {cell:>width$}"));
    }
    text.push('\n');
    text
}

fn row(report: &Report, outcome: &Outcome) -> Row {
    let speed = outcome.spread(|s| s.ids_per_s);
    let micros = |spread: Option<Spread>| cell(spread, |s| format!("{:.1}", s.median));
    [
        outcome.system.name(),
        cell(speed, |s| grouped(s.median)),
        cell(speed, |s| {
            format!("({}-{})", grouped(s.min), grouped(s.max))
        }),
        micros(outcome.spread(|s| s.p50_us)),
        micros(outcome.spread(|s| s.p99_us)),
        micros(outcome.spread(|s| s.p999_us)),
        cell(outcome.spread(|s| s.rss_mib), |s| {
            format!("{:.0}", s.median)
        }),
        cell(outcome.spread(|s| s.disk_bytes_per_id), |s| {
            format!("{:.1}", s.median)
        }),
        cell(outcome.times(report.of(Kind::RocksdbBlind)), ratio),
        cell(outcome.times(report.best_peer()), |s| {
            format!("{:.2}", s.median)
        }),
        format!(
            "{} + {}",
            short(outcome.size.ids),
            short(outcome.size.preload)
        ),
    ]
}

fn cell(spread: Option<Spread>, text: impl Fn(Spread) -> String) -> String {
    spread.map_or_else(|| "-".to_owned(), text)
}

/// A whole number with commas between thousands.
fn grouped(value: f64) -> String {
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
    use crate::report::tests::report;

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
        assert_eq!(lines.len(), 2 + 5 + 2);
        assert!(lines[0].contains("best peer: rocksdb_best"));
        assert!(lines[2].contains("firstseen") && lines[2].contains("10.00 (5.00-20.00)"));
        assert!(lines[1..7].iter().all(|l| l.len() == lines[1].len()));
        assert_eq!(
            lines[7],
            "  firstseen x rocksdb_blind 10.00 (5.00-20.00), x hashset 0.33 (0.22-0.89)"
        );
        assert!(lines[8].contains("sqlite FAILED: disk full"));
    }
}
