//! What does it cost to seal ids into generations, and to drop a generation that expired?

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::{Id, Options};

mod support;
use support::{Bed, GENERATIONS, SLICE_MS, sized};

/// Drops everything that was sealed, so that each seal finds generations with no runs.
fn expire_all(bed: &Bed) {
    bed.clock
        .advance(Duration::from_millis((GENERATIONS + 1) * SLICE_MS));
    bed.store.seal().expect("expired generations are dropped");
    let stats = bed.store.stats().expect("the store is open");
    assert_eq!((stats.unsealed_ids, stats.live_ids_estimate), (0, 0));
}

/// Records ids that expire in `slices` slices.
fn record(bed: &mut Bed, ids: u64, slices: u64) {
    for _ in 0..ids / 1000 {
        let batch = bed.fresh(1000);
        let placed = batch
            .iter()
            .zip((1..=slices).cycle())
            .map(|(id, slice)| Id::new(id).remember(Duration::from_millis(slice * SLICE_MS)));
        let verdicts = bed.scope.insert_all(placed).expect("ids are recorded");
        assert!(verdicts.iter().all(|v| v.is_first()));
    }
}

fn sealing(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let mut bed = Bed::new(dir.path(), sized(100_000), Options::new().background(false));
    let store = bed.store.clone();
    let seal = |()| store.seal().expect("ids are sealed");
    let ids = sized(400_000);

    let mut group = criterion.benchmark_group("sealing");
    group.throughput(Throughput::Elements(ids));
    for slices in [1, GENERATIONS] {
        let name = BenchmarkId::new("generations", slices);
        group.bench_function(name, |b| {
            let unsealed = || {
                expire_all(&bed);
                record(&mut bed, ids, slices);
            };
            b.iter_batched(unsealed, seal, BatchSize::PerIteration);
        });
    }
    group.bench_function("drop_expired", |b| {
        let expired = || {
            expire_all(&bed);
            record(&mut bed, ids, 1);
            bed.store.seal().expect("ids are sealed");
            bed.clock.advance(Duration::from_millis(2 * SLICE_MS));
        };
        b.iter_batched(expired, seal, BatchSize::PerIteration);
    });
}

fn main() {
    let mut criterion = support::criterion().sample_size(10);
    sealing(&mut criterion);
    criterion.final_summary();
}
