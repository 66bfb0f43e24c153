//! Stores that are opened to be read only, at rest and while they are written.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use firstseen::{Approximate, Durability, ErrorKind, Health, Options, Policy, Store, days};

use super::{counter, expect_invalid, put_once, quiet, week};

/// Names and lengths of all files of a directory.
fn files(dir: &Path) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_dir() {
            let inner = files(&entry.path());
            all.extend(inner.into_iter().map(|(n, b)| (format!("{name}/{n}"), b)));
        } else {
            all.insert(name, entry.metadata().unwrap().len());
        }
    }
    all
}

/// What returned is seen at once by who looks, sealed or not, though the log is all that has it.
#[test]
fn a_look_sees_what_was_written_and_changes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("live");
    let store = Store::open(&dir, quiet().durability(Durability::Written)).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    for n in 0..30 {
        let _ = put_once(&store, &ids, &rows, &format!("id-{n}")).unwrap();
        if n == 9 {
            store.seal().unwrap();
        }
    }
    ids.forget("id-3", "a test").unwrap();
    store.rewind("s", 7_u64, "a test").unwrap();
    let before = files(&dir);
    let look = Store::open_read_only(&dir, Options::new()).unwrap();
    let as_of = look.as_of().unwrap();
    assert_eq!(as_of.commit, store.stats().unwrap().written);
    assert_eq!(as_of.open_by, Some(std::process::id().to_string()));
    assert_eq!((look.health(), store.as_of()), (Health::Ready, None));
    let seen = look.existing_scope("ids").unwrap().unwrap();
    assert_eq!(seen.scan(..).unwrap().count(), 29);
    assert!(seen.peek("id-29").unwrap().is_some() && seen.peek("id-1").unwrap().is_some());
    assert!(seen.peek("id-3").unwrap().is_none());
    let table = look.table("rows").unwrap();
    assert_eq!(table.range("").unwrap().count(), 30);
    assert_eq!(look.resume_point("s").unwrap(), Some(7_u64.into()));
    assert_eq!(look.audit().unwrap().count(), 2);
    let stats = look.stats().unwrap();
    assert_eq!((stats.unsealed_ids, stats.generations.len()), (21, 1));
    // It is of its moment: what comes later is not there.
    let _ = put_once(&store, &ids, &rows, "later").unwrap();
    store.compact().unwrap();
    assert!(seen.peek("later").unwrap().is_none());
    assert_eq!(seen.scan(..).unwrap().count(), 29);
    drop((seen, table));
    look.close().unwrap();
    let _ = put_once(&store, &ids, &rows, "last").unwrap();
    drop((ids, rows));
    store.close().unwrap();

    let closed = files(&dir);
    assert_ne!(before, closed);
    let look = Store::open_read_only(&dir, Options::new()).unwrap();
    assert_eq!(look.as_of().unwrap().open_by, None);
    let seen = look.existing_scope("ids").unwrap().unwrap();
    assert!(seen.peek("later").unwrap().is_some());
    drop((seen, look));
    assert_eq!(files(&dir), closed);
}

/// Whatever writes is refused with one answer, and nothing is written.
#[test]
fn who_only_looks_writes_nothing() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("live");
    let store = Store::open(&dir, quiet()).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let _ = put_once(&store, &ids, &rows, "known").unwrap();
    let before = files(&dir);
    let look = Store::open_read_only(&dir, Options::new()).unwrap();
    let (seen, table) = (week(&look), look.table("rows").unwrap());
    expect_invalid(seen.insert("known"), "to be read only");
    expect_invalid(seen.insert("new"), "to be read only");
    expect_invalid(seen.forget("known", "why"), "to be read only");
    let mut batch = look.batch();
    batch.always().put(&table, "k", "v");
    expect_invalid(batch.commit(), "to be read only");
    let other = Policy::remember(days(1));
    expect_invalid(look.scope("other", other.clone()), "to be read only");
    expect_invalid(look.alter_scope("ids", other), "to be read only");
    expect_invalid(look.drop_scope("ids"), "to be read only");
    expect_invalid(look.rewind("s", 1_u64, "why"), "to be read only");
    expect_invalid(look.seal(), "to be read only");
    expect_invalid(look.compact(), "to be read only");
    let window = Approximate::window(super::secs(60));
    expect_invalid(look.approximate("clicks", window), "to be read only");
    expect_invalid(look.drop_approximate("clicks"), "to be read only");
    expect_invalid(look.checkpoint(root.path().join("c")), "to be read only");
    assert!(look.table("other").is_err() && look.drop_table("rows").is_err());
    drop((batch, seen, table));
    look.close().unwrap();
    assert_eq!(files(&dir), before);
}

