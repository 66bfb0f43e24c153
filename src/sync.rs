//! The one place that names sync primitives, so that all that uses them can be model-checked.
//!
//! The package `models` compiles the same files over a scheduler that tries many orders, where
//! the names below stand over that scheduler's; here they are the real ones. So the library
//! imports its locks, atomics, swapped pointers and thread-locals from `crate::sync` only (a test
//! checks that). What stays the standard library's has no order to explore: `Arc`, and `OnceLock`
//! whose values are made without waiting. The call shapes are parking_lot's: `lock()` gives the
//! guard, a condition variable takes `&mut guard`, and no lock is poisoned by a panic.
//!
//! Why not generics: a type parameter for each lock would reach every signature of the crate, and
//! a test would check another instantiation than the one that ships.

pub(crate) use arc_swap::{ArcSwap, ArcSwapOption, Guard};
pub(crate) use crossbeam::utils::CachePadded;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
pub(crate) use std::sync::atomic;
pub(crate) use std::thread_local;

/// A deadline that no test reaches.
#[cfg(test)]
pub(crate) fn far() -> std::time::Instant {
    crate::clock::deadline(std::time::Duration::from_secs(60))
}

/// A deadline that has passed when it is looked at.
#[cfg(test)]
pub(crate) fn near() -> std::time::Instant {
    crate::clock::deadline(std::time::Duration::ZERO)
}
