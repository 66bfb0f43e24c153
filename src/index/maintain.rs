//! Background work: one round of it, and when it is due.
//!
//! All of it runs under the maintenance lock, which excludes a checkpoint and everything else
//! that creates, fills or drops families.
//!
//! Failure: every step may be made again, in this process as after a crash. What a step has done
//! and not yet shown to readers is kept in [`Maintenance`]: families that were made, runs that
//! were ingested, families that must go. The next round goes on from there, and does nothing
//! that a later step of the order relies on (protocol: Sealing 10: a sealed log is gone before
//! the next ingest). See `trouble.rs` for when it is tried again.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::engine::{Family, Home, Kind, Rep, failpoint};
use crate::error::Result;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::active::EntryAt;
use super::copy::give_floor;
use super::record::Slice;
use super::run::Run;
use super::segment::Segment;
use super::sieves::Counted;
use super::{Index, meta, names};

/// What maintenance remembers from round to round.
#[derive(Default)]
pub(super) struct Maintenance {
    /// Runs that were merged away; their files go when no view holds them.
    pub(super) garbage: Vec<Garbage>,
    pub(super) seals_since_flush: u32,
    pub(super) next_segment: u64,
    /// The sealer's sort buffers, kept: touching fresh memory would double the sort.
    pub(super) order: Vec<(u64, EntryAt)>,
    pub(super) spare: Vec<(u64, EntryAt)>,
    /// Families of generations that are in no view yet: their seal is under way, or failed.
    pub(super) made: Vec<(Slice, Arc<Family>)>,
    /// Runs of the oldest segment that are ingested and in no view yet, as `made`.
    pub(super) ingested: Vec<Ingested>,
    /// The sieve of the last segment that was made.
    pub(super) sieve: Option<Arc<Counted>>,
    /// Families that no view has any more and that could not be dropped yet.
    pub(super) condemned: Vec<Arc<Family>>,
}

/// A run that is in its family and not in the view.
pub(super) struct Ingested {
    pub(super) slice: Slice,
    pub(super) family: Arc<Family>,
    pub(super) run: Arc<Run>,
}

/// A run that was merged away. It must not hold its generation, which holds the run.
pub(super) struct Garbage {
    pub(super) slice: Slice,
    pub(super) family: Arc<Family>,
    pub(super) run: Arc<Run>,
}

/// Log families that are kept ready.
const SPARES: usize = 2;
/// Seals between two flushes of the families that would pin the WAL.
const SEALS_PER_FLUSH: u32 = 8;
/// How often files that an old view still pinned are looked at again.
const GARBAGE_EVERY: Duration = Duration::from_secs(1);

impl Index {
    /// Whether a round is due. Cheap; also rotates a segment that is due.
    pub(crate) fn is_due(&self) -> bool {
        if !self.may_work() || self.poison.is_set() {
            return false;
        }
        if self.is_in_trouble() {
            return true;
        }
        self.rotate_if_due();
        let now = self.time.now_ms();
        let view = self.view();
        view.unsealed() > 0
            || self.spares_are_due()
            || self.garbage_is_due()
            || view.generations.iter().any(|g| {
                g.slice.end_ms <= now || self.merge_is_due(g, now) || self.filters_are_due(g)
            })
    }

    /// Whether spares are missing, or larger than a store's share has become.
    fn spares_are_due(&self) -> bool {
        let size = self.segment_size();
        let spares = self.spares.lock();
        spares.len() < SPARES || spares.iter().any(|s| s.size.ids > size.ids)
    }

    fn garbage_is_due(&self) -> bool {
        let mut waits = self.garbage_waits.lock();
        waits
            .as_mut()
            .is_some_and(|watch| watch.restart_after(GARBAGE_EVERY))
    }

