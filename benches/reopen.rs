//! How long from opening a store to its first verdicts, with many ids that were not sealed,
//! alone and with a row each?
//!
//! Opening changes what the next one finds, so each opens a copy of its own.

use std::path::Path;

use criterion::{BatchSize, Criterion, Throughput};
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

fn copy(from: &Path, to: &Path) -> std::io::Result<()> {
    std::fs::create_dir_all(to)?;
    for entry in std::fs::read_dir(from)? {
        let entry = entry?;
        let name = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &name)?;
        } else {
            std::fs::copy(entry.path(), name)?;
        }
    }
    Ok(())
}

fn reopen(criterion: &mut Criterion) {
    let unsealed = sized(400_000);
    let mut group = criterion.benchmark_group("reopen");
    group.throughput(Throughput::Elements(unsealed));
    for (name, fill) in [
        ("ids", Bed::fill as fn(&mut Bed, u64)),
        ("with_rows", fill_with_rows),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = || Options::new().background(false);
        let mut bed = Bed::new(dir.path(), sized(100_000), options());
        fill(&mut bed, unsealed);
        let Bed {
            store,
            scope,
            clock,
            next,
        } = bed;
        assert_eq!(
            store.stats().expect("the store is open").unsealed_ids,
            unsealed
        );
        drop((store, scope));

        group.bench_function(name, |b| {
            b.iter_batched(
                || {
                    let own = tempfile::tempdir().expect("a directory");
                    copy(dir.path(), own.path()).expect("the store is copied");
                    (own, ids([0, next - 1, next]))
                },
                |(own, ids)| {
                    let (store, scope) = open(own.path(), &clock, options());
                    let seen = ids
                        .iter()
                        .map(|id| scope.peek(id).expect("it answers").is_some());
                    assert!(
                        seen.eq([true, true, false]),
                        "one sealed, one unsealed, one new"
                    );
                    (store, own)
                },
                BatchSize::PerIteration,
            );
        });
    }
}

fn main() {
    let mut criterion = support::criterion().sample_size(10);
    reopen(&mut criterion);
    criterion.final_summary();
}
