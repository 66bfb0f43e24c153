//! One run: a store, phases of concurrent calls, and what happens between them.

use std::time::{Duration, UNIX_EPOCH};

use firstseen::{Clock, Durability, ManualClock, NextCommit, Options, Policy, Resources, Store};

use super::super::history::{History, Kinds, Log, Recorder, Target};

const LEVELS: [Durability; 3] = [
    Durability::Buffered,
    Durability::Written,
    Durability::Synced,
];

/// What went on in the stores of all runs.
#[derive(Debug, Default)]
pub(super) struct Did {
    pub(super) crashes: u64,
    pub(super) reopens: u64,
    pub(super) seals: u64,
    pub(super) merges: u64,
}

/// How a run is made, from its seed.
#[derive(Clone, Debug)]
struct Plan {
    threads: u64,
    ids: u64,
    /// Calls of a thread in a phase.
    calls: u64,
    level: Durability,
    /// None: for ever.
    retention_ms: Option<u64>,
    kinds: Kinds,
    on_disk: bool,
    phases: u32,
    segment_ids: usize,
}

fn plan(random: &mut fastrand::Rng) -> Plan {
    let retention_ms = *random.choice([None, Some(40), Some(400)].iter()).unwrap();
    Plan {
        threads: random.u64(2..=8),
        ids: random.u64(1..=6),
        calls: random.u64(20..100),
        level: *random.choice(&LEVELS).unwrap(),
        retention_ms,
        kinds: Kinds::All,
        on_disk: random.u8(..4) == 0,
        phases: random.u32(1..=3),
        segment_ids: *random.choice(&[8, 16, 64]).unwrap(),
    }
}

/// A store with the handles that threads use.
fn target(store: Store, plan: &Plan) -> Target {
    let policy = match plan.retention_ms {
        Some(ms) => Policy::remember(Duration::from_millis(ms)),
        None => Policy::forever(),
    };
    Target {
        ids: store.scope("ids", policy).unwrap(),
        counters: store.guarded_table("counters").unwrap(),
        store,
        level: plan.level,
        first: 0,
        count: plan.ids,
        kinds: plan.kinds,
    }
}

/// What the calls of one run share.
struct Run<T> {
    plan: Plan,
    seed: u64,
    recorder: Recorder<T>,
    clock: ManualClock,
}

/// A run with everything in it.
pub(super) fn run(seed: u64, did: &mut Did) -> History {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = plan(&mut random);
    runs(seed, plan, &mut random, did)
}

/// A run whose every answer is forced: nothing expires, is forgotten, fails or crashes.
pub(super) fn quiet(seed: u64) -> History {
    let mut random = fastrand::Rng::with_seed(seed);
    let plan = Plan {
        level: Durability::Written,
        retention_ms: None,
        kinds: Kinds::Plain,
        on_disk: false,
        phases: 1,
        ..plan(&mut random)
    };
    runs(seed, plan, &mut random, &mut Did::default())
}

fn runs(seed: u64, plan: Plan, random: &mut fastrand::Rng, did: &mut Did) -> History {
    let clock = ManualClock::new();
    let options = options(&plan, &clock);
    let dir = plan.on_disk.then(|| tempfile::tempdir().unwrap());
    let mut store = match &dir {
        Some(dir) => Store::open(dir.path(), options.clone()).unwrap(),
        None => Store::in_memory(options.clone()).unwrap(),
    };
    let shown = clock.clone();
    let time = move || {
        let now = shown.now().duration_since(UNIX_EPOCH).unwrap();
        u64::try_from(now.as_millis()).unwrap()
    };
    let recorder = Recorder::new(time, 0);
    let mut history = History::new(plan.retention_ms);
    let run = Run {
        plan,
        seed,
        recorder,
        clock,
    };
    for number in 0..run.plan.phases {
        let open = target(store, &run.plan);
        let fails = run.plan.kinds == Kinds::All && random.u8(..4) == 0;
        run.phase(&open, number, fails, &mut history);
        let work = open.store.stats().unwrap().background;
        did.seals += work.seals;
        did.merges += work.merges;
        let is_last = number + 1 == run.plan.phases;
        if is_last && !fails {
            break;
        }
        let reopened = open.store.clone();
        drop(open);
        run.recorder.crash(&mut history);
        store = match &dir {
            Some(dir) if !fails && random.bool() => {
                did.reopens += 1;
                reopened.close().unwrap();
                Store::open(dir.path(), options.clone()).unwrap()
            }
            _ => {
                did.crashes += 1;
                reopened.crash_and_reopen().unwrap()
            }
        };
        if is_last {
            // What became of the failed write is told by one more phase.
            run.phase(&target(store, &run.plan), number + 1, false, &mut history);
            break;
        }
    }
    history
}

fn options(plan: &Plan, clock: &ManualClock) -> Options {
    Options::new()
        .clock(Clock::Manual(clock.clone()))
        .durability(plan.level)
        .wait_max(Duration::from_secs(20))
        .segment_ids_max(plan.segment_ids)
        .segment_age_max(Duration::from_millis(20))
        .slices_per_class(2)
        .resources(&Resources::new().segment_bytes(8 << 20).threads(2))
}

impl<T: Fn() -> u64 + Send + Sync> Run<T> {
    /// All threads at once, and a look at the counters when they have ended.
    fn phase(&self, open: &Target, number: u32, fails: bool, history: &mut History) {
        let threads = std::thread::scope(|s| {
            let threads: Vec<_> = (0..self.plan.threads)
                .map(|thread| s.spawn(move || self.thread(open, number, thread, fails)))
                .collect();
            let ended = threads.into_iter().map(|thread| {
                let ended = thread.join();
                ended.unwrap_or_else(|_| panic!("SEED={} HISTORIES=1: {:?}", self.seed, self.plan))
            });
            ended.collect::<Vec<_>>()
        });
        threads.into_iter().for_each(|part| history.add(part));
        let mut log = Log::new(&self.recorder, self.plan.threads);
        if !fails {
            for id in 0..self.plan.ids {
                open.read(&mut log, id).unwrap();
            }
        }
        history.add(log.into_part());
    }

    fn thread(&self, open: &Target, number: u32, thread: u64, fails: bool) -> History {
        let mut random =
            fastrand::Rng::with_seed(self.seed ^ (u64::from(number) << 56) ^ (thread << 48));
        let mut log = Log::new(&self.recorder, thread);
        for n in 0..self.plan.calls {
            // In the middle of a phase that fails, one thread has the next write fail.
            if fails && thread == 0 && n == self.plan.calls / 2 {
                let how = [NextCommit::UnknownLost, NextCommit::UnknownWritten];
                open.store
                    .fail_next_commit(*random.choice(&how).unwrap())
                    .unwrap();
            }
            if !open.call(&mut log, &mut random) {
                assert!(fails, "SEED={}: the store stopped writing", self.seed);
                break;
            }
            self.move_clock(&mut random);
        }
        log.into_part()
    }

    /// Time passes now and then; mostly a little, so that calls meet an expiry.
    fn move_clock(&self, random: &mut fastrand::Rng) {
        if let (Some(ms), 0) = (self.plan.retention_ms, random.u8(..8)) {
            let by = match random.u8(..8) {
                0 => random.u64(..2 * ms),
                _ => random.u64(..=ms / 8),
            };
            self.clock.advance(Duration::from_millis(by));
        }
    }
}
