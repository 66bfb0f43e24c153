//! What leaves the library for monitoring: Prometheus's text, the facade, and that documents,
//! dashboard and alerts name nothing else.

use std::collections::{BTreeMap, BTreeSet};

use firstseen::{METRICS, MetricKind, Options, Store, prometheus};

use super::{memory, quiet, week};

const TABLE: &str = include_str!("../../../docs/metrics.md");
const DASHBOARD: &str = include_str!("../../../docs/grafana.json");
const ALERTS: &str = include_str!("../../../docs/alerts.yml");

fn value(text: &str, sample: &str) -> f64 {
    let line = text.lines().find_map(|l| l.strip_prefix(sample));
    let line = line.unwrap_or_else(|| panic!("{sample} is not in:\n{text}"));
    line.trim().parse().unwrap()
}

/// A scope with 30 new ids, 30 duplicates and a bad id, in a sealed store.
fn used() -> Store {
    let store = Store::in_memory(quiet().top_sources(10)).unwrap();
    let ids = week(&store);
    let many: Vec<[u8; 4]> = (0..30_u32).map(u32::to_be_bytes).collect();
    for _ in 0..2 {
        let _ = ids.insert_all(many.iter()).unwrap();
    }
    let _ = ids.insert("").unwrap();
    store.seal().unwrap();
    store
}

#[test]
fn the_text_counts_verdicts_by_scope_and_times_by_level() {
    let store = used();
    let other = store
        .scope("o\"ther", firstseen::Policy::forever())
        .unwrap();
    assert!(other.insert("a").unwrap().is_first());
    let text = store.prometheus().unwrap();
    let verdicts = |scope, verdict| {
        let sample = format!("firstseen_verdicts_total{{scope=\"{scope}\",verdict=\"{verdict}\"}}");
        value(&text, &sample)
    };
    assert_eq!(
        (verdicts("ids", "first"), verdicts("ids", "duplicate")),
        (30.0, 30.0)
    );
    assert_eq!(
        (verdicts("ids", "bad_id"), verdicts("ids", "refused")),
        (1.0, 0.0)
    );
    assert_eq!(verdicts("o\\\"ther", "first"), 1.0);
    assert_eq!(
        value(&text, "firstseen_duplicate_share{scope=\"ids\"}"),
        0.5
    );
    assert_eq!(value(&text, "firstseen_seal_seconds_count"), 1.0);
    assert_eq!(value(&text, "firstseen_health{state=\"ready\"}"), 1.0);
    let commits = value(&text, "firstseen_commit_seconds_count{level=\"written\"}");
    assert_eq!(commits, 4.0);
    let all = value(
        &text,
        "firstseen_commit_seconds_bucket{level=\"written\",le=\"+Inf\"}",
    );
    assert_eq!(all, commits);
    assert!(value(&text, "firstseen_commit_seconds_sum{level=\"written\"}") > 0.0);
    let stats = store.stats().unwrap();
    assert_eq!((stats.verdicts.first, stats.verdicts.duplicates), (31, 30));
    assert_eq!(stats.scopes.len(), 2);

    // A dropped scope's verdicts still happened.
    drop(other);
    assert!(store.drop_scope("o\"ther").unwrap());
    let stats = store.stats().unwrap();
    assert_eq!((stats.verdicts.first, stats.scopes.len()), (31, 1));
}

#[test]
fn every_level_and_way_of_committing_is_timed() {
    use firstseen::Durability::{Buffered, Synced, Written};
    let store = Store::in_memory(Options::new()).unwrap();
    let ids = week(&store);
    for level in [Buffered, Written, Synced] {
        let mut batch = store.batch();
        batch.durability(level).once(&ids, &format!("{level:?}"));
        let _ = batch.commit().unwrap();
        let mut batch = store.batch();
        batch
            .durability(level)
            .once(&ids, &format!("submitted {level:?}"));
        let _ = batch.submit().wait().unwrap();
    }
    let _ = ids
        .once("closure", |_| Ok::<_, firstseen::Error>(()))
        .unwrap();
    let times = store.stats().unwrap().times;
    let counts = [&times.buffered, &times.written, &times.synced].map(|t| t.count());
    assert_eq!(counts, [2, 3, 2]);
    assert!(times.syncs.count() >= 2 && times.syncs.sum() <= times.synced.sum() * 100);
}

