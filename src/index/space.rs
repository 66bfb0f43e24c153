//! Whether there is room on the disk to write.
//!
//! Two things end admission of writes, and neither ends reading:
//! - *low*: less free space than the reserve. Nothing has failed; what goes on regardless is
//!   background work (which frees space) and commits that were acknowledged already.
//! - *stopped*: a write met the end of the disk. It is known that nothing of it was recorded: the
//!   system did not take all bytes of its record, so no reopening takes it for whole, and
//!   RocksDB puts nothing into memory that it has not written. RocksDB then refuses writes until
//!   there is room and all its memtables are flushed, which ends the use of the torn log. We
//!   write a probe now and then; once it is written and synced, writes are admitted again.
//!
//! Invariants:
//! - N1: while stopped, nothing is synced: the log's last record is torn, and RocksDB would take
//!   the refused sync for a broken disk. Who waits for durability waits on. A sync that began
//!   before the stop is not held back: it may still come after the refused write, and then it
//!   poisons the store, which loses nothing that was acknowledged.
//! - N2: a stop ends only after a probe was written *and* synced, under the gate; so everything
//!   written before the stop is durable then.
//!
//! Failure: any other error of the probe poisons the store, and so does an engine that does not
//! go on although there is room (N3: RocksDB can't when the disk fills just as it begins a log).

use std::time::Duration;

use crate::clock::Stopwatch;
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

use super::{Index, meta};

/// The state.
pub(crate) struct Space {
    low: AtomicBool,
    is_stopped: AtomicBool,
    stopped: Mutex<Option<Stopped>>,
    changed: Condvar,
    /// Calls that were refused for want of space.
    pub(crate) refusals: AtomicU64,
    looked: Mutex<Stopwatch>,
    /// Whether they are more than that, as of the last look.
    is_suspect: AtomicBool,
    /// RocksDB's background failures after which it was found to go on.
    overcome: AtomicU64,
}

struct Stopped {
    why: String,
    probed: Stopwatch,
    /// Since when there has been room.
    room_since: Option<Stopwatch>,
}

/// The part of the reserve that commits leave, looked at so often, or for a commit so large.
const COMMIT_SHARE: u64 = 8;
const LOOK_EVERY: Duration = Duration::from_millis(1);
const COMMIT_BYTES: usize = 1 << 20;
/// … and the part that background work leaves.
pub(super) const WORK_SHARE: u64 = 4;
/// The room that RocksDB needs at the least to begin a log.
const ENGINE_BYTES: u64 = 2 << 20;
/// How long RocksDB may take to go on once there is room; it looks every five seconds.
const GOES_ON_WITHIN: Duration = Duration::from_secs(15);
/// How often a probe is written while stopped.
const PROBE_EVERY: Duration = Duration::from_millis(500);

impl Space {
    pub(super) fn new() -> Space {
        Space {
            low: AtomicBool::new(false),
            is_stopped: AtomicBool::new(false),
            stopped: Mutex::new(None),
            changed: Condvar::new(),
            refusals: AtomicU64::new(0),
            looked: Mutex::new(Stopwatch::start()),
            is_suspect: AtomicBool::new(false),
            overcome: AtomicU64::new(0),
        }
    }

    /// Why writes are refused now, if they are.
    pub(crate) fn why(&self) -> Option<String> {
        if let Some(stopped) = &*self.stopped.lock() {
            let why = &stopped.why;
            return Some(format!("the disk is full, writes wait for room: {why}"));
        }
        self.is_low()
            .then(|| "the disk has too little free space".to_string())
    }

    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Acquire)
    }

    /// Whether RocksDB may not take writes: only a probe tells.
    pub(crate) fn awaits_probe(&self) -> bool {
        self.is_stopped() || self.is_suspect.load(Ordering::Acquire)
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// # Errors
    /// `Full` while writes are refused. Nothing was recorded.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_low() || self.is_stopped() {
            self.refusals.fetch_add(1, Ordering::Relaxed);
            return Err(self.refusal());
        }
        Ok(())
    }

    fn refusal(&self) -> Error {
        let why = self.why();
        let why = why.unwrap_or_else(|| "the disk was full a moment ago".to_string());
        Error::new(ErrorKind::Full, format!("{why}; nothing was recorded"))
    }

    /// # Errors
    /// `Full` while the engine refuses writes.
    pub(super) fn check_engine(&self) -> Result<()> {
        if self.is_stopped() {
            return Err(self.refusal());
        }
        Ok(())
    }

    pub(super) fn set_low(&self, low: bool) -> bool {
        self.low.swap(low, Ordering::AcqRel) != low
    }

    fn stop(&self, why: &str) {
        if !self.is_stopped() {
            log::warn!("writes wait for room on the disk: {why}");
        }
        let mut stopped = self.stopped.lock();
        *stopped = Some(Stopped {
            why: why.to_string(),
            probed: Stopwatch::start(),
            room_since: stopped.take().and_then(|s| s.room_since),
        });
        drop(stopped);
        self.is_stopped.store(true, Ordering::Release);
    }

    fn resume(&self) {
        log::warn!("there is room on the disk again: writes go on");
        let mut stopped = self.stopped.lock();
        *stopped = None;
        self.is_stopped.store(false, Ordering::Release);
        self.changed.notify_all();
    }

    fn probe_is_due(&self) -> bool {
        let mut stopped = self.stopped.lock();
        stopped
            .as_mut()
            .is_some_and(|s| s.probed.restart_after(PROBE_EVERY))
    }

    /// Notes whether there is room; true if there has been long enough for RocksDB to go on.
    fn note_room(&self, is_there: bool) -> bool {
        let mut stopped = self.stopped.lock();
        let Some(stopped) = stopped.as_mut() else {
            return false;
        };
        if !is_there {
            stopped.room_since = None;
            return false;
        }
        let since = stopped.room_since.get_or_insert_with(Stopwatch::start);
        since.elapsed() > GOES_ON_WITHIN
    }

    /// Waits until writes go on (N1), or `give_up` says not to.
    pub(super) fn wait(&self, give_up: impl Fn() -> bool) {
        let mut stopped = self.stopped.lock();
        while stopped.is_some() && !give_up() {
            self.changed.wait_for(&mut stopped, PROBE_EVERY);
        }
    }
}

