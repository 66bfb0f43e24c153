//! `Stores`: one store a partition, on shared memory and threads.

use firstseen::{ErrorKind, Options, Recorded, Resources, Stores};

use super::{expect_error, expect_invalid, ms, now, secs, week};

#[test]
fn a_partition_moves_with_its_ids_and_positions() {
    let root = tempfile::tempdir().unwrap();
    let consumer = || {
        Stores::new(
            root.path(),
            Options::new(),
            Resources::new().cache_bytes(8 << 20),
        )
        .unwrap()
    };
    let one = consumer();
    let store = one.assign("orders/3").unwrap();
    let mut batch = store.batch();
    batch.once(&week(&store), "a");
    batch.resume_at("orders/3", 1);
    let _ = batch.commit().unwrap();
    // Assigned again, it is the same open store.
    assert!(
        week(&one.assign("orders/3").unwrap())
            .insert("a")
            .unwrap()
            .is_duplicate()
    );
    assert!(
        week(&one.assign("orders/4").unwrap())
            .insert("a")
            .unwrap()
            .is_first()
    );
    let mut assigned = one.assigned();
    assigned.sort();
    assert_eq!(assigned, ["orders/3", "orders/4"]);

    let two = consumer();
    assert_eq!(
        two.assign("orders/3").unwrap_err().kind(),
        ErrorKind::AlreadyOpen
    );
    one.revoke("orders/3", secs(5)).unwrap();
    expect_error(store.sync(), ErrorKind::Closed, Recorded::No);
    assert_eq!(one.assigned(), ["orders/4"]);
    let store = two.assign("orders/3").unwrap();
    assert_eq!(
        store
            .resume_point("orders/3")
            .unwrap()
            .and_then(|p| p.as_u64()),
        Some(1)
    );
    assert!(week(&store).insert("a").unwrap().is_duplicate());
    expect_invalid(one.revoke("orders/3", secs(1)), "not assigned");
    expect_invalid(one.assign(""), "name");
    two.revoke("orders/3", secs(5)).unwrap();
    one.assign("orders/3").unwrap();
}

/// Submitted work is finished and synced within the deadline.
#[test]
fn a_revoke_finishes_what_was_submitted() {
    let root = tempfile::tempdir().unwrap();
    let stores = Stores::new(root.path(), Options::new(), Resources::new()).unwrap();
    let store = stores.assign("p").unwrap();
    let ids = week(&store);
    for n in 0..500_u32 {
        let mut batch = store.batch();
        batch.once(&ids, &n.to_be_bytes());
        batch.resume_at("p", u64::from(n) + 1);
        drop(batch.submit());
    }
    let began = now();
    stores.revoke("p", secs(20)).unwrap();
    assert!(began.elapsed() < secs(20));
    let store = stores.assign("p").unwrap();
    assert_eq!(
        store.resume_point("p").unwrap().and_then(|p| p.as_u64()),
        Some(500)
    );
    assert_eq!(week(&store).scan(..).unwrap().count(), 500);
}

/// A held batch does not let a revoke wait beyond its deadline, though `wait_max` is longer.
#[test]
fn a_revoke_keeps_its_deadline() {
    let root = tempfile::tempdir().unwrap();
    let options = Options::new().wait_max(secs(600));
    let stores = Stores::new(root.path(), options, Resources::new()).unwrap();
    let store = stores.assign("p").unwrap();
    let mut batch = store.batch();
    batch.once(&week(&store), "a");
    let _ = batch.hold().unwrap();
    let began = now();
    expect_error(stores.revoke("p", ms(100)), ErrorKind::Busy, Recorded::No);
    assert!(began.elapsed() >= ms(100) && began.elapsed() < secs(60));
    assert!(stores.assigned().is_empty());
    // Until the batch goes, the directory is not free; then it is.
    assert_eq!(
        stores.assign("p").unwrap_err().kind(),
        ErrorKind::AlreadyOpen
    );
    drop(batch);
    assert!(
        week(&stores.assign("p").unwrap())
            .insert("a")
            .unwrap()
            .is_first()
    );
}

#[test]
fn many_stores_share_threads_and_memory() {
    let root = tempfile::tempdir().unwrap();
    let resources = Resources::new().segment_bytes(16 << 20).threads(2);
    let stores = Stores::new(root.path(), Options::new(), resources).unwrap();
    let open: Vec<_> = (0..16)
        .map(|n| stores.assign(&format!("p{n}")).unwrap())
        .collect();
    std::thread::scope(|s| {
        for store in &open {
            s.spawn(|| {
                let ids = week(store);
                for n in 0..200_u32 {
                    assert!(ids.insert(&n.to_be_bytes()).unwrap().is_first());
                }
            });
        }
    });
    for store in &open {
        assert_eq!(store.stats().unwrap().background.threads, 3);
        store.seal().unwrap();
        assert_eq!(week(store).scan(..).unwrap().count(), 200);
    }
    drop(open);
    for partition in stores.assigned() {
        stores.revoke(&partition, secs(20)).unwrap();
    }
}

#[test]
fn wrong_options_are_refused_before_anything_is_made() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("stores");
    let options = Options::new().tables_max(0).scopes_max(0);
    let Err(error) = Stores::new(&path, options, Resources::new()) else {
        panic!("accepted")
    };
    assert!(error.to_string().contains("tables_max") && error.to_string().contains("scopes_max"));
    assert!(!path.exists());
}
