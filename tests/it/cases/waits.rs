//! Waiting for what others hold: ids, rows, closures that call themselves. Always bounded.

use std::sync::mpsc;

use firstseen::{Action, Batch, Error, ErrorKind, Options, Policy, Recorded, Store, Verdict, days};

use super::{expect_error, ms, now, put, quiet, secs, week};

/// A store whose calls hardly wait.
fn hasty() -> Store {
    Store::in_memory(quiet().wait_max(ms(20))).unwrap()
}

fn held(store: &Store, id: &str) -> Batch {
    let mut batch = store.batch();
    batch.once(&week(store), id);
    assert!(batch.hold().unwrap()[0].is_first());
    batch
}

#[test]
fn an_id_that_stays_held_is_in_progress() {
    let store = hasty();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let other = held(&store, "a");
    let began = now();
    let Verdict::InProgress(progress) = ids.insert("a").unwrap() else {
        panic!("not in progress")
    };
    assert!(progress.retry_after() > ms(0) && progress.retry_after() < secs(5));
    let once = ids.once("a", |_| -> Result<(), Error> { panic!("the closure ran") });
    assert!(matches!(once.unwrap().action(), Action::Retry(_)));
    assert!(began.elapsed() >= ms(40) && began.elapsed() < secs(10));
    // The rest of a batch without a resume point is decided.
    let mut batch = store.batch();
    for id in ["b", "a", "c"] {
        batch.once(&ids, id).put(&rows, id, "1");
    }
    let verdicts = batch.commit().unwrap();
    assert!(verdicts[0].is_first() && verdicts[2].is_first());
    assert!(matches!(verdicts[1], Verdict::InProgress(_)));
    assert_eq!(rows.get("a").unwrap(), None);
    expect_error(ids.forget("a", "why"), ErrorKind::Busy, Recorded::No);
    drop(other);
    assert!(ids.insert("a").unwrap().is_first());
    assert_eq!(store.stats().unwrap().verdicts.in_progress, 3);
}

/// A scope's own `wait`, also zero, instead of the store's `wait_max`.
#[test]
fn a_policy_says_how_long_its_calls_wait() {
    let store = Store::in_memory(quiet().wait_max(secs(600))).unwrap();
    let _held = held(&store, "a");
    for wait in [0, 30] {
        let policy = Policy::remember(days(7)).wait(ms(wait));
        let ids = store.scope("ids", policy).unwrap();
        let began = now();
        assert!(matches!(ids.insert("a").unwrap(), Verdict::InProgress(_)));
        assert!(began.elapsed() >= ms(wait) && began.elapsed() < secs(60));
    }
}

#[test]
fn who_waits_gets_the_outcome_of_the_one_before() {
    for commits in [true, false] {
        let store = Store::in_memory(quiet().wait_max(secs(60))).unwrap();
        let ids = week(&store);
        let mut other = held(&store, "a");
        let verdict = std::thread::scope(|s| {
            let waiter = s.spawn(|| ids.insert("a").unwrap());
            super::nap(ms(30));
            assert!(!waiter.is_finished());
            if commits {
                let _ = other.commit().unwrap();
            }
            drop(other);
            waiter.join().unwrap()
        });
        assert_eq!(verdict.is_first(), !commits);
        assert_eq!(verdict.is_duplicate(), commits);
    }
}

