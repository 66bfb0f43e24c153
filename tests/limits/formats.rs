//! A store of a newer format: both formats are named, and the store is left as it is.

use std::path::Path;

use firstseen::{Durability, ErrorKind, Store};

use super::load::{Load, verify};
use super::{files_of, small};

/// Turns the digit of the floor's slots, as a newer release would write it.
fn stamp(dir: &Path, digit: u8) {
    let path = dir.join("FLOOR");
    let mut floor = std::fs::read(&path).unwrap();
    for slot in [0, 4096] {
        if floor[slot..].starts_with(b"FSf") {
            floor[slot + 3] = digit;
        }
    }
    std::fs::write(path, floor).unwrap();
}

#[test]
fn a_newer_format_is_refused_by_name_and_left_untouched() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), small()).unwrap();
    let mut load = Load::new(&store, Durability::Written);
    for _ in 0..20 {
        assert!(load.step());
    }
    store.seal().unwrap();
    let acknowledged = load.acknowledged;
    drop(load);
    store.close().unwrap();
    for digit in [b'2', b'9'] {
        stamp(dir.path(), digit);
        let before = files_of(dir.path());
        let error = Store::open(dir.path(), small()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        let text = error.to_string();
        let newer = format!("of format {}", char::from(digit));
        assert!(
            text.contains(&newer) && text.contains("reads format 1"),
            "{text}"
        );
        assert_eq!(files_of(dir.path()), before);
    }
    stamp(dir.path(), b'1');
    let store = Store::open(dir.path(), small()).unwrap();
    verify(&store, acknowledged, false);
}
