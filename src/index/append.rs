//! The gate: commits into the packed log, one write at a time.
//!
//! The leader holds the gate through protocol steps 8 to 12: it draws a number for each commit,
//! writes them all in ONE batch, puts their ids into the current segment's set, and only then
//! leaves. So (I1) nothing is waited for in here but RocksDB, (I2) the set insert precedes the
//! release of any hold, (I3) numbers are in WAL order; and whoever has held the gate after a
//! rotation knows that nobody writes to the old segment any more (Sealing 3).
//!
//! Failure: a refusal before the write leaves nothing behind, and neither does a write that met
//! the end of the disk (`space.rs`). Any other failed write poisons the store: its outcome is
//! unknown until the store is reopened. A panic in here poisons it too.

use crate::engine::{Family, Rep, failpoint};
use crate::error::{ErrorKind, Result};
use crate::poison::Poison;
use crate::sync::atomic::Ordering;

use super::Index;
use super::log::{LogBuilder, log_key};

/// What the leader works with.
pub(super) struct Gate {
    next_n: u64,
    batch: Vec<u8>,
}

impl Gate {
    pub(super) fn new(next_n: u64) -> Gate {
        Gate {
            next_n,
            batch: Vec::new(),
        }
    }
}

/// One commit of a group: its new ids, and the rows it writes.
#[derive(Clone, Copy)]
pub(crate) struct Member<'a> {
    pub(crate) log: &'a LogBuilder,
    pub(crate) rows: &'a Rep,
}

/// A failure that a test asked for.
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextFailure {
    /// Before the write: nothing is recorded.
    Before,
    /// The write itself: nothing is written, but nobody knows.
    Lost,
    /// After the write: everything is written, but nobody knows.
    After,
}

/// Poisons the store if the leader unwinds.
struct PanicGuard<'a>(&'a Poison);

impl Drop for PanicGuard<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.set("a commit leader panicked".to_string());
        }
    }
}

/// The numbers that rows of a group drew; those that no end shows are taken back.
struct Drawn<'a>(&'a [Member<'a>]);

impl Drawn<'_> {
    fn end(&self, is_written: bool) {
        let members = self.0.iter();
        members.for_each(|m| m.rows.end_numbers(is_written));
    }
}

impl Drop for Drawn<'_> {
    fn drop(&mut self) {
        self.end(false);
    }
}

impl Index {
    /// Commits a group in one write; returns the first commit's number, the others follow.
    ///
    /// Room for the ids must have been reserved. Not synced.
    ///
    /// # Errors
    /// With `Recorded::No` if the store is poisoned or the disk is full; with
    /// `Recorded::Unknown` if the write failed otherwise, and the store is poisoned then.
    pub(crate) fn append(&self, members: &[Member<'_>]) -> Result<u64> {
        let mut gate = self.gate.lock();
        let _guard = PanicGuard(&self.poison);
        self.poison.check()?;
        let view = self.view.load();
        let segment = view.current();
        let first_n = gate.next_n;
        gate.fill(first_n, segment.family.number(), members);
        let drawn = Drawn(members);
        self.check_commit(gate.batch.len())?;
        failpoint!("commit::before_write");
        self.write_group(first_n, &segment.family, &gate.batch)?;
        failpoint!("commit::after_write");
        for (n, member) in (first_n..).zip(members) {
            segment.take(n, member.log.value(), member.log.hashes())?;
        }
        gate.next_n += members.len() as u64;
        self.durable.set_written(gate.next_n - 1);
        // After the mark: who syncs up to it then has all that these numbers show.
        drawn.end(true);
        failpoint!("commit::after_publish");
        Ok(first_n)
    }

    fn write_group(&self, n: u64, log: &Family, batch: &[u8]) -> Result<()> {
        let lost = |error| {
            let is_written = || Ok(log.get(&log_key(n))?.is_some());
            let error = self.write_failed(error, is_written);
            match error.kind() {
                ErrorKind::Full => error,
                _ => self.undecided(n, error),
            }
        };
        #[cfg(feature = "testing")]
        let asked_for =
            || crate::error::Error::new(ErrorKind::Busy, "a test asked for this failure");
        #[cfg(feature = "testing")]
        let failure = self.fail_next.lock().take();
        #[cfg(feature = "testing")]
        match failure {
            Some(NextFailure::Before) => {
                return Err(asked_for());
            }
            Some(NextFailure::Lost) => return Err(lost(asked_for())),
            Some(NextFailure::After) => {
                self.engine.write(batch)?;
                return Err(lost(asked_for()));
            }
            None => {}
        }
        self.engine.write(batch).map_err(lost)
    }

    #[cfg(feature = "testing")]
    pub(crate) fn fail_next(&self, failure: NextFailure) {
        *self.fail_next.lock() = Some(failure);
    }

    /// Passes once no leader is inside; after a rotation, nobody writes to the old segment.
    pub(super) fn wait_for_gate(&self) {
        drop(self.gate.lock());
    }

    pub(crate) fn count_stall(&self, waited: std::time::Duration) {
        self.counts.stalls.fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(waited.as_micros()).unwrap_or(u64::MAX);
        self.counts.stalled_us.fetch_add(us, Ordering::Relaxed);
    }
}

impl Gate {
    /// The group as one batch: a log record for each commit, then its rows.
    fn fill(&mut self, first_n: u64, log_family: u32, members: &[Member<'_>]) {
        Rep::start(&mut self.batch);
        let mut count = 0;
        for (n, member) in (first_n..).zip(members) {
            Rep::put_into(&mut self.batch, log_family, &log_key(n), member.log.value());
            member.rows.write_to(&mut self.batch);
            count += 1 + member.rows.count();
        }
        Rep::finish(&mut self.batch, count);
        if self.batch.capacity() > 4 * self.batch.len() && self.batch.capacity() > 8 << 20 {
            self.batch.shrink_to_fit();
        }
    }
}
