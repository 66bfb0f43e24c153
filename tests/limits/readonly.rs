//! A directory that can't be written: the open says so and changes nothing.

use std::os::unix::fs::PermissionsExt;

use firstseen::{Durability, ErrorKind, Store};

use super::disk::Disk;
use super::load::{Load, verify};
use super::{files_of, skipped, small};

fn expect_refused(dir: &std::path::Path) {
    let before = files_of(dir);
    for _ in 0..2 {
        let error = Store::open(dir, small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
        let text = error.to_string();
        assert!(text.contains(&dir.display().to_string()), "{text}");
        let why = ["Read-only file system", "Permission denied"];
        assert!(why.iter().any(|w| text.contains(w)), "{text}");
    }
    assert_eq!(files_of(dir), before);
}

#[test]
fn a_read_only_file_system_is_refused_and_a_store_on_it_comes_back() {
    let Some(disk) = Disk::mount(64, "a read-only file system") else {
        return;
    };
    let store = Store::open(disk.store(), small()).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    for _ in 0..20 {
        assert!(load.step());
    }
    let acknowledged = load.acknowledged;
    drop(load);
    store.close().unwrap();
    assert!(disk.remount("ro"));
    expect_refused(&disk.store());
    let error = Store::open(disk.root().join("new"), small()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert!(disk.remount("rw"));
    let store = Store::open(disk.store(), small()).unwrap();
    verify(&store, acknowledged, false);
}

#[test]
fn a_directory_without_permission_is_refused() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("store");
    drop(Store::open(&dir, small()).unwrap());
    let permit = |mode: u32| {
        for path in [dir.join("LOCK"), dir.clone()] {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap();
        }
    };
    permit(0o500);
    if std::fs::File::create(dir.join("probe")).is_ok() {
        std::fs::remove_file(dir.join("probe")).unwrap();
        skipped(
            "a directory without permission",
            "this user may write anywhere",
        );
    } else {
        expect_refused(&dir);
    }
    permit(0o700);
    drop(Store::open(&dir, small()).unwrap());
}
