//! The active set under a checker of memory ordering.
//!
//! The active set is the one structure that is read without a lock while it is written, so it is
//! the one whose orderings must carry it. Its own files are compiled here (`build.rs`) over loom's
//! atomics, which give a load every value that the C11 memory model allows. Each public function
//! is one scenario, to be run by loom; it panics when an invariant of `index/active.rs` is broken.
//! With an ordering [weakened](Weakened) the tests demand that it is.

mod error;
mod memory;
mod sync;

#[allow(
    dead_code,
    unused_imports,
    reason = "scenarios don't call all that the set offers"
)]
mod index {
    include!(concat!(env!("OUT_DIR"), "/index/modules.rs"));
}

pub mod scenarios;
pub use sync::{Weakened, weaken};
