//! Cycles of work, a failure and a reopening, over RocksDB's file system for tests (`faults/`).
//!
//! A cycle works one step after another, so that a seed repeats it: batches of each sender,
//! buffered ones, syncs, seals. It ends in one of these ways:
//!
//! - the power is cut between two steps, or at the n-th call of RocksDB's to the file system;
//!   what was not synced is gone, or a random part of it;
//! - calls fail for good (I/O error, disk full, one that RocksDB retries), before they are done or
//!   after; then the power is cut or the store closed. With `TRANSIENT=1` only a few calls fail.
//!
//! Then the store opens without failures, and everything must be there as after a power cut
//! (`ledger.rs`). A failed call answers with an error that says what to do, and one that says
//! "nothing was recorded" is held to it. The store's own files (floor, filters) are the
//! system's: each is written and synced in one step, so a cut between calls takes nothing of
//! them.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use faults::{Failure, Faults, NAMES, Plan, READS, SYNCS, WRITES};
use firstseen::{Error, ErrorKind, Health, Options, Recorded};

use super::campaign::{CRASHES_A_STORE, Campaign};
use super::expected::check;
use super::ledger::{End, Ledger};
use super::worker::{Broken, Open, Worker};
use super::workload::{self, SENDERS, SUBMITTED};
use super::{now, number};

/// Lanes that work at the same time, each with stores of its own.
const LANES: u64 = 2;

/// How a cycle goes wrong.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    /// Between two steps; the seed of what is kept, 0 for nothing.
    Cut(u64),
    /// At the n-th call.
    CutAt(u64, u64),
    /// Calls fail, from the open on or later; then the power is cut, or the store closed.
    Fail { plan: Plan, early: bool, cut: bool },
}

fn trouble(rng: &mut fastrand::Rng) -> Trouble {
    let keep = if rng.bool() { rng.u64(1..) } else { 0 };
    match rng.u8(0..4) {
        0 => Trouble::Cut(keep),
        1 => Trouble::CutAt(rng.u64(1..250), keep),
        _ => {
            let calls = [
                WRITES,
                SYNCS,
                NAMES,
                READS,
                WRITES | SYNCS,
                WRITES | SYNCS | NAMES,
            ];
            let failures = [Failure::Io, Failure::NoSpace, Failure::Retryable];
            let calls = calls[rng.usize(..calls.len())];
            let longest = if calls & WRITES == 0 { 12 } else { 80 };
            let failure = failures[rng.usize(..failures.len())];
            // A disk that says it is full has not taken all bytes of a write.
            let is_done = rng.u8(0..4) == 0 && (failure != Failure::NoSpace || calls & WRITES == 0);
            let plan = Plan {
                calls,
                nth: rng.u64(1..longest),
                times: match number("TRANSIENT") {
                    Some(1) => rng.u64(1..4),
                    _ => u64::MAX,
                },
                failure,
                after: is_done,
            };
            Trouble::Fail {
                plan,
                early: rng.u8(0..6) == 0,
                cut: rng.bool(),
            }
        }
    }
}

/// One thread's share of a campaign.
struct Lane {
    /// Of the store at hand: `SEED=… CYCLES=20` repeats it.
    seed: u64,
    rng: fastrand::Rng,
    faults: Faults,
    options: Options,
    broken: Broken,
    campaign: Campaign,
    /// The last cycles' troubles.
    troubles: Vec<Trouble>,
    errors: BTreeMap<String, u64>,
}

impl Lane {
    fn new(broken: Broken) -> Lane {
        let faults = Faults::new();
        let options = workload::options()
            .env(&faults.env())
            .wait_max(Duration::from_millis(100));
        Lane {
            seed: 0,
            rng: fastrand::Rng::new(),
            faults,
            options,
            broken,
            campaign: Campaign::default(),
            troubles: Vec::new(),
            errors: BTreeMap::new(),
        }
    }

    /// Works on one store for some cycles.
    fn run(&mut self, seed: u64) {
        self.seed = seed;
        self.rng = fastrand::Rng::with_seed(seed);
        let memory = Path::new("/dev/shm");
        let dir = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let dir = dir.expect("a temporary directory");
        let store = dir.path().join("store");
        let mut ledger = Ledger::new(self.rng.u64(..));
        // Seals of their own accord come at any moment, so the seed doesn't repeat them.
        let background = self.rng.bool();
        for _ in 0..CRASHES_A_STORE {
            self.cycle(&store, &mut ledger, background);
            self.campaign.crashes += 1;
            if !self.campaign.found.is_clean() {
                return;
            }
        }
        let open = self.look(&store, &mut ledger, false);
        open.store.compact().expect("an undamaged store compacts");
        let found = check(&mut ledger, &open).expect("an undamaged store reads");
        self.campaign.found.add(found);
        drop(open);
        self.campaign.add(&ledger);
    }