/// A batch whose position may not pass an undecided item: nothing is recorded, the verdicts are
/// in the error, and the same batch commits later.
#[test]
fn a_batch_with_a_resume_point_and_an_undecided_item_is_undecided() {
    let store = hasty();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let other = held(&store, "b");
    let mut batch = store.batch();
    for id in ["a", "b"] {
        batch.once(&ids, id).put(&rows, id, "1");
    }
    batch.resume_at("source", 2);
    let error = expect_error(batch.commit(), ErrorKind::Undecided, Recorded::No);
    assert!(error.is_retryable());
    let verdicts = error.verdicts().unwrap();
    assert!(verdicts[0].is_first());
    assert!(matches!(verdicts[1], Verdict::InProgress(_)));
    let stats = store.stats().unwrap();
    assert_eq!(
        (stats.undecided, stats.ids_in_flight, stats.commits),
        (1, 1, 0)
    );
    assert_eq!(
        (ids.peek("a").unwrap(), rows.get("a").unwrap()),
        (None, None)
    );
    assert_eq!(store.resume_point("source").unwrap(), None);
    drop(other);
    assert!(batch.commit().unwrap().iter().all(|v| v.is_first()));
    assert_eq!(
        store
            .resume_point("source")
            .unwrap()
            .and_then(|p| p.as_u64()),
        Some(2)
    );

    // Unconditional writes wait for a decision likewise.
    let _other = held(&store, "c");
    let mut batch = store.batch();
    batch.once(&ids, "c");
    batch.always().put(&rows, "always", "1");
    expect_error(batch.commit(), ErrorKind::Undecided, Recorded::No);
    assert_eq!(rows.get("always").unwrap(), None);
}

