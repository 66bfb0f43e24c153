//! The oracle's book: what was sent and what was acknowledged, in a file of fixed size.
//!
//! A lane writes a slot before it sends a batch and again when it was acknowledged. The file
//! lives in the page cache, so a SIGKILL of the process leaves it as it was at that instant,
//! between two writes. A lane has a ring of slots: a batch that lives longer than the ring is
//! forgotten by the oracle, not by the store.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Slots of a lane.
pub(crate) const SLOTS: usize = 16_384;
const WORDS: usize = 6;
const SLOT_BYTES: u64 = 8 * WORDS as u64;
const HEAD_WORDS: usize = 8;
const HEADS_BYTES: u64 = 4096;

/// Where a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Empty,
    /// It was sent; only a look at the store tells whether it is there.
    Sent,
    Acknowledged,
}

/// What is known of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Slot {
    pub(crate) batch: u64,
    pub(crate) state: State,
    /// Between which times its ids were first seen.
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
    /// And last, for a retention that slides.
    pub(crate) last_from_ms: u64,
    pub(crate) last_to_ms: u64,
}

impl Slot {
    pub(crate) const EMPTY: Slot = Slot {
        batch: 0,
        state: State::Empty,
        from_ms: 0,
        to_ms: 0,
        last_from_ms: 0,
        last_to_ms: 0,
    };

    pub(crate) fn sent(batch: u64, from_ms: u64) -> Slot {
        Slot {
            batch,
            state: State::Sent,
            from_ms,
            to_ms: u64::MAX,
            last_from_ms: from_ms,
            last_to_ms: u64::MAX,
        }
    }

    fn words(&self) -> [u64; WORDS] {
        [
            self.batch,
            self.state as u64,
            self.from_ms,
            self.to_ms,
            self.last_from_ms,
            self.last_to_ms,
        ]
    }

    fn from_words(words: [u64; WORDS]) -> Slot {
        let [batch, state, from_ms, to_ms, last_from_ms, last_to_ms] = words;
        let state = match state {
            0 => State::Empty,
            1 => State::Sent,
            _ => State::Acknowledged,
        };
        Slot {
            batch,
            state,
            from_ms,
            to_ms,
            last_from_ms,
            last_to_ms,
        }
    }
}

/// What a lane, or another thread, counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Head {
    /// The next batch: all before were acknowledged.
    pub(crate) next: u64,
    /// All before were synced, where that is not said by the acknowledgement.
    pub(crate) synced: u64,
    pub(crate) calls: u64,
    pub(crate) ids: u64,
    pub(crate) duplicates: u64,
    /// The longest commit, in microseconds.
    pub(crate) stall_us: u64,
    /// What else the thread counts.
    pub(crate) others: [u64; 2],
}

impl Head {
    fn words(&self) -> [u64; HEAD_WORDS] {
        let [a, b] = self.others;
        [
            self.next,
            self.synced,
            self.calls,
            self.ids,
            self.duplicates,
            self.stall_us,
            a,
            b,
        ]
    }

    fn from_words(words: [u64; HEAD_WORDS]) -> Head {
        let [next, synced, calls, ids, duplicates, stall_us, a, b] = words;
        Head {
            next,
            synced,
            calls,
            ids,
            duplicates,
            stall_us,
            others: [a, b],
        }
    }
}

/// One thread's part of the book.
pub(crate) struct Book {
    file: File,
    part: usize,
    pub(crate) head: Head,
    pub(crate) slots: Vec<Slot>,
}

/// Makes an empty book.
pub(crate) fn make(path: &Path, lanes: usize) {
    let file = File::create_new(path).expect("a new book");
    let bytes = HEADS_BYTES + (lanes * SLOTS) as u64 * SLOT_BYTES;
    file.set_len(bytes).expect("room for the book");
}

/// The head of a part, as it is now.
pub(crate) fn head(file: &File, part: usize) -> Head {
    Head::from_words(read(file, part as u64 * 64))
}

fn read<const N: usize>(file: &File, at: u64) -> [u64; N] {
    let mut bytes = vec![0; 8 * N];
    file.read_exact_at(&mut bytes, at).expect("the book reads");
    words(&bytes)
}

fn words<const N: usize>(bytes: &[u8]) -> [u64; N] {
    std::array::from_fn(|i| {
        let word = bytes[8 * i..8 * i + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(word)
    })
}

fn bytes(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

impl Book {
    /// A lane's part.
    pub(crate) fn open(path: &Path, lane: usize) -> Book {
        let mut book = Book::head_only(path, lane);
        let mut all = vec![0; SLOTS * SLOT_BYTES as usize];
        let at = HEADS_BYTES + (lane * SLOTS) as u64 * SLOT_BYTES;
        book.file
            .read_exact_at(&mut all, at)
            .expect("the book reads");
        let slots = all.chunks_exact(SLOT_BYTES as usize);
        book.slots = slots.map(|slot| Slot::from_words(words(slot))).collect();
        book
    }

    /// The part of a thread that sends no batches.
    pub(crate) fn head_only(path: &Path, part: usize) -> Book {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.expect("a book");
        Book {
            head: head(&file, part),
            file,
            part,
            slots: Vec::new(),
        }
    }

    pub(crate) fn slot(&self, batch: u64) -> Slot {
        self.slots[batch as usize % SLOTS]
    }

    pub(crate) fn set(&mut self, slot: Slot) {
        let place = slot.batch as usize % SLOTS;
        self.slots[place] = slot;
        let at = HEADS_BYTES + (self.part * SLOTS + place) as u64 * SLOT_BYTES;
        self.write(&slot.words(), at);
    }

    /// The oracle knows nothing of the batch any more.
    pub(crate) fn clear(&mut self, batch: u64) {
        let empty = Slot {
            batch,
            ..Slot::EMPTY
        };
        self.set(empty);
    }

    pub(crate) fn save_head(&mut self) {
        self.write(&self.head.words(), self.part as u64 * 64);
    }

    fn write(&self, words: &[u64], at: u64) {
        let written = self.file.write_all_at(&bytes(words), at);
        written.expect("the book is written");
    }
}
