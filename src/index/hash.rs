//! The one hash of an id: what the active set, the filters and the pages agree on.
//!
//! Invariants
//! 1. The hash of (scope, id) under one seed never changes, in no release: sealed pages are
//!    stored in its order and filters are stored by its bits. The golden values below guard it.
//! 2. Equal hashes prove nothing: every user compares scope and id as well.
//!
//! The seed is drawn once per store, so ids chosen by an outsider don't collide on purpose. One
//! hash serves everything; its users take different bits: pages, filter blocks and the active
//! set's tags the high ones, the active set's slots and the filter masks the low ones.
//!
//! Concurrency: a plain value, copied freely. Failure: none.
//!
//! Why not two hashes (one for the table, one for the filters): the second would cost as much as
//! a whole filter probe, and 64 bits are enough for both.

use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128_with_seed};

/// Odd, so that every scope gives another seed.
const SCOPE_MIX: u64 = 0x9E37_79B9_7F4A_7C15;

/// What tells one payload from another.
pub(crate) type Fingerprint = [u8; 16];

/// Keeps fingerprints of payloads apart from hashes of ids with the same bytes.
const PAYLOAD_MIX: u64 = 0xD6E8_FEB8_6659_FD93;

/// The keyed hash of one store.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct IdHash {
    seed: u64,
}

impl IdHash {
    pub(crate) fn new(seed: u64) -> IdHash {
        IdHash { seed }
    }

    /// The hash of `id` in `scope`, uniform over all 64 bits.
    #[inline]
    pub(crate) fn of(&self, scope: u16, id: &[u8]) -> u64 {
        let seed = self.seed ^ u64::from(scope).wrapping_mul(SCOPE_MIX);
        xxh3_64_with_seed(id, seed)
    }

    #[cfg(test)]
    fn payload(&self, scope: u16, body: &[u8]) -> Fingerprint {
        fingerprint(self.payload_key(scope), body)
    }

    /// The key of a scope's fingerprints, unless the scope was made with another one.
    pub(crate) fn payload_key(&self, scope: u16) -> u64 {
        self.seed ^ u64::from(scope).wrapping_mul(SCOPE_MIX) ^ PAYLOAD_MIX
    }
}

/// The fingerprint of a payload under a key. Stored, so it never changes either.
pub(crate) fn fingerprint(key: u64, body: &[u8]) -> Fingerprint {
    xxh3_128_with_seed(body, key).to_le_bytes()
}

/// Two different 16-byte ids with the same hash under `seed` in scope 0. Each one zeroes one
/// factor of the product that xxh3 folds, so what is left is a sum that can be made equal.
#[cfg(test)]
pub(crate) fn colliding_ids(seed: u64, sum: u64) -> ([u8; 16], [u8; 16]) {
    let flip_low = (0x1f67_b3b7_a4a4_4072_u64 ^ 0x78e5_c0cc_4ee6_79cb).wrapping_add(seed);
    let flip_high = (0x2172_ffcc_7dd0_5a82_u64 ^ 0x8e24_43f7_7446_08b8).wrapping_sub(seed);
    let id = |low: u64, high: u64| {
        let mut id = [0; 16];
        id[..8].copy_from_slice(&(low ^ flip_low).to_le_bytes());
        id[8..].copy_from_slice(&(high ^ flip_high).to_le_bytes());
        id
    };
    (id(0, sum), id(sum.swap_bytes(), 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_values_never_change() {
        // The first is xxh3's published value for the empty input.
        assert_eq!(IdHash::new(0).of(0, b""), 0x2D06_8005_38D3_94C2);
        let hash = IdHash::new(0x0123_4567_89AB_CDEF);
        let long: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        // And these come from the reference implementation in C.
        let golden: [(u16, &[u8], u64); 6] = [
            (0, b"a", 0xFCF3_69F9_E754_1D1B),
            (1, b"a", 0xF4D4_55BF_1B08_1A78),
            (7, b"order-42", 0x9C13_8259_C7EE_F0BE),
            (7, b"0123456789abcdef", 0xEC19_CF92_8514_509F),
            (u16::MAX, &long[..100], 0xD41A_91E9_2186_AD74),
            (300, &long, 0x3BB5_C385_AE2B_3E87),
        ];
        for (scope, id, expected) in golden {
            assert_eq!(
                hash.of(scope, id),
                expected,
                "scope {scope}, {} bytes",
                id.len()
            );
        }
    }

    #[test]
    fn fingerprints_never_change() {
        // The published value of the empty input, under the seed that the mixing undoes.
        let unmixed = IdHash::new(PAYLOAD_MIX).payload(0, b"");
        let published = 0x99AA_06D3_0147_98D8_6001_C324_468D_497F_u128;
        assert_eq!(u128::from_le_bytes(unmixed), published);
        let hash = IdHash::new(0x0123_4567_89AB_CDEF);
        let long: Vec<u8> = (0..300u32).map(|i| (i * 7) as u8).collect();
        // As the reference implementation in C says.
        let golden = [
            (0, &b"a"[..], 0xFBC0_CA04_1B89_2002_EEE7_CB89_D0FA_BD93_u128),
            (
                7,
                b"{\"amount\":5}",
                0x0CD3_C716_408B_F64A_EC08_9171_FCB4_4006,
            ),
            (300, &long, 0xDFBE_9F63_EC5E_AAD8_CDFD_70C9_9A47_A186),
        ];
        for (scope, body, expected) in golden {
            let found = u128::from_le_bytes(hash.payload(scope, body));
            assert_eq!(found, expected, "scope {scope}: {found:#x}");
        }
        assert_ne!(hash.payload(0, b"a"), hash.payload(1, b"a"));
    }

    #[test]
    fn scope_and_seed_change_the_hash() {
        let hash = IdHash::new(1);
        assert_ne!(hash.of(1, b"x"), hash.of(2, b"x"));
        assert_ne!(hash.of(1, b"x"), IdHash::new(2).of(1, b"x"));
    }

    #[test]
    fn made_collisions_collide() {
        for seed in [0, 1, u64::MAX, 0x0123_4567_89AB_CDEF] {
            let (a, b) = colliding_ids(seed, 0xFEED_F00D);
            assert_ne!(a, b);
            assert_eq!(IdHash::new(seed).of(0, &a), IdHash::new(seed).of(0, &b));
        }
    }
}
