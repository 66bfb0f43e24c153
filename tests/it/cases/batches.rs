//! Batches: a verdict for each item, all or nothing, and never more than what is first seen.

use firstseen::{
    BadId, ErrorKind, Id, NextCommit, Options, Policy, Recorded, Store, Verdict, days,
};

use super::{
    LEVELS, counter, expect_error, expect_invalid, memory, ms, put, quiet, secs, timed, week,
};

/// B1: one duplicate killed the whole batch.
#[test]
fn each_item_gets_its_verdict_in_order() {
    for level in LEVELS {
        let store = memory();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        let stock = store.guarded_table("stock").unwrap();
        assert!(ids.insert("old").unwrap().is_first());
        put(&store, &stock, "n", 1_i64.to_le_bytes());
        let mut batch = store.batch();
        batch.durability(level);
        batch.once(&ids, "new").put(&rows, "1", "new");
        batch.once(&ids, "old").put(&rows, "2", "old");
        batch.once(&ids, None::<&str>).put(&rows, "3", "missing");
        batch.once(&ids, "new").put(&rows, "4", "repeat");
        batch.once(&ids, "takes one").add(&stock, "n", -1, 0..);
        batch
            .once(&ids, "sold out")
            .add(&stock, "n", -1, 0..)
            .put(&rows, "5", "refused");
        batch
            .once(&ids, "declines")
            .put(&rows, "6", "declined")
            .decline();
        batch.once(&ids, "").put(&rows, "7", "empty");
        assert_eq!(batch.len(), 8);
        let verdicts = batch.commit().unwrap();
        assert!(batch.is_empty());
        assert!(verdicts[0].is_first());
        assert!(verdicts[1].is_duplicate());
        assert_eq!(verdicts[2], Verdict::BadId(BadId::Missing));
        assert!(verdicts[3].is_duplicate());
        assert!(verdicts[4].is_first());
        let Verdict::Refused(refusal) = verdicts[5] else {
            panic!("{:?}", verdicts[5])
        };
        assert_eq!((refusal.write(), refusal.is_settled()), (0, false));
        assert_eq!(verdicts[6], Verdict::Declined(()));
        assert_eq!(verdicts[7], Verdict::BadId(BadId::Empty));
        assert_eq!(verdicts.len(), 8);
        let keys: Vec<_> = rows.range("").unwrap().map(|row| row.unwrap().0).collect();
        assert_eq!(keys, ["1"]);
        assert_eq!(counter(&stock, "n"), Some(0));
    }
}

/// B2: a batch of duplicates still ran the handler and refreshed expiry.
#[test]
fn a_batch_of_duplicates_writes_nothing() {
    let (store, clock) = timed();
    let ids = store.scope("s", Policy::remember(secs(100))).unwrap();
    let (rows, stock) = (
        store.table("rows").unwrap(),
        store.guarded_table("stock").unwrap(),
    );
    let batch = |value: &str| {
        let mut batch = store.batch();
        for id in ["a", "b", "c"] {
            batch
                .once(&ids, id)
                .put(&rows, id, value)
                .add(&stock, id, 1, ..);
        }
        batch.commit().unwrap()
    };
    assert!(batch("first").iter().all(|v| v.is_first()));
    clock.advance(secs(60));
    let before = store.stats().unwrap();
    for _ in 0..10 {
        assert!(batch("again").iter().all(|v| v.is_duplicate()));
        let runs = ids.once("a", |_| -> firstseen::Result<()> {
            panic!("the handler ran")
        });
        assert!(runs.unwrap().is_duplicate());
    }
    let after = store.stats().unwrap();
    assert_eq!(
        (after.written, after.commits),
        (before.written, before.commits)
    );
    assert_eq!(rows.get("a").unwrap().as_deref(), Some(&b"first"[..]));
    assert_eq!(counter(&stock, "a"), Some(1));
    clock.advance(secs(40));
    assert!(batch("new").iter().all(|v| v.is_first()));
}

#[test]
fn items_apply_in_order_and_see_each_other() {
    let store = memory();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch.always().put(&stock, "n", 1_i64.to_le_bytes());
    batch.once(&ids, "a").add(&stock, "n", -1, 0..);
    batch.once(&ids, "b").add(&stock, "n", -1, 0..);
    batch.always().put(&stock, "n", 5_i64.to_le_bytes());
    batch.once(&ids, "c").add(&stock, "n", -5, 0..);
    let firsts: Vec<bool> = batch
        .commit()
        .unwrap()
        .iter()
        .map(|v| v.is_first())
        .collect();
    assert_eq!(firsts, [true, false, true]);
    assert_eq!(counter(&stock, "n"), Some(0));
}

