//! What does a new id cost together with a row of the caller's: a plain put, and a guarded
//! counter that several ids of a batch may share?

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::{Batch, Options, Verdicts};

mod support;
use support::{Bed, RawId, sized};

/// A row's bytes.
const ROW: [u8; 200] = [7; 200];
/// Adds an item with its write.
type Write<'a> = dyn Fn(&mut Batch, &RawId) + 'a;
/// Counters that ids are spread over.
const COUNTERS: u8 = 100;

fn all_first(verdicts: Verdicts, ids: Vec<RawId>) -> (Verdicts, Vec<RawId>) {
    assert_eq!(verdicts.len(), ids.len());
    assert!(verdicts.iter().all(|v| v.is_first()));
    (verdicts, ids)
}

fn commit_with_mutation(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bed = Bed::new(dir.path(), sized(100_000), Options::new());
    let scope = bed.scope.clone();
    let rows = bed.store.table("rows").expect("a table is made");
    let counters = bed
        .store
        .guarded_table("counters")
        .expect("a table is made");
    let put = |batch: &mut Batch, id: &RawId| {
        batch.once(&scope, id).put(&rows, id, ROW);
    };
    let add = |batch: &mut Batch, id: &RawId| {
        batch
            .once(&scope, id)
            .add(&counters, [id[0] % COUNTERS], 1, ..);
    };
    for (name, write) in [("plain_put", &put as &Write<'_>), ("guarded_add", &add)] {
        let mut group = criterion.benchmark_group(format!("commit_with_mutation/{name}"));
        for size in [1, 100, 1000] {
            let mut batch = bed.store.batch();
            group.throughput(Throughput::Elements(size));
            group.bench_function(BenchmarkId::from_parameter(size), |b| {
                b.iter_batched(
                    || bed.fresh(size),
                    |ids| {
                        for id in &ids {
                            write(&mut batch, id);
                        }
                        all_first(batch.commit().expect("it commits"), ids)
                    },
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

fn main() {
    let mut criterion = support::criterion();
    commit_with_mutation(&mut criterion);
    criterion.final_summary();
}
