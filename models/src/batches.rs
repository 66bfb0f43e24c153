//! Overlapping batches in the in-flight table: mutual exclusion, no deadlock, no lost wake-up.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use shuttle::rand::Rng;
use shuttle::thread;

use crate::commit::holds::{HoldError, Holds, Owner};
use crate::sync::{far, near};

/// Overlapping batches, with repeats; some hashes share a shard, some don't.
const BATCHES: [&[u64]; 3] = [&[0, 1, 2, 1], &[4, 2, 3, 0], &[5, 4, 1, 5]];
const HASHES: u64 = 6;

/// How a batch gets its holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Pass 1, then pass 2 as long as it takes.
    Wait,
    /// As `Wait`, with so many ids more that positions are grouped by shard.
    WaitLarge,
    /// Pass 2 may time out, then the batch is tried again, a few times.
    MayTimeOut,
}

struct Shared {
    holds: Holds,
    /// Who is inside for each hash; plain memory, so it adds no scheduling points.
    inside: HashMap<u64, AtomicU64>,
}

impl Shared {
    fn new() -> Arc<Shared> {
        let inside = (0..HASHES).map(|i| (hash(i), AtomicU64::new(0))).collect();
        Arc::new(Shared {
            holds: Holds::new(),
            inside,
        })
    }

    fn enter_and_leave(&self, owner: Owner, wanted: &[u64], met: &[(u32, u32)]) {
        check_met(wanted, met);
        let mine = || {
            let holding = |at: &usize| !met.iter().any(|&(repeat, _)| repeat as usize == *at);
            let places = (0..wanted.len()).filter(holding);
            places.filter_map(|at| self.inside.get(&wanted[at]))
        };
        for place in mine() {
            let before = place.swap(owner.0, Ordering::Relaxed);
            assert_eq!(before, 0, "two owners of one hash");
        }
        thread::yield_now();
        for place in mine() {
            let before = place.swap(0, Ordering::Relaxed);
            assert_eq!(before, owner.0, "two owners of one hash");
        }
    }

    /// `false` when it gave up.
    fn run(&self, wanted: &[u64], deadline: Instant) -> Result<bool, HoldError> {
        let (owner, mut met) = (self.holds.owner(), Vec::new());
        let mut got = self.holds.try_hold(owner, wanted, &mut met);
        for _ in 0..3 {
            match got {
                Ok(()) => {
                    self.enter_and_leave(owner, wanted, &met);
                    self.holds.release(owner, wanted);
                    return Ok(true);
                }
                Err(HoldError::Poisoned) => return Err(HoldError::Poisoned),
                Err(HoldError::Foreign(foreign)) => {
                    assert!(foreign.at < wanted.len() && foreign.owner != owner);
                    assert!(met.is_empty(), "a failed call left repeats behind");
                    got = self.holds.hold_sorted(owner, wanted, &mut met, deadline);
                }
            }
        }
        // An owner that gave up holds nothing; should a wait have left a hold behind, the others
        // would wait for ever, or the table be occupied at the end.
        if got.is_ok() {
            self.holds.release(owner, wanted);
        }
        Ok(false)
    }
}

fn hash(i: u64) -> u64 {
    (i % 3) << 62 | i
}

fn check_met(wanted: &[u64], met: &[(u32, u32)]) {
    for (at, &hash) in wanted.iter().enumerate() {
        let first = wanted
            .iter()
            .position(|&other| other == hash)
            .filter(|&first| first < at);
        let reported = met.iter().find(|&&(repeat, _)| repeat as usize == at);
        assert_eq!(
            reported.map(|&(_, earliest)| earliest as usize),
            first,
            "position {at}"
        );
    }
}

/// Three batches that overlap, each run twice in an order of its own.
pub fn overlapping(mode: Mode) {
    let shared = Shared::new();
    let threads: Vec<_> = (0..BATCHES.len())
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..2 {
                    let wanted = batch(number, mode);
                    let deadline = if mode == Mode::MayTimeOut {
                        near()
                    } else {
                        far()
                    };
                    let done = shared.run(&wanted, deadline).expect("nobody poisons");
                    assert!(
                        done || mode == Mode::MayTimeOut,
                        "a wait without end gave up"
                    );
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("a batch panicked");
    }
    assert_eq!(shared.holds.len(), 0, "a hold was left behind");
}

fn batch(number: usize, mode: Mode) -> Vec<u64> {
    let mut wanted: Vec<u64> = BATCHES[number].iter().map(|&i| hash(i)).collect();
    if mode == Mode::WaitLarge {
        let own = 1000 * (1 + number as u64);
        wanted.extend((own..own + 128).map(|i| (i % 2) << 63 | i));
    }
    let turn = shuttle::rand::thread_rng().gen_range(0..wanted.len());
    wanted.rotate_left(turn);
    wanted
}

/// Batches that overlap, and a poisoner at any moment: all waiters are told, exclusion stays.
pub fn poisoned() {
    let shared = Shared::new();
    let mut threads: Vec<_> = (0..BATCHES.len())
        .map(|number| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                for _ in 0..2 {
                    match shared.run(&batch(number, Mode::Wait), far()) {
                        Ok(done) => assert!(done, "a wait without end gave up"),
                        Err(error) => return assert_eq!(error, HoldError::Poisoned),
                    }
                }
            })
        })
        .collect();
    let poisoner = Arc::clone(&shared);
    threads.push(thread::spawn(move || poisoner.holds.poison()));
    for thread in threads {
        thread.join().expect("a batch panicked");
    }
    let later = shared.run(&[hash(0)], far());
    assert_eq!(later, Err(HoldError::Poisoned));
}

/// Two owners that wait for single hashes in opposite orders. Sorted, that ends; as `unsorted`
/// the rule of pass 2 is broken, and a deadlock must be found.
pub fn opposite_orders(unsorted: bool) {
    let shared = Shared::new();
    let threads: Vec<_> = [[hash(0), hash(1)], [hash(1), hash(0)]]
        .into_iter()
        .map(|wanted| {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                let (owner, mut met) = (shared.holds.owner(), Vec::new());
                let steps = if unsorted {
                    wanted.chunks(1)
                } else {
                    wanted.chunks(2)
                };
                for step in steps {
                    let got = shared.holds.hold_sorted(owner, step, &mut met, far());
                    assert_eq!(got, Ok(()));
                }
                shared.enter_and_leave(owner, &wanted, &met);
                shared.holds.release(owner, &wanted);
            })
        })
        .collect();
    for thread in threads {
        thread.join().expect("an owner panicked");
    }
}