/// Help and type once a metric, samples together, each sample once, in the format's grammar.
#[test]
fn the_text_of_several_stores_is_well_formed() {
    let (one, two) = (used(), memory());
    let _ = week(&two).insert("a").unwrap();
    let (first, second) = (one.stats().unwrap(), two.stats().unwrap());
    let text = prometheus(&[("orders/0", &first), ("orders/1", &second)]);
    let (mut current, mut seen, mut samples) = (String::new(), BTreeSet::new(), BTreeSet::new());
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            current = rest.split(' ').next().unwrap().to_string();
            assert!(seen.insert(current.clone()), "{current} comes twice");
        } else if !line.starts_with("# HELP ") {
            let (sample, number) = line.rsplit_once(' ').unwrap();
            assert!(
                sample.starts_with(&current),
                "{sample} stands under {current}"
            );
            assert!(sample.contains("{store=\"orders/"), "{sample}");
            assert!(number.parse::<f64>().is_ok_and(f64::is_finite), "{line}");
            assert!(samples.insert(sample.to_string()), "{sample} comes twice");
        }
    }
    assert_eq!(seen.len(), METRICS.len());
}

/// docs/metrics.md has the list as it is in the code.
#[test]
fn the_table_of_metrics_is_the_codes() {
    let mut expected = String::from("| name | kind | labels | what |\n| --- | --- | --- | --- |\n");
    for metric in METRICS {
        let labels: Vec<String> = metric.labels().iter().map(|l| format!("`{l}`")).collect();
        let (kind, labels) = (
            format!("{:?}", metric.kind()).to_lowercase(),
            labels.join(", "),
        );
        let (name, help) = (metric.name(), metric.help());
        expected.push_str(&format!("| `{name}` | {kind} | {labels} | {help} |\n"));
    }
    let (_, rest) = TABLE.split_once("<!-- metrics: begin -->\n\n").unwrap();
    let (found, _) = rest.split_once("\n<!-- metrics: end -->").unwrap();
    assert!(
        found == expected,
        "docs/metrics.md should have:\n{expected}"
    );
}

/// Names with the labels each sample may have.
fn samples() -> BTreeMap<String, Vec<&'static str>> {
    let mut names = BTreeMap::new();
    for metric in METRICS {
        let labels = [metric.labels(), &["store"]].concat();
        if metric.kind() == MetricKind::Histogram {
            let le = [&labels[..], &["le"]].concat();
            names.insert(format!("{}_bucket", metric.name()), le);
            for part in ["sum", "count"] {
                names.insert(format!("{}_{part}", metric.name()), labels.clone());
            }
        } else {
            names.insert(metric.name().to_string(), labels);
        }
    }
    names
}

/// The metrics that a text names, each with the labels of its selector.
fn named(text: &str) -> Vec<(String, Vec<String>)> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("firstseen_") {
        rest = &rest[at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let (name, after) = rest.split_at(end.unwrap_or(rest.len()));
        let selector = after.strip_prefix('{').and_then(|a| a.split_once('}'));
        let selector = selector.map_or("", |s| s.0);
        let labels = selector
            .split(',')
            .filter_map(|l| l.split_once(['=', '!', '~']));
        let labels = labels.map(|(label, _)| label.trim().to_string()).collect();
        found.push((name.to_string(), labels));
        rest = after;
    }
    found
}

/// What a text names that is not exported.
fn unknown(text: &str) -> Vec<String> {
    let samples = samples();
    let mut unknown = Vec::new();
    for (name, labels) in named(text) {
        match samples.get(&name) {
            None => unknown.push(name),
            Some(known) => {
                let odd = labels.iter().filter(|l| !known.contains(&l.as_str()));
                unknown.extend(odd.map(|label| format!("{name}{{{label}}}")));
            }
        }
    }
    unknown
}

