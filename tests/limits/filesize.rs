//! A limit on the size of files: RocksDB takes it for a broken disk, so the store stops, and a
//! reopening heals it.

use std::path::Path;

use firstseen::{Durability, ErrorKind, Health, Recorded, Store};
use rustix::process::{Resource, Rlimit, setrlimit};

use super::load::{BATCH, verify};
use super::{child, small, week};

/// The child's job. Words: the directory.
pub(crate) fn work(words: &[&str]) {
    let dir = Path::new(words[0]);
    let store = Store::open(dir, small().wal_bytes_max(64 << 20)).unwrap();
    let mut load = super::load::Load::new(&store, Durability::Written);
    for _ in 0..100 {
        assert!(load.step());
    }
    store.sync().unwrap();
    let limit = |current| {
        let rlimit = Rlimit {
            current,
            maximum: None,
        };
        setrlimit(Resource::Fsize, rlimit).unwrap();
    };
    // The log is as long already.
    limit(Some(64 << 10));
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let mut batch = store.batch();
    batch
        .once(&ids, "beyond")
        .put(&rows, "beyond", vec![7; 100_000]);
    let error = batch.commit().unwrap_err();
    let said = (error.kind(), error.recorded());
    assert_eq!(said, (ErrorKind::Degraded, Recorded::Unknown), "{error}");
    assert!(error.to_string().contains("File too large"), "{error}");
    assert!(matches!(store.health(), Health::Degraded(_)));
    load.reads_go_on_but_not_inserts();
    drop((ids, rows, batch));
    let acknowledged = load.acknowledged;
    drop(load);
    limit(None);
    assert!(store.close().is_err(), "it can't write its last mark");
    let store = Store::open(dir, small()).unwrap();
    verify(&store, acknowledged, false);
    let ids = week(&store);
    assert_eq!(ids.scan(..).unwrap().count() as u64, acknowledged * BATCH);
    assert!(ids.insert("beyond").unwrap().is_first());
}

#[test]
fn at_a_limit_of_the_size_of_files_the_store_stops_and_a_reopening_heals_it() {
    let dir = tempfile::tempdir().unwrap();
    let job = ["filesize", dir.path().to_str().unwrap()];
    // The signal would end the process.
    child::expect_done(&child::run("trap '' XFSZ", &job));
}
