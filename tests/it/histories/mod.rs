//! Concurrent runs whose histories are checked, and histories that must not pass.
//!
//! Each run is a seed: 2 to 8 threads call a store for one to six ids, in every way the API has,
//! at every level, while segments are sealed, runs merged, a clock moved, ids forgotten, writes
//! failed; between the phases of a run the store crashes, or is closed and opened. The seed
//! fixes what each thread asks for, not how the threads meet.
//!
//! `HISTORIES=n` sets the number of runs, `SEED=n` the seed of the first:
//! `HISTORIES=5000 cargo test --release --features cli,raw,testing,failpoints,metrics,tracing
//! --test it histories -- --nocapture`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod canaries;
mod run;

use super::history::Passed;
use crate::number::number;

#[test]
fn every_history_of_concurrent_calls_has_an_order() {
    let first = number("SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    let runs = number("HISTORIES").unwrap_or(24);
    let (mut passed, mut did) = (Passed::default(), run::Did::default());
    for seed in first..first + runs {
        let history = run::run(seed, &mut did);
        let one = super::history::check(&history)
            .unwrap_or_else(|fault| panic!("SEED={seed} HISTORIES=1: {fault:?}"));
        passed.calls += one.calls;
        passed.firsts += one.firsts;
        passed.duplicates += one.duplicates;
        passed.reads += one.reads;
        passed.unknown += one.unknown;
    }
    println!(
        "histories {runs} calls {} firsts {} duplicates {} reads {} unknown {} crashes {} reopens \
         {} seals {} merges {} wrong 0 seed {first}",
        passed.calls,
        passed.firsts,
        passed.duplicates,
        passed.reads,
        passed.unknown,
        did.crashes,
        did.reopens,
        did.seals,
        did.merges
    );
    assert!(
        passed.firsts > runs && passed.duplicates > 10 * runs,
        "too little happened"
    );
    let often = [passed.reads, did.crashes, did.seals, did.merges];
    let rare = [passed.unknown, did.reopens];
    assert!(
        runs < 24 || often.iter().all(|n| *n > 0),
        "something never happened: {often:?}"
    );
    assert!(
        runs < 200 || rare.iter().all(|n| *n > 0),
        "something never happened: {rare:?}"
    );
}
