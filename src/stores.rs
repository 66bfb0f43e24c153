//! One store for each partition that this process owns.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::Options;
use crate::resources::Resources;
use crate::store::Store;
use crate::sync::Mutex;

/// The stores of a consumer's partitions, under one directory, on shared resources.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use firstseen::{Options, Resources, Stores};
/// use std::time::Duration;
/// let stores = Stores::new(dir.path(), Options::new(), Resources::new())?;
/// let store = stores.assign("orders/3")?;
/// drop(store);
/// stores.revoke("orders/3", Duration::from_secs(5))?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Stores {
    inner: Arc<Inner>,
}

struct Inner {
    root: PathBuf,
    options: Options,
    open: Mutex<HashMap<String, Slot>>,
}

/// One partition's place. Its own lock, so that partitions open side by side.
type Slot = Arc<Mutex<Option<Store>>>;

impl std::fmt::Debug for Stores {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let partitions = self.assigned();
        f.debug_struct("Stores")
            .field("partitions", &partitions)
            .finish_non_exhaustive()
    }
}

impl Stores {
    /// Stores under `root`, each opened with `options` on these resources.
    ///
    /// # Errors
    /// `Invalid` with all violations of the options; I/O errors.
    pub fn new(root: impl AsRef<Path>, options: Options, resources: Resources) -> Result<Stores> {
        options.validate()?;
        let root = root.as_ref().to_path_buf();
        std::fs::create_dir_all(&root)?;
        let options = options.resources(&resources);
        Ok(Stores {
            inner: Arc::new(Inner {
                root,
                options,
                open: Mutex::default(),
            }),
        })
    }

    /// The store of a partition that was assigned to this process: opened, or made, or the one
    /// that is open already. Read its resume point and seek there.
    ///
    /// # Errors
    /// As [`Store::open`]; `Invalid` for an empty name.
    pub fn assign(&self, partition: &str) -> Result<Store> {
        let dir = self.inner.root.join(folder(partition)?);
        let slot = {
            let mut open = self.inner.open.lock();
            Arc::clone(open.entry(partition.to_string()).or_default())
        };
        let mut place = slot.lock();
        if let Some(store) = place.as_ref().filter(|s| s.is_open()) {
            return Ok(store.clone());
        }
        let store = Store::open(dir, self.inner.options.clone())?;
        *place = Some(store.clone());
        Ok(store)
    }

    /// Gives a partition up: finishes what was submitted, syncs and closes, within a deadline
    /// that should be well inside the broker's. Its handles get `Closed`.
    ///
    /// # Errors
    /// `Invalid` if the partition is not assigned; `Busy` if calls or held batches outlast the
    /// deadline (the store is closed all the same, its directory free when they end); what the
    /// last sync failed with.
    pub fn revoke(&self, partition: &str, within: Duration) -> Result<()> {
        let slot = self.inner.open.lock().get(partition).cloned();
        let store = slot.and_then(|slot| slot.lock().take()).ok_or_else(|| {
            Error::invalid(format!("partition {partition:?} is not assigned here"))
        })?;
        if !store.is_open() {
            return Ok(());
        }
        store.close_within(Some(within))
    }

    /// The partitions that are assigned or being opened, in no order.
    #[must_use]
    pub fn assigned(&self) -> Vec<String> {
        let open = self.inner.open.lock();
        let assigned = open
            .iter()
            .filter(|(_, slot)| slot.try_lock().is_none_or(|s| s.is_some()));
        assigned.map(|(partition, _)| partition.clone()).collect()
    }
}

/// A partition's folder: letters, digits, `-` and `_` as they are, other bytes as `%xx`.
fn folder(partition: &str) -> Result<String> {
    if partition.is_empty() || partition.len() > 80 {
        return Err(Error::invalid("a partition's name must have 1 to 80 bytes"));
    }
    let mut folder = String::new();
    for byte in partition.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_' {
            folder.push(char::from(byte));
        } else {
            folder.push_str(&format!("%{byte:02x}"));
        }
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_do_not_collide_and_stay_below_the_root() {
        assert_eq!(folder("orders/3").unwrap(), "orders%2f3");
        assert_eq!(folder("..").unwrap(), "%2e%2e");
        assert_ne!(folder("a%2f").unwrap(), folder("a/").unwrap());
        assert!(folder("").is_err());
    }
}
