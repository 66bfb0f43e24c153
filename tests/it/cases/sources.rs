//! Where duplicates come from, and the hook that hears of a surge.

use std::sync::mpsc;
use std::time::Duration;

use firstseen::{
    Clock, Id, ManualClock, Options, Policy, Scope, Store, Surge, SurgeChange, SurgeSubject,
};

use super::{memory, quiet, secs, week};

fn repeat(ids: &Scope, source: &str, times: usize) {
    for _ in 0..=times {
        let _ = ids.insert(Id::new(source).source(source)).unwrap();
    }
}

#[test]
fn the_top_sources_of_duplicates_are_counted_where_scopes_keep_none() {
    let clock = ManualClock::new();
    let options = quiet().clock(Clock::Manual(clock.clone()));
    let options = options.top_sources(100).top_window(secs(60));
    let store = Store::in_memory(options).unwrap();
    let (ids, other) = (
        week(&store),
        store.scope("other", Policy::forever()).unwrap(),
    );
    repeat(&ids, "shop-1", 5);
    repeat(&ids, "shop-2", 9);
    repeat(&other, "shop-1", 2);
    // In one batch, of two scopes, one without a source.
    let mut batch = store.batch();
    batch.once(&ids, Id::new("shop-1").source("shop-1"));
    batch.once(&other, "shop-1");
    batch.once(&ids, Id::new("fresh").source("shop-3"));
    let _ = batch.commit().unwrap();
    let top = store.top().unwrap().unwrap();
    let listed = |entries: &[firstseen::TopEntry]| {
        let each = entries.iter().map(|e| (e.name.clone(), e.count, e.error));
        each.collect::<Vec<_>>()
    };
    let expected = [("shop-2".to_string(), 9, 0), ("shop-1".to_string(), 8, 0)];
    assert_eq!(listed(&top.sources), expected);
    let expected = [("ids".to_string(), 15, 0), ("other".to_string(), 3, 0)];
    assert_eq!(listed(&top.scopes), expected);
    assert_eq!((top.duplicates, top.with_source), (18, 17));
    let pairs = top.sources_by_scope.iter();
    let pairs: Vec<_> = pairs.map(|p| (&*p.scope, &*p.source, p.count)).collect();
    let expected = [
        ("ids", "shop-2", 9),
        ("ids", "shop-1", 6),
        ("other", "shop-1", 2),
    ];
    assert_eq!(pairs, expected);
    assert_eq!(top.at, clock.now());
    let sample = "firstseen_top_source_duplicates{source=\"shop-2\"} 9\n";
    assert!(store.prometheus().unwrap().contains(sample));
    // The scope keeps no sources all the same.
    assert_eq!(ids.peek("shop-1").unwrap().unwrap().source(), None);
    clock.advance(secs(61));
    let top = store.top().unwrap().unwrap();
    assert_eq!((top.duplicates, top.sources.len()), (0, 0));
    assert_eq!(memory().top().unwrap(), None);
}

/// A source counted but not kept changes no record: after a reopening and a seal all are there.
#[test]
fn ids_with_sources_that_are_not_kept_are_recorded_as_ever() {
    let store = Store::in_memory(quiet().top_sources(2)).unwrap();
    let ids = week(&store);
    for i in 0..100_u32 {
        let (id, source) = (i.to_be_bytes(), "s".repeat(i as usize));
        assert!(ids.insert(Id::new(&id).source(&source)).unwrap().is_first());
    }
    drop(ids);
    let store = store.crash_and_reopen().unwrap();
    store.seal().unwrap();
    let ids = week(&store);
    for i in 0..100_u32 {
        assert!(ids.insert(&i.to_be_bytes()).unwrap().is_duplicate());
    }
}

struct Watched {
    store: Store,
    ids: Scope,
    clock: ManualClock,
    news: mpsc::Receiver<Surge>,
    next: u64,
}

impl Watched {
    fn new(options: Options) -> Watched {
        let clock = ManualClock::new();
        let (sent, news) = mpsc::channel();
        let options = options
            .clock(Clock::Manual(clock.clone()))
            .on_surge(move |surge| {
                sent.send(surge.clone()).unwrap();
            });
        let store = Store::in_memory(options).unwrap();
        let ids = week(&store);
        Watched {
            store,
            ids,
            clock,
            news,
            next: 0,
        }
    }

    /// One interval with so many new ids and duplicates, and a look at its end.
    fn interval(&mut self, first: u64, duplicates: u64) {
        for i in 0..first + duplicates {
            self.next += u64::from(i < first);
            let id = self.next.to_be_bytes();
            let _ = self.ids.insert(Id::new(&id).source("shop")).unwrap();
        }
        self.clock.advance(secs(10));
        self.store.seal().unwrap();
    }

    fn news(&self) -> Surge {
        let wait = Duration::from_secs(60);
        self.news.recv_timeout(wait).expect("the hook is told")
    }
}

