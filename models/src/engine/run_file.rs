//! A run that is being written, as a file that can be ingested.

use std::path::{Path, PathBuf};

use super::disk::Map;
use super::{Home, Place, at};
use crate::error::{Error, Result};

/// Keys must come in ascending order.
pub(crate) struct RunFile<'a> {
    home: &'a Home,
    rows: Map,
    file: Temporary,
}

impl<'a> RunFile<'a> {
    pub(super) fn create(home: &'a Home, name: &str) -> Result<RunFile<'a>> {
        let path = home.run_path(name);
        at(home, Place::RunFile, || Ok(()))?;
        let (rows, home_of_file) = (Map::new(), home.clone());
        let file = Temporary {
            home: home_of_file,
            path,
        };
        Ok(RunFile { home, rows, file })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        at(self.home, Place::RunFile, || Ok(()))?;
        let last = self.rows.last_key_value();
        if last.is_some_and(|(last, _)| &last[..] >= key) {
            return Err(Error::invalid("keys of a run must ascend"));
        }
        self.rows.insert(key.to_vec(), value.to_vec());
        Ok(())
    }

    pub(crate) fn finish(self) -> Result<FinishedRun> {
        at(self.home, Place::RunFile, || Ok(()))?;
        if let Some(memory) = &self.home.memory {
            memory.disk.add_file(&self.file.path, self.rows);
        }
        Ok(FinishedRun(self.file))
    }
}

/// A finished run that waits to be ingested, which takes its file away.
pub(crate) struct FinishedRun(Temporary);

impl FinishedRun {
    pub(super) fn path(&self) -> &Path {
        &self.0.path
    }
}

/// A file that goes when nobody needs it any more.
struct Temporary {
    home: Home,
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.home.discard(&self.path);
    }
}