/// Runs `with` while another thread's closure has the row locked.
fn while_row_is_locked(store: &Store, with: impl FnOnce()) {
    let (ids, stock) = (week(store), store.guarded_table("stock").unwrap());
    let (locked, is_locked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    std::thread::scope(|s| {
        s.spawn(move || {
            let verdict = ids.once("the holder", |tx| {
                let n = tx
                    .get(&stock, "n")?
                    .and_then(|v| v.as_counter())
                    .unwrap_or(0);
                tx.put(&stock, "n", (n + 1).to_le_bytes());
                locked.send(()).unwrap();
                let _ = may_go_on.recv();
                Ok::<_, Error>(())
            });
            assert!(verdict.unwrap().is_first());
        });
        is_locked.recv().unwrap();
        with();
        drop(go_on);
    });
}

#[test]
fn a_row_that_stays_locked_is_busy_and_nothing_is_recorded() {
    let store = hasty();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    put(&store, &stock, "n", 5_i64.to_le_bytes());
    let mut batch = store.batch();
    batch.once(&ids, "a").add(&stock, "n", 1, ..);
    while_row_is_locked(&store, || {
        expect_error(batch.commit(), ErrorKind::Busy, Recorded::No);
        let once = ids.once("b", |tx| {
            let _ = tx.get(&stock, "n")?;
            Ok::<_, Error>(())
        });
        let error = expect_error(once, ErrorKind::Busy, Recorded::No);
        assert!(error.is_retryable());
        // Reading takes no lock.
        assert_eq!(super::counter(&stock, "n"), Some(5));
        assert_eq!(store.stats().unwrap().ids_in_flight, 1);
    });
    assert!(batch.commit().unwrap()[0].is_first());
    assert_eq!(super::counter(&stock, "n"), Some(7));
    assert!(ids.insert("b").unwrap().is_first());
}

#[test]
fn a_resume_point_under_way_holds_up_a_rewind() {
    let store = hasty();
    let ids = week(&store);
    let (locked, is_locked) = mpsc::channel();
    let (go_on, may_go_on) = mpsc::channel::<()>();
    std::thread::scope(|s| {
        let ids = &ids;
        s.spawn(move || {
            let verdict = ids.once("a", |tx| {
                tx.resume_at("source", 5);
                locked.send(()).unwrap();
                let _ = may_go_on.recv();
                Ok::<_, Error>(())
            });
            assert!(verdict.unwrap().is_first());
        });
        is_locked.recv().unwrap();
        expect_error(
            store.rewind("source", 1, "why"),
            ErrorKind::Busy,
            Recorded::No,
        );
        drop(go_on);
    });
    assert_eq!(
        store
            .resume_point("source")
            .unwrap()
            .and_then(|p| p.as_u64()),
        Some(5)
    );
}

/// A closure that calls for the id or the row it holds would wait for itself.
#[test]
fn a_closure_that_calls_for_what_it_holds_is_reentrant() {
    let store = Store::in_memory(quiet().wait_max(secs(600))).unwrap();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut inner = Vec::new();
    let verdict = ids.once("a", |tx| {
        tx.put(&stock, "n", 1_i64.to_le_bytes());
        inner.push(ids.insert("a").map(|_| ()));
        inner.push(ids.once("a", |_| Ok::<_, Error>(())).map(|_| ()));
        let mut batch = store.batch();
        batch.once(&ids, "b").add(&stock, "n", 1, ..);
        inner.push(batch.commit().map(|_| ()));
        let nested = ids.once("c", |tx| tx.get(&stock, "n").map(|_| ()));
        inner.push(nested.map(|_| ()));
        // What it does not hold is free.
        assert!(ids.insert("d")?.is_first());
        Ok::<_, Error>(())
    });
    assert!(verdict.unwrap().is_first());
    assert_eq!(inner.len(), 4);
    for result in inner {
        expect_error(result, ErrorKind::Reentrant, Recorded::No);
    }
    for (id, known) in [("a", true), ("b", false), ("c", false), ("d", true)] {
        assert_eq!(ids.insert(id).unwrap().is_duplicate(), known, "{id}");
    }
    assert_eq!(super::counter(&stock, "n"), Some(1));
}

/// Closures of two stores nest; that their owners' numbers are equal means nothing.
#[test]
fn a_closure_may_call_another_store() {
    let options = || Options::new().background(false).wait_max(ms(20));
    let (one, two) = (
        Store::in_memory(options()).unwrap(),
        Store::in_memory(options()).unwrap(),
    );
    let (outer, inner) = (week(&one), week(&two));
    for round in 0..20 {
        let id = format!("id-{round}");
        let _held = held(&two, &id);
        let verdict = outer.once(&id, |_| {
            let answer = inner.insert(&id)?;
            assert!(matches!(answer, Verdict::InProgress(_)), "{answer:?}");
            Ok::<_, Error>(())
        });
        assert!(verdict.unwrap().is_first());
    }
}

/// A hold knows no segments: it outlasts rotations, seals and merges.
#[test]
fn a_hold_survives_sealing() {
    let store = hasty();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let mut batch = held(&store, "a");
    for n in 0..5_u32 {
        assert!(ids.insert(&n.to_be_bytes()).unwrap().is_first());
        store.seal().unwrap();
        assert!(matches!(ids.insert("a").unwrap(), Verdict::InProgress(_)));
    }
    store.compact().unwrap();
    batch.item(0).put(&rows, "a", "1");
    assert!(batch.commit().unwrap()[0].is_first());
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert!(rows.get("a").unwrap().is_some());
}

/// Sealing that can't keep up holds writers up for at most `wait_max`.
#[test]
#[cfg(feature = "failpoints")]
fn a_write_stall_is_busy_after_wait_max_and_then_goes_on() {
    if !super::alone(
        module_path!(),
        "a_write_stall_is_busy_after_wait_max_and_then_goes_on",
    ) {
        return;
    }
    fail::cfg("seal::gate_passed", "pause").unwrap();
    let options = Options::new().segment_ids_max(100).wait_max(ms(100));
    let store = Store::in_memory(options).unwrap();
    let ids = week(&store);
    let mut n = 0_u32;
    let error = loop {
        match ids.insert(&n.to_be_bytes()) {
            Ok(verdict) => assert!(verdict.is_first()),
            Err(error) => break error,
        }
        n += 1;
        assert!(n < 1_000_000, "nothing stalled");
    };
    assert_eq!(
        (error.kind(), error.recorded()),
        (ErrorKind::Busy, Recorded::No),
        "{error}"
    );
    assert_eq!(ids.peek(&n.to_be_bytes()).unwrap(), None);
    fail::remove("seal::gate_passed");
    super::until("room again", || ids.insert(&n.to_be_bytes()).is_ok());
    assert!(ids.insert(&0_u32.to_be_bytes()).unwrap().is_duplicate());
    let background = store.stats().unwrap().background;
    assert!(
        background.stalls > 0 && background.stalled >= ms(100),
        "{background:?}"
    );
}
