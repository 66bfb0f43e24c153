//! Stored results: what a first sight leaves for its duplicates, wherever its record lies.

use firstseen::{Error, Options, Policy, Scope, Sighting, Store, Verdict, days};

use super::{Bring, expect_invalid, memory, ms, quiet, secs, timed};

fn receipts(store: &Store) -> Scope {
    let policy = Policy::remember(days(7)).results();
    store.scope("receipts", policy).unwrap()
}

/// The sighting of an id that is a duplicate.
#[track_caller]
fn seen(verdict: Verdict) -> Sighting {
    match verdict {
        Verdict::Duplicate(seen) => seen,
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn replayed(scope: &Scope, id: &str) -> Option<Vec<u8>> {
    seen(scope.insert(id).unwrap()).result().map(<[u8]>::to_vec)
}

fn store_result(store: &Store, scope: &Scope, id: &str, result: &[u8]) {
    let mut batch = store.batch();
    batch.once(scope, id).result(result);
    assert!(batch.commit().unwrap()[0].is_first());
}

/// From the active set, from pages, after a merge, after a crash and after a reopening.
#[test]
fn a_result_is_replayed_from_wherever_its_record_lies() {
    let sealed: Bring = |store| {
        store.seal().unwrap();
        store
    };
    let merged: Bring = |store| {
        store.seal().unwrap();
        store.compact().unwrap();
        store
    };
    let crashed: Bring = |store| store.crash_and_reopen().unwrap();
    let places: [(&str, Bring); 5] = [
        ("in memory", |store| store),
        ("sealed", sealed),
        ("merged", merged),
        ("replayed", crashed),
        ("still there", |store| store),
    ];
    let mut store = memory();
    let large = vec![7_u8; 4096];
    for (place, bring) in places {
        let scope = receipts(&store);
        store_result(&store, &scope, place, place.as_bytes());
        store_result(&store, &scope, &format!("{place}, large"), &large);
        store_result(&store, &scope, &format!("{place}, empty"), b"");
        let _ = scope.insert(&format!("{place}, none")).unwrap();
        drop(scope);
        store = bring(store);
        let scope = receipts(&store);
        assert_eq!(replayed(&scope, place).as_deref(), Some(place.as_bytes()));
        let of = |what: &str| replayed(&scope, &format!("{place}, {what}"));
        assert_eq!(of("large").as_deref(), Some(&large[..]), "{place}");
        assert_eq!(of("empty").as_deref(), Some(&b""[..]), "{place}");
        assert_eq!(of("none"), None, "{place}");
        let peeked = scope.peek(place).unwrap().unwrap();
        assert_eq!(peeked.result(), Some(place.as_bytes()));
        let scanned = scope.scan(..).unwrap().map(Result::unwrap);
        let found = scanned.filter(|(_, seen)| seen.result() == Some(place.as_bytes()));
        assert_eq!(found.count(), 1, "{place}");
    }
}

#[test]
fn a_result_outlives_a_clean_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), quiet()).unwrap();
    store_result(&store, &receipts(&store), "a", b"receipt");
    store.close().unwrap();
    let store = Store::open(dir.path(), quiet()).unwrap();
    assert_eq!(
        replayed(&receipts(&store), "a").as_deref(),
        Some(&b"receipt"[..])
    );
}

#[test]
fn a_repeat_within_the_batch_gets_the_result() {
    let store = memory();
    let scope = receipts(&store);
    let mut batch = store.batch();
    batch.once(&scope, "a").result("first").result("last");
    batch.once(&scope, "a").result("the duplicate's own");
    let verdicts = batch.commit().unwrap();
    assert_eq!(seen(verdicts[1].clone()).result(), Some(&b"last"[..]));
    assert_eq!(replayed(&scope, "a").as_deref(), Some(&b"last"[..]));
}