#[test]
fn dashboard_and_alerts_name_only_what_is_exported() {
    assert!(named(DASHBOARD).len() > 20 && named(ALERTS).len() > 10);
    assert_eq!(unknown(DASHBOARD), [""; 0]);
    assert_eq!(unknown(ALERTS), [""; 0]);
    // The check sees what is wrong.
    let wrong = "rate(firstseen_comits_total[5m]) + firstseen_health{status=\"x\"}";
    assert_eq!(
        unknown(wrong),
        ["firstseen_comits_total", "firstseen_health{status}"]
    );
}

/// Each alert has what an alert needs, and operations.md says what to do about it.
#[test]
fn every_alert_is_whole_and_in_the_playbook() {
    let playbook = include_str!("../../../docs/operations.md");
    let mut names = BTreeSet::new();
    for alert in ALERTS.split("- alert: ").skip(1) {
        let name = alert.lines().next().unwrap();
        assert!(names.insert(name), "{name} comes twice");
        for part in [
            "expr: ",
            "for: ",
            "severity: ",
            "summary: ",
            "description: ",
        ] {
            assert!(alert.contains(part), "{name} has no {part}");
        }
        assert!(
            playbook.contains(&format!("#### {name}\n")),
            "{name} is not in operations.md"
        );
    }
    assert!(names.len() >= 10);
}

#[cfg(feature = "cli")]
#[test]
fn the_dashboard_is_json_with_a_query_in_each_panel() {
    let json: serde_json::Value = serde_json::from_str(DASHBOARD).unwrap();
    let panels = json["panels"].as_array().unwrap();
    assert!(panels.len() >= 10);
    let mut ids = BTreeSet::new();
    for panel in panels {
        assert!(ids.insert(panel["id"].as_u64().unwrap()) && panel["title"].is_string());
        let targets = panel["targets"].as_array().unwrap();
        let queried = targets
            .iter()
            .all(|t| t["expr"].as_str().is_some_and(|e| !e.is_empty()));
        assert!(queried && !targets.is_empty(), "{panel}");
    }
}

#[cfg(feature = "metrics")]
mod facade {
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};

    use metrics::{
        Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder,
        SharedString, Unit,
    };

    type Values = Arc<Mutex<BTreeMap<String, f64>>>;

    #[derive(Default)]
    struct Kept(Values);

    struct Cell(String, Values);

    impl CounterFn for Cell {
        fn increment(&self, _: u64) {
            panic!("counters are published as they are");
        }
        fn absolute(&self, value: u64) {
            self.1.lock().unwrap().insert(self.0.clone(), value as f64);
        }
    }

    impl GaugeFn for Cell {
        fn increment(&self, _: f64) {
            panic!("gauges are set");
        }
        fn decrement(&self, _: f64) {
            panic!("gauges are set");
        }
        fn set(&self, value: f64) {
            self.1.lock().unwrap().insert(self.0.clone(), value);
        }
    }

    impl Kept {
        /// The sample as Prometheus's text writes it.
        fn cell(&self, key: &Key) -> Arc<Cell> {
            let labels = key
                .labels()
                .map(|l| format!("{}=\"{}\"", l.key(), l.value()));
            let labels: Vec<String> = labels.collect();
            let name = match &labels[..] {
                [] => key.name().to_string(),
                labels => format!("{}{{{}}}", key.name(), labels.join(",")),
            };
            Arc::new(Cell(name, Arc::clone(&self.0)))
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.cell(key))
        }
        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.cell(key))
        }
        fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
            panic!("{key} would lose its buckets");
        }
    }

    #[test]
    fn the_facade_gets_the_samples_of_the_text() {
        let store = super::used();
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || {
            store.publish_metrics(&[("store", "a")]).unwrap();
        });
        let stats = store.stats().unwrap();
        let text = firstseen::prometheus(&[("a", &stats)]);
        let values = kept.0.lock().unwrap();
        let lines = text.lines().filter(|l| !l.starts_with('#'));
        let samples: Vec<(&str, &str)> = lines.map(|l| l.rsplit_once(' ').unwrap()).collect();
        assert_eq!(values.len(), samples.len());
        for (sample, value) in samples {
            let moves = sample.contains("time_seconds") || sample.contains("clock_ahead");
            let (found, value) = (values[sample], value.parse::<f64>().unwrap());
            assert!(moves || found == value, "{sample}: {found}, {value}");
        }
    }
}
