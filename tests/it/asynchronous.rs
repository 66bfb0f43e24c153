//! docs/async.md lists every call that may block.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/async.md");

/// Types whose calls go to a store.
const HANDLES: [&str; 16] = [
    "ApproximateScope",
    "Backups",
    "Batch",
    "Claim",
    "Handler",
    "Outbox",
    "Reconciliation",
    "RepairPlan",
    "Scope",
    "Sequences",
    "Store",
    "Stores",
    "Submitted",
    "Table",
    "Tx",
    "Work",
];

/// What only tests call.
const FOR_TESTS: [&str; 5] = [
    "Store::clear_faults",
    "Store::crash_and_reopen",
    "Store::fail_next_commit",
    "Store::in_memory",
    "Store::inject",
];

/// Public calls of a source text that may fail, and so may wait for what fails.
fn calls(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut of = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("impl") {
            let rest = rest
                .split_once('>')
                .map_or(rest, |r| match rest.starts_with('<') {
                    true => r.1,
                    false => rest,
                });
            let name = rest.trim().split(['<', ' ']).next();
            of = name.filter(|n| HANDLES.contains(n) && !rest.contains(" for "));
        }
        let (Some(of), Some(rest)) = (of, line.strip_prefix("    pub fn ")) else {
            continue;
        };
        let name: String = rest
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let mut signature = rest.to_string();
        while !signature.ends_with('{') {
            signature.push_str(lines.next().expect("a body").trim());
        }
        let returned = signature.rsplit_once("->").map_or("", |r| r.1);
        if ["Result<", "Handled<", "Begun"]
            .iter()
            .any(|r| returned.contains(r))
        {
            found.push(format!("{of}::{name}"));
        }
    }
    found
}

fn collect(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            if !path.ends_with("bin") {
                collect(&path, found);
            }
        } else {
            let text = fs::read_to_string(&path).expect("a source text");
            found.extend(calls(&text));
        }
    }
}

#[test]
fn every_call_that_may_block_is_in_the_list() {
    let mut found = BTreeSet::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut found,
    );
    for known in [
        "Store::sync",
        "Scope::once",
        "Batch::commit",
        "Handler::begin",
        "Work::end",
    ] {
        assert!(found.contains(known), "{known} was not found");
    }
    for test in FOR_TESTS {
        assert!(found.remove(test), "{test} is gone");
    }
    let (_, list) = PAGE.split_once("## What blocks").expect("the list");
    let missing: Vec<_> = found
        .iter()
        .filter(|call| !list.contains(&format!("`{call}`")))
        .collect();
    assert!(
        missing.is_empty(),
        "docs/async.md says nothing of {missing:?}"
    );
    let listed = list
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|c| c.contains("::"));
    let gone: Vec<_> = listed.filter(|call| !found.contains(*call)).collect();
    assert!(
        gone.is_empty(),
        "docs/async.md lists what is not there: {gone:?}"
    );
}

#[test]
fn calls_of_any_shape_are_seen() {
    let text = r"impl Scope {
    pub fn a(&self) -> Result<()> {
    }
    pub fn b<'a>(
        &self,
    ) -> Result<T, E> {
    }
    pub fn c(&self) -> u32 {
    }
}
impl Drop for Scope {
    pub fn d() -> Result<()> {
    }
}
impl<T> Tx<'_> {
    pub fn e(&self) -> Begun {
    }
}
";
    assert_eq!(calls(text), ["Scope::a", "Scope::b", "Tx::e"]);
}
