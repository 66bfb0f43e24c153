//! Guarded rows: closures that read and write, batches that count, and prepared ones.

use crate::error::{Error, ErrorKind};
use crate::world::{Notes, Rule, Threads, World};

fn number(value: Option<crate::table::Value>) -> u64 {
    let bytes = value.and_then(|value| value.into_bytes().as_ref().try_into().ok());
    bytes.map_or(0, u64::from_le_bytes)
}

/// Closures that add to two rows, in opposite orders: no update is lost, and all of them end.
pub fn read_modify_write(rule: Rule) {
    let world = World::new(rule, |options| options);
    let rows = world.store.guarded_table("rows").expect("a table");
    let mut threads = Threads::of(&world);
    for (id, keys) in [("a", ["x", "y"]), ("b", ["y", "x"]), ("c", ["x", "y"])] {
        let rows = rows.clone();
        threads = threads.start(move |world| {
            let verdict = world.ids.once(id, |tx| {
                for key in keys {
                    let sum = number(tx.get(&rows, key)?) + 1;
                    tx.put(&rows, key, sum.to_le_bytes());
                }
                Ok::<_, Error>(())
            });
            assert!(verdict.expect("nothing fails").is_first());
        });
    }
    threads.end();
    for key in ["x", "y"] {
        let sum = number(rows.get(key).expect("nothing fails"));
        assert_eq!(sum, 3, "lost update");
    }
    world.check();
}

/// Batches that take from one stock, and from another in the opposite order: never oversold.
pub fn counters(rule: Rule) {
    let world = World::new(rule, |options| options);
    let rows = world.store.guarded_table("stock").expect("a table");
    let mut full = world.store.batch();
    let mut filled = full.always();
    for key in ["x", "y"] {
        filled.put(&rows, key, 2_i64.to_le_bytes());
    }
    assert!(full.commit().expect("nothing fails").is_empty());
    let mut threads = Threads::of(&world);
    for (id, keys) in [("a", ["x", "y"]), ("b", ["y", "x"]), ("c", ["x", "y"])] {
        let rows = rows.clone();
        threads = threads.start(move |world| {
            let mut batch = world.store.batch();
            let mut writes = batch.once(&world.ids, id);
            for key in keys {
                writes.add(&rows, key, -1, 0..);
            }
            assert_eq!(batch.commit().expect("nothing fails").len(), 1);
        });
    }
    threads.end();
    assert_eq!(
        world.history().len(),
        2,
        "lost update: two of three find stock"
    );
    for key in ["x", "y"] {
        let left = rows.get(key).expect("nothing fails");
        assert_eq!(number(left), 0, "lost update");
    }
    world.check();
}

/// A batch that is prepared and ended by two callers, while another sends the same id: the id is
/// first once and counts once, and one of the two ends it.
pub fn prepared(rule: Rule) {
    let world = World::new(rule, |options| options);
    let rows = world.store.guarded_table("count").expect("a table");
    let ends = Notes::new();
    let mut batch = world.store.batch();
    batch.once(&world.ids, "a").add(&rows, "n", 1, ..);
    batch.once(&world.ids, "b");
    let mut threads = Threads::of(&world);
    threads = threads.start(move |_| {
        let verdicts = batch.prepare("t").expect("nothing fails");
        assert_eq!(verdicts.len(), 2);
    });
    for _ in 0..2 {
        let ends = std::sync::Arc::clone(&ends);
        threads = threads.start(move |world| match world.store.commit_prepared("t") {
            Ok(outcome) => ends.add(outcome.is_repeat),
            Err(error) => assert_eq!(error.kind(), ErrorKind::UnknownTransaction, "{error}"),
        });
    }
    let rival = rows.clone();
    threads = threads.start(move |world| {
        let mut batch = world.store.batch();
        batch.once(&world.ids, "a").add(&rival, "n", 1, ..);
        match batch.commit() {
            Ok(verdicts) => assert_eq!(verdicts.len(), 1),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Busy),
        }
    });
    threads.end();
    if let Ok(outcome) = world.store.commit_prepared("t") {
        ends.add(outcome.is_repeat);
    }
    let did = ends.take().iter().filter(|is_repeat| !**is_repeat).count();
    assert_eq!(did, 1, "ended twice");
    let sum = number(rows.get("n").expect("nothing fails"));
    assert_eq!(sum, 1, "lost update");
    world.check();
}
