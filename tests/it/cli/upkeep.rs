//! The verbs for who operates a store: looks while it is open, copies, backups, plans.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;

use firstseen::{Backups, Options, Policy, Store, days, verify};
use serde_json::{Value, json};

use super::program::{command, run, wait_while_running};

/// A store in `s`, open in this process, with so many messages consumed.
fn open(dir: &Path, messages: u64) -> Store {
    let store = Store::open(dir.join("s"), Options::new()).unwrap();
    consume(&store, 0, messages);
    store
}

fn consume(store: &Store, from: u64, to: u64) {
    let ids = store.scope("orders", Policy::remember(days(7))).unwrap();
    let rows = store.table("rows").unwrap();
    for at in (from..to).step_by(50) {
        let mut batch = store.batch();
        for n in at..(at + 50).min(to) {
            let id = format!("id-{n}");
            batch.once(&ids, &id).put(&rows, &id, [1; 200]);
        }
        batch.resume_at("orders/3", (at + 50).min(to));
        let _ = batch.commit().unwrap();
    }
}

/// Ids and rows of a store, each as often as it should be.
#[track_caller]
fn expect_exact(store: &Store, messages: u64) {
    let ids = store.existing_scope("orders").unwrap().unwrap();
    assert_eq!(ids.scan(..).unwrap().count() as u64, messages);
    let rows = store.table("rows").unwrap();
    assert_eq!(rows.range("").unwrap().count() as u64, messages);
}

fn next(store: &Store) -> u64 {
    let point = store.resume_point("orders/3").unwrap().unwrap();
    point.as_u64().unwrap()
}

#[track_caller]
fn text(dir: &Path, args: &str, code: i32) -> String {
    let ran = run(dir, args);
    String::from_utf8_lossy(&ran.expect(code).stdout).into_owned()
}

#[test]
fn verbs_that_only_look_work_on_a_store_that_is_open_and_say_how_fresh_they_are() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 100);
    let stat = || {
        run(dir.path(), "stat --store s --json")
            .expect(0)
            .json_lines()
            .remove(0)
    };
    let before = stat();
    assert_eq!(before["live_ids_estimate"], json!(100));
    assert_eq!(before["as_of"]["commit"], json!(2));
    let me = std::process::id().to_string();
    assert_eq!(before["as_of"]["open_by"], json!(me));
    // What returned is seen at once, though the log alone has it.
    consume(&store, 100, 150);
    assert_eq!(stat()["as_of"]["commit"], json!(3));
    let scanned = run(dir.path(), "scan --store s --scope orders --json");
    assert_eq!(scanned.expect(0).json_lines().len(), 150);
    store.seal().unwrap();
    let shown = text(dir.path(), "generations --store s", 0);
    assert!(
        shown.contains("150") && shown.contains(&format!("process {me}")),
        "{shown}"
    );
    assert!(
        shown.starts_with("ends at"),
        "no colours in a pipe: {shown:?}"
    );
    let listed = run(dir.path(), "generations --store s --json")
        .expect(0)
        .json_lines();
    assert_eq!(listed[0][0]["ids_estimate"], json!(150));
    let watched = run(dir.path(), "stat --store s --watch 5ms --count 3 --json");
    assert_eq!(watched.expect(0).json_lines().len(), 3);
    let watched = text(dir.path(), "stat --store s --watch 5ms --count 2", 0);
    assert_eq!(watched.lines().count(), 3, "{watched}");
    store.close().unwrap();
    assert_eq!(stat()["as_of"]["open_by"], json!(null));
}

#[test]
fn a_store_that_is_open_is_copied_backed_up_and_restored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 100);
    let made = run(dir.path(), "backup create --store s --backups b --json");
    let made = made.expect(0).json_lines();
    let points = json!([{ "source": "orders/3", "number": 100, "bytes": null }]);
    assert_eq!(made[0]["resume_points"], points);
    consume(&store, 100, 200);
    run(dir.path(), "backup create --store s --backups b").expect(0);
    run(dir.path(), "checkpoint --store s --to c").expect(0);
    expect_exact(
        &Store::open(dir.path().join("c"), Options::new()).unwrap(),
        200,
    );
    let listed = text(dir.path(), "backup list --backups b", 0);
    assert!(
        listed.contains("orders/3=100") && listed.contains("orders/3=200"),
        "{listed}"
    );
    run(dir.path(), "restore --from b --id 1 --to r1").expect(0);
    run(dir.path(), "restore --from b --to r2").expect(0);
    run(dir.path(), "restore --from b --to r2").expect_said(1, "not empty");
    expect_exact(
        &Store::open(dir.path().join("r1"), Options::new()).unwrap(),
        100,
    );
    expect_exact(
        &Store::open(dir.path().join("r2"), Options::new()).unwrap(),
        200,
    );
    let pruned = text(dir.path(), "backup prune --backups b --keep 1", 0);
    assert!(pruned.starts_with("removed 1 backups"), "{pruned}");
    run(dir.path(), "restore --from b --id 1 --to r3").expect_said(1, "no backup 1");
    assert!(!dir.path().join("r3").exists());
    let whole = text(dir.path(), "backup verify --backups b", 0);
    assert_eq!(whole, "backup 2 is whole\n");
    let file = fs::read_dir(dir.path().join("b/files")).unwrap().next();
    fs::write(file.unwrap().unwrap().path(), "harm").unwrap();
    let harmed = text(dir.path(), "backup verify --backups b", 1);
    assert!(harmed.contains("is not as it was backed up"), "{harmed}");
    run(dir.path(), "restore --from b --to r4").expect_said(1, "is not as it was");
    run(dir.path(), "backup list --backups none").expect_said(1, "no folder of backups");
    run(dir.path(), "backup prune --backups b --keep 0").expect(2);
}

