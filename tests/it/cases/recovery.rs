//! Coming back: positions with ids, copies, and stores that cannot be read.

use std::fs;
use std::path::Path;

use firstseen::{Action, ErrorKind, Options, Policy, Store, days};

use super::{memory, put_once, quiet, week};

/// V2: a duplicate surfaced as an error and froze the partition.
#[test]
fn a_duplicate_is_no_error_and_the_position_advances() {
    let store = memory();
    let ids = week(&store);
    for next in 1..=5_u64 {
        let mut batch = store.batch();
        batch.once(&ids, "always the same");
        batch.resume_at("orders/3", next);
        let verdicts = batch.commit().unwrap();
        assert_eq!(verdicts[0].is_first(), next == 1);
        assert!(matches!(
            verdicts[0].action(),
            Action::Proceed | Action::Ack
        ));
        let point = store.resume_point("orders/3").unwrap();
        assert_eq!(point.and_then(|p| p.as_u64()), Some(next));
    }
}

/// V3: checkpoints said offset 0; after a restore, ids between checkpoint and crash were new.
/// Position and ids are of one moment, so that restore and replay leave no gap and no double.
#[test]
fn a_restored_copy_replays_from_its_own_position() {
    let root = tempfile::tempdir().unwrap();
    let (live, copy) = (root.path().join("live"), root.path().join("copy"));
    let consume = |store: &Store, from: u64, to: u64| {
        let (ids, rows) = (week(store), store.table("rows").unwrap());
        let total = store.guarded_table("total").unwrap();
        let mut firsts = 0;
        for at in (from..to).step_by(10) {
            let mut batch = store.batch();
            for n in at..(at + 10).min(to) {
                let id = format!("id-{n}");
                batch
                    .once(&ids, &id)
                    .put(&rows, &id, "1")
                    .add(&total, "n", 1, ..);
            }
            batch.resume_at("s", (at + 10).min(to));
            firsts += batch
                .commit()
                .unwrap()
                .iter()
                .filter(|v| v.is_first())
                .count();
        }
        firsts as u64
    };
    let next = |store: &Store| store.resume_point("s").unwrap().unwrap().as_u64().unwrap();
    let store = Store::open(&live, quiet()).unwrap();
    assert_eq!(consume(&store, 0, 55), 55);
    store.seal().unwrap();
    assert_eq!(consume(&store, 55, 155), 100);
    store.checkpoint(&copy).unwrap();
    assert_eq!(consume(&store, 155, 300), 145);
    drop(store);
    fs::remove_dir_all(&live).unwrap();

    let store = Store::open(&copy, quiet()).unwrap();
    assert_eq!(next(&store), 155);
    let total = store.guarded_table("total").unwrap();
    assert_eq!(super::counter(&total, "n"), Some(155));
    // The broker sends some that are known, then all of the lost time.
    assert_eq!(consume(&store, next(&store) - 5, 300), 145);
    assert_eq!(super::counter(&total, "n"), Some(300));
    assert_eq!(week(&store).scan(..).unwrap().count(), 300);
}

/// A checkpoint opens as a store of its own, beside the original, with all ids and rows, whether
/// they were sealed or not, buffered or synced.
#[test]
fn a_checkpoint_has_everything_that_returned_before() {
    for level in super::LEVELS {
        let root = tempfile::tempdir().unwrap();
        let options = || Options::new().durability(level);
        let store = Store::open(root.path().join("live"), options()).unwrap();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        for n in 0..100 {
            let _ = put_once(&store, &ids, &rows, &format!("id-{n}")).unwrap();
            if n % 30 == 29 {
                store.seal().unwrap();
            }
        }
        let to = root.path().join("copy");
        store.checkpoint(&to).unwrap();
        super::expect_invalid(store.checkpoint(&to), "exists");
        let copy = Store::open(&to, options()).unwrap();
        let (copied, copied_rows) = (week(&copy), copy.table("rows").unwrap());
        assert_eq!(copied_rows.range("").unwrap().count(), 100);
        for n in 0..100 {
            assert!(
                copied.insert(&format!("id-{n}")).unwrap().is_duplicate(),
                "{n} {level:?}"
            );
        }
        // They go separate ways from here.
        assert!(copied.insert("new").unwrap().is_first());
        assert!(ids.insert("new").unwrap().is_first());
        copy.seal().unwrap();
        drop((copied, copied_rows));
        copy.close().unwrap();
        let copy = Store::open(&to, options()).unwrap();
        assert!(week(&copy).insert("new").unwrap().is_duplicate());
    }
}

