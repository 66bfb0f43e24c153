//! A small faithful copy of the write path around the real in-flight table: hold, load the view,
//! look up, read the time, decide, lead, log, insert, leave, sync, release; against rotation,
//! sealing, expiry and duplicates that wait for their original.
//!
//! Checked in every execution:
//! - of one id, each first begins when the one before it has expired ("double");
//! - a duplicate returns when its original is as durable as either call asks ("not durable");
//! - what was first and has not expired is still found at the end ("lost").

use std::collections::HashMap;
use std::sync::Arc;

use shuttle::thread;

use crate::holds::{HoldError, Holds, Owner};
use crate::sync::atomic::{AtomicU64, Ordering::SeqCst};
use crate::sync::{Mutex, far};

const RETENTION: u64 = 3;
const SLICE: u64 = 2;

/// A rule to leave out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Broken {
    /// None: everything holds.
    Nothing,
    /// The view is loaded before the hold.
    ViewBeforeHold,
    /// Effective time is read before the lookups.
    TimeBeforeLookup,
    /// The id enters the segment's set after the hold's release.
    InsertAfterRelease,
    /// The sealer does not wait for the leader inside the segment.
    SealPastTheGate,
    /// The segment leaves the view before its generations enter it.
    TwoSwaps,
    /// A synced original releases its hold before it is durable.
    ReleaseBeforeSync,
    /// A synced duplicate takes the written mark before the hold.
    MarkBeforeHold,
}

/// When a call returns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Written,
    Synced,
}

#[derive(Clone, Copy)]
struct Record {
    n: u64,
    expiry: u64,
    level: Level,
}

struct First {
    id: u64,
    n: u64,
    seen_at: u64,
    expiry: u64,
}

#[derive(Default)]
struct Segment {
    ids: shuttle::sync::Mutex<HashMap<u64, Record>>,
}

impl Segment {
    fn with<R>(&self, f: impl FnOnce(&mut HashMap<u64, Record>) -> R) -> R {
        f(&mut self.ids.lock().expect("no lookup panics"))
    }
}

struct Generation {
    end: u64,
    ids: HashMap<u64, Record>,
}

#[derive(Clone)]
struct View {
    /// New to old; the first is the current one.
    segments: Vec<Arc<Segment>>,
    /// Latest slice first; in a slice the later run first.
    generations: Vec<Arc<Generation>>,
}

impl View {
    fn find(&self, id: u64) -> Option<Record> {
        let unsealed = self
            .segments
            .iter()
            .find_map(|s| s.with(|ids| ids.get(&id).copied()));
        unsealed.or_else(|| {
            self.generations
                .iter()
                .find_map(|g| g.ids.get(&id).copied())
        })
    }
}

struct Store {
    holds: Holds,
    view: Mutex<Arc<View>>,
    swaps: Mutex<()>,
    /// Leadership; the number of the last commit.
    lead: Mutex<u64>,
    maintenance: Mutex<()>,
    written: AtomicU64,
    durable: AtomicU64,
    time: AtomicU64,
    /// The persisted high-water mark of time.
    accepted: AtomicU64,
    /// History, not part of the store, so without scheduling points.
    firsts: std::sync::Mutex<Vec<First>>,
    broken: Broken,
}

impl Store {
    fn new(broken: Broken) -> Arc<Store> {
        let view = View {
            segments: vec![Arc::default()],
            generations: Vec::new(),
        };
        Arc::new(Store {
            holds: Holds::new(),
            view: Mutex::new(Arc::new(view)),
            swaps: Mutex::new(()),
            lead: Mutex::new(0),
            maintenance: Mutex::new(()),
            written: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            time: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            firsts: std::sync::Mutex::default(),
            broken,
        })
    }

    fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.lock())
    }

    fn swap(&self, change: impl FnOnce(&mut View)) {
        let _one_at_a_time = self.swaps.lock();
        let mut view = View::clone(&self.view());
        change(&mut view);
        *self.view.lock() = Arc::new(view);
    }

    /// `is`: this rule is left out, so its step happens now, too early.
    fn too_early<T>(&self, is: Broken, step: impl FnOnce() -> T) -> Option<T> {
        (self.broken == is).then(step)
    }

    /// Whether the id was first.
    fn insert(&self, id: u64, level: Level) -> bool {
        let view = self.too_early(Broken::ViewBeforeHold, || self.view());
        let now = self.too_early(Broken::TimeBeforeLookup, || self.time.load(SeqCst));
        let mark = self.too_early(Broken::MarkBeforeHold, || self.written.load(SeqCst));
        let owner = self.hold(id);
        let view = view.unwrap_or_else(|| self.view());
        let hit = view.find(id);
        let now = now.unwrap_or_else(|| self.time.load(SeqCst));
        let mark = mark.unwrap_or_else(|| self.written.load(SeqCst));
        match hit {
            Some(original) if now < original.expiry => {
                self.holds.release(owner, &[id]);
                self.repeat(original, level, mark);
                false
            }
            _ => {
                self.commit(owner, id, now, level);
                true
            }
        }
    }

    /// Pass 1, and after a conflict pass 2.
    fn hold(&self, id: u64) -> Owner {
        let (owner, mut met) = (self.holds.owner(), Vec::new());
        let mut got = self.holds.try_hold(owner, &[id], &mut met);
        if let Err(HoldError::Foreign(_)) = got {
            got = self.holds.hold_sorted(owner, &[id], &mut met, far());
        }
        assert_eq!(got, Ok(()), "no poison, no deadline");
        owner
    }

    fn commit(&self, owner: Owner, id: u64, seen_at: u64, level: Level) {
        let expiry = seen_at + RETENTION;
        let mut last = self.lead.lock();
        let current = Arc::clone(&self.view().segments[0]);
        *last += 1;
        let n = *last;
        let insert = || current.with(|ids| ids.insert(id, Record { n, expiry, level }));
        if self.broken != Broken::InsertAfterRelease {
            insert();
        }
        self.written.store(n, SeqCst);
        drop(last);
        self.note(First {
            id,
            n,
            seen_at,
            expiry,
        });
        if self.broken == Broken::ReleaseBeforeSync {
            self.holds.release(owner, &[id]);
        }
        if level == Level::Synced {
            self.sync();
        }
        self.holds.release(owner, &[id]);
        if self.broken == Broken::InsertAfterRelease {
            insert();
        }
    }

    /// A duplicate: as durable as its original and this call ask.
    fn repeat(&self, original: Record, level: Level, mark: u64) {
        if level == Level::Synced && mark > self.durable.load(SeqCst) {
            self.sync();
        }
        if level == Level::Synced || original.level == Level::Synced {
            assert!(
                self.durable.load(SeqCst) >= original.n,
                "acknowledged but not durable"
            );
        }
    }

    fn sync(&self) {
        let mark = self.written.load(SeqCst);
        self.durable.fetch_max(mark, SeqCst);
    }

    fn seal(&self) {
        let _maintenance = self.maintenance.lock();
        let sealed = Arc::clone(&self.view().segments[0]);
        self.swap(|view| view.segments.insert(0, Arc::default()));
        if self.broken != Broken::SealPastTheGate {
            drop(self.lead.lock());
        }
        self.sync();
        let accepted = self.accepted.load(SeqCst);
        let mut runs: HashMap<u64, HashMap<u64, Record>> = HashMap::new();
        for (id, record) in sealed.with(|ids| ids.clone()) {
            let end = (record.expiry / SLICE + 1) * SLICE;
            if accepted < record.expiry {
                runs.entry(end).or_default().insert(id, record);
            }
        }
        let leave = |view: &mut View| view.segments.retain(|s| !Arc::ptr_eq(s, &sealed));
        if self.broken == Broken::TwoSwaps {
            self.swap(leave);
        }
        self.swap(|view| {
            for (end, ids) in runs {
                view.generations
                    .insert(0, Arc::new(Generation { end, ids }));
            }
            view.generations
                .sort_by_key(|generation| std::cmp::Reverse(generation.end));
            leave(view);
        });
    }

    /// Time goes on, and the slices that have passed are dropped.
    fn expire(&self, by: u64) {
        let now = self.time.fetch_add(by, SeqCst) + by;
        let _maintenance = self.maintenance.lock();
        self.accepted.fetch_max(now, SeqCst);
        self.swap(|view| view.generations.retain(|generation| generation.end > now));
    }

    fn note(&self, first: First) {
        self.firsts.lock().expect("noting never panics").push(first);
    }

    fn check(&self) {
        let mut firsts = std::mem::take(&mut *self.firsts.lock().expect("noting never panics"));
        firsts.sort_by_key(|first| (first.id, first.n));
        for pair in firsts.windows(2) {
            let apart = pair[0].id != pair[1].id || pair[1].seen_at >= pair[0].expiry;
            assert!(
                apart,
                "double: first seen again before the first one expired"
            );
        }
        let (view, now) = (self.view(), self.time.load(SeqCst));
        for first in firsts.iter().filter(|first| now < first.expiry) {
            let record = view.find(first.id);
            assert!(
                record.is_some_and(|r| r.n == first.n),
                "lost: a live id is not found"
            );
        }
        assert_eq!(self.holds.len(), 0, "a hold was left behind");
    }
}

/// Three callers with two ids each, a sealer and a clock.
pub fn one_first(broken: Broken) {
    let store = Store::new(broken);
    let mut threads = Vec::new();
    for order in [[1, 2], [2, 1], [1, 1]] {
        let store = Arc::clone(&store);
        threads.push(thread::spawn(move || {
            for id in order {
                store.insert(id, Level::Written);
            }
        }));
    }
    let sealer = Arc::clone(&store);
    threads.push(thread::spawn(move || (0..2).for_each(|_| sealer.seal())));
    let clock = Arc::clone(&store);
    threads.push(thread::spawn(move || {
        [2, 3].into_iter().for_each(|by| clock.expire(by))
    }));
    for thread in threads {
        thread.join().expect("a caller panicked");
    }
    store.check();
}

/// Callers of both levels with one id: exactly one is first, and nobody is acknowledged before
/// the original is as durable as asked.
pub fn duplicates_wait(broken: Broken) {
    let store = Store::new(broken);
    let threads: Vec<_> = [Level::Written, Level::Synced, Level::Written, Level::Synced]
        .into_iter()
        .map(|level| {
            let store = Arc::clone(&store);
            thread::spawn(move || store.insert(1, level))
        })
        .collect();
    let firsts = threads
        .into_iter()
        .map(|t| t.join().expect("a caller panicked"));
    assert_eq!(firsts.filter(|&first| first).count(), 1, "double");
    store.check();
}