    /// Opens the store, which must work, and compares.
    fn look(&mut self, store: &Path, ledger: &mut Ledger, background: bool) -> Open {
        let at = format!("SEED={} CYCLES=20: cycle {}", self.seed, ledger.runs.len());
        let open = Open::new(store, self.options.clone().background(background));
        let last = &self.troubles[self.troubles.len().saturating_sub(2)..];
        let open =
            open.unwrap_or_else(|error| panic!("{at}, background {background}, {last:?}: {error}"));
        let found = check(ledger, &open).unwrap_or_else(|error| panic!("{at}: {error}"));
        self.campaign.found.add(found);
        open
    }

    fn cycle(&mut self, store: &Path, ledger: &mut Ledger, background: bool) {
        let trouble = trouble(&mut self.rng);
        self.troubles.push(trouble);
        if let Trouble::Fail {
            plan, early: true, ..
        } = trouble
        {
            self.faults.fail(plan);
            match Open::new(store, self.options.clone().background(background)) {
                Ok(open) => close(open).unwrap_or_else(|error| self.clear(&error)),
                Err(error) => self.clear(&error),
            }
            self.restore(store);
        }
        let open = Arc::new(self.look(store, ledger, background));
        if !self.campaign.found.is_clean() {
            return;
        }
        let worker = Worker {
            open: Arc::clone(&open),
            run: ledger.begin(End::Cut),
            seed: ledger.seed,
            broken: self.broken,
        };
        match trouble {
            Trouble::Cut(_) => {}
            Trouble::CutAt(nth, _) => self.faults.fail(Plan {
                calls: WRITES | SYNCS | NAMES | READS,
                nth,
                times: u64::MAX,
                failure: Failure::Io,
                after: false,
            }),
            Trouble::Fail { plan, .. } => self.faults.fail(plan),
        }
        let failed = self.work(&worker, ledger);
        match trouble {
            Trouble::Cut(keep) | Trouble::CutAt(_, keep) => self.faults.cut(keep),
            Trouble::Fail { cut: true, .. } => self.faults.cut(self.rng.u64(..)),
            Trouble::Fail { .. } => {}
        }
        drop(worker);
        let open = Arc::into_inner(open).expect("the worker is gone");
        match close(open) {
            Ok(()) if failed == 0 && self.broken == Broken::Not => {
                ledger.take(&["synced", &super::child::now_ns().to_string()]);
            }
            Ok(()) => {}
            Err(error) => self.clear(&error),
        }
        self.restore(store);
    }

    /// Gives the power back, as soon as nobody has the store open any more. A store that failed
    /// to open, or to close in time, may still be in use by its background work.
    #[expect(clippy::disallowed_methods, reason = "other threads need a moment")]
    fn restore(&self, store: &Path) {
        let lock = std::fs::File::open(store.join("LOCK")).expect("a store has a lock file");
        let mut tries = 0;
        while lock.try_lock().is_err() {
            tries += 1;
            assert!(tries < 3_000, "the store is never let go");
            std::thread::sleep(Duration::from_millis(10));
        }
        drop(lock);
        assert!(self.faults.restore(), "power comes back");
    }

    /// Steps, until they are done or some have failed; how many have.
    fn work(&mut self, worker: &Worker, ledger: &mut Ledger) -> u64 {
        let starts = match worker.starts() {
            Ok(starts) => starts,
            Err(error) => {
                self.clear(&error);
                return 1;
            }
        };
        for (thread, start) in starts.iter().enumerate() {
            ledger.take(&["start", &thread.to_string(), &start.to_string()]);
        }
        let (mut next, mut buffered, mut failed) = (starts, 0, 0);
        for _ in 0..self.rng.u64(1..40) {
            let step = match self.rng.u8(0..20) {
                0..=13 => self.send(worker, ledger, &mut next),
                14..=16 => {
                    let line = worker.buffer(buffered);
                    // A batch that was refused is not the next one's forerunner.
                    let is_refused = |e: &Error| e.recorded() == Recorded::No;
                    buffered += u64::from(!line.as_ref().is_err_and(is_refused));
                    line.map(|line| take(ledger, &line))
                }
                17 => worker.sync().map(|line| take(ledger, &line)),
                18 => worker.open.store.seal(),
                _ => worker.did().map(|line| take(ledger, &line)),
            };
            if let Err(error) = step {
                self.clear(&error);
                if error.recorded() == Recorded::Unknown {
                    let health = worker.open.store.health();
                    assert!(
                        matches!(health, Health::Degraded(_)),
                        "{error}, and it is {health:?}"
                    );
                }
                failed += 1;
                if failed == 3 {
                    break;
                }
            }
        }
        failed
    }