/// A repeat of an id whose first item was refused or declined is judged anew.
#[test]
fn a_repeat_of_a_refused_item_is_judged_anew() {
    let store = memory();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch.once(&ids, "a").add(&stock, "n", -1, 0..);
    batch.once(&ids, "b").add(&stock, "n", 1, 0..);
    batch.once(&ids, "a").add(&stock, "n", -1, 0..);
    batch.once(&ids, "c").decline();
    batch.once(&ids, "c");
    batch.once(&ids, "c");
    let verdicts = batch.commit().unwrap();
    assert!(matches!(verdicts[0], Verdict::Refused(_)));
    assert!(verdicts[1].is_first());
    assert!(verdicts[2].is_first());
    assert_eq!(verdicts[3], Verdict::Declined(()));
    assert!(verdicts[4].is_first());
    assert!(verdicts[5].is_duplicate());
}

/// A failed commit leaves the batch as it was; the same object commits again, and then serves
/// the next messages.
#[test]
fn a_batch_whose_commit_failed_commits_again() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let mut batch = store.batch();
    batch.once(&ids, "a").put(&rows, "a", "1");
    batch.resume_at("source", 7);
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    expect_error(batch.commit(), ErrorKind::Busy, Recorded::No);
    assert_eq!(batch.len(), 1);
    assert!(batch.commit().unwrap()[0].is_first());
    assert_eq!(
        store
            .resume_point("source")
            .unwrap()
            .and_then(|p| p.as_u64()),
        Some(7)
    );
    assert!(batch.commit().unwrap().is_empty());
    batch.once(&ids, "b").put(&rows, "b", "2");
    assert!(batch.commit().unwrap()[0].is_first());
    assert_eq!(rows.range("").unwrap().count(), 2);
}

/// Misuse is reported at every commit until the batch is cleared, and records nothing.
#[test]
fn a_misused_batch_never_commits() {
    let (store, other) = (memory(), memory());
    let (ids, foreign) = (week(&store), week(&other));
    let rows = store.table("rows").unwrap();
    let foreign_rows = other.table("rows").unwrap();
    let mut batch = store.batch();
    batch.once(&ids, "a").put(&rows, "a", "1");
    batch.once(&foreign, "b");
    for _ in 0..3 {
        expect_error(batch.commit(), ErrorKind::ForeignHandle, Recorded::No);
        expect_error(batch.hold(), ErrorKind::ForeignHandle, Recorded::No);
    }
    batch.clear();
    batch.once(&ids, "a").put(&foreign_rows, "a", "1");
    for _ in 0..3 {
        expect_error(batch.commit(), ErrorKind::ForeignHandle, Recorded::No);
    }
    batch.clear();
    batch.once(&ids, "a").add(&rows, "a", 1, ..);
    for _ in 0..3 {
        expect_invalid(batch.commit(), "plain");
    }
    batch.clear();
    let guarded = store.guarded_table("guarded").unwrap();
    batch.once(&ids, "a");
    batch.always().add(&guarded, "a", 1, ..);
    for _ in 0..3 {
        expect_invalid(batch.commit(), "condition");
    }
    assert_eq!(
        (ids.peek("a").unwrap(), foreign.peek("b").unwrap()),
        (None, None)
    );
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
    batch.clear();
    batch.once(&ids, "a").put(&rows, "a", "1");
    assert!(batch.commit().unwrap()[0].is_first());
}

#[test]
fn a_batch_over_its_limits_is_full_and_records_nothing() {
    let options = quiet().batch_items_max(3).batch_bytes_max(1024);
    let store = Store::in_memory(options).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let error = ids.insert_all(["a", "b", "c", "d"].iter());
    expect_error(error, ErrorKind::Full, Recorded::No);
    let mut batch = store.batch();
    for value in [vec![0; 600], vec![0; 600]] {
        batch.once(&ids, "a").put(&rows, "a", value);
    }
    expect_error(batch.commit(), ErrorKind::Full, Recorded::No);
    expect_error(batch.commit(), ErrorKind::Full, Recorded::No);
    batch.clear();
    batch.once(&ids, "a").put(&rows, "a", vec![0; 2000]);
    expect_error(batch.commit(), ErrorKind::Full, Recorded::No);
    assert_eq!(ids.peek("a").unwrap(), None);
    assert!(
        ids.insert_all(["a", "b", "c"].iter())
            .unwrap()
            .iter()
            .all(|v| v.is_first())
    );
}

/// Held ids are ours until commit or drop; a dropped batch frees them, with nothing recorded.
#[test]
fn a_dropped_batch_frees_what_it_holds() {
    let store = Store::in_memory(quiet().wait_max(ms(20))).unwrap();
    let ids = week(&store);
    let mut batch = store.batch();
    batch.once(&ids, "a");
    assert!(batch.hold().unwrap()[0].is_first());
    assert_eq!(store.stats().unwrap().ids_in_flight, 1);
    assert!(matches!(ids.insert("a").unwrap(), Verdict::InProgress(_)));
    drop(batch);
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
    assert!(ids.insert("a").unwrap().is_first());

    let mut batch = store.batch();
    batch.once(&ids, "b");
    let _ = batch.hold().unwrap();
    batch.clear();
    assert!(ids.insert("b").unwrap().is_first());
    assert!(batch.commit().unwrap().is_empty());
}

