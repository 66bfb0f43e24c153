//! The disk is full, and there is room again: under load, at every level, without a restart.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::Duration;

use firstseen::{Durability, Health, Store};

use super::child;
use super::disk::{Disk, empty, fill, fill_leaving};
use super::load::{Load, verify};
use super::rules::{Scrapes, rules};
use super::{one_log, small, until};

const LEVELS: [(&str, Durability); 3] = [
    ("buffered", Durability::Buffered),
    ("written", Durability::Written),
    ("synced", Durability::Synced),
];

/// The child's job. Words: the disk, the level, when it dies: `full` or `healed`.
pub(crate) fn work(words: &[&str]) {
    let root = Path::new(words[0]);
    let (_, level) = LEVELS.iter().find(|l| l.0 == words[1]).unwrap();
    let store = Store::open(root.join("store"), one_log()).unwrap();
    let mut load = Load::new(&store, *level);
    for _ in 0..300 {
        assert!(load.step(), "there is room");
    }
    load.sync();
    fill(root);
    load.until_refused();
    load.reads_go_on();
    assert!(!load.step(), "it is still full");
    let Health::Degraded(why) = store.health() else {
        panic!("{:?} on a full disk", store.health());
    };
    assert!(why.contains("full"), "{why}");
    assert!(store.stats().unwrap().refused_for_space >= 2);
    if words[2] == "full" {
        end(root, &load);
    }
    empty(root);
    let waited = until("writes go on", || load.step());
    println!("{} writes went on after {waited:?}", words[1]);
    assert!(waited < Duration::from_secs(12), "{waited:?}");
    for _ in 0..300 {
        assert!(load.step(), "there is room again");
    }
    until("it says so", || store.health() == Health::Ready);
    load.sync();
    load.reads_go_on();
    store.seal().unwrap();
    for _ in 0..300 {
        assert!(load.step());
    }
    load.sync();
    load.reads_go_on();
    end(root, &load);
}

/// Tells what must be there, and dies as a killed process does.
pub(crate) fn end(root: &Path, load: &Load) -> ! {
    // There is no room on a full disk to tell it.
    let told = root.with_extension("told");
    std::fs::write(told, load.acknowledged.to_string()).unwrap();
    std::process::abort();
}

/// What a child that died had told.
pub(crate) fn told(root: &Path, output: &std::process::Output) -> u64 {
    let said = child::said(output);
    assert_eq!(output.status.signal(), Some(6), "{said}");
    let told = root.with_extension("told");
    let text = std::fs::read_to_string(&told).unwrap();
    std::fs::remove_file(told).unwrap();
    text.parse().unwrap()
}

fn each_level(dies: &str) {
    for (level, durability) in LEVELS {
        let Some(disk) = Disk::mount(96, "a full disk under load") else {
            return;
        };
        let root = disk.root().to_str().unwrap();
        let output = child::run("", &["full", root, level, dies]);
        let acknowledged = told(disk.root(), &output);
        assert!(acknowledged > 300, "{acknowledged}");
        empty(disk.root());
        let store = Store::open(disk.store(), small()).unwrap();
        if durability == Durability::Buffered && dies == "full" {
            // What was in memory only is gone with the process; the rest is whole.
            let found = store.stats().unwrap().written;
            assert!(found > 0);
            continue;
        }
        verify(&store, acknowledged, false);
        let mut load = Load::new(&store, durability);
        load.acknowledged = acknowledged;
        assert!(load.step());
        drop(load);
        store.close().unwrap();
    }
}

#[test]
fn a_full_disk_refuses_writes_answers_reads_and_passes_without_a_restart() {
    each_level("healed");
}

/// The log's last record is torn then.
#[test]
fn a_store_killed_on_a_full_disk_has_what_it_acknowledged() {
    each_level("full");
}

/// Runs the commands of an alert's section in the playbook, which only look.
#[cfg(feature = "cli")]
fn run_section(alert: &str, dir: &Path) {
    let playbook = include_str!("../../docs/operations.md");
    let (_, section) = playbook.split_once(&format!("#### {alert}\n")).unwrap();
    let block = section.split("```sh\n").nth(1).unwrap().split("```").next();
    for line in block.unwrap().lines() {
        let command = line.split(" # ").next().unwrap().strip_prefix("firstseen ");
        let mut program = std::process::Command::new(env!("CARGO_BIN_EXE_firstseen"));
        for word in command.unwrap().split_whitespace() {
            match word {
                "DIR" => program.arg(dir),
                word => program.arg(word),
            };
        }
        let ran = program.output().unwrap();
        assert!(
            ran.status.success(),
            "{line}: {}",
            String::from_utf8_lossy(&ran.stderr)
        );
    }
}

fn scrape(store: &Store) -> String {
    firstseen::prometheus(&[("a", &store.stats().unwrap())])
}

/// Whether a rule of the alerts fires, as the playbook's drills ask it.
fn fires(alert: &str, before: &str, store: &Store) -> bool {
    let rules = rules(include_str!("../../docs/alerts.yml"));
    let rule = rules.iter().find(|rule| rule.name == alert).unwrap();
    let scrapes = Scrapes::new(before, &scrape(store), 60.0);
    !scrapes.firing(&rule.expr).is_empty()
}

/// There is room for the log and none for the file that a memtable is flushed into. RocksDB
/// latches that; it is found out, writes are refused meanwhile, and all of it passes.
#[test]
fn a_flush_that_finds_no_room_passes_without_a_restart() {
    let Some(disk) = Disk::mount(96, "a flush on a full disk") else {
        return;
    };
    let store = Store::open(disk.store(), one_log()).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    for _ in 0..2500 {
        assert!(load.step());
    }
    let alert = "FirstseenRocksErrors";
    let before = scrape(&store);
    assert!(!fires(alert, &before, &store));
    fill_leaving(disk.root(), 4 << 20);
    // Every eighth seal flushes the tables; theirs holds some ten MiB by now.
    let failed = (0..10).find_map(|_| {
        assert!(load.step());
        store.seal().err()
    });
    assert!(failed.unwrap().is_retryable());
    assert!(
        store.stats().unwrap().background.errors > 0,
        "no flush failed"
    );
    assert!(fires(alert, &before, &store));
    #[cfg(feature = "cli")]
    run_section(alert, &disk.store());
    load.reads_go_on();
    until("it is refused", || !load.step());
    load.reads_go_on();
    empty(disk.root());
    let waited = until("writes go on", || load.step());
    assert!(waited < Duration::from_secs(12), "{waited:?}");
    let before = scrape(&store);
    until("it is well", || {
        store.seal().is_ok() && store.health() == Health::Ready
    });
    assert!(!fires(alert, &before, &store));
    load.reads_go_on();
    let acknowledged = load.acknowledged;
    drop(load);
    let store = store.crash_and_reopen().unwrap();
    verify(&store, acknowledged, false);
}
