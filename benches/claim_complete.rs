//! What do a claim and its completion cost, two commits, without and with their syncs?

use criterion::{BenchmarkId, Criterion, Throughput};
use firstseen::{Durability, Options, Verdict};

mod support;
use support::{Bed, ids, sized};

fn claim_complete(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("claim_complete");
    for level in [Durability::Written, Durability::Synced] {
        let dir = tempfile::tempdir().expect("a directory");
        let options = Options::new().background(false).claims_durability(level);
        let mut bed = Bed::new(dir.path(), sized(10_000), options);
        group.throughput(Throughput::Elements(1));
        let name = BenchmarkId::from_parameter(format!("{level:?}"));
        group.bench_function(name, |b| {
            b.iter(|| {
                let id = &ids([bed.next])[0];
                bed.next += 1;
                match bed.scope.claim(id).expect("a claim is answered") {
                    Verdict::First(mut claim) => claim.complete("done", |_| {}),
                    other => panic!("{other:?}"),
                }
                .expect("it is completed");
            });
        });
    }
}

fn main() {
    let mut criterion = support::criterion();
    claim_complete(&mut criterion);
    criterion.final_summary();
}
