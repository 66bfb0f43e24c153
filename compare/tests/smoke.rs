//! Runs the program itself: every workload on every system, with few ids.
//!
//! A system that gives one wrong answer makes its run fail, so this also tests the adapters. A
//! server that isn't installed is reported as such, which is tested, too: by hiding it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const SYSTEMS: [&str; 12] = [
    "firstseen",
    "firstseen_buffered",
    "rocksdb_blind",
    "rocksdb_get_put",
    "rocksdb_optimistic",
    "rocksdb_best",
    "sqlite",
    "fjall",
    "redb",
    "redis",
    "postgres",
    "hashset",
];

/// Those whose sizes are the arguments' own: the others have a million ids and more.
const WORKLOADS: [&str; 16] = [
    "new_batch1",
    "new_batch100",
    "new_batch1000",
    "new_batch100_threads2",
    "new_time_batch1000",
    "synced_batch1000",
    "synced_single_threads64",
    "commit_with_mutation_batch100",
    "dup_recent_batch1000",
    "dup_old_batch1000",
    "larger_than_memory_batch1000",
    "mixed_1pct_batch1000",
    "expiry",
    "reopen",
    "reopen_with_rows",
    "footprint",
];

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_compare"))
}

fn output(command: &mut Command) -> (bool, String) {
    let output = command.output().expect("the program can be started");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    (output.status.success(), text)
}

fn compare(line: &str) -> (bool, String) {
    output(program().args(line.split_whitespace()))
}

fn json(text: &str) -> Vec<Value> {
    let parse = |line| serde_json::from_str(line).expect("a line of JSON");
    text.lines().map(parse).collect()
}

fn figure(line: &Value, name: &str) -> f64 {
    let value = line[name].as_f64();
    value.unwrap_or_else(|| panic!("no {name} in {line}"))
}

#[test]
fn every_workload_runs_on_every_system() {
    let (systems, workloads) = (SYSTEMS.join(","), WORKLOADS.join(","));
    let line = "--json --ids 2000 --rounds 1 --systems";
    let (success, text) = compare(&format!("{line} {systems} --workload {workloads}"));
    assert!(success, "{text}");
    let lines = json(&text);
    assert_eq!(lines.len(), SYSTEMS.len() * WORKLOADS.len());
    let mut skipped = 0;
    for (at, line) in lines.iter().enumerate() {
        let workload = WORKLOADS[at / SYSTEMS.len()];
        assert_eq!(line["workload"], workload);
        assert_eq!(line["system"], SYSTEMS[at % SYSTEMS.len()]);
        assert_eq!(line["ids"], 2000);
        if line["skipped"].is_string() {
            assert_ne!(line["system"], "firstseen", "{line}");
            skipped += 1;
        } else if workload.starts_with("reopen") {
            assert!(figure(line, "first_verdict_ms") > 0.0);
            assert!(figure(line, "ready_ms") >= figure(line, "first_verdict_ms"));
        } else {
            assert!(figure(line, "ids_per_s") > 0.0);
            assert!(figure(line, "max_us") >= figure(line, "p50_us"));
            let blind = lines[at - at % SYSTEMS.len() + 2]["ids_per_s"].is_number();
            assert_eq!(line["x_rocksdb_blind"].is_number(), blind, "{line}");
        }
    }
    assert!(skipped < lines.len() / 2, "{skipped} were skipped");
    let ours = |workload| {
        let mut lines = lines.iter();
        lines.find(|l| l["workload"] == workload && l["system"] == "firstseen")
    };
    let ours = |workload| ours(workload).expect("it has a line");
    assert!(figure(ours("expiry"), "dropped_under_load") >= 1.0);
    assert!(figure(ours("reopen"), "replayed_ids") >= 2000.0);
    assert_eq!(figure(ours("reopen_with_rows"), "lost_ids"), 0.0);
    assert!(figure(ours("footprint"), "filter_bytes_per_id") > 0.0);
    assert!(figure(ours("new_batch100_threads2"), "cpu_ns_per_id") > 0.0);
    assert!(figure(ours("larger_than_memory_batch1000"), "cache_mib") > 0.0);
}

#[test]
fn people_get_settings_a_table_and_a_plot() {
    let dir = tempfile::tempdir().expect("a directory");
    let plot = dir.path().join("plot.svg");
    let line = "--ids 2k --rounds 2 --workload new_batch100 --systems hashset,rocksdb_blind --plot";
    let (success, text) = compare(&format!("{line} {}", plot.display()));
    assert!(success, "{text}");
    assert!(text.contains("rocksdb_blind: RocksDB") && text.contains("x rocksdb_blind"));
    assert!(text.contains("new_batch100 (best peer: rocksdb_blind)"));
    let svg = fs::read_to_string(plot).expect("a plot");
    assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
    assert!(svg.contains("hashset"));
}

#[test]
fn what_a_user_asks_wrongly_is_refused() {
    assert!(!compare("--workload new_batch7").0);
    assert!(!compare("--systems oracle").0);
    assert!(!compare("--workload input").0);
    assert!(!compare("--input /no/such/file").0);
}

