//! Backups: what is in them, what they cost, and what comes back.

use std::fs;
use std::path::{Path, PathBuf};

use firstseen::{
    Approximate, Backups, ErrorKind, Options, Recovery, Sight, Store, copy_store, verify,
};

use super::{counter, expect_error, expect_invalid, quiet, week};

/// A consumer of messages `0..`: an effect and a count for each, and the resume point.
fn consume(store: &Store, from: u64, to: u64) -> u64 {
    let (ids, rows) = (week(store), store.table("rows").unwrap());
    let total = store.guarded_table("total").unwrap();
    let mut firsts = 0;
    for at in (from..to).step_by(10) {
        let mut batch = store.batch();
        for n in at..(at + 10).min(to) {
            let id = format!("id-{n}");
            let mut item = batch.once(&ids, &id);
            let mut row = [0; 300];
            fastrand::Rng::with_seed(n).fill(&mut row);
            item.put(&rows, &id, row).add(&total, "n", 1, ..);
        }
        batch.resume_at("orders/3", (at + 10).min(to));
        let verdicts = batch.commit().unwrap();
        firsts += verdicts.iter().filter(|v| v.is_first()).count() as u64;
    }
    firsts
}

/// Every effect exactly once.
#[track_caller]
fn expect_exact(store: &Store, messages: u64) {
    let total = store.guarded_table("total").unwrap();
    assert_eq!(counter(&total, "n"), Some(messages as i64));
    let rows = store.table("rows").unwrap();
    assert_eq!(rows.range("").unwrap().count() as u64, messages);
    assert_eq!(week(store).scan(..).unwrap().count() as u64, messages);
}

/// V3: after a restore, ids between the backup and the crash were new. Restore and replay from
/// the resume point leave no gap and double nothing, from every backup that there is.
#[test]
fn a_restored_backup_replays_without_gap_or_double() {
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let store = Store::open(&live, quiet()).unwrap();
    let backups = Backups::open(&saved).unwrap();
    let mut made = Vec::new();
    for (round, to) in [55, 155, 155, 430].into_iter().enumerate() {
        let from = store.resume_point("orders/3").unwrap();
        consume(&store, from.and_then(|p| p.as_u64()).unwrap_or(0), to);
        match round {
            0 => store.seal().unwrap(),
            2 => store.compact().unwrap(),
            _ => {}
        }
        let backup = store.backup(&backups).unwrap();
        assert_eq!(backup.resume_points, [("orders/3".to_string(), to.into())]);
        assert_eq!(backup.commit, store.stats().unwrap().written);
        made.push((backup.clone(), to));
    }
    consume(&store, 430, 600);
    drop(store);
    fs::remove_dir_all(&live).unwrap();

    let listed = backups.list().unwrap();
    assert_eq!(listed.len(), 4);
    for ((id, listed), (backup, to)) in listed.into_iter().zip(made) {
        assert_eq!((id, listed.unwrap()), (backup.id, backup));
        let back = root.path().join(format!("back-{id}"));
        backups.restore(id, &back, &Options::new(), |_| {}).unwrap();
        let report = verify(&back, &Options::new(), |_| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.faults);
        let store = Store::open(&back, quiet()).unwrap();
        expect_exact(&store, to);
        // The broker sends some that are known, then all of the lost time.
        assert_eq!(consume(&store, to - 5, 600), 600 - to);
        expect_exact(&store, 600);
        // It is backed up in its turn, to the same folder.
        let again = store.backup(&backups).unwrap();
        assert_eq!(again.resume_points[0].1, 600.into());
    }
}

fn contents(saved: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(saved.join("files")).unwrap();
    let mut files: Vec<_> = files.map(|e| e.unwrap().path()).collect();
    files.sort();
    files
}