impl Index {
    /// What a failed write says of what it was to record: nothing, if the disk was full;
    /// otherwise nobody knows, and the store is poisoned. `is_written` looks in memory.
    pub(super) fn write_failed(
        &self,
        error: Error,
        is_written: impl FnOnce() -> Result<bool>,
    ) -> Error {
        if error.kind() == ErrorKind::Full && matches!(is_written(), Ok(false)) {
            self.space.refusals.fetch_add(1, Ordering::Relaxed);
            self.space.stop(error.message());
            self.room_changed.notify_all();
            let what = "the disk is full; nothing was recorded";
            return error.context(what);
        }
        self.poison
            .set(format!("a write failed: {}", error.message()));
        self.durable.wake();
        error.context("the write failed")
    }

    /// Refuses or admits writes by the free space there is.
    pub(crate) fn check_free(&self) -> Result<()> {
        let least = self.limits.free_bytes_min;
        if least > 0
            && let Some(free) = self.engine.home().free_bytes()?
            && self.space.set_low(free < least)
        {
            self.room_may_have_changed();
        }
        Ok(())
    }

    /// Whether so many bytes can be written without using the last part of the reserve up,
    /// which is RocksDB's: for its log, which it must not find the end of the disk with.
    ///
    /// # Errors
    /// `Full` if not.
    pub(super) fn check_room_for(&self, bytes: usize, share: u64) -> Result<()> {
        let least = self.limits.free_bytes_min / share;
        if least > 0
            && let Some(free) = self.engine.home().free_bytes()?
            && free < least.saturating_add(2 * bytes as u64)
        {
            self.space.set_low(true);
            return Err(self.space.refusal());
        }
        Ok(())
    }

    /// The same for a commit, under the gate: looked at once a millisecond.
    pub(super) fn check_commit(&self, bytes: usize) -> Result<()> {
        self.space.check_engine()?;
        if bytes >= COMMIT_BYTES || self.space.looked.lock().restart_after(LOOK_EVERY) {
            self.check_room_for(bytes, COMMIT_SHARE)?;
        }
        Ok(())
    }

    /// Whether RocksDB may be asked to flush, or to write what no caller waits for. Whatever the
    /// reserve: when it finds the disk full as it begins a log, it stops for good.
    pub(super) fn check_engine_room(&self) -> Result<()> {
        let free = self.engine.home().free_bytes()?;
        if free.is_some_and(|free| free < ENGINE_BYTES) {
            let text = format!("the disk has less than {ENGINE_BYTES} bytes left");
            return Err(Error::new(ErrorKind::Full, text));
        }
        Ok(())
    }

    /// Whether a probe is due: writes are refused, or RocksDB's background work failed since the
    /// last one.
    pub(crate) fn probe_is_due(&self) -> bool {
        if self.poison.is_set() {
            return false;
        }
        if self.space.is_stopped() {
            // Who began to wait for room while the stop came may have missed it.
            self.room_may_have_changed();
            return self.space.probe_is_due();
        }
        self.space.is_suspect.load(Ordering::Acquire)
    }

    /// Looks whether RocksDB's background work failed.
    pub(crate) fn check_failures(&self) {
        let is_suspect = self.has_new_failures();
        self.space.is_suspect.store(is_suspect, Ordering::Release);
    }

    /// Whether RocksDB's background work failed and it is not known yet whether that passed.
    pub(crate) fn has_new_failures(&self) -> bool {
        self.engine.background_errors() > self.space.overcome.load(Ordering::Acquire)
    }

    /// RocksDB that does not go on although there has been room for long never will: it met the
    /// end of the disk where it can't go on from, as it began a log.
    fn give_up_on_room(&self) {
        let needed = self.engine.resume_bytes();
        let free = self.engine.home().free_bytes().ok().flatten();
        if self.space.note_room(free.is_some_and(|free| free > needed)) {
            self.poison
                .set("RocksDB does not go on after the disk was full".to_string());
            self.durable.wake();
        }
    }

    /// Finds out whether RocksDB takes writes again, by writing the mark, and admits them then.
    pub(crate) fn probe(&self) -> Result<()> {
        self.poison.check()?;
        if let Err(error) = self.check_engine_room() {
            self.space.note_room(false);
            return Err(error);
        }
        let failures = self.engine.background_errors();
        let now = self.time.now_ms();
        let mut rows = Rep::default();
        rows.put(self.meta.number(), meta::MARK_KEY, &now.to_le_bytes());
        {
            // Under the gate, so that nobody's write fails between the probe and the sync.
            let _gate = self.gate.lock();
            if let Err(error) = self.engine.write(&rows.whole()) {
                self.give_up_on_room();
                return Err(self.write_failed(error, || Ok(false)));
            }
            self.durable.sync_always(&self.engine, &self.poison)?;
            if self.space.is_stopped() {
                self.space.resume();
            }
        }
        self.time.set_persisted(now);
        self.space.overcome.fetch_max(failures, Ordering::AcqRel);
        self.check_failures();
        self.durable.wake();
        self.room_may_have_changed();
        Ok(())
    }
}
