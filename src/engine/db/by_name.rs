//! Families by their names, for tests that damage a store below its face.

use std::sync::{Arc, Weak};

use crate::engine::{Engine, Family};
use crate::error::{Error, Result};

use super::{Db, Recovery, map, options};

impl Engine {
    /// The names of all families.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let database = options::database(&self.settings, Recovery::Unsynced)?;
        Db::list_cf(&database, self.settings.home.data_path()).map_err(map)
    }

    /// A family that is in use.
    pub(crate) fn family(&self, name: &str) -> Result<Arc<Family>> {
        let families = self.families.lock();
        let mut families = families.iter().filter_map(Weak::upgrade);
        families
            .find(|f| f.name() == name)
            .ok_or_else(|| Error::damaged(format!("column family {name} is missing")))
    }
}
