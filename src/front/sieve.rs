//! A sieve: one coarse filter over all ids that were sealed in a stretch of time, whatever runs and
//! generations they went to.
//!
//! It stands before the filters of those runs: an id that it lacks is in none of them, which one
//! line of memory tells instead of one a run. What passes, by right or by error, goes on to the
//! runs' own filters, so its errors cost a few lines and no read.
//!
//! A block is half a cache line of four words; an id sets one bit in each word of one block. Bits
//! come from a remix of the hash that is independent of [`super::Filter`]'s, so that an id that
//! passes the one by error has no better chance to pass the other.
//!
//! Invariants
//! 1. Never a false negative for an id added before the reader came by the sieve.
//! 2. It only grows: nothing is removed, it is let go of as a whole.
//! 3. At [`Sieve::BITS_PER_ID`] bits an id at most 1.2 % of other ids pass.
//!
//! Concurrency: ONE writer at a time, any number of readers without a lock. A reader sees what was
//! added before the sieve, or something published after it, was handed to it (Release, Acquire).
//! Failure: memory only.
//!
//! Why not eight words, as the filters have: half as much to compute for an id, and an error three
//! times as often is still rare enough here. Why not stored: it is a convenience of memory, and
//! after an open the filters answer alone, as before.

use super::ask::{Ask, place};
use crate::error::Result;
use crate::memory;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

const WORDS: usize = 4;
const BLOCK_BITS: usize = WORDS * 64;
/// Odd, and another one than the filters'.
const MARK_MIX: u64 = 0x9FB2_1C65_1E98_DF25;

#[repr(C, align(32))]
struct Block([AtomicU64; WORDS]);

// SAFETY: atomics have the layout of their integers, of which all zero bits are a value.
unsafe impl memory::Zeroable for Block {}

/// The bits of one id in its block, the same in every sieve.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mark([u64; WORDS]);

/// The sieve.
pub(crate) struct Sieve {
    blocks: memory::Table<Block>,
    room: usize,
    ids: AtomicUsize,
}

impl Sieve {
    /// Bits for each id it has room for.
    pub(crate) const BITS_PER_ID: usize = 12;

    /// Empty, with room for so many ids. More than that are right, only more pass by error.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(crate) fn with_room(ids: usize) -> Result<Sieve> {
        Ok(Sieve {
            blocks: memory::zeroed(Sieve::blocks_for(ids))?,
            room: ids,
            ids: AtomicUsize::new(0),
        })
    }

    /// Bytes of one with room for so many ids.
    pub(crate) fn bytes_for(ids: usize) -> usize {
        Sieve::blocks_for(ids) * size_of::<Block>()
    }

    fn blocks_for(ids: usize) -> usize {
        let bits = ids.saturating_mul(Sieve::BITS_PER_ID);
        bits.div_ceil(BLOCK_BITS).max(1)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&*self.blocks)
    }

    /// Takes the page faults of an empty one, off the write path.
    pub(crate) fn prefault(&mut self) {
        const PAGE_BLOCKS: usize = 4096 / size_of::<Block>();
        for block in self.blocks.iter_mut().step_by(PAGE_BLOCKS) {
            *block.0[0].get_mut() = 0;
        }
    }

    /// Whether so many more ids have room.
    pub(crate) fn has_room(&self, ids: usize) -> bool {
        self.ids.load(Ordering::Relaxed).saturating_add(ids) <= self.room
    }

    /// Writer: adds ids by their hashes. Fastest in hash order.
    pub(crate) fn add_all(&self, hashes: impl Iterator<Item = u64>) {
        let mut ids = 0;
        for hash in hashes {
            let block = &self.blocks[place(hash, self.blocks.len())];
            let Mark(bits) = <&Sieve>::mask(hash);
            for (word, bit) in block.0.iter().zip(bits) {
                // There is one writer, so nothing comes between.
                word.store(word.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            }
            ids += 1;
        }
        let before = self.ids.load(Ordering::Relaxed);
        self.ids.store(before + ids, Ordering::Relaxed);
    }
}

