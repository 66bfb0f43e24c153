//! The reserve: writes are refused while there is still room, so that nothing fails.

use std::fs::File;
use std::io::Write;

use firstseen::{Durability, Health, Store};

use super::disk::{Disk, empty};
use super::load::{Load, verify};
use super::{small, until};

#[test]
fn below_the_reserve_writes_are_refused_and_everything_else_goes_on() {
    const RESERVE: u64 = 24 << 20;
    let Some(disk) = Disk::mount(64, "the reserve of a disk") else {
        return;
    };
    for level in [
        Durability::Buffered,
        Durability::Written,
        Durability::Synced,
    ] {
        let store = Store::open(disk.store(), small().free_bytes_min(RESERVE)).unwrap();
        let mut load = Load::new(&store, level);
        for _ in 0..50 {
            assert!(load.step());
        }
        // Leaves less than the reserve, and enough that nothing fails.
        let mut ballast = File::create(disk.root().join("ballast")).unwrap();
        let free = || {
            let stat = rustix::fs::statvfs(disk.root()).unwrap();
            stat.f_bavail * stat.f_frsize
        };
        while free() > RESERVE - (4 << 20) {
            ballast.write_all(&[0x5a; 64 << 10]).unwrap();
        }
        until("it is refused", || !load.step());
        assert!(matches!(store.health(), Health::Degraded(why) if why.contains("free space")));
        load.sync();
        load.reads_go_on();
        store.seal().unwrap();
        store.compact().unwrap();
        load.reads_go_on();
        assert!(
            store
                .scope("new", firstseen::Policy::forever())
                .unwrap_err()
                .is_retryable()
        );
        assert_eq!(store.stats().unwrap().background.failures, 0);
        drop(ballast);
        empty(disk.root());
        until("it goes on", || load.step());
        assert_eq!(store.health(), Health::Ready);
        store.sync().unwrap();
        let acknowledged = load.acknowledged;
        drop(load);
        store.close().unwrap();
        let store = Store::open(disk.store(), small()).unwrap();
        verify(&store, acknowledged, false);
        store.close().unwrap();
        std::fs::remove_dir_all(disk.store()).unwrap();
    }
}

/// Somebody else fills the disk as fast as it goes, again and again, under load: within the
/// reserve nothing fails, so nothing has to be overcome.
#[test]
fn with_a_reserve_a_disk_that_others_fill_never_fails_a_write() {
    let Some(disk) = Disk::mount(64, "a disk that others fill") else {
        return;
    };
    let store = Store::open(disk.store(), small().free_bytes_min(16 << 20)).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    for _ in 0..6 {
        for _ in 0..100 {
            until("it is written", || load.step());
        }
        let mut ballast = File::create(disk.root().join("ballast")).unwrap();
        let free = || {
            let stat = rustix::fs::statvfs(disk.root()).unwrap();
            stat.f_bavail * stat.f_frsize
        };
        // To the last eighth, beyond which the file system's own rounding begins.
        while free() > 2 << 20 {
            ballast.write_all(&[0x5a; 64 << 10]).unwrap();
        }
        load.until_refused();
        for _ in 0..20 {
            assert!(!load.step());
        }
        load.reads_go_on();
        let sealed = store.seal();
        assert!(sealed.is_ok() || sealed.is_err_and(|e| e.is_retryable()));
        assert!(
            store.stats().unwrap().background.errors == 0,
            "RocksDB met the end"
        );
        drop(ballast);
        empty(disk.root());
        let waited = until("it goes on", || load.step());
        assert!(
            waited.as_secs() < 3,
            "{waited:?}: nothing had to be overcome"
        );
        until("background work goes on", || store.seal().is_ok());
    }
    load.sync();
    let acknowledged = load.acknowledged;
    drop(load);
    let store = store.crash_and_reopen().unwrap();
    verify(&store, acknowledged, false);
}

/// A closure is refused before it runs: it must not do its work for nothing.
#[test]
fn below_the_reserve_no_closure_runs() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    assert!(super::week(&store).insert("a").unwrap().is_first());
    store.close().unwrap();
    // More than any disk has.
    let store = Store::open(dir.path(), small().free_bytes_min(1 << 60)).unwrap();
    let ids = store.existing_scope("ids").unwrap().unwrap();
    let run = |id: &str| {
        ids.once(id, |_| -> firstseen::Result<()> {
            panic!("the closure ran");
        })
    };
    assert!(run("a").unwrap().is_duplicate());
    assert_eq!(run("b").unwrap_err().kind(), firstseen::ErrorKind::Full);
    // What is held now is written once there is room, by the same batch.
    let mut batch = store.batch();
    batch.once(&ids, "c");
    assert!(batch.hold().unwrap()[0].is_first());
    assert_eq!(
        batch.commit().unwrap_err().kind(),
        firstseen::ErrorKind::Full
    );
}
