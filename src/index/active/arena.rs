//! The arena of an active set: sections and entries, in words that never move.
//!
//! In one sequence, from word 1 on:
//!
//! * *sections*, what many ids of one commit share, three words: a header (bit 63 set, scope in
//!   bits 0-15, version 16-23, class 24-31, forgotten 32, over 33), the expiry, the slice's end;
//! * *entries*: a header (section's index in bits 0-31, id length 32-46, has extras 47,
//!   superseded 48), the id's bytes in little-endian words padded with zeros, and for a rich
//!   record a word with the extras' length, and the extras padded likewise.
//!
//! Invariants
//! 1. Words below `used` never change, but for the superseded bit, which no lookup looks at.
//! 2. An index that a block was given leads to whole words, once it was published with Release
//!    and read with Acquire: the words themselves are Relaxed.
//!
//! Concurrency: one writer, any number of readers. Failure: writing beyond the end is a bug of
//! the caller and caught by the bounds check.

use super::{EntryAt, SectionAt};
use crate::error::Result;
use crate::index::hash::IdHash;
use crate::index::record::{Meta, Slice, Stamp, State};
use crate::memory;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

pub(super) const SECTION_WORDS: usize = 3;
const SECTION: u64 = 1 << 63;
const FORGOTTEN: u64 = 1 << 32;
const OVER: u64 = 1 << 33;
const EXTRAS: u64 = 1 << 47;
const SUPERSEDED: u64 = 1 << 48;
const ID_BYTES_MAX: usize = 0x7FFF;
const EXTRAS_BYTES_MAX: usize = 0xFFFF;

pub(super) struct Arena {
    words: memory::Table<AtomicU64>,
    /// First free word.
    used: AtomicUsize,
}

/// An entry's place and header word.
#[derive(Clone, Copy)]
pub(super) struct Entry {
    at: usize,
    header: u64,
}

impl Entry {
    #[inline]
    fn id_len(self) -> usize {
        (self.header >> 32) as usize & ID_BYTES_MAX
    }

    #[inline]
    fn section(self) -> usize {
        self.header as u32 as usize
    }

    #[inline]
    pub(super) fn has_extras(self) -> bool {
        self.header & EXTRAS != 0
    }

    /// Where the id ends.
    #[inline]
    fn id_end(self) -> usize {
        self.at + 1 + self.id_len().div_ceil(8)
    }
}

impl Arena {
    pub(super) fn new(words: usize) -> Result<Arena> {
        let words = memory::zeroed(words.clamp(1, u32::MAX as usize))?;
        Ok(Arena {
            words,
            used: AtomicUsize::new(1),
        })
    }

    pub(super) fn words(&mut self) -> &mut [AtomicU64] {
        &mut self.words
    }

