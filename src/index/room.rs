//! Room in the current segment, and rotation to the next one.
//!
//! A caller reserves room before it holds anything (protocol step 2), so that the leader never
//! waits: at any time what is reserved fits into the current segment. When it would not, the
//! caller rotates; when it can't (two segments wait to be sealed, or no log family is ready), it
//! waits up to its deadline and gets `Busy`.
//!
//! While the disk is full nobody waits for room, which sealing could not make: the caller gets
//! none, is answered what is known, and is refused what would have to be written.

use std::sync::Arc;
use std::time::Instant;

use crate::clock::{Stopwatch, left};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::Ordering;

use super::Index;
use super::segment::SetSize;

/// What is reserved now, over all callers.
#[derive(Default)]
pub(super) struct Reserved {
    ids: usize,
    words: usize,
}

impl Reserved {
    pub(super) fn ids(&self) -> usize {
        self.ids
    }

    pub(super) fn words(&self) -> usize {
        self.words
    }
}

/// A reservation; dropping it gives the room back (after the commit it is used up).
pub(crate) struct Room {
    index: Arc<Index>,
    ids: usize,
    words: usize,
    is_reserved: bool,
}

impl Room {
    pub(crate) fn is_reserved(&self) -> bool {
        self.is_reserved
    }

    /// # Errors
    /// `Full` if there was no room to reserve when the ids were looked up.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_reserved {
            return Ok(());
        }
        self.index.space.check()?;
        Err(Error::new(
            ErrorKind::Full,
            "the disk was full when the ids were looked up; nothing was recorded",
        ))
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let mut reserved = self.index.room.lock();
        reserved.ids -= self.ids;
        reserved.words -= self.words;
        drop(reserved);
        self.index.room_changed.notify_all();
    }
}

/// Segments that may wait to be sealed before callers wait.
const UNSEALED_MAX: usize = 2;

impl Index {
    /// Reserves room for `ids` ids in `words` words; none while the disk is full.
    ///
    /// # Errors
    /// `Busy` if sealing didn't catch up by the deadline; nothing is held.
    pub(crate) fn reserve(
        self: &Arc<Index>,
        ids: usize,
        words: usize,
        by: Instant,
    ) -> Result<Room> {
        let mut reserved = self.room.lock();
        let mut stalled: Option<Stopwatch> = None;
        loop {
            if self.space.is_low() || self.space.is_stopped() {
                return Ok(self.no_reservation());
            }
            let (all_ids, all_words) = (reserved.ids + ids, reserved.words + words);
            let fits = !self.write_stopped.load(Ordering::Acquire)
                && (self
                    .view
                    .load()
                    .current()
                    .set()
                    .has_room(all_ids, all_words)
                    || self.rotate(all_ids, all_words)?);
            if fits {
                reserved.ids = all_ids;
                reserved.words = all_words;
                if let Some(watch) = stalled {
                    self.count_stall(watch.elapsed());
                }
                return Ok(Room {
                    index: Arc::clone(self),
                    ids,
                    words,
                    is_reserved: true,
                });
            }
            self.poison.check()?;
            stalled.get_or_insert_with(Stopwatch::start);
            if !self.limits.background {
                drop(reserved);
                self.maintain()?;
                reserved = self.room.lock();
                continue;
            }
            if self.room_changed.wait_until(&mut reserved, by).timed_out() && left(by).is_zero() {
                if let Some(watch) = stalled {
                    self.count_stall(watch.elapsed());
                }
                return Err(self.no_room());
            }
        }
    }

    /// Adds words to a reservation without waiting for anything; false if that is not possible
    /// now. Callers hold ids.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(crate) fn grow(&self, room: &mut Room, words: usize) -> Result<bool> {
        if !room.is_reserved {
            // Nothing will be written with it.
            return Ok(true);
        }
        let mut reserved = self.room.lock();
        let all = (reserved.ids, reserved.words + words);
        let fits =
            self.view.load().current().set().has_room(all.0, all.1) || self.rotate(all.0, all.1)?;
        if fits {
            reserved.words = all.1;
            room.words += words;
        }
        Ok(fits)
    }

    fn no_reservation(self: &Arc<Index>) -> Room {
        Room {
            index: Arc::clone(self),
            ids: 0,
            words: 0,
            is_reserved: false,
        }
    }

    fn no_room(&self) -> Error {
        let why = match self.trouble() {
            Some(why) => why,
            None if self.write_stopped.load(Ordering::Acquire) => {
                "RocksDB has stopped writes until its compactions catch up".to_string()
            }
            None => "sealing fell behind".to_string(),
        };
        Error::new(ErrorKind::Busy, format!("no room for new ids: {why}"))
    }

    /// Makes a new segment current, with room for at least so much. False if that must wait.
    pub(super) fn rotate(&self, ids: usize, words: usize) -> Result<bool> {
        if self.view.load().unsealed() >= UNSEALED_MAX {
            return Ok(false);
        }
        let Some(mut next) = self.spares.lock().pop_front() else {
            return Ok(false);
        };
        if !next.size.covers(ids, words) {
            // One commit larger than a segment gets a segment of its own size.
            let size = self.segment_size();
            let size = SetSize {
                ids: size.ids.max(ids),
                words: size.words.max(words + 1),
            };
            next = Arc::new(next.resized(size, &self.pool)?);
        }
        {
            let _gate = self.gate.lock();
            let _swap = self.swap.lock();
            let view = self.view.load().rotated(next);
            self.view.store(Arc::new(view));
        }
        Ok(true)
    }

    /// How large a segment should be now.
    pub(super) fn segment_size(&self) -> SetSize {
        let mut size = SetSize::within(self.resources.shared().segment_bytes());
        if let Some(ids) = self.limits.segment_ids_max
            && ids < size.ids
        {
            size = SetSize {
                ids,
                words: ids * 5 + 64,
            };
        }
        size
    }

    /// Wakes callers that wait for room: a segment was sealed, or a family made.
    pub(super) fn room_may_have_changed(&self) {
        let _reserved = self.room.lock();
        self.room_changed.notify_all();
    }
}
