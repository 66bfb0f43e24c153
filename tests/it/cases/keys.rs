//! Ids: what makes two messages one or two, and ids that are none.

use firstseen::{BadId, Key, OnMissingId, Policy, Verdict, days};

use super::{expect_invalid, memory, week};

/// K1: an offset without partition or cluster as the key collided.
#[test]
fn positions_of_other_clusters_topics_and_partitions_are_other_ids() {
    let store = memory();
    let ids = week(&store);
    let positions = [
        ("eu", "orders", 1, 9),
        ("us", "orders", 1, 9),
        ("eu", "order", 1, 9),
        ("eu", "orders", 2, 9),
        ("eu", "orders", 1, 10),
        ("euo", "rders", 1, 9),
    ];
    let key =
        |(cluster, topic, partition, offset)| Key::position(cluster, topic, partition, offset);
    for position in positions {
        assert!(
            ids.insert(&key(position)).unwrap().is_first(),
            "{position:?}"
        );
    }
    for position in positions {
        assert!(ids.insert(&key(position)).unwrap().is_duplicate());
        assert!(key(position).as_position().is_some());
    }
}

/// K2: two endpoints shared one table: the second lost its messages.
#[test]
fn the_same_id_in_two_scopes_is_two_ids() {
    let store = memory();
    let policy = || Policy::remember(days(7));
    let (pay, ship) = (
        store.scope("pay", policy()).unwrap(),
        store.scope("ship", policy()).unwrap(),
    );
    for _ in 0..2 {
        let mut batch = store.batch();
        batch.once(&pay, "order-1");
        batch.once(&ship, "order-1");
        let verdicts = batch.commit().unwrap();
        assert_eq!(verdicts[0].is_first(), verdicts[1].is_first());
        store.seal().unwrap();
    }
    assert_eq!(store.stats().unwrap().verdicts.first, 2);
    assert!(pay.forget("order-1", "test").unwrap());
    assert!(ship.insert("order-1").unwrap().is_duplicate());
    assert!(pay.insert("order-1").unwrap().is_first());
}

/// K3: parts joined by "-": two tenants collided.
#[test]
fn parts_never_run_into_each_other() {
    let store = memory();
    let ids = week(&store);
    let lists: [&[&str]; 6] = [
        &["a", "b-c"],
        &["a-b", "c"],
        &["a-b-c"],
        &["a", "b", "c"],
        &["a", ""],
        &["a"],
    ];
    for list in lists {
        assert!(
            ids.insert(&Key::parts(list)).unwrap().is_first(),
            "{list:?}"
        );
    }
    for list in lists {
        assert!(ids.insert(&Key::parts(list)).unwrap().is_duplicate());
    }
    let key = Key::new("order-1")
        .scene("pay")
        .event("charged")
        .sequence(2);
    assert!(ids.insert(&key).unwrap().is_first());
    assert!(
        ids.insert(&Key::new("order-1").scene("pay").event("charged"))
            .unwrap()
            .is_first()
    );
    assert!(ids.insert(&key).unwrap().is_duplicate());
    assert_eq!(Key::parse(key.as_ref()).unwrap(), key);
}

/// K5: a missing id switched dedup off silently.
#[test]
fn missing_empty_and_oversize_ids_are_verdicts_and_never_recorded() {
    let store = memory();
    let policy = Policy::remember(days(7)).id_bytes_max(8);
    let ids = store.scope("s", policy).unwrap();
    let rows = store.table("rows").unwrap();
    let too_long = BadId::TooLong {
        bytes: 9,
        bytes_max: 8,
    };
    for (id, bad) in [
        (None, BadId::Missing),
        (Some(&b""[..]), BadId::Empty),
        (Some(&b"123456789"[..]), too_long),
    ] {
        for _ in 0..2 {
            assert_eq!(ids.insert(id).unwrap(), Verdict::BadId(bad));
            assert_eq!(ids.insert_all([id]).unwrap()[0], Verdict::BadId(bad));
            let once = ids.once(id, |tx| {
                tx.put(&rows, "a", "1");
                Ok::<_, firstseen::Error>(())
            });
            assert_eq!(once.unwrap(), Verdict::BadId(bad));
            let mut batch = store.batch();
            batch.once(&ids, id).put(&rows, "a", "1");
            assert_eq!(batch.commit().unwrap()[0], Verdict::BadId(bad));
        }
        expect_invalid(ids.peek(id), "id");
        expect_invalid(ids.forget(id, "why"), "id");
    }
    assert_eq!(rows.range("").unwrap().count(), 0);
    assert_eq!(store.stats().unwrap().verdicts.bad_ids, 24);
    assert!(ids.insert("12345678").unwrap().is_first());
    // A key that identifies nothing is the empty id, not one id for everybody.
    assert_eq!(
        ids.insert(&Key::new("").scene("pay")).unwrap(),
        Verdict::BadId(BadId::Empty)
    );
}

/// K5: only where the policy says so is a message without an id processed, each time, counted.
#[test]
fn a_policy_may_process_messages_without_an_id() {
    let store = memory();
    let policy = Policy::remember(days(7)).on_missing_id(OnMissingId::Process);
    let ids = store.scope("s", policy).unwrap();
    let count = store.guarded_table("count").unwrap();
    for n in 1..=3 {
        let mut batch = store.batch();
        batch.once(&ids, None::<&str>).add(&count, "n", 1, ..);
        batch.once(&ids, "").add(&count, "n", 1, ..);
        let verdicts = batch.commit().unwrap();
        assert!(verdicts[0].is_first());
        assert_eq!(verdicts[1], Verdict::BadId(BadId::Empty));
        assert_eq!(super::counter(&count, "n"), Some(n));
    }
    let once = ids.once(None::<&str>, |tx| {
        tx.add(&count, "n", 1, ..);
        Ok::<_, firstseen::Error>(())
    });
    assert!(once.unwrap().is_first());
    let stats = store.stats().unwrap();
    assert_eq!((stats.unkeyed, stats.ids_recorded), (4, 0));
    assert_eq!(ids.scan(..).unwrap().count(), 0);
}

/// A limit beyond what any policy may allow is refused.
#[test]
fn a_wrong_id_limit_is_refused() {
    let store = memory();
    for bytes in [0, 16_385] {
        let policy = Policy::remember(days(1)).id_bytes_max(bytes);
        expect_invalid(store.scope("s", policy), "id_bytes_max");
    }
    let ids = store
        .scope("s", Policy::remember(days(1)).id_bytes_max(16_384))
        .unwrap();
    let long = vec![7; 16_384];
    assert!(ids.insert(&long).unwrap().is_first());
    store.seal().unwrap();
    assert!(ids.insert(&long).unwrap().is_duplicate());
    assert!(ids.insert(&long[1..]).unwrap().is_first());
}
