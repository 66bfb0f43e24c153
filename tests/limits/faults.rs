//! Engine calls that fail: each place, each way, at each of its first calls.
//!
//! What passes by itself (no space, no descriptors) must pass without a restart; what doesn't (a
//! failing device) must stop the store or its background work, say so, and pass with a
//! reopening. In no case is anything lost, doubled or torn, and no failed sync is made again.

use firstseen::{
    Durability, ErrorKind, Health, Injected, Injection, Options, Place, Policy, Recorded, Store,
    days,
};

use super::load::{Load, verify};
use super::{small, until};

const BACKGROUND: [Place; 6] = [
    Place::Create,
    Place::Drop,
    Place::Flush,
    Place::RunFile,
    Place::Ingest,
    Place::Floor,
];

fn fault(place: Place, failure: Injected, skip: u64, times: u64) -> Injection {
    Injection {
        place,
        failure,
        skip,
        times,
    }
}

/// Background work on its own, so that a failure does not wait for a caller to notice.
fn options() -> Options {
    small().segment_ids_max(100)
}

fn some_batches(load: &mut Load, count: u64) {
    let wanted = load.acknowledged + count;
    until("all batches are written", || {
        while load.acknowledged < wanted && load.step() {}
        load.acknowledged == wanted
    });
}

#[test]
fn what_passes_by_itself_passes_without_a_restart_wherever_it_fails() {
    let mut failures = 0;
    for place in BACKGROUND.into_iter().chain([Place::Write]) {
        for skip in [0, 1, 2, 5, 9] {
            let failure = match place {
                Place::Write => Injected::NoSpace,
                _ if skip % 2 == 0 => Injected::NoSpace,
                _ => Injected::OpenFiles,
            };
            let dir = tempfile::tempdir().unwrap();
            let store = Store::open(dir.path(), options()).unwrap();
            let mut load = Load::new(&store, Durability::Written);
            some_batches(&mut load, 3);
            store.inject(fault(place, failure, skip, 3)).unwrap();
            some_batches(&mut load, 60);
            load.reads_go_on();
            until("it is well again", || store.health() == Health::Ready);
            until("all is sealed", || store.seal().is_ok());
            failures += store.stats().unwrap().background.failures + load.refused;
            load.reads_go_on();
            let acknowledged = load.acknowledged;
            drop(load);
            let store = store.crash_and_reopen().unwrap();
            verify(&store, acknowledged, false);
            store.compact().unwrap();
            verify(&store, acknowledged, false);
        }
    }
    assert!(failures > 50, "{failures}: did anything fail?");
}

/// A seal that gave some of its generations their run and then failed goes on with the others;
/// records of both attempts never mix, also when time has passed in between.
#[test]
fn a_seal_that_failed_half_way_goes_on_where_it_was() {
    for skip in 0..4 {
        let clock = firstseen::ManualClock::new();
        let options = small()
            .background(false)
            .clock(firstseen::Clock::Manual(clock.clone()));
        let store = Store::in_memory(options).unwrap();
        // Four classes, so four generations or more in one segment.
        let scopes: Vec<_> = [1, 24, 24 * 8, 24 * 60]
            .iter()
            .map(|hours| {
                let policy = Policy::remember(days(1) / 24 * *hours);
                store.scope(&format!("h{hours}"), policy).unwrap()
            })
            .collect();
        let insert = |from: u32, to: u32| {
            for n in from..to {
                for scope in &scopes {
                    assert!(scope.insert(&n.to_be_bytes()).unwrap().is_first());
                }
            }
        };
        insert(0, 3000);
        store
            .inject(fault(Place::Ingest, Injected::NoSpace, skip, 1))
            .unwrap();
        let error = store.seal().unwrap_err();
        assert_eq!(
            (error.kind(), error.recorded()),
            (ErrorKind::Full, Recorded::No)
        );
        assert!(matches!(store.health(), Health::Degraded(why) if why.contains("tried again")));
        insert(3000, 3100);
        clock.advance(days(1) / 24 * 2);
        store.seal().unwrap();
        assert_eq!(store.health(), Health::Ready);
        for n in 0..3100_u32 {
            // The first scope's ids have expired.
            for scope in &scopes[1..] {
                assert!(
                    scope.insert(&n.to_be_bytes()).unwrap().is_duplicate(),
                    "{n}"
                );
            }
        }
        drop(scopes);
        let store = store.crash_and_reopen().unwrap();
        let scope = store.scope("h24", Policy::remember(days(1))).unwrap();
        assert_eq!(scope.scan(..).unwrap().count(), 3100);
        store.compact().unwrap();
        assert_eq!(scope.scan(..).unwrap().count(), 3100);
    }
}

/// Commits that were acknowledged as buffered are kept until there is room, not lost.
#[test]
fn buffered_commits_wait_for_room() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    let mut load = Load::new(&store, Durability::Buffered);
    some_batches(&mut load, 5);
    load.sync();
    store
        .inject(fault(Place::Write, Injected::NoSpace, 0, u64::MAX))
        .unwrap();
    load.until_refused();
    load.reads_go_on();
    assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Full);
    store.clear_faults().unwrap();
    some_batches(&mut load, 5);
    store.sync().unwrap();
    let acknowledged = load.acknowledged;
    drop(load);
    let store = store.crash_and_reopen().unwrap();
    verify(&store, acknowledged, false);
}

