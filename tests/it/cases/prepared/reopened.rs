//! In doubt over crashes, reopenings, copies and failed writes.

use firstseen::{Backups, ErrorKind, NextCommit, Policy, Recorded, Store, verify};

use super::super::{expect_error, quiet, secs, timed};
use super::{World, is_first, is_in_progress};

#[test]
fn what_is_in_doubt_is_held_again_before_the_first_verdict() {
    let world = World::new();
    is_first(&world.order("a", 7).prepare("t1").unwrap());
    let mut other = world.store.batch();
    other.once(&world.ids, "b").put(&world.stock, "b", "row");
    is_first(&other.prepare("t2").unwrap());
    let before = world.store.in_doubt().unwrap();
    let world = world.crashed();
    assert_eq!(world.store.in_doubt().unwrap(), before);
    world.expect("a", false, 5, None);
    is_in_progress(&world.ids.insert("a").unwrap());
    expect_error(world.order("c", 8).commit(), ErrorKind::Busy, Recorded::No);
    let dropped = world.store.drop_table("stock");
    expect_error(dropped, ErrorKind::InDoubt, Recorded::No);
    let world = world.crashed();
    world.store.commit_prepared("t1").unwrap();
    world.store.abort_prepared("t2", "a test").unwrap();
    let world = world.crashed();
    assert!(world.names().is_empty());
    world.expect("a", true, 4, Some(7));
    is_first(&world.order("c", 8).commit().unwrap());
    assert!(world.ids.insert("b").unwrap().is_first());
}

/// Sealing, merging and dropping go on around it.
#[test]
fn it_stays_through_maintenance_and_its_ids_are_found_after_it() {
    let (store, clock) = timed();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    assert!(minute.insert("over").unwrap().is_first());
    store.seal().unwrap();
    clock.advance(secs(61));
    // A record over one that has expired, and one over a tombstone.
    assert!(minute.insert("forgotten").unwrap().is_first());
    store.seal().unwrap();
    assert!(minute.forget("forgotten", "a test").unwrap());
    let mut batch = store.batch();
    for id in ["over", "forgotten", "new"] {
        batch.once(&minute, id);
    }
    is_first(&batch.prepare("t").unwrap());
    drop(minute);
    store.compact().unwrap();
    let store = store.crash_and_reopen().unwrap();
    store.seal().unwrap();
    store.commit_prepared("t").unwrap();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    for _ in 0..2 {
        for id in ["over", "forgotten", "new"] {
            assert!(minute.insert(id).unwrap().is_duplicate(), "{id}");
        }
        store.compact().unwrap();
    }
    clock.advance(secs(60));
    assert!(minute.insert("over").unwrap().is_first());
}

/// Backups and checkpoints have what was in doubt, and each copy ends it for itself.
#[test]
fn copies_have_what_is_in_doubt() {
    let root = tempfile::tempdir().unwrap();
    let path = |name: &str| root.path().join(name);
    let world = World::of(Store::open(path("live"), quiet()).unwrap());
    super::put(&world.store, &world.stock, "sku", 5_i64.to_le_bytes());
    is_first(&world.order("a", 7).prepare("t").unwrap());
    world.store.checkpoint(path("copy")).unwrap();
    let backups = Backups::open(path("backups")).unwrap();
    let backup = world.store.backup(&backups).unwrap();
    world.store.commit_prepared("t").unwrap();
    let World {
        store,
        ids,
        rows,
        stock,
    } = world;
    drop((ids, rows, stock));
    store.close().unwrap();
    let restored = path("restored");
    backups
        .restore(backup.id, &restored, &quiet(), |_| {})
        .unwrap();
    for (copy, commits) in [("copy", true), ("restored", false), ("live", true)] {
        let report = verify(path(copy), &quiet(), |_| {}).unwrap();
        assert!(report.is_sound(), "{copy}: {:?}", report.faults);
        let looked = Store::open_read_only(path(copy), quiet()).unwrap();
        let seen = looked.in_doubt().unwrap().len();
        looked.close().unwrap();
        let world = World::of(Store::open(path(copy), quiet()).unwrap());
        assert_eq!(world.names().len(), seen);
        if copy == "live" {
            assert!(world.names().is_empty());
            world.expect("a", true, 4, Some(7));
            continue;
        }
        assert_eq!(world.names(), ["t"]);
        is_in_progress(&world.ids.insert("a").unwrap());
        if commits {
            world.store.commit_prepared("t").unwrap();
            world.expect("a", true, 4, Some(7));
        } else {
            world.store.abort_prepared("t", "restored").unwrap();
            world.expect("a", false, 5, None);
        }
    }
}

/// A write of unknown outcome: it is in doubt, ended, or as before, and never half.
#[test]
fn writes_of_unknown_outcome_are_decided_by_reopening() {
    for failure in [NextCommit::UnknownLost, NextCommit::UnknownWritten] {
        let is_written = failure == NextCommit::UnknownWritten;
        let world = World::new();
        world.store.sync().unwrap();
        let mut batch = world.order("a", 7);
        world.store.fail_next_commit(failure).unwrap();
        let error = batch.prepare("t").unwrap_err();
        assert_eq!(error.recorded(), Recorded::Unknown);
        let world = world.crashed();
        assert_eq!(world.names().len(), usize::from(is_written));
        if !is_written {
            is_first(&world.order("a", 7).prepare("t").unwrap());
        }
        world.store.fail_next_commit(failure).unwrap();
        let error = world.store.commit_prepared("t").unwrap_err();
        assert_eq!(error.recorded(), Recorded::Unknown);
        let again = world.store.commit_prepared("t");
        assert_eq!(again.unwrap_err().kind(), ErrorKind::Degraded);
        let world = world.crashed();
        world.expect(
            "a",
            is_written,
            if is_written { 4 } else { 5 },
            is_written.then_some(7),
        );
        let outcome = world.store.commit_prepared("t").unwrap();
        assert_eq!(outcome.is_repeat, is_written);
        world.expect("a", true, 4, Some(7));
    }
}

/// Effective time may be short of the prepare after a loss of power: nothing goes back for it.
#[test]
fn a_clock_that_stepped_back_makes_no_record_earlier_than_its_prepare() {
    let (store, clock) = timed();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    let at = clock.now();
    let mut batch = store.batch();
    batch.once(&minute, "a");
    is_first(&batch.prepare("t").unwrap());
    drop(minute);
    clock.step_to(at - secs(30));
    let store = store.crash_and_reopen().unwrap();
    store.commit_prepared("t").unwrap();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    let seen = minute.peek("a").unwrap().unwrap().first_seen_at();
    assert!(seen >= at, "{:?} before", at.duration_since(seen));
}
