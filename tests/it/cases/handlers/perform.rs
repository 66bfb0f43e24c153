//! Effects outside the store: a claim around each, and how it ends.

use std::panic::{AssertUnwindSafe, catch_unwind};

use firstseen::{
    Action, Begun, Clock, Durability, FailureKind, IdState, ManualClock, NextCommit, OnUnknown,
    Source, Store, Verdict,
};

use super::super::{memory, ms, quiet, secs, timed};
use super::{Oops, is_durable, message, policy};

type Handled = firstseen::Handled<u32, Oops>;

#[track_caller]
fn is_action(handled: &Handled, action: Action) {
    assert_eq!(handled.action(), action, "{handled:?}");
}

#[test]
fn an_effect_is_made_once_and_its_result_and_rows_are_kept() {
    let store = memory();
    let (scope, rows) = (
        store.scope("s", policy()).unwrap(),
        store.table("rows").unwrap(),
    );
    let handler = scope.handler(Source::AckOnce);
    let mut charged = 0;
    let mut deliver = || -> Handled {
        handler.perform(message("a"), |work| {
            assert!(work.is_guarded() && work.token().is_some() && !work.is_lost());
            charged += 1;
            work.result("receipt").writes().put(&rows, "a", "paid");
            Ok(work.attempt())
        })
    };
    let first = deliver();
    is_action(&first, Action::Proceed);
    assert_eq!(first.value(), Some(1));
    let again = deliver();
    is_action(&again, Action::Ack);
    let Some(Verdict::Duplicate(seen)) = again.verdict() else {
        panic!("{again:?}");
    };
    assert_eq!(seen.result(), Some(&b"receipt"[..]));
    assert_eq!(charged, 1);
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"paid"[..]));
}

#[test]
fn each_failure_ends_the_claim_as_it_says() {
    let (store, clock) = timed();
    let policy = policy().backoff(ms(500)).attempts_max(3);
    let scope = store.scope("s", policy).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let run = |id: &str, oops: Option<FailureKind>| -> Handled {
        handler.perform(message(id), |work| match oops {
            None => Ok(work.attempt()),
            Some(kind) => Err(Oops(kind)),
        })
    };
    is_action(
        &run("a", Some(FailureKind::Retryable)),
        Action::Retry(ms(500)),
    );
    is_action(&run("a", None), Action::Retry(ms(500))); // it rests
    clock.advance(ms(500));
    let second = FailureKind::RetryAfter(secs(2));
    is_action(&run("a", Some(second)), Action::Retry(secs(2)));
    clock.advance(secs(2));
    // At the limit of attempts it is given up, which its next delivery is told.
    is_action(
        &run("a", Some(FailureKind::Retryable)),
        Action::Retry(ms(500)),
    );
    clock.advance(ms(500));
    let given_up = run("a", None);
    is_action(&given_up, Action::Ack);
    let verdict = given_up.verdict();
    assert!(
        matches!(verdict, Some(Verdict::DeadLettered(_))),
        "{verdict:?}"
    );

    is_action(&run("b", Some(FailureKind::Permanent)), Action::Ack);
    let Some(Verdict::Failed(seen)) = run("b", None).verdict().cloned() else {
        panic!("it failed for good");
    };
    assert_eq!(seen.result(), Some(&b"it failed as Permanent"[..]));
    is_action(&run("c", Some(FailureKind::Poison)), Action::Ack);
    let dead: Vec<_> = scope.dead_letters().unwrap().map(Result::unwrap).collect();
    assert_eq!(dead.len(), 2);
    assert_eq!(
        (&dead[1].id[..], &dead[1].payload[..]),
        (&b"c"[..], &b"body"[..])
    );
    is_action(&run("c", None), Action::Ack);

    is_action(
        &run("d", Some(FailureKind::Unknown)),
        Action::Retry(secs(60)),
    );
    is_action(&run("d", None), Action::Retry(secs(60)));
    assert_eq!(
        scope.peek("d").unwrap().unwrap().state(),
        IdState::OutcomeUnknown
    );

    is_action(&run("e", Some(FailureKind::Stop)), Action::Stop);
    let freed = run("e", None);
    is_action(&freed, Action::Proceed);
    assert_eq!(freed.value(), Some(2));
}

#[test]
fn an_unknown_outcome_that_may_be_retried_is_retried() {
    let store = memory();
    let scope = store.scope("s", policy().on_unknown(OnUnknown::Retry));
    let handler = scope.unwrap().handler(Source::AckOnce);
    let unknown = handler.perform(message("a"), |_| Err::<u32, _>(Oops(FailureKind::Unknown)));
    is_action(&unknown, Action::Retry(ms(1)));
    let again = handler.perform(message("a"), |work| Ok(work.attempt()));
    is_action(&again, Action::Proceed);
    assert_eq!(again.value(), Some(2));
}

/// The effect was made, its rows were not: nobody makes it again before somebody has looked.
#[test]
fn rows_that_are_refused_or_a_result_too_long_leave_the_outcome_unknown() {
    let store = memory();
    let scope = store.scope("s", policy().result_bytes_max(4)).unwrap();
    let stock = store.guarded_table("stock").unwrap();
    let handler = scope.handler(Source::AckOnce);
    let refused: Handled = handler.perform(message("a"), |work| {
        work.writes().add(&stock, "tea", -1, 0..);
        Ok(1)
    });
    is_action(&refused, Action::Retry(secs(60)));
    let long: Handled = handler.perform(message("b"), |work| {
        work.result("too long");
        Ok(1)
    });
    is_action(&long, Action::Stop);
    for id in ["a", "b"] {
        let state = scope.peek(id).unwrap().unwrap().state();
        assert_eq!(state, IdState::OutcomeUnknown, "{id}");
    }
}

