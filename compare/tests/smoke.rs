//! Runs the program itself: every workload on every system, with few ids.
//!
//! A system that gives one wrong answer makes its run fail, so this also tests the adapters.

use std::process::Command;

use serde_json::Value;

const SYSTEMS: [&str; 10] = [
    "firstseen",
    "firstseen_buffered",
    "rocksdb_blind",
    "rocksdb_get_put",
    "rocksdb_optimistic",
    "rocksdb_best",
    "sqlite",
    "fjall",
    "redb",
    "hashset",
];

const WORKLOADS: [&str; 7] = [
    "new_batch1",
    "new_batch100",
    "new_batch1000",
    "commit_with_mutation_batch100",
    "dup_recent_batch1000",
    "dup_old_batch1000",
    "mixed_1pct_batch1000",
];

fn compare(args: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_compare"))
        .args(args)
        .output()
        .expect("the program can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

#[test]
fn every_workload_runs_on_every_system() {
    let systems = SYSTEMS.join(",");
    let args = [
        "--json",
        "--ids",
        "2000",
        "--rounds",
        "1",
        "--systems",
        &systems,
    ];
    let (success, text) = compare(&args);
    assert!(success, "{text}");
    let lines: Vec<Value> = text
        .lines()
        .map(|l| serde_json::from_str(l).expect("a line of JSON"))
        .collect();
    assert_eq!(lines.len(), SYSTEMS.len() * WORKLOADS.len());
    for (at, line) in lines.iter().enumerate() {
        assert_eq!(line["workload"], WORKLOADS[at / SYSTEMS.len()]);
        assert_eq!(line["system"], SYSTEMS[at % SYSTEMS.len()]);
        assert_eq!(line["ids"], 2000);
        assert!(
            line["ids_per_s"].as_f64().is_some_and(|f| f > 0.0),
            "{line}"
        );
        assert!(
            line["x_rocksdb_blind"].as_f64().is_some_and(|f| f > 0.0),
            "{line}"
        );
    }
}

#[test]
fn people_get_settings_and_a_table() {
    let args = [
        "--ids",
        "2k",
        "--rounds",
        "2",
        "--workload",
        "new_batch100",
        "--systems",
    ];
    let (success, text) = compare(&[&args[..], &["hashset,rocksdb_blind"]].concat());
    assert!(success, "{text}");
    assert!(text.contains("rocksdb_blind: RocksDB") && text.contains("x rocksdb_blind"));
    assert!(text.contains("new_batch100 (best peer: rocksdb_blind)"));
}

#[test]
fn unknown_names_are_refused() {
    assert!(!compare(&["--workload", "new_batch7"]).0);
    assert!(!compare(&["--systems", "oracle"]).0);
}
