//! How a claim ends, and what later calls are told.

use firstseen::{
    Action, AuditEvent, Decided, ErrorKind, Failure, Id, IdState, OnUnknown, Policy, Recorded,
    Token, Verdict, days,
};

use super::super::{expect_error, expect_invalid, memory, ms, nap, put_once, secs, timed};
use super::{begin, is_in_progress, jobs, policy, take};

/// D2: completion's error was logged and swallowed. Rows and result are there with the id, or
/// nothing is.
#[test]
fn completion_brings_rows_and_result_or_an_error() {
    let store = memory();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    let mut claim = begin(&jobs, "a");
    store
        .fail_next_commit(firstseen::NextCommit::NotRecorded)
        .unwrap();
    let mut complete = || {
        claim.complete("receipt", |w| {
            w.put(&rows, "a", "paid");
        })
    };
    expect_error(complete(), ErrorKind::Busy, Recorded::No);
    assert_eq!(rows.get("a").unwrap(), None);
    complete().unwrap();
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"paid"[..]));
    let Verdict::Duplicate(seen) = jobs.claim("a").unwrap() else {
        panic!("not recorded");
    };
    assert_eq!(seen.result(), Some(&b"receipt"[..]));
    assert_eq!((seen.attempt(), seen.state()), (Some(1), IdState::Done));
    assert!(jobs.claims().unwrap().is_empty());
}

#[test]
fn a_condition_that_fails_leaves_the_claim_as_it_was() {
    let store = memory();
    let (jobs, stock) = (jobs(&store), store.guarded_table("stock").unwrap());
    let mut claim = begin(&jobs, "a");
    let refused = claim.complete("x", |w| {
        w.add(&stock, "tea", -1, 0..);
    });
    expect_invalid(refused, "did not hold");
    is_in_progress(&jobs.claim("a").unwrap());
    claim
        .complete("y", |w| {
            w.add(&stock, "tea", 5, 0..);
        })
        .unwrap();
    assert_eq!(super::super::counter(&stock, "tea"), Some(5));
}

/// Retention counts from completion, for the result of the work is what is asked for then.
#[test]
fn retention_counts_from_completion() {
    let (store, clock) = timed();
    let minute = Policy::remember(secs(60)).lease(secs(600)).wait(secs(0));
    let jobs = store.scope("jobs", minute).unwrap();
    let first_seen = clock.now();
    let mut claim = begin(&jobs, "a");
    clock.advance(secs(100));
    claim.complete("", |_| {}).unwrap();
    clock.advance(ms(59_999));
    let seen = jobs.peek("a").unwrap().unwrap();
    assert_eq!(seen.first_seen_at(), first_seen);
    assert!(jobs.insert("a").unwrap().is_duplicate());
    clock.advance(ms(1));
    assert_eq!(take(&jobs, "a").attempt(), 1);
}

/// L2 and V7: a retryable failure frees the id and keeps the count; it is never replayed.
#[test]
fn a_retryable_failure_frees_the_id_and_keeps_the_attempts() {
    let (store, clock) = timed();
    let rests = policy().backoff(secs(5));
    let jobs = store.scope("jobs", rests).unwrap();
    let mut claim = begin(&jobs, "a");
    claim.fail(Failure::Retryable, "no connection").unwrap();
    let Verdict::InProgress(p) = jobs.claim("a").unwrap() else {
        panic!("it rests");
    };
    assert_eq!(p.retry_after(), secs(5));
    let seen = jobs.peek("a").unwrap().unwrap();
    assert_eq!((seen.state(), seen.result()), (IdState::Waiting, None));
    assert_eq!(jobs.claims().unwrap()[0].why, "no connection");
    clock.advance(secs(5));
    assert_eq!(begin(&jobs, "a").attempt(), 2);
}

