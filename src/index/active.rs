//! The exact set of the unsealed ids of one segment, in memory.
//!
//! Two boxes that never move: *slots*, a hash table with linear probing, and the *arena*, where
//! the records stand in the order of insertion. A slot is `tag << 32 | arena index`, the tag the
//! high 32 bits of the hash; zero is empty. A 16-byte id costs three words and two slots.
//!
//! Invariants
//! 1. A slot is published (Release) after all words of its entry and section were written, and
//!    readers load slots with Acquire: who sees an index sees a whole record.
//! 2. Nothing is removed. A later record of an id takes over its slot, so the newest one wins,
//!    and a reader sees the older or the newer one, never none.
//! 3. At most half of the slots are taken, so probing ends.
//!
//! Concurrency: ONE writer at a time (the commit leader; handing over must synchronise, as any
//! lock or queue does), and any number of readers without a lock. [`ActiveSet::sorted`] wants the
//! writer gone, else it misses what is being written. [`ActiveSet::reset`] is exclusive.
//!
//! Failure: none; the caller asks [`ActiveSet::has_room`] first. Writing without room is a bug
//! of the caller, refused by an assertion in debug builds and, for the arena, by the bounds
//! check in every build.
//!
//! Why not a growing map under locks: growing doubles the cost and stalls for hundreds of
//! milliseconds, locks make readers wait for the leader. The set is sized once and recycled.

use super::hash::IdHash;
use super::record::{Hit, Meta, Slice};
use crate::error::Result;
use crate::memory;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use arena::Arena;
use sort::sort_by_hash;

mod arena;
mod sort;
#[cfg(test)]
mod tests;

const TAG: u64 = 0xFFFF_FFFF_0000_0000;

/// Where a section stands in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SectionAt(u32);

/// Where an entry stands in the arena: later entries stand higher.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct EntryAt(u32);

/// The unsealed ids of one segment.
pub(crate) struct ActiveSet {
    slots: memory::Table<AtomicU64>,
    arena: Arena,
    ids_max: usize,
    ids: AtomicUsize,
}

impl ActiveSet {
    /// Words a section takes.
    pub(crate) const SECTION_WORDS: usize = arena::SECTION_WORDS;

