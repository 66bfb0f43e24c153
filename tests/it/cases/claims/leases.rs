//! How long a claim keeps its id, and who has it then.

use std::time::{Duration, UNIX_EPOCH};

use firstseen::{ErrorKind, Failure, Options, Policy, Recorded, Store, Verdict, days};

use super::super::{expect_error, expect_invalid, ms, nap, now, secs, timed};
use super::{begin, is_in_progress, jobs, policy, take};

/// C1: killed while in progress, an id was stuck until a day-long expiry.
#[test]
fn after_the_lease_the_next_claim_gets_the_next_attempt() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    for attempt in 1..=4 {
        let claim = begin(&jobs, "a");
        assert_eq!(claim.attempt(), attempt);
        drop(claim);
        clock.advance(ms(29_999));
        is_in_progress(&jobs.claim("a").unwrap());
        clock.advance(ms(1));
    }
}

/// C2: a lease computed as 0 was read as "none".
#[test]
fn leases_of_nothing_or_without_end_are_refused_and_one_millisecond_expires() {
    let (store, clock) = timed();
    let of = |lease| store.scope("jobs", policy().lease(lease));
    expect_invalid(of(Duration::ZERO), "the lease is shorter than 1 ms");
    expect_invalid(
        of(Duration::from_nanos(1)),
        "the lease is shorter than 1 ms",
    );
    expect_invalid(of(Duration::MAX), "the lease is longer");
    let jobs = of(ms(1)).unwrap();
    drop(begin(&jobs, "a"));
    is_in_progress(&jobs.claim("a").unwrap());
    clock.advance(ms(1));
    assert_eq!(take(&jobs, "a").attempt(), 2);
    let error = store.scope("jobs", policy().attempts_max(0));
    expect_invalid(error, "attempts_max");
}

/// C3: a claim without an explicit lease was stolen while it was alive.
#[test]
fn the_default_lease_holds() {
    let (store, clock) = timed();
    let plain = Policy::remember(days(7)).wait(secs(0));
    let jobs = store.scope("jobs", plain).unwrap();
    let mut claim = begin(&jobs, "a");
    clock.advance(ms(29_999));
    is_in_progress(&jobs.claim("a").unwrap());
    assert!(!claim.is_lost());
    claim.complete("done", |_| {}).unwrap();
    assert!(jobs.claim("a").unwrap().is_duplicate());
}

/// C4: renew, complete and fail were accepted after expiry and takeover.
#[test]
fn a_stale_token_is_lost_on_every_call_and_changes_nothing() {
    let (store, clock) = timed();
    let (jobs, rows) = (jobs(&store), store.table("rows").unwrap());
    let mut stale = begin(&jobs, "a");
    clock.advance(secs(30));
    let mut mine = begin(&jobs, "a");
    let lost = |outcome: firstseen::Result<()>| {
        expect_error(outcome, ErrorKind::LeaseLost, Recorded::No);
    };
    let before = jobs.claims().unwrap();
    lost(stale.renew());
    lost(stale.complete("zombie", |w| {
        w.put(&rows, "a", "zombie");
    }));
    lost(stale.fail(Failure::Permanent, "zombie"));
    lost(stale.fail(Failure::Retryable, "zombie"));
    lost(stale.outcome_unknown("zombie"));
    lost(stale.release());
    expect_error(
        jobs.reclaim(&stale.token()),
        ErrorKind::LeaseLost,
        Recorded::No,
    );
    let mut batch = store.batch();
    batch.complete(&stale, "zombie").put(&rows, "a", "zombie");
    assert_eq!(batch.commit().unwrap()[..], [Verdict::LeaseLost]);
    assert!(stale.is_lost() && !mine.is_lost());
    assert_eq!(
        (rows.get("a").unwrap(), jobs.claims().unwrap()),
        (None, before)
    );
    mine.complete("mine", |w| {
        w.put(&rows, "a", "mine");
    })
    .unwrap();
    lost(stale.complete("zombie", |_| {}));
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"mine"[..]));
    assert_eq!(store.stats().unwrap().claims.lost, 8);
}

/// A late holder whose id nobody took meanwhile may still say what happened: else the effect
/// would happen again.
#[test]
fn a_lease_that_ran_out_and_was_not_taken_over_may_still_be_completed() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    let mut claim = begin(&jobs, "a");
    clock.advance(secs(31));
    assert!(claim.is_lost(), "it may be taken at any moment");
    claim.complete("late", |_| {}).unwrap();
    assert!(jobs.claim("a").unwrap().is_duplicate());
}