/// L4 and V7: a permanent failure is sticky and replayed, and never "done".
#[test]
fn a_permanent_failure_is_replayed_and_is_no_completion() {
    let store = memory();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    let mut claim = begin(&jobs, "a");
    claim.fail(Failure::Permanent, "declined").unwrap();
    for _ in 0..3 {
        let Verdict::Failed(seen) = jobs.claim("a").unwrap() else {
            panic!("not sticky");
        };
        assert_eq!(seen.result(), Some(&b"declined"[..]));
        assert_eq!(seen.state(), IdState::Failed);
        let verdict = put_once(&store, &jobs, &rows, "a").unwrap();
        assert!(matches!(verdict, Verdict::Failed(_)) && !verdict.is_duplicate());
        assert_eq!(verdict.action(), Action::Ack);
    }
    assert_eq!(rows.get("a").unwrap(), None);
    expect_error(
        claim.complete("", |_| {}),
        ErrorKind::LeaseLost,
        Recorded::No,
    );
}

/// R2: an expired *failed* record blocked the retry. Every state obeys its expiry.
#[test]
fn every_state_obeys_its_expiry() {
    let (store, clock) = timed();
    let minute = Policy::remember(secs(60)).lease(secs(10)).wait(secs(0));
    let jobs = store.scope("jobs", minute.attempts_max(1)).unwrap();
    begin(&jobs, "failed").fail(Failure::Permanent, "").unwrap();
    begin(&jobs, "dead").fail(Failure::Retryable, "").unwrap();
    begin(&jobs, "unknown").outcome_unknown("?").unwrap();
    drop(begin(&jobs, "lapsed"));
    drop(take(&jobs, "released"));
    let names = ["failed", "dead", "unknown", "lapsed", "released"];
    clock.advance(ms(59_999));
    for id in names {
        assert!(jobs.peek(id).unwrap().is_some(), "{id} is remembered");
    }
    clock.advance(ms(1));
    for id in names {
        assert_eq!(jobs.peek(id).unwrap(), None, "{id}");
        assert_eq!(take(&jobs, id).attempt(), 1, "{id}");
    }
}

/// L5: an empty outcome kept the id, and the real message was skipped later.
#[test]
fn a_claim_may_end_without_a_record() {
    let store = memory();
    let jobs = jobs(&store);
    take(&jobs, "a").release().unwrap();
    let mut batch = store.batch();
    let claim = begin(&jobs, "a");
    batch.complete(&claim, "nothing").decline();
    assert_eq!(batch.commit().unwrap()[..], [Verdict::Declined(())]);
    is_in_progress(&jobs.claim("a").unwrap());
    assert_eq!(claim.attempt(), 2);
}

/// L6: the source was acknowledged on a timeout, the id not stored; the redelivery ran again.
#[test]
fn an_unknown_outcome_is_a_state_of_its_own_until_somebody_decides() {
    let store = memory();
    let jobs = jobs(&store);
    for (id, what) in [
        ("a", Decided::Done),
        ("b", Decided::Failed),
        ("c", Decided::Retry),
    ] {
        assert!(!jobs.decide(id, what, "too early").unwrap());
        begin(&jobs, id).outcome_unknown("timeout").unwrap();
        let verdict = jobs.claim(id).unwrap();
        assert!(matches!(verdict, Verdict::OutcomeUnknown(_)), "{verdict:?}");
        assert!(matches!(verdict.action(), Action::Retry(_)));
        let verdict = jobs.insert(id).unwrap();
        assert!(matches!(verdict, Verdict::OutcomeUnknown(_)), "{verdict:?}");
        let listed = &jobs.claims().unwrap()[0];
        assert_eq!(
            (listed.state, &*listed.why),
            (IdState::OutcomeUnknown, "timeout")
        );
        assert!(jobs.decide(id, what, "the bank says so").unwrap());
    }
    assert!(jobs.claim("a").unwrap().is_duplicate());
    assert!(matches!(jobs.claim("b").unwrap(), Verdict::Failed(_)));
    assert_eq!(begin(&jobs, "c").attempt(), 2);
    let audit: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    let outcomes = audit.iter().map(|entry| match &entry.event {
        AuditEvent::Decided { scope, outcome, .. } if scope == "jobs" => &outcome[..],
        other => panic!("{other:?}"),
    });
    assert_eq!(outcomes.collect::<Vec<_>>(), ["done", "failed", "retry"]);
    expect_invalid(jobs.decide("c", Decided::Done, ""), "reason");
}

