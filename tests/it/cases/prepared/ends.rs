//! The ends of a transaction: any number of times, whoever asks, and the errors between them.

use std::time::Duration;

use firstseen::{
    AuditEvent, Clock, ErrorKind, ManualClock, Mode, Options, Recorded, Store, Verdict,
};

use super::super::{expect_error, expect_invalid, ms, quiet, secs};
use super::{World, is_first};

#[test]
fn each_end_may_be_asked_for_again_and_excludes_the_other() {
    let world = World::new();
    is_first(&world.order("a", 1).prepare("yes").unwrap());
    let first = world.store.commit_prepared("yes").unwrap();
    is_first(&world.order("b", 2).prepare("no").unwrap());
    world.store.abort_prepared("no", "a test").unwrap();
    let mut world = world;
    for _ in 0..2 {
        let again = world.store.commit_prepared("yes").unwrap();
        assert_eq!((again.ids, again.ended_at), (1, first.ended_at));
        assert!(again.is_repeat);
        assert!(world.store.abort_prepared("no", "again").unwrap().is_repeat);
        let late = world.store.commit_prepared("no");
        let error = expect_error(late, ErrorKind::TransactionEnded, Recorded::No);
        assert!(error.to_string().contains("was aborted"), "{error}");
        let late = world.store.abort_prepared("yes", "a test");
        expect_error(late, ErrorKind::TransactionEnded, Recorded::No);
        let unknown = world.store.commit_prepared("other");
        expect_error(unknown, ErrorKind::UnknownTransaction, Recorded::No);
        let unknown = world.store.abort_prepared("other", "a test");
        expect_error(unknown, ErrorKind::UnknownTransaction, Recorded::No);
        world.expect("a", true, 4, Some(1));
        world = world.crashed();
    }
    let audited = world.store.audit().unwrap().count();
    assert_eq!(audited, 1, "only the abort that did something");
}

#[test]
fn of_concurrent_ends_one_does_it_and_all_are_told() {
    let world = World::new();
    for round in 0..20 {
        let (id, txn) = (format!("id-{round}"), format!("t-{round}"));
        let mut batch = world.store.batch();
        batch.once(&world.ids, &id);
        is_first(&batch.prepare(&txn).unwrap());
        let did: usize = std::thread::scope(|threads| {
            let end = |commits: bool| {
                let (store, txn) = (&world.store, &txn);
                threads.spawn(move || match commits {
                    true => store.commit_prepared(txn),
                    false => store.abort_prepared(txn, "a test"),
                })
            };
            let ends: Vec<_> = [true, true, false, true].map(end).into_iter().collect();
            let told = ends.into_iter().map(|e| e.join().unwrap());
            let did = told.filter(|told| match told {
                Ok(outcome) => !outcome.is_repeat,
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::TransactionEnded);
                    false
                }
            });
            did.count()
        });
        assert_eq!(did, 1, "round {round}");
        let committed = world.store.commit_prepared(&txn).is_ok();
        assert_eq!(world.ids.peek(&id).unwrap().is_some(), committed);
    }
}

#[test]
fn a_name_is_used_once() {
    let world = World::new();
    is_first(&world.order("a", 1).prepare("t").unwrap());
    let mut again = world.store.batch();
    again.once(&world.ids, "b");
    let error = expect_error(again.prepare("t"), ErrorKind::InDoubt, Recorded::No);
    assert!(error.to_string().contains("t is prepared"), "{error}");
    world.store.commit_prepared("t").unwrap();
    expect_error(
        again.prepare("t"),
        ErrorKind::TransactionEnded,
        Recorded::No,
    );
    // The batch is as it was.
    is_first(&again.prepare("t2").unwrap());
    let mut bad = world.store.batch();
    bad.once(&world.ids, "c");
    for name in [String::new(), "x".repeat(257)] {
        expect_invalid(bad.prepare(&name), "txn_bytes_max");
    }
    is_first(&bad.prepare("x".repeat(256)).unwrap());
}

