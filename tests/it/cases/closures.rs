//! `Scope::once`: a closure that reads and writes, for a first sight only.

use std::cell::Cell;

use firstseen::{Error, ErrorKind, Options, Position, Recorded, Store, Verdict};

use super::{LEVELS, counter, expect_error, expect_invalid, memory, put, week};

#[test]
fn a_closure_sees_its_own_writes_and_earlier_ones() {
    for level in LEVELS {
        let store = Store::in_memory(Options::new().durability(level)).unwrap();
        let (ids, plain) = (week(&store), store.table("plain").unwrap());
        let guarded = store.guarded_table("guarded").unwrap();
        put(&store, &plain, "a", "before");
        put(&store, &guarded, "n", 5_i64.to_le_bytes());
        let verdict = ids.once("x", |tx| {
            assert_eq!(tx.get(&plain, "a")?.as_deref(), Some(&b"before"[..]));
            tx.put(&plain, "a", "mine");
            assert_eq!(tx.get(&plain, "a")?.as_deref(), Some(&b"mine"[..]));
            tx.delete(&plain, "a");
            assert_eq!(tx.get(&plain, "a")?, None);
            tx.add(&guarded, "n", 2, ..);
            Ok::<_, Error>(tx.get(&guarded, "n")?.and_then(|v| v.as_counter()))
        });
        assert_eq!(verdict.unwrap(), Verdict::First(Some(7)));
        assert_eq!(
            (plain.get("a").unwrap(), counter(&guarded, "n")),
            (None, Some(7))
        );
        let again = ids.once("x", |_| -> Result<(), Error> { panic!("it ran again") });
        assert!(again.unwrap().is_duplicate());
    }
}

#[test]
fn every_condition_works_in_a_closure_and_refuses() {
    let store = memory();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    put(&store, &rows, "state", "pending");
    let verdict = ids.once("a", |tx| {
        tx.transition(&rows, "state", b"pending", b"paid")
            .compare_and_set(&rows, "cas", None, "1")
            .compare_version(&rows, "version", None, "v")
            .add(&rows, "n", -1, 0..);
        Ok::<_, Error>(())
    });
    let Verdict::Refused(refusal) = verdict.unwrap() else {
        panic!("not refused")
    };
    assert_eq!((refusal.write(), refusal.is_settled()), (3, false));
    assert_eq!(rows.range("").unwrap().count(), 1);
    assert_eq!(rows.get("state").unwrap().as_deref(), Some(&b"pending"[..]));
    assert_eq!(ids.peek("a").unwrap(), None);
}

#[test]
fn a_closures_refusal_with_a_fallback_is_settled() {
    let store = memory();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    let notes = store.table("notes").unwrap();
    let once = || {
        ids.once("a", |tx| {
            tx.put(&rows, "tried", "1")
                .add(&rows, "n", -1, 0..)
                .if_refused(|w| {
                    w.put(&notes, "a", "refused").add(&rows, "missed", 1, ..);
                });
            Ok::<_, Error>(())
        })
    };
    assert!(matches!(once().unwrap(), Verdict::Refused(r) if r.is_settled()));
    let Verdict::Duplicate(seen) = once().unwrap() else {
        panic!("not settled")
    };
    assert!(seen.was_refused());
    assert_eq!(
        (rows.get("tried").unwrap(), counter(&rows, "missed")),
        (None, Some(1))
    );
    assert!(notes.get("a").unwrap().is_some());
}

#[test]
fn a_closure_moves_a_resume_point_with_its_writes() {
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let move_to = |id: &str, next: u64| {
        ids.once(id, |tx| {
            tx.put(&rows, id, "1").resume_at("s", next);
            Ok::<_, Error>(())
        })
    };
    assert!(move_to("a", 5).unwrap().is_first());
    expect_invalid(move_to("b", 4), "back");
    assert_eq!(
        (rows.get("b").unwrap(), ids.peek("b").unwrap()),
        (None, None)
    );
    assert!(move_to("b", 6).unwrap().is_first());
    assert_eq!(store.resume_point("s").unwrap(), Some(Position::from(6)));
}

