//! The positions of one chunk of a batch, grouped by shard: one lock a shard instead of one an id.
//!
//! A counting sort on the stack, so nothing is allocated, and stable, so equal hashes keep their
//! order. It pays from about a hundred ids, and when several threads commit large batches.

use super::{SHARDS, shard_of};

/// Positions grouped at a time; they fit the `u16` counters.
pub(super) const CHUNK: usize = 1024;

/// The positions of one chunk by shard: a counting sort on the stack.
pub(super) struct Grouped {
    ends: [u16; SHARDS],
    positions: [u16; CHUNK],
}

impl Grouped {
    pub(super) fn new(chunk: &[u64]) -> Grouped {
        let mut ends = [0; SHARDS];
        for &hash in chunk {
            ends[shard_of(hash)] += 1;
        }
        let mut before = 0;
        for end in &mut ends {
            before += std::mem::replace(end, before);
        }
        let mut positions = [0; CHUNK];
        for (at, &hash) in chunk.iter().enumerate() {
            let end = &mut ends[shard_of(hash)];
            positions[usize::from(*end)] = at as u16;
            *end += 1;
        }
        Grouped { ends, positions }
    }

    pub(super) fn of(&self, shard: usize) -> &[u16] {
        let start = if shard == 0 { 0 } else { self.ends[shard - 1] };
        &self.positions[usize::from(start)..usize::from(self.ends[shard])]
    }
}
