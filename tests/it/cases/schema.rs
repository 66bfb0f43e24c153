//! A living schema: what may change at a reopening, what may not, and what a drop leaves.

use std::sync::atomic::{AtomicBool, Ordering};

use firstseen::{ErrorKind, Options, Policy, Recorded, Store, days};

use super::{
    Bring, expect_error, expect_invalid, memory, ms, put, put_once, quiet, secs, timed, week,
};

const PLACES: [Bring; 3] = [
    |store| store,
    |store| {
        store.seal().unwrap();
        store
    },
    |store| store.crash_and_reopen().unwrap(),
];

#[test]
fn a_scope_reopened_with_other_semantics_is_refused() {
    for place in PLACES {
        let store = memory();
        let first = store.scope("s", Policy::remember(days(7))).unwrap();
        assert!(first.insert("a").unwrap().is_first());
        drop(first);
        let store = place(store);
        for other in [
            Policy::remember(days(7) + ms(1)),
            Policy::sliding(days(7), days(70)),
            Policy::forever(),
        ] {
            expect_invalid(store.scope("s", other), "remembers");
        }
        // What is not stored may differ each time.
        let policy = Policy::remember(days(7))
            .id_bytes_max(5)
            .sources()
            .wait(ms(1));
        assert!(
            store
                .scope("s", policy)
                .unwrap()
                .insert("a")
                .unwrap()
                .is_duplicate()
        );
    }
}

/// Ids recorded under the old retention keep it, new ones get the new one; first sight stays.
#[test]
fn an_altered_retention_counts_for_new_ids_only() {
    for place in PLACES {
        let (store, clock) = timed();
        let old = store.scope("s", Policy::remember(secs(100))).unwrap();
        assert!(old.insert("before").unwrap().is_first());
        let seen_at = clock.now();
        let longer = Policy::remember(secs(1000));
        let new = store.alter_scope("s", longer.clone()).unwrap();
        assert!(new.insert("after").unwrap().is_first());
        // Handles from before follow at once.
        assert!(old.insert("after too").unwrap().is_first());
        drop((old, new));
        let store = place(store);
        expect_invalid(store.scope("s", Policy::remember(secs(100))), "alter_scope");
        let ids = store.scope("s", longer).unwrap();
        clock.advance(secs(99));
        for id in ["before", "after", "after too"] {
            let seen = ids.peek(id).unwrap().unwrap();
            assert_eq!(seen.first_seen_at(), seen_at, "{id}");
        }
        clock.advance(secs(1));
        assert!(ids.insert("before").unwrap().is_first());
        clock.advance(secs(899));
        assert!(ids.insert("after").unwrap().is_duplicate());
        assert!(ids.insert("after too").unwrap().is_duplicate());
        clock.advance(secs(1));
        assert!(ids.insert("after").unwrap().is_first());
        assert!(ids.insert("before").unwrap().is_duplicate());
    }
}

#[test]
fn a_scopes_form_cannot_change() {
    let store = memory();
    for (name, policy) in [
        ("fixed", Policy::remember(days(1))),
        ("sliding", Policy::sliding(days(1), days(2))),
        ("for ever", Policy::forever()),
    ] {
        store.scope(name, policy).unwrap();
    }
    let fixed = || Policy::remember(days(2));
    let sliding = || Policy::sliding(days(2), days(3));
    for (name, other) in [
        ("fixed", sliding()),
        ("fixed", Policy::forever()),
        ("sliding", fixed()),
        ("sliding", Policy::forever()),
        ("for ever", fixed()),
        ("for ever", sliding()),
    ] {
        expect_invalid(store.alter_scope(name, other), "can't become");
    }
    store.alter_scope("fixed", fixed()).unwrap();
    store.alter_scope("sliding", sliding()).unwrap();
    expect_invalid(store.alter_scope("none", fixed()), "no scope");
}

#[test]
fn a_shorter_retention_lets_new_ids_go_earlier() {
    let (store, clock) = timed();
    let ids = store.scope("s", Policy::remember(days(30))).unwrap();
    assert!(ids.insert("old").unwrap().is_first());
    store.seal().unwrap();
    store.alter_scope("s", Policy::remember(secs(60))).unwrap();
    assert!(ids.insert("new").unwrap().is_first());
    store.seal().unwrap();
    clock.advance(secs(60));
    assert!(ids.insert("new").unwrap().is_first());
    clock.advance(days(29));
    assert!(ids.insert("old").unwrap().is_duplicate());
    clock.advance(days(1));
    assert!(ids.insert("old").unwrap().is_first());
}