/// The whole program of the documentation: a closure's result is its duplicates' answer.
#[test]
fn a_closures_result_is_replayed_and_its_failure_leaves_none() {
    let store = Store::in_memory(quiet().closures_twice(true)).unwrap();
    let (scope, stock) = (receipts(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch.always().put(&stock, "sku", 5_u64.to_le_bytes());
    let _ = batch.commit().unwrap();
    let take = |id: &str, n: u64| -> Result<Option<u64>, Option<Error>> {
        let verdict = scope.once(id, |tx| {
            let left = tx.get(&stock, "sku").map_err(Fail::Store)?;
            let left = left.map_or(0, |v| u64::from_le_bytes(v[..8].try_into().unwrap()));
            let left = left.checked_sub(n).ok_or(Fail::SoldOut)?;
            tx.put(&stock, "sku", left.to_le_bytes())
                .result(left.to_le_bytes());
            Ok::<_, Fail>(left)
        });
        match verdict {
            Ok(Verdict::First(left)) => Ok(Some(left)),
            Ok(Verdict::Duplicate(s)) => Ok(s
                .result()
                .map(|r| u64::from_le_bytes(r.try_into().unwrap()))),
            Ok(other) => panic!("{other:?}"),
            Err(Fail::Store(error)) => Err(Some(error)),
            Err(Fail::SoldOut) => Err(None),
        }
    };
    assert_eq!(take("a", 2).unwrap(), Some(3));
    assert_eq!(take("a", 2).unwrap(), Some(3), "replayed");
    assert!(take("b", 4).unwrap_err().is_none(), "sold out");
    assert_eq!(take("b", 1).unwrap(), Some(2), "a failure left nothing");
    assert_eq!(take("a", 2).unwrap(), Some(3), "what was left then");
}

enum Fail {
    Store(Error),
    SoldOut,
}

impl From<Error> for Fail {
    fn from(error: Error) -> Fail {
        Fail::Store(error)
    }
}

#[test]
fn a_refusals_result_is_replayed_too() {
    let store = memory();
    let (scope, stock) = (receipts(&store), store.guarded_table("stock").unwrap());
    let mut batch = store.batch();
    batch
        .once(&scope, "batch")
        .add(&stock, "sku", -1, 0..)
        .result("sold")
        .if_refused(|w| {
            w.result("sold out");
        });
    let _ = batch.commit().unwrap();
    let verdict = scope.once("closure", |tx| {
        tx.add(&stock, "sku", -1, 0..).result("sold");
        tx.if_refused(|w| {
            w.put(&stock, "asked", "1").result("sold out");
        });
        Ok::<_, Error>(())
    });
    assert!(matches!(verdict, Ok(Verdict::Refused(r)) if r.is_settled()));
    for id in ["batch", "closure"] {
        let seen = seen(scope.insert(id).unwrap());
        assert!(seen.was_refused());
        assert_eq!(seen.result(), Some(&b"sold out"[..]), "{id}");
    }
    // Without one of its own a refusal has none.
    let mut batch = store.batch();
    batch
        .once(&scope, "none")
        .add(&stock, "sku", -1, 0..)
        .result("sold")
        .if_refused(|_| {});
    let _ = batch.commit().unwrap();
    assert_eq!(replayed(&scope, "none"), None);
}

#[test]
fn a_scope_that_stores_no_results_refuses_one() {
    let store = memory();
    let plain = store.scope("plain", Policy::remember(days(1))).unwrap();
    let small = Policy::remember(days(1)).results().result_bytes_max(3);
    let small = store.scope("small", small).unwrap();
    for (scope, result, why) in [
        (&plain, "x", "stores none"),
        (&small, "xxxx", "more than 3"),
    ] {
        let mut batch = store.batch();
        batch.once(scope, "other");
        batch.once(scope, "a").result(result);
        expect_invalid(batch.commit(), why);
        expect_invalid(
            scope.once("a", |tx| {
                tx.result(result);
                Ok::<_, Error>(())
            }),
            why,
        );
        for id in ["a", "other"] {
            assert!(scope.peek(id).unwrap().is_none(), "{id} was recorded");
        }
    }
    store_result(&store, &small, "a", b"xxx");
    let mut batch = store.batch();
    batch.always().result("x");
    expect_invalid(batch.commit(), "only an item with an id has a result");
    let large = Policy::forever().result_bytes_max(16_385);
    expect_invalid(store.scope("large", large), "result_bytes_max");
}

/// What a held batch is given later must have its room from the start: the segment here has
/// just what the hold asked for. Ids of changing lengths share no section.
#[test]
fn a_held_batch_has_room_for_results_and_refusals() {
    let name = |i: usize| format!("id {i:0width$}", width = 100 + i % 2);
    for results in [true, false] {
        let store = Store::in_memory(quiet().segment_ids_max(16)).unwrap();
        let policy = Policy::remember(days(1)).result_bytes_max(16_384);
        let policy = if results { policy.results() } else { policy };
        let (scope, stock) = (
            store.scope("s", policy).unwrap(),
            store.guarded_table("stock").unwrap(),
        );
        let mut batch = store.batch();
        for i in 0..300 {
            batch.once(&scope, &name(i));
        }
        assert!(batch.hold().unwrap().iter().all(Verdict::is_first));
        for i in 0..300 {
            batch.item(i).add(&stock, "none", -1, 0..).if_refused(|w| {
                if results {
                    w.result(vec![1; 16_384]);
                }
            });
        }
        let verdicts = batch.commit().unwrap();
        assert!(
            verdicts
                .iter()
                .all(|v| matches!(v, Verdict::Refused(r) if r.is_settled()))
        );
        let last = seen(scope.insert(&name(299)).unwrap());
        assert_eq!(last.result().map(<[u8]>::len), results.then_some(16_384));
        assert!(last.was_refused());
    }
}

/// Prolonging a record carries its result on, also under a handle that stores none, and has
/// room for it: segments here have room for sixteen ids.
#[test]
fn a_prolonged_id_keeps_its_result() {
    let clock = firstseen::ManualClock::new();
    let options = |clock: &firstseen::ManualClock| {
        let options = quiet().segment_ids_max(16);
        options.clock(firstseen::Clock::Manual(clock.clone()))
    };
    let store = Store::in_memory(options(&clock)).unwrap();
    let sliding = || Policy::sliding(secs(10), secs(60));
    let with = store.scope("s", sliding().results()).unwrap();
    let large = vec![3_u8; 4096];
    let ids: Vec<String> = (0..40).map(|i| format!("id {i}")).collect();
    for id in &ids {
        store_result(&store, &with, id, &large);
    }
    drop(with);
    let without = store.scope("s", sliding()).unwrap();
    for round in 0..5 {
        clock.advance(secs(9));
        for verdict in without.insert_all(&ids).unwrap() {
            assert_eq!(seen(verdict).result(), Some(&large[..]), "round {round}");
        }
        store.seal().unwrap();
    }
    clock.advance(secs(9));
    store.compact().unwrap();
    assert_eq!(replayed(&without, "id 7").as_deref(), Some(&large[..]));
    clock.advance(secs(60));
    assert!(
        without.insert("id 7").unwrap().is_first(),
        "it left with its id"
    );
    assert_eq!(replayed(&without, "id 7"), None);
}

#[test]
fn a_result_ends_with_its_retention() {
    let (store, clock) = timed();
    let scope = store
        .scope("s", Policy::remember(ms(100)).results())
        .unwrap();
    store_result(&store, &scope, "a", b"old");
    clock.advance(ms(100));
    assert!(scope.insert("a").unwrap().is_first());
    assert_eq!(replayed(&scope, "a"), None);
    store_result(&store, &scope, "b", b"old");
    assert!(scope.forget("b", "a test").unwrap());
    store_result(&store, &scope, "b", b"new");
    assert_eq!(replayed(&scope, "b").as_deref(), Some(&b"new"[..]));
}

/// Large results make more pages, not larger ones: 64 KiB on average, also after merges.
#[test]
fn pages_stay_small_under_large_results() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new().background(false)).unwrap();
    let scope = receipts(&store);
    for run in 0..9 {
        let mut batch = store.batch();
        for i in 0..64 {
            batch
                .once(&scope, &format!("{run} {i}"))
                .result([run; 4096]);
        }
        let _ = batch.commit().unwrap();
        store.seal().unwrap();
    }
    store.compact().unwrap();
    assert!(store.stats().unwrap().background.merges > 0);
    drop(scope);
    store.close().unwrap();
    let store = Store::open(dir.path(), Options::new().background(false)).unwrap();
    let scope = receipts(&store);
    let before = store.stats().unwrap().cache_bytes;
    assert_eq!(replayed(&scope, "3 5").as_deref(), Some(&[3; 4096][..]));
    let read = store.stats().unwrap().cache_bytes - before;
    assert!(read < 256 << 10, "one answer read {read} bytes");
    store.close().unwrap();
    let report = firstseen::verify(dir.path(), &Options::new(), |_| {}).unwrap();
    assert!(report.faults.is_empty(), "{report:?}");
}
