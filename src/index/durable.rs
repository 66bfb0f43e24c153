//! How far commits are written, and how far they are durable.
//!
//! - D1: `written` and `durable` only rise, and `durable` never passes `written` as it was
//!   before the sync that raised it.
//! - D2: one sync at a time; callers that need it wait for the one that runs, and one of them
//!   does the next for all (group commit).
//!
//! Failure: a failed sync is never retried. It poisons the store; every waiter learns that its
//! commit's fate is unknown. While the disk is full nothing is synced (N1 in `space.rs`).

use crate::clock::Stopwatch;
use crate::engine::{Engine, failpoint};
use crate::error::{Error, Result};
use crate::meter::Histogram;
use crate::poison::Poison;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// The two marks, in commit numbers.
pub(crate) struct Durable {
    written: AtomicU64,
    durable: AtomicU64,
    syncing: Mutex<bool>,
    synced: Condvar,
    /// How long syncs took.
    pub(super) times: Histogram,
}

impl Durable {
    pub(crate) fn new(n: u64) -> Durable {
        Durable {
            written: AtomicU64::new(n),
            durable: AtomicU64::new(n),
            syncing: Mutex::new(false),
            synced: Condvar::new(),
            times: Histogram::default(),
        }
    }

    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    pub(crate) fn durable(&self) -> u64 {
        self.durable.load(Ordering::Acquire)
    }

    pub(crate) fn set_written(&self, n: u64) {
        self.written.fetch_max(n, Ordering::AcqRel);
    }

    /// Returns once commit `n` is durable.
    ///
    /// `may_sync` waits while nothing may be synced; its error ends the call.
    ///
    /// # Errors
    /// `Degraded`, outcome unknown, if a sync failed.
    pub(crate) fn wait(
        &self,
        n: u64,
        engine: &Engine,
        poison: &Poison,
        may_sync: impl Fn() -> Result<()>,
    ) -> Result<()> {
        let mut syncing = self.syncing.lock();
        loop {
            if self.durable() >= n {
                return Ok(());
            }
            poison.check().map_err(Error::unknown)?;
            drop(syncing);
            may_sync()?;
            syncing = self.syncing.lock();
            if self.durable() >= n {
                return Ok(());
            }
            if !*syncing {
                break;
            }
            self.synced.wait(&mut syncing);
        }
        *syncing = true;
        drop(syncing);
        let result = self.sync_now(engine, poison);
        *self.syncing.lock() = false;
        self.synced.notify_all();
        result
    }

    /// Syncs whatever was written, also outside commits.
    pub(crate) fn sync_always(&self, engine: &Engine, poison: &Poison) -> Result<()> {
        poison.check()?;
        self.sync_now(engine, poison)
    }

    fn sync_now(&self, engine: &Engine, poison: &Poison) -> Result<()> {
        let mark = self.written();
        failpoint!("commit::before_sync");
        let watch = Stopwatch::start();
        match engine.sync() {
            Ok(()) => {
                self.times.record(watch.elapsed());
                failpoint!("commit::after_sync");
                self.durable.fetch_max(mark, Ordering::AcqRel);
                Ok(())
            }
            Err(error) => {
                poison.set(format!("a sync failed: {error}"));
                Err(error.unknown())
            }
        }
    }

    /// Wakes those who wait for a sync that will not come.
    pub(crate) fn wake(&self) {
        let _syncing = self.syncing.lock();
        self.synced.notify_all();
    }
}
