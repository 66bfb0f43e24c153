//! The protocol of the store, checked state by state.
//!
//! Explicit models of the write path, of sealing and expiry, of recovery and of copies, and every
//! interleaving of them: callers, leader, sealer, the clock, kills and power failures. No part of
//! the store runs here. What is checked is the set of rules the store is built on, so that a rule
//! can be changed with a model that says what it breaks.
//!
//! | model    | what is in it                                                                |
//! | -------- | ---------------------------------------------------------------------------- |
//! | `index`  | holds, views, gate, log, sealing, generations, merges, expiry, claims, crashes |
//! | `group`  | one queue and leader, levels, flushes, duplicates that wait, failed writes   |
//! | `floor`  | marker, floor file, sticky bit, numbers, damaged logs                        |
//! | `rows`   | the two passes over ids, row locks, closures                                 |
//! | `copies` | checkpoints, restores, filter snapshots, run ids, incarnations               |
//!
//! Promises, of which each state breaks none (`explore::Broken` says what breaks which):
//! - P1 of one id at most one first seen while it is live, expired is first, forgotten is first
//!   and no older record comes back, and nothing that was never committed is a duplicate;
//! - P2 what was acknowledged survives what its level promises, the original of a duplicate too;
//! - P3 an id and its mutation are there together or not at all;
//! - P4 two increments of a row are both there;
//! - P5 an undamaged store opens, and a damaged one does not open short in silence;
//! - P6 somebody can always go on.
//!
//! With every rule in force all workloads run to the end. Without any one rule its own workload
//! (`homes`) breaks a promise, so the model would see it. Bounds are small: two or three ids, two
//! to four callers, a few ticks, rotations and crashes. Not modelled: `Buffered`, the lease clock
//! of claims, ids routed by their own time, prepared transactions.
//!
//! `cargo test --release protocol -- --nocapture` prints the state counts.

mod copies;
mod explore;
mod floor;
mod group;
mod homes;
mod index;
mod rows;
mod rules;

use explore::Broken;
use homes::{Home, home};
use rules::{Rule, Rules, Weight};

/// Without this many states a workload explores nothing worth the name.
const STATES_MIN: usize = 100;

#[test]
fn every_workload_ends_without_a_violation() {
    for workload in Home::all() {
        let outcome = workload.explore(Rules::ALL);
        println!("{:16} {outcome}", workload.name());
        assert!(
            outcome.violation.is_none(),
            "{}: {outcome}",
            workload.name()
        );
        assert!(
            outcome.states >= STATES_MIN,
            "{}: {outcome}",
            workload.name()
        );
    }
}

#[test]
fn every_rule_is_needed() {
    for &rule in Rule::ALL {
        let Some((workload, expected)) = home(rule) else {
            assert_eq!(rule.weight(), Weight::Spare, "{} has no home", rule.name());
            continue;
        };
        let outcome = workload.explore(Rules::ALL.without(rule));
        let broken = outcome.violation.as_ref().map(|violation| violation.broken);
        let context = format!("{} ({}) in {}", rule.name(), rule.cites(), workload.name());
        assert_eq!(broken, Some(expected), "without {context}: {outcome}");
        let depth = outcome
            .violation
            .map_or(0, |violation| violation.trace.len());
        println!("without {context}: {expected:?} after {depth} steps");
        assert_ne!(
            rule.weight(),
            Weight::Spare,
            "{} is needed after all",
            rule.name()
        );
    }
}

#[test]
fn a_spare_rule_breaks_nothing_by_its_absence() {
    let spare = Rule::ALL
        .iter()
        .filter(|rule| rule.weight() == Weight::Spare);
    for &rule in spare {
        let workloads = homes::touched_by_spare(rule);
        assert!(!workloads.is_empty(), "{} is not tested", rule.name());
        for workload in workloads {
            let outcome = workload.explore(Rules::ALL.without(rule));
            let name = workload.name();
            assert!(
                outcome.violation.is_none(),
                "{} in {name}: {outcome}",
                rule.name()
            );
        }
    }
}

#[test]
fn of_two_rules_against_holes_one_must_stay() {
    // Before the first seal either of them is enough; without both a hole opens in silence.
    let unsealed = Home::Floor(floor::UNSEALED);
    let neither = Rules::ALL
        .without(Rule::WalsVerified)
        .without(Rule::ContiguousNumbers);
    let one = unsealed.explore(Rules::ALL.without(Rule::WalsVerified));
    assert!(one.violation.is_none(), "{one}");
    let none = unsealed.explore(neither);
    let broken = none.violation.as_ref().map(|violation| violation.broken);
    assert_eq!(broken, Some(Broken::SilentShort), "{none}");
}

#[test]
fn without_any_rule_every_workload_breaks() {
    // The canary: a checker that finds nothing here finds nothing anywhere.
    for workload in Home::all() {
        let outcome = workload.explore(Rules::NONE);
        assert!(
            outcome.violation.is_some(),
            "{}: {outcome}",
            workload.name()
        );
    }
}
