//! The ids and rows of a run, as functions of a seed and a number.
//!
//! Id `n` can be made again at any time, so that re-inserting an old one needs no memory of what
//! was inserted, and every system of a round gets exactly the same bytes.
//!
//! Invariant I1: two numbers of one seed never give the same id. 64 bits of an id are a bijection
//! of its number, so this holds for certain, not just very probably.

/// An id: 16 bytes that look random.
pub type Id = [u8; 16];

/// The size of a business row that is written with an id.
pub const ROW_BYTES: usize = 200;

/// The retention, 4.7 hours: a power of four milliseconds, because those fill the generations
/// that the store cuts them into evenly.
pub const WINDOW_MS: u64 = 1 << 24;

/// When a run begins, in milliseconds since 1970: early in 2026, where a generation begins.
pub const EPOCH_MS: u64 = (1_767_225_600_000 / WINDOW_MS + 1) * WINDOW_MS;

const POOL_BYTES: usize = 1 << 20;

/// The finalizer of splitmix64, a bijection.
fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// The id with number `n` under `seed`.
pub fn id(seed: u64, n: u64) -> Id {
    let first = mix(n.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let second = mix(first ^ 0x5851_f42d_4c95_7f2d);
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

/// The id with number `n` under `seed` as a UUID of version 7 that was made at `ms`.
pub fn timed_id(seed: u64, n: u64, ms: u64) -> Id {
    let first = mix(n.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
    let mut bytes = [0; 16];
    bytes[..6].copy_from_slice(&ms.to_be_bytes()[2..]);
    // 12 bits beside the version and 62 beside the variant: 64 are the bijection's.
    let upper = 0x7000 | (first >> 52) as u16;
    bytes[6..8].copy_from_slice(&upper.to_be_bytes());
    let lower = (first << 12 >> 12) | (mix(first) & 0x3ff) << 52;
    let lower = (lower & (u64::MAX >> 2)) | 1 << 63;
    bytes[8..].copy_from_slice(&lower.to_be_bytes());
    bytes
}

/// Business rows: 200 bytes each that no compressor makes smaller, chosen by the id.
pub struct Rows {
    pool: Vec<u8>,
}

impl Rows {
    pub fn new(seed: u64) -> Rows {
        let mut pool = Vec::with_capacity(POOL_BYTES + ROW_BYTES);
        for n in 0.. {
            if pool.len() >= POOL_BYTES + ROW_BYTES {
                break;
            }
            pool.extend_from_slice(&id(!seed, n));
        }
        Rows { pool }
    }

    /// The row that belongs to an id.
    pub fn of(&self, id: &[u8]) -> &[u8] {
        // The last bytes: ids that sort next to each other share their first ones, and equal
        // rows side by side would compress.
        let end = id.last_chunk().map_or(0, |last| u32::from_le_bytes(*last));
        let at = end as usize % POOL_BYTES;
        &self.pool[at..at + ROW_BYTES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn ids_differ_and_come_back_i1() {
        let ids: HashSet<Id> = (0..100_000).map(|n| id(7, n)).collect();
        assert_eq!(ids.len(), 100_000);
        assert!(ids.contains(&id(7, 99_999)));
        assert!(!ids.contains(&id(8, 5)));
    }

    #[test]
    fn timed_ids_differ_and_are_version_7_i1() {
        let ids: HashSet<Id> = (0..100_000).map(|n| timed_id(7, n, EPOCH_MS)).collect();
        assert_eq!(ids.len(), 100_000);
        for id in ids {
            assert_eq!((id[6] >> 4, id[8] >> 6), (7, 2));
            assert_eq!(id[..6], EPOCH_MS.to_be_bytes()[2..]);
        }
        assert_eq!(EPOCH_MS % WINDOW_MS, 0);
    }

    #[test]
    fn rows_have_their_size_at_both_ends_of_the_pool() {
        let rows = Rows::new(1);
        assert_eq!(rows.of(&[0; 16]).len(), ROW_BYTES);
        assert_eq!(rows.of(&[255; 16]).len(), ROW_BYTES);
        assert_ne!(rows.of(&[0; 16]), rows.of(&[255; 16]));
    }

    #[test]
    fn neighbours_in_key_order_have_different_rows() {
        let rows = Rows::new(1);
        let mut ids: Vec<Id> = (0..100_000).map(|n| id(1, n)).collect();
        ids.sort_unstable();
        let equal = ids.windows(2).filter(|w| rows.of(&w[0]) == rows.of(&w[1]));
        assert!(equal.count() < 10);
    }
}
