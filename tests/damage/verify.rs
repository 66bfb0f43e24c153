//! The check of a store at rest: sound stores have no fault, each damaged file is named, and
//! nothing in a checked directory changes.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use fastrand::Rng;
use firstseen::{Area, Durability, ErrorKind, Remedy, Report, Store, verify};
use xxhash_rust::xxh3::xxh3_64;

use super::content::{ALL, OTHERS, Open, Setup, State, copy, make, path};
use super::directory;
use super::files::{Kind, files};
use super::harm::Harm;

const LEVEL: Durability = Durability::Written;

pub(crate) fn check(dir: &Path) -> Report {
    let options = Setup::later().options(LEVEL);
    verify(dir, &options, |_| {}).unwrap()
}

/// Every file with its bytes and its time of change.
fn all_files(dir: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, SystemTime)>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (Vec::new(), changed));
            all_files(&path, found);
        } else {
            let changed = path.metadata().unwrap().modified().unwrap();
            found.insert(path.clone(), (fs::read(&path).unwrap(), changed));
        }
    }
}

#[test]
fn sound_stores_have_no_fault_and_do_not_change() {
    let root = directory();
    for level in [Durability::Written, Durability::Synced] {
        make(root.path(), level);
        for state in [
            State::Older,
            State::Killed,
            State::Renewed,
            State::Closed,
            State::Sealed,
        ] {
            let dir = path(root.path(), level, state);
            let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
            all_files(&dir, &mut before);
            let report = check(&dir);
            all_files(&dir, &mut after);
            assert!(before == after, "{state:?}: the directory changed");
            assert_eq!(
                (&report.faults[..], &report.notes[..]),
                (&[][..], &[][..]),
                "{state:?}"
            );
            let checked = report.checked;
            assert!(
                checked.runs >= 3 && checked.filtered_ids > 2000,
                "{checked:?}"
            );
            assert!(checked.rows > checked.sealed_ids / 2, "{checked:?}");
            let commits = match state {
                State::Older => 10,
                State::Sealed => 0,
                _ => 20,
            };
            assert_eq!(checked.commits, commits, "{state:?} of {}", ALL + OTHERS);
            assert_eq!(checked.unsealed_ids, commits * 41, "{state:?}");
        }
    }
}

/// Damages each file of a kind, and expects a fault there that says what to do.
#[test]
fn each_damaged_file_is_named_with_what_to_do() {
    let root = directory();
    make(root.path(), LEVEL);
    let closed = path(root.path(), LEVEL, State::Closed);
    let mut rng = Rng::with_seed(1);
    for (kind, harm, area, remedy) in [
        (Kind::Ids, Harm::FlipBegin, Area::Ids, Remedy::Restore),
        (Kind::Ids, Harm::CutTail, Area::Database, Remedy::Restore),
        (Kind::Ids, Harm::Delete, Area::Database, Remedy::Restore),
        (Kind::Log, Harm::FlipBegin, Area::Log, Remedy::Restore),
        (
            Kind::Catalog,
            Harm::FlipBegin,
            Area::Catalog,
            Remedy::Restore,
        ),
        (
            Kind::Points,
            Harm::FlipBegin,
            Area::ResumePoints,
            Remedy::Restore,
        ),
        (Kind::Audit, Harm::FlipBegin, Area::Audit, Remedy::Restore),
        (Kind::Rows, Harm::FlipBegin, Area::Table, Remedy::Restore),
        (
            Kind::Manifest,
            Harm::CutHalf,
            Area::Database,
            Remedy::Restore,
        ),
        (Kind::Current, Harm::Delete, Area::Database, Remedy::Restore),
        (Kind::Floor, Harm::FlipBegin, Area::Floor, Remedy::Use),
        (Kind::Floor, Harm::Delete, Area::Floor, Remedy::Restore),
        (Kind::Filter, Harm::FlipRandom, Area::Filter, Remedy::Delete),
        (Kind::Filter, Harm::CutTail, Area::Filter, Remedy::Delete),
    ] {
        let known = files(&closed);
        for (_, file) in known.iter().filter(|f| f.0 == kind) {
            let dir = root.path().join("copy");
            copy(&closed, &dir);
            let did = harm.to(&dir.join(file.strip_prefix(&closed).unwrap()), &mut rng);
            let report = check(&dir);
            let text = format!("{} {did}: {report:?}", file.display());
            let name = file.file_name().unwrap().to_str().unwrap();
            let named = report.faults.iter().find(|f| {
                let nameless = kind == Kind::Manifest || kind == Kind::Current;
                f.area == area && f.remedy == remedy && (f.to_string().contains(name) || nameless)
            });
            assert!(named.is_some(), "{text}");
            fs::remove_dir_all(&dir).unwrap();
        }
    }
}

