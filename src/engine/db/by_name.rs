//! Families by their names, for tests that damage a store below its face.

use std::sync::Arc;

use crate::engine::handle::Handle;
use crate::engine::{Engine, Family, Kind};
use crate::error::Result;

use super::{Db, Recovery, map, options};

impl Engine {
    /// The names of all families.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let database = options::database(&self.settings, Recovery::Unsynced)?;
        Db::list_cf(&database, self.settings.home.data_path()).map_err(map)
    }

    /// A family of rows, whatever is in it.
    pub(crate) fn family(&self, name: &str) -> Result<Arc<Family>> {
        Family::new(&self.db, Handle::opened(&self.db, name)?, name, Kind::Rows)
    }
}