/// V3, with everything killed again and again: the backup and the restore at any moment, the
/// store with the machine. What is listed is whole; what has its name is whole; replaying gives
/// every effect once.
#[test]
fn backups_and_restores_that_are_killed_leave_nothing_that_passes_for_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::new();
    let store = open(dir.path(), 2_000);
    let backups = Backups::open(dir.path().join("b")).unwrap();
    let kill = |args: &str, after_ms: u64| {
        let mut child = command(dir.path(), args).spawn().unwrap();
        let mut waited = 0;
        wait_while_running(&mut child, || {
            waited += 1;
            waited > after_ms
        });
        // It may have ended just now.
        let _ = child.kill();
        child.wait().unwrap().success()
    };
    let (mut killed, mut done) = (0, 0);
    for round in 0..24_u64 {
        consume(&store, next(&store), next(&store) + 100);
        if round % 5 == 4 {
            store.seal().unwrap();
        }
        match kill("backup create --store s --backups b", random.u64(0..60)) {
            true => done += 1,
            false => killed += 1,
        }
        for (id, backup) in backups.list().unwrap() {
            backup.unwrap();
            assert_eq!(backups.verify(id, |_| {}).unwrap(), [""; 0]);
        }
    }
    let last = store.backup(&backups).unwrap();
    let end = next(&store) + 500;
    consume(&store, next(&store), end);
    drop(store);
    fs::remove_dir_all(dir.path().join("s")).unwrap();

    let to = dir.path().join("r");
    for _ in 0..24 {
        match kill("restore --from b --to r", random.u64(0..60)) {
            true => done += 1,
            false => killed += 1,
        }
        if to.exists() {
            let report = verify(&to, &Options::new(), |_| {}).unwrap();
            assert!(report.is_sound(), "{:?}", report.faults);
            fs::remove_dir_all(&to).unwrap();
        }
    }
    run(dir.path(), "restore --from b --to r").expect(0);
    let store = Store::open(&to, Options::new()).unwrap();
    assert_eq!(next(&store), last.resume_points[0].1.as_u64().unwrap());
    expect_exact(&store, next(&store));
    consume(&store, next(&store) - 30, end);
    expect_exact(&store, end);
    println!("{killed} killed, {done} done");
    assert!(killed > 0, "nothing was killed");
}

#[test]
fn a_plan_says_what_a_load_takes_and_whether_it_fits() {
    let dir = tempfile::tempdir().unwrap();
    let load = "plan --rate 100000 --retention 7d --id-bytes 24";
    let plan = run(dir.path(), &format!("{load} --json"))
        .expect(0)
        .json_lines();
    assert_eq!(plan[0]["ids"], json!(60_480_000_000_u64));
    assert_eq!(plan[0]["findings"], json!([]));
    let shown = text(
        dir.path(),
        &format!("{load} --disk 1TB --memory 64GiB --horizon 14d"),
        5,
    );
    for part in [
        "ids remembered   60,480,000,000",
        "redelivery horizon",
        "too small",
        "no filter",
    ] {
        assert!(shown.contains(part), "{shown} lacks {part}");
    }
    run(dir.path(), "plan --rate 0 --retention 7d").expect(1);
    run(dir.path(), "plan --rate 1 --retention forever").expect(2);
    run(dir.path(), "plan --rate 1 --retention 7d --disk 1XB").expect_said(2, "GiB");
}