#[test]
fn a_store_that_would_be_recovered_short_is_told_with_both_numbers() {
    let root = directory();
    make(root.path(), LEVEL);
    let dir = path(root.path(), LEVEL, State::Renewed);
    let (_, log) = files(&dir).into_iter().find(|f| f.0 == Kind::Wal).unwrap();
    fs::write(log, []).unwrap();
    let report = check(&dir);
    let [fault] = &report.faults[..] else {
        panic!("{report:?}");
    };
    assert_eq!((fault.area, fault.remedy), (Area::Log, Remedy::AcceptShort));
    assert!(
        fault.what.contains("commit 102 was durable, 92 was found"),
        "{fault}"
    );
}

/// What a crash tears is a note: an open leaves it out.
#[test]
fn a_torn_end_of_the_log_is_a_note() {
    let root = directory();
    make(root.path(), LEVEL);
    let dir = path(root.path(), LEVEL, State::Killed);
    let (_, log) = files(&dir).into_iter().find(|f| f.0 == Kind::Wal).unwrap();
    Harm::CutTail.to(&log, &mut Rng::with_seed(1));
    let report = check(&dir);
    assert!(report.is_sound(), "{report:?}");
    assert!(
        report.notes.iter().any(|note| note.contains("log")),
        "{report:?}"
    );
}

/// A filter whose checksums are right and that still lacks ids.
#[test]
fn a_filter_that_denies_ids_is_a_fault() {
    let root = directory();
    make(root.path(), LEVEL);
    let dir = path(root.path(), LEVEL, State::Closed);
    let (_, file) = files(&dir)
        .into_iter()
        .find(|f| f.0 == Kind::Filter)
        .unwrap();
    let mut bytes = fs::read(&file).unwrap();
    // Magic and count; of the one run order, serial, id and length; magic, ids and blocks.
    let blocks = 8 + 36 + 24;
    let end = bytes.len() - 16;
    bytes[blocks..end].fill(0);
    let inner = xxh3_64(&bytes[44..end]);
    bytes[end..end + 8].copy_from_slice(&inner.to_le_bytes());
    let outer = xxh3_64(&bytes[..end + 8]);
    bytes[end + 8..].copy_from_slice(&outer.to_le_bytes());
    fs::write(&file, bytes).unwrap();
    let report = check(&dir);
    let [fault] = &report.faults[..] else {
        panic!("{report:?}");
    };
    assert_eq!((fault.area, fault.remedy), (Area::Filter, Remedy::Delete));
    assert!(fault.what.contains("denies"), "{fault}");
    // The remedy is one.
    fs::remove_file(file).unwrap();
    assert!(check(&dir).is_sound());
}

#[test]
fn a_store_that_is_open_is_not_checked_and_one_that_is_checked_not_opened() {
    let root = directory();
    make(root.path(), LEVEL);
    let dir = path(root.path(), LEVEL, State::Closed);
    let options = || Setup::later().options(LEVEL);
    let open = Open::new(&dir, options()).unwrap();
    let error = verify(&dir, &options(), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyOpen, "{error}");
    open.close().unwrap();
    let mut tried = 0;
    let report = verify(&dir, &options(), |_| {
        if tried == 0 {
            let error = Store::open(&dir, options()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AlreadyOpen, "{error}");
        }
        tried += 1;
    });
    assert!(report.unwrap().is_sound() && tried > 1);
    let empty = root.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let error = verify(&empty, &options(), |_| {}).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
}

/// A checkpoint that was never opened has no lock file, and gets none.
#[test]
fn a_checkpoint_is_checked_where_it_lies() {
    let root = directory();
    make(root.path(), LEVEL);
    let options = || Setup::later().options(LEVEL);
    let open = Open::new(&path(root.path(), LEVEL, State::Killed), options()).unwrap();
    let copy = root.path().join("checkpoint");
    open.store.checkpoint(&copy).unwrap();
    open.close().unwrap();
    assert!(check(&copy).is_sound());
    assert!(!copy.join("LOCK").exists());
    let mut opened = false;
    let error = verify(&copy, &options(), |_| {
        if !opened {
            opened = true;
            Open::new(&copy, options()).unwrap().close().unwrap();
        }
    });
    assert_eq!(error.unwrap_err().kind(), ErrorKind::AlreadyOpen);
}
