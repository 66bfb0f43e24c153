//! The filters of the slices of a window, that many threads ask and fill.
//!
//! Time is cut in slices of a k-th of the window. An id is recorded in the slice that fills, and
//! is remembered until k more slices have passed: for the window at least, and for one slice more
//! at most. One slot more than the k + 1 that are remembered is being cleaned meanwhile, so that
//! the turn of a slice costs nothing. A block's lines of all slots lie side by side: an id is
//! asked of all slices in one place of memory.
//!
//! Invariants
//! 1. Of concurrent calls with one id, while it is remembered, exactly one is first: *first* is
//!    only said by a caller who holds the id's stripe, found the id in no remembered slice, and
//!    sets its bits before it lets the stripe go.
//! 2. While any stripe is held, the set of remembered slices stays as it is: a turn takes all
//!    stripes. The slice that fills only goes up, whatever time a caller read.
//! 3. What was first in a slice stays in its slot until the slice is remembered no more.
//! 4. Without a stripe nothing but "seen" is said. Who then meets a slot that is being cleaned or
//!    used again misses, and asks again with the stripe, or finds bits by chance, as any id may.
//! 5. Memory is as it was made, whatever comes.
//!
//! Concurrency: seen ids take no lock; others take one of the stripes. Order: `turning`, then the
//! stripes in their order. Failure: none once made.
//!
//! Why not set a block's words one by one with atomics alone: of two callers with one id each
//! could set some of its bits first, and both or neither would be the one. Why not all bits in
//! one word: the filters would need about twice the memory.

use std::sync::Arc;

use crate::error::Result;
use crate::front::Filter;
use crate::memory;
use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::sync::{ArcSwap, CachePadded, Mutex};

use super::size::{BLOCK_WORDS, any_error, filter_error};
use super::sketch::Sketch;

/// Locks of new ids.
const STRIPES: usize = 64;
/// How often a slice's rate is worked out anew while it fills to what it is made for.
const RATES_A_SLICE: u64 = 64;

/// The form of a ring, which never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) slice_ms: u64,
    /// Slices for which one that has filled is remembered.
    pub(super) slices: u32,
    /// Blocks of each filter.
    pub(super) blocks: u64,
    pub(super) precision: u8,
    /// Ids that a slice is made for.
    pub(super) slice_ids: u64,
}

impl Shape {
    pub(super) fn slots(&self) -> usize {
        self.slices as usize + 2
    }

    fn words(&self) -> u64 {
        (BLOCK_WORDS * self.slots()) as u64
    }

    /// Bytes of memory of all of it; none if no machine has so many.
    pub(super) fn bytes(&self) -> Option<u64> {
        let lines = self.blocks.checked_mul(self.words())?.checked_mul(8)?;
        let sketches = (self.slots() as u64) << self.precision;
        let bytes = lines.checked_add(sketches)?;
        (bytes <= isize::MAX as u64).then_some(bytes)
    }
}

/// What a caller is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Seen {
    First,
    Probably,
    /// Nothing more is taken in.
    Closed,
}

/// The filters.
pub(super) struct Ring {
    pub(super) shape: Shape,
    /// Block by block, in it slot by slot, in it the words.
    words: memory::Table<AtomicU64>,
    /// The slice of each slot plus one; 0: none.
    tags: Box<[AtomicU64]>,
    slots: Box<[Slot]>,
    stripes: Box<[CachePadded<Mutex<()>>]>,
    /// The slice that fills, and its slot.
    current: AtomicU64,
    filling: AtomicUsize,
    closed: AtomicBool,
    turning: Mutex<()>,
    /// The present error rate, as the bits of an `f64`.
    rate: AtomicU64,
    pub(super) turns: AtomicU64,
    /// Ids that were first; counted while their stripes are held.
    pub(super) first: AtomicU64,
    /// Ids recorded in a slice that had all it is made for.
    pub(super) beyond: AtomicU64,
}

struct Slot {
    ids: AtomicU64,
    dirty: AtomicBool,
    sketch: ArcSwap<Sketch>,
}

/// A remembered slice, to be stored.
pub(super) struct Slice {
    slot: usize,
    pub(super) number: u64,
    pub(super) ids: u64,
    pub(super) sketch: Arc<Sketch>,
}

