//! What a store tells of its claims and dead letters as numbers: states, ages, attempts.

use firstseen::{ClaimGroup, ClaimStates, Decided, Failure, Store, Why, days};

use super::super::{memory, quiet, secs, timed};
use super::{begin, jobs, policy, take};

fn states(store: &Store) -> ClaimStates {
    let stats = store.stats().unwrap();
    let scope = stats.scopes.iter().find(|s| s.name == "jobs").unwrap();
    scope.claims.unwrap()
}

fn letters(store: &Store) -> u64 {
    let scopes = store.stats().unwrap().scopes;
    scopes
        .iter()
        .find(|s| s.name == "jobs")
        .unwrap()
        .dead_letters
}

#[track_caller]
fn expect(group: ClaimGroup, count: u64, oldest_s: u64) {
    assert_eq!((group.count, group.oldest), (count, secs(oldest_s)));
}

#[test]
fn claims_are_counted_by_state_with_the_age_of_the_oldest() {
    let (store, clock) = timed();
    let policy = policy().lease(secs(30)).backoff(secs(10));
    let jobs = store.scope("jobs", policy.clone()).unwrap();
    assert!(
        store.stats().unwrap().scopes[0].claims.is_none(),
        "none yet"
    );
    let _first = begin(&jobs, "a");
    clock.advance(secs(10));
    begin(&jobs, "b").fail(Failure::Retryable, "later").unwrap();
    let mut unsure = begin(&jobs, "c");
    unsure.outcome_unknown("a timeout").unwrap();
    clock.advance(secs(15));
    let found = states(&store);
    expect(found.held, 1, 25);
    expect(found.lapsed, 0, 0);
    expect(found.waiting, 1, 15);
    expect(found.unknown, 1, 15);
    // Its lease runs out; nothing else changes.
    clock.advance(secs(5));
    let found = states(&store);
    expect(found.held, 0, 0);
    expect(found.lapsed, 1, 30);
    let text = store.prometheus().unwrap();
    for sample in [
        "firstseen_claims_by_state{scope=\"jobs\",state=\"lapsed\"} 1\n",
        "firstseen_claim_oldest_seconds{scope=\"jobs\",state=\"lapsed\"} 30\n",
        "firstseen_claim_oldest_seconds{scope=\"jobs\",state=\"unknown\"} 20\n",
    ] {
        assert!(text.contains(sample), "{text} lacks {sample}");
    }
    // Whoever takes it over makes it held again: the age goes on from the first claim.
    let _again = begin(&jobs, "a");
    let found = states(&store);
    expect(found.held, 1, 30);
    assert_eq!(store.stats().unwrap().claims.repeated, 1);
    // A reopening finds them as they were.
    drop(jobs);
    let store = store.crash_and_reopen().unwrap();
    let jobs = store.scope("jobs", policy).unwrap();
    let found = states(&store);
    expect(found.held, 1, 30);
    expect(found.unknown, 1, 20);
    // What ends is counted no more.
    assert!(jobs.decide("c", Decided::Done, "asked").unwrap());
    expect(states(&store).unknown, 0, 0);
    assert_eq!(store.stats().unwrap().claims.decided, 1);
}

/// What has expired counts until it is swept.
#[test]
fn expired_claims_leave_the_numbers_with_the_sweep() {
    let (store, clock) = timed();
    let jobs = jobs(&store);
    let _claim = begin(&jobs, "a");
    assert_eq!(states(&store).held.count, 1);
    clock.advance(days(8));
    // The first one persists the mark of time that the sweep goes by.
    store.seal().unwrap();
    store.compact().unwrap();
    assert_eq!(states(&store), ClaimStates::default());
    assert_eq!(store.stats().unwrap().claims.now, 0);
}

