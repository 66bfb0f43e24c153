//! The rules of the source tree, checked over its text: layers, homes, names and sizes.
//!
//! Rules:
//!
//! 1. RocksDB is named in one place, the engine, so that it can be replaced and is mapped once.
//! 2. Time is read and slept in one place, the clock, so that a manual clock governs everything.
//! 3. Sync primitives are named in one place, so that the models can put theirs there.
//! 4. Layers are one-way: a module names only what its row in [`LAYERS`] allows.
//! 5. Every file says what it is for, stays short and narrow, and has a name of its own.
//! 6. Nothing unfinished is left behind.
//!
//! Each rule has a canary, so a checker that sees nothing fails here too.

mod source;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use source::{code, lines_with, named_from_root};

/// Where sources are; a missing folder has none.
const FOLDERS: [&str; 10] = [
    "src",
    "tests",
    "benches",
    "examples",
    "compare/src",
    "faults",
    "fuzz/fuzz_targets",
    "fuzz/bodies",
    "models",
    "orderings",
];

const COLUMNS_MAX: usize = 100;
const LINES_MAX: usize = 500;

/// Paths that may name RocksDB: the engine, the door for callers who use it themselves with its
/// test, the comparison with it, and the file system for tests that goes under it.
const ROCKSDB_HOMES: [&str; 5] = [
    "src/engine/",
    "src/raw.rs",
    "tests/it/raw.rs",
    "compare/src/",
    "faults/",
];

/// Paths that may ask the system for time: programs, and the clock that the library asks.
const TIME_HOMES: [&str; 8] = [
    "src/clock.rs",
    "src/bin/",
    "tests/",
    "benches/",
    "examples/",
    "compare/src/",
    "fuzz/fuzz_targets/",
    "models/",
];

/// Paths of the library that may name sync primitives: their one place, the engine, which the
/// models do without, and the program.
const SYNC_HOMES: [&str; 3] = ["src/sync.rs", "src/engine/", "src/bin/"];

const NAMES_SAYING_NOTHING: [&str; 7] = [
    "util", "utils", "misc", "helper", "helpers", "common", "stuff",
];

/// Words that stand for work not done, in comments or anywhere else. Split, or they'd find
/// themselves.
const LEFTOVERS: [&str; 3] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];
const LEFTOVER_MACROS: [&str; 3] = ["todo!", "unimplemented!", "dbg!"];

/// Modules that everybody may name, and that name only each other.
const LEAVES: &[&str] = &[
    "background",
    "clock",
    "error",
    "id",
    "id_time",
    "key",
    "memory",
    "meter",
    "mode",
    "poison",
    "policy",
    "position",
    "producer",
    "raw",
    "report",
    "stats",
    "surge",
    "sync",
    "trace",
    "verdict",
    "why",
];

/// Each layer and what it may name besides itself and the leaves. A module without a row is the
/// library's face: it may name everything, and no module with a row may name it.
const LAYERS: &[(&str, &[&str])] = &[
    ("approx", &["front", "engine"]),
    ("engine", &[]),
    ("front", &[]),
    ("sequence", &[]),
    ("resources", &["engine"]),
    ("options", &["engine", "resources"]),
    ("index", &["front", "engine", "resources"]),
    ("catalog", &["index", "engine", "sequence"]),
    ("claims", &[]),
    ("prepared", &[]),
    (
        "commit",
        &[
            "catalog", "claims", "index", "engine", "options", "prepared", "sequence",
        ],
    ),
];

#[test]
fn the_tree_follows_its_rules() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in FOLDERS {
        collect(&root.join(folder), &mut files);
    }
    let mut broken = Vec::new();
    let mut checked = BTreeSet::new();
    for file in files {
        let path = file
            .strip_prefix(root)
            .expect("below the root")
            .to_string_lossy()
            .into_owned();
        let path = path.replace('\\', "/");
        let text = fs::read_to_string(&file).unwrap_or_else(|e| panic!("{path}: {e}"));
        broken.extend(violations(&path, &text));
        checked.insert(path);
    }
    for known in ["src/lib.rs", "src/clock.rs", "tests/it/tidy.rs"] {
        assert!(checked.contains(known), "{known} was not checked");
    }
    assert!(broken.is_empty(), "\n{}\n", broken.join("\n"));
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every rule that the file at `path` (relative, with `/`) breaks, one line each.
fn violations(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let mut broken = Vec::new();
    shape(path, text, &mut broken);
    homes(path, &code, &mut broken);
    leftovers(path, text, &code, &mut broken);
    layers(path, &code, &mut broken);
    broken
}

