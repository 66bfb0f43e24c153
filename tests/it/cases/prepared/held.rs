//! What a prepared transaction keeps from others, and what it doesn't.

use firstseen::{ErrorKind, Failure, Policy, Recorded, Verdict};

use super::super::{expect_error, ms, put, secs, timed};
use super::{World, first_seen, is_first, is_in_progress};

/// Every way to ask for an id, at once: nobody knows how long it may take.
#[test]
fn its_ids_are_in_progress_for_every_call() {
    let world = World::new();
    let began = super::super::now();
    let slow = Policy::remember(secs(60)).wait(secs(30));
    let slow = world.store.scope("slow", slow).unwrap();
    let mut batch = world.store.batch();
    batch.once(&slow, "a");
    is_first(&batch.prepare("t").unwrap());
    is_in_progress(&slow.insert("a").unwrap());
    is_in_progress(&slow.insert(firstseen::Id::new("new").also(b"a")).unwrap());
    let both = slow.insert_all(["a", "b"]).unwrap();
    is_in_progress(&both[0]);
    assert!(both[1].is_first());
    let ran = slow.once("a", |_| Ok::<_, firstseen::Error>(()));
    is_in_progress(&ran.unwrap());
    assert!(matches!(slow.claim("a").unwrap(), Verdict::InProgress(_)));
    expect_error(slow.forget("a", "a test"), ErrorKind::Busy, Recorded::No);
    let mut batch = world.store.batch();
    batch.once(&slow, "a");
    batch.resume_at("orders/3", 9);
    let error = expect_error(batch.commit(), ErrorKind::Undecided, Recorded::No);
    is_in_progress(&error.verdicts().unwrap()[0]);
    expect_error(batch.prepare("t2"), ErrorKind::Undecided, Recorded::No);
    assert!(slow.peek("a").unwrap().is_none(), "not recorded");
    let by = |id: &str| slow.in_doubt_by(id).unwrap();
    assert_eq!((by("a").as_deref(), by("b")), (Some(&b"t"[..]), None));
    assert!(began.elapsed() < secs(20), "nobody waited");
    world.store.commit_prepared("t").unwrap();
    let _ = batch.commit().unwrap();
    assert_eq!(by("a"), None);
}

/// A whole prepared batch that comes again, as after a consumer's restart, is answered at once.
#[test]
fn a_large_batch_that_comes_again_is_in_progress_whole() {
    let world = World::new();
    let many: Vec<[u8; 4]> = (0..50_000_u32).map(u32::to_be_bytes).collect();
    let mut batch = world.store.batch();
    for id in &many {
        batch.once(&world.ids, id);
    }
    is_first(&batch.prepare("t").unwrap());
    let began = super::super::now();
    let again = world.ids.insert_all(many.iter().chain([b"new."])).unwrap();
    let (new, old) = again.split_last().unwrap();
    old.iter().for_each(is_in_progress);
    assert!(new.is_first());
    assert!(began.elapsed() < secs(10), "{:?}", began.elapsed());
    assert_eq!(world.store.commit_prepared("t").unwrap().ids, 50_000);
    let again = world.ids.insert_all(&many).unwrap();
    assert!(again.iter().all(Verdict::is_duplicate));
}

/// Rows of guarded tables and resume points are locked, those of plain tables are not. Reads see
/// what was.
#[test]
fn guarded_rows_and_resume_points_are_locked_and_plain_rows_are_not() {
    let world = World::new();
    put(&world.store, &world.rows, "a", "old");
    is_first(&world.order("a", 7).prepare("t").unwrap());
    let error = expect_error(world.order("b", 8).commit(), ErrorKind::Busy, Recorded::No);
    assert!(
        error.to_string().contains("prepared transaction"),
        "{error}"
    );
    let mut batch = world.store.batch();
    batch.resume_at("orders/3", 9);
    expect_error(batch.commit(), ErrorKind::Busy, Recorded::No);
    let rewound = world.store.rewind("orders/3", 1, "a test");
    expect_error(rewound, ErrorKind::Busy, Recorded::No);
    let closure = world
        .ids
        .once("c", |tx| tx.get(&world.stock, "sku").map(|_| ()));
    expect_error(closure, ErrorKind::Busy, Recorded::No);
    assert_eq!(super::super::counter(&world.stock, "sku"), Some(5));
    // Another row of the table is free, and so is a plain one.
    put(&world.store, &world.stock, "other", 1_i64.to_le_bytes());
    put(&world.store, &world.rows, "a", "meanwhile");
    world.store.commit_prepared("t").unwrap();
    assert_eq!(&world.rows.get("a").unwrap().unwrap()[..], b"sold");
    is_first(&world.order("b", 8).commit().unwrap());
    world.expect("b", true, 3, Some(8));
}

