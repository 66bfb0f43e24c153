//! What a store tells about itself: counters, sizes, health; and what closing leaves.

use firstseen::{ErrorKind, Health, NextCommit, Options, Policy, Recorded, Store, days};

use super::{expect_error, memory, ms, quiet, timed, week};

#[test]
fn stats_count_what_happened() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let _ = ids.insert_all(
        (0..1000_u32)
            .map(u32::to_be_bytes)
            .collect::<Vec<_>>()
            .iter(),
    );
    let mut batch = store.batch();
    batch.once(&ids, &0_u32.to_be_bytes()).put(&rows, "a", "1");
    batch.once(&ids, "new").put(&rows, "b", "1");
    batch.once(&ids, "");
    batch.once(&ids, "no").decline();
    let _ = batch.commit().unwrap();
    let stats = store.stats().unwrap();
    let v = stats.verdicts;
    assert_eq!(
        (v.first, v.duplicates, v.bad_ids, v.declined),
        (1001, 1, 1, 1)
    );
    assert_eq!((v.refused, v.in_progress), (0, 0));
    assert_eq!((stats.commits, stats.ids_recorded), (2, 1001));
    assert_eq!((stats.unsealed_ids, stats.live_ids_estimate), (1001, 1001));
    assert_eq!((stats.ids_in_flight, stats.unsealed_segments), (0, 0));
    assert!(stats.active_set_bytes > 0 && stats.memtable_bytes > 0);
    assert!(stats.generations.is_empty() && stats.filters.count == 0);
    assert_eq!(stats.recovered_short, None);
    assert!(stats.background.threads >= 2);

    store.seal().unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.unsealed_ids, stats.live_ids_estimate), (0, 1001));
    assert_eq!((stats.background.seals, stats.filters.count), (1, 1));
    assert!(stats.filters.bytes > 1000 && stats.filters.missing == 0);
    let [generation] = &stats.generations[..] else {
        panic!("{:?}", stats.generations)
    };
    assert_eq!((generation.runs, generation.ids_estimate), (1, 1001));
    let ends_at = generation.ends_at.unwrap();
    assert!(ends_at > stats.effective_time + days(7));
    assert!(generation.disk_bytes > 4000 && stats.disk_bytes >= generation.disk_bytes);
    drop((ids, rows, batch));

    // Counters are of this opening; what was not sealed is replayed.
    let _ = week(&store).insert("unsealed").unwrap();
    let store = store.crash_and_reopen().unwrap();
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.verdicts.first, stats.background.replayed_ids),
        (0, 1)
    );
    assert_eq!((stats.unsealed_ids, stats.live_ids_estimate), (1, 1002));
}

#[test]
fn live_ids_are_called_an_estimate_and_fall_with_their_generation() {
    let (store, clock) = timed();
    let ids = store.scope("s", Policy::remember(super::secs(60))).unwrap();
    for _ in 0..5 {
        let _ = ids.insert("a").unwrap();
        clock.advance(super::secs(60));
    }
    store.compact().unwrap();
    assert!(store.stats().unwrap().live_ids_estimate <= 5);
    clock.advance(super::secs(120));
    store.compact().unwrap();
    let stats = store.stats().unwrap();
    assert_eq!((stats.live_ids_estimate, stats.generations.len()), (0, 0));
    assert!(stats.background.drops > 0);
}

#[test]
fn health_says_ready_then_degraded_after_a_failed_write() {
    let store = memory();
    let ids = week(&store);
    assert_eq!(store.health(), Health::Ready);
    store.fail_next_commit(NextCommit::UnknownLost).unwrap();
    expect_error(ids.insert("a"), ErrorKind::Degraded, Recorded::Unknown);
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("write failed")));
    // Looking is still possible, deciding is not.
    assert_eq!(ids.peek("b").unwrap(), None);
    assert!(store.stats().is_ok());
    expect_error(
        store.rewind("s", 1, "why"),
        ErrorKind::Degraded,
        Recorded::No,
    );
    assert!(store.scope("new", Policy::remember(days(1))).is_err());
    assert!(store.seal().is_err());
}

/// A disk with too little room refuses writes, keeps answering reads, and goes on with room.
#[test]
fn a_full_disk_refuses_writes_and_still_answers() {
    let dir = tempfile::tempdir().unwrap();
    {
        let store = Store::open(dir.path(), Options::new()).unwrap();
        assert!(week(&store).insert("a").unwrap().is_first());
    }
    let store = Store::open(dir.path(), quiet().free_bytes_min(u64::MAX)).unwrap();
    let ids = store.existing_scope("ids").unwrap().unwrap();
    expect_error(ids.insert("b"), ErrorKind::Full, Recorded::No);
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert!(ids.peek("a").unwrap().is_some());
    assert!(matches!(store.health(), Health::Degraded(why) if why.contains("free space")));
    drop(ids);
    drop(store);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert!(week(&store).insert("b").unwrap().is_first());
}

#[test]
fn after_a_close_every_other_handle_says_closed() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let (clone, mut batch) = (store.clone(), store.batch());
    batch.once(&ids, "a");
    store.close().unwrap();
    let closed = |result: firstseen::Result<()>| {
        expect_error(result, ErrorKind::Closed, Recorded::No);
    };
    closed(ids.insert("a").map(drop));
    closed(ids.insert_all(["a"].iter()).map(drop));
    closed(ids.peek("a").map(drop));
    closed(ids.forget("a", "why").map(drop));
    closed(ids.scan(..).map(drop));
    closed(rows.get("a").map(drop));
    closed(rows.range("").map(drop));
    closed(batch.commit().map(drop));
    closed(batch.hold().map(drop));
    closed(clone.resume_point("s").map(drop));
    closed(clone.rewind("s", 1, "why"));
    closed(clone.sync());
    closed(clone.stats().map(drop));
    closed(clone.scope("s", Policy::forever()).map(drop));
    closed(clone.table("t").map(drop));
    closed(clone.seal());
    assert!(matches!(clone.health(), Health::Degraded(_)));
    closed(clone.close());
}

/// A close is bounded; what a held batch still uses is free when that goes.
#[test]
fn a_close_waits_no_longer_than_wait_max_for_a_held_batch() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new().wait_max(ms(50))).unwrap();
    let ids = week(&store);
    let mut batch = store.batch();
    batch.once(&ids, "a");
    let _ = batch.hold().unwrap();
    expect_error(store.close(), ErrorKind::Busy, Recorded::No);
    expect_error(batch.commit(), ErrorKind::Closed, Recorded::No);
    drop(batch);
    drop(ids);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert!(week(&store).insert("a").unwrap().is_first());
}

/// Dropping the last handle closes: everything is there, and the directory is free.
#[test]
fn dropping_the_last_handle_closes() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..5 {
        let store = Store::open(dir.path(), Options::new()).unwrap();
        let ids = week(&store);
        drop(store);
        assert_eq!(ids.insert("a").unwrap().is_first(), round == 0);
        let _ = ids.insert(&format!("{round}")).unwrap();
    }
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(week(&store).scan(..).unwrap().count(), 6);
}
