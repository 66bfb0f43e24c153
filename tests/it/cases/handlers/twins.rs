//! Two stores that are asked the same, of which one only observes: what it would have answered is
//! what the other one answers, and what it knows in the end is what the other one knows (B1).

use std::fmt::Debug;
use std::time::Duration;

use firstseen::{
    Claim, Clock, Failure, Id, ManualClock, Mode, Options, Policy, Scope, Sighting, Store, Verdict,
    days,
};

use super::super::{ms, quiet, secs};

const IDS: u8 = 6;

/// One of the two.
struct Twin {
    store: Store,
    clock: ManualClock,
    policy: Policy,
}

impl Twin {
    fn new(policy: Policy, mode: Mode) -> Twin {
        let clock = ManualClock::new();
        let options: Options = quiet().clock(Clock::Manual(clock.clone()));
        Twin {
            store: Store::in_memory(options).unwrap(),
            clock,
            policy: policy.mode(mode),
        }
    }

    fn scope(&self) -> Scope {
        self.store.scope("s", self.policy.clone()).unwrap()
    }

    fn known(&self) -> Vec<Option<Sighting>> {
        let scope = self.scope();
        (0..IDS).map(|n| scope.peek(&name(n)).unwrap()).collect()
    }
}

fn name(n: u8) -> String {
    format!("id-{n}")
}

/// What one answers is what the other would.
#[track_caller]
fn agree<T: Debug, U: Debug>(seed: u64, enforced: &Verdict<T>, observed: &Verdict<U>) {
    // What comes with a first sight is each one's own.
    let would_be = observed.would_be().map(bare);
    let said = would_be.unwrap_or_else(|| bare(observed));
    assert_eq!(bare(enforced), said, "seed {seed}");
}

fn bare<T: Debug>(verdict: &Verdict<T>) -> String {
    match verdict {
        Verdict::First(_) => "First(())".to_string(),
        other => format!("{other:?}"),
    }
}

/// Ends a claim in one of five ways; the last leaves it to its lease.
fn end(mut claim: Claim, how: u8) {
    claim.start();
    match how {
        0 => claim.complete("done", |_| {}).unwrap(),
        1 => claim.fail(Failure::Retryable, "again").unwrap(),
        2 => claim.fail(Failure::Permanent, "never").unwrap(),
        3 => claim.outcome_unknown("timeout").unwrap(),
        _ => {}
    }
}

fn run(seed: u64, policy: &Policy) {
    let mut rng = fastrand::Rng::with_seed(seed);
    let policy = || {
        policy
            .clone()
            .payloads()
            .results()
            .lease(secs(20))
            .wait(ms(0))
    };
    let mut twins = [
        Twin::new(policy(), Mode::Enforce),
        Twin::new(policy(), Mode::ObserveOnly),
    ];
    for _ in 0..150 {
        let id = name(rng.u8(0..IDS));
        let body = ["", "body", "another"][rng.usize(0..3)];
        let id = match body {
            "" => Id::new(&id),
            body => Id::new(&id).payload(body),
        };
        match rng.u8(0..20) {
            0..6 => {
                let [enforced, observed] = twins.each_ref().map(|t| t.scope().insert(id).unwrap());
                agree(seed, &enforced, &observed);
            }
            6..9 => {
                let more = name(rng.u8(0..IDS));
                let [enforced, observed] = twins.each_ref().map(|twin| {
                    let mut batch = twin.store.batch();
                    let scope = twin.scope();
                    batch.once(&scope, id).result("kept");
                    batch.once(&scope, &more);
                    batch.once(&scope, id);
                    batch.commit().unwrap()
                });
                for (enforced, observed) in enforced.iter().zip(&observed) {
                    agree(seed, enforced, observed);
                }
            }
            9..11 => {
                let [enforced, observed] = twins.each_ref().map(|twin| {
                    let closure = twin.scope().once(id, |tx| {
                        tx.result("closure");
                        Ok::<_, firstseen::Error>(())
                    });
                    closure.unwrap()
                });
                agree(seed, &enforced, &observed);
            }
            11..15 => {
                let how = rng.u8(0..5);
                let [enforced, observed] = twins.each_ref().map(|t| t.scope().claim(id).unwrap());
                agree(seed, &enforced, &observed);
                for claim in [enforced.first(), observed.first()].into_iter().flatten() {
                    end(claim, how);
                }
            }
            15 => {
                let told = twins
                    .each_ref()
                    .map(|t| t.scope().forget(id, "test").unwrap());
                assert_eq!(told[0], told[1], "seed {seed}");
            }
            16 | 17 => {
                let step = ms(rng.u64(1..30_000));
                twins.iter().for_each(|twin| twin.clock.advance(step));
            }
            18 if rng.bool() => twins.iter().for_each(|twin| twin.store.seal().unwrap()),
            18 => twins.iter().for_each(|twin| twin.store.compact().unwrap()),
            _ => {
                for twin in &mut twins {
                    twin.store = twin.store.clone().crash_and_reopen().unwrap();
                }
            }
        }
        let [enforced, observed] = twins.each_ref().map(Twin::known);
        assert_eq!(enforced, observed, "seed {seed}");
    }
}

#[test]
fn who_observes_answers_and_knows_what_who_enforces_does() {
    let policies: [fn() -> Policy; 3] = [
        || Policy::remember(secs(60)),
        || Policy::sliding(secs(40), Duration::from_secs(100)),
        || Policy::remember(days(1)),
    ];
    for seed in 0..20 {
        run(seed, &policies[seed as usize % 3]());
    }
}