/// Rule 5.
fn shape(path: &str, text: &str, broken: &mut Vec<String>) {
    let first = text
        .lines()
        .find(|line| !line.starts_with("#![") && !line.is_empty());
    if !first.is_some_and(|line| line.starts_with("//! ")) {
        broken.push(format!("{path}: no //! header"));
    }
    let lines = text.lines().count();
    if lines >= LINES_MAX {
        broken.push(format!("{path}: {lines} lines, {LINES_MAX} is too many"));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if line.chars().count() > COLUMNS_MAX {
            broken.push(format!("{path}:{number}: over {COLUMNS_MAX} columns"));
        }
    }
    for name in path.trim_end_matches(".rs").split('/') {
        if NAMES_SAYING_NOTHING.contains(&name) {
            broken.push(format!("{path}: a name that says nothing: {name}"));
        }
    }
}

/// Rules 1 to 3, and that programs reach the library through its public door.
fn homes(path: &str, code: &str, broken: &mut Vec<String>) {
    let at_home = |homes: &[&str]| homes.iter().any(|home| path.starts_with(home));
    let mut found = |what: &str, why: &str| {
        for line in lines_with(code, what) {
            broken.push(format!("{path}:{line}: {what} {why}"));
        }
    };
    if !at_home(&ROCKSDB_HOMES) {
        found("rocksdb", "outside the engine");
        found("librocksdb_sys", "outside the engine");
    }
    if !at_home(&TIME_HOMES) {
        found("SystemTime::now", "outside the clock");
        found("Instant::now", "outside the clock");
        found("thread::sleep", "outside the clock");
    }
    if path.starts_with("src/") && !at_home(&SYNC_HOMES) {
        found("std::sync::atomic", "outside crate::sync");
        found("parking_lot", "outside crate::sync");
        found("arc_swap", "outside crate::sync");
    }
    if path.starts_with("src/bin/") || path.starts_with("examples/") {
        found("#[path", "around the public API");
    }
}

/// Rule 6.
fn leftovers(path: &str, text: &str, code: &str, broken: &mut Vec<String>) {
    let words = LEFTOVERS
        .iter()
        .flat_map(|word| lines_with(text, word).into_iter().zip([word]));
    let macros = LEFTOVER_MACROS
        .iter()
        .flat_map(|name| lines_with(code, name).into_iter().zip([name]));
    for (line, what) in words.chain(macros) {
        broken.push(format!("{path}:{line}: {what} left behind"));
    }
}

/// Rule 4.
fn layers(path: &str, code: &str, broken: &mut Vec<String>) {
    let Some(module) = path
        .strip_prefix("src/")
        .map(|rest| rest.trim_end_matches(".rs"))
    else {
        return;
    };
    let module: Vec<&str> = module.trim_end_matches("/mod").split('/').collect();
    let own = module[0];
    let allowed: &[&str] = match LAYERS.iter().find(|(layer, _)| *layer == own) {
        Some((_, allowed)) => allowed,
        None if LEAVES.contains(&own) => &[],
        None => return,
    };
    let within = |named: &str, home: &str| {
        named
            .strip_prefix(home)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
    };
    for named in named_from_root(code, module.len(), is_module) {
        let fine = within(&named, own)
            || LEAVES
                .iter()
                .chain(allowed)
                .any(|home| within(&named, home));
        if !fine {
            broken.push(format!("{path}: {own} may not name crate::{named}"));
        }
    }
}

fn is_module(name: &str) -> bool {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    src.join(name).is_dir() || src.join(format!("{name}.rs")).is_file()
}

/// Asserts that a file of just this code breaks one rule, and which.
#[track_caller]
fn canary(path: &str, code: &str, expected: &str) {
    let broken = violations(path, &format!("//! Canary.\n\n{code}\n"));
    assert_eq!(broken, [expected]);
}

