//! What does it cost to answer a duplicate with its stored result, from memory and from pages?

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::{Options, Policy, Scope, Store, days};

#[expect(dead_code, reason = "its stores have scopes of their own")]
mod support;
use support::{RawId, ids, sized};

/// Records `numbers` with results of so many bytes.
fn record(store: &Store, scope: &Scope, numbers: std::ops::Range<u64>, bytes: usize) {
    let result = vec![b'r'; bytes];
    let all: Vec<u64> = numbers.collect();
    for part in all.chunks(256) {
        let mut batch = store.batch();
        for id in &ids(part.iter().copied()) {
            batch.once(scope, id).result(&result);
        }
        let verdicts = batch.commit().expect("ids are recorded");
        assert!(verdicts.iter().all(|v| v.is_first()));
    }
}

fn replay(scope: &Scope, id: &RawId, bytes: usize) {
    let seen = scope.insert(id).expect("the id is checked");
    match seen {
        firstseen::Verdict::Duplicate(seen) => {
            assert_eq!(seen.result().map(<[u8]>::len), Some(bytes));
        }
        other => panic!("{other:?}"),
    }
}

fn replay_result(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("replay_result");
    group.throughput(Throughput::Elements(1));
    for bytes in [64, 512, 4096] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().background(false);
        let store = Store::open(dir.path(), options).expect("the store opens");
        let policy = Policy::remember(days(7)).results();
        let scope = store.scope("ids", policy).expect("a scope is made");
        let (old, all) = (sized(20_000), sized(24_000));
        record(&store, &scope, 0..old, bytes);
        store.seal().expect("ids are sealed");
        record(&store, &scope, old..all, bytes);
        for (name, numbers) in [("recent", old..all), ("old", 0..old)] {
            let mut random = fastrand::Rng::with_seed(1);
            group.bench_function(BenchmarkId::new(name, bytes), |b| {
                b.iter_batched(
                    || ids([random.u64(numbers.clone())])[0],
                    |id| replay(&scope, &id, bytes),
                    BatchSize::SmallInput,
                );
            });
        }
    }
}

fn main() {
    let mut criterion = support::criterion();
    replay_result(&mut criterion);
    criterion.final_summary();
}