/// A scope of a dropped one's name starts empty: numbers are never used again.
#[test]
fn a_dropped_scopes_ids_never_come_back() {
    for place in PLACES {
        let store = memory();
        let keep = store.scope("keep", Policy::remember(days(7))).unwrap();
        let ids = week(&store);
        for scope in [&keep, &ids] {
            assert!(scope.insert("a").unwrap().is_first());
        }
        drop((keep, ids));
        let store = place(store);
        assert!(store.drop_scope("ids").unwrap());
        assert!(!store.drop_scope("ids").unwrap());
        assert_eq!(store.scopes().unwrap(), ["keep"]);
        assert!(store.existing_scope("ids").unwrap().is_none());
        let store = place(store);
        // Another name, and the same one: neither sees the old ids.
        for name in ["other", "ids"] {
            let ids = store.scope(name, Policy::remember(days(7))).unwrap();
            assert_eq!(ids.peek("a").unwrap(), None, "{name}");
            assert_eq!(ids.scan(..).unwrap().count(), 0);
            assert!(ids.insert("a").unwrap().is_first());
        }
        store.compact().unwrap();
        let store = place(store);
        for name in ["keep", "other", "ids"] {
            let ids = store.existing_scope(name).unwrap().unwrap();
            assert!(ids.insert("a").unwrap().is_duplicate(), "{name}");
        }
    }
}

#[test]
fn handles_of_a_dropped_scope_are_invalid() {
    let store = memory();
    let ids = week(&store);
    assert!(ids.insert("a").unwrap().is_first());
    let mut held = store.batch();
    held.once(&ids, "b");
    let _ = held.hold().unwrap();
    assert!(store.drop_scope("ids").unwrap());
    let again = week(&store);
    expect_invalid(ids.insert("a"), "dropped");
    expect_invalid(ids.insert_all(["a"].iter()), "dropped");
    expect_invalid(ids.once("a", |_| Ok::<_, firstseen::Error>(())), "dropped");
    expect_invalid(ids.forget("a", "why"), "dropped");
    expect_invalid(ids.peek("a"), "dropped");
    expect_invalid(ids.scan(..).map(|_| ()), "dropped");
    expect_invalid(held.commit(), "dropped");
    assert!(again.insert("a").unwrap().is_first());
}

#[test]
fn a_dropped_tables_rows_never_come_back() {
    for place in PLACES {
        let store = memory();
        let (rows, keep) = (store.table("rows").unwrap(), store.table("keep").unwrap());
        put(&store, &rows, "a", "1");
        put(&store, &keep, "a", "1");
        drop((rows, keep));
        let store = place(store);
        assert!(store.drop_table("rows").unwrap());
        assert!(!store.drop_table("rows").unwrap());
        let store = place(store);
        // The name may come back as the other kind.
        let rows = store.guarded_table("rows").unwrap();
        assert_eq!(rows.get("a").unwrap(), None);
        assert_eq!(rows.range("").unwrap().count(), 0);
        assert!(store.table("keep").unwrap().get("a").unwrap().is_some());
    }
}

#[test]
fn handles_of_a_dropped_table_are_invalid() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    put(&store, &rows, "a", "1");
    let mut batch = store.batch();
    batch.once(&ids, "b").put(&rows, "b", "2");
    assert!(store.drop_table("rows").unwrap());
    expect_invalid(batch.commit(), "dropped");
    expect_invalid(rows.get("a"), "dropped");
    expect_invalid(rows.range("").map(|_| ()), "dropped");
    expect_invalid(put_once(&store, &ids, &rows, "b"), "dropped");
    let once = ids.once("b", |tx| {
        tx.put(&rows, "b", "2");
        Ok::<_, firstseen::Error>(())
    });
    expect_invalid(once, "dropped");
    assert!(ids.insert("b").unwrap().is_first());
}