impl Ring {
    /// Empty, filling slice `current`.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(super) fn new(shape: Shape, current: u64) -> Result<Ring> {
        let words = shape.blocks.saturating_mul(shape.words());
        let slot = || Slot {
            ids: AtomicU64::new(0),
            dirty: AtomicBool::new(false),
            sketch: ArcSwap::from_pointee(Sketch::new(shape.precision)),
        };
        let slots: Box<[Slot]> = (0..shape.slots()).map(|_| slot()).collect();
        let tags: Box<[AtomicU64]> = slots.iter().map(|_| AtomicU64::new(0)).collect();
        tags[0].store(current + 1, Ordering::Release);
        slots[0].dirty.store(true, Ordering::Release);
        let stripe = || CachePadded::new(Mutex::new(()));
        Ok(Ring {
            shape,
            words: memory::zeroed(usize::try_from(words).unwrap_or(usize::MAX))?,
            tags,
            slots,
            stripes: (0..STRIPES).map(|_| stripe()).collect(),
            current: AtomicU64::new(current),
            filling: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            turning: Mutex::new(()),
            rate: AtomicU64::new(0),
            turns: AtomicU64::new(0),
            first: AtomicU64::new(0),
            beyond: AtomicU64::new(0),
        })
    }

    /// The atomic check-and-insert of one hash.
    pub(super) fn insert(&self, hash: u64, now_ms: u64) -> Seen {
        self.advance(now_ms);
        let mask = Filter::mask(hash).words();
        let base = self.base_of(hash);
        let filling = self.filling.load(Ordering::Acquire);
        self.slots[filling].sketch.load().count(hash);
        if self.is_seen(base, &mask) {
            return match self.closed.load(Ordering::Acquire) {
                true => Seen::Closed,
                false => Seen::Probably,
            };
        }
        let _held = self.stripes[hash as usize % STRIPES].lock();
        if self.closed.load(Ordering::Acquire) {
            return Seen::Closed;
        }
        if self.is_seen(base, &mask) {
            return Seen::Probably;
        }
        self.set(base, &mask);
        Seen::First
    }

    /// Whether a remembered slice has all bits.
    fn is_seen(&self, base: usize, mask: &[u64; BLOCK_WORDS]) -> bool {
        let current = self.current.load(Ordering::Acquire);
        let lines = &self.words[base..base + BLOCK_WORDS * self.tags.len()];
        let (lines, _) = lines.as_chunks::<BLOCK_WORDS>();
        self.tags.iter().zip(lines).any(|(tag, line)| {
            if !self.is_remembered(tag.load(Ordering::Acquire), current) {
                return false;
            }
            let mut missing = 0;
            for (word, bit) in line.iter().zip(mask) {
                missing |= bit & !word.load(Ordering::Relaxed);
            }
            missing == 0
        })
    }

    /// Records in the slice that fills; the caller holds the id's stripe.
    fn set(&self, base: usize, mask: &[u64; BLOCK_WORDS]) {
        let slot = self.filling.load(Ordering::Acquire);
        let at = base + slot * BLOCK_WORDS;
        for (word, bit) in self.words[at..at + BLOCK_WORDS].iter().zip(mask) {
            word.fetch_or(*bit, Ordering::Relaxed);
        }
        self.first.fetch_add(1, Ordering::Relaxed);
        let ids = self.slots[slot].ids.fetch_add(1, Ordering::Relaxed) + 1;
        if ids > self.shape.slice_ids {
            self.beyond.fetch_add(1, Ordering::Relaxed);
        }
        if ids.is_multiple_of((self.shape.slice_ids / RATES_A_SLICE).max(1)) {
            self.work_out_rate();
        }
    }

    /// Asks for a hash's lines.
    pub(super) fn prefetch(&self, hash: u64) {
        let base = self.base_of(hash);
        for slot in 0..self.tags.len() {
            memory::prefetch_at(&self.words, base + slot * BLOCK_WORDS);
        }
    }

    fn base_of(&self, hash: u64) -> usize {
        let block = (u128::from(hash) * u128::from(self.shape.blocks)) >> 64;
        block as usize * BLOCK_WORDS * self.tags.len()
    }

    fn is_remembered(&self, tag: u64, current: u64) -> bool {
        tag != 0 && tag + u64::from(self.shape.slices) > current
    }

    /// Turns to the slice of this time, if it isn't there yet.
    pub(super) fn advance(&self, now_ms: u64) {
        let slice = now_ms / self.shape.slice_ms;
        if slice > self.current.load(Ordering::Acquire) {
            self.turn_to(slice);
        }
    }

    #[cold]
    fn turn_to(&self, slice: u64) {
        let _turning = self.turning.lock();
        if slice <= self.current.load(Ordering::Acquire) {
            return;
        }
        let slot = self.clean_slot(slice);
        self.slots[slot].dirty.store(true, Ordering::Release);
        let held: Vec<_> = self.stripes.iter().map(|stripe| stripe.lock()).collect();
        self.tags[slot].store(slice + 1, Ordering::Release);
        self.filling.store(slot, Ordering::Release);
        self.current.store(slice, Ordering::Release);
        drop(held);
        self.turns.fetch_add(1, Ordering::Relaxed);
        self.work_out_rate();
    }

    /// A clean slot; makes one if the background has not. The caller turns.
    fn clean_slot(&self, slice: u64) -> usize {
        let is_clean = |s: &Slot| !s.dirty.load(Ordering::Acquire);
        if let Some(slot) = self.slots.iter().position(is_clean) {
            return slot;
        }
        // Of k + 2 slots k + 1 are remembered at most, so one is not.
        let free = |tag: &AtomicU64| !self.is_remembered(tag.load(Ordering::Acquire), slice);
        let slot = self.tags.iter().position(free).unwrap_or_default();
        self.clean(slot);
        slot
    }

    /// Empties a slot that is remembered no more. The caller turns.
    fn clean(&self, slot: usize) {
        self.tags[slot].store(0, Ordering::Release);
        let (lines, _) = self.words.as_chunks::<BLOCK_WORDS>();
        for line in lines.iter().skip(slot).step_by(self.tags.len()) {
            for word in line {
                word.store(0, Ordering::Relaxed);
            }
        }
        let Slot { ids, dirty, sketch } = &self.slots[slot];
        ids.store(0, Ordering::Release);
        sketch.store(Arc::new(Sketch::new(self.shape.precision)));
        dirty.store(false, Ordering::Release);
    }

    fn is_stale(&self, slot: usize) -> bool {
        let current = self.current.load(Ordering::Acquire);
        self.slots[slot].dirty.load(Ordering::Acquire)
            && !self.is_remembered(self.tags[slot].load(Ordering::Acquire), current)
    }

    /// Whether a slot waits to be cleaned.
    pub(super) fn has_stale(&self) -> bool {
        (0..self.tags.len()).any(|slot| self.is_stale(slot))
    }

    /// Cleans what is remembered no more, so that the next turn need not.
    pub(super) fn clean_stale(&self) {
        for slot in 0..self.tags.len() {
            let _turning = self.turning.lock();
            if self.is_stale(slot) {
                self.clean(slot);
            }
        }
    }

    /// Takes nothing in from here on. What was answered before is there to be stored.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::Release);
        // Who holds a stripe has not looked at it.
        for stripe in &self.stripes {
            drop(stripe.lock());
        }
    }

    /// The remembered slices.
    pub(super) fn remembered(&self) -> Vec<Slice> {
        let current = self.current.load(Ordering::Acquire);
        let slices = self.tags.iter().zip(&self.slots).enumerate();
        let live = slices.filter_map(|(slot, (tag, inner))| {
            let tag = tag.load(Ordering::Acquire);
            self.is_remembered(tag, current).then(|| Slice {
                slot,
                number: tag - 1,
                ids: inner.ids.load(Ordering::Relaxed),
                sketch: inner.sketch.load_full(),
            })
        });
        live.collect()
    }

    /// The slice that fills.
    pub(super) fn current(&self) -> u64 {
        self.current.load(Ordering::Acquire)
    }

    /// Ids that any remembered slice has at most, and those of all of them.
    pub(super) fn ids(&self) -> (u64, u64) {
        let all = self.remembered();
        let most = all.iter().map(|slice| slice.ids).max().unwrap_or(0);
        (most, all.iter().map(|slice| slice.ids).sum())
    }

    /// The chance that a new id is taken for a seen one now.
    pub(super) fn rate(&self) -> f64 {
        f64::from_bits(self.rate.load(Ordering::Relaxed))
    }

    pub(super) fn work_out_rate(&self) {
        let blocks = self.shape.blocks as f64;
        let errors = self.remembered().into_iter();
        let rate = any_error(errors.map(|slice| filter_error(slice.ids as f64 / blocks)));
        self.rate.store(rate.to_bits(), Ordering::Relaxed);
    }

    /// The words of a slice's filter.
    pub(super) fn words_of(&self, slice: &Slice) -> impl Iterator<Item = u64> {
        let (lines, _) = self.words.as_chunks::<BLOCK_WORDS>();
        let lines = lines.iter().skip(slice.slot).step_by(self.tags.len());
        lines.flatten().map(|word| word.load(Ordering::Relaxed))
    }

    /// Puts a stored slice in a free slot, to be filled by [`Ring::set_word`]; none if it would
    /// not be remembered, or there are too many.
    pub(super) fn restore(&mut self, number: u64, ids: u64, sketch: Sketch) -> Option<usize> {
        let current = self.current.load(Ordering::Acquire);
        if number > current || !self.is_remembered(number + 1, current) {
            return None;
        }
        let slot = match number == current {
            true => 0,
            false => self
                .tags
                .iter()
                .position(|t| t.load(Ordering::Acquire) == 0)?,
        };
        self.tags[slot].store(number + 1, Ordering::Release);
        let to = &self.slots[slot];
        to.ids.store(ids, Ordering::Release);
        to.dirty.store(true, Ordering::Release);
        to.sketch.store(Arc::new(sketch));
        Some(slot)
    }

    /// Sets the `index`-th word of a slot's filter.
    pub(super) fn set_word(&mut self, slot: usize, index: usize, word: u64) {
        let (block, part) = (index / BLOCK_WORDS, index % BLOCK_WORDS);
        let at = (block * self.tags.len() + slot) * BLOCK_WORDS + part;
        self.words[at].store(word, Ordering::Relaxed);
    }
}