/// The condition was decided at the prepare, and stays true: who comes later is told to come again,
/// at once, and then meets the row as the commit left it. Who waited before gets it then.
#[test]
fn whoever_wants_a_locked_row_sees_it_as_the_end_leaves_it() {
    let world = World::of(firstseen::Store::in_memory(super::quiet()).unwrap());
    put(&world.store, &world.stock, "sku", 1_i64.to_le_bytes());
    is_first(&world.order("a", 1).prepare("t").unwrap());
    let mut batch = world.store.batch();
    batch
        .once(&world.ids, "b")
        .add(&world.stock, "sku", -1, 0..);
    let began = super::super::now();
    expect_error(batch.commit(), ErrorKind::Busy, Recorded::No);
    assert!(began.elapsed() < secs(3), "nobody waited");
    world.store.commit_prepared("t").unwrap();
    let verdicts = batch.commit().unwrap();
    assert!(matches!(verdicts[0], Verdict::Refused(_)), "{verdicts:?}");
    assert_eq!(super::super::counter(&world.stock, "sku"), Some(0));
}

/// The older form of an id may have a claim that ends with it: nobody takes it up meanwhile.
#[test]
fn a_waiting_claim_that_it_ends_is_kept_under_both_forms() {
    let (store, _) = timed();
    let jobs = store.scope("jobs", Policy::remember(secs(600))).unwrap();
    for id in ["new", "old"] {
        let mut claim = jobs.claim(id).unwrap().first().unwrap();
        claim.fail(Failure::Retryable, "no connection").unwrap();
    }
    let mut batch = store.batch();
    batch.once(&jobs, firstseen::Id::new("new").also(b"old"));
    is_first(&batch.prepare("t").unwrap());
    let kept = |store: &firstseen::Store| {
        let jobs = store.existing_scope("jobs").unwrap().unwrap();
        for id in ["new", "old"] {
            is_in_progress(&jobs.insert(id).unwrap());
        }
        assert_eq!(jobs.claims().unwrap().len(), 2);
    };
    kept(&store);
    drop(jobs);
    let store = store.crash_and_reopen().unwrap();
    kept(&store);
    store.commit_prepared("t").unwrap();
    let jobs = store.existing_scope("jobs").unwrap().unwrap();
    assert!(jobs.claims().unwrap().is_empty());
    assert_eq!(jobs.peek("new").unwrap().unwrap().attempt(), Some(2));
}

#[test]
fn what_it_uses_is_not_dropped() {
    let world = World::new();
    is_first(&world.order("a", 7).prepare("t").unwrap());
    for _ in 0..2 {
        let drops = [
            world.store.drop_scope("ids"),
            world.store.drop_table("rows"),
            world.store.drop_table("stock"),
        ];
        for dropped in drops {
            let error = expect_error(dropped, ErrorKind::InDoubt, Recorded::No);
            assert!(error.to_string().contains("transaction t"), "{error}");
        }
    }
    // What it doesn't use may go, and it may be altered.
    world.store.table("other").unwrap();
    assert!(world.store.drop_table("other").unwrap());
    let longer = Policy::remember(secs(30 * 86_400));
    world.store.alter_scope("ids", longer).unwrap();
    world.store.commit_prepared("t").unwrap();
    world.expect("a", true, 4, Some(7));
    assert!(world.store.drop_table("stock").unwrap());
    assert!(world.store.drop_scope("ids").unwrap());
}

/// Retention and first sight begin with the commit, whatever passed since the prepare.
#[test]
fn ids_are_remembered_from_the_commit_on() {
    let (store, clock) = timed();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    let sliding = Policy::sliding(secs(60), secs(90));
    let sliding = store.scope("s", sliding).unwrap();
    let forever = store.scope("f", Policy::forever()).unwrap();
    let mut batch = store.batch();
    batch.once(&minute, "a");
    batch.once(&minute, firstseen::Id::new("own").remember(secs(10)));
    batch.once(&sliding, "a");
    batch.once(&forever, "a");
    is_first(&batch.prepare("t").unwrap());
    // Slices and whole classes of it pass.
    for _ in 0..40 {
        clock.advance(secs(60));
        store.compact().unwrap();
        is_in_progress(&minute.insert("a").unwrap());
    }
    store.commit_prepared("t").unwrap();
    let at = clock.now();
    for scope in [&minute, &sliding, &forever] {
        assert_eq!(scope.peek("a").unwrap().unwrap().first_seen_at(), at);
    }
    assert_eq!(first_seen(&minute.insert("own").unwrap()), at);
    clock.advance(secs(10));
    assert!(minute.insert("own").unwrap().is_first());
    clock.advance(secs(50) - ms(1));
    assert_eq!(first_seen(&minute.insert("a").unwrap()), at);
    assert!(sliding.insert("a").unwrap().is_duplicate(), "and prolonged");
    store.compact().unwrap();
    clock.advance(ms(1));
    assert!(minute.insert("a").unwrap().is_first());
    clock.advance(secs(30) - ms(1));
    assert_eq!(first_seen(&sliding.insert("a").unwrap()), at);
    clock.advance(ms(1));
    assert!(
        sliding.insert("a").unwrap().is_first(),
        "the cap counts from the commit"
    );
    assert_eq!(first_seen(&forever.insert("a").unwrap()), at);
}

