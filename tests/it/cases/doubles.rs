//! Nothing may happen twice: an effect whose commit was acknowledged is never applied again.

use std::sync::Barrier;

use firstseen::{Durability, ErrorKind, NextCommit, Options, Recorded, Store, Verdict};

use super::{LEVELS, expect_error, memory, put_once, secs, week};

/// D1: a crash between the business commit and the dedup mark. (The kill test does this to a
/// real process.) Whatever the write's fate, id and row share it.
#[test]
fn after_a_crash_id_and_row_are_both_there_or_neither() {
    for (failure, level) in [
        (NextCommit::UnknownWritten, Durability::Written),
        (NextCommit::UnknownWritten, Durability::Synced),
        (NextCommit::UnknownLost, Durability::Written),
        (NextCommit::UnknownLost, Durability::Synced),
    ] {
        let store = memory();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        let stock = store.guarded_table("stock").unwrap();
        store.fail_next_commit(failure).unwrap();
        let mut batch = store.batch();
        batch.durability(level);
        for id in ["a", "b"] {
            batch
                .once(&ids, id)
                .put(&rows, id, "1")
                .add(&stock, "n", 1, ..);
        }
        batch.resume_at("source", 2);
        expect_error(batch.commit(), ErrorKind::Degraded, Recorded::Unknown);
        drop((ids, rows, stock, batch));
        let store = store.crash_and_reopen().unwrap();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        let stock = store.guarded_table("stock").unwrap();
        let there = failure == NextCommit::UnknownWritten;
        for id in ["a", "b"] {
            assert_eq!(rows.get(id).unwrap().is_some(), there, "{failure:?}");
            assert_eq!(ids.insert(id).unwrap().is_duplicate(), there);
        }
        assert_eq!(super::counter(&stock, "n"), there.then_some(2));
        assert_eq!(store.resume_point("source").unwrap().is_some(), there);
    }
}

/// D1: an acknowledged commit survives a crash, at every level that says so.
#[test]
fn what_was_acknowledged_is_a_duplicate_after_a_crash() {
    for level in [Durability::Written, Durability::Synced] {
        let mut store = Store::in_memory(Options::new().durability(level)).unwrap();
        for round in 0..4 {
            let (ids, rows) = (week(&store), store.table("rows").unwrap());
            for n in 0..round * 10 {
                let id = format!("id-{n}");
                let verdict = put_once(&store, &ids, &rows, &id).unwrap();
                assert_eq!(verdict.is_duplicate(), n < (round - 1) * 10, "{id}");
                assert!(rows.get(&id).unwrap().is_some());
            }
            if round == 2 {
                store.seal().unwrap();
            }
            drop((ids, rows));
            store = store.crash_and_reopen().unwrap();
        }
    }
}

/// D3: two concurrent calls with the same id both ran.
#[test]
fn of_many_threads_with_one_id_exactly_one_is_first() {
    const THREADS: usize = 8;
    for level in LEVELS {
        let options = Options::new().durability(level).wait_max(secs(60));
        let store = Store::in_memory(options).unwrap();
        let ids = week(&store);
        let at_once = Barrier::new(THREADS);
        for round in 0..50 {
            let id = format!("id-{round}");
            let firsts: usize = std::thread::scope(|s| {
                let call = || {
                    at_once.wait();
                    let verdict = ids.insert(&id).unwrap();
                    assert!(verdict.is_first() || verdict.is_duplicate(), "{verdict:?}");
                    usize::from(verdict.is_first())
                };
                let threads: Vec<_> = (0..THREADS).map(|_| s.spawn(call)).collect();
                threads.into_iter().map(|t| t.join().unwrap()).sum()
            });
            assert_eq!(firsts, 1, "{id} at {level:?}");
        }
    }
}

/// D4: every second duplicate got through, because rejecting one removed the original.
#[test]
fn a_thousand_duplicates_get_a_thousand_duplicate_verdicts() {
    let store = memory();
    let ids = week(&store);
    assert!(ids.insert("a").unwrap().is_first());
    let seen_at = ids.peek("a").unwrap().unwrap().first_seen_at();
    for n in 0..1000 {
        match ids.insert("a").unwrap() {
            Verdict::Duplicate(seen) => assert_eq!(seen.first_seen_at(), seen_at),
            other => panic!("{other:?} at {n}"),
        }
        match n {
            300 => store.seal().unwrap(),
            600 => store.compact().unwrap(),
            _ => {}
        }
    }
    drop(ids);
    let store = store.crash_and_reopen().unwrap();
    assert!(week(&store).insert("a").unwrap().is_duplicate());
}

/// D5: a public `contains` followed by a later `add`. A look decides nothing and says so.
#[test]
fn a_peek_decides_nothing() {
    let store = memory();
    let ids = week(&store);
    assert_eq!(ids.peek("a").unwrap(), None);
    assert_eq!(ids.peek("a").unwrap(), None);
    assert!(ids.insert("a").unwrap().is_first());
    assert!(ids.peek("a").unwrap().is_some());
    assert!(ids.insert("a").unwrap().is_duplicate());
}

/// D5: the scope's door has no pair of calls that together would be a check-and-insert.
#[test]
fn no_call_of_a_scope_only_checks_or_only_adds() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/scope.rs");
    let source = std::fs::read_to_string(file).unwrap();
    let names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix("pub fn "))
        .filter_map(|rest| rest.split(['(', '<']).next())
        .collect();
    let known = [
        "name",
        "set_mode",
        "mode",
        "set_on_store_error",
        "on_store_error",
        "insert",
        "insert_all",
        "once",
        "handler",
        "peek",
        "forget",
        "scan",
    ];
    assert_eq!(names, known, "a new call: is it atomic?");
}