/// As many ends as asked for are remembered, for as long as asked for; a name is free after that.
#[test]
fn ends_are_remembered_in_bounds() {
    let clock = ManualClock::new();
    let options = || {
        quiet()
            .clock(Clock::Manual(clock.clone()))
            .outcomes_max(3)
            .outcomes_for(secs(60))
    };
    let end = |world: &World, name: &str| {
        let mut batch = world.store.batch();
        batch.once(&world.ids, name);
        let _ = batch.prepare(name).unwrap();
        world.store.commit_prepared(name).unwrap();
    };
    let known = |world: &World, name: &str| world.store.commit_prepared(name).is_ok();
    let mut world = World::of(Store::in_memory(options()).unwrap());
    for name in ["a", "b", "c", "d", "e"] {
        end(&world, name);
        clock.advance(secs(10));
    }
    for _ in 0..2 {
        let all = ["a", "b", "c", "d", "e"].map(|name| known(&world, name));
        assert_eq!(all, [false, false, true, true, true]);
        world = world.crashed();
    }
    // `e` ended ten seconds ago.
    clock.advance(secs(50) - ms(1));
    assert!(known(&world, "e") && !known(&world, "d"));
    clock.advance(ms(1));
    assert!(!known(&world, "e"));
    end(&world, "e");
    world = world.crashed();
    assert!(known(&world, "e"), "a name used anew is remembered anew");
}

#[test]
fn how_many_may_be_prepared_and_how_large_is_bounded() {
    let options = Options::new().prepared_max(2).prepared_bytes_max(2_000);
    let world = World::of(Store::in_memory(options.background(false)).unwrap());
    let prepare = |name: &str, bytes: usize| {
        let mut batch = world.store.batch();
        batch
            .once(&world.ids, name)
            .put(&world.rows, name, vec![0; bytes]);
        batch.prepare(name)
    };
    is_first(&prepare("a", 1_000).unwrap());
    let error = expect_error(prepare("b", 1_000), ErrorKind::Full, Recorded::No);
    assert!(error.to_string().contains("prepared_bytes_max"), "{error}");
    is_first(&prepare("b", 500).unwrap());
    let error = expect_error(prepare("c", 1), ErrorKind::Full, Recorded::No);
    assert!(error.to_string().contains("prepared_max"), "{error}");
    let stats = world.store.stats().unwrap().prepared;
    assert_eq!(stats.now, 2);
    assert!((1_500..2_000).contains(&stats.bytes), "{}", stats.bytes);
    world.store.abort_prepared("a", "a test").unwrap();
    is_first(&prepare("c", 1_000).unwrap());
    for name in ["b", "c"] {
        world.store.commit_prepared(name).unwrap();
    }
    let stats = world.store.stats().unwrap().prepared;
    assert_eq!((stats.now, stats.bytes), (0, 0));
    assert_eq!((stats.committed, stats.aborted, stats.oldest), (2, 1, None));
}

#[test]
fn by_hand_needs_a_reason_and_is_audited() {
    let world = World::new();
    is_first(&world.order("a", 1).prepare("t").unwrap());
    expect_invalid(world.store.abort_prepared("t", ""), "needs a reason");
    expect_invalid(
        world.store.commit_prepared_by_hand("t", ""),
        "needs a reason",
    );
    world.expect("a", false, 5, None);
    let why = firstseen::Why::new("the job is gone").by("ada");
    world.store.commit_prepared_by_hand("t", why).unwrap();
    world.expect("a", true, 4, Some(1));
    let entry = world.store.audit().unwrap().next().unwrap().unwrap();
    let settled = AuditEvent::TransactionSettled {
        txn: "t".into(),
        committed: true,
    };
    assert_eq!((entry.event, entry.who.as_deref()), (settled, Some("ada")));
}

