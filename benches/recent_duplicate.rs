//! What does a duplicate cost that was seen a moment ago, and is still in memory?

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::Options;

mod support;
use support::{Bed, ids, sized};

fn recent_duplicate(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bed = Bed::new(dir.path(), sized(100_000), Options::new().background(false));
    let first = bed.next;
    bed.fill(sized(200_000));
    let recent = first..bed.next;

    let mut group = criterion.benchmark_group("recent_duplicate");
    let mut random = fastrand::Rng::with_seed(1);
    for batch in [1, 100, 1000] {
        group.throughput(Throughput::Elements(batch));
        group.bench_function(BenchmarkId::from_parameter(batch), |b| {
            b.iter_batched(
                || ids((0..batch).map(|_| random.u64(recent.clone()))),
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
    assert_eq!(tiers.generations, 0, "every answer came from memory");
}

fn main() {
    let mut criterion = support::criterion();
    recent_duplicate(&mut criterion);
    criterion.final_summary();
}