/// What docs/operations.md says of sizes is what the model says.
#[test]
fn the_documented_sizes_are_the_models() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operations.md");
    let docs = fs::read_to_string(docs).unwrap();
    let loads = [(10_000, days(7)), (100_000, days(1)), (16_534, days(7))];
    let plans = loads.map(|(rate, kept)| firstseen::Load::new(rate, 16, kept).plan().unwrap());
    let row = |name: &str, cell: &dyn Fn(&firstseen::Plan) -> String| {
        let cells: Vec<String> = plans.iter().map(cell).collect();
        let line = format!("| {name} | {} |", cells.join(" | "));
        assert!(docs.contains(&line), "docs/operations.md lacks\n{line}");
    };
    let billion = |n: u64| format!("{:.1}", n as f64 / 1e9);
    let gb = |n: u64| format!("{:.0}", n as f64 / 1e9);
    row("ids remembered", &|p| {
        format!("{:.2} billion", p.ids as f64 / 1e9)
    });
    row("ids on disk, average / most", &|p| {
        format!(
            "{} / {} billion",
            billion(p.ids_on_disk),
            billion(p.ids_on_disk_most)
        )
    });
    row("disk for ids, average / most", &|p| {
        format!("{} / {} GB", gb(p.disk_bytes), gb(p.disk_bytes_most))
    });
    row("largest merge, on top", &|p| {
        format!("{} GB", gb(p.merge_bytes))
    });
    row("provide, with the WAL and a reserve", &|p| {
        format!("{} GB", gb(p.disk_bytes_needed))
    });
    row("filters for all", &|p| {
        format!("{} GB", billion(p.filter_bytes))
    });
    row("page index", &|p| format!("{} GB", billion(p.index_bytes)));
    row("generations alive", &|p| p.generations.to_string());
}

#[test]
fn the_report_is_one_page_that_needs_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), 300);
    store.seal().unwrap();
    let watched = run(dir.path(), "stat --store s --watch 5ms --count 3 --json");
    let mut samples = watched.expect(0).json_lines();
    for (at, sample) in samples.iter_mut().enumerate() {
        sample["verdicts"] = json!({ "first": 300, "duplicates": 100 * at });
    }
    let lines: Vec<String> = samples.iter().map(Value::to_string).collect();
    fs::write(dir.path().join("samples"), lines.join("\n")).unwrap();
    run(
        dir.path(),
        "report --store s --output p.html --samples samples",
    )
    .expect(0);
    let page = fs::read_to_string(dir.path().join("p.html")).unwrap();
    for part in [
        "<!DOCTYPE html>",
        "First sights over time: orders",
        "Ids of each generation",
        "Disk over time",
        "Verdicts over time",
        "Duplicate rate",
        "as of commit 6",
    ] {
        assert!(page.contains(part), "{page} lacks {part}");
    }
    assert_eq!(page.matches("<svg").count(), page.matches("</svg>").count());
    let outside = page.replace("http://www.w3.org/2000/svg", "");
    for reference in ["http", "src=", "href=", "url(", "<script"] {
        assert!(!outside.contains(reference), "it refers to {reference}");
    }
    let plain = text(dir.path(), "report --store s", 0);
    assert!(!plain.contains("Verdicts over time"), "nobody knows them");
    fs::write(dir.path().join("samples"), "no JSON").unwrap();
    run(dir.path(), "report --store s --samples samples").expect_said(1, "line 1");
}

#[test]
fn the_bench_measures_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let found = run(dir.path(), "bench --time 60ms --json")
        .expect(0)
        .json_lines();
    for name in ["ids_per_s_batch1000", "ids_per_s_single"] {
        assert!(found[0][name].as_u64().unwrap() > 0, "{found:?}");
    }
    assert!(found[0]["sync_us"]["p50"].as_f64().unwrap() > 0.0);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    run(dir.path(), "bench --dir none").expect_said(1, "none");
}

/// Completions and manual pages know every verb: they are made from the same definition.
#[test]
fn completions_and_manual_pages_know_every_verb() {
    let dir = tempfile::tempdir().unwrap();
    run(dir.path(), "man --to pages").expect(0);
    let help = text(dir.path(), "help", 0);
    let verbs = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let verbs = verbs.take_while(|line| !line.is_empty());
    let verbs: Vec<&str> = verbs
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    assert!(verbs.len() > 10, "{help}");
    for shell in ["bash", "zsh", "fish"] {
        let script = text(dir.path(), &format!("completions {shell}"), 0);
        for verb in &verbs {
            assert!(script.contains(verb), "{shell} lacks {verb}");
        }
    }
    for verb in verbs.iter().filter(|verb| **verb != "help") {
        let page = dir.path().join(format!("pages/firstseen-{verb}.1"));
        assert!(fs::read_to_string(page).unwrap().contains(".SH"), "{verb}");
    }
    assert!(dir.path().join("pages/firstseen-backup-create.1").exists());
    assert!(text(dir.path(), "man", 0).contains("firstseen"));
}