/// A duplicate's verdict stands, also when it expires before the commit; a sliding one lives on by
/// what the prepare found.
#[test]
fn a_duplicate_that_expires_meanwhile_stays_one() {
    let (store, clock) = timed();
    let minute = store.scope("m", Policy::remember(secs(60))).unwrap();
    let rows = store.table("rows").unwrap();
    let sliding = Policy::sliding(secs(60), secs(600));
    let sliding = store.scope("s", sliding).unwrap();
    let (at, _) = (clock.now(), minute.insert("a").unwrap());
    for id in ["a", "b"] {
        assert!(sliding.insert(id).unwrap().is_first());
    }
    clock.advance(secs(30));
    let mut batch = store.batch();
    batch.once(&minute, "a").put(&rows, "a", "twice");
    batch.once(&sliding, "a");
    let verdicts = batch.prepare("t").unwrap();
    assert!(verdicts.iter().all(Verdict::is_duplicate));
    is_in_progress(&sliding.insert("a").unwrap());
    clock.advance(secs(59));
    assert!(minute.insert("a").unwrap().is_first(), "free, and expired");
    store.commit_prepared("t").unwrap();
    assert!(rows.get("a").unwrap().is_none());
    assert_eq!(first_seen(&sliding.insert("a").unwrap()), at, "until 90 s");
    assert!(sliding.insert("b").unwrap().is_first());

    // One whose prolonged time is over as well is no record any more.
    let mut batch = store.batch();
    batch.once(&sliding, "b");
    assert!(batch.prepare("t2").unwrap()[0].is_duplicate());
    clock.advance(secs(601));
    store.commit_prepared("t2").unwrap();
    assert!(sliding.insert("b").unwrap().is_first());
}

/// A claim that a transaction completes is kept, even when its lease runs out; aborted, it is
/// taken over as any other.
#[test]
fn a_claim_that_it_completes_is_kept_until_it_ends() {
    for commits in [true, false] {
        let (store, clock) = timed();
        let jobs = Policy::remember(secs(600)).lease(secs(30)).results();
        let jobs = store.scope("jobs", jobs).unwrap();
        let mut claim = jobs.claim("a").unwrap().first().unwrap();
        claim.start();
        let at = clock.now();
        let mut batch = store.batch();
        batch.complete(&claim, "receipt");
        is_first(&batch.prepare("t").unwrap());
        clock.advance(secs(31));
        assert!(matches!(jobs.claim("a").unwrap(), Verdict::InProgress(_)));
        expect_error(claim.renew(), ErrorKind::Busy, Recorded::No);
        let failed = claim.fail(Failure::Retryable, "too late");
        expect_error(failed, ErrorKind::Busy, Recorded::No);
        if commits {
            store.commit_prepared("t").unwrap();
            let seen = jobs.claim("a").unwrap();
            let Verdict::Duplicate(seen) = seen else {
                panic!("{seen:?}")
            };
            assert_eq!(seen.result(), Some(&b"receipt"[..]));
            assert_eq!((seen.first_seen_at(), seen.attempt()), (at, Some(1)));
            expect_error(claim.renew(), ErrorKind::LeaseLost, Recorded::No);
            assert!(jobs.claims().unwrap().is_empty());
        } else {
            store.abort_prepared("t", "a test").unwrap();
            let next = jobs.claim("a").unwrap().first().unwrap();
            assert_eq!(next.attempt(), 2);
        }
    }
}

/// An id whose own time is over while it is in doubt leaves no record, and its rows are there.
#[test]
fn an_id_that_is_late_by_the_commit_leaves_its_rows() {
    let (store, clock) = timed();
    let policy = Policy::remember(secs(60)).id_time(firstseen::IdTime::Given);
    let own = store.scope("own", policy).unwrap();
    let rows = store.table("rows").unwrap();
    let id = |id: &'static str, at| firstseen::Id::new(id).event_time(at);
    let at = clock.now();
    let mut batch = store.batch();
    batch.once(&own, id("a", at)).put(&rows, "a", "late");
    batch
        .once(&own, id("b", at + secs(50)))
        .put(&rows, "b", "timely");
    is_first(&batch.prepare("t").unwrap());
    clock.advance(secs(60));
    store.compact().unwrap();
    assert_eq!(store.commit_prepared("t").unwrap().ids, 1);
    assert_eq!(rows.range("").unwrap().count(), 2);
    assert!(matches!(own.insert(id("a", at)).unwrap(), Verdict::Late(_)));
    assert!(own.insert(id("b", at + secs(50))).unwrap().is_duplicate());
    clock.advance(secs(50));
    assert!(matches!(
        own.insert(id("b", at + secs(50))).unwrap(),
        Verdict::Late(_)
    ));
}