/// A commit needs room like any other: without it within `wait_max` it is `Busy`, and made later.
#[test]
fn an_end_that_could_not_be_written_may_be_asked_for_again() {
    let world = World::new();
    is_first(&world.order("a", 1).prepare("t").unwrap());
    let failure = firstseen::NextCommit::NotRecorded;
    world.store.fail_next_commit(failure).unwrap();
    assert_eq!(
        world.store.commit_prepared("t").unwrap_err().recorded(),
        Recorded::No
    );
    world.expect("a", false, 5, None);
    assert_eq!(world.names(), ["t"]);
    world.store.commit_prepared("t").unwrap();
    world.expect("a", true, 4, Some(1));

    let mut batch = world.order("b", 2);
    world.store.fail_next_commit(failure).unwrap();
    assert_eq!(batch.prepare("t2").unwrap_err().recorded(), Recorded::No);
    assert!(world.names().is_empty());
    is_first(&batch.prepare("t2").unwrap());
    world.store.commit_prepared("t2").unwrap();
    world.expect("b", true, 3, Some(2));
    assert_eq!(
        world.store.stats().unwrap().prepared.oldest,
        None::<Duration>
    );
}

/// Messages of a prepared transaction get their numbers when it is committed, behind those that
/// were committed meanwhile; those of an aborted one never come.
#[test]
fn messages_are_numbered_by_the_commit_that_ends_the_transaction() {
    let world = World::new();
    let mails = world.store.outbox("mails").unwrap();
    let prepare = |txn: &str| {
        let mut batch = world.store.batch();
        batch.once(&world.ids, txn).send(&mails, txn);
        assert!(batch.prepare(txn).unwrap()[0].is_first());
    };
    prepare("late");
    prepare("never");
    assert!(mails.drain(9).unwrap().is_empty());
    let mut batch = world.store.batch();
    batch.once(&world.ids, "early").send(&mails, "early");
    assert!(batch.commit().unwrap()[0].is_first());
    world.store.abort_prepared("never", "a test").unwrap();
    let world = world.crashed();
    world.store.commit_prepared("late").unwrap();
    world.store.commit_prepared("late").unwrap();
    let mails = world.store.outbox("mails").unwrap();
    let drained = mails.drain(9).unwrap();
    let told = drained.iter().map(|m| (m.id.number(), &m.payload[..]));
    assert_eq!(told.collect::<Vec<_>>(), [(1, &b"early"[..]), (2, b"late")]);
}

/// A scope's number of dead letters counts those of a transaction from its commit on.
#[test]
fn dead_letters_count_when_the_transaction_is_committed() {
    let world = World::new();
    let letters = |world: &World| world.store.stats().unwrap().scopes[0].dead_letters;
    for txn in ["given up", "aborted"] {
        let mut batch = world.store.batch();
        batch.once(&world.ids, txn).dead_letter("no sense", b"");
        assert_eq!(batch.prepare(txn).unwrap().len(), 1);
    }
    assert_eq!(letters(&world), 0);
    world.store.abort_prepared("aborted", "a test").unwrap();
    world.store.commit_prepared("given up").unwrap();
    assert_eq!(letters(&world), 1);
    let world = world.crashed();
    assert_eq!(letters(&world), 1);
}

/// A scope that only observes lets a duplicate's effect through at the commit, and what is known of
/// the id stays.
#[test]
fn what_a_scope_only_observes_takes_effect_at_the_commit() {
    let world = World::new();
    let mut batch = world.order("a", 1);
    assert!(batch.commit().unwrap()[0].is_first());
    let known = world.ids.peek("a").unwrap().unwrap().first_seen_at();
    world.ids.set_mode(Mode::ObserveOnly).unwrap();
    let mut batch = world.store.batch();
    batch.once(&world.ids, "a").put(&world.rows, "a", "again");
    let verdicts = batch.prepare("txn").unwrap();
    assert!(matches!(verdicts[0], Verdict::Observed(..)), "{verdicts:?}");
    assert_eq!(&world.rows.get("a").unwrap().unwrap()[..], b"sold");
    world.store.commit_prepared("txn").unwrap();
    assert_eq!(&world.rows.get("a").unwrap().unwrap()[..], b"again");
    let still = world.ids.peek("a").unwrap().unwrap().first_seen_at();
    assert_eq!(known, still);
}
