//! V5: tuned options were only on the default column family. The options that RocksDB says are
//! in force are read back from its own OPTIONS file, for every family.

use std::collections::BTreeMap;
use std::path::Path;

use firstseen::{Durability, Options, Policy, Store, days};

use super::{put, quiet, secs, week};

/// The sections of the newest OPTIONS file, by header; each a map of its settings.
type Sections = BTreeMap<String, BTreeMap<String, String>>;

fn sections(dir: &Path) -> Sections {
    let entries = std::fs::read_dir(dir.join("data"))
        .unwrap()
        .map(|e| e.unwrap().path());
    let is_options = |path: &std::path::PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        name.starts_with("OPTIONS-") && !name.ends_with("dbtmp")
    };
    let newest = entries.filter(is_options).max().unwrap();
    let text = std::fs::read_to_string(newest).unwrap();
    let mut sections = Sections::new();
    let mut header = String::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            header = name.to_string();
            sections.entry(header.clone()).or_default();
        } else if let Some((key, value)) = line.split_once('=') {
            let section = sections.entry(header.clone()).or_default();
            section.insert(key.to_string(), value.to_string());
        }
    }
    sections
}

/// Settings by name.
type Settings = Vec<(&'static str, &'static str)>;

/// What a family of a name must have: its own settings and its tables'.
fn expected(name: &str) -> (Settings, Settings) {
    let blocks = vec![("checksum", "kXXH3"), ("format_version", "5")];
    let never_compacted = [
        ("disable_auto_compactions", "true"),
        ("level0_slowdown_writes_trigger", "1048576"),
        ("level0_stop_writes_trigger", "1048576"),
        ("compression", "kNoCompression"),
    ];
    let (own, more): (Vec<_>, Vec<_>) = if name.starts_with("log1.") {
        (vec![("write_buffer_size", "134217728")], vec![])
    } else if name.starts_with("gen1.") {
        let blocks = vec![("block_size", "4096"), ("filter_policy", "nullptr")];
        (vec![("write_buffer_size", "1048576")], blocks)
    } else if name.starts_with("table.") {
        let own = vec![
            ("write_buffer_size", "33554432"),
            ("max_write_buffer_number", "4"),
            ("compression", "kLZ4Compression"),
            ("bottommost_compression", "kZSTD"),
            ("level_compaction_dynamic_level_bytes", "true"),
            ("memtable_whole_key_filtering", "true"),
        ];
        (own, vec![("cache_index_and_filter_blocks", "true")])
    } else {
        let known = ["default", "meta", "points", "audit"];
        assert!(known.contains(&name), "an unknown family {name}");
        let own = vec![
            ("write_buffer_size", "4194304"),
            ("compression", "kLZ4Compression"),
        ];
        (own, vec![])
    };
    let is_ours = name.starts_with("log1.") || name.starts_with("gen1.");
    let never = never_compacted.into_iter().filter(|_| is_ours);
    (
        own.into_iter().chain(never).collect(),
        blocks.into_iter().chain(more).collect(),
    )
}

#[track_caller]
fn check(dir: &Path, recovery: &str) -> Vec<String> {
    let sections = sections(dir);
    let database = &sections["DBOptions"];
    for (key, value) in [
        ("manual_wal_flush", "false"),
        ("unordered_write", "false"),
        ("track_and_verify_wals", "true"),
        ("avoid_flush_during_recovery", "false"),
        ("paranoid_checks", "true"),
        ("wal_recovery_mode", recovery),
    ] {
        assert_eq!(database.get(key).map(String::as_str), Some(value), "{key}");
    }
    let mut names = Vec::new();
    for (header, own) in &sections {
        let Some(name) = header.strip_prefix("CFOptions \"") else {
            continue;
        };
        let name = name.trim_end_matches('"');
        let tables = &sections[&format!("TableOptions/BlockBasedTable \"{name}\"")];
        let (wanted, of_tables) = expected(name);
        for (key, value) in wanted {
            assert_eq!(
                own.get(key).map(String::as_str),
                Some(value),
                "{key} of {name}"
            );
        }
        for (key, value) in of_tables {
            assert_eq!(
                tables.get(key).map(String::as_str),
                Some(value),
                "{key} of {name}"
            );
        }
        let filtered = tables["filter_policy"].contains("bloom");
        assert_eq!(
            filtered,
            !name.starts_with("log1.") && !name.starts_with("gen1."),
            "{name}"
        );
        names.push(name.to_string());
    }
    names
}

/// V5, for families made with the store, made while running, and opened again.
#[test]
fn every_column_family_has_its_own_options() {
    let dir = tempfile::tempdir().unwrap();
    let fill = |options: Options| {
        let store = Store::open(dir.path(), options).unwrap();
        let (ids, rows) = (week(&store), store.table("rows").unwrap());
        let short = store.scope("short", Policy::remember(secs(60))).unwrap();
        let forever = store.scope("for ever", Policy::forever()).unwrap();
        let _ = store.guarded_table("guarded").unwrap();
        put(&store, &rows, "a", "1");
        for scope in [&ids, &short, &forever] {
            let _ = scope.insert("a").unwrap();
        }
        store.seal().unwrap();
        store
    };
    let store = fill(quiet().durability(Durability::Synced));
    let names = check(dir.path(), "kTolerateCorruptedTailRecords");
    for (prefix, count) in [
        ("gen1.", 3),
        ("log1.", 2),
        ("table.", 2),
        ("meta", 1),
        ("points", 1),
        ("audit", 1),
    ] {
        let found = names.iter().filter(|n| n.starts_with(prefix)).count();
        assert!(found >= count, "{found} of {prefix}: {names:?}");
    }
    store.close().unwrap();
    fill(quiet()).close().unwrap();
    let store = Store::open(dir.path(), quiet()).unwrap();
    check(dir.path(), "kPointInTimeRecovery");
    assert!(
        store
            .scope("ids", Policy::remember(days(7)))
            .unwrap()
            .insert("a")
            .unwrap()
            .is_duplicate()
    );
}
