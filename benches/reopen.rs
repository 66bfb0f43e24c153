//! How long from opening a store to its first verdict, by the ids that were not sealed, alone
//! and with rows that are not flushed?

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::Options;

mod support;
use support::{Bed, ids, open, sized};

/// Ids recorded together with a row each.
fn fill_with_rows(bed: &mut Bed, ids: u64) {
    let rows = bed.store.table("rows").expect("a table is made");
    let mut batch = bed.store.batch();
    for _ in 0..ids / 1000 {
        for id in bed.fresh(1000) {
            batch.once(&bed.scope, &id).put(&rows, id, [7; 200]);
        }
        let verdicts = batch.commit().expect("it commits");
        assert!(verdicts.iter().all(|v| v.is_first()));
    }
}

fn reopen(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("reopen");
    for (name, fill) in [("ids", Bed::fill as fn(&mut Bed, u64)), ("with_rows", fill_with_rows)] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = || Options::new().background(false);
        let mut bed = Bed::new(dir.path(), sized(100_000), options());
        let sealed = bed.next;
        for unsealed in [sized(100_000), sized(400_000)] {
            let more = sealed + unsealed - bed.next;
            fill(&mut bed, more);
            let Bed { store, scope, clock, next } = bed;
            drop((store, scope));

            group.throughput(Throughput::Elements(unsealed));
            group.bench_function(BenchmarkId::new(name, unsealed), |b| {
                b.iter_batched(
                    || ids([0, next - 1, next]),
                    |asked| {
                        let (store, scope) = open(dir.path(), &clock, options());
                        let seen = asked.iter().map(|id| scope.peek(id).expect("it answers"));
                        let seen: Vec<bool> = seen.map(|s| s.is_some()).collect();
                        assert_eq!(seen, [true, true, false], "sealed, unsealed, new");
                        store
                    },
                    BatchSize::PerIteration,
                );
            });
            let (store, scope) = open(dir.path(), &clock, options());
            bed = Bed { store, scope, clock, next };
        }
        let stats = bed.store.stats().expect("the store is open");
        assert_eq!(stats.unsealed_ids, bed.next - sealed);
    }
}

fn main() {
    let mut criterion = support::criterion().sample_size(10);
    reopen(&mut criterion);
    criterion.final_summary();
}