#[test]
fn names_out_of_their_homes_are_seen() {
    canary(
        "src/index/a.rs",
        "use rocksdb::DB;",
        "src/index/a.rs:3: rocksdb outside the engine",
    );
    canary(
        "tests/a.rs",
        "\nlet d: rocksdb::DB;",
        "tests/a.rs:4: rocksdb outside the engine",
    );
    for what in ["SystemTime::now", "Instant::now", "thread::sleep"] {
        let expected = format!("src/store.rs:3: {what} outside the clock");
        canary(
            "src/store.rs",
            &format!("let t = std::x::{what}();"),
            &expected,
        );
    }
    for what in ["std::sync::atomic", "parking_lot", "arc_swap"] {
        let expected = format!("src/index/a.rs:3: {what} outside crate::sync");
        canary("src/index/a.rs", &format!("use {what}::X;"), &expected);
    }
    let expected = "src/bin/tool.rs:3: #[path around the public API";
    canary(
        "src/bin/tool.rs",
        "#[path = \"../index.rs\"] mod index;",
        expected,
    );
}

#[test]
fn layers_that_look_up_are_seen() {
    for (path, code, named) in [
        (
            "src/engine/db.rs",
            "use crate::store::Store;",
            "engine may not name crate::store::Store",
        ),
        (
            "src/engine/mod.rs",
            "use super::index::X;",
            "engine may not name crate::index::X",
        ),
        (
            "src/engine/a/b.rs",
            "super::super::super::index::f()",
            "engine may not name crate::index::f",
        ),
        (
            "src/front/filter.rs",
            "use crate::{memory::{self, M}, index::{page::P}};",
            "front may not name crate::index::page::P",
        ),
        (
            "src/index/a.rs",
            "fn f(c: &crate::commit::Queue) {}",
            "index may not name crate::commit::Queue",
        ),
        (
            "src/commit/a.rs",
            "use crate::{error::{Error, Kind}, table as t};",
            "commit may not name crate::table",
        ),
        (
            "src/clock.rs",
            "use crate::engine::Db;",
            "clock may not name crate::engine::Db",
        ),
        (
            "src/index/a.rs",
            "use crate::indexes::X;",
            "index may not name crate::indexes::X",
        ),
    ] {
        canary(path, code, &format!("{path}: {named}"));
    }
}

#[test]
fn shapeless_files_are_seen() {
    let header = "src/a.rs: no //! header";
    assert_eq!(violations("src/a.rs", "use std::fs;\n"), [header]);
    assert_eq!(violations("src/a.rs", ""), [header]);
    assert_eq!(violations("src/a.rs", "//!\n"), [header]);
    canary(
        "src/util.rs",
        "",
        "src/util.rs: a name that says nothing: util",
    );
    canary(
        "tests/helpers/a.rs",
        "",
        "tests/helpers/a.rs: a name that says nothing: helpers",
    );
    let wide = format!("// {}", "é".repeat(98));
    canary("src/a.rs", &wide, "src/a.rs:3: over 100 columns");
    canary(
        "src/a.rs",
        &"\n".repeat(497),
        "src/a.rs: 500 lines, 500 is too many",
    );
}

#[test]
fn leftovers_are_seen() {
    for word in LEFTOVERS {
        canary(
            "src/a.rs",
            &format!("// {word}: later"),
            &format!("src/a.rs:3: {word} left behind"),
        );
    }
    for name in LEFTOVER_MACROS {
        let expected = format!("src/a.rs:3: {name} left behind");
        canary("src/a.rs", &format!("let x = {name}(1);"), &expected);
    }
}

#[test]
fn what_follows_the_rules_passes() {
    let text = r###"#![allow(missing_docs)]
//! Named in prose: rocksdb, crate::store, Instant::now.

use crate::index::{self, hash::IdHash};
use crate::{clock::Clock, error::{Error, Result}};
use super::page::Page;
/* dbg!(1) /* nested */ rocksdb */
const A: &str = "rocksdb \" thread::sleep"; // crate::store
const B: &[u8] = br#"a "rocksdb" todo!()"#;
const C: (char, char, char) = ('"', '\'', '\\');
fn d<'a>(rocksdb_like: &'a str) -> &'a str { rocksdb_like }
pub(crate) fn todo() {}
"###;
    assert_eq!(violations("src/index/a.rs", text), [""; 0]);
    assert_eq!(
        violations("src/engine/a.rs", "//! Engine.\nuse rocksdb::DB;\n"),
        [""; 0]
    );
    assert_eq!(
        violations("src/clock.rs", "//! Clock.\nInstant::now()\n"),
        [""; 0]
    );
    assert_eq!(
        violations("src/store.rs", "//! Store.\nuse crate::commit::Batch;\n"),
        [""; 0]
    );
}