#[test]
fn an_unknown_outcome_may_be_retried_or_taken_as_done_by_policy() {
    let store = memory();
    let of = |name, rule| store.scope(name, policy().on_unknown(rule)).unwrap();
    let (retried, done) = (of("retried", OnUnknown::Retry), of("done", OnUnknown::Done));
    begin(&retried, "a").outcome_unknown("timeout").unwrap();
    assert_eq!(begin(&retried, "a").attempt(), 2);
    begin(&done, "a").outcome_unknown("timeout").unwrap();
    assert!(done.claim("a").unwrap().is_duplicate());
}

/// A second caller gets the first one's result.
#[test]
fn who_waits_for_an_id_gets_its_result() {
    let store = memory();
    let jobs = jobs(&store);
    let mut claim = begin(&jobs, "a");
    is_in_progress(&jobs.wait_for("a", ms(50)).unwrap());
    let (verdict, ()) = std::thread::scope(|s| {
        let waiting = s.spawn(|| jobs.wait_for("a", secs(30)).unwrap());
        nap(ms(50));
        claim.complete("receipt", |_| {}).unwrap();
        (waiting.join().unwrap(), ())
    });
    let Verdict::Duplicate(seen) = verdict else {
        panic!("{verdict:?}");
    };
    assert_eq!(seen.result(), Some(&b"receipt"[..]));
    let mut failing = begin(&jobs, "b");
    std::thread::scope(|s| {
        let waiting = s.spawn(|| jobs.wait_for("b", secs(30)).unwrap());
        nap(ms(50));
        failing.fail(Failure::Retryable, "").unwrap();
        let next = waiting.join().unwrap().first().expect("the next attempt");
        assert_eq!(next.attempt(), 2);
    });
}

/// K4, for claims: the payload is compared while the claim runs and after it ended.
#[test]
fn another_payload_under_the_id_is_a_mismatch_at_every_stage() {
    let store = memory();
    let jobs = store.scope("jobs", policy().payloads()).unwrap();
    let claim = |body: &'static str| jobs.claim(Id::new("a").payload(body)).unwrap();
    let mut mine = claim("one").first().unwrap();
    mine.start();
    let mismatch = |v: Verdict<firstseen::Claim>| {
        assert!(matches!(v, Verdict::PayloadMismatch(_)), "{v:?}");
    };
    mismatch(claim("two"));
    is_in_progress(&claim("one"));
    mine.complete("", |_| {}).unwrap();
    mismatch(claim("two"));
    assert!(claim("one").is_duplicate());
}

#[test]
fn a_token_ends_its_claim_from_elsewhere() {
    let store = memory();
    let jobs = jobs(&store);
    let claim = begin(&jobs, "a");
    let bytes = claim.token().to_bytes();
    drop(claim);
    let token = Token::from_bytes(&bytes).unwrap();
    assert_eq!(token.id(), b"a");
    let mut claim = jobs.reclaim(&token).unwrap();
    assert_eq!(claim.attempt(), 1);
    claim.complete("by webhook", |_| {}).unwrap();
    expect_error(jobs.reclaim(&token), ErrorKind::LeaseLost, Recorded::No);
    assert!(Token::from_bytes(&bytes[..16]).is_err());
    let week = Policy::remember(days(7));
    let other = store.scope("other", week).unwrap();
    expect_error(other.reclaim(&token), ErrorKind::LeaseLost, Recorded::No);
}
