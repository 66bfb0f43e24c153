//! Claims over reopenings, crashes, failed writes and copies.

use firstseen::{
    ErrorKind, Failure, IdState, ManualClock, NextCommit, Options, Recorded, Store, Verdict, verify,
};

use super::super::{expect_error, secs};
use super::{begin, is_in_progress, jobs, policy, take, under};

/// C5: a crash left claims behind. They are listed, keep what is left of their lease, and are
/// taken over with the next attempt.
#[test]
fn claims_of_a_dead_run_are_listed_and_taken_over_when_their_lease_ends() {
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = Store::open(dir.path(), under(&clock)).unwrap();
    let jobs_before = jobs(&store);
    drop(begin(&jobs_before, "a"));
    let mut free = begin(&jobs_before, "b");
    free.fail(Failure::Retryable, "no connection").unwrap();
    begin(&jobs_before, "c").outcome_unknown("timeout").unwrap();
    let claim = begin(&jobs_before, "d");
    clock.advance(secs(10));
    let store = store.crash_and_reopen().unwrap();
    assert!(claim.is_lost(), "its store is closed");
    let jobs = jobs(&store);
    let listed = jobs.claims().unwrap();
    let states: Vec<_> = listed
        .iter()
        .map(|c| (&c.id[..], c.state, c.is_of_dead_run, c.left))
        .collect();
    let expected = [
        (&b"a"[..], IdState::Claimed, true, secs(20)),
        (b"b", IdState::Waiting, false, secs(0)),
        (b"c", IdState::OutcomeUnknown, false, secs(0)),
        (b"d", IdState::Claimed, true, secs(20)),
    ];
    assert_eq!(states, expected);
    is_in_progress(&jobs.claim("a").unwrap());
    is_in_progress(&jobs.insert("a").unwrap());
    assert_eq!(take(&jobs, "b").attempt(), 2);
    assert!(matches!(
        jobs.claim("c").unwrap(),
        Verdict::OutcomeUnknown(_)
    ));
    // A webhook may still end one of them.
    let mut reclaimed = jobs.reclaim(&claim.token()).unwrap();
    reclaimed.complete("by webhook", |_| {}).unwrap();
    clock.advance(secs(20));
    assert_eq!(take(&jobs, "a").attempt(), 2);
    assert!(jobs.claim("d").unwrap().is_duplicate());
}

#[test]
fn claims_of_a_dead_run_may_be_taken_over_at_once_if_asked() {
    let store = Store::in_memory(super::super::quiet()).unwrap();
    drop(begin(&jobs(&store), "a"));
    let eager = policy().take_over_dead_runs();
    let jobs = store.scope("jobs", eager.clone()).unwrap();
    is_in_progress(&jobs.claim("a").unwrap());
    drop(jobs);
    let store = store.crash_and_reopen().unwrap();
    let jobs = store.scope("jobs", eager).unwrap();
    assert_eq!(take(&jobs, "a").attempt(), 2);
}

/// The wall clock at the next open can't prolong a lease.
#[test]
fn a_lease_that_was_found_is_at_most_what_it_was() {
    let clock = ManualClock::new();
    let store = Store::in_memory(under(&clock)).unwrap();
    drop(begin(&jobs(&store), "a"));
    clock.step_to(clock.now() - secs(50_000));
    let store = store.crash_and_reopen().unwrap();
    let jobs = jobs(&store);
    assert!(jobs.claims().unwrap()[0].left <= secs(30));
    clock.advance(secs(30));
    assert_eq!(take(&jobs, "a").attempt(), 2);
}

/// Row 16: attempts survive crashes.
#[test]
fn attempts_and_dead_letters_survive_crashes() {
    let clock = ManualClock::new();
    let mut store = Store::in_memory(under(&clock)).unwrap();
    let limited = policy().attempts_max(3);
    for attempt in 1..=3 {
        let jobs = store.scope("jobs", limited.clone()).unwrap();
        assert_eq!(begin(&jobs, "a").attempt(), attempt);
        drop(jobs);
        store = store.crash_and_reopen().unwrap();
        clock.advance(secs(30));
    }
    for _ in 0..2 {
        let jobs = store.scope("jobs", limited.clone()).unwrap();
        assert!(matches!(jobs.claim("a").unwrap(), Verdict::DeadLettered(_)));
        assert_eq!(jobs.dead_letters().unwrap().count(), 1);
        drop(jobs);
        store = store.crash_and_reopen().unwrap();
    }
}