#[test]
fn own_ids_are_given_to_every_system() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ids.txt");
    // Of many lengths, each third one again later.
    let line = |n: usize| format!("order-{}-{}\n", n % 2000, "x".repeat(n % 2000 % 150));
    let text: String = (0..3000).map(line).collect();
    fs::write(&file, text).expect("a file");
    let (success, text) = compare(&format!(
        "--json --rounds 1 --batch 100 --input {} --systems {}",
        file.display(),
        SYSTEMS.join(",")
    ));
    assert!(success, "{text}");
    let lines = json(&text);
    assert_eq!(lines.len(), SYSTEMS.len());
    for line in lines.iter().filter(|l| !l["skipped"].is_string()) {
        assert_eq!(
            (&line["workload"], &line["ids"]),
            (&"input".into(), &3000.into())
        );
        assert!(figure(line, "ids_per_s") > 0.0);
    }
}

#[test]
fn sizes_grow_in_a_table_a_plot_and_json() {
    let dir = tempfile::tempdir().expect("a directory");
    let plot = dir.path().join("plot.svg");
    let line = "--grow 8k,16k --ids 2k --rounds 1 --systems firstseen,rocksdb_get_put";
    let (success, text) = compare(&format!("{line} --plot {}", plot.display()));
    assert!(success, "{text}");
    assert!(text.contains("as the live ids grow") && text.contains("first verdict ms"));
    assert!(text.contains("rocksdb_get_put skipped in expiry at 16k"));
    assert!(fs::read_to_string(plot).expect("a plot").contains("reopen"));
    let (success, text) = compare(&format!("{line} --json"));
    assert!(success, "{text}");
    let lines = json(&text);
    assert_eq!(lines.len(), 4);
    assert_eq!(
        (&lines[2]["grow"], &lines[2]["system"]),
        (&16_000.into(), &"firstseen".into())
    );
    for name in [
        "new_batch1000_ids_per_s",
        "reopen_first_verdict_ms",
        "expiry_x_quiet_p999",
    ] {
        assert!(figure(&lines[2], name) > 0.0);
    }
}

#[test]
fn a_steady_run_shows_its_course() {
    let line = "--steady 3 --rate 20k --workload new_batch100 --ids 4k --rounds 1";
    let (success, text) = compare(line);
    assert!(success, "{text}");
    assert!(text.contains("steady new_batch100") && text.contains("firstseen over time"));
    let (success, text) = compare(&format!("{line} --json"));
    assert!(success, "{text}");
    let lines = json(&text);
    let moments = lines[0]["moments"].as_array().expect("moments");
    assert_eq!(moments.len(), 3);
    assert!(figure(&moments[2], "max_us") >= figure(&moments[2], "p99_us"));
    // 60,000 ids through a window of 5,000 generations and all.
    assert!(figure(&lines[0], "generations_dropped") >= 1.0);
    assert!(figure(&lines[0], "top_ids_per_s") > 0.0);
}

#[test]
fn a_server_that_is_not_installed_is_skipped_with_its_name() {
    let line = "--json --ids 1000 --rounds 1 --workload new_batch1000 --systems redis,postgres";
    let mut nowhere = program();
    nowhere.env("COMPARE_SERVER_PATH", "/no/such/folder");
    let (success, text) = output(nowhere.args(line.split(' ')));
    assert!(success, "{text}");
    for (line, name) in json(&text).iter().zip(["redis-server", "postgres"]) {
        assert_eq!(line["skipped"], format!("not installed (no {name})"));
    }
}

/// The processes that name a directory on their command line.
fn processes_in(dir: &Path) -> Vec<String> {
    let dir = dir.to_string_lossy();
    let entries = fs::read_dir("/proc").expect("processes are listed");
    let lines = entries
        .flatten()
        .filter_map(|e| fs::read(e.path().join("cmdline")).ok());
    lines
        .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " "))
        .filter(|line| line.contains(&*dir))
        .collect()
}

#[expect(clippy::disallowed_methods, reason = "another process takes real time")]
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn ctrl_c_leaves_no_process_and_no_file() {
    for system in ["redis", "postgres"] {
        let dir = tempfile::tempdir().expect("a directory");
        open_to_all(dir.path());
        let line = "--uncapped --ids 50m --preload 0 --rounds 1 --workload new_batch100 --dir";
        let mut child = program()
            .args(line.split(' '))
            .arg(dir.path())
            .args(["--systems", system])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program can be started");
        let program = if system == "redis" {
            "redis-server"
        } else {
            "bin/postgres"
        };
        let mut ended = None;
        wait_until("a server", || {
            ended = child.try_wait().expect("it can be asked");
            ended.is_some() || processes_in(dir.path()).iter().any(|l| l.contains(program))
        });
        if ended.is_some() {
            eprintln!("{system} is not installed: Ctrl-C was not tried");
            continue;
        }
        // To the one that the user started alone: it sees to the others.
        let id = child.id().to_string();
        let sent = Command::new("kill").args(["-INT", &id]).status();
        assert!(sent.expect("a signal is sent").success());
        let status = child.wait().expect("it ends");
        assert_eq!(status.code(), Some(130));
        assert_eq!(processes_in(dir.path()), [""; 0]);
        let left = fs::read_dir(dir.path()).expect("it is listed").count();
        assert_eq!(left, 0, "files are left");
    }
}

/// A server may run as another user, who must get through.
fn open_to_all(dir: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = fs::Permissions::from_mode(0o711);
    fs::set_permissions(dir, mode).expect("the mode is set");
}
