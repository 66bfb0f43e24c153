//! The one door for RocksDB's own types: a batch of rows for a table, and a table's options.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firstseen::{ErrorKind, Options, Policy, RocksBatch, RocksOptions, Store, days};

fn memory() -> Store {
    Store::in_memory(Options::new()).unwrap()
}

#[test]
fn a_callers_batch_becomes_an_items_writes() {
    let store = memory();
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    for table in [
        store.table("plain").unwrap(),
        store.guarded_table("guarded").unwrap(),
    ] {
        let mut rows = RocksBatch::default();
        rows.put(b"a", b"1");
        rows.put(b"b", b"2");
        rows.delete(b"a");
        for delivery in 0..2 {
            let mut batch = store.batch();
            batch
                .once(&ids, table.name())
                .apply(&table, &rows)
                .put(&table, "c", "3");
            assert_eq!(batch.commit().unwrap()[0].is_first(), delivery == 0);
            let mut more = RocksBatch::default();
            more.put(b"d", b"4");
            let mut batch = store.batch();
            batch.always().apply(&table, &more);
            let _ = batch.commit().unwrap();
        }
        let keys: Vec<_> = table.range("").unwrap().map(|row| row.unwrap().0).collect();
        assert_eq!(keys, ["b", "c", "d"]);
    }
}

/// Nothing in a caller's batch reaches the store's own families, and nothing is half applied.
#[test]
fn a_batch_that_names_a_family_or_does_more_than_rows_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut options = RocksOptions::default();
    options.create_if_missing(true);
    options.create_missing_column_families(true);
    let own = rocksdb::DB::open_cf(&options, dir.path(), ["default", "other"]).unwrap();
    let other = own.cf_handle("other").unwrap();
    let store = memory();
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    let table = store.table("rows").unwrap();
    type Spoil<'a> = (&'a str, &'a dyn Fn(&mut RocksBatch));
    let spoil: [Spoil<'_>; 5] = [
        ("put_cf", &|b| b.put_cf(&other, b"x", b"y")),
        ("delete_cf", &|b| b.delete_cf(&other, b"x")),
        ("merge", &|b| b.merge(b"x", b"y")),
        ("delete_range", &|b| b.delete_range(b"a", b"z")),
        ("merge_cf", &|b| b.merge_cf(&other, b"x", b"y")),
    ];
    for (what, spoil) in spoil {
        let mut rows = RocksBatch::default();
        rows.put(b"a", b"1");
        spoil(&mut rows);
        rows.put(b"b", b"2");
        let mut batch = store.batch();
        batch.once(&ids, "id").apply(&table, &rows);
        let error = batch.commit().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid, "{what}: {error}");
        assert_eq!(
            (table.range("").unwrap().count(), ids.peek("id").unwrap()),
            (0, None)
        );
    }
    let mut rows = RocksBatch::default();
    rows.put(b"a", b"1");
    let mut batch = store.batch();
    batch.once(&ids, "id").apply(&table, &rows);
    assert!(batch.commit().unwrap()[0].is_first());
}

/// The value of a setting in a family's section of the newest OPTIONS file.
fn setting(dir: &std::path::Path, family: &str, key: &str) -> Option<String> {
    let entries = std::fs::read_dir(dir.join("data"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let named = |p: &std::path::PathBuf| {
        let name = p.to_string_lossy();
        name.contains("OPTIONS-") && !name.ends_with("dbtmp")
    };
    let text = std::fs::read_to_string(entries.filter(named).max().unwrap()).unwrap();
    let (_, section) = text.split_once(&format!("[CFOptions \"{family}\"]"))?;
    let section = section.split("\n[").next()?;
    let value = section
        .lines()
        .find_map(|l| l.trim().strip_prefix(key)?.strip_prefix('='));
    value.map(str::to_string)
}

#[test]
fn a_tables_own_options_are_in_force_and_the_stores_families_keep_theirs() {
    let dir = tempfile::tempdir().unwrap();
    let tuned = |bytes: usize| {
        let mut options = RocksOptions::default();
        options.set_write_buffer_size(bytes);
        // The store's families can't be tuned, whatever name is given.
        Options::new()
            .background(false)
            .table_options("rows", options.clone())
            .table_options("meta", options.clone())
            .table_options("audit", options)
    };
    for bytes in [7 << 20, 9 << 20] {
        let store = Store::open(dir.path(), tuned(bytes)).unwrap();
        let (rows, other) = (store.table("rows").unwrap(), store.table("other").unwrap());
        let mut batch = store.batch();
        batch.always().put(&rows, "a", "1").put(&other, "a", "1");
        let _ = batch.commit().unwrap();
        let read = |family: &str| setting(dir.path(), family, "write_buffer_size").unwrap();
        assert_eq!(read("table.00000000.rows"), bytes.to_string());
        assert_eq!(read("table.00000001.other"), (32 << 20).to_string());
        assert_eq!(read("meta"), (4 << 20).to_string());
        assert_eq!(read("audit"), (4 << 20).to_string());
        drop((rows, other, batch));
        store.close().unwrap();
    }
}