/// The number is stored with the letters: it is never counted anew, and exact over crashes.
#[test]
fn dead_letters_are_counted_as_they_come_and_go() {
    let (mut store, clock) = timed();
    let give_up = |store: &Store, id: &str| {
        let mut batch = store.batch();
        batch
            .once(&jobs(store), id)
            .dead_letter("no sense", b"body");
        assert!(batch.commit().unwrap()[0].is_first());
    };
    for id in ["a", "b", "c"] {
        give_up(&store, id);
    }
    let verdict = jobs(&store).once("d", |tx| {
        tx.dead_letter("by a closure", b"");
        Ok::<_, firstseen::Error>(())
    });
    assert!(verdict.unwrap().is_first());
    assert_eq!(letters(&store), 4);
    store = store.crash_and_reopen().unwrap();
    let scope = jobs(&store);
    assert_eq!(letters(&store), 4);
    assert!(scope.redrive("a", "mended").unwrap());
    assert!(!scope.redrive("a", "again").unwrap());
    assert!(scope.purge("b", "gone").unwrap());
    assert_eq!(letters(&store), 2);
    let counts = store.stats().unwrap().claims;
    assert_eq!((counts.redriven, counts.purged), (1, 1));
    // The id is long forgotten, its letter is there, and another one takes its place.
    clock.advance(days(8));
    give_up(&store, "c");
    assert_eq!(letters(&store), 2);
    assert_eq!(scope.dead_letters().unwrap().count(), 2);
    assert!(
        store
            .prometheus()
            .unwrap()
            .contains("firstseen_dead_letters{scope=\"jobs\"} 2\n")
    );
    // A purged letter's id is redriven without one.
    assert!(scope.purge("c", "gone").unwrap() && scope.redrive("c", "after all").unwrap());
    assert_eq!(letters(&store), 1);
    drop(scope);
    store.drop_scope("jobs").unwrap();
    let store = store.crash_and_reopen().unwrap();
    let _ = jobs(&store);
    assert_eq!(letters(&store), 0);
}

/// Threads that give up messages of one scope at the same time miscount none.
#[test]
fn dead_letters_of_many_threads_are_all_counted() {
    let store = memory();
    let scope = jobs(&store);
    std::thread::scope(|threads| {
        for t in 0..4 {
            let (scope, store) = (scope.clone(), store.clone());
            threads.spawn(move || {
                for n in 0..100 {
                    let id = format!("{t}-{n}");
                    let mut batch = store.batch();
                    batch.once(&scope, &id).dead_letter("no sense", b"");
                    assert!(batch.commit().unwrap()[0].is_first());
                    if n % 2 == 0 {
                        assert!(scope.purge(&id, "seen").unwrap());
                    }
                }
            });
        }
    });
    assert_eq!(letters(&store), 200);
    drop(scope);
    let store = store.crash_and_reopen().unwrap();
    let scope = jobs(&store);
    assert_eq!(
        (letters(&store), scope.dead_letters().unwrap().count()),
        (200, 200)
    );
}

#[test]
fn what_is_done_with_claims_by_hand_says_who_did_it() {
    let store = Store::in_memory(quiet().actor("consumer-3")).unwrap();
    let jobs = jobs(&store);
    let mut claim = take(&jobs, "unsure");
    claim.start();
    claim.outcome_unknown("a timeout").unwrap();
    let by = |who| Why::new("seen").by(who);
    assert!(jobs.decide("unsure", Decided::Failed, by("ada")).unwrap());
    for id in ["a", "b"] {
        let mut batch = store.batch();
        batch.once(&jobs, id).dead_letter("no sense", b"");
        let _ = batch.commit().unwrap();
    }
    assert!(jobs.redrive("a", by("bob")).unwrap());
    assert!(jobs.purge("b", "seen").unwrap());
    let audit = store.audit().unwrap().map(|e| e.unwrap().who.unwrap());
    assert_eq!(audit.collect::<Vec<_>>(), ["ada", "bob", "consumer-3"]);
    super::super::expect_invalid(jobs.purge("b", by(&"x".repeat(256))), "255 bytes");
}

/// An id is explained with its claim and its dead letter.
#[test]
fn an_explanation_has_the_claim_and_the_dead_letter() {
    let store = memory();
    let jobs = jobs(&store);
    let mut claim = begin(&jobs, "a");
    let told = jobs.explain("a").unwrap();
    assert!(told.is_known() && told.record.is_none() && told.dead_letter.is_none());
    assert_eq!(told.claim.unwrap().attempt, 1);
    claim.complete("done", |_| {}).unwrap();
    let told = jobs.explain("a").unwrap();
    assert!(told.claim.is_none());
    let record = told.remembered().unwrap();
    assert_eq!(
        (record.seen.attempt(), record.seen.result()),
        (Some(1), Some(&b"done"[..]))
    );
    let mut batch = store.batch();
    batch.once(&jobs, "b").dead_letter("no sense", b"body");
    let _ = batch.commit().unwrap();
    let told = jobs.explain("b").unwrap();
    assert_eq!(told.dead_letter.unwrap().why, "no sense");
    assert!(!jobs.explain("c").unwrap().is_known());
}
