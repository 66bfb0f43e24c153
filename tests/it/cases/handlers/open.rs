//! Fail open and fail closed: what a handler does while the store fails.

use std::cell::Cell;

use firstseen::{
    Action, ErrorKind, FailureKind, NextCommit, OnStoreError, Scope, Source, Store, Verdict,
};

use super::super::memory;
use super::{Oops, message, policy};

type Handled = firstseen::Handled<u32, Oops>;

#[track_caller]
fn is_action(handled: &Handled, action: Action) {
    assert_eq!(handled.action(), action, "{handled:?}");
}

fn failed_open(store: &Store) -> u64 {
    store.stats().unwrap().scopes[0].failed_open
}

/// A store that has stopped writing.
fn broken() -> (Store, Scope) {
    let store = memory();
    let scope = store.scope("s", policy()).unwrap();
    store.fail_next_commit(NextCommit::UnknownLost).unwrap();
    assert!(scope.insert("x").is_err());
    (store, scope)
}

#[test]
fn closed_keeps_messages_and_open_lets_them_through_counted() {
    let (store, scope) = broken();
    let handler = scope.handler(Source::AckOnce);
    let made = Cell::new(0);
    let run = |id: &str| -> Handled {
        handler.perform(message(id), |work| {
            made.set(made.get() + 1);
            assert!(!work.is_guarded() && work.token().is_none() && !work.is_lost());
            Ok(work.attempt())
        })
    };
    is_action(&run("a"), Action::Stop);
    assert_eq!((made.get(), failed_open(&store)), (0, 0));
    // The store can't keep the switch; it is in force all the same.
    assert!(scope.set_on_store_error(OnStoreError::Open).is_err());
    assert_eq!(scope.on_store_error(), OnStoreError::Open);
    let through = run("a");
    is_action(&through, Action::Proceed);
    assert!(through.is_unguarded());
    let kind = through.store_error().map(firstseen::Error::kind);
    assert_eq!(kind, Some(ErrorKind::Degraded));
    // Without the store nobody knows that it was seen.
    is_action(&run("a"), Action::Proceed);
    assert_eq!((made.get(), failed_open(&store)), (2, 2));
    let _ = scope.set_on_store_error(OnStoreError::Closed);
    is_action(&run("a"), Action::Stop);
    assert_eq!((made.get(), failed_open(&store)), (2, 2));
    // Effects in the store can't be made without it.
    let _ = scope.set_on_store_error(OnStoreError::Open);
    let inside = handler.process(message("a"), |_| Ok::<_, Oops>(1));
    is_action(&inside, Action::Stop);
}

/// What was to be kept in the store is not acknowledged away.
#[test]
fn open_never_acknowledges_rows_that_are_nowhere() {
    let (store, scope) = broken();
    let rows = store.table("rows");
    let _ = scope.set_on_store_error(OnStoreError::Open);
    let handler = scope.handler(Source::AckOnce);
    let with_result: Handled = handler.perform(message("a"), |work| {
        work.result("receipt");
        Ok(1)
    });
    is_action(&with_result, Action::Stop);
    drop(rows);
    for (kind, action) in [
        (FailureKind::Permanent, Action::Ack),
        (FailureKind::Poison, Action::DeadLetter),
        (FailureKind::Stop, Action::Stop),
    ] {
        let failed: Handled = handler.perform(message("b"), |_| Err(Oops(kind)));
        is_action(&failed, action);
        assert_eq!(failed.failure(), Some(&Oops(kind)));
    }
    let none: Handled = handler.perform(message(""), |_| Ok(1));
    is_action(&none, Action::DeadLetter);
}

/// The store failed in passing: what was made without a claim is recorded after all, with its rows.
#[test]
fn what_was_made_without_a_claim_is_recorded_when_the_store_is_back() {
    let store = memory();
    let policy = policy().on_store_error(OnStoreError::Open);
    let scope = store.scope("s", policy.results()).unwrap();
    let rows = store.table("rows").unwrap();
    let handler = scope.handler(Source::AckOnce);
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    let handled: Handled = handler.perform(message("a"), |work| {
        assert!(!work.is_guarded());
        work.result("receipt").writes().put(&rows, "a", "paid");
        Ok(1)
    });
    is_action(&handled, Action::Proceed);
    assert!(handled.is_unguarded());
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"paid"[..]));
    let Verdict::Duplicate(seen) = scope.insert("a").unwrap() else {
        panic!("it is recorded");
    };
    assert_eq!(seen.result(), Some(&b"receipt"[..]));
    assert_eq!(failed_open(&store), 1);
}

/// The store fails between the effect and its end.
#[test]
fn an_effect_whose_end_fails_is_acknowledged_only_if_open_and_nothing_is_to_be_kept() {
    for (rule, keeps, action) in [
        (OnStoreError::Closed, false, Action::Stop),
        (OnStoreError::Open, true, Action::Stop),
        (OnStoreError::Open, false, Action::Proceed),
    ] {
        let store = memory();
        let scope = store.scope("s", policy().on_store_error(rule)).unwrap();
        let handled: Handled = scope
            .handler(Source::AckOnce)
            .perform(message("a"), |work| {
                store.fail_next_commit(NextCommit::UnknownLost).unwrap();
                if keeps {
                    work.result("receipt");
                }
                Ok(1)
            });
        is_action(&handled, action);
        assert_eq!(failed_open(&store), u64::from(action == Action::Proceed));
    }
}

/// A wrong call is wrong whether the store works or not.
#[test]
fn misuse_is_never_let_through() {
    let store = memory();
    let policy = policy().on_store_error(OnStoreError::Open);
    let scope = store.scope("s", policy).unwrap();
    let wrong: Handled = scope
        .handler(Source::Replayable)
        .perform(message("a"), |_| Ok(1));
    is_action(&wrong, Action::Stop);
    assert_eq!(failed_open(&store), 0);
}