    /// Rotates a segment that is too old, or far larger than the store's share has become (stores
    /// were opened beside it).
    fn rotate_if_due(&self) {
        let view = self.view();
        let current = view.current();
        let is_old = current
            .age()
            .is_some_and(|age| age >= self.limits.segment_age);
        if is_old || current.size.ids > 2 * self.segment_size().ids {
            let reserved = self.room.lock();
            // A rotation that must wait is tried again at the next tick.
            let _ = self.rotate(reserved.ids(), reserved.words());
        }
    }

    /// One round of everything that is due.
    pub(crate) fn maintain(&self) -> Result<()> {
        let mut m = self.maintenance.lock();
        self.round(&mut m)
    }

    fn round(&self, m: &mut Maintenance) -> Result<()> {
        self.poison.check()?;
        self.check_trouble()?;
        let result = self.steps(m);
        self.note_round(&result);
        result
    }

    fn steps(&self, m: &mut Maintenance) -> Result<()> {
        let sealed = self.seal_steps(m);
        if sealed.as_ref().is_err_and(|e| !e.is_retryable()) {
            return sealed;
        }
        // Also if there was no room to seal: this makes room.
        let dropped = self.drop_expired(m);
        sealed?;
        dropped?;
        self.merge_due(m)?;
        self.load_filters()?;
        self.collect_garbage(m)
    }

    fn seal_steps(&self, m: &mut Maintenance) -> Result<()> {
        self.drop_condemned(m)?;
        self.make_spares(m)?;
        self.seal_waiting(m)
    }

    /// Drops what an earlier round could not (and what this one asks for).
    pub(super) fn drop_condemned(&self, m: &mut Maintenance) -> Result<()> {
        while let Some(family) = m.condemned.first() {
            self.poison.check()?;
            self.engine.drop_family(family)?;
            m.condemned.remove(0);
        }
        Ok(())
    }

    /// Seals the segments that wait for it now, oldest first. Not those that come meanwhile:
    /// under a load that always has one more, nothing would ever be dropped or merged.
    pub(super) fn seal_waiting(&self, m: &mut Maintenance) -> Result<()> {
        for _ in 0..self.view().unsealed() {
            self.seal_oldest(m)?;
            self.make_spares(m)?;
        }
        Ok(())
    }

    /// Seals what is in memory now, and does all that is due after.
    pub(crate) fn seal_now(&self) -> Result<()> {
        let mut m = self.maintenance.lock();
        self.poison.check()?;
        self.check_trouble()?;
        let rotated = self.rotate_now(&mut m);
        if rotated.is_err() {
            self.note_round(&rotated);
            return rotated;
        }
        self.round(&mut m)
    }

    fn rotate_now(&self, m: &mut Maintenance) -> Result<()> {
        loop {
            self.seal_steps(m)?;
            if self.view().current().age().is_none() {
                return Ok(());
            }
            let reserved = self.room.lock();
            if self.rotate(reserved.ids(), reserved.words())? {
                return Ok(());
            }
        }
    }

    /// Seals, merges every generation into one run, and drops what has expired.
    pub(crate) fn compact_now(&self) -> Result<()> {
        self.seal_now()?;
        let mut m = self.maintenance.lock();
        let slices: Vec<Slice> = self.view().generations.iter().map(|g| g.slice).collect();
        for slice in slices {
            let generation = self.view().generation(slice).cloned();
            if let Some(generation) = generation.filter(|g| !g.runs.is_empty()) {
                self.merge(&mut m, &generation, generation.runs.clone())?;
            }
        }
        self.round(&mut m)
    }

    /// Makes a copy of the store in a new directory, with a floor and an incarnation of its own.
    /// The maintenance lock keeps families as they are meanwhile.
    pub(crate) fn checkpoint(&self, dir: &Path) -> Result<()> {
        let _m = self.maintenance.lock();
        self.persist_mark()?;
        failpoint!("checkpoint::synced");
        let copy = Home::at(dir);
        std::fs::create_dir_all(dir)?;
        std::fs::create_dir(dir.join("filters"))?;
        let floor = self.durable();
        self.engine.checkpoint(&dir.join("data"))?;
        failpoint!("checkpoint::copied");
        give_floor(&copy, floor, self.floor.unsynced())
    }

