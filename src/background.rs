//! The threads that serve all stores of one process: one ticker and a few workers.
//!
//! The ticker asks each registered store, every few milliseconds, what it has to do; long work
//! (sealing, merging, dropping) goes to the workers, one job a store at a time. So two hundred
//! idle stores cost two threads.
//!
//! Failure: a job's errors are the store's to record. A job that panics poisons its store (the
//! store sees to that) and leaves the worker alive.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam::channel::{Receiver, Sender, unbounded};

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex};

/// What a store gives its background threads to do.
pub(crate) trait Background: Send + Sync {
    /// Short work on the ticker; true asks for a [`Background::work`] on a worker.
    fn tick(&self) -> bool;
    /// Long work, on one worker at a time.
    fn work(&self);
}

/// The threads. Dropping it stops and joins them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    stores: Mutex<Vec<Arc<Registration>>>,
    nudged: Condvar,
    stop: AtomicBool,
    tick_us: AtomicU64,
    /// `None` ends a worker.
    jobs: Sender<Option<Arc<Registration>>>,
}

/// A store's place in the pool.
struct Registration {
    store: Weak<dyn Background>,
    queued: AtomicBool,
}

/// How often the ticker looks, unless a store wants it more often.
const TICK_US: u64 = 10_000;
/// The shortest time between two looks.
const TICK_US_MIN: u64 = 500;

impl Pool {
    pub(crate) fn new(workers: usize) -> Pool {
        let (jobs, taken) = unbounded();
        let shared = Arc::new(Shared {
            stores: Mutex::default(),
            nudged: Condvar::new(),
            stop: AtomicBool::new(false),
            tick_us: AtomicU64::new(TICK_US),
            jobs,
        });
        let mut threads = Vec::with_capacity(workers + 1);
        let ticker = Arc::clone(&shared);
        threads.push(spawn("firstseen-tick", move || tick(&ticker)));
        for _ in 0..workers.max(1) {
            let (taken, shared) = (taken.clone(), Arc::clone(&shared));
            threads.push(spawn("firstseen-work", move || work(&taken, &shared)));
        }
        Pool { shared, threads }
    }

    /// Serves a store for as long as it lives.
    pub(crate) fn register(&self, store: Weak<dyn Background>) {
        let registration = Arc::new(Registration {
            store,
            queued: AtomicBool::new(false),
        });
        self.shared.stores.lock().push(registration);
    }

    /// Has the ticker look at least this often.
    pub(crate) fn quicken(&self, interval: Duration) {
        let us = u64::try_from(interval.as_micros()).unwrap_or(TICK_US);
        self.shared
            .tick_us
            .fetch_min(us.max(TICK_US_MIN), Ordering::AcqRel);
    }

    /// How many stores are registered and alive.
    pub(crate) fn stores(&self) -> usize {
        let stores = self.shared.stores.lock();
        stores.iter().filter(|r| r.store.strong_count() > 0).count()
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads.len()
    }
}

impl Shared {
    fn request(&self, registration: &Arc<Registration>) {
        if !registration.queued.swap(true, Ordering::AcqRel) {
            // The receiver lives as long as the workers; a send after them is moot.
            let _ = self.jobs.send(Some(Arc::clone(registration)));
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::Release);
        self.shared.nudged.notify_all();
        for _ in &self.threads {
            let _ = self.shared.jobs.send(None);
        }
        let me = thread::current().id();
        for handle in self.threads.drain(..) {
            // The last store may be dropped by a worker; it can't join itself.
            if handle.thread().id() != me {
                let _ = handle.join();
            }
        }
    }
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let thread = thread::Builder::new().name(name.to_string());
    thread.spawn(run).expect("the process can start a thread")
}

fn tick(shared: &Shared) {
    while !shared.stop.load(Ordering::Acquire) {
        let due: Vec<Arc<Registration>> = {
            let mut stores = shared.stores.lock();
            let tick = Duration::from_micros(shared.tick_us.load(Ordering::Acquire));
            shared.nudged.wait_for(&mut stores, tick);
            stores.retain(|r| r.store.strong_count() > 0);
            stores.clone()
        };
        for registration in due {
            if let Some(store) = registration.store.upgrade()
                && catch_unwind(AssertUnwindSafe(|| store.tick())).unwrap_or(false)
            {
                shared.request(&registration);
            }
        }
    }
}

fn work(taken: &Receiver<Option<Arc<Registration>>>, shared: &Shared) {
    while let Ok(Some(registration)) = taken.recv()
        && !shared.stop.load(Ordering::Acquire)
    {
        registration.queued.store(false, Ordering::Release);
        if let Some(store) = registration.store.upgrade() {
            // The store poisons itself when its work unwinds.
            let _ = catch_unwind(AssertUnwindSafe(|| store.work()));
        }
    }
}