/// A drop waits for commits that name the table, and none of them harms the store.
#[test]
fn a_table_can_be_dropped_while_others_commit() {
    let store = Store::in_memory(Options::new()).unwrap();
    let ids = week(&store);
    std::thread::scope(|s| {
        for thread in 0..3 {
            let (store, ids) = (&store, &ids);
            s.spawn(move || {
                for n in 0..300 {
                    let rows = store.table("rows").unwrap();
                    let id = format!("{thread}-{n}");
                    if let Err(error) = put_once(store, ids, &rows, &id) {
                        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
                    }
                }
            });
        }
        for _ in 0..20 {
            let _ = store.drop_table("rows").unwrap();
            super::nap(ms(3));
        }
    });
    assert!(ids.insert("the store still writes").unwrap().is_first());
}

#[test]
fn a_table_is_plain_or_guarded_for_good() {
    let store = memory();
    store.table("plain").unwrap();
    store.guarded_table("guarded").unwrap();
    expect_invalid(store.guarded_table("plain"), "plain");
    expect_invalid(store.table("guarded"), "guarded");
    let store = store.crash_and_reopen().unwrap();
    expect_invalid(store.guarded_table("plain"), "plain");
    expect_invalid(store.table("guarded"), "guarded");
    assert!(store.guarded_table("guarded").unwrap().is_guarded());
    assert!(!store.table("plain").unwrap().is_guarded());
}

#[test]
fn limits_on_scopes_and_tables_are_kept() {
    let store = Store::in_memory(quiet().scopes_max(2).tables_max(1)).unwrap();
    let scope = |name| store.scope(name, Policy::remember(days(1)));
    scope("a").unwrap();
    scope("b").unwrap();
    expect_error(scope("c"), ErrorKind::Full, Recorded::No);
    scope("a").unwrap();
    store.table("t").unwrap();
    expect_error(store.table("u"), ErrorKind::Full, Recorded::No);
    // A dropped one makes room.
    assert!(store.drop_scope("a").unwrap() && store.drop_table("t").unwrap());
    scope("c").unwrap();
    store.table("u").unwrap();
    let long = "x".repeat(256);
    for name in ["", "a\0b", &long] {
        expect_invalid(store.scope(name, Policy::remember(days(1))), "name");
        expect_invalid(store.table(name), "name");
    }
}

#[test]
fn wrong_options_and_policies_list_every_violation() {
    let options = Options::new()
        .batch_items_max(0)
        .batch_bytes_max(3)
        .filter_bits_per_id(2)
        .slices_per_class(9)
        .generations_max(1)
        .scopes_max(0)
        .tables_max(0)
        .segment_ids_max(0)
        .wal_bytes_max(5)
        .buffer_interval(secs(2));
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let Err(error) = Store::open(&path, options) else {
        panic!("it opened")
    };
    assert_eq!(error.kind(), ErrorKind::Invalid);
    for part in [
        "batch_items_max",
        "batch_bytes_max",
        "filter_bits_per_id",
        "slices_per_class",
        "generations_max",
        "scopes_max",
        "tables_max",
        "segment_ids_max",
        "wal_bytes_max",
        "buffer_interval",
    ] {
        assert!(error.to_string().contains(part), "{error} lacks {part}");
    }
    assert!(!path.exists(), "a refused open left something behind");
    let store = memory();
    let policy = Policy::sliding(secs(0), std::time::Duration::MAX)
        .id_bytes_max(0)
        .redelivery_horizon(secs(1));
    let error = store.scope("s", policy).unwrap_err().to_string();
    for part in [
        "shorter than 1 ms",
        "longer than 200 years",
        "id_bytes_max",
        "horizon",
    ] {
        assert!(error.contains(part), "{error} lacks {part}");
    }
    expect_invalid(store.scope("s", Policy::sliding(secs(2), secs(1))), "cap");
}

/// Background work may be about to flush a table's rows just when the table is dropped: that is
/// no failure of anything.
#[test]
fn tables_are_dropped_while_others_are_flushed() {
    let store = memory();
    let ids = week(&store);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        let flushing = threads.spawn(|| {
            let mut rounds = 0_u32;
            while !is_over.load(Ordering::Relaxed) {
                assert!(ids.insert(&rounds.to_le_bytes()).unwrap().is_first());
                store.seal().unwrap();
                rounds += 1;
            }
            rounds
        });
        for round in 0..400 {
            let table = store.table("short-lived").unwrap();
            put(&store, &table, "row", round.to_string());
            assert!(store.drop_table("short-lived").unwrap());
        }
        is_over.store(true, Ordering::Relaxed);
        assert!(flushing.join().unwrap() > 0);
    });
}