    /// Room for `ids_max` ids in `arena_words` words. Word 0 of the arena stays unused.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(crate) fn with_capacity(ids_max: usize, arena_words: usize) -> Result<ActiveSet> {
        let slots = ids_max.max(8).saturating_mul(2).next_power_of_two();
        let (slots, arena) = (memory::zeroed(slots)?, Arena::new(arena_words)?);
        Ok(ActiveSet {
            slots,
            arena,
            ids_max,
            ids: AtomicUsize::new(0),
        })
    }

    /// Words an entry takes.
    #[inline]
    pub(crate) fn words_for(id_len: usize, extras_len: Option<usize>) -> usize {
        1 + id_len.div_ceil(8) + extras_len.map_or(0, |len| 1 + len.div_ceil(8))
    }

    /// Whether that many more ids and words fit. Only the writer's answer is dependable.
    pub(crate) fn has_room(&self, ids: usize, words: usize) -> bool {
        self.arena.has_room(words) && ids <= self.ids_max.saturating_sub(self.len())
    }

    /// Writer: opens a section for the entries that follow.
    pub(crate) fn section(&self, meta: &Meta, placement: Slice) -> SectionAt {
        debug_assert!(
            self.has_room(0, Self::SECTION_WORDS),
            "no room for a section"
        );
        self.arena.section(meta, placement)
    }

    /// Writer: makes this the newest record of (`scope`, `id`). `scope` is the section's,
    /// `hash` the pair's, the id at most 32,767 and the extras at most 65,535 bytes.
    #[inline]
    pub(crate) fn insert(
        &self,
        hash: u64,
        section: SectionAt,
        scope: u16,
        id: &[u8],
        extras: Option<&[u8]>,
    ) {
        debug_assert_eq!(self.arena.scope(section), scope, "another section's scope");
        let at = self.arena.append(section, id, extras);
        let place = match self.locate(hash, || (scope, id)) {
            Ok((place, older)) => {
                self.arena.supersede(older);
                place
            }
            Err(place) => {
                debug_assert!(self.has_room(1, 0), "no room for an id");
                self.ids.store(self.len() + 1, Ordering::Relaxed);
                place
            }
        };
        self.slots[place].store(hash & TAG | u64::from(at.0), Ordering::Release);
    }

    /// Asks for the line of the hash's slot. Some ids later it can be looked up, or
    /// [`ActiveSet::prefetch_record`] asks for the record.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        memory::prefetch_at(&self.slots, self.home(hash));
    }

    /// Asks for the record that the hash's own slot points to, if the slot looks like its own.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        let slot = self.slots[self.home(hash)].load(Ordering::Relaxed);
        if (slot ^ hash) & TAG == 0 {
            self.arena.prefetch(EntryAt(slot as u32));
        }
    }

    /// The newest record of the (scope, id) that `id` tells: it is asked only if some record
    /// looks like it. Allocates for extras only.
    #[inline]
    pub(crate) fn find<'a>(&self, hash: u64, id: impl Fn() -> (u16, &'a [u8])) -> Option<Hit> {
        let (_, at) = self.locate(hash, id).ok()?;
        let entry = self.arena.entry(at);
        let (meta, placement) = self.arena.shared(entry);
        let extras = entry.has_extras().then(|| {
            let mut extras = Vec::new();
            self.arena.copy_extras(entry, &mut extras);
            extras.into_boxed_slice()
        });
        Some(Hit {
            meta,
            placement,
            extras,
        })
    }

    /// Ids in the set.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ids.load(Ordering::Relaxed)
    }

    /// Bytes allocated, used or not.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.slots) + self.arena.bytes()
    }

    /// Empties the set for the next segment and keeps its memory.
    pub(crate) fn reset(&mut self) {
        for slot in self.slots.iter_mut() {
            *slot.get_mut() = 0;
        }
        *self.ids.get_mut() = 0;
        self.arena.reset();
    }

    /// Takes the page faults of a set that is empty now, off the write path.
    pub(crate) fn prefault(&mut self) {
        const PAGE_WORDS: usize = 4096 / size_of::<u64>();
        for words in [&mut self.slots[..], self.arena.words()] {
            for word in words.iter_mut().step_by(PAGE_WORDS) {
                *word.get_mut() = 0;
            }
        }
    }

    /// Replaces `sorted` by every newest record in the order of (hash, age). Both vectors end
    /// with 16 bytes an id; kept for the next segment they save its page faults, half the time.
    pub(crate) fn sorted_into(
        &self,
        hash: &IdHash,
        sorted: &mut Vec<(u64, EntryAt)>,
        spare: &mut Vec<(u64, EntryAt)>,
    ) {
        sorted.clear();
        sorted.reserve_exact(self.len());
        self.arena
            .each_newest(hash, |hash, at| sorted.push((hash, at)));
        sort_by_hash(sorted, spare);
    }

    /// [`ActiveSet::sorted_into`] with vectors of its own.
    pub(crate) fn sorted(&self, hash: &IdHash) -> Vec<(u64, EntryAt)> {
        let mut sorted = Vec::new();
        self.sorted_into(hash, &mut sorted, &mut Vec::new());
        sorted
    }

    /// Copies out a record of [`ActiveSet::sorted`]: its id, its extras (empty if it has none),
    /// and says whether it has any.
    #[inline]
    pub(crate) fn entry(
        &self,
        at: EntryAt,
        id: &mut Vec<u8>,
        extras: &mut Vec<u8>,
    ) -> (Meta, Slice, bool) {
        let entry = self.arena.entry(at);
        self.arena.copy_id(entry, id);
        self.arena.copy_extras(entry, extras);
        let (meta, placement) = self.arena.shared(entry);
        (meta, placement, entry.has_extras())
    }

    /// Asks for the first line of a record of [`ActiveSet::sorted`].
    #[inline]
    pub(crate) fn prefetch_entry(&self, at: EntryAt) {
        self.arena.prefetch(at);
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        hash as usize & (self.slots.len() - 1)
    }

    /// The slot and record of an id, or the empty slot where it would go.
    #[inline]
    fn locate<'a>(
        &self,
        hash: u64,
        id: impl Fn() -> (u16, &'a [u8]),
    ) -> Result<(usize, EntryAt), usize> {
        let mut place = self.home(hash);
        loop {
            let slot = self.slots[place].load(Ordering::Acquire);
            if slot == 0 {
                return Err(place);
            }
            let at = EntryAt(slot as u32);
            if (slot ^ hash) & TAG == 0 {
                let (scope, id) = id();
                if self.arena.holds(self.arena.entry(at), scope, id) {
                    return Ok((place, at));
                }
            }
            place = (place + 1) & (self.slots.len() - 1);
        }
    }
}
