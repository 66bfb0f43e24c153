//! Where rows go: a file whose length is part of the job's state, or a stream.
//!
//! 1. What was pushed is in the file when `flush` returns, and on the disk if it was asked to
//!    sync; `bytes` is then the file's length. The caller commits that length afterwards, so a
//!    crash leaves at most uncommitted bytes behind the committed ones, never too few.
//! 2. Nothing is cut off before the store said how much is committed (`start_at`).
//!
//! A stream (standard output, a named pipe, a device) has no length to come back to.

use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// An open output.
pub(crate) struct Output {
    to: Target,
    path: PathBuf,
    pending: Vec<u8>,
    bytes: u64,
}

enum Target {
    File(fs::File),
    Stream(Box<dyn Write>),
}

impl Output {
    /// Opens a path, made if there is none, or standard output for `-`. Changes nothing yet.
    pub(crate) fn open(path: &Path) -> Result<Output, Failure> {
        let fail = |error| Failure::file(path, &error);
        let (to, path) = if path == Path::new("-") {
            (
                Target::Stream(Box::new(io::stdout().lock())),
                path.to_path_buf(),
            )
        } else {
            let file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(false)
                .open(path);
            let file = file.map_err(fail)?;
            let to = match file.metadata().map_err(fail)?.is_file() {
                true => Target::File(file),
                false => Target::Stream(Box::new(file)),
            };
            (to, fs::canonicalize(path).map_err(fail)?)
        };
        Ok(Output {
            to,
            path,
            pending: Vec::new(),
            bytes: 0,
        })
    }

    /// The absolute path without links, if this is a file.
    pub(crate) fn file_path(&self) -> Option<&Path> {
        match self.to {
            Target::File(_) => Some(&self.path),
            Target::Stream(_) => None,
        }
    }

    /// Device and inode, if this is a file.
    pub(crate) fn id(&self) -> Result<Option<(u64, u64)>, Failure> {
        match &self.to {
            Target::File(file) => {
                let meta = file.metadata().map_err(|error| self.fail(&error))?;
                Ok(Some((meta.dev(), meta.ino())))
            }
            Target::Stream(_) => Ok(None),
        }
    }

    /// Whether rows go to a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.path == Path::new("-") && io::stdout().is_terminal()
    }

    /// Keeps the first `bytes` bytes, cuts off the rest and goes on there.
    pub(crate) fn start_at(&mut self, bytes: u64) -> Result<(), Failure> {
        let Target::File(file) = &mut self.to else {
            return Ok(());
        };
        let done = file.metadata().and_then(|meta| {
            if meta.len() < bytes {
                return Ok(Some(meta.len()));
            }
            file.set_len(bytes)?;
            file.seek(SeekFrom::Start(bytes))?;
            Ok(None)
        });
        match done {
            Ok(None) => self.bytes = bytes,
            Ok(Some(found)) => {
                return Err(Failure::File(format!(
                    "{} has {found} bytes, but {bytes} were committed to it: put it back, or give \
                     the unfinished job up with --restart",
                    self.path.display()
                )));
            }
            Err(error) => return Err(self.fail(&error)),
        }
        Ok(())
    }

    /// Adds a row.
    pub(crate) fn push(&mut self, row: &[u8]) {
        self.pending.extend_from_slice(row);
    }

    /// Whether nothing was ever written or pushed.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0 && self.pending.is_empty()
    }

    /// Hands all that was pushed to the file or the stream.
    pub(crate) fn flush(&mut self, sync: bool) -> Result<(), Failure> {
        let written = match &mut self.to {
            Target::File(file) => file
                .write_all(&self.pending)
                .and_then(|()| if sync { file.sync_data() } else { Ok(()) }),
            Target::Stream(stream) => stream
                .write_all(&self.pending)
                .and_then(|()| stream.flush()),
        };
        written.map_err(|error| self.fail(&error))?;
        self.bytes += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    /// Makes the file's name as durable as its bytes.
    pub(crate) fn sync_name(&self) -> Result<(), Failure> {
        let Some(parent) = self.file_path().and_then(Path::parent) else {
            return Ok(());
        };
        let synced = fs::File::open(parent).and_then(|directory| directory.sync_all());
        synced.map_err(|error| Failure::file(parent, &error))
    }

    /// The file's length, as far as it was flushed.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    fn fail(&self, error: &io::Error) -> Failure {
        match self.to {
            Target::Stream(_) if error.kind() == io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::file(&self.path, error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_committed_is_cut_off() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, b"kept|lost").unwrap();
        let mut output = Output::open(&path).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"kept|lost");
        output.start_at(5).unwrap();
        output.push(b"more");
        output.flush(true).unwrap();
        assert_eq!(output.bytes(), 9);
        assert_eq!(fs::read(&path).unwrap(), b"kept|more");
    }

    #[test]
    fn a_file_shorter_than_committed_is_an_error_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        fs::write(&path, b"abc").unwrap();
        let error = Output::open(&path).unwrap().start_at(4).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("has 3 bytes, but 4 were committed"),
            "{error}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"abc");
    }
}