/// A store is never made by looking, nor is one that can't be read taken for an empty one.
#[test]
fn a_look_at_no_store_is_an_error_and_makes_none() {
    let root = tempfile::tempdir().unwrap();
    let none = root.path().join("none");
    expect_invalid(Store::open_read_only(&none, Options::new()), "no store");
    expect_invalid(
        Store::open_read_only(root.path(), Options::new()),
        "no store",
    );
    assert!(files(root.path()).is_empty() && !none.exists());
    let dir = root.path().join("live");
    drop(Store::open(&dir, quiet()).unwrap());
    fs::remove_file(dir.join("FLOOR")).unwrap();
    let error = Store::open_read_only(&dir, Options::new()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
}

/// However a store is looked at while it commits, seals, merges, drops and makes tables, it is
/// seen as after one commit: ids, rows, sums and resume point of the same moment, and never less
/// than had returned before.
#[test]
fn a_look_at_a_busy_store_is_of_one_commit() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("live");
    let options = Options::new().segment_ids_max(300).wal_bytes_max(1 << 20);
    let store = Store::open(&dir, options).unwrap();
    let (ids, rows) = (week(&store), store.table("rows").unwrap());
    let short = store
        .scope("short", Policy::remember(super::ms(300)))
        .unwrap();
    let total = store.guarded_table("total").unwrap();
    let stop = AtomicBool::new(false);
    let write = |n: u64| {
        let mut batch = store.batch();
        for i in 0..20 {
            let id = format!("id-{n}-{i}");
            let mut item = batch.once(&ids, &id);
            item.put(&rows, &id, [7; 200]).add(&total, "n", 1, ..);
            batch.once(&short, &id);
        }
        batch.resume_at("s", n + 1);
        let _ = batch.commit().unwrap();
        if n % 200 == 150 {
            store.table(&format!("more-{n}")).unwrap();
        }
    };
    let returned = std::sync::atomic::AtomicU64::new(0);
    std::thread::scope(|s| {
        s.spawn(|| {
            for n in 0.. {
                write(n);
                returned.store(n + 1, Ordering::SeqCst);
                if stop.load(Ordering::SeqCst) {
                    return;
                }
            }
        });
        let (mut looks, mut last) = (0, 0);
        while looks < 12 {
            let before = returned.load(Ordering::SeqCst);
            if before == 0 {
                continue;
            }
            let look = match Store::open_read_only(&dir, Options::new()) {
                Ok(look) => look,
                Err(error) if error.kind() == ErrorKind::Busy => continue,
                Err(error) => {
                    stop.store(true, Ordering::SeqCst);
                    panic!("{error:?}");
                }
            };
            stop.store(looks >= 11, Ordering::SeqCst);
            let point = look.resume_point("s").unwrap().unwrap().as_u64().unwrap();
            assert!(point >= before.max(last), "{point} {before} {last}");
            last = point;
            let (seen, table) = (week(&look), look.table("rows").unwrap());
            let total = look.guarded_table("total").unwrap();
            assert_eq!(seen.scan(..).unwrap().count() as u64, point * 20);
            assert_eq!(table.range("").unwrap().count() as u64, point * 20);
            assert_eq!(counter(&total, "n"), Some((point * 20) as i64));
            looks += 1;
        }
    });
}
