//! Claims: an id taken for work outside the store, by lease, attempt and token.

mod ends;
mod given_up;
mod leases;
mod paths;
mod reopened;
mod states;

use firstseen::{Claim, Clock, ManualClock, Options, Policy, Scope, Store, Verdict, days};

use super::{quiet, secs};

/// A policy with a lease of 30 s.
fn policy() -> Policy {
    Policy::remember(days(7)).lease(secs(30)).wait(secs(0))
}

fn jobs(store: &Store) -> Scope {
    store.scope("jobs", policy()).unwrap()
}

/// The options of a quiet store under a clock, to be opened again with.
fn under(clock: &ManualClock) -> Options {
    quiet().clock(Clock::Manual(clock.clone()))
}

#[track_caller]
fn take(scope: &Scope, id: &str) -> Claim {
    match scope.claim(id).unwrap() {
        Verdict::First(claim) => claim,
        other => panic!("{id} was not to be had: {other:?}"),
    }
}

/// A claim that is left to its lease when it is dropped.
#[track_caller]
fn begin(scope: &Scope, id: &str) -> Claim {
    let mut claim = take(scope, id);
    claim.start();
    claim
}

#[track_caller]
fn is_in_progress<T: std::fmt::Debug>(verdict: &Verdict<T>) {
    assert!(matches!(verdict, Verdict::InProgress(_)), "{verdict:?}");
}