    fn send(
        &mut self,
        worker: &Worker,
        ledger: &mut Ledger,
        next: &mut [u64],
    ) -> Result<(), Error> {
        let thread = self.rng.usize(..SENDERS);
        let n = next[thread];
        let plan = workload::plan(worker.seed, thread, n);
        if plan.submitted && worker.broken == Broken::Not {
            let submitted = worker.submit(thread, n, |line| {
                take(ledger, &line);
                next[thread] += 1;
            });
            match &submitted {
                Ok(()) => assert_eq!(next[thread], n + SUBMITTED),
                Err(_) => ledger.doubt(thread),
            }
            return submitted;
        }
        match worker.send("sent", thread, n) {
            Ok(line) => {
                take(ledger, &line);
                next[thread] += 1;
                Ok(())
            }
            Err(error) => {
                match error.recorded() {
                    Recorded::No => ledger.deny(thread, n),
                    Recorded::Unknown => ledger.doubt(thread),
                }
                Err(error)
            }
        }
    }

    /// Counts an error; it must be of a kind that says what to do about a failing disk.
    fn clear(&mut self, error: &Error) {
        let clear = [
            ErrorKind::Busy,
            ErrorKind::Degraded,
            ErrorKind::Full,
            ErrorKind::Undecided,
        ];
        let kind = error.kind();
        assert!(clear.contains(&kind), "{kind:?}: {error}");
        let text = format!("{kind:?}, recorded: {:?}", error.recorded());
        *self.errors.entry(text).or_default() += 1;
    }
}

fn take(ledger: &mut Ledger, line: &str) {
    ledger.take(&line.split(' ').collect::<Vec<_>>());
}

/// Closes a store; nobody may use its directory any more.
fn close(open: Open) -> Result<(), Error> {
    let store = open.store.clone();
    drop(open);
    store.close()
}

/// What the lanes came to together, and how calls and answers failed.
fn campaign(seed: u64, cycles: u64, broken: Broken) -> (Campaign, u64, BTreeMap<String, u64>) {
    let lanes: Vec<_> = (0..LANES)
        .map(|at| {
            std::thread::spawn(move || {
                let mut lane = Lane::new(broken);
                let stores = cycles.div_ceil(CRASHES_A_STORE);
                for store in (at..stores).step_by(LANES as usize) {
                    if lane.campaign.found.is_clean() {
                        lane.run(seed.wrapping_add(store));
                    }
                }
                lane
            })
        })
        .collect();
    let (mut all, mut failed) = (Campaign::default(), 0);
    let mut errors: BTreeMap<String, u64> = BTreeMap::new();
    for lane in lanes {
        let lane = lane.join();
        let lane = lane.unwrap_or_else(|_| panic!("SEED={seed} CYCLES={cycles}"));
        all.crashes += lane.campaign.crashes;
        all.acknowledged += lane.campaign.acknowledged;
        all.taken += lane.campaign.taken;
        (0..3).for_each(|i| all.did[i] += lane.campaign.did[i]);
        all.found.add(lane.campaign.found);
        failed += lane.faults.failed();
        for (text, count) in lane.errors {
            *errors.entry(text).or_default() += count;
        }
    }
    (all, failed, errors)
}

#[test]
fn nothing_synced_is_lost_and_a_failing_disk_is_answered_clearly() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let cycles = number("CYCLES").unwrap_or(100);
    let started = now();
    let (campaign, failed, errors) = campaign(seed, cycles, Broken::Not);
    println!(
        "{} taken {} failed calls {failed} seed {seed}",
        campaign.line("cycles"),
        campaign.taken
    );
    println!(
        "{:.1} s, {:?} seals, merges, drops; errors {errors:?}",
        started.elapsed().as_secs_f32(),
        campaign.did
    );
    let found = &campaign.found;
    assert!(
        found.is_clean(),
        "SEED={seed} CYCLES={cycles}: {}",
        found.text()
    );
    assert!(
        cycles < 50 || campaign.taken > 0 && failed > 0 && !errors.is_empty(),
        "no power was cut, or no call failed"
    );
}

/// The null controls: a child that syncs nothing, and one that commits in two steps.
#[test]
fn without_syncs_losses_are_seen() {
    let (campaign, ..) = campaign(fastrand::u64(..), 200, Broken::Unsynced);
    assert!(campaign.found.lost > 0, "{campaign:?}");
}

#[test]
fn two_commits_are_seen_to_tear() {
    // What was found first may be another consequence.
    let found = || {
        campaign(fastrand::u64(..), 200, Broken::InTwoCommits)
            .0
            .found
    };
    assert!((0..10).any(|_| found().torn > 0));
}