/// A failing device: the commit's fate is unknown, the store stops, and a reopening decides.
#[test]
fn after_an_io_error_of_the_log_the_store_stops_and_a_reopening_heals_it() {
    for (place, level) in [
        (Place::Write, Durability::Written),
        (Place::Write, Durability::Synced),
        (Place::Sync, Durability::Synced),
        (Place::Floor, Durability::Written),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), small()).unwrap();
        let mut load = Load::new(&store, Durability::Synced);
        some_batches(&mut load, 5);
        store.inject(fault(place, Injected::Io, 0, 1)).unwrap();
        let mut batch = store.batch();
        batch.durability(level);
        batch
            .once(&load.ids, "unknown")
            .put(&load.rows, "unknown", "1");
        let error = batch.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Degraded, "{place:?}: {error}");
        assert!(!error.is_retryable());
        if place != Place::Floor {
            assert_eq!(error.recorded(), Recorded::Unknown, "{error}");
        }
        // The fault is used up: whatever were made again would succeed now.
        assert_eq!(
            load.ids.insert("other").unwrap_err().kind(),
            ErrorKind::Degraded
        );
        assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Degraded);
        assert_eq!(store.seal().unwrap_err().kind(), ErrorKind::Degraded);
        assert!(matches!(store.health(), Health::Degraded(_)));
        assert!(load.rows.get(b"none").unwrap().is_none());
        let acknowledged = load.acknowledged;
        drop((load, batch));
        let store = store.crash_and_reopen().unwrap();
        assert_eq!(store.health(), Health::Ready);
        verify(&store, acknowledged, false);
        let ids = super::week(&store);
        let known = ids.peek("unknown").unwrap().is_some();
        let kept = store
            .table("rows")
            .unwrap()
            .get(b"unknown")
            .unwrap()
            .is_some();
        assert_eq!(known, kept);
        assert_eq!(known, place == Place::Sync, "written or not, as it was");
    }
}

/// A failing device under background work: it stops, verdicts go on, and a reopening heals it.
#[test]
fn after_an_io_error_of_background_work_it_stops_until_the_store_is_reopened() {
    for place in [Place::Create, Place::Drop, Place::RunFile, Place::Ingest] {
        let dir = tempfile::tempdir().unwrap();
        let options = small().background(false);
        let store = Store::open(dir.path(), options).unwrap();
        let mut load = Load::new(&store, Durability::Written);
        some_batches(&mut load, 20);
        store.inject(fault(place, Injected::Io, 0, 1)).unwrap();
        assert_eq!(
            store.seal().unwrap_err().kind(),
            ErrorKind::Degraded,
            "{place:?}"
        );
        assert_eq!(
            store.seal().unwrap_err().kind(),
            ErrorKind::Degraded,
            "made again"
        );
        let Health::Degraded(why) = store.health() else {
            panic!("{place:?}: {:?}", store.health())
        };
        assert!(why.contains("background work stopped"), "{why}");
        some_batches(&mut load, 1);
        load.reads_go_on();
        let acknowledged = load.acknowledged;
        drop(load);
        let store = store.crash_and_reopen().unwrap();
        verify(&store, acknowledged, false);
        store.compact().unwrap();
        verify(&store, acknowledged, false);
        assert_eq!(store.health(), Health::Ready);
    }
}

/// A filter snapshot that can't be written costs nothing but time, and is written later.
#[test]
fn a_snapshot_that_fails_is_written_later() {
    for failure in [Injected::NoSpace, Injected::OpenFiles, Injected::Io] {
        snapshot_fails(failure);
    }
}

fn snapshot_fails(failure: Injected) {
    let dir = tempfile::tempdir().unwrap();
    let clock = firstseen::ManualClock::new();
    let options = small()
        .background(false)
        .clock(firstseen::Clock::Manual(clock.clone()));
    let mut store = Store::open(dir.path(), options).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    some_batches(&mut load, 20);
    store.seal().unwrap();
    store
        .inject(fault(Place::SmallFile, failure, 0, 1))
        .unwrap();
    // The generation closes to new ids, and lives on.
    clock.advance(days(3));
    assert!(store.seal().is_err());
    load.reads_go_on();
    if failure == Injected::Io {
        assert!(store.seal().is_err(), "it was made again");
        let acknowledged = load.acknowledged;
        drop(load);
        store = store.crash_and_reopen().unwrap();
        load = Load::new(&store, Durability::Written);
        load.acknowledged = acknowledged;
        // No mark was stored since the clock moved, and the filter is built first.
        store.accept_clock().unwrap();
        store.seal().unwrap();
    }
    store.seal().unwrap();
    let snapshots = std::fs::read_dir(dir.path().join("filters"))
        .unwrap()
        .count();
    assert_eq!(snapshots, 1);
    assert_eq!(store.health(), Health::Ready);
    load.reads_go_on();
}
