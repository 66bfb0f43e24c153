//! The commit queue, buffered commits, failures and power failures.

use std::sync::Arc;

use shuttle::rand::Rng;

use crate::engine::{Injected, Injection, Place};
use crate::error::{ErrorKind, Recorded};
use crate::options::Durability;
use crate::resources::Resources;
use crate::rules;
use crate::store::NextCommit;
use crate::world::{Notes, Rule, Threads, World};

/// Callers of different ids: whoever leads takes along who waits, and each is answered when its
/// own commit is there.
pub fn grouped(rule: Rule) {
    let world = World::new(rule, |options| options);
    let mut threads = Threads::of(&world);
    for ids in [["a", "b"], ["c", "d"], ["e", "f"], ["g", "h"]] {
        threads = threads.start(move |world| {
            for id in ids {
                assert!(world.insert(id), "nobody else inserts it");
                assert!(world.finds(id), "missed: {id} was just committed");
            }
        });
    }
    threads.end();
    assert_eq!(world.history().len(), 8, "lost: each commit was answered");
    assert!(
        world.memory().disk.groups() <= 8,
        "more writes than commits"
    );
    world.check();
}

/// The write mark rises when the ids can be found: who sees the mark sees them.
pub fn marked(rule: Rule) {
    let world = World::new(rule, |options| options);
    let before = world
        .store
        .shared
        .core()
        .map(|core| core.committer.index.written());
    let before = before.expect("the store is open");
    Threads::of(&world)
        .start(|world| {
            world.insert("a");
        })
        .start(move |world| {
            let core = world.store.shared.core().expect("the store is open");
            if core.committer.index.written() > before {
                assert!(world.finds("a"), "missed: what is written is found");
            }
        })
        .end();
    world.check();
}

/// Synced commits that share syncs: each is durable when it returns.
pub fn synced(rule: Rule) {
    let world = World::new(rule, |options| options.durability(Durability::Synced));
    let mut threads = Threads::of(&world);
    for id in ["a", "b", "c"] {
        threads = threads.start(move |world| {
            assert!(world.insert(id), "nobody else inserts it");
            let history = world.history();
            let own = history.iter().find(|seen| seen.id == id.as_bytes());
            assert!(own.is_some_and(|own| own.is_synced), "not durable");
        });
    }
    threads.end();
    world.check();
}

/// A write whose outcome nobody knows: all callers end, and nobody is told "first" or
/// "duplicate" of what it may have been.
pub fn poisoned(rule: Rule) {
    let world = World::new(rule, |options| options);
    let failure = match shuttle::rand::thread_rng().gen_bool(0.5) {
        true => NextCommit::UnknownLost,
        false => NextCommit::UnknownWritten,
    };
    world
        .store
        .fail_next_commit(failure)
        .expect("the store is open");
    let mut threads = Threads::of(&world);
    for ids in [["a", "b"], ["b", "a"], ["a", "c"]] {
        threads = threads.start(move |world| {
            for id in ids {
                let told = world.ids.insert(id);
                let kind = told.as_ref().map_err(|error| error.kind());
                assert_eq!(kind.err(), Some(ErrorKind::Degraded), "told {told:?}");
            }
        });
    }
    threads.end();
}

/// Buffered commits, which end up in the log in the order they were made, and a caller that
/// reads its own row back while another one writes the buffer.
pub fn buffered(rule: Rule) {
    let world = World::new(rule, |options| options.durability(Durability::Buffered));
    let rows = world.store.table("rows").expect("a table");
    let mut threads = Threads::of(&world);
    for (id, value) in [("a", "1"), ("b", "2")] {
        let rows = rows.clone();
        threads = threads.start(move |world| {
            let mut batch = world.store.batch();
            batch.once(&world.ids, id).put(&rows, id, value);
            let verdicts = batch.commit().expect("nothing fails");
            assert!(verdicts[0].is_first(), "nobody else inserts it");
            let row = rows.get(id).expect("nothing fails");
            assert!(
                row.is_some_and(|row| *row == *value.as_bytes()),
                "row not there"
            );
            assert!(!world.insert(id), "double: it is buffered or written");
        });
    }
    threads
        .start(|world| world.store.sync().expect("nothing fails"))
        .end();
    world.check();
}

const LEVELS: [(&str, Durability); 3] = [
    ("a", Durability::Synced),
    ("b", Durability::Written),
    ("c", Durability::Synced),
];