impl Ask for &Sieve {
    type Mask = Mark;

    #[inline]
    fn mask(hash: u64) -> Mark {
        let product = hash.wrapping_mul(MARK_MIX);
        let mixed = product ^ product >> 32;
        let mut bits = [0; WORDS];
        for (i, bit) in bits.iter_mut().enumerate() {
            *bit = 1 << (mixed >> (6 * i) & 63);
        }
        Mark(bits)
    }

    #[inline]
    fn prefetch(self, hash: u64) {
        memory::prefetch_at(&self.blocks, place(hash, self.blocks.len()));
    }

    #[inline]
    fn may_contain(self, hash: u64, mark: &Mark) -> bool {
        let block = &self.blocks[place(hash, self.blocks.len())];
        // No early exit: a wrong guess would cost more.
        let mut missing = 0;
        for (word, bit) in block.0.iter().zip(mark.0) {
            missing |= bit & !word.load(Ordering::Relaxed);
        }
        missing == 0
    }
}

#[cfg(test)]
mod tests {
    use super::super::Filter;
    use super::*;

    fn hashes(seed: u64, count: usize) -> Vec<u64> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| rng.u64(..)).collect()
    }

    fn passes(sieve: &Sieve, hash: u64) -> bool {
        sieve.may_contain(hash, &<&Sieve>::mask(hash))
    }

    #[test]
    fn what_was_added_passes_even_overfull() {
        for (room, count) in [(1, 1), (1, 1000), (1000, 1000), (100_000, 200_000)] {
            let sieve = Sieve::with_room(room).expect("there is memory");
            assert!(sieve.has_room(room) && !sieve.has_room(room + 1));
            let (some, more) = (hashes(7, count), hashes(8, count));
            sieve.add_all(some.iter().copied());
            sieve.add_all(more.iter().copied());
            assert!(some.iter().chain(&more).all(|hash| passes(&sieve, *hash)));
            assert!(!sieve.has_room(room), "{room}");
        }
    }

    #[test]
    fn few_others_pass_and_none_when_it_is_empty() {
        for count in [20_000, 2_000_000] {
            let sieve = Sieve::with_room(count).expect("there is memory");
            assert_eq!(sieve.bytes(), Sieve::bytes_for(count));
            let others = hashes(2, 1_000_000);
            assert!(!others.iter().any(|hash| passes(&sieve, *hash)));
            sieve.add_all(hashes(1, count).into_iter());
            let passed = others.iter().filter(|h| passes(&sieve, **h)).count();
            assert!(passed > 0, "too good to be true: the probe is broken");
            assert!(passed <= 12_000, "{passed} in a million at {count} ids");
        }
    }

    /// If both took their bits from the same part of the hash, what passes the one by error would
    /// pass the other far more often than anything else.
    #[test]
    fn its_errors_are_independent_of_the_filters() {
        let ids = hashes(1, 400_000);
        let sieve = Sieve::with_room(200_000).expect("there is memory");
        let mut filter = Filter::with_capacity(ids.len(), 4).expect("there is memory");
        sieve.add_all(ids.iter().copied());
        ids.iter().for_each(|hash| filter.add(*hash));
        let says = |hash: u64| filter.lines().may_contain(hash, &Filter::mask(hash));
        let others = hashes(2, 1_000_000);
        let both: Vec<u64> = others.into_iter().filter(|h| passes(&sieve, *h)).collect();
        let of_all = hashes(3, 1_000_000)
            .into_iter()
            .filter(|h| says(*h))
            .count() as f64
            / 1e6;
        let of_both = both.iter().filter(|h| says(**h)).count() as f64 / both.len() as f64;
        // Both crowd the same blocks, so a little more often is as it must be.
        assert!(
            of_all > 0.1 && of_both < 1.3 * of_all,
            "{of_both} of {of_all}"
        );
    }
}
