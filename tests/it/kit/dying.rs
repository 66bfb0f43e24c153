//! Maintenance that dies on its way: it unwinds from a named point, as far as a process can die
//! and go on.
//!
//! Failpoints are the whole process's, and tests run side by side: only the thread that asked
//! dies. If two ask for one point at once, one of them lives, which any program must bear.

use firstseen::{Error, Store};

/// Where maintenance can die. A point that is not on its way now lets it end as usual.
#[cfg(feature = "failpoints")]
const POINTS: [&str; 20] = [
    "seal::gate_passed",
    "seal::synced",
    "floor::before_write",
    "floor::after_write",
    "seal::marked",
    "seal::runs_written",
    "seal::ingested",
    "seal::published",
    "seal::before_drop",
    "seal::dropped",
    "merge::begun",
    "merge::written",
    "merge::ingested",
    "merge::published",
    "drop::marked",
    "drop::published",
    "drop::dropped",
    "snapshot::before_write",
    "commit::before_sync",
    "commit::after_sync",
];

/// Seals, merges and drops what there is, until it passes a point for the n-th time.
#[cfg(feature = "failpoints")]
pub(super) fn upkeep(store: &Store, point: u8, passes: u8) -> Result<(), Error> {
    use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
    use std::sync::atomic::{AtomicU8, Ordering};

    struct Died;

    let point = POINTS[usize::from(point) % POINTS.len()];
    let (me, passed) = (std::thread::current().id(), AtomicU8::new(0));
    let die = move || {
        if std::thread::current().id() == me && passed.fetch_add(1, Ordering::Relaxed) == passes {
            // No hook is asked: nothing is wrong.
            resume_unwind(Box::new(Died));
        }
    };
    fail::cfg_callback(point, die).expect("a failpoint can be set");
    let ran = catch_unwind(AssertUnwindSafe(|| store.compact()));
    fail::remove(point);
    match ran {
        Ok(done) => done,
        Err(why) if why.is::<Died>() => Ok(()),
        Err(why) => resume_unwind(why),
    }
}

/// Without failpoints it lives.
#[cfg(not(feature = "failpoints"))]
pub(super) fn upkeep(store: &Store, _: u8, _: u8) -> Result<(), Error> {
    store.compact()
}
