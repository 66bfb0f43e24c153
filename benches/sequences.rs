//! What does a producer's number cost? No id is kept, so a batch is one row, however long.

use criterion::{BenchmarkId, Criterion, Throughput};
use firstseen::{Options, Producer, SequencePolicy, Store};

#[allow(dead_code, reason = "numbers need no ids")]
mod support;

fn sequences(criterion: &mut Criterion) {
    let dir = tempfile::tempdir().expect("a directory");
    let store = Store::open(dir.path(), Options::new()).expect("the store opens");
    let events = store.sequences("events", SequencePolicy::new());
    let events = events.expect("a space is made");
    let mut group = criterion.benchmark_group("sequences");
    for batch in [1_u64, 100, 1000, 10_000] {
        group.throughput(Throughput::Elements(batch));
        let name = format!("in-order-{batch}");
        let producer = Producer {
            name: &name,
            epoch: 1,
        };
        let mut next = 0;
        group.bench_function(BenchmarkId::new("in_order", batch), |b| {
            b.iter(|| {
                let verdicts = events.accept_all(producer, next..next + batch);
                next += batch;
                let verdicts = verdicts.expect("numbers are recorded");
                assert!(verdicts.iter().all(|v| v.is_first()));
                verdicts
            });
        });
        group.bench_function(BenchmarkId::new("duplicate", batch), |b| {
            let seen = next.saturating_sub(batch)..next;
            b.iter(|| {
                let verdicts = events.accept_all(producer, seen.clone());
                let verdicts = verdicts.expect("numbers are checked");
                assert!(verdicts.iter().all(|v| v.is_duplicate()));
                verdicts
            });
        });
    }
    // A hundred producers in turn, out of order by pairs.
    let names: Vec<String> = (0..100).map(|n| format!("server-{n}")).collect();
    let mut next = 0;
    group.throughput(Throughput::Elements(1000));
    group.bench_function("interleaved/1000", |b| {
        let mut batch = store.batch();
        b.iter(|| {
            for n in [1, 0, 3, 2, 5, 4, 7, 6, 9, 8] {
                for name in &names {
                    let producer = Producer { name, epoch: 1 };
                    batch.sequence(&events, producer, next + n);
                }
            }
            next += 10;
            let verdicts = batch.commit().expect("numbers are recorded");
            assert!(verdicts.iter().all(|v| v.is_first()));
            verdicts
        });
    });
}

fn main() {
    let mut criterion = support::criterion();
    sequences(&mut criterion);
    criterion.final_summary();
}
