//! Faults of the disk and of background work.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstseen::{
    Durability, ErrorKind, Health, Injected, Injection, Options, Place, RocksOptions, Store,
};

use super::super::cases::until;
use super::{Drill, said, week};

pub(super) fn fault(place: Place, failure: Injected, times: u64) -> Injection {
    Injection {
        place,
        failure,
        skip: 0,
        times,
    }
}

/// Twenty ids, and how far their source was read.
fn consume(store: &Store, from: u64) -> Result<(), firstseen::Error> {
    let scope = week(store);
    let mut batch = store.batch();
    batch.durability(Durability::Synced);
    for n in from..from + 20 {
        batch.once(&scope, &n.to_be_bytes());
    }
    batch.resume_at("orders/3", from + 20);
    batch.commit().map(drop)
}

fn next(store: &Store) -> u64 {
    store
        .resume_point("orders/3")
        .unwrap()
        .unwrap()
        .as_u64()
        .unwrap()
}

#[test]
fn a_failed_write_stops_the_store_until_it_is_opened_again() {
    let alert = "FirstseenDegraded";
    let mut drill = Drill::new();
    let store = drill.open(Options::new());
    consume(&store, 0).unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    store.inject(fault(Place::Write, Injected::Io, 1)).unwrap();
    assert_eq!(consume(&store, 20).unwrap_err().kind(), ErrorKind::Degraded);
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("orders/3") && found.contains("20"),
        "{found}"
    );
    drop(store);
    let found = said(&drill.run(alert, 1));
    assert!(found.contains("sound"), "{found}");
    let store = drill.open(Options::new());
    assert!(!drill.fires(alert, &store));
    consume(&store, next(&store)).unwrap();
    assert_eq!(next(&store), 40);
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
        fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

/// Somebody put an older copy of the data folder back.
#[test]
fn a_store_that_came_back_short_says_from_where_to_replay() {
    let alert = "FirstseenRecoveredShort";
    let mut drill = Drill::new();
    let store = drill.open(Options::new());
    consume(&store, 0).unwrap();
    store.close().unwrap();
    let (data, old) = (drill.dir().join("data"), drill.root.path().join("old"));
    copy(&data, &old);
    let store = drill.open(Options::new());
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    consume(&store, 20).unwrap();
    store.close().unwrap();
    fs::remove_dir_all(&data).unwrap();
    copy(&old, &data);
    let refused = Store::open(drill.dir(), Options::new());
    assert!(refused.is_err_and(|e| e.kind() == ErrorKind::RecoveredShort));
    let store = drill.open(Options::new().accept_recovered_short(true));
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("orders/3") && found.contains("20"),
        "{found}"
    );
    // The service goes on from there.
    consume(&store, next(&store)).unwrap();
    store.close().unwrap();
    let store = drill.open(Options::new());
    assert!(!drill.fires(alert, &store));
    assert_eq!(
        (next(&store), week(&store).scan(..).unwrap().count()),
        (40, 40)
    );
}

#[test]
fn a_full_disk_refuses_writes_until_there_is_room() {
    let alert = "FirstseenFullDisk";
    let mut drill = Drill::new();
    let store = drill.open(Options::new());
    consume(&store, 0).unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    let full = fault(Place::Write, Injected::NoSpace, u64::MAX);
    store.inject(full).unwrap();
    assert_eq!(consume(&store, 20).unwrap_err().kind(), ErrorKind::Full);
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    store.clear_faults().unwrap();
    until("commits go on", || consume(&store, 20).is_ok());
    drill.scrape(&store);
    consume(&store, 40).unwrap();
    assert!(!drill.fires(alert, &store));
}

/// One fault, three rules: sealing fails for want of space, is tried again, segments wait, calls
/// wait.
#[test]
fn sealing_that_fails_makes_calls_wait() {
    let [failures, behind, stalls] = [
        "FirstseenBackgroundFailures",
        "FirstseenSealingBehind",
        "FirstseenStalls",
    ];
    let mut drill = Drill::new();
    let options = Options::new()
        .segment_ids_max(100)
        .wait_max(Duration::from_millis(300));
    let store = drill.open(options);
    drill.scrape(&store);
    for alert in [failures, behind, stalls] {
        assert!(!drill.fires(alert, &store), "{alert}");
    }
    let full = fault(Place::RunFile, Injected::NoSpace, u64::MAX);
    store.inject(full).unwrap();
    let mut from = 0;
    until("calls wait", || {
        if let Err(error) = consume(&store, from) {
            assert!(error.is_retryable(), "{error}");
            return drill.fires(stalls, &store);
        }
        from += 20;
        false
    });
    until("it failed again and again", || {
        drill.fires(failures, &store)
    });
    drill.scrape(&store);
    assert!(drill.fires(behind, &store));
    for alert in [failures, behind, stalls] {
        drill.run(alert, 0);
    }
    // There is room again; nothing else is done.
    store.clear_faults().unwrap();
    until("it is sealed", || {
        store.health() == Health::Ready && store.stats().unwrap().unsealed_segments == 0
    });
    drill.scrape(&store);
    consume(&store, from).unwrap();
    for alert in [failures, behind, stalls] {
        assert!(!drill.fires(alert, &store), "{alert}");
    }
}

/// Rows come faster than the compactions of their table can take them.
#[test]
fn rows_beyond_what_compactions_take_stop_writes() {
    let alert = "FirstseenWritesStopped";
    let mut drill = Drill::new();
    let mut rows = RocksOptions::default();
    rows.set_write_buffer_size(64 << 10);
    rows.set_level_zero_file_num_compaction_trigger(2);
    rows.set_level_zero_slowdown_writes_trigger(2);
    rows.set_level_zero_stop_writes_trigger(2);
    let store = drill.open(Options::new().table_options("rows", rows));
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let rows = store.table("rows").unwrap();
            let mut random = fastrand::Rng::with_seed(1);
            while !is_over.load(Ordering::Acquire) {
                let mut batch = store.batch();
                for _ in 0..16 {
                    let mut row = vec![0; 16 << 10];
                    random.fill(&mut row);
                    batch.always().put(&rows, random.u64(..).to_be_bytes(), row);
                }
                let _ = batch.commit();
            }
        });
        until("writes are stopped", || drill.fires(alert, &store));
        drill.run(alert, 0);
        // Less is written.
        is_over.store(true, Ordering::Release);
    });
    until("compactions have caught up", || !drill.fires(alert, &store));
}
