//! The one workload generator of the benches, and the store they run it on.
//!
//! Ids are numbered and made from their number by a bijection: every run makes the same ids, no
//! two numbers make the same one, and a bench asks for a duplicate by number instead of keeping
//! all ids. Time is a manual clock, so that slices end when a bench says so.
//!
//! Smoke mode: without `--bench` among the arguments, as `cargo test --benches` runs them,
//! criterion calls each routine once, and sizes shrink.

use std::path::Path;
use std::time::Duration;

use criterion::Criterion;
use firstseen::{Clock, ManualClock, Options, Policy, Scope, Store};

/// Slices in the retention, and live generations of the store that a bench starts with.
pub(crate) const GENERATIONS: u64 = 8;
/// The width of a slice in milliseconds.
pub(crate) const SLICE_MS: u64 = 1 << 21;
/// Ids in one commit while a store is filled.
const FILL_BATCH: u64 = 1000;

/// An id: 16 bytes, as random as a UUID.
pub(crate) type RawId = [u8; 16];

/// Criterion with times that let all benches end in a few minutes.
pub(crate) fn criterion() -> Criterion {
    Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2))
        .configure_from_args()
}

/// A size: `full` where it is measured, a hundredth of it in smoke mode.
pub(crate) fn sized(full: u64) -> u64 {
    if is_measured() { full } else { full / 100 }
}

fn is_measured() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// The ids of these numbers.
pub(crate) fn ids(numbers: impl IntoIterator<Item = u64>) -> Vec<RawId> {
    numbers.into_iter().map(id).collect()
}

fn id(number: u64) -> RawId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mix(number).to_le_bytes());
    bytes[8..].copy_from_slice(&mix(!number).to_le_bytes());
    bytes
}

/// Spreads numbers over all 64 bits. Each step can be undone, so distinct ones stay distinct.
fn mix(number: u64) -> u64 {
    let mut x = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

/// A store with one scope, and the numbers of the ids it has seen.
pub(crate) struct Bed {
    pub(crate) store: Store,
    pub(crate) scope: Scope,
    pub(crate) clock: ManualClock,
    /// The number of the next new id; all below were given out.
    pub(crate) next: u64,
}

impl Bed {
    /// A new store with [`GENERATIONS`] live generations (two in smoke mode) of
    /// `per_generation` ids each, all sealed.
    pub(crate) fn new(dir: &Path, per_generation: u64, options: Options) -> Bed {
        let clock = ManualClock::new();
        let (store, scope) = open(dir, &clock, options);
        let mut bed = Bed {
            store,
            scope,
            clock,
            next: 0,
        };
        let generations = if is_measured() { GENERATIONS } else { 2 };
        for generation in 0..generations {
            if generation > 0 {
                bed.clock.advance(Duration::from_millis(SLICE_MS));
            }
            bed.fill(per_generation);
            bed.store.seal().expect("ids are sealed");
        }
        let stats = bed.store.stats().expect("the store is open");
        let sealed: Vec<u64> = stats.generations.iter().map(|g| g.ids_estimate).collect();
        assert_eq!(sealed, vec![per_generation; generations as usize]);
        bed
    }

    /// The next `n` new ids.
    pub(crate) fn fresh(&mut self, n: u64) -> Vec<RawId> {
        let first = self.next;
        self.next += n;
        ids(first..self.next)
    }

    /// Records `n` new ids.
    pub(crate) fn fill(&mut self, n: u64) {
        let end = self.next + n;
        while self.next < end {
            let batch = self.fresh(FILL_BATCH.min(end - self.next));
            let verdicts = self.scope.insert_all(&batch).expect("ids are recorded");
            assert!(verdicts.iter().all(|v| v.is_first()));
        }
    }
}

/// Opens the store in a directory, at the time of `clock`.
pub(crate) fn open(dir: &Path, clock: &ManualClock, options: Options) -> (Store, Scope) {
    let store = Store::open(dir, options.clock(Clock::Manual(clock.clone())));
    let store = store.expect("the store opens");
    let retention = Duration::from_millis(SLICE_MS * GENERATIONS);
    let scope = store
        .scope("ids", Policy::remember(retention))
        .expect("a scope is made");
    (store, scope)
}
