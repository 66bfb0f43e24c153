//! Effects in the store: each way a message comes out, what is recorded and what is answered.

use std::panic::{AssertUnwindSafe, catch_unwind};

use firstseen::{
    Action, Error, ErrorKind, FailureKind, IdState, Injected, Injection, Message, NextCommit,
    OnMissingId, Place, Policy, Source, Store, Verdict, days,
};

use super::super::{counter, memory, ms, secs, week};
use super::{Oops, is_durable, lets_go, message, numbers, policy, written};

type Handled = firstseen::Handled<(), Oops>;

#[track_caller]
fn is_action(handled: &Handled, action: Action) {
    assert_eq!(handled.action(), action, "{handled:?}");
}

#[test]
fn each_outcome_has_its_one_action() {
    let store = memory();
    let scope = store
        .scope("s", policy().backoff(ms(250)).payloads().id_bytes_max(10))
        .unwrap();
    let rows = store.guarded_table("rows").unwrap();
    let handler = scope.handler(Source::AckOnce);
    let run = |id: &str, body: &str, oops: Option<FailureKind>| -> Handled {
        handler.process(Message::new(id).payload(body), |tx| {
            tx.put(&rows, id, body);
            oops.map_or(Ok(()), |kind| Err(Oops(kind)))
        })
    };
    // First seen, duplicate, another payload, bad ids.
    let first = run("a", "1", None);
    is_action(&first, Action::Proceed);
    assert_eq!(first.verdict(), Some(&Verdict::First(())));
    is_action(&run("a", "1", None), Action::Ack);
    is_action(&run("a", "2", None), Action::DeadLetter);
    is_action(&run("", "1", None), Action::DeadLetter);
    is_action(&run("much too long", "1", None), Action::DeadLetter);
    // Failures: what is left to a later attempt records nothing.
    for (kind, action) in [
        (FailureKind::Retryable, Action::Retry(ms(250))),
        (FailureKind::Unknown, Action::Retry(ms(250))),
        (FailureKind::RetryAfter(secs(9)), Action::Retry(secs(9))),
        (FailureKind::Stop, Action::Stop),
    ] {
        let failed = run("b", "1", Some(kind));
        is_action(&failed, action);
        assert_eq!(failed.failure(), Some(&Oops(kind)));
        assert_eq!(scope.peek("b").unwrap(), None);
        assert_eq!(rows.get("b").unwrap(), None);
    }
    is_action(&run("b", "1", None), Action::Proceed);
    // What fails for good is recorded, without the handler's own writes.
    is_action(&run("c", "1", Some(FailureKind::Permanent)), Action::Ack);
    assert_eq!(rows.get("c").unwrap(), None);
    assert_eq!(scope.peek("c").unwrap().unwrap().state(), IdState::Failed);
    let again = run("c", "1", None);
    assert!(
        matches!(again.verdict(), Some(Verdict::Failed(_))),
        "{again:?}"
    );
    is_action(&again, Action::Ack);
    is_action(&run("d", "poison", Some(FailureKind::Poison)), Action::Ack);
    assert_eq!(rows.get("d").unwrap(), None);
    let dead = scope.dead_letters().unwrap().next().unwrap().unwrap();
    assert_eq!(
        (&dead.id[..], &dead.payload[..]),
        (&b"d"[..], &b"poison"[..])
    );
    assert!(dead.why.contains("Poison"), "{}", dead.why);
    let again = run("d", "poison", None);
    assert!(
        matches!(again.verdict(), Some(Verdict::DeadLettered(_))),
        "{again:?}"
    );
    is_action(&again, Action::Ack);
    // Claimed elsewhere; refused with and without a fallback; declined.
    let claim = scope.claim("e").unwrap();
    let Action::Retry(pause) = run("e", "1", None).action() else {
        panic!("it is claimed");
    };
    assert!(pause > secs(25) && pause <= secs(30), "{pause:?}");
    drop(claim);
    let refused = handler.process(message("f"), |tx| {
        tx.add(&rows, "stock", -1, 0..);
        Ok(())
    });
    is_action(&refused, Action::DeadLetter);
    let settled = handler.process(message("f"), |tx| {
        tx.add(&rows, "stock", -1, 0..).if_refused(|w| {
            w.put(&rows, "f", "sold out");
        });
        Ok(())
    });
    is_action(&settled, Action::Ack);
    let declined = handler.process(message("g"), |tx| {
        tx.decline();
        Ok(())
    });
    is_action(&declined, Action::Ack);
    assert_eq!(scope.peek("g").unwrap(), None);
}

