//! A blocked Bloom filter over the sealed ids of one run or generation.
//!
//! A block is one cache line of eight words; an id sets one bit in each word of one block. The
//! block comes from the hash's high bits, `(hash * blocks) >> 64`, so a run in hash order fills
//! the filter from front to back; the bits come from a remix of the whole hash, [`Mask`], which
//! is computed once an id and serves every filter.
//!
//! Stored form, little-endian: 8 bytes magic `FSfilt` and a version `u16` (1), `u64` ids added,
//! `u64` blocks, 64 bytes a block, and the `u64` xxh3 of all that precedes.
//!
//! Invariants
//! 1. Never a false negative: what was added may be contained, also after decoding.
//! 2. Bytes that are short, long, damaged or of another version are no filter: the caller asks
//!    the store instead.
//! 3. Block and bits of a hash never change for one version: filters are stored.
//! 4. At most 0.1 % false positives at 16 bits an id.
//!
//! Concurrency: one builder, then shared and immutable. Failure: memory only.
//!
//! Why not a flat filter: each of its bits is a cache miss. Why not 256-bit blocks: half the
//! filter's size later they have one and a half times the false positives.

use super::ask::{Ask, place};
use crate::error::Result;
use crate::memory;
use xxhash_rust::xxh3::xxh3_64;

const MAGIC: [u8; 8] = *b"FSfilt\x01\x00";
const HEAD_BYTES: usize = 24;
const SUM_BYTES: usize = 8;
const BLOCK_BYTES: usize = 64;
const BLOCK_BITS: u64 = 512;
/// Odd: a bijection that carries every bit of the hash upwards.
const MASK_MIX: u64 = 0xD6E8_FEB8_6659_FD93;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(64))]
struct Block([u64; 8]);

// SAFETY: words of which all zero bits are a value.
unsafe impl memory::Zeroable for Block {}

/// The bits of one id in its block, the same in every filter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mask([u64; 8]);

impl Mask {
    /// The bit of each word of a block.
    #[inline]
    pub(crate) fn words(&self) -> [u64; 8] {
        self.0
    }
}

/// The filter.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Filter {
    blocks: memory::Table<Block>,
    ids: u64,
}

/// The blocks of a filter, each a line of memory.
#[derive(Clone, Copy)]
pub(crate) struct Lines<'a>(&'a [Block]);

impl Ask for Lines<'_> {
    type Mask = Mask;

    #[inline]
    fn mask(hash: u64) -> Mask {
        Filter::mask(hash)
    }

    #[inline]
    fn prefetch(self, hash: u64) {
        memory::prefetch_at(self.0, place(hash, self.0.len()));
    }

    #[inline]
    fn may_contain(self, hash: u64, mask: &Mask) -> bool {
        let block = &self.0[place(hash, self.0.len())];
        // No early exit, so that it becomes a few wide instructions.
        let mut missing = 0;
        for (word, bit) in block.0.iter().zip(mask.0) {
            missing |= bit & !word;
        }
        missing == 0
    }
}

impl Filter {
    /// Empty, with `bits_per_id` bits for each of `ids`, rounded up to a block. More ids than
    /// that are right, only with more false positives.
    ///
    /// # Errors
    /// `Busy` if the memory is not to be had.
    pub(crate) fn with_capacity(ids: usize, bits_per_id: u32) -> Result<Filter> {
        let bits = (ids as u64).saturating_mul(u64::from(bits_per_id));
        let blocks = bits.div_ceil(BLOCK_BITS).max(1) as usize;
        Ok(Filter {
            blocks: memory::zeroed(blocks)?,
            ids: 0,
        })
    }

    /// Adds an id by its hash. Fastest in hash order.
    #[inline]
    pub(crate) fn add(&mut self, hash: u64) {
        let mask = Filter::mask(hash);
        let at = place(hash, self.blocks.len());
        let block = &mut self.blocks[at];
        for (word, bit) in block.0.iter_mut().zip(mask.0) {
            *word |= bit;
        }
        self.ids += 1;
    }

