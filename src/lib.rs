//! firstseen makes at-least-once messages take effect once.
//!
//! A broker delivers at least once: the same message comes back after a producer's retry, a
//! fail-over, a rebalance, a crash between the business write and the offset commit. firstseen
//! is an embedded engine that answers *first seen or duplicate?* and commits that answer **in
//! one atomic write with the caller's own rows**. After a crash either both are there, or
//! neither.
//!
//! - [`Store`]: one open directory. [`Scope`]: a named space of ids with its own retention.
//! - [`Scope::insert`]: one id. [`Scope::once`]: a closure that runs only for a first sight.
//! - [`Batch`]: many ids, their rows, and the source's resume point, in one commit.
//! - [`Sequences`]: producers that number their messages, in constant space each.
//! - [`Table`]: the caller's rows; in a guarded one, conditions and closures never lose an
//!   update.
//! - [`Scope::claim`]: an id taken for work outside the store, with a lease, attempts and dead
//!   letters.
//! - [`Batch::prepare`]: two-phase commit with another system, in doubt over crashes until
//!   [`Store::commit_prepared`] or [`Store::abort_prepared`].
//! - [`Scope::handler`]: from a message to what its broker is told.
//! - [`Durability`]: when a commit returns, and what a crash may take.
//!
//! The atomicity covers the rows of the store's own tables. An effect elsewhere (another
//! database, a remote call) is not covered by it.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! use firstseen::{days, Options, Policy, Store};
//!
//! let store = Store::open(dir.path(), Options::new())?;
//! let ids = store.scope("orders", Policy::remember(days(7)))?;
//! let orders = store.table("orders")?;
//!
//! let mut batch = store.batch();
//! for (id, body) in [("order-1", "tea"), ("order-2", "cake"), ("order-1", "tea")] {
//!     batch.once(&ids, id).put(&orders, id, body); // only if first seen
//! }
//! batch.resume_at("orders/3", 42); // the next position to read, in the same commit
//! let verdicts = batch.commit()?;
//!
//! assert_eq!(verdicts.iter().filter(|v| v.is_first()).count(), 2);
//! assert!(verdicts[2].is_duplicate());
//! assert_eq!(store.resume_point("orders/3")?.and_then(|p| p.as_u64()), Some(42));
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! None is on by default. `cli`: the command-line program `firstseen`. `raw`: one door for
//! callers who hold RocksDB's own types. `testing`: in-memory stores, a manual clock, injected
//! failures. `failpoints`: named points for crash tests. `metrics`: counters through the facade
//! crate of that name. `tracing`: spans around commits and background work.

mod approx;
mod approximate;
mod audit;
mod background;
mod backup;
mod batch;
mod catalog;
mod claim;
mod claims;
mod clock;
mod commit;
mod copy;
mod core;
mod dead;
mod engine;
mod error;
mod explain;
mod export;
mod front;
#[cfg(feature = "testing")]
#[doc(hidden)]
pub mod fuzzing;
mod handler;
mod id;
mod id_time;
mod import;
mod index;
mod key;
mod look;
mod memory;
mod meter;
mod mode;
mod options;
mod outbox;
mod plan;
mod poison;
mod policy;
mod position;
mod prepared;
mod producer;
#[cfg(feature = "raw")]
mod raw;
mod reconcile;
mod renewals;
mod report;
mod resources;
mod scope;
mod scope_claims;
mod sequence;
mod sequences;
mod stats;
mod store;
mod stores;
mod surge;
mod sync;
mod table;
mod trace;
mod two_phase;
mod tx;
mod verdict;
mod verify;
mod watch;
mod why;

pub use approx::{Approximate, ApproximateStats, Distinct, Recovery, Sight};
pub use approximate::ApproximateScope;
pub use audit::{AuditEntry, AuditEvent, AuditScan, ResumePoints};
pub use backup::{Backup, Backups, Pruned, copy_store};
pub use batch::{Batch, Submitted, Writes};
pub use claim::{Claim, ClaimEntry, Decided, Failure, Token};
#[cfg(feature = "testing")]
pub use clock::ManualClock;
pub use clock::{Clock, ClockState};
pub use dead::{DeadLetter, DeadLetters};
#[cfg(feature = "testing")]
pub use engine::{Injected, Injection, Place};
pub use error::{Error, ErrorKind, Recorded, Result};
pub use explain::{Explanation, Record, RecordFound, RecordState, Records, Tier};
pub use export::{METRICS, Metric, MetricKind, prometheus};
pub use handler::{
    Begun, Failed, FailureKind, Handled, Handler, HandlerError, Message, Source, Work,
};
pub use id::{Id, PayloadKey};
pub use id_time::{IdTime, OnLate};
pub use import::{Imported, Past};
pub use key::{Key, KeyError, Part, Parts, header};
pub use mode::{Mode, OnStoreError};
pub use options::{Durability, Options};
pub use outbox::{Outbox, OutboxId, Outgoing};
pub use plan::{Load, Plan};
pub use policy::{OnMissingId, OnUnknown, Policy, days};
pub use position::Position;
pub use producer::{BelowWindow, OnUnknownProducer, Partition, Producer, SequencePolicy};
#[cfg(all(feature = "testing", feature = "raw"))]
#[doc(hidden)]
pub use raw::RocksEnv;
#[cfg(feature = "raw")]
pub use raw::{RocksBatch, RocksOptions};
pub use reconcile::{
    Counts, Effect, Finding, FindingClass, Reconcile, Reconciliation, Repair, RepairPlan, Repaired,
};
pub use report::{Area, Checked, Fault, Progress, Remedy, Report};
pub use resources::Resources;
pub use scope::{Scan, Scope};
pub use sequences::{ProducerState, Sequences};
pub use stats::{
    AsOf, BackgroundStats, ClaimGroup, ClaimStates, ClaimStats, DurationStats, FilterStats,
    GenerationStats, Health, OutboxStats, PreparedStats, ScopeStats, SequenceStats, Stats,
    SurgeStats, TierStats, TimeStats, Top, TopEntry, TopSource, VerdictStats,
};
#[cfg(feature = "testing")]
pub use store::NextCommit;
pub use store::Store;
pub use stores::Stores;
pub use surge::{Surge, SurgeChange, SurgeSubject};
pub use table::{Table, TableScan, Value};
pub use two_phase::{InDoubt, Outcome};
pub use tx::Tx;
pub use verdict::{Action, BadId, IdState, InProgress, Refusal, Sighting, Verdict, Verdicts};
pub use verify::verify;
pub use why::Why;

/// Runs the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;

/// Runs the example of how to choose.
#[cfg(doctest)]
#[doc = include_str!("../docs/choosing.md")]
struct ChoosingDoctests;
