//! Submitted commits: in order, several in flight, and none overtakes a failure of its source.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use firstseen::{Durability, ErrorKind, NextCommit, Options, Recorded, Store, Submitted};

use super::{LEVELS, counter, expect_error, memory, week};

struct Unpark(std::thread::Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn submitted_batches_commit_in_order_and_their_futures_tell() {
    for level in LEVELS {
        let store = Store::in_memory(Options::new().durability(level)).unwrap();
        let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
        let submitted: Vec<Submitted> = (0..200_u64)
            .map(|n| {
                let mut batch = store.batch();
                // Refused unless the one before was committed before.
                let expected = n.checked_sub(1).map(u64::to_le_bytes);
                let expected = expected.as_ref().map(|e| &e[..]);
                batch.once(&ids, &n.to_be_bytes()).compare_and_set(
                    &rows,
                    "last",
                    expected,
                    n.to_le_bytes(),
                );
                batch.once(&ids, "the same in all");
                batch.resume_at("s", n + 1);
                batch.submit()
            })
            .collect();
        for (n, commit) in submitted.into_iter().enumerate() {
            let verdicts = if n % 2 == 0 {
                block_on(commit)
            } else {
                commit.wait()
            };
            let verdicts = verdicts.unwrap();
            assert!(verdicts[0].is_first(), "{n}: {:?}", verdicts[0]);
            assert_eq!(verdicts[1].is_first(), n == 0);
        }
        assert_eq!(
            store.resume_point("s").unwrap().and_then(|p| p.as_u64()),
            Some(200)
        );
        if level == Durability::Synced {
            let stats = store.stats().unwrap();
            assert_eq!(stats.durable, stats.written);
        }
    }
}

/// A position must not pass a batch that failed: those behind it for the same source fail too,
/// until the caller has seen the failure.
#[test]
fn what_is_submitted_behind_a_failure_fails_until_it_was_seen() {
    let store = memory();
    let ids = week(&store);
    let submit = |id: &str, source: &str, next: u64| {
        let mut batch = store.batch();
        batch.once(&ids, id);
        batch.resume_at(source, next);
        batch.submit()
    };
    assert!(submit("a", "s", 1).wait().unwrap()[0].is_first());
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    let (b, c) = (submit("b", "s", 2), submit("c", "s", 3));
    let elsewhere = submit("d", "other", 1);
    assert!(elsewhere.wait().unwrap()[0].is_first());
    // Those submitted before the failure was seen fail, however late.
    let late = submit("e", "s", 4);
    expect_error(c.wait(), ErrorKind::Undecided, Recorded::No);
    expect_error(late.wait(), ErrorKind::Undecided, Recorded::No);
    expect_error(b.wait(), ErrorKind::Busy, Recorded::No);
    for id in ["b", "c", "e"] {
        assert_eq!(ids.peek(id).unwrap(), None, "{id}");
    }
    assert_eq!(
        store.resume_point("s").unwrap().and_then(|p| p.as_u64()),
        Some(1)
    );
    // Seen, and submitted again from there.
    for (id, next) in [("b", 2), ("c", 3), ("e", 4)] {
        assert!(submit(id, "s", next).wait().unwrap()[0].is_first());
    }
    assert_eq!(
        store.resume_point("s").unwrap().and_then(|p| p.as_u64()),
        Some(4)
    );
}

/// Without a resume point there is no order to keep: a failure concerns its own batch.
#[test]
fn a_failure_without_a_resume_point_stops_nobody() {
    let store = memory();
    let ids = week(&store);
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    let submitted: Vec<Submitted> = (0..5_u64)
        .map(|n| {
            let mut batch = store.batch();
            batch.once(&ids, &n.to_be_bytes());
            batch.submit()
        })
        .collect();
    let outcomes: Vec<bool> = submitted.into_iter().map(|s| s.wait().is_ok()).collect();
    assert_eq!(outcomes, [false, true, true, true, true]);
}

#[test]
fn dropping_a_submission_does_not_cancel_it_and_close_finishes_it() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    for n in 0..100_u64 {
        let mut batch = store.batch();
        batch.once(&ids, &n.to_be_bytes()).add(&rows, "n", 1, ..);
        drop(batch.submit());
    }
    drop((ids, rows));
    store.close().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(
        counter(&store.guarded_table("rows").unwrap(), "n"),
        Some(100)
    );
    assert_eq!(week(&store).scan(..).unwrap().count(), 100);
}

#[test]
fn a_held_batch_can_be_submitted_and_misuse_comes_as_an_error() {
    let (store, other) = (memory(), memory());
    let ids = week(&store);
    let mut batch = store.batch();
    batch.once(&ids, "a");
    assert!(batch.hold().unwrap()[0].is_first());
    assert!(batch.submit().wait().unwrap()[0].is_first());
    let mut batch = store.batch();
    batch.once(&week(&other), "b");
    expect_error(
        batch.submit().wait(),
        ErrorKind::ForeignHandle,
        Recorded::No,
    );
    let batch = store.batch();
    store.close().unwrap();
    expect_error(batch.submit().wait(), ErrorKind::Closed, Recorded::No);
}

#[test]
fn a_submission_whose_outcome_is_unknown_says_so() {
    let store = memory();
    let ids = week(&store);
    store.fail_next_commit(NextCommit::UnknownWritten).unwrap();
    let submit = |n: u64| {
        let mut batch = store.batch();
        batch.once(&ids, &n.to_be_bytes());
        batch.submit()
    };
    let (a, b) = (submit(0), submit(1));
    expect_error(a.wait(), ErrorKind::Degraded, Recorded::Unknown);
    expect_error(b.wait(), ErrorKind::Degraded, Recorded::No);
    drop(ids);
    let store = store.crash_and_reopen().unwrap();
    let ids = week(&store);
    assert!(ids.insert(&0_u64.to_be_bytes()).unwrap().is_duplicate());
    assert!(ids.insert(&1_u64.to_be_bytes()).unwrap().is_first());
}