#[test]
fn a_held_batch_commits_what_was_added_for_its_first_ones() {
    for level in LEVELS {
        let store = memory();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        assert!(ids.insert("old").unwrap().is_first());
        let mut batch = store.batch();
        batch.durability(level);
        for id in ["new", "old", "new"] {
            batch.once(&ids, id);
        }
        let held = batch.hold().unwrap();
        let firsts: Vec<bool> = held.iter().map(|v| v.is_first()).collect();
        for (i, _) in firsts.iter().enumerate().filter(|f| *f.1) {
            batch.item(i).put(&rows, i.to_string(), "x");
        }
        batch.resume_at("s", 3);
        let verdicts = batch.commit().unwrap();
        assert!(verdicts[0].is_first());
        assert!(verdicts[1].is_duplicate() && verdicts[2].is_duplicate());
        assert!(rows.get("0").unwrap().is_some());
        assert_eq!(
            store.resume_point("s").unwrap().and_then(|p| p.as_u64()),
            Some(3)
        );
    }
}

/// What was held stays held when the commit fails with nothing recorded: the writes were added
/// for what the hold had said, so the next attempt must find the same.
#[test]
fn a_held_batch_keeps_its_hold_when_its_commit_fails() {
    let store = Store::in_memory(quiet().wait_max(ms(20))).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let mut other = store.batch();
    other.once(&ids, "taken");
    let _ = other.hold().unwrap();
    let mut batch = store.batch();
    batch.once(&ids, "a");
    batch.once(&ids, "taken");
    let held = batch.hold().unwrap();
    assert!(held[0].is_first());
    assert!(matches!(held[1], Verdict::InProgress(_)));
    batch.item(0).put(&rows, "a", "1");
    drop(other);
    store.fail_next_commit(NextCommit::NotRecorded).unwrap();
    expect_error(batch.commit(), ErrorKind::Busy, Recorded::No);
    assert!(matches!(ids.insert("a").unwrap(), Verdict::InProgress(_)));
    let verdicts = batch.commit().unwrap();
    assert!(verdicts[0].is_first());
    assert!(
        matches!(verdicts[1], Verdict::InProgress(_)),
        "{:?}",
        verdicts[1]
    );
    // Without its write it must not have been recorded.
    assert!(ids.insert("taken").unwrap().is_first());
}

#[test]
fn a_held_batch_takes_no_more_items() {
    let store = memory();
    let ids = week(&store);
    let mut batch = store.batch();
    batch.once(&ids, "a");
    let _ = batch.hold().unwrap();
    batch.once(&ids, "b");
    expect_invalid(batch.commit(), "held");
    assert_eq!(ids.peek("a").unwrap(), None);
}

#[test]
#[should_panic(expected = "no item 0")]
fn an_item_that_is_not_there_panics() {
    memory().batch().item(0);
}

/// The source of the first sight is kept where the scope keeps sources.
#[test]
fn a_scope_that_keeps_sources_tells_the_first_one() {
    let store = Store::in_memory(Options::new().background(false)).unwrap();
    let ids = store
        .scope("s", Policy::remember(days(7)).sources())
        .unwrap();
    let plain = week(&store);
    let with_source = |source| Id::new("a").source(source);
    assert!(ids.insert(with_source("orders/3")).unwrap().is_first());
    assert!(plain.insert(with_source("orders/3")).unwrap().is_first());
    for _ in 0..2 {
        let Verdict::Duplicate(seen) = ids.insert(with_source("orders/4")).unwrap() else {
            panic!("not a duplicate")
        };
        assert_eq!(seen.source(), Some("orders/3"));
        assert_eq!(plain.peek("a").unwrap().unwrap().source(), None);
        store.seal().unwrap();
    }
}

/// Each id of another scope is the most room that ids can take, and more than a segment has.
#[test]
fn a_batch_larger_than_a_segment_fits_whatever_its_scopes_are() {
    let store = Store::in_memory(quiet().segment_ids_max(1)).unwrap();
    let scopes: Vec<_> = (0..40)
        .map(|n| {
            store
                .scope(&format!("scope-{n}"), Policy::forever())
                .unwrap()
        })
        .collect();
    for count in 1..scopes.len() {
        let mut batch = store.batch();
        let id = format!("id-{count}");
        for scope in &scopes[..count] {
            batch.once(scope, &id);
        }
        assert!(batch.commit().unwrap().iter().all(Verdict::is_first));
        assert!(scopes[count - 1].insert(&id).unwrap().is_duplicate());
    }
}