/// Files that don't change are kept once, and read once.
#[test]
fn a_second_backup_adds_what_is_new_and_pruning_frees_what_is_old() {
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let store = Store::open(&live, quiet()).unwrap();
    let backups = Backups::open(&saved).unwrap();
    consume(&store, 0, 2_000);
    store.compact().unwrap();
    drop(store);
    let mut told = 0;
    let first = backups.create(&live, &quiet(), |p| told = p.bytes).unwrap();
    assert_eq!(first.bytes_added, first.bytes);
    assert!(told > 100_000, "{told}");
    let again = backups.create(&live, &quiet(), |_| {}).unwrap();
    assert_eq!((again.bytes_added, again.bytes), (0, first.bytes));
    let store = Store::open(&live, quiet()).unwrap();
    consume(&store, 2_000, 2_010);
    let third = store.backup(&backups).unwrap();
    let added = third.bytes_added;
    assert!(added > 0 && added < first.bytes / 2, "{third:?}");

    fs::write(saved.join("tmp/left"), "by a crash").unwrap();
    fs::write(saved.join("files/stray"), "by another").unwrap();
    let before = contents(&saved);
    let pruned = backups.prune(1).unwrap();
    assert_eq!(pruned.backups, 2);
    assert!(pruned.files > 1, "{pruned:?}");
    assert_eq!(
        contents(&saved).len() as u64,
        before.len() as u64 - pruned.files
    );
    assert_eq!(backups.verify(third.id, |_| {}).unwrap(), [""; 0]);
    assert_eq!(backups.list().unwrap().len(), 1);
    assert_eq!(fs::read_dir(saved.join("tmp")).unwrap().count(), 0);
    backups
        .restore(third.id, root.path().join("back"), &quiet(), |_| {})
        .unwrap();
    expect_exact(
        &Store::open(root.path().join("back"), quiet()).unwrap(),
        2_010,
    );
    expect_invalid(backups.prune(0), "at least one");
    expect_invalid(backups.verify(1, |_| {}), "no backup 1");
}