    pub(super) fn bytes(&self) -> usize {
        size_of_val(&*self.words)
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub(super) fn has_room(&self, words: usize) -> bool {
        words <= self.words.len() - self.used()
    }

    pub(super) fn reset(&mut self) {
        *self.used.get_mut() = 1;
    }

    #[inline]
    pub(super) fn prefetch(&self, at: EntryAt) {
        // A plain 16-byte id ends two words on, at times in the next line: 5 ns an id.
        memory::prefetch_at(&self.words, at.0 as usize);
        memory::prefetch_at(&self.words, at.0 as usize + 2);
    }

    /// Writer: appends a section.
    pub(super) fn section(&self, meta: &Meta, placement: Slice) -> SectionAt {
        let at = self.used.load(Ordering::Relaxed);
        let mut header = SECTION | u64::from(meta.stamp.scope);
        header |= u64::from(meta.stamp.version) << 16 | u64::from(placement.class) << 24;
        header |= if meta.state == State::Forgotten {
            FORGOTTEN
        } else {
            0
        };
        header |= if meta.over { OVER } else { 0 };
        let words = [header, meta.expiry_ms, placement.end_ms];
        for (place, word) in self.words[at..at + SECTION_WORDS].iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.used.store(at + SECTION_WORDS, Ordering::Release);
        SectionAt(at as u32)
    }

    /// Writer: appends an entry.
    #[inline]
    pub(super) fn append(&self, section: SectionAt, id: &[u8], extras: Option<&[u8]>) -> EntryAt {
        debug_assert!(id.len() <= ID_BYTES_MAX);
        debug_assert!(extras.is_none_or(|extras| extras.len() <= EXTRAS_BYTES_MAX));
        let at = self.used.load(Ordering::Relaxed);
        let flag = if extras.is_some() { EXTRAS } else { 0 };
        let header = u64::from(section.0) | (id.len() as u64) << 32 | flag;
        self.words[at].store(header, Ordering::Relaxed);
        let mut end = self.put(at + 1, id);
        if let Some(extras) = extras {
            self.words[end].store(extras.len() as u64, Ordering::Relaxed);
            end = self.put(end + 1, extras);
        }
        self.used.store(end, Ordering::Release);
        EntryAt(at as u32)
    }

    /// Writer: says that a newer record of the same id follows.
    pub(super) fn supersede(&self, at: EntryAt) {
        let header = self.entry(at).header | SUPERSEDED;
        self.words[at.0 as usize].store(header, Ordering::Relaxed);
    }

    #[inline]
    pub(super) fn entry(&self, at: EntryAt) -> Entry {
        Entry {
            at: at.0 as usize,
            header: self.word(at.0 as usize),
        }
    }

    /// Whether the entry is of this scope and id.
    #[inline]
    pub(super) fn holds(&self, entry: Entry, scope: u16, id: &[u8]) -> bool {
        if entry.id_len() != id.len() || self.word(entry.section()) as u16 != scope {
            return false;
        }
        let (whole, tail) = id.as_chunks::<8>();
        let (words, last) = self.words[entry.at + 1..entry.id_end()].split_at(whole.len());
        let same = words
            .iter()
            .zip(whole)
            .all(|(word, bytes)| word.load(Ordering::Relaxed) == u64::from_le_bytes(*bytes));
        same && last
            .iter()
            .all(|word| word.load(Ordering::Relaxed) == padded(tail))
    }

    /// Scope of a section.
    #[inline]
    pub(super) fn scope(&self, section: SectionAt) -> u16 {
        self.word(section.0 as usize) as u16
    }

    /// What the entry's section says.
    #[inline]
    pub(super) fn shared(&self, entry: Entry) -> (Meta, Slice) {
        let at = entry.section();
        let section = self.word(at);
        let stamp = Stamp {
            scope: section as u16,
            version: (section >> 16) as u8,
        };
        let state = if section & FORGOTTEN == 0 {
            State::Seen
        } else {
            State::Forgotten
        };
        let (over, expiry_ms) = (section & OVER != 0, self.word(at + 1));
        let placement = Slice {
            end_ms: self.word(at + 2),
            class: (section >> 24) as u8,
        };
        (
            Meta {
                stamp,
                state,
                over,
                expiry_ms,
            },
            placement,
        )
    }

    /// Replaces `out` by the entry's id.
    #[inline]
    pub(super) fn copy_id(&self, entry: Entry, out: &mut Vec<u8>) {
        self.copy(entry.at + 1, entry.id_len(), out);
    }

    /// Replaces `out` by the entry's extras, by nothing if it has none.
    #[inline]
    pub(super) fn copy_extras(&self, entry: Entry, out: &mut Vec<u8>) {
        out.clear();
        if entry.has_extras() {
            let at = entry.id_end();
            self.copy(at + 1, self.word(at) as usize, out);
        }
    }

    /// Calls `with` with the hash and the place of every entry that wasn't superseded.
    #[inline]
    pub(super) fn each_newest(&self, hash: &IdHash, mut with: impl FnMut(u64, EntryAt)) {
        let mut long_id = Vec::new();
        let (mut at, end) = (1, self.used());
        while at < end {
            let entry = self.entry(EntryAt(at as u32));
            if entry.header & SECTION != 0 {
                at += SECTION_WORDS;
                continue;
            }
            if entry.header & SUPERSEDED == 0 {
                with(self.hash(hash, entry, &mut long_id), EntryAt(at as u32));
            }
            at = self.end(entry);
        }
    }

    #[inline]
    fn hash(&self, hash: &IdHash, entry: Entry, long_id: &mut Vec<u8>) -> u64 {
        let scope = self.word(entry.section()) as u16;
        if entry.id_len() != 16 {
            self.copy_id(entry, long_id);
            return hash.of(scope, long_id);
        }
        // The common length, without a detour through memory.
        let (low, high) = (self.word(entry.at + 1), self.word(entry.at + 2));
        hash.of(
            scope,
            &(u128::from(low) | u128::from(high) << 64).to_le_bytes(),
        )
    }

    /// Where the block after this entry begins.
    #[inline]
    fn end(&self, entry: Entry) -> usize {
        let end = entry.id_end();
        if !entry.has_extras() {
            return end;
        }
        end + 1 + (self.word(end) as usize).div_ceil(8)
    }

    #[inline]
    fn word(&self, at: usize) -> u64 {
        self.words[at].load(Ordering::Relaxed)
    }

    /// Writes bytes in padded words and returns the index behind them.
    #[inline]
    fn put(&self, at: usize, bytes: &[u8]) -> usize {
        let end = at + bytes.len().div_ceil(8);
        let (whole, tail) = bytes.as_chunks::<8>();
        let (words, last) = self.words[at..end].split_at(whole.len());
        for (word, bytes) in words.iter().zip(whole) {
            word.store(u64::from_le_bytes(*bytes), Ordering::Relaxed);
        }
        for word in last {
            word.store(padded(tail), Ordering::Relaxed);
        }
        end
    }

    /// Replaces `out` by `len` bytes from `at`.
    #[inline]
    fn copy(&self, at: usize, len: usize, out: &mut Vec<u8>) {
        let words = &self.words[at..at + len.div_ceil(8)];
        out.resize(size_of_val(words), 0);
        for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        out.truncate(len);
    }
}

/// Fewer than eight bytes as one word.
#[inline]
fn padded(tail: &[u8]) -> u64 {
    tail.iter()
        .rev()
        .fold(0, |word, byte| word << 8 | u64::from(*byte))
}
