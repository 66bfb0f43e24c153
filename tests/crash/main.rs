//! Processes that die: killed at random under load, aborted at each named point, and cut from
//! their file system as by a power failure.
//!
//! A test starts this very binary again as a *child* that works on a store and acknowledges each
//! commit over a pipe; the child is killed; the store is opened and compared with what was
//! acknowledged. The rule: what was acknowledged is there; what was sent and not acknowledged is
//! there whole or not at all; nothing is there twice.
//!
//! `KILLS=n`, `CUTS=n`, `CUTS_XFS=n` and `CYCLES=n` set how often, `SEED=n` the seed. Canaries
//! break the child on purpose, and the same checker must see it.
#![cfg(feature = "testing")]

mod campaign;
mod child;
#[cfg(feature = "failpoints")]
mod copies;
mod cut;
mod disk;
#[path = "../support/exit.rs"]
mod exit;
mod expected;
#[cfg(feature = "raw")]
mod fault;
mod found;
mod kill;
#[path = "../it/kit/mod.rs"]
#[allow(dead_code, reason = "the model tests use all of it, these a part")]
mod kit;
mod ledger;
#[path = "../support/number.rs"]
mod number;
mod outbox;
#[cfg(feature = "failpoints")]
mod points;
mod two_phase;
mod worker;
mod workload;

use number::number;

#[expect(clippy::disallowed_methods, reason = "a test may time itself")]
fn now() -> std::time::Instant {
    std::time::Instant::now()
}

/// No crash leaves what a check of the store at rest takes for damage. A store that was not made
/// yet is none.
fn check_at_rest(store: &std::path::Path, options: &firstseen::Options) -> Result<(), String> {
    match firstseen::verify(store, options, |_| {}) {
        Ok(report) if report.is_sound() => Ok(()),
        Ok(report) => Err(format!("it looks damaged: {:?}", report.faults)),
        Err(error) if error.kind() == firstseen::ErrorKind::Invalid => Ok(()),
        Err(error) => Err(error.to_string()),
    }
}