/// A panic leaves the lease to run out, as what was begun may have happened.
#[test]
fn a_panic_leaves_the_lease_to_run_out() {
    let (store, clock) = timed();
    let scope = store.scope("s", policy()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let panicked = catch_unwind(AssertUnwindSafe(|| -> Handled {
        handler.perform(message("a"), |_| panic!("on purpose"))
    }));
    assert!(panicked.is_err());
    let run = || -> Handled { handler.perform(message("a"), |work| Ok(work.attempt())) };
    is_action(&run(), Action::Retry(secs(30)));
    clock.advance(secs(30));
    assert_eq!(run().value(), Some(2));
}

/// Who was taken over is told, and acknowledges nothing.
#[test]
fn a_lease_that_was_lost_is_no_acknowledgement() {
    let clock = ManualClock::new();
    let options = quiet().clock(Clock::Manual(clock.clone()));
    let store = Store::in_memory(options).unwrap();
    let scope = store.scope("s", policy()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let Begun::Work(slow) = handler.begin(message("a")) else {
        panic!("it is new");
    };
    clock.advance(secs(31));
    assert!(slow.is_lost());
    let quick: Handled = handler.perform(message("a"), |work| Ok(work.attempt()));
    is_action(&quick, Action::Proceed);
    let late: Handled = slow.end(Ok(1));
    is_action(&late, Action::Retry(secs(1)));
    assert!(
        matches!(late.verdict(), Some(Verdict::LeaseLost)),
        "{late:?}"
    );
}

/// Positions go with the claim's end, in its commit; a crash loses and doubles nothing.
#[test]
fn the_resume_point_is_in_the_commit_that_ends_the_claim() {
    let store = memory();
    let point = |store: &Store| store.resume_point("p").unwrap().and_then(|p| p.as_u64());
    let scope = store.scope("s", policy().take_over_dead_runs()).unwrap();
    let handler = scope.handler(Source::Replayable);
    let run = |id: &str, next: u64, oops: Option<FailureKind>| -> Handled {
        handler.perform(message(id).next("p", next), |_| {
            oops.map_or(Ok(1), |kind| Err(Oops(kind)))
        })
    };
    for (id, next, oops, expected) in [
        ("a", 1, None, Some(1)),
        ("a", 2, None, Some(2)),
        ("b", 3, Some(FailureKind::Retryable), Some(2)),
        ("b", 3, Some(FailureKind::Permanent), Some(3)),
        ("c", 4, Some(FailureKind::Poison), Some(4)),
        ("d", 2, None, Some(4)),
    ] {
        let _ = run(id, next, oops);
        assert_eq!(point(&store), expected, "{id} {next}");
    }
    let commits = store.stats().unwrap().commits;
    is_action(&run("e", 5, Some(FailureKind::Permanent)), Action::Ack);
    assert_eq!(store.stats().unwrap().commits, commits + 2, "claim and end");
    // A completion of unknown outcome.
    for (failure, expected) in [
        (NextCommit::UnknownLost, Action::Proceed),
        (NextCommit::UnknownWritten, Action::Ack),
    ] {
        let store = memory();
        let deliver = |store: &Store, fails: bool| -> Handled {
            let scope = store.scope("s", policy().take_over_dead_runs()).unwrap();
            let handler = scope.handler(Source::Replayable);
            handler.perform(message("a").next("p", 1), |work| {
                if fails {
                    store.fail_next_commit(failure).unwrap();
                }
                Ok(work.attempt())
            })
        };
        is_action(&deliver(&store, true), Action::Stop);
        let store = store.crash_and_reopen().unwrap();
        is_action(&deliver(&store, false), expected);
        assert_eq!(point(&store), Some(1));
    }
}

/// A completion that the store was too busy for is made again, since its effect has happened.
#[test]
fn a_completion_that_fails_in_passing_is_made_again() {
    let store = memory();
    let scope = store.scope("s", policy()).unwrap();
    let handled: Handled = scope.handler(Source::AckOnce).perform(message("a"), |_| {
        store.fail_next_commit(NextCommit::NotRecorded).unwrap();
        Ok(1)
    });
    is_action(&handled, Action::Proceed);
    assert!(scope.insert("a").unwrap().is_duplicate());
}

/// Also where claims are less durable than they are by default.
#[test]
fn ack_once_waits_for_a_sync_whatever_the_claims_level() {
    let options = quiet().claims_durability(Durability::Written);
    let store = Store::in_memory(options).unwrap();
    let scope = store.scope("s", policy()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let run = |id: &str| -> Handled { handler.perform(message(id), |_| Ok(1)) };
    is_action(&run("a"), Action::Proceed);
    is_durable(&store);
    scope
        .claim("b")
        .unwrap()
        .first()
        .unwrap()
        .complete("", |_| {})
        .unwrap();
    let stats = store.stats().unwrap();
    assert!(stats.durable < stats.written, "not synced yet");
    is_action(&run("b"), Action::Ack);
    is_durable(&store);
}
