//! Publishes to the recorder of the crate `metrics` that the program installed.
//!
//! Counters go out as absolute values, so that nothing is counted twice on the hot path. The
//! facade's histograms only take one value at a time; ours go out as what Prometheus makes of
//! them, under the same names.

use metrics::Label;

use crate::stats::{DurationStats, Stats};

use super::metric::{MetricKind, Value};
use super::registry::METRICS;

/// Hands all metrics over, with `fixed` labels on each.
pub(crate) fn publish(stats: &Stats, fixed: &[(&str, &str)]) {
    for metric in METRICS {
        let (name, help) = (metric.name(), metric.help());
        match metric.kind() {
            MetricKind::Counter => metrics::describe_counter!(name, help),
            MetricKind::Gauge => metrics::describe_gauge!(name, help),
            MetricKind::Histogram => metrics::describe_counter!(format!("{name}_count"), help),
        }
        metric.read(stats, &mut |values, value| {
            let own = metric.labels().iter().zip(values);
            let own = own.map(|(label, value)| Label::new(*label, value.to_string()));
            let fixed = fixed.iter();
            let fixed =
                fixed.map(|(label, value)| Label::new(label.to_string(), value.to_string()));
            let labels: Vec<Label> = fixed.chain(own).collect();
            match (metric.kind(), value) {
                (MetricKind::Counter, Value::Count(n)) => {
                    metrics::counter!(name, labels).absolute(n);
                }
                (_, Value::Count(n)) => metrics::gauge!(name, labels).set(n as f64),
                (_, Value::Number(n)) => metrics::gauge!(name, labels).set(n),
                (_, Value::Times(times)) => histogram(name, &labels, times),
            }
        });
    }
}

fn histogram(name: &str, labels: &[Label], times: &DurationStats) {
    let bucket = |end: String, n: u64| {
        let mut labels = labels.to_vec();
        labels.push(Label::new("le", end));
        metrics::counter!(format!("{name}_bucket"), labels).absolute(n);
    };
    for (end, n) in times.octaves() {
        bucket(end.as_secs_f64().to_string(), n);
    }
    bucket("+Inf".to_string(), times.count());
    let sum = times.sum().as_secs_f64();
    metrics::gauge!(format!("{name}_sum"), labels.to_vec()).set(sum);
    metrics::counter!(format!("{name}_count"), labels.to_vec()).absolute(times.count());
}
