//! Random redeliveries, crashes, failing commits and panics, against a broker in plain maps:
//! enforced each effect takes place exactly once; observed at least once, and what would have been
//! kept out is counted exactly.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};

use firstseen::{
    Action, FailureKind, Handled, IdState, Message, Mode, NextCommit, Options, Policy, Source,
    Store, days,
};

use super::super::{counter, quiet};
use super::Oops;

const MESSAGES: u64 = 8;

/// What a message is answered with by its own contents.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Good,
    Poison,
}

fn kind(n: u64) -> Kind {
    if n % 5 == 4 { Kind::Poison } else { Kind::Good }
}

struct Run {
    store: Store,
    rng: fastrand::Rng,
    source: Source,
    mode: Mode,
    is_outside: bool,
    /// Of an effect outside the store: how often it was made, by message.
    made: BTreeMap<u64, u64>,
    /// Of runs that a crash has ended: would-be duplicates as stats had them.
    counted: u64,
    /// Deliveries that would have been kept out, as this model knows.
    expected: u64,
}

impl Run {
    fn policy(&self) -> Policy {
        let policy = Policy::remember(days(7)).take_over_dead_runs();
        policy.mode(self.mode).attempts_max(1_000)
    }

    fn observed(&self) -> u64 {
        let scopes = self.store.stats().unwrap().scopes;
        scopes
            .first()
            .map_or(0, |s| s.observed.duplicates + s.observed.dead_lettered)
    }

    fn crash(&mut self) {
        self.counted += self.observed();
        self.store = self.store.clone().crash_and_reopen().unwrap();
    }

    /// One delivery; `None` if the handler panicked.
    fn deliver(&mut self, n: u64, next: u64) -> Option<Handled<(), Oops>> {
        let scope = self.store.scope("s", self.policy()).unwrap();
        let sums = self.store.guarded_table("sums").unwrap();
        let handler = scope.handler(self.source);
        let id = format!("m{n}");
        let mut message = Message::new(&id).payload(&id);
        if self.source == Source::Replayable {
            message = message.next("p", next);
        }
        let known = scope.peek(&id).unwrap().map(|seen| seen.state());
        let is_known = matches!(known, Some(IdState::Done | IdState::DeadLettered));
        let mood = self.rng.u8(0..10);
        let effect = |made: &mut BTreeMap<u64, u64>| match (mood, kind(n)) {
            (0, _) => panic!("on purpose"),
            (1, _) => Err(Oops(FailureKind::Retryable)),
            (_, Kind::Poison) => Err(Oops(FailureKind::Poison)),
            (_, Kind::Good) => {
                *made.entry(n).or_default() += 1;
                Ok(())
            }
        };
        let failure = match self.rng.u8(0..12) {
            0 => Some(NextCommit::NotRecorded),
            1 => Some(NextCommit::UnknownLost),
            2 => Some(NextCommit::UnknownWritten),
            _ => None,
        };
        if let (Some(failure), false) = (failure, self.is_outside) {
            self.store.fail_next_commit(failure).unwrap();
        }
        let made = &mut self.made;
        let handled = catch_unwind(AssertUnwindSafe(|| {
            if self.is_outside {
                return handler.perform(message, |work| {
                    work.writes().add(&sums, &id, 1, ..);
                    effect(made)
                });
            }
            handler.process(message, |tx| {
                tx.add(&sums, &id, 1, ..);
                effect(made)
            })
        }));
        let handled = handled.ok();
        let is_committed = handled.as_ref().is_some_and(|h| {
            let is_done = matches!(h.action(), Action::Proceed | Action::Ack);
            let verdict = h.verdict().filter(|v| v.is_first());
            if let (true, Some(verdict)) = (is_done, verdict) {
                assert_eq!(verdict.would_be().is_some(), is_known, "{id}: {verdict:?}");
            }
            is_done
        });
        // A claim is counted when it is asked for, a closure when it is committed.
        if self.mode == Mode::ObserveOnly && is_known && (is_committed || self.is_outside) {
            self.expected += 1;
        }
        handled
    }
}

