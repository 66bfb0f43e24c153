//! One run as a file of RocksDB's, written beside the store and ingested whole.

use std::path::{Path, PathBuf};

use rocksdb::{Options, SstFileWriter};

use crate::error::Result;

use super::Home;
use super::fault::map;
use super::inject::{Place, at};

/// A run that is being written. Keys must come in ascending order.
pub(crate) struct RunFile<'a> {
    // Declared before `file`: it is closed first.
    writer: SstFileWriter<'a>,
    home: &'a Home,
    file: Temporary,
}

impl<'a> RunFile<'a> {
    pub(super) fn create(options: &'a Options, home: &'a Home, name: &str) -> Result<RunFile<'a>> {
        let path = home.run_path(name);
        let writer = SstFileWriter::create(options);
        at(home, Place::RunFile, || writer.open(&path).map_err(map))?;
        let file = Temporary {
            home: home.clone(),
            path,
        };
        Ok(RunFile { writer, home, file })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        at(self.home, Place::RunFile, || {
            self.writer.put(key, value).map_err(map)
        })
    }

    /// Ends the file and fsyncs it.
    pub(crate) fn finish(mut self) -> Result<FinishedRun> {
        at(self.home, Place::RunFile, || {
            self.writer.finish().map_err(map)
        })?;
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

/// A file that goes when nobody needs it any more: work that fails again and again must not
/// fill the disk.
struct Temporary {
    home: Home,
    path: PathBuf,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.home.discard(&self.path);
    }
}