/// Row 8: state, rows and result share one fate, whatever became of the write.
#[test]
fn a_completion_of_unknown_outcome_is_there_whole_or_not_at_all() {
    for (failure, is_there) in [
        (NextCommit::UnknownLost, false),
        (NextCommit::UnknownWritten, true),
    ] {
        let clock = ManualClock::new();
        let store = Store::in_memory(under(&clock)).unwrap();
        let (before, rows) = (jobs(&store), store.table("rows").unwrap());
        let mut claim = begin(&before, "a");
        store.fail_next_commit(failure).unwrap();
        let outcome = claim.complete("receipt", |w| {
            w.put(&rows, "a", "paid");
        });
        expect_error(outcome, ErrorKind::Degraded, Recorded::Unknown);
        drop((before, rows, claim));
        let store = store.crash_and_reopen().unwrap();
        let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
        assert_eq!(rows.get("a").unwrap().is_some(), is_there);
        assert_eq!(jobs.claims().unwrap().is_empty(), is_there);
        clock.advance(secs(30));
        assert_eq!(jobs.claim("a").unwrap().is_duplicate(), is_there);
    }
}

/// What expired in a run whose end nobody saw must not come back and hide what was seen since.
#[test]
fn an_expired_claim_never_comes_back_over_what_was_seen_since() {
    let clock = ManualClock::new();
    let store = Store::in_memory(under(&clock)).unwrap();
    let minute = || firstseen::Policy::remember(secs(60)).lease(secs(10));
    let jobs = store.scope("jobs", minute()).unwrap();
    drop(begin(&jobs, "a"));
    clock.advance(secs(61));
    assert!(jobs.insert("a").unwrap().is_first());
    drop(jobs);
    // The next open's clock is behind, so that the claim would not have expired.
    clock.step_to(clock.now() - secs(30));
    let store = store.crash_and_reopen().unwrap();
    let jobs = store.scope("jobs", minute()).unwrap();
    assert!(jobs.insert("a").unwrap().is_duplicate());
}

#[test]
fn a_checkpoint_has_the_claims_and_a_check_reads_them() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let store = Store::open(&home, Options::new()).unwrap();
    let jobs_here = jobs(&store);
    let claim = begin(&jobs_here, "a");
    let mut batch = store.batch();
    batch.once(&jobs_here, "bad").dead_letter("why", b"body");
    let _ = batch.commit().unwrap();
    store.checkpoint(&copy).unwrap();
    let report = verify(&copy, &Options::new(), |_| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    let other = Store::open(&copy, Options::new()).unwrap();
    let jobs_there = jobs(&other);
    assert_eq!(jobs_there.claims().unwrap()[0].token, claim.token());
    assert_eq!(jobs_there.dead_letters().unwrap().count(), 1);
    drop(claim);
}

#[test]
fn a_dropped_scopes_claims_go_with_it() {
    let store = Store::in_memory(super::super::quiet()).unwrap();
    let jobs_before = jobs(&store);
    let mut claim = begin(&jobs_before, "a");
    assert!(store.drop_scope("jobs").unwrap());
    assert_eq!(store.stats().unwrap().claims.now, 0);
    expect_error(claim.complete("", |_| {}), ErrorKind::Invalid, Recorded::No);
    expect_error(jobs_before.claim("b"), ErrorKind::Invalid, Recorded::No);
    let jobs = jobs(&store);
    assert_eq!(take(&jobs, "a").attempt(), 1);
    drop(jobs);
    let store = store.crash_and_reopen().unwrap();
    assert!(super::jobs(&store).claims().unwrap().len() <= 1);
}
