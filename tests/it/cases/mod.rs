//! Named tests: failures that users of other systems reported (the code, as L1 or D3, is in each
//! test's comment), and every promise of the public API.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod backups;
mod batches;
mod claims;
mod clocks;
mod closures;
mod conditions;
mod directories;
mod doubles;
mod durability;
mod families;
mod front;
mod handlers;
mod ids;
mod keys;
mod late;
mod looks;
mod loss;
mod metrics;
mod numbers;
mod outbox;
mod partitions;
mod payloads;
mod points;
mod prepared;
mod reconcile;
mod recovery;
mod results;
mod retention;
mod schema;
mod sequences;
mod sources;
mod space;
#[cfg(feature = "tracing")]
mod spans;
mod submits;
mod waits;

use std::time::{Duration, Instant};

use firstseen::{
    Clock, Durability, Error, ErrorKind, ManualClock, Options, Policy, Recorded, Scope, Store,
    Table, Verdict, days,
};

const LEVELS: [Durability; 3] = [
    Durability::Buffered,
    Durability::Written,
    Durability::Synced,
];

fn secs(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A store in memory whose background work happens only when asked for.
fn quiet() -> Options {
    Options::new().background(false)
}

fn memory() -> Store {
    Store::in_memory(quiet()).unwrap()
}

/// A quiet store under a clock that moves when told to.
fn timed() -> (Store, ManualClock) {
    let clock = ManualClock::new();
    let options = quiet().clock(Clock::Manual(clock.clone()));
    (Store::in_memory(options).unwrap(), clock)
}

/// The scope that most tests use.
fn week(store: &Store) -> Scope {
    store.scope("ids", Policy::remember(days(7))).unwrap()
}

/// Brings a store's records to another place; its handles were dropped before.
type Bring = fn(Store) -> Store;

fn put(store: &Store, table: &Table, key: &str, value: impl AsRef<[u8]>) {
    let mut batch = store.batch();
    batch.always().put(table, key, value);
    let _ = batch.commit().unwrap();
}

fn counter(table: &Table, key: &str) -> Option<i64> {
    table.get(key).unwrap().and_then(|v| v.as_counter())
}

/// Inserts an id with a row in one commit.
fn put_once(store: &Store, scope: &Scope, table: &Table, id: &str) -> firstseen::Result<Verdict> {
    let mut batch = store.batch();
    batch.once(scope, id).put(table, id, "done");
    Ok(batch.commit()?[0].clone())
}

/// Asserts an error's kind, and whether something may have been recorded.
#[track_caller]
fn expect_error<T>(result: Result<T, Error>, kind: ErrorKind, recorded: Recorded) -> Error {
    let Err(error) = result else {
        panic!("no error, though {kind:?} was expected");
    };
    assert_eq!(
        (error.kind(), error.recorded()),
        (kind, recorded),
        "{error}"
    );
    error
}

#[track_caller]
fn expect_invalid<T>(result: Result<T, Error>, text: &str) {
    let error = expect_error(result, ErrorKind::Invalid, Recorded::No);
    assert!(
        error.to_string().contains(text),
        "{error} does not say {text:?}"
    );
}

/// Lets real time pass for what other threads do.
#[expect(clippy::disallowed_methods, reason = "other threads are waited for")]
fn nap(time: Duration) {
    std::thread::sleep(time);
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}

/// Waits until something holds; a minute is too long.
#[cfg(feature = "testing")]
#[track_caller]
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let began = now();
    while !holds() {
        assert!(began.elapsed() < secs(60), "still not: {what}");
        nap(ms(2));
    }
}

/// Set for a child that runs one test in a process of its own.
#[cfg(feature = "failpoints")]
const ALONE: &str = "FIRSTSEEN_TEST_ALONE";

/// Runs the calling test again in a process of its own, for what concerns a whole process.
/// True in the child, which does the work.
#[cfg(feature = "failpoints")]
#[track_caller]
fn alone(module: &str, test: &str) -> bool {
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let child = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &own_name(module, test), "--nocapture"])
        .env(ALONE, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(
        child.status.success() && said.contains("1 passed"),
        "alone it failed: {said}{}",
        String::from_utf8_lossy(&child.stderr)
    );
    false
}

/// A test's name as the harness knows it: without the crate.
fn own_name(module: &str, test: &str) -> String {
    let (_, module) = module.split_once("::").unwrap();
    format!("{module}::{test}")
}