fn sums(store: &Store) -> BTreeMap<u64, u64> {
    let table = store.guarded_table("sums").unwrap();
    let sum = |n| counter(&table, &format!("m{n}")).unwrap_or(0) as u64;
    (0..MESSAGES).map(|n| (n, sum(n))).collect()
}

/// Runs until the broker has forgotten every message, and looks at what took place.
fn run(seed: u64, source: Source, mode: Mode, is_outside: bool) -> u64 {
    let mut rng = fastrand::Rng::with_seed(seed);
    let options: Options = quiet().closures_twice(rng.bool() && !is_outside);
    let mut run = Run {
        store: Store::in_memory(options).unwrap(),
        rng,
        source,
        mode,
        is_outside,
        made: BTreeMap::new(),
        counted: 0,
        expected: 0,
    };
    // Each message is there more than once, as producers repeat themselves.
    let mut log: Vec<u64> = (0..MESSAGES).chain(0..MESSAGES).collect();
    run.rng.shuffle(&mut log[MESSAGES as usize / 2..]);
    let mut queue: VecDeque<(u64, u64)> = (1..).zip(log.iter().copied()).collect();
    let mut deliveries = 0;
    while let Some((next, n)) = queue.pop_front() {
        deliveries += 1;
        assert!(deliveries < 5_000, "seed {seed}: it never ends");
        let handled = run.deliver(n, next);
        let action = handled.as_ref().map(Handled::action);
        let may_forget = match action {
            Some(Action::Proceed | Action::Ack) => true,
            Some(Action::Retry(_)) | None => false,
            Some(Action::Stop) => {
                run.crash();
                false
            }
            Some(Action::DeadLetter) => panic!("seed {seed}: {handled:?}"),
        };
        // The acknowledgement may get lost, and the process with it.
        let is_lost = run.rng.u8(0..6) == 0;
        if is_lost {
            run.crash();
        }
        match source {
            Source::AckOnce if !may_forget || is_lost => {
                queue.push_back((next, n));
            }
            Source::Replayable if !may_forget || is_lost => {
                // The store says where to go on.
                let point = run.store.resume_point("p").unwrap();
                let from = point.and_then(|p| p.as_u64()).unwrap_or(0);
                queue = (1..).zip(log.iter().copied()).skip(from as usize).collect();
            }
            _ => {}
        }
    }
    run.counted += run.observed();
    let scope = run.store.scope("s", run.policy()).unwrap();
    let dead = scope.dead_letters().unwrap().count() as u64;
    assert_eq!(
        dead,
        (0..MESSAGES).filter(|n| kind(*n) == Kind::Poison).count() as u64
    );
    let mut beyond = 0;
    for (n, sum) in sums(&run.store) {
        match kind(n) {
            Kind::Poison => assert_eq!(sum, 0, "seed {seed}: {n}"),
            Kind::Good if mode == Mode::Enforce => assert_eq!(sum, 1, "seed {seed}: {n}"),
            Kind::Good => {
                assert!(sum >= 1, "seed {seed}: {n} was lost");
                beyond += sum - 1;
            }
        }
        let made = run.made.get(&n).copied().unwrap_or(0);
        assert!(made >= sum, "seed {seed}: {n}");
    }
    assert_eq!(
        run.counted, run.expected,
        "seed {seed}: would-be duplicates"
    );
    beyond
}

fn seeds() -> std::ops::Range<u64> {
    let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
    let runs = std::env::var("RUNS").ok().and_then(|s| s.parse().ok());
    seed.map_or(0..runs.unwrap_or(12), |seed| seed..seed + 1)
}

#[test]
fn enforced_each_effect_takes_place_exactly_once() {
    for seed in seeds() {
        for source in [Source::AckOnce, Source::Replayable] {
            let _ = run(seed, source, Mode::Enforce, false);
            let _ = run(seed, source, Mode::Enforce, true);
        }
    }
}

#[test]
fn observed_each_effect_takes_place_at_least_once() {
    let mut beyond = 0;
    for seed in seeds() {
        for source in [Source::AckOnce, Source::Replayable] {
            beyond += run(seed, source, Mode::ObserveOnly, false);
            beyond += run(seed, source, Mode::ObserveOnly, true);
        }
    }
    assert!(beyond > 0, "nothing came twice, so nothing was tried");
}
