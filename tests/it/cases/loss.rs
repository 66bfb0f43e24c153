//! Nothing may be lost: an id without its effect would make the retry a duplicate.

use firstseen::{Durability, Error, ErrorKind, NextCommit, Recorded, Verdict};

use super::{LEVELS, expect_error, memory, put_once, week};

/// L1: the id was recorded, then persisting the message failed; the retry was dropped.
#[test]
fn a_failed_commit_leaves_no_id_and_the_retry_is_first_seen() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    let error = put_once(&store, &ids, &rows, "a");
    let error = expect_error(error, ErrorKind::Busy, Recorded::No);
    assert!(error.is_retryable());
    assert_eq!(ids.peek("a").unwrap(), None);
    assert_eq!(rows.get("a").unwrap(), None);
    assert!(put_once(&store, &ids, &rows, "a").unwrap().is_first());
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"done"[..]));
    // What was not recorded is not counted either.
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.verdicts.first, stats.commits, stats.ids_recorded),
        (1, 1, 1)
    );
}

/// L1, for a single insert, a closure and a forget.
#[test]
fn every_call_that_fails_before_its_write_may_be_made_again() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    expect_error(ids.insert("a"), ErrorKind::Busy, Recorded::No);
    assert!(ids.insert("a").unwrap().is_first());

    let once = || {
        ids.once("b", |tx| {
            tx.put(&rows, "b", "1");
            Ok::<_, Error>(())
        })
    };
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    expect_error(once(), ErrorKind::Busy, Recorded::No);
    assert_eq!(rows.get("b").unwrap(), None);
    assert!(once().unwrap().is_first());

    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    expect_error(ids.forget("a", "test"), ErrorKind::Busy, Recorded::No);
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert!(ids.forget("a", "test").unwrap());
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
}

/// L1: a write whose outcome nobody knows is never reported as not written, and after the
/// reopening id and row are both absent.
#[test]
fn a_lost_write_of_unknown_outcome_is_first_seen_after_reopening() {
    for level in [Durability::Written, Durability::Synced] {
        let store = memory();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        assert!(ids.insert("before").unwrap().is_first());
        store.fail_next_commit(NextCommit::UnknownLost).unwrap();
        let mut batch = store.batch();
        batch.once(&ids, "a").put(&rows, "a", "1");
        batch.durability(level);
        let error = batch.commit();
        let error = expect_error(error, ErrorKind::Degraded, Recorded::Unknown);
        assert!(!error.is_retryable());
        // The store does not guess meanwhile, for this id or another.
        expect_error(ids.insert("a"), ErrorKind::Degraded, Recorded::No);
        expect_error(ids.insert("c"), ErrorKind::Degraded, Recorded::No);
        drop((ids, rows, batch));
        let store = store.crash_and_reopen().unwrap();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        assert!(ids.insert("before").unwrap().is_duplicate());
        assert_eq!(rows.get("a").unwrap(), None);
        assert!(put_once(&store, &ids, &rows, "a").unwrap().is_first());
    }
}

/// A buffered commit was acknowledged already; that its write failed surfaces at the next sync
/// and at every later call, never silently.
#[test]
fn a_failed_write_of_buffered_commits_surfaces_at_sync_and_later() {
    let store = memory();
    let ids = week(&store);
    let mut batch = store.batch();
    store.fail_next_commit(NextCommit::UnknownLost).unwrap();
    batch.once(&ids, "a");
    batch.durability(Durability::Buffered);
    assert!(batch.commit().unwrap()[0].is_first());
    assert_eq!(store.sync().unwrap_err().kind(), ErrorKind::Degraded);
    expect_error(ids.insert("b"), ErrorKind::Degraded, Recorded::No);
    assert!(matches!(store.health(), firstseen::Health::Degraded(_)));
    drop((ids, batch));
    let store = store.crash_and_reopen().unwrap();
    assert!(week(&store).insert("a").unwrap().is_first());
}

/// What a failed write of buffered commits held is nobody's to release: who came for it just
/// then is told, and does not wait for its deadline.
#[test]
#[cfg(feature = "failpoints")]
fn who_waits_for_a_buffered_id_whose_write_fails_is_told() {
    if !super::alone(
        module_path!(),
        "who_waits_for_a_buffered_id_whose_write_fails_is_told",
    ) {
        return;
    }
    let options = super::quiet().wait_max(super::secs(60));
    let store = firstseen::Store::in_memory(options).unwrap();
    let ids = week(&store);
    fail::cfg("commit::before_write", "pause").unwrap();
    store.fail_next_commit(NextCommit::UnknownLost).unwrap();
    let mut batch = store.batch();
    batch.once(&ids, "a");
    batch.durability(Durability::Buffered);
    assert!(batch.commit().unwrap()[0].is_first());
    let began = super::now();
    std::thread::scope(|s| {
        let sync = s.spawn(|| store.sync());
        super::nap(super::ms(100));
        let waits = s.spawn(|| ids.insert("a"));
        super::nap(super::ms(200));
        assert!(!sync.is_finished() && !waits.is_finished());
        fail::remove("commit::before_write");
        let error = sync.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Degraded, "{error}");
        let error = waits.join().unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Degraded, "{error}");
    });
    assert!(began.elapsed() < super::secs(30), "it waited");
}

/// L5: an empty outcome kept the id, and the real message was skipped later.
#[test]
fn what_finishes_without_an_outcome_can_decline_and_leave_no_id() {
    for level in LEVELS {
        let store = memory();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        let mut batch = store.batch();
        batch.durability(level);
        batch.once(&ids, "a").put(&rows, "a", "1").decline();
        assert_eq!(batch.commit().unwrap()[0], Verdict::Declined(()));
        let verdict = ids.once("b", |tx| {
            tx.put(&rows, "b", "1").decline();
            Ok::<_, Error>(7)
        });
        assert_eq!(verdict.unwrap(), Verdict::Declined(7));
        for id in ["a", "b"] {
            assert_eq!(rows.get(id).unwrap(), None);
            assert!(ids.insert(id).unwrap().is_first());
        }
        assert_eq!(store.stats().unwrap().verdicts.declined, 2);
    }
}

/// L4: a handler's error still marked the message processed.
#[test]
fn a_closure_that_fails_or_panics_frees_its_id_and_its_rows() {
    let store = memory();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    let failed: Result<Verdict<()>, Error> = ids.once("a", |tx| {
        tx.put(&rows, "a", "1");
        let _ = tx.get(&rows, "b")?;
        Err(std::io::Error::other("the handler failed").into())
    });
    assert!(failed.unwrap_err().to_string().contains("handler failed"));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        ids.once("a", |tx| -> Result<(), Error> {
            tx.put(&rows, "a", "1");
            panic!("the handler panicked");
        })
    }));
    assert!(panicked.is_err());
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
    assert_eq!(rows.get("a").unwrap(), None);
    let mut batch = store.batch();
    batch.once(&ids, "a").add(&rows, "b", 1, ..);
    assert!(batch.commit().unwrap()[0].is_first());
}
