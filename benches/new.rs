//! What does a new id cost, from single calls to batches, with sealing going on?
//!
//! Eight generations are live, and time passes with the ids, so that sealing, merging and
//! expiry of steady use take their share of the machine.

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::{Durability, Options};

mod support;
use support::{Bed, SLICE_MS, sized};

/// New ids that come in while one slice passes.
const PER_SLICE: u64 = 4_000_000;

fn new(criterion: &mut Criterion) {
    for durability in [Durability::Written, Durability::Buffered] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().durability(durability);
        let mut bed = Bed::new(dir.path(), sized(200_000), options);
        let scope = bed.scope.clone();

        let mut group = criterion.benchmark_group(format!("new/{durability:?}"));
        for batch in [1, 100, 1000] {
            group.throughput(Throughput::Elements(batch));
            group.bench_function(BenchmarkId::from_parameter(batch), |b| {
                b.iter_batched(
                    || {
                        bed.clock
                            .advance(Duration::from_millis(SLICE_MS * batch / PER_SLICE));
                        bed.fresh(batch)
                    },
                    |ids| {
                        let verdicts = scope.insert_all(&ids).expect("ids are recorded");
                        assert!(verdicts.iter().all(|v| v.is_first()));
                        (ids, verdicts)
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

fn main() {
    let mut criterion = support::criterion();
    new(&mut criterion);
    criterion.final_summary();
}
