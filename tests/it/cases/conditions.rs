//! Conditional writes of guarded tables: counters, states, values, versions; refused or applied.

use firstseen::{Policy, Refusal, Verdict, days};

use super::{LEVELS, counter, expect_invalid, memory, put, week};

#[track_caller]
fn refusal(verdict: &Verdict) -> Refusal {
    match verdict {
        Verdict::Refused(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_counter_never_leaves_its_bounds() {
    let store = memory();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut n = 0;
    let mut add = |by: i64, within: (std::ops::Bound<i64>, std::ops::Bound<i64>)| {
        n += 1;
        let mut batch = store.batch();
        batch
            .once(&ids, &format!("id-{n}"))
            .add(&stock, "n", by, within);
        batch.commit().unwrap()[0].is_first()
    };
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let from_zero = (Included(0), Unbounded);
    assert!(add(3, from_zero));
    assert!(!add(-4, from_zero));
    assert!(add(-3, from_zero));
    assert!(!add(1, (Unbounded, Excluded(1))));
    assert!(add(1, (Unbounded, Included(1))));
    assert!(add(i64::MAX - 1, (Unbounded, Unbounded)));
    assert!(!add(1, (Unbounded, Unbounded)), "an overflow is refused");
    assert_eq!(counter(&stock, "n"), Some(i64::MAX));
    put(&store, &stock, "text", "not eight");
    let mut batch = store.batch();
    batch.once(&ids, "a").add(&stock, "text", 1, ..);
    expect_invalid(batch.commit(), "no counter");
}

#[test]
fn a_state_moves_only_from_the_named_one() {
    let store = memory();
    let (ids, orders) = (week(&store), store.guarded_table("orders").unwrap());
    put(&store, &orders, "o", "pending");
    let go = |id: &str, from: &[u8], to: &[u8]| {
        let mut batch = store.batch();
        batch.once(&ids, id).transition(&orders, "o", from, to);
        batch.commit().unwrap()[0].is_first()
    };
    assert!(!go("1", b"paid", b"done"));
    assert!(go("2", b"pending", b"paid"));
    assert!(!go("3", b"pending", b"paid"));
    assert!(go("1", b"paid", b"done"), "a refused id is free");
    assert!(!go("2", b"pending", b"paid"));
    assert_eq!(orders.get("o").unwrap().as_deref(), Some(&b"done"[..]));
}

#[test]
fn compare_and_set_replaces_only_what_is_expected() {
    let store = memory();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    let mut n = 0;
    let mut set = |expected: Option<&[u8]>, value: &str| {
        n += 1;
        let mut batch = store.batch();
        batch
            .once(&ids, &format!("{n}"))
            .compare_and_set(&rows, "r", expected, value);
        batch.commit().unwrap()[0].is_first()
    };
    assert!(!set(Some(b"x"), "a"));
    assert!(set(None, "a"));
    assert!(!set(None, "b"));
    assert!(set(Some(b"a"), "b"));
    assert!(set(Some(b"b"), ""));
    assert!(!set(None, "c"), "an empty value is there");
    assert!(set(Some(b""), "c"));
}

#[test]
fn compare_version_counts_up_and_refuses_the_stale() {
    let store = memory();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    let mut n = 0;
    let mut set = |expected: Option<u64>, value: &str| {
        n += 1;
        let mut batch = store.batch();
        batch
            .once(&ids, &format!("{n}"))
            .compare_version(&rows, "r", expected, value);
        batch.commit().unwrap()[0].is_first()
    };
    assert!(!set(Some(0), "a"));
    assert!(set(None, "a"));
    assert!(!set(None, "b"));
    assert!(set(Some(0), "b"));
    assert!(!set(Some(0), "c"), "a stale writer got through");
    assert!(set(Some(1), "c"));
    let row = rows.get("r").unwrap().unwrap();
    assert_eq!(row.versioned(), Some((2, &b"c"[..])));
    put(&store, &rows, "short", "abc");
    let mut batch = store.batch();
    batch
        .once(&ids, "x")
        .compare_version(&rows, "short", Some(0), "y");
    expect_invalid(batch.commit(), "no version");
}

/// An item's writes take effect together or not at all.
#[test]
fn a_refused_item_undoes_what_it_did_before() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let (stock, orders) = (
        store.guarded_table("stock").unwrap(),
        store.guarded_table("orders").unwrap(),
    );
    put(&store, &stock, "n", 10_i64.to_le_bytes());
    let mut batch = store.batch();
    batch
        .once(&ids, "a")
        .put(&rows, "a", "1")
        .add(&stock, "n", -1, 0..)
        .delete(&stock, "n")
        .transition(&orders, "o", b"pending", b"paid")
        .put(&rows, "b", "2");
    batch.once(&ids, "b").add(&stock, "n", -2, 0..);
    let verdicts = batch.commit().unwrap();
    let refusal = refusal(&verdicts[0]);
    assert_eq!((refusal.write(), refusal.is_settled()), (3, false));
    assert!(verdicts[1].is_first());
    assert_eq!(rows.range("").unwrap().count(), 0);
    assert_eq!(counter(&stock, "n"), Some(8));
    assert_eq!(ids.peek("a").unwrap(), None);
}

/// A refusal with a fallback is settled in the same commit; a later delivery is a duplicate that
/// says it was refused.
#[test]
fn a_refusal_with_a_fallback_is_settled() {
    for level in LEVELS {
        let store = memory();
        let ids = store.scope("s", Policy::remember(days(7))).unwrap();
        let (stock, refused) = (
            store.guarded_table("stock").unwrap(),
            store.table("refused").unwrap(),
        );
        let commit = || {
            let mut batch = store.batch();
            batch.durability(level);
            batch
                .once(&ids, "a")
                .add(&stock, "n", -1, 0..)
                .if_refused(|w| {
                    w.put(&refused, "a", "sold out")
                        .add(&stock, "missed", 1, ..);
                });
            batch.once(&ids, "a").add(&stock, "n", -1, 0..);
            batch.commit().unwrap()
        };
        let verdicts = commit();
        assert!(refusal(&verdicts[0]).is_settled());
        let Verdict::Duplicate(seen) = &verdicts[1] else {
            panic!("{:?}", verdicts[1])
        };
        assert!(seen.was_refused());
        put(&store, &stock, "n", 10_i64.to_le_bytes());
        for _ in 0..2 {
            for verdict in &commit() {
                let Verdict::Duplicate(seen) = verdict else {
                    panic!("{verdict:?}")
                };
                assert!(seen.was_refused(), "{seen:?}");
            }
            store.seal().unwrap();
        }
        assert_eq!(refused.get("a").unwrap().as_deref(), Some(&b"sold out"[..]));
        assert_eq!(
            (counter(&stock, "n"), counter(&stock, "missed")),
            (Some(10), Some(1))
        );
        assert!(ids.peek("a").unwrap().unwrap().was_refused());
    }
}

/// A fallback that is refused itself records nothing.
#[test]
fn a_fallback_that_is_refused_records_nothing() {
    let store = memory();
    let (ids, stock) = (week(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch
        .once(&ids, "a")
        .add(&stock, "n", -1, 0..)
        .if_refused(|w| {
            w.add(&stock, "m", 1, ..).add(&stock, "m", -2, 0..);
        });
    assert!(!refusal(&batch.commit().unwrap()[0]).is_settled());
    assert_eq!((counter(&stock, "m"), ids.peek("a").unwrap()), (None, None));
}

/// Unconditional writes, puts and deletes in both kinds of table.
#[test]
fn puts_and_deletes_apply_in_order() {
    let store = memory();
    for table in [
        store.table("plain").unwrap(),
        store.guarded_table("guarded").unwrap(),
    ] {
        let ids = week(&store);
        let mut batch = store.batch();
        let name = table.name();
        batch
            .once(&ids, name)
            .put(&table, "a", "1")
            .put(&table, "a", "2")
            .put(&table, "b", "1");
        batch.always().delete(&table, "b").put(&table, "c", "3");
        let _ = batch.commit().unwrap();
        let rows: Vec<(String, String)> = table
            .range("")
            .unwrap()
            .map(|row| {
                let (key, value) = row.unwrap();
                let text = |b: &[u8]| String::from_utf8_lossy(b).into_owned();
                (text(&key), text(&value))
            })
            .collect();
        let pair = |k: &str, v: &str| (k.to_string(), v.to_string());
        assert_eq!(rows, [pair("a", "2"), pair("c", "3")], "{name}");
    }
}

#[test]
fn a_range_has_the_rows_of_its_prefix_in_order() {
    let store = memory();
    let rows = store.table("rows").unwrap();
    for key in ["b1", "a2", "a", "a10", "c"] {
        put(&store, &rows, key, key);
    }
    let keys = |prefix: &str| -> Vec<_> {
        let rows = rows.range(prefix).unwrap();
        rows.map(|row| String::from_utf8_lossy(&row.unwrap().0).into_owned())
            .collect()
    };
    assert_eq!(keys("a"), ["a", "a10", "a2"]);
    assert_eq!(keys("a1"), ["a10"]);
    assert_eq!(keys("d"), [""; 0]);
    assert_eq!(keys("").len(), 5);
}
