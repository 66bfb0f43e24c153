//! Scopes that only observe: everything is let through, and what would have been kept out counted.

use firstseen::{
    Action, Failure, Id, IdState, Mode, NextCommit, OnMissingId, OnStoreError, Options, Policy,
    Scope, Source, Store, Verdict, VerdictStats, days,
};

use super::super::{counter, memory, secs, timed};
use super::{Oops, message, policy};

fn observing(store: &Store) -> Scope {
    store.scope("s", policy().mode(Mode::ObserveOnly)).unwrap()
}

fn observed(store: &Store) -> VerdictStats {
    store.stats().unwrap().scopes[0].observed
}

#[track_caller]
fn is_let_through<T: std::fmt::Debug>(verdict: &Verdict<T>, instead: fn(&Verdict) -> bool) {
    assert!(verdict.would_be().is_some_and(instead), "{verdict:?}");
    assert_eq!(verdict.action(), Action::Proceed);
    assert!(verdict.is_first());
}

/// One by one, in a batch, held, in a closure: each sight has its effect, and each later one is
/// told to be one. What was known stays as it was.
#[test]
fn every_sight_has_its_effect_and_is_told_apart() {
    let (store, clock) = timed();
    let (scope, sums) = (observing(&store), store.guarded_table("sums").unwrap());
    let first_at = clock.now();
    assert_eq!(scope.insert("a").unwrap(), Verdict::First(()));
    clock.advance(secs(5));
    let again = scope.insert("a").unwrap();
    is_let_through(&again, Verdict::is_duplicate);
    assert!(again.is_duplicate());

    let mut batch = store.batch();
    for _ in 0..3 {
        batch.once(&scope, "b").add(&sums, "b", 1, ..);
    }
    let verdicts = batch.commit().unwrap();
    assert_eq!(verdicts[0], Verdict::First(()));
    verdicts[1..]
        .iter()
        .for_each(|v| is_let_through(v, Verdict::is_duplicate));
    assert_eq!(counter(&sums, "b"), Some(3));

    batch.once(&scope, "b");
    is_let_through(&batch.hold().unwrap()[0], Verdict::is_duplicate);
    batch.item(0).add(&sums, "b", 1, ..);
    is_let_through(&batch.commit().unwrap()[0], Verdict::is_duplicate);
    assert_eq!(counter(&sums, "b"), Some(4));

    let closure = scope.once("b", |tx| {
        tx.add(&sums, "b", 1, ..);
        Ok::<_, firstseen::Error>(7)
    });
    let closure = closure.unwrap();
    is_let_through(&closure, Verdict::is_duplicate);
    assert_eq!((closure.first(), counter(&sums, "b")), (Some(7), Some(5)));

    assert_eq!(scope.peek("a").unwrap().unwrap().first_seen_at(), first_at);
    let stats = store.stats().unwrap();
    assert_eq!((stats.verdicts.first, stats.verdicts.observed), (2, 5));
    assert_eq!(
        (stats.verdicts.duplicates, observed(&store).duplicates),
        (0, 5)
    );
    // Enforced again, all of it is known.
    scope.set_mode(Mode::Enforce).unwrap();
    assert!(scope.insert("a").unwrap().would_be().is_none());
    assert_eq!(scope.insert("b").unwrap().action(), Action::Ack);
}

/// Whatever keeps a message out is let through, counted by its kind; what may come again waits.
#[test]
fn each_verdict_that_keeps_out_is_observed_by_its_kind() {
    let store = memory();
    let scope = store
        .scope("s", policy().payloads().attempts_max(1))
        .unwrap();
    let rows = store.table("rows").unwrap();
    let handler = scope.handler(Source::AckOnce);
    let take = |id: &str| scope.claim(id).unwrap().first().unwrap();
    take("failed").fail(Failure::Permanent, "no").unwrap();
    let mut batch = store.batch();
    batch.once(&scope, "dead").dead_letter("poison", b"1");
    batch.once(&scope, Id::new("paid").payload("10"));
    let _ = batch.commit().unwrap();
    let mut claim = take("unknown");
    claim.start().outcome_unknown("timeout").unwrap();
    take("exhausted").release().unwrap();
    let held = take("held");

    scope.set_mode(Mode::ObserveOnly).unwrap();
    let put = |id: Id<'_>| {
        let mut batch = store.batch();
        batch.once(&scope, id).put(&rows, "last", id_text(&id));
        batch.commit().unwrap()[0].clone()
    };
    for (id, instead) in [
        (
            Id::new("failed"),
            (|v| matches!(v, Verdict::Failed(_))) as fn(&Verdict) -> bool,
        ),
        (Id::new("dead"), |v| matches!(v, Verdict::DeadLettered(_))),
        (Id::new("paid").payload("11"), |v| {
            matches!(v, Verdict::PayloadMismatch(_))
        }),
        (Id::new("unknown"), |v| {
            matches!(v, Verdict::OutcomeUnknown(_))
        }),
        (Id::new("exhausted"), |v| {
            matches!(v, Verdict::DeadLettered(_))
        }),
        (Id::new(""), |v| matches!(v, Verdict::BadId(_))),
    ] {
        is_let_through(&put(id), instead);
        assert_eq!(rows.get("last").unwrap().as_deref(), Some(&*id_text(&id)));
        let mut ran = 0;
        let inside = handler.process(firstseen::Message::new(id), |_| {
            ran += 1;
            Ok::<_, Oops>(())
        });
        is_let_through(inside.verdict().unwrap(), instead);
        let outside = handler.perform(firstseen::Message::new(id), |_| {
            ran += 1;
            Ok::<_, Oops>(())
        });
        is_let_through(outside.verdict().unwrap(), instead);
        assert_eq!(ran, 2);
    }
    assert!(matches!(put(Id::new("held")), Verdict::InProgress(_)));
    let n = observed(&store);
    let counts = [
        n.failed,
        n.dead_lettered,
        n.payload_mismatches,
        n.outcome_unknown,
        n.bad_ids,
    ];
    assert_eq!(counts, [3, 6, 3, 3, 3]);
    // Nothing that was known has changed, and no attempt was made that nobody ordered.
    let state = |id: &str| scope.peek(id).unwrap().unwrap().state();
    assert_eq!(state("failed"), IdState::Failed);
    assert_eq!(state("dead"), IdState::DeadLettered);
    assert_eq!(state("unknown"), IdState::OutcomeUnknown);
    assert_eq!(state("exhausted"), IdState::Waiting);
    assert_eq!(scope.dead_letters().unwrap().count(), 1);
    drop(held);
}

