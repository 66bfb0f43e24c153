//! The dedup index: which ids were seen, in memory, in the packed log and in generations.
//!
//! Lock order: `maintenance` → `room` → `gate` → `swap` → `spares`. A thread that holds ids or
//! rows takes only `gate` (as the leader) and never waits for the others.
//!
//! | file | what |
//! | --- | --- |
//! | `append` | the gate: one write at a time, ids into the current segment |
//! | `room` | room in the current segment, rotation |
//! | `lookup` | which record stands |
//! | `seal`, `merge`, `expire` | background work under the maintenance lock |
//! | `recover`, `footers` | open: replay, floor, runs and strays |
//! | `reader` | the same, only to read |
//! | `scan` | all ids, in hash order |
//! | `verify` | a check of a store at rest |

mod active;
mod append;
mod books;
mod classes;
mod copy;
mod durable;
mod expire;
mod extras;
mod floor;
mod footers;
#[cfg(feature = "testing")]
pub(crate) mod fuzzing;
mod hash;
mod log;
mod lookup;
mod maintain;
mod merge;
mod meta;
mod names;
mod numbers;
mod page;
mod reader;
mod record;
mod recover;
mod room;
mod run;
mod scan;
mod screen;
mod seal;
mod segment;
mod sieves;
mod sift;
mod snapshot;
mod space;
mod stream;
mod trouble;
mod verify;
mod view;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::{Stopwatch, Timekeeper};
use crate::engine::{Engine, Family, Rep};
use crate::error::{Error, ErrorKind, Result};
use crate::meter::Histogram;
use crate::poison::Poison;
use crate::resources::Resources;
use crate::stats::DurationStats;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{ArcSwap, Condvar, Guard, Mutex};

pub(crate) use append::Member;
#[cfg(feature = "testing")]
pub(crate) use append::NextFailure;
pub(crate) use books::Book;
pub(crate) use classes::{Class, Classes, FOR_EVER};
pub(crate) use copy::{durability_of, give_floor};
pub(crate) use extras::{Ended, Extras, SOURCE_BYTES_MAX};
pub(crate) use hash::{Fingerprint, IdHash, fingerprint};
pub(crate) use log::{LogBuilder, Sections};
pub(crate) use lookup::{Probe, Scratch, Tiers};
pub(crate) use meta::{FORMAT, class_row};
use names::Name;
pub(crate) use names::table as table_family;
pub(crate) use reader::open_to_read;
pub(crate) use record::{FOR_EVER_CLASS, FOR_EVER_MS, Hit, Meta, Slice, Stamp, State};
pub(crate) use recover::{Opened, Opening, open};
pub(crate) use room::Room;
pub(crate) use scan::IdScan;
pub(crate) use segment::words_for_item;
pub(crate) use stream::Streamed;
pub(crate) use verify::{AtRest, PreparedIds, ScopeFacts};

use append::Gate;
use books::Books;
use durable::Durable;
use floor::Floor;
use maintain::Maintenance;
use segment::{Segment, SetPool};
use space::Space;
use trouble::Trouble;
use view::View;

/// Settings of the index, from the store's options.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// None: as the budget of filters allows.
    pub(crate) filter_bits: Option<u32>,
    pub(crate) segment_ids_max: Option<usize>,
    pub(crate) segment_age: Duration,
    pub(crate) background: bool,
    /// Free bytes below which writes are refused; 0: never.
    pub(crate) free_bytes_min: u64,
}

/// Counters of the index.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) seals: AtomicU64,
    pub(crate) merges: AtomicU64,
    pub(crate) drops: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) stalls: AtomicU64,
    pub(crate) stalled_us: AtomicU64,
    pub(crate) replayed: AtomicU64,
    pub(crate) filters_loaded: AtomicU64,
    pub(crate) filters_rebuilt: AtomicU64,
    pub(crate) seal_times: Histogram,
    pub(crate) merge_times: Histogram,
    pub(crate) drop_times: Histogram,
}

/// Bytes that nobody can guess: ids of runs and copies, the hash's seed.
fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes)
        .map_err(|e| Error::new(ErrorKind::Degraded, format!("no randomness: {e}")))?;
    Ok(bytes)
}

/// A number that nobody can guess.
pub(crate) fn random_number() -> Result<u64> {
    random().map(u64::from_le_bytes)
}

/// The index of an open store.
pub(crate) struct Index {
    pub(crate) engine: Engine,
    pub(crate) time: Arc<Timekeeper>,
    pub(crate) ids: IdHash,
    pub(crate) classes: Classes,
    pub(crate) poison: Arc<Poison>,
    pub(crate) resources: Resources,
    pub(crate) limits: Limits,
    pub(crate) counts: Counts,
    pub(crate) meta: Arc<Family>,
    pub(crate) points: Arc<Family>,
    pub(crate) audit: Arc<Family>,
    books: Books,
    durable: Durable,
    floor: Floor,
    view: ArcSwap<View>,
    /// Serialises view swaps (V2).
    swap: Mutex<()>,
    gate: Mutex<Gate>,
    room: Mutex<room::Reserved>,
    room_changed: Condvar,
    /// Segments made ahead of need: family and set, so that a rotation only swaps.
    spares: Mutex<VecDeque<Arc<Segment>>>,
    pool: Arc<SetPool>,
    maintenance: Mutex<Maintenance>,
    /// Set while files wait for old views to go.
    garbage_waits: Mutex<Option<Stopwatch>>,
    /// What failed in the last round of background work, and what becomes of it.
    trouble: Mutex<Option<Trouble>>,
    /// Scopes that were dropped: merges leave their ids out.
    dropped_scopes: Mutex<Vec<u16>>,
    /// Whether there is room on the disk to write.
    pub(crate) space: Space,
    /// The store is being closed: long work gives up.
    closing: AtomicBool,
    /// RocksDB has stopped writes: callers wait before they hold anything.
    write_stopped: AtomicBool,
    #[cfg(feature = "testing")]
    fail_next: Mutex<Option<NextFailure>>,
}

