//! A run that is being written, as a file that can be ingested.

use std::path::PathBuf;
use std::sync::Arc;

use super::Disk;
use super::disk::Map;
use crate::error::{Error, Result};

/// Keys must come in ascending order.
pub(crate) struct RunFile<'a> {
    disk: &'a Arc<Disk>,
    path: PathBuf,
    rows: Map,
}

impl<'a> RunFile<'a> {
    pub(super) fn create(disk: &'a Arc<Disk>, path: PathBuf) -> RunFile<'a> {
        let rows = Map::new();
        RunFile { disk, path, rows }
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        if self
            .rows
            .last_key_value()
            .is_some_and(|(last, _)| &last[..] >= key)
        {
            return Err(Error::invalid("keys of a run must ascend"));
        }
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<PathBuf> {
        self.disk.add_file(&self.path, self.rows);
        Ok(self.path)
    }
}
