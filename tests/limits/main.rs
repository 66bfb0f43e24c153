//! A store at the limits of its machine: a full disk, a failing disk, few descriptors, little
//! memory, small files, directories that can't be written, other openers, wrong clocks, newer
//! formats.
//!
//! What limits a whole process, or the failpoints of one, is tried in a child: this very binary,
//! started again (`child`). A full disk is a small file system of its own (`disk`), which only
//! root can mount; what can't be tried is said on the standard error output, never passed over
//! in silence.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod child;
mod clocks;
mod descriptors;
mod disk;
mod faults;
mod filesize;
mod formats;
mod full;
mod load;
mod memory;
mod openers;
#[cfg(feature = "failpoints")]
mod phases;
mod readonly;
mod reserve;
#[path = "../support/rules.rs"]
mod rules;

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use firstseen::{Options, Policy, Resources, Scope, Store, days};

/// Options of a store that fits on a small disk. No reserve: the disk is to be met in full.
fn small() -> Options {
    let resources = Resources::new()
        .cache_bytes(4 << 20)
        .segment_bytes(4 << 20)
        .memtable_bytes(8 << 20);
    Options::new()
        .resources(&resources)
        .free_bytes_min(0)
        .wal_bytes_max(2 << 20)
        .wait_max(Duration::from_secs(20))
}

/// The same with a log that is not cut while a test runs: RocksDB goes on by itself from every
/// place where it meets the end of the disk but one, the beginning of a log. That one is what the
/// reserve is for.
fn one_log() -> Options {
    let resources = Resources::new()
        .cache_bytes(4 << 20)
        .segment_bytes(4 << 20)
        .memtable_bytes(128 << 20);
    small().resources(&resources).wal_bytes_max(128 << 20)
}

fn week(store: &Store) -> Scope {
    store.scope("ids", Policy::remember(days(7))).unwrap()
}

#[expect(clippy::disallowed_methods, reason = "a test measures real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "other threads are waited for")]
fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// Waits until something holds; says how long that took. Half a minute is too long.
#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let began = now();
    while !holds() {
        assert!(
            began.elapsed() < Duration::from_secs(30),
            "still not: {what}"
        );
        nap(20);
    }
    began.elapsed()
}

/// Says that something can't be tried here, past the harness, which keeps what a test prints.
fn skipped(what: &str, why: &str) {
    let text = format!("\nSKIPPED: {what}: {why}\n");
    std::io::stderr().write_all(text.as_bytes()).unwrap();
}

/// All files below a directory with their bytes, but for the lock, whose text is the opener's.
fn files_of(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut folders = vec![dir.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().map(|e| e.unwrap()) {
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else if entry.file_name() != "LOCK" {
                let name = entry.path().display().to_string();
                files.push((name, std::fs::read(entry.path()).unwrap()));
            }
        }
    }
    files.sort();
    files
}
