//! A home in memory, for tests: RocksDB's in-memory environment, and our small files in a map.
//!
//! It outlives the store, so that a test can reopen it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, Result};

/// The directory name RocksDB is given in its in-memory environment.
pub(super) const PATH: &str = "/firstseen";

/// What a directory would hold.
pub(crate) struct Memory {
    pub(super) env: rocksdb::Env,
    files: Mutex<HashMap<String, Vec<u8>>>,
    has_data: AtomicBool,
}

impl Memory {
    pub(super) fn new() -> Result<Memory> {
        let env = rocksdb::Env::mem_env().map_err(super::fault::map)?;
        Ok(Memory {
            env,
            files: Mutex::default(),
            has_data: AtomicBool::new(false),
        })
    }

    pub(super) fn has_data(&self) -> bool {
        self.has_data.load(Ordering::Acquire)
    }

    pub(super) fn set_has_data(&self) {
        self.has_data.store(true, Ordering::Release);
    }

    pub(super) fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.files.lock().get(name).cloned()
    }

    pub(super) fn replace(&self, name: &str, bytes: &[u8]) {
        self.files.lock().insert(name.to_string(), bytes.to_vec());
    }

    pub(super) fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut files = self.files.lock();
        let file = files
            .get_mut(name)
            .ok_or_else(|| Error::damaged(format!("{name} is missing")))?;
        let at = usize::try_from(offset).map_err(|_| Error::invalid("an offset of no file"))?;
        // As a file does, that was cut.
        let end = file.len().max(at + bytes.len());
        file.resize(end, 0);
        file[at..at + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    pub(super) fn remove(&self, name: &str) {
        self.files.lock().remove(name);
    }

    /// RocksDB's environment has no door to remove a file; it takes memory until the home goes.
    pub(super) fn discard(&self, _path: &std::path::Path) {}

    pub(super) fn list(&self, prefix: &str) -> Vec<String> {
        self.files
            .lock()
            .keys()
            .filter(|k| k.starts_with(prefix))
            .cloned()
            .collect()
    }
}