#[test]
fn a_surge_is_told_once_and_so_is_its_end() {
    let mut watched = Watched::new(quiet());
    for i in 0..12 {
        watched.interval(90, 10 + i % 2);
    }
    watched.interval(10, 90);
    assert_eq!(
        watched.store.stats().unwrap().surges.begun,
        0,
        "one interval is no surge"
    );
    for _ in 0..5 {
        watched.interval(10, 90);
    }
    let surge = watched.news();
    assert_eq!(surge.subject, SurgeSubject::Scope("ids".to_string()));
    assert_eq!((surge.change, surge.rate), (SurgeChange::Above, 0.9));
    assert!(surge.usual < 0.2 && surge.band.1 < surge.rate, "{surge}");
    assert_eq!(surge.interval, secs(10));
    let stats = watched.store.stats().unwrap().surges;
    assert_eq!((stats.begun, stats.now), (1, 1));
    // Too few ids to tell anything of.
    watched.interval(19, 0);
    watched.interval(19, 0);
    assert_eq!(watched.store.stats().unwrap().surges.now, 1);
    for _ in 0..3 {
        watched.interval(90, 10);
    }
    assert_eq!(watched.news().change, SurgeChange::Back);
    let stats = watched.store.stats().unwrap().surges;
    assert_eq!((stats.begun, stats.now), (1, 0));
    assert!(watched.news.try_recv().is_err());
}

#[test]
fn a_source_that_suddenly_repeats_is_named() {
    let mut watched = Watched::new(quiet().top_sources(10));
    for _ in 0..12 {
        watched.interval(200, 5);
    }
    // Spread over enough new ids that the scope's share stays usual.
    for _ in 0..2 {
        watched.interval(3000, 75);
    }
    let surge = watched.news();
    assert_eq!(surge.subject, SurgeSubject::Source("shop".to_string()));
    assert_eq!((surge.change, surge.rate), (SurgeChange::Above, 7.5));
    assert!(watched.news.try_recv().is_err());
}

#[test]
fn a_source_that_appears_with_many_duplicates_is_named() {
    let mut watched = Watched::new(quiet().top_sources(10));
    for _ in 0..12 {
        watched.interval(200, 5);
    }
    let other = watched.store.scope("other", Policy::forever()).unwrap();
    for _ in 0..2 {
        repeat(&other, "newcomer", 100);
        watched.interval(200, 5);
    }
    let surge = watched.news();
    assert_eq!(surge.subject, SurgeSubject::Source("newcomer".to_string()));
}

/// A hook that panics or blocks holds up neither the store nor later news.
#[test]
fn a_hook_that_panics_is_told_the_next_news() {
    let (sent, news) = mpsc::channel();
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .on_surge(move |surge| {
            sent.send(surge.change).unwrap();
            assert!(surge.change != SurgeChange::Above, "the first news");
        });
    let store = Store::in_memory(options).unwrap();
    let ids = week(&store);
    let mut watched = Watched {
        store,
        ids,
        clock,
        news: mpsc::channel().1,
        next: 0,
    };
    for (intervals, first, duplicates) in [(12, 90, 10), (3, 10, 90), (3, 90, 10)] {
        (0..intervals).for_each(|_| watched.interval(first, duplicates));
    }
    let told = [(); 2].map(|()| news.recv_timeout(Duration::from_secs(60)).unwrap());
    assert_eq!(told, [SurgeChange::Above, SurgeChange::Back]);
}

/// Without anybody asking for it, the ticker looks.
#[test]
fn the_ticker_looks_by_itself() {
    let interval = Duration::from_millis(10);
    let mut watched = Watched::new(Options::new().surge_interval(interval));
    for round in 0..3000 {
        // New ids and duplicates mixed, as a look may come at any moment.
        let new = if round < 500 { 9 } else { 1 };
        for i in 0..100_u64 {
            watched.next += u64::from(i % 10 < new);
            let _ = watched.ids.insert(&watched.next.to_be_bytes()).unwrap();
        }
        watched.clock.advance(interval);
        let wait = Duration::from_millis(if round < 500 { 2 } else { 5 });
        if let Ok(surge) = watched.news.recv_timeout(wait)
            && surge.change == SurgeChange::Above
        {
            assert!(round >= 500, "{surge}");
            return;
        }
    }
    panic!("nobody looked");
}

/// Who only looks sees what the process that counts wrote last, and when.
#[test]
fn a_look_has_the_top_sources_as_they_were_written_last() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    let clock = ManualClock::new();
    let counting = || quiet().top_sources(100).clock(Clock::Manual(clock.clone()));
    let look = || {
        let look = Store::open_read_only(&dir, Options::new()).unwrap();
        let (top, stats) = (look.top().unwrap(), look.stats().unwrap());
        assert_eq!(top, stats.top);
        top
    };
    let store = Store::open(&dir, counting()).unwrap();
    let ids = week(&store);
    repeat(&ids, "shop-1", 3);
    assert_eq!(look(), None, "nothing was written yet");
    let at = clock.now();
    // As background work does every ten seconds.
    store.seal().unwrap();
    let written = store.stats().unwrap().written;
    let top = look().unwrap();
    assert_eq!(Some(&top), store.top().unwrap().as_ref());
    assert_eq!((top.at, top.sources[0].count), (at, 3));
    // It isn't written again unless it changed.
    clock.advance(secs(1));
    store.seal().unwrap();
    assert_eq!(store.stats().unwrap().written, written);
    repeat(&ids, "shop-1", 1);
    drop(ids);
    store.close().unwrap();
    let top = look().unwrap();
    assert_eq!((top.at, top.sources[0].count), (at + secs(1), 5));
    // A store that doesn't count leaves it as it is; it says of when it is.
    let store = Store::open(&dir, quiet()).unwrap();
    assert_eq!(store.top().unwrap(), None);
    store.close().unwrap();
    assert_eq!(look(), Some(top));
}