/// A power failure at any moment, while segments are sealed: what was acknowledged as synced is
/// there with its row, what was not is there whole or not at all.
pub fn power_failure(rule: Rule) {
    let world = World::new(rule, |options| options);
    let rows = world.store.table("rows").expect("a table");
    let (told, left) = (Notes::new(), Notes::new());
    let mut threads = Threads::of(&world);
    for (id, level) in LEVELS {
        let (rows, told) = (rows.clone(), Arc::clone(&told));
        threads = threads.start(move |world| {
            let mut batch = world.store.batch();
            batch
                .durability(level)
                .once(&world.ids, id)
                .put(&rows, id, "row");
            let verdicts = batch.commit().expect("nothing fails");
            assert!(verdicts[0].is_first(), "nobody else inserts it");
            if level == Durability::Synced {
                told.add(id);
            }
        });
    }
    let (acknowledged, cut) = (Arc::clone(&told), Arc::clone(&left));
    threads
        .start(|world| world.store.seal().expect("sealing"))
        .start(move |world| {
            let told = acknowledged.take();
            cut.add((told, world.memory().after_power_failure()));
        })
        .end();
    world.check();
    for (told, left) in left.take() {
        rules::leave_out(None);
        let world = World::after(left, |options| options);
        let rows = world.store.table("rows").expect("a table");
        for (id, _) in LEVELS {
            let row = rows.get(id).expect("nothing fails").is_some();
            assert_eq!(world.finds(id), row, "torn: id {id} and its row part ways");
            assert!(row || !told.contains(&id), "lost: {id} was acknowledged");
        }
    }
}

/// The end of the disk, met by any write, and a prober that finds room again: what was refused is
/// not there, so that the same batch is first when it is committed again; what was acknowledged
/// is there, also if it was buffered. Not with `Synced` commits: a sync that began before the stop
/// may come after the refused write, and then poisons the store.
pub fn full_disk(rule: Rule) {
    let world = World::new(rule, |options| options);
    let mut dice = shuttle::rand::thread_rng();
    let fault = Injection {
        place: Place::Write,
        failure: Injected::NoSpace,
        skip: dice.gen_range(0..3),
        times: dice.gen_range(1..3),
    };
    world.store.inject(fault).expect("the store is open");
    let mut threads = Threads::of(&world);
    for (id, level) in [
        ("a", Durability::Written),
        ("b", Durability::Buffered),
        ("c", Durability::Written),
    ] {
        threads = threads.start(move |world| {
            assert!(commit_in_the_end(world, id, level), "refused but there");
            let is_again = commit_in_the_end(world, id, level);
            assert!(!is_again, "lost: {id} was acknowledged");
        });
    }
    threads
        .start(|world| {
            let core = world.store.shared.core().expect("the store is open");
            while world.history().len() < 3 {
                if core.committer.index.space.awaits_probe() {
                    // A probe that is refused is made again.
                    let _ = core.committer.index.probe();
                }
                shuttle::thread::yield_now();
            }
        })
        .end();
    world.check();
}

/// Commits one batch until the disk takes it; whether its id is first then.
fn commit_in_the_end(world: &World, id: &str, level: Durability) -> bool {
    let mut batch = world.store.batch();
    batch.durability(level).once(&world.ids, id);
    loop {
        match batch.commit() {
            Ok(verdicts) => return verdicts[0].is_first(),
            Err(error) => {
                let told = (error.kind(), error.recorded());
                assert_eq!(told, (ErrorKind::Full, Recorded::No), "told {error}");
            }
        }
        shuttle::thread::yield_now();
    }
}

/// Callers that wait for room while one thread seals: all of them get it.
pub fn room(rule: Rule) {
    let world = World::new(rule, |options| {
        let small = Resources::new().segment_bytes(4096);
        options
            .resources(&small)
            .segment_ids_max(1)
            .background(true)
    });
    let mut threads = Threads::of(&world);
    for ids in [["a", "b"], ["c", "d"], ["e", "f"]] {
        threads = threads.start(move |world| {
            for id in ids {
                assert!(world.insert(id), "nobody else inserts it");
            }
        });
    }
    threads
        .start(|world| {
            let core = world.store.shared.core().expect("the store is open");
            // Enough for all: a round seals two segments and makes two.
            while world.history().len() < 6 {
                core.resources.shared().pool.serve();
                assert_eq!(core.committer.index.trouble(), None, "sealing failed");
                shuttle::thread::yield_now();
            }
        })
        .end();
    world.check();
}
