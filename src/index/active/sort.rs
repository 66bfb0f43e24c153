//! Sorting hashed entries: two scatters by the hash's high bits, then buckets of about one.
//!
//! Invariants
//! 1. The result is in the order of (hash, entry), whatever the hashes are; only the speed
//!    rests on them being uniform.
//!
//! The first scatter leaves buckets of about a thousand, which fit the first cache, where the
//! second one is nearly free; more than a thousand buckets would cost more in address
//! translation than they save. A comparison sort costs twenty levels of mispredicted branches.
//!
//! Concurrency: plain values. Failure: none.

use super::EntryAt;

type Keyed = (u64, EntryAt);

const BUCKET_BITS: u32 = 10;
const COARSE_BITS_MAX: u32 = 10;

/// Sorts `all` by hash, equal hashes by age. `spare` is working room, as large as `all`.
pub(super) fn sort_by_hash(all: &mut [Keyed], spare: &mut Vec<Keyed>) {
    let bits = bits_of(all.len())
        .saturating_sub(BUCKET_BITS)
        .min(COARSE_BITS_MAX);
    if bits == 0 {
        all.sort_unstable();
        return;
    }
    // What it held is overwritten, so only what it lacks is filled in.
    spare.resize(all.len(), Keyed::default());
    let mut ends = Vec::new();
    scatter(all, spare, bits, |hash| hash >> (64 - bits), &mut ends);
    let (mut fine_ends, mut start) = (Vec::new(), 0);
    for end in ends {
        sort_bucket(
            &spare[start..end],
            &mut all[start..end],
            bits,
            &mut fine_ends,
        );
        start = end;
    }
}

/// Sorts `from`, whose hashes share their first `skip` bits, into `to`.
fn sort_bucket(from: &[Keyed], to: &mut [Keyed], skip: u32, ends: &mut Vec<usize>) {
    let bits = bits_of(from.len()).clamp(1, BUCKET_BITS + 2);
    scatter(from, to, bits, |hash| (hash << skip) >> (64 - bits), ends);
    let mut start = 0;
    for end in ends {
        if *end - start > 1 {
            to[start..*end].sort_unstable();
        }
        start = *end;
    }
}

/// Moves `from` to `to` by bucket, keeping the order within one, and leaves the buckets' ends.
fn scatter(
    from: &[Keyed],
    to: &mut [Keyed],
    bits: u32,
    bucket: impl Fn(u64) -> u64,
    ends: &mut Vec<usize>,
) {
    ends.clear();
    ends.resize(1 << bits, 0);
    for (hash, _) in from {
        ends[bucket(*hash) as usize] += 1;
    }
    let mut start = 0;
    for end in ends.iter_mut() {
        start += std::mem::replace(end, start);
    }
    for keyed in from {
        let place = &mut ends[bucket(keyed.0) as usize];
        to[*place] = *keyed;
        *place += 1;
    }
}

fn bits_of(len: usize) -> u32 {
    usize::BITS - len.leading_zeros()
}
