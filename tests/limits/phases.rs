//! The disk fills at each step of background work, and there is room again a moment later.
//!
//! At a named point the disk is filled, so that the next thing that needs room meets its end.
//! Whatever that is, reads go on, writes succeed or are refused cleanly, and when there is room
//! again background work goes on from where it was, without a restart; a kill after that loses
//! nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use firstseen::{Clock, Durability, Health, ManualClock, Policy, Store};

use super::child;
use super::disk::{Disk, empty, fill};
use super::full::{end, told};
use super::load::{Load, verify};
use super::{nap, now, one_log, small};

/// Points, what comes after each, and at which pass the disk fills.
const POINTS: [(&str, u64); 15] = [
    ("seal::gate_passed", 2),
    ("seal::synced", 2),
    ("seal::marked", 1),
    ("seal::marked", 3),
    ("seal::runs_written", 2),
    ("seal::ingested", 1),
    ("seal::published", 2),
    ("seal::before_drop", 2),
    ("seal::dropped", 8),
    ("merge::begun", 1),
    ("merge::written", 1),
    ("merge::ingested", 1),
    ("drop::marked", 1),
    ("drop::published", 1),
    ("snapshot::before_write", 1),
];

/// Fills the disk at the n-th pass of a point.
fn fill_at(root: PathBuf, name: &str, pass: u64) -> Arc<AtomicBool> {
    let filled = Arc::new(AtomicBool::new(false));
    let (passes, done) = (AtomicU64::new(0), Arc::clone(&filled));
    let action = move || {
        if passes.fetch_add(1, Ordering::SeqCst) + 1 == pass {
            fill(&root);
            done.store(true, Ordering::SeqCst);
        }
    };
    fail::cfg_callback(name, action).unwrap();
    filled
}

/// One round of work: batches, ids that expire soon, a seal; time passes.
fn round(store: &Store, load: &mut Load, clock: &ManualClock, short: &firstseen::Scope) {
    for _ in 0..8 {
        if !load.step() {
            return;
        }
    }
    let named = format!("short-{}", load.acknowledged);
    if let Err(error) = short.insert(&named) {
        assert!(error.is_retryable(), "{error}");
    }
    if let Err(error) = store.seal() {
        assert!(error.is_retryable(), "{error}");
    }
    clock.advance(std::time::Duration::from_secs(20));
}

/// The child's job. Words: the disk, the point, its pass, how much is written then.
pub(crate) fn work(words: &[&str]) {
    let root = Path::new(words[0]);
    let clock = ManualClock::new();
    let options = one_log().clock(Clock::Manual(clock.clone()));
    let store = Store::open(root.join("store"), options).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    let short = Policy::remember(std::time::Duration::from_secs(60));
    let short = store.scope("short", short).unwrap();
    let filled = fill_at(root.to_path_buf(), words[1], words[2].parse().unwrap());
    for _ in 0..60 {
        round(&store, &mut load, &clock, &short);
        if filled.load(Ordering::SeqCst) {
            break;
        }
    }
    assert!(filled.load(Ordering::SeqCst), "{words:?} was not passed");
    load.reads_go_on();
    match words[3] {
        "some" => (0..20).for_each(|_| {
            load.step();
        }),
        // Until the log meets the end of the disk as well.
        _ => load.until_refused(),
    }
    load.reads_go_on();
    let full = store.health();
    empty(root);
    let began = now();
    let waited = loop {
        let (stepped, sealed, health) = (load.step(), store.seal(), store.health());
        if stepped && sealed.is_ok() && health == Health::Ready {
            break began.elapsed();
        }
        let state = format!("{stepped}, {sealed:?}, {health:?}");
        assert!(began.elapsed().as_secs() < 30, "it does not go on: {state}");
        nap(20);
    };
    fail::remove(words[1]);
    for _ in 0..12 {
        round(&store, &mut load, &clock, &short);
    }
    store.compact().unwrap();
    load.reads_go_on();
    let stats = store.stats().unwrap();
    assert!(
        stats.background.seals > 10 && stats.background.drops > 0,
        "{stats:?}"
    );
    assert_eq!(stats.unsealed_segments, 0);
    let (at, pass, refused) = (words[1], words[2], load.refused);
    println!("@{at} {pass}: {full:?}, {refused} refused, went on after {waited:?}");
    store.sync().unwrap();
    end(root, &load);
}

#[test]
fn a_disk_that_fills_at_any_step_of_background_work_passes_without_a_restart() {
    let (mut failed, mut refused) = (0, 0);
    for ((point, pass), writes) in POINTS.into_iter().zip(["some", "all"].into_iter().cycle()) {
        let Some(disk) = Disk::mount(64, "a disk that fills at each step") else {
            return;
        };
        let root = disk.root().to_str().unwrap();
        let job = ["phase", root, point, &pass.to_string(), writes];
        let output = child::run("", &job);
        let acknowledged = told(disk.root(), &output);
        let said = child::said(&output);
        let line = said.lines().find_map(|l| l.split_once('@')).unwrap().1;
        println!("{line}");
        failed += u64::from(line.contains("background work"));
        refused += u64::from(!line.contains(" 0 refused"));
        let store = Store::open(disk.store(), small()).unwrap();
        verify(&store, acknowledged, false);
        store.seal().unwrap();
        verify(&store, acknowledged, false);
        store.close().unwrap();
    }
    assert!(
        failed > 2 && refused > 2,
        "{failed}, {refused}: was the disk ever full?"
    );
}
