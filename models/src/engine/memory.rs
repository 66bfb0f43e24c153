//! A home in memory: the database's disk, and the store's small files in a map. All that is
//! written to a small file is durable at once, as the library syncs each.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use super::Disk;
use crate::error::{Error, Result};

pub(crate) const PATH: &str = "/firstseen";

type Files = BTreeMap<String, Vec<u8>>;

/// Where the library's files name RocksDB's environment; there is none.
#[derive(Clone, Default)]
pub(crate) struct Env;

/// What a directory would hold. Outlives the store.
#[derive(Default)]
pub(crate) struct Memory {
    pub(crate) disk: Arc<Disk>,
    pub(crate) env: Env,
    files: Mutex<(Files, bool)>,
}

impl Memory {
    #[expect(clippy::unnecessary_wraps, reason = "what it stands in for may fail")]
    pub(crate) fn new() -> Result<Memory> {
        Ok(Memory::default())
    }

    /// What a power failure would leave now.
    pub(crate) fn after_power_failure(&self) -> Memory {
        Memory {
            disk: Arc::new(self.disk.after_power_failure()),
            env: Env,
            files: Mutex::new(self.with(|all| all.clone())),
        }
    }

    fn with<T>(&self, run: impl FnOnce(&mut (Files, bool)) -> T) -> T {
        run(&mut self.files.lock().expect("nothing here panics"))
    }

    pub(crate) fn has_data(&self) -> bool {
        self.with(|all| all.1)
    }

    pub(crate) fn set_has_data(&self) {
        self.with(|all| all.1 = true);
    }

    pub(crate) fn read(&self, name: &str) -> Option<Vec<u8>> {
        self.with(|all| all.0.get(name).cloned())
    }

    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) {
        self.with(|all| all.0.insert(name.to_string(), bytes.to_vec()));
    }

    pub(crate) fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let at = usize::try_from(offset).unwrap_or(usize::MAX);
        self.with(|all| {
            let file = all.0.get_mut(name);
            let place = file.and_then(|f| f.get_mut(at..at.checked_add(bytes.len())?));
            let place = place.ok_or_else(|| Error::damaged(format!("{name} is too short")))?;
            place.copy_from_slice(bytes);
            Ok(())
        })
    }

    pub(crate) fn remove(&self, name: &str) {
        self.with(|all| all.0.remove(name));
    }

    pub(crate) fn discard(&self, path: &Path) {
        self.disk.remove_file(path);
    }

    pub(crate) fn list(&self, prefix: &str) -> Vec<String> {
        self.with(|all| {
            let names = all.0.keys().filter(|name| name.starts_with(prefix));
            names.cloned().collect()
        })
    }
}
