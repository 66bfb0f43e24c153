//! Dead letters: what is given up, why, and how it comes back.

use firstseen::{Action, AuditEvent, DeadLetter, Error, Failure, Id, IdState, Scope, Verdict};

use super::super::{expect_invalid, memory, put_once, secs, timed, week};
use super::{begin, jobs, policy, take};

fn letters(scope: &Scope) -> Vec<DeadLetter> {
    scope.dead_letters().unwrap().map(Result::unwrap).collect()
}

/// C6: a slow job was reaped again and again, its attempts went down, it never reached the dead
/// letters.
#[test]
fn attempts_only_rise_and_at_the_limit_the_id_is_dead_lettered() {
    let (store, clock) = timed();
    let jobs = store.scope("jobs", policy().attempts_max(4)).unwrap();
    let id = Id::new("slow").reference("orders/3@17");
    for attempt in 1..=4 {
        let mut claim = jobs.claim(id).unwrap().first().unwrap();
        assert_eq!(claim.attempt(), attempt);
        claim.start();
        match attempt {
            // However it ends without an outcome, and over crashes too.
            1 => claim.fail(Failure::Retryable, "refused").unwrap(),
            2 => claim.release().unwrap(),
            _ => drop(claim),
        }
        clock.advance(secs(30));
    }
    let verdict = jobs.claim("slow").unwrap();
    let Verdict::DeadLettered(seen) = &verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!((seen.attempt(), verdict.action()), (Some(4), Action::Ack));
    assert!(matches!(
        jobs.insert("slow").unwrap(),
        Verdict::DeadLettered(_)
    ));
    let letter = &letters(&jobs)[0];
    assert_eq!(letter.id, "slow");
    assert_eq!(letter.attempts, 4);
    assert_eq!(letter.why, "no outcome after 4 attempts: its lease ran out");
    assert_eq!(letter.reference, "orders/3@17");
    assert!(jobs.claims().unwrap().is_empty());
    let seen = jobs.peek("slow").unwrap().unwrap();
    assert_eq!(seen.state(), IdState::DeadLettered);
}

/// The last failure goes to the dead letters itself.
#[test]
fn the_failure_at_the_limit_says_why() {
    let store = memory();
    let jobs = store.scope("jobs", policy().attempts_max(2)).unwrap();
    begin(&jobs, "a").fail(Failure::Retryable, "one").unwrap();
    begin(&jobs, "a").fail(Failure::Retryable, "two").unwrap();
    assert_eq!(letters(&jobs)[0].why, "no outcome after 2 attempts: two");
    assert!(matches!(jobs.claim("a").unwrap(), Verdict::DeadLettered(_)));
}

/// An ordinary batch that meets an id at its limit gives it up as well, with its commit.
#[test]
fn a_batch_gives_up_what_is_at_its_limit() {
    let (store, clock) = timed();
    let jobs = store.scope("jobs", policy().attempts_max(1)).unwrap();
    let rows = store.table("rows").unwrap();
    drop(begin(&jobs, "a"));
    clock.advance(secs(30));
    for _ in 0..2 {
        let mut batch = store.batch();
        batch.once(&jobs, "a").put(&rows, "a", "x");
        batch.once(&jobs, "b").put(&rows, "b", "x");
        let verdicts = batch.commit().unwrap();
        assert!(matches!(verdicts[0], Verdict::DeadLettered(_)));
    }
    assert_eq!(rows.get("a").unwrap(), None);
    assert!(rows.get("b").unwrap().is_some());
    assert_eq!(letters(&jobs).len(), 1);
}

/// V1: a dead-lettered id could not be replayed.
#[test]
fn a_dead_letter_can_be_redriven_and_its_limit_counts_anew() {
    let store = memory();
    let jobs = store.scope("jobs", policy().attempts_max(2)).unwrap();
    let fail = || begin(&jobs, "a").fail(Failure::Retryable, "x").unwrap();
    fail();
    fail();
    assert!(!jobs.redrive("b", "a mistake").unwrap());
    expect_invalid(jobs.redrive("a", ""), "reason");
    for attempt in [3, 5] {
        store.compact().unwrap();
        assert!(jobs.redrive("a", "the bank is back").unwrap());
        assert!(!jobs.redrive("a", "once is enough").unwrap());
        assert!(letters(&jobs).is_empty());
        let claim = take(&jobs, "a");
        assert_eq!(claim.attempt(), attempt);
        drop(claim);
        fail();
        assert!(matches!(jobs.claim("a").unwrap(), Verdict::DeadLettered(_)));
    }
    assert!(jobs.redrive("a", "again").unwrap());
    begin(&jobs, "a").complete("ok", |_| {}).unwrap();
    assert!(jobs.claim("a").unwrap().is_duplicate());
    assert!(!jobs.redrive("a", "it is done").unwrap());
    let audit: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    assert_eq!(audit.len(), 3);
    assert!(matches!(&audit[0].event, AuditEvent::Redriven { scope, id }
        if scope == "jobs" && id == "a"));
}