impl Index {
    /// The picture as it is now (V1: load it once, after the hold).
    pub(crate) fn view(&self) -> Guard<Arc<View>> {
        self.view.load()
    }

    /// Looks ids up in one view; see [`lookup::lookup`].
    pub(crate) fn lookup<'a>(
        &self,
        hashes: &[u64],
        probe: impl Fn(usize) -> Probe<'a>,
        scratch: &mut Scratch,
        tiers: &mut Tiers,
        found: impl FnMut(usize, Hit),
    ) -> Result<()> {
        let view = self.view();
        lookup::lookup(&view, &self.ids, hashes, probe, scratch, tiers, found)
    }

    /// The last commit that was written.
    pub(crate) fn written(&self) -> u64 {
        self.durable.written()
    }

    /// How long syncs took.
    pub(crate) fn sync_times(&self) -> DurationStats {
        self.durable.times.read()
    }

    /// The last commit known to be durable.
    pub(crate) fn durable(&self) -> u64 {
        self.durable.durable()
    }

    /// Returns once commit `n` is durable; while the disk is full that must wait.
    pub(crate) fn wait_durable(&self, n: u64) -> Result<()> {
        let may_sync = || {
            self.space
                .wait(|| self.poison.is_set() || self.is_closing());
            self.poison.check().and(self.space.check_engine())
        };
        let waited = self.durable.wait(n, &self.engine, &self.poison, may_sync);
        waited.map_err(|error| self.undecided(n, error))
    }

    /// Makes everything that was written durable, unless the disk is full.
    ///
    /// # Errors
    /// `Full`: nothing is lost, and the call may be made again.
    pub(crate) fn sync_written(&self) -> Result<()> {
        let n = self.written();
        let may_sync = || self.space.check_engine();
        let waited = self.durable.wait(n, &self.engine, &self.poison, may_sync);
        waited.map_err(|error| match error.kind() {
            ErrorKind::Full => error,
            _ => self.undecided(n, error),
        })
    }

    /// Whether an unsynced commit may have happened since the store was made.
    pub(crate) fn allow_unsynced(&self) -> Result<()> {
        if self.floor.unsynced() {
            return Ok(());
        }
        let allowed = self.floor.allow_unsynced();
        allowed.inspect_err(|error| self.floor_failed(error))
    }

    /// The failure of a commit whose fate is unknown, named so that it is found again in the
    /// log of another copy or a later run of the store.
    fn undecided(&self, n: u64, error: Error) -> Error {
        let incarnation = u128::from_be_bytes(self.floor.incarnation());
        let what = format!(
            "{} (incarnation {incarnation:032x}, commit {n})",
            error.message()
        );
        Error::new(ErrorKind::Degraded, what)
            .with_source(error)
            .unknown()
    }

    /// Has long background work give up; what it began is done again after the next open.
    pub(crate) fn begin_close(&self) {
        self.closing.store(true, Ordering::Release);
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    /// Looks whether RocksDB has stopped writes; wakes who waited when it goes on.
    pub(crate) fn check_write_stop(&self) {
        let is_stopped = self.engine.writes_stopped();
        if self.write_stopped.swap(is_stopped, Ordering::AcqRel) && !is_stopped {
            self.room_may_have_changed();
        }
    }

    pub(crate) fn set_dropped_scopes(&self, scopes: Vec<u16>) {
        *self.dropped_scopes.lock() = scopes;
    }

    /// Writes rows of the catalog, made durable before it returns.
    ///
    /// # Errors
    /// `Full`: nothing was written.
    pub(crate) fn write_rows(&self, rows: &Rep) -> Result<()> {
        self.space.check()?;
        self.put_rows(rows)?;
        // What is written must become durable, however long the disk is full.
        self.space
            .wait(|| self.poison.is_set() || self.is_closing());
        self.space.check_engine().map_err(Error::unknown)?;
        self.sync_all()
    }

    /// Writes the index's own marks, made durable before it returns; may be done again.
    pub(super) fn write_marks(&self, rows: &Rep) -> Result<()> {
        self.put_rows(rows)?;
        self.space.check_engine()?;
        self.sync_all()
    }

    fn put_rows(&self, rows: &Rep) -> Result<()> {
        self.poison.check()?;
        self.space.check_engine()?;
        self.check_engine_room()?;
        let _gate = self.gate.lock();
        let written = self.engine.write(&rows.whole());
        written.map_err(|error| {
            let error = self.write_failed(error, || Ok(false));
            match error.kind() {
                ErrorKind::Full => error,
                _ => error.unknown(),
            }
        })
    }

    /// A floor that can't be written is no floor: only want of space or of descriptors passes.
    pub(super) fn floor_failed(&self, error: &Error) {
        if !error.is_retryable() {
            self.poison
                .set(format!("the floor was not written: {error}"));
        }
    }

    /// Raises the floor to what is durable.
    pub(super) fn raise_floor(&self, n: u64) -> Result<()> {
        let raised = self.floor.raise(n);
        raised.inspect_err(|error| self.floor_failed(error))
    }

    /// Makes everything that was written durable.
    pub(crate) fn sync_all(&self) -> Result<()> {
        self.durable.sync_always(&self.engine, &self.poison)
    }

    /// Bytes of active sets: those in the view and those that wait.
    pub(crate) fn set_bytes(&self) -> usize {
        let view = self.view();
        view.segments.iter().map(|s| s.set().bytes()).sum::<usize>() + self.pool.bytes()
    }
}
