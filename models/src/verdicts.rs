//! What callers are told while segments rotate, are sealed, merged and dropped.

use std::sync::Arc;
use std::time::Duration;

use crate::approx::Approximate;
use crate::options::Durability;
use crate::resources::Resources;
use crate::rules;
use crate::world::{Notes, RETENTION_MS, Rule, Threads, World, since_epoch};

/// Three callers with two ids, a sealer and a clock: of one id one is first at a time.
pub fn one_first(rule: Rule) {
    let world = World::new(rule, |options| options);
    let mut threads = Threads::of(&world);
    for order in [["a", "b"], ["b", "a"], ["a", "a"]] {
        threads = threads.start(move |world| {
            for id in order {
                world.insert(id);
            }
        });
    }
    threads
        .start(|world| (0..2).for_each(|_| world.store.seal().expect("sealing")))
        .start(|world| {
            for part in [2, 3] {
                world.advance(RETENTION_MS * part / 4);
                world.store.compact().expect("dropping");
            }
        })
        .end();
    world.check();
}

/// Three callers with two ids of an approximate scope, and a clock that turns slices:
/// of one id one is first within the window, and again one after it.
pub fn one_sight(rule: Rule) {
    let world = World::new(rule, |options| options);
    let window = Approximate::window(Duration::from_millis(1000)).slices(2);
    let made_for = window.expected(8).error_rate(1e-6).distinct_precision(4);
    let clicks = world.store.approximate("clicks", made_for);
    let clicks = clicks.expect("there is memory");
    for _ in 0..2 {
        let firsts = Notes::new();
        let mut threads = Threads::of(&world);
        for order in [["a", "b"], ["b", "a"], ["a", "a"]] {
            let (clicks, firsts) = (clicks.clone(), Arc::clone(&firsts));
            threads = threads.start(move |_| {
                for id in order {
                    if clicks.insert(id).expect("it is open").is_first() {
                        firsts.add(id);
                    }
                }
            });
        }
        threads
            .start(|world| (0..3).for_each(|_| world.advance(300)))
            .end();
        let mut firsts = firsts.take();
        firsts.sort_unstable();
        assert_eq!(firsts, ["a", "b"], "double");
        world.advance(1500);
        clicks.stats().expect("it is open");
    }
}

/// Four callers of one id, of both levels: one is first, and nobody is answered before the
/// original is as durable as one of the two asked.
pub fn duplicates_wait(rule: Rule) {
    let world = World::new(rule, |options| options);
    let told = Notes::new();
    let mut threads = Threads::of(&world);
    for level in [Durability::Written, Durability::Synced].repeat(2) {
        let told = Arc::clone(&told);
        threads = threads.start(move |world| {
            let mut batch = world.store.batch();
            batch.durability(level).once(&world.ids, "a");
            let verdicts = batch.commit().expect("nothing fails");
            let is_first = verdicts.iter().all(|verdict| verdict.is_first());
            told.add((level, is_first, world.history()[0].is_synced));
        });
    }
    threads.end();
    let told = told.take();
    let firsts: Vec<_> = told.iter().filter(|t| t.1).collect();
    assert_eq!(firsts.len(), 1, "double");
    for (level, _, is_durable) in &told {
        let is_asked = [*level, firsts[0].0].contains(&Durability::Synced);
        assert!(*is_durable || !is_asked, "answered but not durable");
    }
    world.check();
}

/// Readers beside rotation, sealing, merging and filters that give way to each other: an id that
/// was there before the look is found by it (I2, V1).
pub fn never_missed(rule: Rule) {
    let world = World::new(rule, |options| options);
    world.insert("a");
    world.store.seal().expect("sealing");
    world.insert("b");
    let threads = Threads::of(&world).start(|world| world.store.seal().expect("sealing"));
    let threads = threads.start(|world| world.store.compact().expect("merging"));
    let threads = threads.start(|world| {
        world.insert("c");
        assert!(world.finds("c"), "missed: what this thread had inserted");
    });
    let reader = |world: &World| {
        for id in ["a", "b", "a", "b"] {
            assert!(world.finds(id), "missed: {id} was there all the time");
        }
    };
    threads.start(reader).start(reader).end();
    world.check();
}

/// A store that was reopened, whose filters are loaded while callers ask: an id is never taken
/// for new because a filter isn't there yet, and filters give way to each other in a budget that
/// holds one of them.
pub fn filters_come_late(rule: Rule) {
    let world = World::new(None, |options| options);
    for id in ["a", "b"] {
        world.insert(id);
        world.store.seal().expect("sealing");
    }
    let left = world.memory().after_power_failure();
    drop(world);
    let world = World::after(left, |options| {
        let one_filter = Resources::new().segment_bytes(4096).filter_bytes(64);
        options.resources(&one_filter)
    });
    rules::leave_out(rule);
    let world = Arc::new(world);
    let look = |world: &World| {
        for id in ["a", "b"] {
            assert!(world.finds(id), "missed: {id} was sealed");
        }
        assert!(!world.insert("b"), "double: b was sealed");
    };
    let background = |world: &World| {
        let core = world.store.shared.core().expect("the store is open");
        core.committer.index.maintain().expect("filters load");
    };
    Threads::of(&world)
        .start(background)
        .start(look)
        .start(look)
        .end();
    world.check();
}

/// Readers of effective time beside a clock that moves: it never goes back, and never ahead of
/// the wall clock.
pub fn effective_time(rule: Rule) {
    let world = World::new(rule, |options| options);
    let look = |world: &World| {
        let core = world.store.shared.core().expect("the store is open");
        let looks = [(); 3].map(|()| core.committer.index.time.now_ms());
        assert!(looks.is_sorted(), "time went back: {looks:?}");
    };
    let clock = |world: &World| (0..2).for_each(|_| world.advance(10));
    Threads::of(&world)
        .start(look)
        .start(look)
        .start(clock)
        .end();
    let core = world.store.shared.core().expect("the store is open");
    let (now, wall) = (
        core.committer.index.time.now_ms(),
        since_epoch(world.clock.now()),
    );
    assert_eq!(now, wall, "effective time is ahead");
}
