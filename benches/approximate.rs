//! What does an id cost in an approximate scope: a new one, a seen one, and among threads?

use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput};
use firstseen::{Approximate, ApproximateScope, Clock, ManualClock, Options, Store};

#[expect(dead_code, reason = "its stores have exact scopes")]
mod support;
use support::{RawId, ids, sized};

const BATCH: u64 = 1000;
/// Ids of a window, which has eight slices.
const EXPECTED: u64 = 20_000_000;
const WINDOW_MS: u64 = 8 << 20;

struct Window {
    clock: ManualClock,
    scope: ApproximateScope,
    next: u64,
}

impl Window {
    /// A full window.
    fn new(store: &Store, clock: &ManualClock) -> Window {
        let made_for = Approximate::window(Duration::from_millis(WINDOW_MS));
        let made_for = made_for.expected(sized(EXPECTED)).error_rate(0.01);
        let scope = store.approximate("ids", made_for).expect("there is memory");
        let clock = clock.clone();
        let next = 0;
        let mut window = Window { clock, scope, next };
        while window.next < sized(EXPECTED) {
            let ids = window.fresh();
            window.insert(&ids);
        }
        window
    }

    /// New ids, and the time that passes with them.
    fn fresh(&mut self) -> Vec<RawId> {
        let from = self.next;
        self.next += BATCH;
        let part = |next: u64| next * WINDOW_MS / sized(EXPECTED);
        let passed = part(self.next) - part(from);
        self.clock.advance(Duration::from_millis(passed));
        ids(from..self.next)
    }

    fn insert(&self, ids: &[RawId]) -> usize {
        let sights = self.scope.insert_all(ids).expect("it is open");
        sights.iter().filter(|sight| sight.is_first()).count()
    }
}

fn approximate(criterion: &mut Criterion) {
    let clock = ManualClock::new();
    let options = Options::new().clock(Clock::Manual(clock.clone()));
    let store = Store::in_memory(options).expect("a store in memory");
    let mut window = Window::new(&store, &clock);
    let mut group = criterion.benchmark_group("approximate");
    group.throughput(Throughput::Elements(BATCH));
    let scope = window.scope.clone();
    group.bench_function(BenchmarkId::from_parameter("new"), |b| {
        b.iter_batched(
            || window.fresh(),
            |ids| (scope.insert_all(&ids).expect("it is open"), ids),
            BatchSize::SmallInput,
        );
    });
    let mut rng = fastrand::Rng::with_seed(1);
    let seen = window.next - sized(EXPECTED) / 2;
    group.bench_function(BenchmarkId::from_parameter("seen"), |b| {
        b.iter_batched(
            || ids((0..BATCH).map(|_| rng.u64(seen..window.next))),
            |ids| assert!(window.insert(&ids) < ids.len() / 10),
            BatchSize::SmallInput,
        );
    });
    group.bench_function(BenchmarkId::from_parameter("distinct"), |b| {
        b.iter(|| window.scope.distinct().expect("it is open"));
    });
    group.finish();
}

fn main() {
    let mut criterion = support::criterion();
    approximate(&mut criterion);
    criterion.final_summary();
}