/// C7: time in the local queue counted as lease.
#[test]
fn the_lease_starts_at_the_claim_call() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    clock.advance(secs(100)); // whatever the message waited before
    drop(begin(&jobs, "a"));
    assert_eq!(jobs.claims().unwrap()[0].left, secs(30));
}

/// C8: elapsed time went negative, and "retry after" exceeded the lease.
#[test]
fn retry_after_is_above_zero_and_at_most_the_lease() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    drop(begin(&jobs, "a"));
    let start = clock.now();
    let retry_after = || match jobs.claim("a").unwrap() {
        Verdict::InProgress(p) => p.retry_after(),
        other => panic!("{other:?}"),
    };
    assert_eq!(retry_after(), secs(30));
    // Wall time alone neither prolongs nor ends a lease.
    for wall in [UNIX_EPOCH, start + secs(3600), start - secs(3600)] {
        clock.step_to(wall);
        assert_eq!(retry_after(), secs(30));
    }
    clock.advance(ms(29_999));
    assert_eq!(retry_after(), ms(1));
    clock.advance(ms(1));
    assert_eq!(take(&jobs, "a").attempt(), 2);
}

/// C9: a live, renewed claim was swept as an orphan.
#[test]
fn a_renewed_claim_survives_any_number_of_sweeps() {
    let (store, clock) = timed();
    // The retention is shorter than what the work takes.
    let brief = Policy::remember(secs(60)).lease(secs(30)).wait(secs(0));
    let jobs = store.scope("jobs", brief).unwrap();
    let claim = begin(&jobs, "a");
    drop(begin(&jobs, "left behind"));
    for _ in 0..20 {
        clock.advance(secs(29));
        claim.renew().unwrap();
        store.compact().unwrap();
        is_in_progress(&jobs.claim("a").unwrap());
    }
    let left: Vec<_> = jobs.claims().unwrap().into_iter().map(|c| c.id).collect();
    assert_eq!(left, [b"a"], "the orphan is gone, the live one is not");
    assert_eq!(store.stats().unwrap().claims.now, 1);
}

/// Row 7: a watchdog renews, and only what is alive.
#[test]
fn a_started_claim_renews_itself_until_it_is_lost_or_dropped() {
    let store = Store::in_memory(Options::new()).unwrap();
    let jobs = store.scope("jobs", policy().lease(ms(300))).unwrap();
    let mut claim = begin(&jobs, "a");
    let other = begin(&jobs, "b");
    let gone = store.scope("gone", policy().lease(ms(300))).unwrap();
    let dropped = begin(&gone, "a");
    assert!(store.drop_scope("gone").unwrap());
    let idle = take(&jobs, "c");
    let began = now();
    while began.elapsed() < ms(1_200) {
        is_in_progress(&jobs.claim("a").unwrap());
        nap(ms(20));
    }
    assert!(!claim.is_lost() && !other.is_lost() && dropped.is_lost());
    assert!(idle.is_lost(), "it was never started");
    drop(other);
    nap(ms(700));
    assert_eq!(take(&jobs, "b").attempt(), 2, "its handle is gone");
    assert!(jobs.forget("a", "the test takes it away").unwrap());
    nap(ms(400));
    assert!(claim.is_lost());
    assert_eq!(
        jobs.peek("a").unwrap(),
        None,
        "and was not renewed into being"
    );
    expect_error(
        claim.complete("", |_| {}),
        ErrorKind::LeaseLost,
        Recorded::No,
    );
    let renewed = store.stats().unwrap().claims.renewed;
    assert!((6..40).contains(&renewed), "{renewed} renewals");
}

/// A client that disconnects must not block its own retry; work that was begun may have happened.
#[test]
fn dropped_before_its_start_a_claim_is_released_and_after_it_the_lease_runs_out() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    drop(take(&jobs, "a"));
    let again = begin(&jobs, "a");
    assert_eq!(again.attempt(), 2);
    drop(again);
    is_in_progress(&jobs.claim("a").unwrap());
    clock.advance(secs(30));
    assert_eq!(take(&jobs, "a").attempt(), 3);
}

#[test]
fn beyond_its_limit_the_table_of_claims_is_full_and_room_comes_back() {
    let store = Store::in_memory(super::quiet().claims_max(2)).unwrap();
    let jobs = jobs(&store);
    let mut first = begin(&jobs, "a");
    let _second = begin(&jobs, "b");
    expect_error(jobs.claim("c"), ErrorKind::Full, Recorded::No);
    first.complete("", |_| {}).unwrap();
    assert_eq!(take(&jobs, "c").attempt(), 1);
}