/// Each byte of a backup is guarded: what is not as it was is never restored, and named.
#[test]
fn a_damaged_backup_is_named_and_never_restored() {
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let store = Store::open(&live, quiet()).unwrap();
    consume(&store, 0, 100);
    store.seal().unwrap();
    let backups = Backups::open(&saved).unwrap();
    let id = store.backup(&backups).unwrap().id;
    let back = root.path().join("back");
    for file in contents(&saved) {
        let whole = fs::read(&file).unwrap();
        let mut harmed = whole.clone();
        if let Some(byte) = harmed.last_mut() {
            *byte ^= 1;
        } else {
            harmed.push(0);
        }
        for harmed in [Some(&harmed[..]), Some(&harmed[1..]), None] {
            match harmed {
                Some(bytes) => fs::write(&file, bytes).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            assert_eq!(backups.verify(id, |_| {}).unwrap().len(), 1, "{file:?}");
            let error = backups.restore(id, &back, &quiet(), |_| {}).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
            assert!(!back.exists());
            // Nor can what was begun be taken for a store.
            let partial = Store::open(root.path().join("back.partial"), quiet());
            assert_eq!(partial.unwrap_err().kind(), ErrorKind::Damaged);
        }
        fs::write(&file, whole).unwrap();
    }
    let manifest = saved.join("00000001.backup");
    let whole = fs::read(&manifest).unwrap();
    fs::write(&manifest, &whole[..whole.len() / 2]).unwrap();
    let damaged = backups.list().unwrap().remove(0).1;
    assert_eq!(damaged.unwrap_err().kind(), ErrorKind::Damaged);
    // Its files are not known, so nothing may go.
    assert_eq!(backups.prune(1).unwrap_err().kind(), ErrorKind::Damaged);
    fs::write(&manifest, whole).unwrap();
    backups.restore(id, &back, &quiet(), |_| {}).unwrap();
    expect_exact(&Store::open(&back, quiet()).unwrap(), 100);
}

/// Approximate scopes come back from their last snapshot, as after a crash: never as new ones that
/// say they know all.
#[test]
fn approximate_scopes_come_back_as_after_a_crash() {
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let window = || Approximate::window(super::secs(3600)).expected(1000);
    let store = Store::open(&live, quiet()).unwrap();
    let clicks = store.approximate("clicks", window()).unwrap();
    assert_eq!(clicks.insert("before").unwrap(), Sight::First);
    drop(clicks);
    store.close().unwrap();
    let store = Store::open(&live, quiet()).unwrap();
    let clicks = store.approximate("clicks", window()).unwrap();
    assert_eq!(clicks.insert("after").unwrap(), Sight::First);
    let backups = Backups::open(&saved).unwrap();
    let id = store.backup(&backups).unwrap().id;
    let (back, copy) = (root.path().join("back"), root.path().join("copy"));
    backups.restore(id, &back, &quiet(), |_| {}).unwrap();
    copy_store(&live, &copy, &quiet(), |_| {}).unwrap();
    for dir in [back, copy] {
        let store = Store::open(&dir, quiet()).unwrap();
        let clicks = store.approximate("clicks", window()).unwrap();
        assert!(matches!(clicks.recovery().unwrap(), Recovery::Short { .. }));
        let known = clicks.insert("before").unwrap();
        assert!(matches!(known, Sight::Probably { .. }), "{known:?}");
    }
}

#[test]
fn what_is_there_is_never_written_over() {
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let store = Store::open(&live, quiet()).unwrap();
    consume(&store, 0, 10);
    let backups = Backups::open(&saved).unwrap();
    expect_invalid(
        backups.create(root.path().join("none"), &quiet(), |_| {}),
        "no store",
    );
    expect_invalid(Backups::open(&live), "no folder of backups");
    let id = store.backup(&backups).unwrap().id;
    expect_invalid(backups.restore(id, &live, &quiet(), |_| {}), "not empty");
    expect_invalid(copy_store(&live, &saved, &quiet(), |_| {}), "not empty");
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    backups.restore(id, &empty, &quiet(), |_| {}).unwrap();
    expect_exact(&Store::open(&empty, quiet()).unwrap(), 10);
    // Two don't use the folder at once, but for reading.
    let lock = fs::File::open(saved.join("LOCK")).unwrap();
    lock.lock_shared().unwrap();
    assert!(backups.verify(id, |_| {}).is_ok());
    for busy in [backups.prune(1).map(drop), store.backup(&backups).map(drop)] {
        expect_error(busy, ErrorKind::AlreadyOpen, firstseen::Recorded::No);
    }
}

/// A copy from outside of a store that is written all the time is of one commit, as its backups
/// are.
#[test]
fn copies_of_a_busy_store_are_of_one_commit() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let root = tempfile::tempdir().unwrap();
    let (live, saved) = (root.path().join("live"), root.path().join("saved"));
    let options = Options::new().segment_ids_max(300).wal_bytes_max(1 << 20);
    let store = Store::open(&live, options).unwrap();
    consume(&store, 0, 10);
    let backups = Backups::open(&saved).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| {
            let mut at = 10;
            while !stop.load(Ordering::SeqCst) {
                consume(&store, at, at + 10);
                at += 10;
            }
        });
        let mut last = 0;
        for n in 0..8 {
            let copy = root.path().join(format!("copy-{n}"));
            let done = if n % 2 == 0 {
                copy_store(&live, &copy, &Options::new(), |_| {})
            } else {
                let made = backups.create(&live, &Options::new(), |_| {});
                let restored =
                    made.and_then(|made| backups.restore(made.id, &copy, &quiet(), |_| {}));
                restored.map(drop)
            };
            stop.store(n == 7 || done.is_err(), Ordering::SeqCst);
            done.unwrap();
            let store = Store::open(&copy, quiet()).unwrap();
            let point = store.resume_point("orders/3").unwrap().unwrap();
            let point = point.as_u64().unwrap();
            assert!(point >= last, "{point} {last}");
            expect_exact(&store, point);
            last = point;
        }
    });
}
