//! The three levels: what returned survives what each says, and duplicates wait for originals.

use firstseen::{Durability, Options, Store};

use super::{LEVELS, memory, put_once, quiet, week};

#[test]
fn buffered_commits_are_lost_whole_in_a_crash_and_others_are_not() {
    let options = quiet().buffer_interval(super::secs(1));
    let store = Store::in_memory(options).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let commit = |id: &str, level| {
        let mut batch = store.batch();
        batch.durability(level);
        batch.once(&ids, id).put(&rows, id, "1");
        assert!(batch.commit().unwrap()[0].is_first());
    };
    commit("written", Durability::Written);
    commit("synced", Durability::Synced);
    commit("buffered", Durability::Buffered);
    drop((ids, rows));
    let store = store.crash_and_reopen().unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    for id in ["written", "synced"] {
        assert!(rows.get(id).unwrap().is_some());
        assert!(ids.insert(id).unwrap().is_duplicate(), "{id}");
    }
    let lost = rows.get("buffered").unwrap().is_none();
    // The ticker may have written it just before; but id and row go together.
    assert_eq!(ids.insert("buffered").unwrap().is_first(), lost);
}

/// What is buffered is written before a sync, a row read, a forget, and any other level.
#[test]
fn what_is_buffered_is_seen_by_whoever_needs_it() {
    let options = quiet()
        .durability(Durability::Buffered)
        .buffer_interval(super::secs(1));
    let store = Store::in_memory(options).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let counts = store.guarded_table("counts").unwrap();
    let mut n = 0;
    let mut buffer = || {
        n += 1;
        let id = format!("id-{n}");
        assert!(put_once(&store, &ids, &rows, &id).unwrap().is_first());
        id
    };
    let id = buffer();
    assert!(rows.get(&id).unwrap().is_some(), "a read misses a row");
    let id = buffer();
    assert!(
        ids.insert(&id).unwrap().is_duplicate(),
        "an insert misses an id"
    );
    let id = buffer();
    assert!(ids.forget(&id, "test").unwrap(), "a forget misses an id");
    let before = rows.range("").unwrap().count();
    buffer();
    assert_eq!(rows.range("").unwrap().count(), before + 1);
    buffer();
    assert_eq!(ids.scan(..).unwrap().count(), 4, "a scan misses ids");
    // A guarded row is read by its condition: an earlier add must be there.
    for expected in 1..=3 {
        let mut batch = store.batch();
        batch
            .once(&ids, &format!("add-{expected}"))
            .add(&counts, "n", 1, ..);
        let _ = batch.commit().unwrap();
        assert_eq!(super::counter(&counts, "n"), Some(expected));
    }
    let id = buffer();
    store.sync().unwrap();
    drop((ids, rows, counts));
    let store = store.crash_and_reopen().unwrap();
    assert!(
        week(&store).insert(&id).unwrap().is_duplicate(),
        "a sync did not write it"
    );
}

#[test]
fn sync_makes_everything_before_it_durable() {
    for level in LEVELS {
        let store = Store::in_memory(quiet().durability(level)).unwrap();
        let ids = week(&store);
        for n in 0..50 {
            let _ = ids.insert(&format!("{n}")).unwrap();
        }
        store.sync().unwrap();
        let stats = store.stats().unwrap();
        assert!(stats.written > 0);
        assert_eq!(stats.durable, stats.written, "{level:?}");
    }
}

#[test]
fn a_synced_commit_is_durable_when_it_returns() {
    let store = memory();
    let ids = week(&store);
    for n in 0..10 {
        let mut batch = store.batch();
        batch.once(&ids, &format!("{n}"));
        let _ = batch.durability(Durability::Synced).commit().unwrap();
        let stats = store.stats().unwrap();
        assert_eq!(stats.durable, stats.written);
    }
    let _ = ids.insert("written only").unwrap();
    let stats = store.stats().unwrap();
    assert_eq!(stats.durable + 1, stats.written);
    // A synced duplicate of a written original makes it durable first.
    let mut batch = store.batch();
    batch.once(&ids, "written only");
    assert!(batch.durability(Durability::Synced).commit().unwrap()[0].is_duplicate());
    let stats = store.stats().unwrap();
    assert_eq!(stats.durable, stats.written);
}

/// A duplicate is never answered before its original is as durable as promised.
#[test]
#[cfg(feature = "failpoints")]
fn a_duplicate_waits_for_its_synced_original() {
    if !super::alone(module_path!(), "a_duplicate_waits_for_its_synced_original") {
        return;
    }
    let store = Store::in_memory(quiet().wait_max(super::secs(60))).unwrap();
    let ids = week(&store);
    assert!(ids.insert("warm").unwrap().is_first());
    fail::cfg("commit::before_sync", "pause").unwrap();
    std::thread::scope(|s| {
        let original = s.spawn(|| {
            let mut batch = store.batch();
            batch.once(&ids, "a");
            batch.durability(Durability::Synced).commit().unwrap()[0].is_first()
        });
        super::until("the original is written", || {
            store.stats().unwrap().written >= 2
        });
        let duplicate = s.spawn(|| ids.insert("a").unwrap().is_duplicate());
        super::nap(super::ms(100));
        assert!(
            !original.is_finished(),
            "the original returned before its sync"
        );
        assert!(
            !duplicate.is_finished(),
            "a duplicate was answered before its original"
        );
        // Others don't wait for it.
        assert!(ids.insert("b").unwrap().is_first());
        fail::remove("commit::before_sync");
        assert!(original.join().unwrap());
        assert!(duplicate.join().unwrap());
    });
}

#[test]
fn levels_mix_in_one_store_and_survive_reopening() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3_usize {
        let store = Store::open(dir.path(), Options::new()).unwrap();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        for n in 0..30_usize {
            let mut batch = store.batch();
            batch.durability(LEVELS[n % 3]);
            let id = format!("{n}");
            batch.once(&ids, &id).put(&rows, &id, "1");
            assert_eq!(
                batch.commit().unwrap()[0].is_first(),
                round == 0,
                "{n} in {round}"
            );
        }
        assert_eq!(rows.range("").unwrap().count(), 30);
        drop((ids, rows));
        store.close().unwrap();
    }
}