    /// Its blocks, to ask many hashes of.
    #[inline]
    pub(crate) fn lines(&self) -> Lines<'_> {
        Lines(&self.blocks)
    }

    /// The bits of an id, for every filter.
    #[inline]
    pub(crate) fn mask(hash: u64) -> Mask {
        let product = hash.wrapping_mul(MASK_MIX);
        let mixed = product ^ product >> 32;
        let mut bits = [0; 8];
        for (i, bit) in bits.iter_mut().enumerate() {
            *bit = 1 << (mixed >> (6 * i) & 63);
        }
        Mask(bits)
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks.len() * BLOCK_BYTES
    }

    /// Ids added.
    pub(crate) fn ids(&self) -> usize {
        self.ids as usize
    }

    /// The stored form.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_BYTES + self.bytes() + SUM_BYTES);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.ids.to_le_bytes());
        out.extend_from_slice(&(self.blocks.len() as u64).to_le_bytes());
        for block in self.blocks.iter() {
            for word in block.0 {
                out.extend_from_slice(&word.to_le_bytes());
            }
        }
        let sum = xxh3_64(&out);
        out.extend_from_slice(&sum.to_le_bytes());
        out
    }

    /// The filter of a stored form, or none if anything is off.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Filter> {
        let (body, sum) = bytes.split_last_chunk::<SUM_BYTES>()?;
        let (magic, rest) = body.split_first_chunk::<8>()?;
        let (ids, rest) = rest.split_first_chunk::<8>()?;
        let (count, rest) = rest.split_first_chunk::<8>()?;
        let (blocks, tail) = rest.as_chunks::<BLOCK_BYTES>();
        let whole = tail.is_empty()
            && !blocks.is_empty()
            && u64::from_le_bytes(*count) == blocks.len() as u64
            && *magic == MAGIC
            && xxh3_64(body) == u64::from_le_bytes(*sum);
        if !whole {
            return None;
        }
        let mut read = memory::zeroed(blocks.len()).ok()?;
        for (block, bytes) in read.iter_mut().zip(blocks) {
            *block = block_from(bytes);
        }
        Some(Filter {
            blocks: read,
            ids: u64::from_le_bytes(*ids),
        })
    }
}

fn block_from(bytes: &[u8; BLOCK_BYTES]) -> Block {
    let (words, _) = bytes.as_chunks::<8>();
    let mut block = Block([0; 8]);
    for (word, bytes) in block.0.iter_mut().zip(words) {
        *word = u64::from_le_bytes(*bytes);
    }
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hashes(seed: u64, count: usize) -> Vec<u64> {
        let mut rng = fastrand::Rng::with_seed(seed);
        (0..count).map(|_| rng.u64(..)).collect()
    }

    fn filled(seed: u64, count: usize, bits_per_id: u32) -> Filter {
        let mut filter = Filter::with_capacity(count, bits_per_id).expect("there is memory");
        hashes(seed, count)
            .into_iter()
            .for_each(|hash| filter.add(hash));
        filter
    }

    fn contains(filter: &Filter, hash: u64) -> bool {
        filter.lines().may_contain(hash, &Filter::mask(hash))
    }

    #[test]
    fn never_a_false_negative_even_overfull() {
        for (count, bits) in [(1, 1), (1000, 16), (5000, 1), (100_000, 10)] {
            let mut filter = filled(7, count, bits);
            for extra in hashes(8, count) {
                filter.add(extra);
            }
            assert_eq!(filter.ids(), 2 * count);
            let read_back = Filter::decode(&filter.encode()).expect("just encoded");
            for hash in hashes(7, count).into_iter().chain(hashes(8, count)) {
                assert!(contains(&filter, hash) && contains(&read_back, hash));
            }
        }
    }

    #[test]
    fn at_most_one_in_a_thousand_false_positives_at_16_bits() {
        // Large enough that block and mask would share bits of the hash if they could.
        for count in [20_000, 2_000_000] {
            let filter = filled(1, count, 16);
            let probes = hashes(2, 1_000_000);
            let wrong = probes
                .iter()
                .filter(|hash| contains(&filter, **hash))
                .count();
            assert!(wrong > 0, "too good to be true: the probe is broken");
            assert!(wrong <= 1000, "{wrong} in a million at {count} ids");
        }
    }

    #[test]
    fn an_empty_filter_contains_nothing() {
        let filter = Filter::with_capacity(0, 16).expect("there is memory");
        assert_eq!((filter.bytes(), filter.ids()), (64, 0));
        assert!(
            hashes(3, 1000)
                .into_iter()
                .all(|hash| !contains(&filter, hash))
        );
    }

    #[test]
    fn damaged_bytes_are_no_filter() {
        let good = filled(5, 100, 16).encode();
        assert!(Filter::decode(&good).is_some());
        for len in 0..good.len() {
            assert!(Filter::decode(&good[..len]).is_none(), "cut at {len}");
        }
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 1 << (at % 8);
            assert!(Filter::decode(&bad).is_none(), "bit flipped at {at}");
        }
        let mut long = good.clone();
        long.extend_from_slice(&[0; BLOCK_BYTES]);
        assert!(Filter::decode(&long).is_none());
    }

    #[test]
    fn golden_bytes() {
        let mut filter = Filter::with_capacity(1, 16).expect("there is memory");
        filter.add(0x0123_4567_89AB_CDEF);
        let bytes = filter.encode();
        let mut expected = b"FSfilt\x01\x00\x01\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0".to_vec();
        for bit in [47, 28, 61, 22, 19, 8, 1, 41] {
            expected.extend_from_slice(&(1u64 << bit).to_le_bytes());
        }
        assert_eq!(bytes[..HEAD_BYTES + BLOCK_BYTES], expected);
        assert_eq!(
            bytes[HEAD_BYTES + BLOCK_BYTES..],
            xxh3_64(&expected).to_le_bytes()
        );
    }
}
