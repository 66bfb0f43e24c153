//! A stand-in for RocksDB with the operations of the library's `engine`, in plain maps.
//!
//! Every operation is a point where the scheduler may let another thread go on, before it takes
//! effect; then it takes effect at once. What a power failure would take is what was written
//! since the last sync: [`Disk`] keeps the history of writes, so a scenario can ask for it, and
//! open what a power failure would leave.

mod db;
mod disk;
mod family;
pub(crate) mod fault;
pub(crate) mod memory;
mod run_file;

pub(crate) use crate::engine_parts::files::{Home, patiently, sync_directory};
pub(crate) use crate::engine_parts::inject::{Injected, Injection, Place, at};
pub(crate) use crate::engine_parts::rep::{NUMBERED_KEY_BYTES, Numbering, Rep};
pub(crate) use db::{Access, Caches, Engine, FamilyTuning, Kind, Recovery, Settings, TableFile};
pub(crate) use disk::Disk;
pub(crate) use family::{Blocks, Family, Rows};
pub(crate) use run_file::{FinishedRun, RunFile};

/// Nothing happens at a named point: kills are the crash tests' affair.
macro_rules! failpoint {
    ($name:expr) => {};
}
pub(crate) use failpoint;
