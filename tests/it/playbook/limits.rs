//! Memory, filters, time.

use std::time::{Duration, Instant};

use firstseen::{ManualClock, Options, Resources, Store, days};

use super::super::cases::until;
use super::{Drill, HOUR, under, week};

/// So many ids from a number on, all new.
fn insert(store: &Store, from: u32, count: u32) {
    let ids: Vec<[u8; 4]> = (from..from + count).map(u32::to_be_bytes).collect();
    let verdicts = week(store).insert_all(ids.iter()).unwrap();
    assert!(verdicts.iter().all(|v| v.is_first()));
}

#[expect(clippy::disallowed_methods, reason = "other threads are waited for")]
fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

#[test]
fn ids_that_are_held_too_long_make_commits_slow() {
    let alert = "FirstseenSlowCommits";
    let mut drill = Drill::new();
    let store = drill.open(Options::new());
    let scope = week(&store);
    let _ = scope.insert("a").unwrap();
    drill.scrape(&store);
    insert(&store, 0, 10);
    assert!(!drill.fires(alert, &store));
    // Somebody works between hold and commit.
    let mut batch = store.batch();
    batch.once(&scope, "slow");
    assert!(batch.hold().unwrap()[0].is_first());
    std::thread::scope(|threads| {
        let waiting = threads.spawn(|| scope.insert("slow").unwrap());
        nap(1200);
        let _ = batch.commit().unwrap();
        assert!(waiting.join().unwrap().is_duplicate());
    });
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    drill.scrape(&store);
    insert(&store, 100, 10);
    assert!(!drill.fires(alert, &store));
}

#[test]
fn too_little_memory_for_filters_is_told() {
    let alert = "FirstseenFiltersMissing";
    let mut drill = Drill::new();
    let with = |bytes: usize| Options::new().resources(&Resources::new().filter_bytes(bytes));
    let store = drill.open(with(1 << 10));
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    insert(&store, 0, 30_000);
    store.seal().unwrap();
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    store.close().unwrap();
    let store = drill.open(with(1 << 20));
    until("filters are there", || !drill.fires(alert, &store));
}

#[test]
fn filters_that_are_too_small_are_told() {
    let alert = "FirstseenFalsePositives";
    let mut drill = Drill::new();
    let options = || Options::new().background(false);
    let store = drill.open(options().filter_bits_per_id(4));
    for run in 0..2 {
        insert(&store, run * 10_000, 10_000);
        store.seal().unwrap();
    }
    store.close().unwrap();
    // After an open there are no sieves, which would spare the filters.
    let store = drill.open(options().filter_bits_per_id(4));
    store.seal().unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    insert(&store, 100_000, 10_000);
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    store.close().unwrap();
    // More bits, for filters that are built anew.
    let store = drill.open(options());
    store.compact().unwrap();
    drill.scrape(&store);
    insert(&store, 200_000, 10_000);
    assert!(!drill.fires(alert, &store));
}

#[test]
fn a_clock_that_jumps_ahead_is_accepted() {
    let alert = "FirstseenClockFrozen";
    let mut drill = Drill::new();
    let clock = ManualClock::new();
    let store = drill.open(under(&clock));
    let _ = week(&store).insert("a").unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    clock.step_to(clock.now() + days(3652));
    assert!(week(&store).insert("a").unwrap().is_duplicate());
    assert!(drill.fires(alert, &store));
    assert!(drill.fires("FirstseenDegraded", &store));
    drill.run(alert, 0);
    // Somebody looked: the clock is right.
    store.accept_clock().unwrap();
    assert!(week(&store).insert("a").unwrap().is_first());
    assert!(!drill.fires(alert, &store));
}

#[test]
fn a_clock_that_was_set_back_is_corrected() {
    let alert = "FirstseenClockBehind";
    let mut drill = Drill::new();
    let clock = ManualClock::new();
    let store = drill.open(under(&clock));
    let _ = week(&store).insert("a").unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    clock.step_to(clock.now() - HOUR);
    assert!(week(&store).insert("a").unwrap().is_duplicate());
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    clock.step_to(clock.now() + HOUR);
    assert!(week(&store).insert("a").unwrap().is_duplicate());
    assert!(!drill.fires(alert, &store));
}

/// Background work is off, so nobody renews the floor.
#[test]
fn a_floor_that_is_not_renewed_is_told() {
    let alert = "FirstseenUnsynced";
    let mut drill = Drill::new();
    let store = drill.open(Options::new().background(false));
    let rows = store.table("rows").unwrap();
    let mut batch = store.batch();
    let mut commit = || {
        batch.always().put(&rows, "k", "v");
        let _ = batch.commit().unwrap();
    };
    commit();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    #[expect(clippy::disallowed_methods, reason = "a test measures real time")]
    let began = Instant::now();
    (0..1_000_002).for_each(|_| commit());
    println!("a million commits in {:?}", began.elapsed());
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    store.sync().unwrap();
    assert!(!drill.fires(alert, &store));
}
