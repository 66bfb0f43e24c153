//! Concurrency models: the library's own code under a scheduler that tries many interleavings,
//! over a stand-in for RocksDB in plain maps.
//!
//! The build copies the library's files (`build.rs`); they find this package's `crate::sync`,
//! where the library's primitives stand over shuttle's, and its `crate::engine`. So a scenario
//! opens a real store and calls what callers call. Each public function of a scenario's module is
//! one, to be run inside a shuttle execution; `tests/` says how often and by which scheduler. A
//! scenario panics when a promise is broken, and shuttle reports a deadlock, so a lost wake-up
//! too. Where a rule can be left out (`switches.rs`), the tests demand that the violation is then
//! found: that shows that the scenario could see it.
//!
//! Not covered: memory ordering, as shuttle's atomics are sequentially consistent. The one
//! structure that is shared without a lock, the active set, is checked for that in `orderings`.

mod background;
mod engine;
mod local;
mod memory;
mod rules;
mod swap;
#[path = "../switches.rs"]
#[expect(dead_code, reason = "the build reads all of a switch")]
mod switches;
mod sync;

#[allow(
    dead_code,
    unused_imports,
    reason = "scenarios don't call all that the library offers"
)]
mod library {
    include!(concat!(env!("OUT_DIR"), "/library/modules.rs"));
}
use library::*;

pub mod batches;
pub mod commits;
pub mod rows;
pub mod verdicts;
mod world;

/// The rules that a scenario can leave out.
pub fn rules() -> Vec<&'static str> {
    rules::all().collect()
}
