//! The distinct count of one slice: a HyperLogLog, with a stored form of its own.
//!
//! Invariants
//! 1. What is stored are the registers, a byte each. Register and value of a hash never change
//!    for one version of the snapshot: the golden test guards that against another release of
//!    the crate.
//!
//! Concurrency: any number of threads count. Failure: none.

use std::hash::{BuildHasherDefault, DefaultHasher};

use hyperloglockless::{AtomicHyperLogLog, error_for_precision};

/// The largest value of a register of a 64-bit hash.
const REGISTER_MAX: u8 = 65;

/// Ids come hashed, so this one is never asked.
type NoHasher = BuildHasherDefault<DefaultHasher>;

/// A count of distinct hashes.
pub(super) struct Sketch(AtomicHyperLogLog<NoHasher>);

impl Sketch {
    /// Nothing counted, in `2^precision` bytes.
    pub(super) fn new(precision: u8) -> Sketch {
        Sketch(AtomicHyperLogLog::with_hasher(
            precision,
            NoHasher::default(),
        ))
    }

    #[inline]
    pub(super) fn count(&self, hash: u64) {
        self.0.insert_hash(hash);
    }

    /// What all of these of one precision counted together.
    pub(super) fn union<'a>(precision: u8, all: impl Iterator<Item = &'a Sketch>) -> Sketch {
        let mut registers = vec![0; 1 << precision];
        for sketch in all {
            for (most, value) in registers.iter_mut().zip(sketch.0.iter()) {
                *most = value.max(*most);
            }
        }
        // Registers of sketches are in range, so there is one.
        Sketch::from_bytes(&registers).unwrap_or_else(|| Sketch::new(precision))
    }

    /// About how many distinct hashes were counted.
    pub(super) fn estimate(&self) -> u64 {
        self.0.raw_count().round() as u64
    }

    /// The registers.
    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().collect()
    }

    /// The sketch with these registers; none if they can't be.
    pub(super) fn from_bytes(registers: &[u8]) -> Option<Sketch> {
        let precision = registers.len().checked_ilog2()?;
        let fits = registers.len().is_power_of_two() && (4..=18).contains(&precision);
        if !fits || registers.iter().any(|value| *value > REGISTER_MAX) {
            return None;
        }
        let zeros = registers.iter().filter(|value| **value == 0).count();
        let sum = registers.iter().map(|v| 0.5f64.powi(i32::from(*v))).sum();
        let all = registers.iter().map(|value| (*value).into()).collect();
        let sketch = AtomicHyperLogLog::from_parts(all, NoHasher::default(), zeros, sum);
        Some(Sketch(sketch))
    }
}

/// The standard error of an estimate, as a share of it.
pub(super) fn standard_error(precision: u8) -> f64 {
    error_for_precision(precision)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_registers() {
        let sketch = Sketch::new(4);
        for hash in [
            0x3000_0000_0000_0001,
            0x3000_0000_0000_0080,
            0xF000_0000_0000_0000,
            0,
        ] {
            sketch.count(hash);
        }
        let expected = [65, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 61];
        assert_eq!(sketch.bytes(), expected);
    }

    #[test]
    fn a_read_back_sketch_estimates_and_counts_on_alike() {
        let mut rng = fastrand::Rng::with_seed(3);
        for count in [0, 1, 100, 100_000] {
            let sketch = Sketch::new(12);
            (0..count).for_each(|_| sketch.count(rng.u64(..)));
            let read = Sketch::from_bytes(&sketch.bytes()).expect("just written");
            assert_eq!(read.estimate(), sketch.estimate());
            let more: Vec<u64> = (0..1000).map(|_| rng.u64(..)).collect();
            more.iter().for_each(|hash| sketch.count(*hash));
            more.iter().for_each(|hash| read.count(*hash));
            assert_eq!(read.bytes(), sketch.bytes());
            assert_eq!(read.estimate(), sketch.estimate());
        }
        assert!(Sketch::from_bytes(&[0; 8]).is_none());
        assert!(Sketch::from_bytes(&[0; 17]).is_none());
        assert!(Sketch::from_bytes(&[66; 16]).is_none());
    }

    #[test]
    fn estimates_keep_their_standard_error() {
        let mut rng = fastrand::Rng::with_seed(9);
        for count in [1_000u64, 50_000, 400_000] {
            let (one, other) = (Sketch::new(12), Sketch::new(12));
            for i in 0..count {
                let hash = rng.u64(..);
                // Some are in both: they count once.
                if i % 3 != 0 {
                    one.count(hash);
                }
                if i % 3 != 1 {
                    other.count(hash);
                }
            }
            let both = Sketch::union(12, [&one, &other].into_iter());
            let off = both.estimate().abs_diff(count) as f64 / count as f64;
            assert!(off < 4.0 * standard_error(12), "{count}: {off}");
        }
    }
}
