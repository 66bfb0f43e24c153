//! Files put back from an older copy, one by one and together, and a MANIFEST cut at any record.
//!
//! Unlike other damage each file is whole and its checksums are right: only that it does not fit
//! the others can give it away.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use firstseen::{Durability, Error, ErrorKind, Store};

use super::ask::{Outcome, ask, ask_from};
use super::content::{ALL, FLOOR, OTHERS, Setup, State, copy, make, path};
use super::directory;
use super::files::{Kind, files};

const LEVELS: [Durability; 2] = [Durability::Written, Durability::Synced];

/// A copy of a store in some state, to be changed.
fn copy_of(root: &Path, level: Durability, state: State) -> PathBuf {
    let dir = root.join("copy");
    if dir.exists() {
        fs::remove_dir_all(&dir).unwrap();
    }
    copy(&path(root, level, state), &dir);
    dir
}

fn open_error(dir: &Path, level: Durability) -> Error {
    let opened = Store::open(dir, Setup::later().options(level));
    opened.expect_err("a damaged store does not open")
}

#[test]
fn a_data_folder_put_back_from_an_older_copy_is_recovered_short() {
    let root = directory();
    for level in LEVELS {
        make(root.path(), level);
        for state in [State::Renewed, State::Closed, State::Sealed] {
            let dir = copy_of(root.path(), level, state);
            fs::remove_dir_all(dir.join("data")).unwrap();
            let older = path(root.path(), level, State::Older);
            copy(&older.join("data"), &dir.join("data"));
            for _ in 0..2 {
                let error = open_error(&dir, level);
                assert_eq!(error.kind(), ErrorKind::RecoveredShort, "{error}");
                let (expected, found) = (ALL + OTHERS, FLOOR + OTHERS);
                let text = format!("commit {expected} was durable, {found} was found");
                assert!(error.to_string().contains(&text), "{error}");
            }
            // Accepted, it is the older store, and stays so.
            let (outcome, asked) = ask_from(&dir, level, FLOOR, true);
            assert_eq!(outcome, Outcome::Prefix, "{}", asked.summary());
            assert_eq!((asked.k, asked.wrong), (Some(FLOOR), vec![]));
        }
    }
}

#[test]
fn a_deleted_log_is_noticed() {
    let root = directory();
    for level in LEVELS {
        make(root.path(), level);
        for state in [State::Killed, State::Renewed, State::Closed] {
            let dir = copy_of(root.path(), level, state);
            for (_, file) in files(&dir).iter().filter(|f| f.0 == Kind::Wal) {
                fs::remove_file(file).unwrap();
            }
            for _ in 0..2 {
                let error = open_error(&dir, level);
                assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
                assert!(error.to_string().contains("WAL"), "{error}");
            }
        }
    }
}

#[test]
fn a_missing_file_of_ids_is_named() {
    let root = directory();
    let level = Durability::Written;
    make(root.path(), level);
    let known = files(&path(root.path(), level, State::Closed));
    let ids = known.iter().filter(|f| f.0 == Kind::Ids);
    for (_, file) in ids {
        let dir = copy_of(root.path(), level, State::Closed);
        let name = file.file_name().unwrap().to_str().unwrap();
        fs::remove_file(dir.join("data").join(name)).unwrap();
        let error = open_error(&dir, level);
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains(name), "{error} names {name}");
    }
}

/// All files of a kind, as an older copy has them.
#[test]
fn older_files_among_newer_ones_give_no_wrong_answer() {
    let root = directory();
    LEVELS.iter().for_each(|level| make(root.path(), *level));
    let written = [State::Killed, State::Closed, State::Sealed].map(|s| (Durability::Written, s));
    for (level, state) in written
        .into_iter()
        .chain([(Durability::Synced, State::Closed)])
    {
        let older = path(root.path(), level, State::Older);
        let kinds: BTreeSet<Kind> = files(&older).iter().map(|f| f.0).collect();
        for kind in kinds {
            let dir = copy_of(root.path(), level, state);
            let of_kind = |dir: &Path| {
                let all = files(dir).into_iter();
                all.filter(|f| f.0 == kind).map(|f| f.1).collect::<Vec<_>>()
            };
            for file in of_kind(&dir) {
                fs::remove_file(file).unwrap();
            }
            for file in of_kind(&older) {
                let to = dir.join(file.strip_prefix(&older).unwrap());
                fs::copy(&file, to).unwrap();
            }
            let (outcome, asked) = ask(&dir, level);
            let text = format!(
                "{level:?} {state:?} {kind:?}: {outcome}, {}",
                asked.summary()
            );
            println!("{text}");
            assert!(asked.wrong.is_empty(), "{text}");
        }
    }
}

/// Where each record of a MANIFEST ends.
fn record_ends(bytes: &[u8]) -> Vec<usize> {
    const BLOCK: usize = 32 << 10;
    const HEADER: usize = 7;
    let (mut at, mut ends) = (0, Vec::new());
    while at + HEADER <= bytes.len() {
        if BLOCK - at % BLOCK < HEADER {
            at = at.next_multiple_of(BLOCK);
            continue;
        }
        at += HEADER + usize::from(u16::from_le_bytes([bytes[at + 4], bytes[at + 5]]));
        ends.push(at);
    }
    assert_eq!(at, bytes.len());
    ends
}

/// To RocksDB a MANIFEST without its last records is a whole one.
#[test]
fn a_manifest_cut_at_any_record_gives_no_wrong_answer() {
    let root = directory();
    let written = [State::Killed, State::Closed, State::Sealed].map(|s| (Durability::Written, s));
    LEVELS.iter().for_each(|level| make(root.path(), *level));
    for (level, state) in written
        .into_iter()
        .chain([(Durability::Synced, State::Closed)])
    {
        let dir = path(root.path(), level, state);
        let all = files(&dir);
        let (_, file) = all.iter().find(|f| f.0 == Kind::Manifest).unwrap();
        let bytes = fs::read(file).unwrap();
        let ends = record_ends(&bytes);
        assert!(ends.len() > 20);
        // What an open writes first is needed to open at all; some cuts of it will do.
        let early = ends.len() / 2;
        for (i, end) in ends.into_iter().enumerate() {
            if i < early && i % 8 > 0 {
                continue;
            }
            let dir = copy_of(root.path(), level, state);
            let name = file.file_name().unwrap();
            fs::write(dir.join("data").join(name), &bytes[..end]).unwrap();
            let (outcome, asked) = ask(&dir, level);
            let text = format!("{level:?} {state:?} {end}: {outcome}, {}", asked.summary());
            println!("{text}");
            assert!(asked.wrong.is_empty(), "{text}");
            assert_ne!(outcome, Outcome::Partly, "{text}");
        }
    }
}
