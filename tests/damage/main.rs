//! Damaged stores: what an open and every question after it may say of a store whose files were
//! changed from under it.
//!
//! A store with a known content is made, one of its files is damaged, and everything is asked. The
//! rule: an answer is right, or it is an error; a known id is never first seen, an unknown one
//! never a duplicate, a row never another one, and nobody panics or hangs. What each kind of
//! file and damage comes to is a table (`matrix.rs`), the same as in `docs/testing.md`.
//!
//! `SEED=n` sets the seed of the places that are damaged at random, `ROUNDS=n` how often the
//! matrix is gone through with other places.
#![cfg(feature = "testing")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod ask;
mod content;
mod files;
mod harm;
mod matrix;
#[path = "../support/number.rs"]
mod number;
mod rollback;
mod table;
mod verify;

use number::number;

/// Not in memory: RocksDB reserves room for its log there by filling it.
fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}