#[test]
fn a_failed_text_is_the_result_where_results_are_stored() {
    let store = memory();
    let scope = store.scope("s", policy().results()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let fail = |_: &mut firstseen::Tx<'_>| Err::<(), _>(Oops(FailureKind::Permanent));
    let _ = handler.process(message("a"), fail);
    let Verdict::Failed(seen) = scope.insert("a").unwrap() else {
        panic!("it failed");
    };
    assert_eq!(seen.result(), Some(&b"it failed as Permanent"[..]));
}

/// Without an id there is nothing to keep a dead letter under: its caller sets it aside.
#[test]
fn poison_without_an_id_is_set_aside_by_the_caller() {
    let store = memory();
    let scope = store
        .scope("s", policy().on_missing_id(OnMissingId::Process))
        .unwrap();
    let handler = scope.handler(Source::AckOnce);
    let none = || Message::new(None::<&[u8]>).payload(b"body");
    let poison = handler.process(none(), |_| Err::<(), _>(Oops(FailureKind::Poison)));
    is_action(&poison, Action::DeadLetter);
    is_action(&handler.process(none(), |_| Ok(())), Action::Proceed);
}

/// A broker that forgets on acknowledgement is told nothing that a power failure could take.
#[test]
fn ack_once_is_answered_after_a_sync_and_replayable_before() {
    let store = Store::in_memory(written()).unwrap();
    let scope = store.scope("s", policy()).unwrap();
    let (once, replayable) = (
        scope.handler(Source::AckOnce),
        scope.handler(Source::Replayable),
    );
    let ok = |_: &mut firstseen::Tx<'_>| Ok::<_, Oops>(());
    is_action(&once.process(message("a"), ok), Action::Proceed);
    is_durable(&store);
    // An original that is not durable, and its duplicate.
    is_action(
        &replayable.process(message("b").next("p", 1), ok),
        Action::Proceed,
    );
    let (written, durable) = numbers(&store);
    assert!(durable < written, "it was synced for nothing");
    is_action(&once.process(message("b"), ok), Action::Ack);
    is_durable(&store);
    let poison = |_: &mut firstseen::Tx<'_>| Err::<(), _>(Oops(FailureKind::Poison));
    is_action(&once.process(message("c"), poison), Action::Ack);
    is_durable(&store);
    // A sync that fails acknowledges nothing.
    store
        .inject(Injection {
            place: Place::Sync,
            failure: Injected::Io,
            skip: 0,
            times: 1,
        })
        .unwrap();
    is_action(&once.process(message("d"), ok), Action::Stop);
    is_action(&once.process(message("a"), ok), Action::Stop);
}

/// The position moves with the commit; behind what must come again or be set aside it does not.
#[test]
fn the_resume_point_moves_with_what_is_done_and_no_further() {
    let store = memory();
    let scope = week(&store);
    let handler = scope.handler(Source::Replayable);
    let run = |id: &str, next: u64, oops: Option<FailureKind>| -> Handled {
        handler.process(message(id).next("p", next), |_| {
            oops.map_or(Ok(()), |kind| Err(Oops(kind)))
        })
    };
    let point = || store.resume_point("p").unwrap().and_then(|p| p.as_u64());
    for (id, next, oops, expected) in [
        ("a", 1, None, Some(1)),
        ("a", 2, None, Some(2)),
        ("b", 3, Some(FailureKind::Retryable), Some(2)),
        ("b", 3, Some(FailureKind::Stop), Some(2)),
        ("b", 3, Some(FailureKind::Permanent), Some(3)),
        ("c", 4, Some(FailureKind::Poison), Some(4)),
        ("c", 5, None, Some(5)),
        ("", 6, None, Some(5)),
        // The broker began earlier than the store: nothing goes back.
        ("a", 1, None, Some(5)),
        ("new", 2, None, Some(5)),
        ("d", 7, None, Some(7)),
    ] {
        let _ = run(id, next, oops);
        assert_eq!(point(), expected, "{id} {next}");
    }
    let declined = handler.process(message("e").next("p", 8), |tx| {
        tx.decline();
        Ok::<_, Oops>(())
    });
    is_action(&declined, Action::Ack);
    assert_eq!(point(), Some(8));
    // Positions of two kinds, none, or one too many are the program's fault.
    let ok = |_: &mut firstseen::Tx<'_>| Ok::<_, Oops>(());
    let once = scope.handler(Source::AckOnce);
    for wrong in [
        handler.process(message("f").next("p", &b"x"[..]), ok),
        handler.process(message("f"), ok),
        once.process(message("f").next("p", 9), ok),
    ] {
        is_action(&wrong, Action::Stop);
        let kind = wrong.store_error().map(Error::kind);
        assert_eq!(kind, Some(ErrorKind::Invalid));
    }
    assert_eq!(scope.peek("f").unwrap(), None);
}

/// A crash between the commit and the acknowledgement: the message comes again, its effect doesn't.
#[test]
fn a_crash_between_commit_and_acknowledgement_doubles_nothing() {
    let mut store = memory();
    for crash in 0..3 {
        let scope = store.scope("s", policy()).unwrap();
        let sums = store.guarded_table("sums").unwrap();
        let handled = scope.handler(Source::AckOnce).process(message("a"), |tx| {
            tx.add(&sums, "sum", 5, ..);
            Ok::<_, Oops>(())
        });
        assert!(lets_go(&handled));
        let first = handled.verdict().is_some_and(Verdict::is_first);
        assert_eq!(first, crash == 0);
        assert_eq!(counter(&sums, "sum"), Some(5));
        store = store.crash_and_reopen().unwrap();
    }
}

/// Whatever the store fails with, nothing is acknowledged, and nothing is lost or doubled.
#[test]
fn a_failing_store_acknowledges_nothing() {
    for (failure, action) in [
        (NextCommit::NotRecorded, Action::Retry(secs(3))),
        (NextCommit::UnknownLost, Action::Stop),
        (NextCommit::UnknownWritten, Action::Stop),
    ] {
        let mut store = memory();
        for source in [Source::AckOnce, Source::Replayable] {
            let id = format!("{source:?}");
            let deliver = |store: &Store| {
                let scope = store.scope("s", policy()).unwrap();
                let sums = store.guarded_table("sums").unwrap();
                let handler = scope.handler(source).pause(secs(3));
                let mut message = message(&id);
                if source == Source::Replayable {
                    message = message.next("p", 1);
                }
                handler.process(message, |tx| {
                    tx.add(&sums, &id, 1, ..);
                    Ok::<_, Oops>(())
                })
            };
            store.fail_next_commit(failure).unwrap();
            let failed = deliver(&store);
            is_action(&failed, action);
            assert!(failed.failure().is_none() && failed.store_error().is_some());
            if action == Action::Stop {
                is_action(&deliver(&store), Action::Stop);
                store = store.crash_and_reopen().unwrap();
            }
            let handled = deliver(&store);
            let expected = match failure {
                NextCommit::UnknownWritten => Action::Ack,
                _ => Action::Proceed,
            };
            is_action(&handled, expected);
            let sums = store.guarded_table("sums").unwrap();
            assert_eq!(counter(&sums, &id), Some(1));
        }
        let point = store.resume_point("p").unwrap().and_then(|p| p.as_u64());
        assert_eq!(point, Some(1));
    }
}

/// An error of the store within a closure is not the handler's, and gives no message up.
#[test]
fn a_stores_error_within_a_closure_is_never_classified() {
    let store = memory();
    let other = memory();
    let foreign = other.table("rows").unwrap();
    let scope = store.scope("s", policy()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let handled = handler.process(message("a"), |tx| {
        let _ = tx.get(&foreign, "x");
        Err::<(), _>(Oops(FailureKind::Poison))
    });
    is_action(&handled, Action::Stop);
    let kind = handled.store_error().map(Error::kind);
    assert_eq!(kind, Some(ErrorKind::ForeignHandle));
    assert_eq!(scope.dead_letters().unwrap().count(), 0);
    assert_eq!(scope.peek("a").unwrap(), None);
}

#[test]
fn a_panic_frees_the_id() {
    let store = memory();
    let scope = store.scope("s", policy()).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        handler.process(message("a"), |_| -> Result<(), Oops> {
            panic!("on purpose")
        })
    }));
    assert!(panicked.is_err());
    is_action(&handler.process(message("a"), |_| Ok(())), Action::Proceed);
}

/// A late id that is dropped is acknowledged, and the position moves.
#[test]
fn what_is_late_and_dropped_is_behind_the_resume_point() {
    let store = memory();
    let policy = Policy::remember(days(1))
        .id_time(firstseen::IdTime::Ulid)
        .on_late(firstseen::OnLate::Drop);
    let scope = store.scope("s", policy).unwrap();
    let handler = scope.handler(Source::Replayable);
    let late = handler.process(message("00000000000000000000000000").next("p", 4), |_| {
        Ok::<_, Oops>(())
    });
    assert!(matches!(late.verdict(), Some(Verdict::Late(_))), "{late:?}");
    is_action(&late, Action::Ack);
    let point = store.resume_point("p").unwrap().and_then(|p| p.as_u64());
    assert_eq!(point, Some(4));
}
