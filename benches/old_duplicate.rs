//! What does a duplicate cost whose id was sealed, in a generation that the cache holds?

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::Options;

mod support;
use support::{Bed, ids, sized};

fn old_duplicate(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let bed = Bed::new(dir.path(), sized(200_000), Options::new().background(false));

    let mut group = criterion.benchmark_group("old_duplicate");
    let mut random = fastrand::Rng::with_seed(1);
    for batch in [1, 100, 1000] {
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::from_parameter(batch), |b| {
            b.iter_batched(
                || ids((0..batch).map(|_| random.u64(..bed.next))),
                |ids| {
                    let verdicts = bed.scope.insert_all(&ids).expect("ids are checked");
                    assert!(verdicts.iter().all(|v| v.is_duplicate()));
                    (ids, verdicts)
                },
                BatchSize::SmallInput,
            );
        });
    }
    drop(group);
    let tiers = bed.store.stats().expect("the store is open").tiers;
    assert_eq!(tiers.active_set, 0, "every answer came from a generation");
}

fn main() {
    let mut criterion = support::criterion();
    old_duplicate(&mut criterion);
    criterion.final_summary();
}