fn id_text(id: &Id<'_>) -> Vec<u8> {
    format!("{id:?}").into_bytes()
}

/// A claim of what is known is none: its rows are written, and the id stays as it is.
#[test]
fn work_on_a_known_id_writes_its_rows_and_leaves_the_id() {
    let store = memory();
    let (scope, sums) = (observing(&store), store.guarded_table("sums").unwrap());
    let mut first = scope.claim("a").unwrap().first().unwrap();
    first.complete("first", |_| {}).unwrap();
    let verdict = scope.claim("a").unwrap();
    is_let_through(&verdict, Verdict::is_duplicate);
    let mut claim = verdict.first().unwrap();
    claim.start().renew().unwrap();
    assert!(!claim.is_lost());
    let add = |w: &mut firstseen::Writes<'_>| {
        w.add(&sums, "a", 1, ..);
    };
    claim.complete("second", add).unwrap();
    for how in [Failure::Retryable, Failure::Permanent] {
        let mut claim = scope.claim("a").unwrap().first().unwrap();
        claim.fail(how, "no").unwrap();
    }
    let mut batch = store.batch();
    let claim = scope.claim("a").unwrap().first().unwrap();
    batch.complete(&claim, "third").add(&sums, "a", 1, ..);
    assert!(batch.commit().unwrap()[0].is_first());
    assert!(scope.reclaim(&claim.token()).is_err());
    drop(claim);
    assert_eq!(counter(&sums, "a"), Some(2));
    assert_eq!(
        scope.peek("a").unwrap().unwrap().result(),
        Some(&b"first"[..])
    );
    assert!(scope.claims().unwrap().is_empty());
    let missing = scope.claim(None::<&[u8]>).unwrap();
    is_let_through(&missing, |v| matches!(v, Verdict::BadId(_)));
    let n = observed(&store);
    assert_eq!((n.duplicates, n.bad_ids), (4, 1));
}

/// A poison message that is delivered again is kept again; without an id nobody can keep it.
#[test]
fn poison_is_never_let_through_into_nowhere() {
    let store = memory();
    let (scope, rows) = (observing(&store), store.table("rows").unwrap());
    let handler = scope.handler(Source::AckOnce);
    let poison = |body: &str, id: &str| {
        let message = firstseen::Message::new(id).payload(body);
        let handled = handler.process(message, |tx| {
            tx.put(&rows, "x", "y");
            Err::<(), _>(Oops(firstseen::FailureKind::Poison))
        });
        handled.action()
    };
    let _ = scope.insert("a").unwrap();
    assert_eq!(poison("late poison", "a"), Action::Ack);
    let dead = scope.dead_letters().unwrap().next().unwrap().unwrap();
    assert_eq!(&dead.payload[..], b"late poison");
    assert_eq!(scope.peek("a").unwrap().unwrap().state(), IdState::Done);
    assert_eq!(poison("no id", ""), Action::DeadLetter);
    let mut batch = store.batch();
    batch.once(&scope, "").dead_letter("poison", b"body");
    let verdicts = batch.commit().unwrap();
    assert_eq!(verdicts[0].action(), Action::DeadLetter);
    assert_eq!(rows.get("x").unwrap(), None);
    let outside = handler.perform(firstseen::Message::new(""), |_| {
        Err::<(), _>(Oops(firstseen::FailureKind::Poison))
    });
    assert_eq!(outside.action(), Action::DeadLetter);
}

