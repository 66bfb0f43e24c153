//! How large the filters are for an error rate, and the error rate of filters as they are.
//!
//! An id sets one bit in each of eight 64-bit words of one block. A block that holds `j` ids has
//! a given bit of a word set with probability `1 - (63/64)^j`, so it errs with
//! `(1 - (63/64)^j)^8`. How many ids a block holds is Poisson-distributed around the ids a block
//! `load` (Putze, Sanders, Singler: *Cache-, Hash- and Space-Efficient Bloom Filters*, 2007, for
//! blocks; one bit a word as in Lang, Neumann, Kemper, Boncz: *Performance-Optimal Filtering*,
//! 2019):
//!
//! ```text
//! f(load)  = Σj  e^-load · load^j / j! · (1 - (63/64)^j)^8
//! all      = 1 - Π (1 - f(load of slice))          over the slices that are remembered
//! ```
//!
//! Invariants
//! 1. With at most `expected / slices` ids in each remembered slice, `all` is at most the stated
//!    rate.

/// Bits in a block.
pub(super) const BLOCK_WORDS: usize = 8;
const BITS_A_WORD: f64 = 64.0;
/// Where the Poisson distribution is as good as a point.
const LOAD_LARGE: f64 = 500.0;

/// The error rate of one filter with so many ids a block.
pub(super) fn filter_error(load: f64) -> f64 {
    let of_block = |ids: f64| (1.0 - (1.0 - 1.0 / BITS_A_WORD).powf(ids)).powi(8);
    if load > LOAD_LARGE {
        return of_block(load);
    }
    let last = (load + 12.0 * load.sqrt() + 40.0) as u32;
    let mut chance = (-load).exp();
    let mut sum = 0.0;
    for ids in 1..=last {
        chance *= load / f64::from(ids);
        sum += chance * of_block(f64::from(ids));
    }
    sum
}

/// The error rate of several filters that are all asked.
pub(super) fn any_error(each: impl Iterator<Item = f64>) -> f64 {
    1.0 - each.map(|error| 1.0 - error).product::<f64>()
}

/// The fewest blocks for so many ids with which `filters` filters together err at most so often.
pub(super) fn blocks_for(ids: u64, filters: u32, error_rate: f64) -> u64 {
    let each = 1.0 - (1.0 - error_rate).powf(1.0 / f64::from(filters));
    // One id in each 16 blocks errs less often than any rate that may be asked for.
    let (mut low, mut high) = (1, ids.saturating_mul(16).max(1));
    while low < high {
        let middle = low + (high - low) / 2;
        if filter_error(ids as f64 / middle as f64) <= each {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_grows_with_the_load_and_has_known_values() {
        assert!(filter_error(0.0).abs() < 1e-12);
        // 16 bits an id: 32 ids a block.
        let known = filter_error(32.0);
        assert!((0.0006..0.001).contains(&known), "{known}");
        let mut before = 0.0;
        for load in [0.5, 4.0, 32.0, 100.0, 499.0, 501.0, 5000.0] {
            let error = filter_error(load);
            assert!(error > before && error <= 1.0, "{load}: {error}");
            before = error;
        }
    }

    #[test]
    fn blocks_are_the_fewest_that_keep_the_rate() {
        for (ids, filters, rate) in [(1, 2, 0.5), (1000, 9, 0.01), (1 << 30, 9, 1e-6)] {
            let blocks = blocks_for(ids, filters, rate);
            let all = |blocks: u64| {
                let error = filter_error(ids as f64 / blocks as f64);
                any_error((0..filters).map(|_| error))
            };
            assert!(all(blocks) <= rate * (1.0 + 1e-9), "{ids} {filters} {rate}");
            assert!(
                blocks == 1 || all(blocks - 1) > rate,
                "{ids} {filters} {rate}"
            );
        }
    }
}