    /// The last act: mark, floor, and a flush, so that the next open replays only what is not
    /// sealed and the log's files can go.
    pub(crate) fn close(&self) -> Result<()> {
        let _m = self.maintenance.lock();
        self.persist_mark()?;
        self.renew_floor()?;
        match self.check_engine_room() {
            Ok(()) => self.engine.flush_rows_and_tables(),
            // The next open replays more.
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn floor_n(&self) -> u64 {
        self.floor.n()
    }

    pub(super) fn make_spares(&self, m: &mut Maintenance) -> Result<()> {
        let size = self.segment_size();
        self.pool.keep_only(size);
        for spare in self
            .spares
            .lock()
            .iter_mut()
            .filter(|s| s.size.ids > size.ids)
        {
            *spare = Arc::new(spare.resized(size, &self.pool)?);
        }
        while self.spares.lock().len() < SPARES {
            // Memory first: what is made after it is used for sure.
            let set = self.pool.take(size)?;
            let number = m.next_segment;
            let family = match self.engine.create(&names::log(number), Kind::Log, "") {
                Ok(family) => family,
                Err(error) => {
                    self.pool.give(size, set);
                    return Err(error);
                }
            };
            m.next_segment += 1;
            let spare = Segment::with_set(number, family, size, set, &self.pool);
            let spare = self.with_sieve(m, spare);
            self.spares.lock().push_back(Arc::new(spare.warmed()));
            self.room_may_have_changed();
        }
        Ok(())
    }

    /// Gives a segment that was made the sieve of the one made before, or a new one.
    pub(super) fn with_sieve(&self, m: &mut Maintenance, segment: Segment) -> Segment {
        if self.limits.filter_bits == Some(0) {
            return segment;
        }
        let live = self.view().generations.iter().map(|g| g.ids()).sum();
        let ids = segment.size.ids;
        m.sieve = Counted::for_segment(m.sieve.as_ref(), ids, live, &self.resources);
        segment.with_sieve(m.sieve.clone())
    }

    /// Makes accepted time durable as the high-water mark, with everything written before it.
    pub(super) fn persist_mark(&self) -> Result<()> {
        let now = self.time.now_ms();
        let mut rows = Rep::default();
        rows.put(self.meta.number(), meta::MARK_KEY, &now.to_le_bytes());
        self.write_marks(&rows)?;
        self.time.set_persisted(now);
        Ok(())
    }

    /// Renews mark and floor, if anything was committed since: one sync.
    pub(crate) fn renew_floor(&self) -> Result<()> {
        let written = self.written();
        if written > self.floor.n() {
            // The mark's write is synced, and everything before it with it.
            self.persist_mark()?;
            self.raise_floor(written)?;
        }
        Ok(())
    }

    /// Flushes small families now and then, so that they don't pin the WAL.
    pub(super) fn flush_rows(&self, m: &mut Maintenance) -> Result<()> {
        m.seals_since_flush += 1;
        if m.seals_since_flush < SEALS_PER_FLUSH {
            return Ok(());
        }
        self.check_engine_room()?;
        self.engine.flush_rows_and_tables()?;
        m.seals_since_flush = 0;
        Ok(())
    }

    fn collect_garbage(&self, m: &mut Maintenance) -> Result<()> {
        let mut failed = Ok(());
        m.garbage.retain(|garbage| {
            // One reference is ours: no view can read it any more.
            if failed.is_err() || Arc::strong_count(&garbage.run) > 1 {
                return true;
            }
            // The files of a dropped generation go with it.
            if self.view().generation(garbage.slice).is_some() {
                let key = garbage.run.info.key;
                let (from, to) = (key.page(0), key.footer());
                failed = self.engine.remove_files(&garbage.family, &from, &to);
            }
            failed.is_err()
        });
        *self.garbage_waits.lock() = (!m.garbage.is_empty()).then(Stopwatch::start);
        failed
    }

    pub(crate) fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}
