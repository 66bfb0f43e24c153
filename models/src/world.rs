//! A store in the scheduler's hands, and what must be true of its history.
//!
//! The history is the log of the stand-in for RocksDB: every commit that was ever written, in
//! order. From it follows, whatever callers were told:
//! - numbers are those of the log's order (I3, "number");
//! - of one id, each first begins when the one before it has expired ("double");
//! - what was first and has not expired is still found at the end ("lost").

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shuttle::thread;

use crate::clock::{Clock, ManualClock};
use crate::engine::Home;
use crate::engine::memory::Memory;
use crate::index::log::Sections;
use crate::index::{FOR_EVER_MS, State};
use crate::options::Options;
use crate::policy::Policy;
use crate::resources::Resources;
use crate::rules;
use crate::scope::Scope;
use crate::store::Store;

pub(crate) const RETENTION_MS: u64 = 1000;
/// Longer than any execution: a wait for it never ends by itself.
const FOR_EVER: Duration = Duration::from_secs(3 * 86_400);

/// A rule that an execution leaves out.
pub type Rule = Option<&'static str>;

/// A record of the history.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) id: Vec<u8>,
    expiry_ms: u64,
    is_forgotten: bool,
    pub(crate) is_synced: bool,
}

/// A store with one scope.
pub(crate) struct World {
    pub(crate) store: Store,
    pub(crate) ids: Scope,
    pub(crate) clock: ManualClock,
}

impl World {
    pub(crate) fn new(rule: Rule, options: impl FnOnce(Options) -> Options) -> Arc<World> {
        rules::leave_out(None);
        let world = World::open(Home::memory().expect("memory"), options);
        rules::leave_out(rule);
        Arc::new(world)
    }

    fn open(home: Home, options: impl FnOnce(Options) -> Options) -> World {
        let clock = ManualClock::new();
        let resources = Resources::new().segment_bytes(4096);
        let usual = Options::new()
            .clock(Clock::Manual(clock.clone()))
            .wait_max(FOR_EVER)
            .resources(&resources)
            .segment_ids_max(16)
            .slices_per_class(2)
            .background(false);
        let store = Store::open_home(home, options(usual)).expect("a store in memory opens");
        let policy = Policy::remember(Duration::from_millis(RETENTION_MS));
        let ids = store.scope("ids", policy).expect("a scope");
        World { store, ids, clock }
    }

    /// Opens what a power failure left, as it is then.
    pub(crate) fn after(left: Memory, options: impl FnOnce(Options) -> Options) -> World {
        let mut home = Home::memory().expect("memory");
        home.memory = Some(Arc::new(left));
        World::open(home, options)
    }

    pub(crate) fn memory(&self) -> Arc<Memory> {
        let core = self.store.shared.core().expect("the store is open");
        let home = core.committer.index.engine.home();
        Arc::clone(home.memory.as_ref().expect("a home in memory"))
    }

    pub(crate) fn insert(&self, id: &str) -> bool {
        self.ids
            .insert(id)
            .expect("an insert that nothing fails")
            .is_first()
    }

    pub(crate) fn finds(&self, id: &str) -> bool {
        self.ids
            .peek(id)
            .expect("a look that nothing fails")
            .is_some()
    }

    pub(crate) fn advance(&self, ms: u64) {
        self.clock.advance(Duration::from_millis(ms));
    }

    /// Every record of an id that was ever written, in the order of writing.
    pub(crate) fn history(&self) -> Vec<Seen> {
        let mut history = Vec::new();
        let mut last = None;
        for (n, value, is_synced) in self.memory().disk.commits() {
            let follows = last.is_none_or(|last| n == last + 1);
            assert!(follows, "number: {n} was written after {last:?}");
            last = Some(n);
            for section in Sections::new(&value) {
                let section = section.expect("a record reads back");
                history.extend(section.ids().map(|(id, _)| Seen {
                    id: id.to_vec(),
                    expiry_ms: section.meta.expiry_ms,
                    is_forgotten: section.meta.state == State::Forgotten,
                    is_synced,
                }));
            }
        }
        history
    }

    /// The promises, at the end.
    pub(crate) fn check(&self) {
        rules::leave_out(None);
        let mut last = BTreeMap::new();
        for seen in self.history() {
            let before: Option<Seen> = last.insert(seen.id.clone(), seen.clone());
            let Some(before) = before.filter(|b| !b.is_forgotten && !seen.is_forgotten) else {
                continue;
            };
            let seen_at = seen.expiry_ms.saturating_sub(RETENTION_MS);
            assert!(
                seen_at >= before.expiry_ms,
                "double: first again before the first one expired"
            );
        }
        let now_ms = since_epoch(self.clock.now());
        for (id, seen) in last {
            if seen.is_forgotten || seen.expiry_ms <= now_ms && seen.expiry_ms != FOR_EVER_MS {
                continue;
            }
            let id = String::from_utf8_lossy(&id).into_owned();
            assert!(self.finds(&id), "lost: {id} is alive and not found");
        }
        let in_flight = self
            .store
            .shared
            .core()
            .map(|core| core.committer.in_flight());
        assert_eq!(in_flight.ok(), Some(0), "a hold was left behind");
    }
}

pub(crate) fn since_epoch(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Threads of one execution.
pub(crate) struct Threads<'a> {
    world: &'a Arc<World>,
    running: Vec<thread::JoinHandle<()>>,
}

impl<'a> Threads<'a> {
    pub(crate) fn of(world: &'a Arc<World>) -> Threads<'a> {
        let running = Vec::new();
        Threads { world, running }
    }

    pub(crate) fn start(mut self, run: impl FnOnce(&World) + Send + 'static) -> Self {
        let world = Arc::clone(self.world);
        self.running.push(thread::spawn(move || run(&world)));
        self
    }

    /// Waits for all.
    pub(crate) fn end(self) {
        for thread in self.running {
            thread.join().expect("a thread panicked");
        }
    }
}

/// What threads note for the end. No point for the scheduler.
pub(crate) struct Notes<T>(Mutex<Vec<T>>);

impl<T> Notes<T> {
    pub(crate) fn new() -> Arc<Notes<T>> {
        Arc::new(Notes(Mutex::default()))
    }

    pub(crate) fn add(&self, note: T) {
        self.0.lock().expect("noting never panics").push(note);
    }

    pub(crate) fn take(&self) -> Vec<T> {
        std::mem::take(&mut *self.0.lock().expect("noting never panics"))
    }
}
