//! Prometheus's text format (exposition format 0.0.4), without a dependency.

use std::fmt::Write;

use crate::stats::{DurationStats, Stats};

use super::metric::{Metric, MetricKind, Value};
use super::registry::METRICS;

/// The metrics of several stores in Prometheus's text format, each with a label `store`. The
/// format wants a metric's samples together, so the stores' own texts can't be joined.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (one, two) = (tempfile::tempdir()?, tempfile::tempdir()?);
/// use firstseen::{Options, Store, prometheus};
/// let (one, two) = (
///     Store::open(one.path(), Options::new())?,
///     Store::open(two.path(), Options::new())?,
/// );
/// let (first, second) = (one.stats()?, two.stats()?);
/// let text = prometheus(&[("orders/0", &first), ("orders/1", &second)]);
/// assert!(text.contains("firstseen_commits_total{store=\"orders/1\"} 0\n"));
/// # Ok(()) }
/// ```
#[must_use]
pub fn prometheus(stores: &[(&str, &Stats)]) -> String {
    let mut text = String::new();
    for metric in METRICS {
        head(metric, &mut text);
        for (store, stats) in stores {
            samples(metric, &[("store", store)], stats, &mut text);
        }
    }
    text
}

impl Stats {
    /// The metrics in Prometheus's text format, to be answered to a scrape with content type
    /// `text/plain; version=0.0.4`. [`METRICS`](crate::METRICS) lists them.
    #[must_use]
    pub fn prometheus(&self) -> String {
        let mut text = String::new();
        for metric in METRICS {
            head(metric, &mut text);
            samples(metric, &[], self, &mut text);
        }
        text
    }
}

fn head(metric: &Metric, text: &mut String) {
    let kind = match metric.kind() {
        MetricKind::Counter => "counter",
        MetricKind::Gauge => "gauge",
        MetricKind::Histogram => "histogram",
    };
    let (name, help) = (metric.name(), metric.help());
    // Writing into a string can't fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn samples(metric: &Metric, fixed: &[(&str, &str)], stats: &Stats, text: &mut String) {
    metric.read(stats, &mut |values, value| {
        let own = metric.labels().iter().copied().zip(values.iter().copied());
        let labels: Vec<(&str, &str)> = fixed.iter().copied().chain(own).collect();
        match value {
            Value::Count(n) => line(metric.name(), &labels, n, text),
            Value::Number(n) => line(metric.name(), &labels, n, text),
            Value::Times(times) => histogram(metric.name(), &labels, times, text),
        }
    });
}

fn histogram(name: &str, labels: &[(&str, &str)], times: &DurationStats, text: &mut String) {
    let bucket = format!("{name}_bucket");
    for (end, n) in times.octaves() {
        let end = end.as_secs_f64().to_string();
        line(&bucket, &[labels, &[("le", &end)]].concat(), n, text);
    }
    let count = times.count();
    line(&bucket, &[labels, &[("le", "+Inf")]].concat(), count, text);
    line(
        &format!("{name}_sum"),
        labels,
        times.sum().as_secs_f64(),
        text,
    );
    line(&format!("{name}_count"), labels, count, text);
}

fn line(name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display, text: &mut String) {
    text.push_str(name);
    for (i, (label, of)) in labels.iter().enumerate() {
        text.push(if i == 0 { '{' } else { ',' });
        let _ = write!(text, "{label}=\"");
        for c in of.chars() {
            match c {
                '\\' => text.push_str("\\\\"),
                '"' => text.push_str("\\\""),
                '\n' => text.push_str("\\n"),
                c => text.push(c),
            }
        }
        text.push('"');
    }
    if !labels.is_empty() {
        text.push('}');
    }
    let _ = writeln!(text, " {value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn names_from_outside_are_escaped() {
        let mut text = String::new();
        line("m", &[("scope", "a\"b\\c\nd"), ("x", "ä")], 5, &mut text);
        assert_eq!(text, "m{scope=\"a\\\"b\\\\c\\nd\",x=\"ä\"} 5\n");
    }

    #[test]
    fn a_histogram_is_cumulated_and_ends_with_all() {
        let ends = [Some(1), Some(2), Some(3), None].map(|us| us.map(Duration::from_micros));
        let times = DurationStats::new(
            ends.into_iter().zip([1, 2, 3, 4]).collect(),
            Duration::from_secs(3),
        );
        let mut text = String::new();
        histogram("h", &[("a", "b")], &times, &mut text);
        let expected = "h_bucket{a=\"b\",le=\"0.000001\"} 1\nh_bucket{a=\"b\",le=\"0.000002\"} 3\n\
                        h_bucket{a=\"b\",le=\"+Inf\"} 10\nh_sum{a=\"b\"} 3\nh_count{a=\"b\"} 10\n";
        assert_eq!(text, expected);
    }
}
