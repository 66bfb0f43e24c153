//! One run as a file of RocksDB's, written beside the store and ingested whole.

use std::path::PathBuf;

use rocksdb::{Options, SstFileWriter};

use crate::error::Result;

use super::fault::map;

/// A run that is being written. Keys must come in ascending order.
pub(crate) struct RunFile<'a> {
    writer: SstFileWriter<'a>,
    path: PathBuf,
}

impl<'a> RunFile<'a> {
    pub(super) fn create(options: &'a Options, path: PathBuf) -> Result<RunFile<'a>> {
        let writer = SstFileWriter::create(options);
        writer.open(&path).map_err(map)?;
        Ok(RunFile { writer, path })
    }

    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.writer.put(key, value).map_err(map)
    }

    /// Ends the file, fsyncs it, and tells where it is.
    pub(crate) fn finish(mut self) -> Result<PathBuf> {
        self.writer.finish().map_err(map)?;
        Ok(self.path)
    }
}
