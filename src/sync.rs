//! The one place that names the sync primitives of what is model-checked.
//!
//! A structure whose interleavings are explored by the `models` package imports its locks and
//! atomics from `crate::sync` only. There the same names stand over a scheduler that tries many
//! orders; here they are the real ones. The call shapes are parking_lot's: `lock()` gives the
//! guard, a condition variable takes `&mut guard`, and no lock is poisoned by a panic.
//!
//! Why not generics: a type parameter for each lock would reach every signature of the crate, and
//! a test would check another instantiation than the one that ships.

pub(crate) use crossbeam::utils::CachePadded;
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
pub(crate) use std::sync::atomic;

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
