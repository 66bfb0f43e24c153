//! What does it cost to rule out a new id against eight generations, by filters of several
//! widths, and by pages where there are none?
//!
//! Ids are held and let go, so nothing but the check is measured.

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::Options;

mod support;
use support::{Bed, sized};

fn filters(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("filters");
    for bits in [0, 10, 16] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().background(false).filter_bits_per_id(bits);
        let mut bed = Bed::new(dir.path(), sized(200_000), options);
        let (store, scope) = (bed.store.clone(), bed.scope.clone());
        for size in [1, 100, 1000] {
            let mut batch = store.batch();
            group.throughput(Throughput::Elements(size));
            let name = BenchmarkId::new(format!("{bits}_bits"), size);
            group.bench_function(name, |b| {
                b.iter_batched(
                    || bed.fresh(size),
                    |ids| {
                        for id in &ids {
                            batch.once(&scope, id);
                        }
                        let verdicts = batch.hold().expect("ids are held");
                        assert!(verdicts.iter().all(|v| v.is_first()));
                        batch.clear();
                        (ids, verdicts)
                    },
                    BatchSize::SmallInput,
                );
            });
        }
        let stats = store.stats().expect("the store is open");
        assert_eq!(stats.filters.count > 0, bits > 0);
        assert_eq!(stats.filters.unfiltered > 0, bits == 0);
    }
}

fn main() {
    let mut criterion = support::criterion();
    filters(&mut criterion);
    criterion.final_summary();
}
