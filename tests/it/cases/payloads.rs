//! Payload fingerprints: an id that comes again with another body is found on every path.

use firstseen::{Action, Error, Id, Policy, Scope, Store, Verdict, days};

use super::{Bring, expect_invalid, memory, ms, nap, secs, timed};

fn compared(store: &Store) -> Scope {
    let policy = Policy::remember(days(7)).payloads().results();
    store.scope("compared", policy).unwrap()
}

fn with<'a>(id: &'a str, body: &'a str) -> Id<'a> {
    Id::new(id).payload(body)
}

#[track_caller]
fn expect_mismatch<T: std::fmt::Debug>(verdict: &Verdict<T>) {
    assert!(
        matches!(verdict, Verdict::PayloadMismatch(_)),
        "{verdict:?}"
    );
    assert_eq!(verdict.action(), Action::DeadLetter);
    assert!(!verdict.is_first() && !verdict.is_duplicate());
}

/// K4 of the field's failures: the check was left out where the answer came from a cache.
#[test]
fn another_payload_is_found_from_memory_filter_and_disk_alike() {
    let sealed: Bring = |store| {
        store.seal().unwrap();
        store
    };
    let merged: Bring = |store| {
        store.seal().unwrap();
        store.compact().unwrap();
        store
    };
    let crashed: Bring = |store| store.crash_and_reopen().unwrap();
    let places: [Bring; 4] = [|store| store, sealed, merged, crashed];
    let mut store = memory();
    for (n, bring) in places.into_iter().enumerate() {
        let id = format!("id {n}");
        let rows = store.table("rows").unwrap();
        assert!(
            compared(&store)
                .insert(with(&id, "body"))
                .unwrap()
                .is_first()
        );
        drop(rows);
        store = bring(store);
        let (scope, rows) = (compared(&store), store.table("rows").unwrap());
        expect_mismatch(&scope.insert(with(&id, "other")).unwrap());
        assert!(scope.insert(with(&id, "body")).unwrap().is_duplicate());
        let mut batch = store.batch();
        batch.once(&scope, with(&id, "other")).put(&rows, &id, "x");
        batch.once(&scope, with(&id, "body")).put(&rows, &id, "x");
        let verdicts = batch.commit().unwrap();
        expect_mismatch(&verdicts[0]);
        assert!(verdicts[1].is_duplicate());
        let closure = scope.once(with(&id, "other"), |_| -> Result<(), Error> {
            panic!("a closure ran for an id that was seen")
        });
        expect_mismatch(&closure.unwrap());
        assert_eq!(rows.get(&id).unwrap(), None, "something was written");
        assert_eq!(store.stats().unwrap().verdicts.payload_mismatches, 3);
        drop((scope, rows));
        store = store.crash_and_reopen().unwrap();
    }
}

#[test]
fn another_payload_is_found_within_a_batch_and_a_hold() {
    let store = memory();
    let scope = compared(&store);
    let ids = [
        with("a", "1"),
        with("a", "1"),
        with("a", "2"),
        with("b", "2"),
    ];
    let verdicts = scope.insert_all(ids).unwrap();
    assert!(verdicts[0].is_first() && verdicts[1].is_duplicate() && verdicts[3].is_first());
    expect_mismatch(&verdicts[2]);
    let mut batch = store.batch();
    batch.once(&scope, with("c", "1"));
    batch.once(&scope, with("c", "2"));
    batch.once(&scope, with("a", "2"));
    let held = batch.hold().unwrap();
    assert!(held[0].is_first());
    expect_mismatch(&held[1]);
    expect_mismatch(&held[2]);
    assert_eq!(batch.commit().unwrap(), held);
}

/// Whoever waited for an id that another caller held is judged by what that caller recorded.
#[test]
fn another_payload_is_found_after_waiting_for_a_held_id() {
    let store = memory();
    let scope = compared(&store);
    let mut batch = store.batch();
    batch.once(&scope, with("a", "1"));
    assert!(batch.hold().unwrap()[0].is_first());
    let waiting = std::thread::spawn({
        let scope = scope.clone();
        move || scope.insert(with("a", "2")).unwrap()
    });
    nap(ms(30));
    let _ = batch.commit().unwrap();
    expect_mismatch(&waiting.join().unwrap());
}

#[test]
fn another_payload_is_found_under_an_older_id() {
    let store = memory();
    let scope = compared(&store);
    assert!(scope.insert(with("old", "1")).unwrap().is_first());
    expect_mismatch(&scope.insert(with("new", "2").also("old")).unwrap());
    assert!(
        scope
            .insert(with("new", "1").also("old"))
            .unwrap()
            .is_duplicate()
    );
    assert!(scope.peek("new").unwrap().is_none());
}

#[test]
fn what_is_not_there_is_not_compared() {
    let store = memory();
    let plain = store.scope("compared", Policy::remember(days(7))).unwrap();
    assert!(plain.insert("before").unwrap().is_first());
    let scope = compared(&store);
    assert!(scope.insert(with("before", "1")).unwrap().is_duplicate());
    assert!(
        scope.insert(with("before", "2")).unwrap().is_duplicate(),
        "still none"
    );
    assert!(scope.insert(with("a", "1")).unwrap().is_first());
    assert!(scope.insert("a").unwrap().is_duplicate());
    assert!(plain.insert("a").unwrap().is_duplicate());
    assert!(scope.insert(with("empty", "")).unwrap().is_first());
    expect_mismatch(&scope.insert(with("empty", "1")).unwrap());
    // A check that is asked for is never left out silently.
    expect_invalid(plain.insert(with("b", "1")), "compares none");
    assert!(scope.peek("b").unwrap().is_none());
}

/// A mismatch prolongs nothing; a duplicate does, and the fingerprint and result live on.
#[test]
fn another_payload_prolongs_nothing() {
    let (store, clock) = timed();
    let policy = Policy::sliding(secs(10), secs(60)).payloads().results();
    let scope = store.scope("s", policy).unwrap();
    let mut batch = store.batch();
    batch.once(&scope, with("a", "1")).result("done");
    let _ = batch.commit().unwrap();
    for _ in 0..3 {
        clock.advance(secs(9));
        expect_mismatch(&scope.insert(with("a", "2")).unwrap());
        let again = scope.insert(with("a", "1")).unwrap();
        assert!(
            matches!(&again, Verdict::Duplicate(seen) if seen.result() == Some(&b"done"[..])),
            "{again:?}"
        );
        store.seal().unwrap();
    }
    clock.advance(secs(9));
    expect_mismatch(&scope.insert(with("a", "2")).unwrap());
    clock.advance(secs(1));
    assert!(
        scope.insert(with("a", "2")).unwrap().is_first(),
        "it was prolonged"
    );
    expect_mismatch(&scope.insert(with("a", "1")).unwrap());
}
