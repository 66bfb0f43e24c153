//! `Buffered` commits: queued in memory, written as one packed commit every few milliseconds.
//!
//! Their ids stay held until they are written, so another caller that meets one makes the
//! buffer be written at once and then sees a duplicate. Their rows are invisible until then.
//! The buffer is written before any other level, a sync, a forget and a row read.
//!
//! Failure: these commits were acknowledged already. If a write recorded nothing, as when the disk
//! is full, they stay here, their ids held, until one succeeds; no more are taken meanwhile. If
//! nobody knows what a write recorded, the store is poisoned; every later call learns of it.

use crate::engine::Rep;
use crate::error::{Recorded, Result};
use crate::index::{Index, LogBuilder, Room};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, Ordering};

use super::decide::Held;
use super::queue::Queue;

/// What waits to be written.
#[derive(Default)]
pub(crate) struct Buffer {
    pending: Mutex<Pending>,
    /// One flush at a time, so that the order of commits is kept.
    flushing: Mutex<()>,
    has_any: AtomicBool,
}

#[derive(Default)]
struct Pending {
    log: LogBuilder,
    rows: Rep,
    held: Vec<(Held, Room)>,
}

/// Bytes that make a caller write the buffer itself.
const BYTES_MAX: usize = 256 << 10;

impl Buffer {
    /// Queues a commit; true if the buffer is full and should be written now.
    pub(super) fn push(
        &self,
        log: &LogBuilder,
        rows: &Rep,
        held: Held,
        room: Room,
    ) -> Result<bool> {
        let mut pending = self.pending.lock();
        pending.log.append(log)?;
        pending.rows.append(rows);
        pending.held.push((held, room));
        self.has_any.store(true, Ordering::Release);
        Ok(pending.log.bytes() + pending.rows.body().len() > BYTES_MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        !self.has_any.load(Ordering::Acquire)
    }

    /// Loses what is queued; what it holds keeps the committer, so it must not stay here.
    pub(super) fn discard(&self) {
        let _flushing = self.flushing.lock();
        let taken = std::mem::take(&mut *self.pending.lock());
        taken.held.into_iter().for_each(|(held, _)| held.keep());
    }

    /// A row as what is queued leaves it; `None` if that does not touch it.
    pub(super) fn row(&self, family: u32, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let _flushing = self.flushing.lock();
        let pending = self.pending.lock();
        pending
            .rows
            .last(family, key)
            .map(|v| v.map(<[u8]>::to_vec))
    }

    /// Puts commits that were not written before those that came since.
    fn put_back(&self, mut taken: Pending) -> Result<()> {
        let mut pending = self.pending.lock();
        pending.log.finish();
        taken.log.append(&pending.log)?;
        taken.rows.append(&pending.rows);
        taken.held.append(&mut pending.held);
        *pending = taken;
        Ok(())
    }

    /// Writes what is queued.
    pub(super) fn flush(&self, index: &Index, queue: &Queue) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let _flushing = self.flushing.lock();
        let mut taken = std::mem::take(&mut *self.pending.lock());
        if !taken.held.is_empty() {
            taken.log.finish();
            let written = queue.commit(index, &mut taken.log, &mut taken.rows);
            if let Err(error) = written {
                if error.recorded() == Recorded::No && !index.poison.is_set() {
                    self.put_back(taken)?;
                    return Err(error);
                }
                index
                    .poison
                    .set(format!("buffered commits were not written: {error}"));
                taken.held.into_iter().for_each(|(held, _)| held.keep());
                return Err(error.unknown());
            }
        }
        // Only now: whoever sees an empty buffer relies on what was in it being written.
        drop(taken);
        let pending = self.pending.lock();
        self.has_any
            .store(!pending.held.is_empty(), Ordering::Release);
        Ok(())
    }
}
