//! Concurrency models: the library's real lock structures under a scheduler that tries many
//! interleavings, without RocksDB.
//!
//! The files under test are included by path and find this package's `crate::sync`, where the
//! library's primitives stand over shuttle's. Each public function is one scenario, to be run
//! inside a shuttle execution; `tests/` says how often and by which scheduler. A scenario panics
//! when a rule is violated, and shuttle reports a deadlock, so a lost wake-up too. Where a rule
//! can be left out by a parameter, the tests demand that the violation is then found: that shows
//! that the scenario could see it.
//!
//! Not covered: memory ordering. Shuttle's atomics are sequentially consistent; the structures
//! here keep all shared state under mutexes and need no weaker argument.

#[path = "../../src/commit/holds/mod.rs"]
mod holds;
mod sync;

pub mod batches;
pub mod rows;
pub mod write_path;
