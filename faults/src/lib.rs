//! A file system for RocksDB that loses what was not synced, and fails calls on demand.
//!
//! It is RocksDB's own test file system, which the library carries, with a thin layer over it
//! (`shim.cc`). A store opens through its [`Faults::env`]. Only RocksDB's files are under it.
//!
//! - Concurrency: all methods may be called while a store works.
//! - [`Faults::cut`] then the store's end, then [`Faults::restore`], then the next open: that is
//!   a power failure.

use std::ffi::c_int;

use librocksdb_sys::rocksdb_env_t;
use rocksdb::Env;

#[repr(C)]
struct Raw {
    _opaque: [u8; 0],
}

unsafe extern "C" {
    fn faults_new() -> *mut Raw;
    fn faults_free(faults: *mut Raw);
    fn faults_env(faults: *mut Raw) -> *mut rocksdb_env_t;
    fn faults_fail(faults: *mut Raw, calls: u32, nth: u64, times: u64, kind: c_int, after: bool);
    fn faults_failed(faults: *mut Raw) -> u64;
    fn faults_cut(faults: *mut Raw, seed: u64);
    fn faults_restore(faults: *mut Raw) -> c_int;
}

/// Appends to files.
pub const WRITES: u32 = 1;
/// Syncs of files and directories.
pub const SYNCS: u32 = 2;
/// Files made, renamed, linked and deleted.
pub const NAMES: u32 = 4;
/// Reads of table files.
pub const READS: u32 = 8;

/// What a failing call says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// An I/O error that no retry heals.
    Io,
    /// The disk is full.
    NoSpace,
    /// An I/O error that RocksDB may retry.
    Retryable,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// [`WRITES`], [`SYNCS`], [`NAMES`] and [`READS`], added up.
    pub calls: u32,
    /// The first of them that fails, counted from 1.
    pub nth: u64,
    /// How many fail, one after another.
    pub times: u64,
    /// What they say.
    pub failure: Failure,
    /// They are done all the same.
    pub after: bool,
}

/// The file system.
pub struct Faults(*mut Raw);

// SAFETY: the shim guards what it holds with a mutex, and RocksDB's file system with its own.
unsafe impl Send for Faults {}
// SAFETY: as above.
unsafe impl Sync for Faults {}

impl Default for Faults {
    fn default() -> Faults {
        Faults::new()
    }
}

impl Faults {
    /// Over the system's files, without faults.
    #[must_use]
    pub fn new() -> Faults {
        // SAFETY: makes an object of its own.
        Faults(unsafe { faults_new() })
    }

    /// What RocksDB is opened with; it may outlive this handle.
    #[must_use]
    pub fn env(&self) -> Env {
        // SAFETY: the shim makes an environment that shares ownership of the file system, in the
        // form that RocksDB's C interface frees; `Env` is its only owner.
        unsafe { Env::from_raw(faults_env(self.0)) }
    }

    /// Fails calls from now on, instead of those planned before.
    pub fn fail(&self, plan: Plan) {
        let kind = match plan.failure {
            Failure::Io => 0,
            Failure::NoSpace => 1,
            Failure::Retryable => 2,
        };
        // SAFETY: `self.0` lives as long as `self`; the rest are plain values.
        unsafe { faults_fail(self.0, plan.calls, plan.nth, plan.times, kind, plan.after) }
    }

    /// How many calls have failed so far.
    #[must_use]
    pub fn failed(&self) -> u64 {
        // SAFETY: `self.0` lives as long as `self`.
        unsafe { faults_failed(self.0) }
    }

    /// Cuts the power: nothing reaches the disk any more. Of each open file's unsynced bytes a
    /// random beginning has reached it already; with seed 0 none.
    pub fn cut(&self, seed: u64) {
        // SAFETY: `self.0` lives as long as `self`.
        unsafe { faults_cut(self.0, seed) }
    }

    /// Power is back: what was not synced is gone, calls work again. False if what a power
    /// failure would have taken could not be removed. No store may be open.
    #[must_use]
    pub fn restore(&self) -> bool {
        // SAFETY: `self.0` lives as long as `self`.
        unsafe { faults_restore(self.0) == 0 }
    }
}

impl Drop for Faults {
    fn drop(&mut self) {
        // SAFETY: nobody else frees it, and nobody has it any more.
        unsafe { faults_free(self.0) }
    }
}
