//! Few descriptors: a store keeps within the limit, and running out of them is never "new".

use std::fs::File;
use std::path::Path;

use firstseen::{ErrorKind, Options, Policy, Scope, Store, days};

use super::{child, small};

fn id(n: u32) -> [u8; 16] {
    (u128::from(n) * 0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Seals, and ids of each scope between two.
const SEALS: u32 = 27;
const IDS: u32 = 40;
/// Retentions in hours: a class of its own each, so a file of its own in each seal.
const HOURS: [u32; 5] = [1, 8, 48, 300, 2000];

fn options() -> Options {
    // No filters, so that every lookup reads a file.
    let tuned = small().filter_bits_per_id(0).generations_max(64);
    tuned.background(false).slices_per_class(2)
}

fn scopes(store: &Store) -> Vec<Scope> {
    let scope = |hours: &u32| {
        let policy = Policy::remember(days(1) / 24 * *hours);
        store.scope(&format!("h{hours}"), policy).unwrap()
    };
    HOURS.iter().map(scope).collect()
}

fn fill(store: &Store) {
    let scopes = scopes(store);
    for seal in 0..SEALS {
        for n in seal * IDS..(seal + 1) * IDS {
            for scope in &scopes {
                assert!(scope.insert(&id(n)).unwrap().is_first());
            }
        }
        store.seal().unwrap();
    }
}

/// How many lookups were answered and how many failed; none says "new".
fn look(store: &Store) -> (u32, u32) {
    let (mut known, mut failed) = (0, 0);
    for n in 0..SEALS * IDS {
        for scope in scopes(store) {
            match scope.insert(&id(n)) {
                Ok(verdict) => {
                    assert!(verdict.is_duplicate(), "{n} is {verdict:?}");
                    known += 1;
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Busy, "{error}");
                    assert!(error.is_retryable());
                    failed += 1;
                }
            }
            match scope.peek(&id(n)) {
                Ok(found) => assert!(found.is_some(), "{n}"),
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
        }
    }
    (known, failed)
}

/// The child's job. Words: the directory, and how many descriptors it may have.
pub(crate) fn work(words: &[&str]) {
    let dir = Path::new(words[0]);
    let limit: u64 = words[1].parse().unwrap();
    let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    assert_eq!(allowed, Some(limit), "the limit holds");
    let store = Store::open(dir, options()).unwrap();
    fill(&store);
    let files = store.stats().unwrap().generations;
    let files: u64 = files.iter().map(|g| g.runs).sum();
    assert_eq!(look(&store).1, 0, "it keeps within the limit");
    store.close().unwrap();
    let store = Store::open(dir, options()).unwrap();
    // Somebody else in the process takes all that is left.
    let mut taken = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        taken.push(file);
    }
    let (known, failed) = look(&store);
    let other = Store::open(dir.join("other"), options());
    assert_eq!(other.unwrap_err().kind(), ErrorKind::Busy);
    drop(taken);
    assert_eq!(look(&store).1, 0);
    write_again(dir, store).seal().unwrap();
    println!("@{files} files, {known} known, {failed} failed");
}

/// Writes once there are descriptors again. RocksDB may have met the limit in a flush of its own;
/// the next write then fails, and reopening heals it.
fn write_again(dir: &Path, store: Store) -> Store {
    // No handle may stay: it would keep the store open.
    let written = scopes(&store)[0].insert("new");
    match written {
        Ok(verdict) => {
            assert!(verdict.is_first());
            store
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Degraded, "{error}");
            drop(store);
            let store = Store::open(dir, options()).unwrap();
            assert_eq!(look(&store).1, 0);
            // Whichever it was: recorded by the write that failed, or not.
            let _ = scopes(&store)[0].insert("new").unwrap();
            store
        }
    }
}

#[test]
fn with_few_descriptors_a_store_works_and_running_out_is_never_new() {
    let mut failures = 0;
    for limit in ["64", "128", "256"] {
        let dir = tempfile::tempdir().unwrap();
        let job = ["descriptors", dir.path().to_str().unwrap(), limit];
        let said = child::expect_done(&child::run(&format!("ulimit -n {limit}"), &job));
        let told = said.split_once('@').unwrap().1.lines().next().unwrap();
        println!("{limit}: {told}");
        failures += u32::from(!told.contains(" 0 failed"));
    }
    assert!(failures > 0, "no descriptor was ever wanting");
}