#[test]
fn a_purged_dead_letter_is_gone_and_its_id_stays_dead() {
    let store = memory();
    let jobs = store.scope("jobs", policy().attempts_max(1)).unwrap();
    begin(&jobs, "a").fail(Failure::Retryable, "x").unwrap();
    assert!(jobs.purge("a", "seen by support").unwrap());
    assert!(!jobs.purge("a", "seen by support").unwrap());
    assert!(letters(&jobs).is_empty());
    assert!(matches!(jobs.claim("a").unwrap(), Verdict::DeadLettered(_)));
    let audit: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    assert!(matches!(&audit[0].event, AuditEvent::Purged { id, .. } if id == "a"));
    assert_eq!(audit[0].why, "seen by support");
    // Also without its letter it can be brought back.
    assert!(jobs.redrive("a", "after all").unwrap());
    assert_eq!(take(&jobs, "a").attempt(), 2);
}

/// A poison message is settled in the commit of its batch.
#[test]
fn a_poison_message_is_dead_lettered_in_the_same_commit() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let mut batch = store.batch();
    batch.once(&ids, "good").put(&rows, "good", "x");
    batch.once(&ids, "bad").dead_letter("no JSON", b"{");
    batch.once(&ids, "bad").put(&rows, "bad", "x");
    batch.resume_at("orders/3", 2);
    let verdicts = batch.commit().unwrap();
    assert!(verdicts[0].is_first() && verdicts[1].is_first());
    assert!(matches!(verdicts[2], Verdict::DeadLettered(_)));
    assert!(matches!(
        ids.insert("bad").unwrap(),
        Verdict::DeadLettered(_)
    ));
    let letter = &letters(&ids)[0];
    assert_eq!((&letter.payload[..], &*letter.why), (&b"{"[..], "no JSON"));
    let verdict = ids.once("worse", |tx| {
        tx.dead_letter("no sense", b"?");
        Ok::<_, Error>(())
    });
    assert!(verdict.unwrap().is_first());
    assert_eq!(letters(&ids).len(), 2);
    // Once mended, the message may be processed.
    assert!(ids.redrive("bad", "the parser was wrong").unwrap());
    assert!(put_once(&store, &ids, &rows, "bad").unwrap().is_first());
    assert!(put_once(&store, &ids, &rows, "bad").unwrap().is_duplicate());
    let mut batch = store.batch();
    batch.always().dead_letter("of no message", b"");
    expect_invalid(batch.commit(), "dead-lettered");
}

/// What is refused may be given up instead.
#[test]
fn a_refusal_can_be_a_dead_letter() {
    let store = memory();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch
        .once(&ids, "a")
        .add(&stock, "tea", -1, 0..)
        .if_refused(|w| {
            w.dead_letter("sold out", b"order a");
        });
    assert!(matches!(batch.commit().unwrap()[0], Verdict::Refused(r) if r.is_settled()));
    assert!(matches!(ids.insert("a").unwrap(), Verdict::DeadLettered(_)));
    assert_eq!(letters(&ids)[0].why, "sold out");
}

#[test]
fn dead_letters_are_listed_by_scope_and_go_with_it() {
    let store = memory();
    let jobs = jobs(&store);
    let ids = week(&store);
    for (scope, id) in [(&jobs, "a"), (&ids, "b"), (&ids, "c")] {
        let mut batch = store.batch();
        batch.once(scope, id).dead_letter("x", b"");
        let _ = batch.commit().unwrap();
    }
    assert_eq!((letters(&jobs).len(), letters(&ids).len()), (1, 2));
    assert!(store.drop_scope("ids").unwrap());
    expect_invalid(ids.dead_letters(), "dropped");
    let anew = week(&store);
    assert_eq!((letters(&anew).len(), letters(&jobs).len()), (0, 1));
}

/// What an earlier item of the batch gave up under the older id is given up once.
#[test]
fn an_id_given_up_by_its_batch_is_not_given_up_again_under_a_newer_form() {
    let (store, clock) = timed();
    let jobs = store.scope("jobs", policy().attempts_max(1)).unwrap();
    drop(begin(&jobs, "old"));
    clock.advance(secs(30));
    let ids = [Id::new("old"), Id::new("new").also("old")];
    for verdict in jobs.insert_all(ids).unwrap() {
        assert!(matches!(verdict, Verdict::DeadLettered(_)), "{verdict:?}");
    }
    assert_eq!(letters(&jobs).len(), 1);
}
