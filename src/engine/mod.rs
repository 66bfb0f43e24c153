//! The one place that knows RocksDB: a narrow set of operations over column families.
//!
//! Above it, a store is *open, read, commit one batch, make durable, scan, ingest, drop, close*.
//! Nothing else in the crate names the `rocksdb` crate (a test checks that; the `raw` door is
//! the one exception, for callers who bring a RocksDB batch).
//!
//! - E1: one RocksDB instance per store, one `write` per commit: that is the atomicity.
//! - E2: every column family is created and opened with explicit options (`options.rs`).
//! - E3: RocksDB's errors, which are strings, are mapped in one function (`fault.rs`).

mod db;
mod family;
mod fault;
mod files;
mod footprint;
mod frames;
mod handle;
mod inject;
#[cfg(any(test, feature = "testing"))]
mod memory;
mod options;
mod rep;
mod run_file;
mod stand_in;

pub(crate) use db::{Access, Engine, Kind, Recovery, Settings, TableFile};
pub(crate) use family::{Blocks, Family, Rows};
pub(crate) use files::{Home, patiently, sync_directory};
pub(crate) use footprint::Footprint;
#[cfg(feature = "testing")]
pub use inject::{Injected, Injection, Place};
pub(crate) use options::{Caches, FamilyTuning};
#[cfg(feature = "raw")]
pub(crate) use rep::records;
pub(crate) use rep::{NUMBERED_KEY_BYTES, Numbering, Rep};
pub(crate) use run_file::{FinishedRun, RunFile};

/// A named point where tests abort, fail or pause. Nothing without the `failpoints` feature.
macro_rules! failpoint {
    ($name:expr) => {
        #[cfg(feature = "failpoints")]
        fail::fail_point!($name);
    };
}
pub(crate) use failpoint;
