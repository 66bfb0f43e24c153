//! A segment: one unit of the packed log with its part of the active set.
//!
//! Invariants:
//! - S1: its log family holds the commits of exactly this segment; the set holds their ids.
//! - S2: only the leader, inside the gate, adds to it; anyone may read it.
//! - S3: the numbers of its commits are contiguous, and follow those of the segment before.
//!
//! A set's memory is recycled: the last holder of a segment gives it back, the next segment
//! takes it, cleaned off the write path.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::clock::Stopwatch;
use crate::engine::Family;
use crate::error::Result;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::active::ActiveSet;
use super::log::{Section, Sections};
use super::record::Slice;
use super::sieves::Counted;

/// How large a set is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SetSize {
    pub(crate) ids: usize,
    pub(crate) words: usize,
}

impl SetSize {
    /// What fits in so many bytes: 16 bytes of slots an id, and five words of arena, enough for
    /// a 16-byte id alone in its section, or twice that id among others.
    pub(crate) fn within(bytes: usize) -> SetSize {
        let ids = (bytes / 56).clamp(1 << 10, 1 << 24);
        SetSize {
            ids,
            words: ids * 5 + 4096,
        }
    }

    /// Whether so much fits into an empty set, whose first word is never used.
    pub(crate) fn covers(&self, ids: usize, words: usize) -> bool {
        ids <= self.ids && words < self.words
    }
}

/// Words an id may take with a section of its own.
pub(crate) fn words_for_item(id_len: usize, extras_len: Option<usize>) -> usize {
    ActiveSet::SECTION_WORDS + ActiveSet::words_for(id_len, extras_len)
}

/// Sets that wait to be used again.
#[derive(Default)]
pub(crate) struct SetPool {
    idle: Mutex<Vec<(SetSize, ActiveSet)>>,
}

/// Smaller sets belong to stores among many, which may stay idle: they take memory as they
/// fill.
pub(super) const WARM_IDS_MIN: usize = 1 << 18;

/// How many idle sets are kept.
const IDLE_MAX: usize = 3;

impl SetPool {
    /// A clean set of that size, recycled if possible.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(super) fn take(&self, size: SetSize) -> Result<ActiveSet> {
        let mut idle = self.idle.lock();
        let found = idle.iter().position(|(s, _)| *s == size);
        let recycled = found.map(|i| idle.swap_remove(i).1);
        drop(idle);
        match recycled {
            Some(mut set) => {
                set.reset();
                Ok(set)
            }
            None => ActiveSet::with_capacity(size.ids, size.words),
        }
    }

    pub(super) fn give(&self, size: SetSize, set: ActiveSet) {
        let mut idle = self.idle.lock();
        idle.retain(|(s, _)| *s == size);
        if idle.len() < IDLE_MAX {
            idle.push((size, set));
        }
    }

    /// Frees the sets of other sizes.
    pub(crate) fn keep_only(&self, size: SetSize) {
        self.idle.lock().retain(|(s, _)| *s == size);
    }

    pub(crate) fn bytes(&self) -> usize {
        self.idle.lock().iter().map(|(_, set)| set.bytes()).sum()
    }
}

/// What a segment has of one placement, for planning its run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Placed {
    /// Records.
    pub(crate) ids: u64,
    /// Bytes of their extras.
    pub(crate) extras_bytes: u64,
}

/// One segment.
pub(crate) struct Segment {
    pub(crate) number: u64,
    pub(crate) family: Arc<Family>,
    pub(crate) size: SetSize,
    set: Option<ActiveSet>,
    pool: Arc<SetPool>,
    /// Where its ids go too, if there is memory for it.
    sieve: Option<Arc<Counted>>,
    /// By placement, for planning runs. Written by the leader, read by the sealer.
    placed: Mutex<BTreeMap<Slice, Placed>>,
    /// The last commit in it; 0 if there is none.
    last_n: AtomicU64,
    /// Since its first commit. In real time: what age bounds is memory and replay.
    begun: OnceLock<Stopwatch>,
}

impl Segment {
    pub(crate) fn new(
        number: u64,
        family: Arc<Family>,
        size: SetSize,
        pool: &Arc<SetPool>,
    ) -> Result<Segment> {
        Ok(Segment::with_set(
            number,
            family,
            size,
            pool.take(size)?,
            pool,
        ))
    }

    /// A segment with a set that was taken before.
    pub(super) fn with_set(
        number: u64,
        family: Arc<Family>,
        size: SetSize,
        set: ActiveSet,
        pool: &Arc<SetPool>,
    ) -> Segment {
        Segment {
            number,
            family,
            size,
            set: Some(set),
            pool: Arc::clone(pool),
            sieve: None,
            placed: Mutex::default(),
            last_n: AtomicU64::new(0),
            begun: OnceLock::new(),
        }
    }

    /// The same segment, empty still, with a set of another size.
    pub(crate) fn resized(&self, size: SetSize, pool: &Arc<SetPool>) -> Result<Segment> {
        let resized = Segment::new(self.number, Arc::clone(&self.family), size, pool)?;
        Ok(resized.with_sieve(self.sieve.clone()))
    }

    /// The same segment, empty still, with a sieve.
    pub(super) fn with_sieve(mut self, sieve: Option<Arc<Counted>>) -> Segment {
        self.sieve = sieve;
        self
    }

    pub(super) fn sieve(&self) -> Option<&Arc<Counted>> {
        self.sieve.as_ref()
    }

    /// Touches the set's memory, off the write path: a first touch costs more than all else
    /// that an insert does.
    pub(crate) fn warmed(mut self) -> Segment {
        if self.size.ids >= WARM_IDS_MIN
            && let Some(set) = &mut self.set
        {
            set.prefault();
        }
        self
    }

    pub(crate) fn set(&self) -> &ActiveSet {
        self.set
            .as_ref()
            .expect("a segment has its set until it is dropped")
    }

    /// Takes a commit's ids in (S2): the leader's, after its write.
    pub(crate) fn take(&self, n: u64, value: &[u8], hashes: &[u64]) -> Result<()> {
        let set = self.set();
        for hash in hashes {
            set.prefetch(*hash);
        }
        let mut each = hashes.iter();
        for section in Sections::new(value) {
            let section = section?;
            let at = set.section(&section.meta, section.placement);
            self.count(&section);
            let scope = section.meta.stamp.scope;
            for ((id, extras), hash) in section.ids().zip(&mut each) {
                set.insert(*hash, at, scope, id, extras);
            }
        }
        if let Some(counted) = &self.sieve {
            counted.sieve().add_all(hashes.iter().copied());
        }
        self.last_n.store(n, Ordering::Release);
        self.begun.get_or_init(Stopwatch::start);
        Ok(())
    }

    pub(crate) fn last_n(&self) -> u64 {
        self.last_n.load(Ordering::Acquire)
    }

    /// Its age since the first commit, if it has one.
    pub(crate) fn age(&self) -> Option<Duration> {
        self.begun.get().map(Stopwatch::elapsed)
    }

    fn count(&self, section: &Section<'_>) {
        let mut all = self.placed.lock();
        let placed = all.entry(section.placement).or_default();
        placed.ids += u64::from(section.count);
        placed.extras_bytes += section.extras_bytes();
    }

    pub(crate) fn placed(&self) -> Vec<(Slice, Placed)> {
        self.placed.lock().iter().map(|(s, n)| (*s, *n)).collect()
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        if let Some(set) = self.set.take() {
            self.pool.give(self.size, set);
        }
    }
}
