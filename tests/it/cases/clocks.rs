//! Time: wall clocks that jump never forget early, and never bring an expired id back.

use std::time::Duration;

use firstseen::{Clock, ClockState, Health, ManualClock, Policy, Store, days};

use super::{ms, quiet, secs};

const YEAR: Duration = days(365);

fn store_with(clock: &ManualClock) -> Store {
    let options = quiet().clock(Clock::Manual(clock.clone()));
    Store::in_memory(options).unwrap()
}

#[test]
fn a_jump_ahead_freezes_expiry_until_it_is_accepted() {
    let clock = ManualClock::new();
    let store = store_with(&clock);
    let ids = store.scope("s", Policy::remember(days(7))).unwrap();
    assert!(ids.insert("a").unwrap().is_first());
    assert_eq!(store.stats().unwrap().clock, ClockState::Following);
    clock.step_to(clock.now() + YEAR);
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert_eq!(
        store.stats().unwrap().clock,
        ClockState::Frozen { by: YEAR }
    );
    let Health::Degraded(why) = store.health() else {
        panic!("{:?}", store.health())
    };
    assert!(why.contains("frozen"), "{why}");
    // Nothing is dropped for unaccepted time, and expiry goes on at the monotonic rate.
    store.compact().unwrap();
    assert!(ids.insert("a").unwrap().is_duplicate());
    store.accept_clock().unwrap();
    assert_eq!(store.stats().unwrap().clock, ClockState::Following);
    assert_eq!(store.health(), Health::Ready);
    assert!(ids.insert("a").unwrap().is_first());
}

#[test]
fn a_jump_ahead_is_believed_after_an_hour_of_agreement() {
    let clock = ManualClock::new();
    let store = store_with(&clock);
    let ids = store.scope("s", Policy::remember(days(7))).unwrap();
    assert!(ids.insert("a").unwrap().is_first());
    clock.step_to(clock.now() + YEAR);
    assert!(ids.insert("a").unwrap().is_duplicate());
    clock.advance(secs(3599));
    assert!(ids.insert("a").unwrap().is_duplicate());
    clock.advance(secs(1));
    assert!(ids.insert("a").unwrap().is_first());
}

/// A reopened store does not believe a jump either; and what it had dropped stays dropped.
#[test]
fn a_jump_while_the_store_was_closed_freezes_too() {
    let clock = ManualClock::new();
    let mut store = store_with(&clock);
    let policy = || Policy::remember(days(7));
    assert!(
        store
            .scope("s", policy())
            .unwrap()
            .insert("a")
            .unwrap()
            .is_first()
    );
    for place in 0..3 {
        if place == 1 {
            store.seal().unwrap();
        }
        let wall = clock.now();
        clock.step_to(wall + YEAR);
        store = store.crash_and_reopen().unwrap();
        // Before the first mark there is nothing to compare wall time with.
        if place > 0 {
            let ids = store.scope("s", policy()).unwrap();
            assert!(ids.insert("a").unwrap().is_duplicate(), "{place}");
            assert!(matches!(store.health(), Health::Degraded(_)));
        }
        clock.step_to(wall);
        store = store.crash_and_reopen().unwrap();
        if place == 0 {
            // An early crash is the one time that nothing was persisted.
            let ids = store.scope("s", policy()).unwrap();
            assert!(ids.insert("a").unwrap().is_duplicate());
        }
    }
}

#[test]
fn a_step_back_never_brings_an_expired_id_back() {
    let clock = ManualClock::new();
    let store = store_with(&clock);
    let policy = || Policy::remember(secs(60));
    let ids = store.scope("s", policy()).unwrap();
    assert!(ids.insert("a").unwrap().is_first());
    clock.advance(secs(60));
    assert!(ids.insert("a").unwrap().is_first());
    store.seal().unwrap();
    clock.step_to(clock.now() - secs(3600));
    assert_eq!(
        store.stats().unwrap().clock,
        ClockState::Behind { by: secs(3600) }
    );
    assert!(ids.insert("a").unwrap().is_duplicate());
    // It goes on at the monotonic rate, also after a reopening.
    clock.advance(secs(59));
    drop(ids);
    let store = store.crash_and_reopen().unwrap();
    let ids = store.scope("s", policy()).unwrap();
    assert!(ids.insert("a").unwrap().is_duplicate());
    clock.advance(secs(120));
    assert!(ids.insert("a").unwrap().is_first());
}

#[test]
fn a_small_gap_is_followed_at_once() {
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .clock_jump_max(secs(10));
    let store = Store::in_memory(options).unwrap();
    let ids = store.scope("s", Policy::remember(secs(5))).unwrap();
    assert!(ids.insert("a").unwrap().is_first());
    clock.step_to(clock.now() + secs(10));
    assert!(ids.insert("a").unwrap().is_first());
    clock.step_to(clock.now() + secs(10) + ms(1));
    assert!(ids.insert("a").unwrap().is_duplicate());
}