/// A held batch does what its hold said, whatever is switched meanwhile.
#[test]
fn a_held_batch_is_committed_as_it_was_held() {
    let store = memory();
    let (scope, rows) = (observing(&store), store.table("rows").unwrap());
    let _ = scope.insert("a").unwrap();
    let mut batch = store.batch();
    batch.once(&scope, "a");
    assert!(batch.hold().unwrap()[0].is_first());
    scope.set_mode(Mode::Enforce).unwrap();
    batch.item(0).put(&rows, "a", "let through");
    assert!(batch.commit().unwrap()[0].is_first());
    assert!(rows.get("a").unwrap().is_some());
    batch.once(&scope, "a");
    assert!(!batch.hold().unwrap()[0].is_first());
    scope.set_mode(Mode::ObserveOnly).unwrap();
    assert_eq!(batch.commit().unwrap()[0].action(), Action::Ack);
}

/// Sliding ids live on by their sights, as they would enforced.
#[test]
fn a_sliding_id_is_prolonged_all_the_same() {
    let (store, clock) = timed();
    let policy = Policy::sliding(secs(60), secs(600)).mode(Mode::ObserveOnly);
    let scope = store.scope("s", policy).unwrap();
    let handler = scope.handler(Source::AckOnce);
    let _ = scope.insert("a").unwrap();
    for _ in 0..3 {
        clock.advance(secs(50));
        let handled = handler.process(message("a"), |_| Ok::<_, Oops>(()));
        is_let_through(handled.verdict().unwrap(), Verdict::is_duplicate);
        clock.advance(secs(50));
        is_let_through(&scope.insert("a").unwrap(), Verdict::is_duplicate);
    }
}

/// Switches are the run's own: nothing that is stored turns dedup off. A store that is looked at
/// from outside shows them.
#[test]
fn switches_are_set_by_policies_and_calls_and_shown_from_outside() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Store::open(dir.path(), Options::new().background(false)).unwrap();
    let plain = || Policy::remember(days(7));
    let switches = |store: &Store| {
        let stats = store.stats().unwrap();
        (stats.scopes[0].mode, stats.scopes[0].on_store_error)
    };
    let store = open();
    let scope = store.scope("s", plain().mode(Mode::ObserveOnly)).unwrap();
    scope.set_on_store_error(OnStoreError::Open).unwrap();
    // A handle that says nothing leaves them; each says its own.
    let other = store.scope("s", plain()).unwrap();
    assert_eq!(other.mode(), Mode::ObserveOnly);
    let both = (Mode::ObserveOnly, OnStoreError::Open);
    assert_eq!(switches(&store), both);
    let closed = store.scope("s", plain().on_store_error(OnStoreError::Closed));
    assert_eq!(closed.unwrap().mode(), Mode::ObserveOnly);
    scope.set_on_store_error(OnStoreError::Open).unwrap();
    let look = || Store::open_read_only(dir.path(), Options::new()).unwrap();
    assert_eq!(switches(&look()), both);
    drop((scope, other));
    store.close().unwrap();
    assert_eq!(switches(&look()), both);
    // The next run says nothing of it: it enforces and is closed.
    let store = open();
    let found = store.existing_scope("s").unwrap().unwrap();
    assert_eq!(found.mode(), Mode::Enforce);
    let scope = store.scope("s", plain()).unwrap();
    let neither = (Mode::Enforce, OnStoreError::Closed);
    assert_eq!((scope.mode(), scope.on_store_error()), neither);
    assert_eq!(switches(&look()), neither);
    let gone = store.clone();
    store.close().unwrap();
    assert!(scope.set_mode(Mode::ObserveOnly).is_err());
    assert_eq!(scope.mode(), Mode::ObserveOnly);
    drop(gone);
}

/// Messages without an id are processed by policy, and are no observation.
#[test]
fn what_a_policy_lets_through_is_not_observed() {
    let store = memory();
    let policy = policy()
        .mode(Mode::ObserveOnly)
        .on_missing_id(OnMissingId::Process);
    let scope = store.scope("s", policy).unwrap();
    let verdict = scope.insert(None::<&[u8]>).unwrap();
    assert_eq!(verdict, Verdict::First(()));
    assert_eq!(store.stats().unwrap().unkeyed, 1);
    assert_eq!(observed(&store), VerdictStats::default());
}

/// A commit that fails lets nothing through.
#[test]
fn a_failed_commit_is_no_effect_and_no_count() {
    let store = memory();
    let scope = observing(&store);
    let sums = store.guarded_table("sums").unwrap();
    let _ = scope.insert("a").unwrap();
    let handler = scope.handler(Source::AckOnce);
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    let run = || {
        handler.process(message("a"), |tx| {
            tx.add(&sums, "a", 1, ..);
            Ok::<_, Oops>(())
        })
    };
    assert!(matches!(run().action(), Action::Retry(_)));
    assert_eq!(
        (counter(&sums, "a"), observed(&store).duplicates),
        (None, 0)
    );
    assert_eq!(run().action(), Action::Proceed);
    assert_eq!(
        (counter(&sums, "a"), observed(&store).duplicates),
        (Some(1), 1)
    );
}