#[test]
fn a_store_in_memory_has_no_checkpoint() {
    let root = tempfile::tempdir().unwrap();
    let error = memory().checkpoint(root.path().join("copy")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
}

/// A directory with ids, closed cleanly.
fn written(dir: &Path, options: Options) {
    let store = Store::open(dir, options).unwrap();
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    for n in 0..100 {
        let _ = ids.insert(&format!("id-{n}")).unwrap();
    }
    store.seal().unwrap();
    let _ = ids.insert("unsealed").unwrap();
    drop(ids);
    store.close().unwrap();
}

#[track_caller]
fn expect_unreadable(dir: &Path, what: &str) {
    for _ in 0..2 {
        match Store::open(dir, quiet()) {
            Ok(_) => panic!("it opened, after: {what}"),
            Err(e) => assert!(
                matches!(
                    e.kind(),
                    ErrorKind::Damaged | ErrorKind::RecoveredShort | ErrorKind::Degraded
                ),
                "{what}: {e:?}"
            ),
        }
    }
}

fn files(dir: &Path, wanted: impl Fn(&str) -> bool) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(dir.join("data")).unwrap().map(|e| e.unwrap());
    let found: Vec<_> = entries
        .filter(|e| wanted(&e.file_name().to_string_lossy()))
        .map(|e| e.path())
        .collect();
    assert!(!found.is_empty());
    found
}

/// V4: an unreadable store was wiped and replaced by an empty one.
#[test]
fn an_unreadable_store_is_an_error_and_never_an_empty_one() {
    type Harm = fn(&Path);
    let harms: [(&str, Harm); 8] = [
        ("data wiped", |dir| {
            fs::remove_dir_all(dir.join("data")).unwrap();
        }),
        ("data emptied", |dir| {
            files(dir, |_| true)
                .iter()
                .for_each(|f| fs::remove_file(f).unwrap());
        }),
        ("CURRENT gone", |dir| {
            fs::remove_file(dir.join("data/CURRENT")).unwrap()
        }),
        ("CURRENT garbage", |dir| {
            fs::write(dir.join("data/CURRENT"), "garbage").unwrap()
        }),
        ("MANIFEST garbage", |dir| {
            for file in files(dir, |n| n.starts_with("MANIFEST")) {
                fs::write(file, vec![0x5a; 500]).unwrap();
            }
        }),
        ("table files gone", |dir| {
            for file in files(dir, |n| n.ends_with(".sst")) {
                fs::remove_file(file).unwrap();
            }
        }),
        ("floor gone", |dir| {
            let is_floor = |name: &str| !["data", "tmp", "filters", "LOCK"].contains(&name);
            let entries = fs::read_dir(dir).unwrap().map(|e| e.unwrap());
            let floors: Vec<_> = entries
                .filter(|e| is_floor(&e.file_name().to_string_lossy()))
                .collect();
            assert_eq!(floors.len(), 1);
            floors
                .iter()
                .for_each(|f| fs::remove_file(f.path()).unwrap());
        }),
        ("all garbage", |dir| {
            for file in files(dir, |_| true) {
                fs::write(file, "garbage").unwrap();
            }
        }),
    ];
    for (what, harm) in harms {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        written(&dir, quiet());
        harm(&dir);
        expect_unreadable(&dir, what);
    }
}

/// V4: also a store that was killed before it ever sealed or renewed its floor.
#[test]
fn a_young_store_that_was_killed_and_wiped_is_an_error_too() {
    for level in [
        firstseen::Durability::Written,
        firstseen::Durability::Synced,
    ] {
        let root = tempfile::tempdir().unwrap();
        let dir = root.path().join("store");
        let store = Store::open(&dir, quiet().durability(level)).unwrap();
        assert!(week(&store).insert("a").unwrap().is_first());
        let store = store.crash_and_reopen().unwrap();
        assert!(week(&store).insert("a").unwrap().is_duplicate());
        // Nothing is closed properly: the files are copied from under it.
        let copy = root.path().join("copy");
        fs::create_dir_all(copy.join("data")).unwrap();
        for entry in fs::read_dir(&dir).unwrap().map(|e| e.unwrap()) {
            if entry.file_type().unwrap().is_file() {
                fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
            }
        }
        expect_unreadable(&copy, "data wiped early");
    }
}

/// A damaged page is an error of the call that reads it, never "new".
#[test]
fn a_damaged_page_is_an_error_and_never_new() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), quiet().filter_bits_per_id(0)).unwrap();
    let ids = week(&store);
    let some: Vec<[u8; 16]> = (0..20_000_u128).map(u128::to_be_bytes).collect();
    let _ = ids.insert_all(&some).unwrap();
    store.seal().unwrap();
    drop(ids);
    store.close().unwrap();
    let largest = files(root.path(), |n| n.ends_with(".sst"))
        .into_iter()
        .max_by_key(|f| fs::metadata(f).unwrap().len())
        .unwrap();
    let mut bytes = fs::read(&largest).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xa5);
    fs::write(largest, bytes).unwrap();
    let store = Store::open(root.path(), quiet().filter_bits_per_id(0)).unwrap();
    let ids = week(&store);
    let (mut damaged, mut known) = (0, 0);
    for id in some.iter().step_by(7) {
        match ids.insert(id) {
            Ok(verdict) => {
                assert!(verdict.is_duplicate(), "{verdict:?}");
                known += 1;
            }
            Err(e) => {
                assert_eq!(e.kind(), ErrorKind::Damaged, "{e}");
                damaged += 1;
            }
        }
    }
    assert!(damaged > 0 && known > 0, "{damaged} damaged, {known} known");
    // The others are served all the same.
    assert_eq!(store.stats().unwrap().ids_in_flight, 0);
}