/// The switch for tests: a closure that relies on running once is noticed.
#[test]
fn closures_run_twice_when_asked_to_and_take_effect_once() {
    let store = Store::in_memory(Options::new().closures_twice(true)).unwrap();
    let (ids, rows) = (week(&store), store.guarded_table("rows").unwrap());
    for n in 1..=3 {
        let runs = Cell::new(0);
        let verdict = ids.once(&format!("{n}"), |tx| {
            runs.set(runs.get() + 1);
            let before = tx
                .get(&rows, "n")?
                .and_then(|v| v.as_counter())
                .unwrap_or(0);
            tx.put(&rows, "n", (before + 1).to_le_bytes())
                .add(&rows, "m", 1, ..);
            Ok::<_, Error>(before + 1)
        });
        assert_eq!(verdict.unwrap(), Verdict::First(n));
        assert_eq!(runs.get(), 2);
        assert_eq!(
            (counter(&rows, "n"), counter(&rows, "m")),
            (Some(n), Some(n))
        );
    }
}

#[test]
fn misuse_in_a_closure_records_nothing_even_if_it_is_ignored() {
    let (store, other) = (memory(), memory());
    let (ids, plain) = (week(&store), store.table("plain").unwrap());
    let foreign = other.guarded_table("rows").unwrap();
    let with = |write: &dyn Fn(&mut firstseen::Tx<'_>)| {
        ids.once("a", |tx| {
            tx.put(&plain, "a", "1");
            write(tx);
            Ok::<_, Error>(())
        })
    };
    let kind = ErrorKind::ForeignHandle;
    expect_error(
        with(&|tx| {
            tx.put(&foreign, "a", "1");
        }),
        kind,
        Recorded::No,
    );
    expect_error(with(&|tx| drop(tx.get(&foreign, "a"))), kind, Recorded::No);
    let in_fallback = |tx: &mut firstseen::Tx<'_>| {
        tx.if_refused(|w| {
            w.put(&foreign, "a", "1");
        });
    };
    expect_error(with(&in_fallback), kind, Recorded::No);
    expect_invalid(
        with(&|tx| {
            tx.add(&plain, "n", 1, ..);
        }),
        "plain",
    );
    assert_eq!(
        (plain.get("a").unwrap(), ids.peek("a").unwrap()),
        (None, None)
    );
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
    // An id of another store.
    let elsewhere = week(&other);
    assert!(elsewhere.insert("a").unwrap().is_first());
    assert!(ids.insert("a").unwrap().is_first());
}

/// The closure brings its own error type; the store's errors convert into it.
#[test]
fn a_closures_own_error_comes_back() {
    #[derive(Debug, PartialEq)]
    enum Fail {
        Store(ErrorKind),
        SoldOut,
    }
    impl From<Error> for Fail {
        fn from(error: Error) -> Fail {
            Fail::Store(error.kind())
        }
    }
    let store = memory();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let sold_out: Result<Verdict<()>, Fail> = ids.once("a", |tx| {
        tx.put(&rows, "a", "1");
        Err(Fail::SoldOut)
    });
    assert_eq!(sold_out.unwrap_err(), Fail::SoldOut);
    let invalid = ids.once("a", |tx| {
        tx.add(&rows, "a", 1, ..);
        Ok::<_, Fail>(())
    });
    assert_eq!(invalid.unwrap_err(), Fail::Store(ErrorKind::Invalid));
    assert_eq!(ids.peek("a").unwrap(), None);
    drop(store.close());
    let closed = ids.once("a", |_| Ok::<_, Fail>(()));
    assert_eq!(closed.unwrap_err(), Fail::Store(ErrorKind::Closed));
}
