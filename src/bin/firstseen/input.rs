//! Where rows come from: a file, or a pipe read by a thread of its own.
//!
//! A pipe may fall silent for hours. Its reader thread blocks instead of us, so that rows already
//! read are committed when the input pauses, and Ctrl-C is answered while nothing comes. The
//! thread holds at most [`CHUNKS`] chunks and ends with the process.
//!
//! Only a regular file has a position that means the same in the next run. To be sure that it is
//! the same input then, its first bytes are fingerprinted ([`File::fingerprint`]).

use std::fs;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use xxhash_rust::xxh3::xxh3_64;

use crate::failure::Failure;

/// A pipe that brings nothing for this long pauses.
const PAUSE: Duration = Duration::from_millis(50);
const CHUNK_BYTES: usize = 128 << 10;
const CHUNKS: usize = 8;
/// How much of a file is fingerprinted.
const FINGERPRINT_BYTES: u64 = 4096;

/// What asking for bytes led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fed {
    Bytes(usize),
    /// Nothing came for a while; more may come.
    Pause,
    End,
}

/// An open input.
pub(crate) enum Input {
    File(File),
    Pipe(Pipe),
}

impl Input {
    /// Opens a path, or standard input for `-`.
    pub(crate) fn open(path: &Path) -> Result<Input, Failure> {
        if path == Path::new("-") {
            return Ok(Input::Pipe(Pipe::start(|| Ok(io::stdin()))));
        }
        let meta = fs::metadata(path).map_err(|error| Failure::file(path, &error))?;
        if meta.is_file() {
            return File::open(path)
                .map(Input::File)
                .map_err(|e| Failure::file(path, &e));
        }
        if meta.is_dir() {
            return Err(Failure::Usage(format!("{} is a directory", path.display())));
        }
        // Opening a named pipe waits for its writer: that too is the thread's business.
        let path = path.to_path_buf();
        Ok(Input::Pipe(Pipe::start(move || fs::File::open(path))))
    }

    /// Some bytes into `buf`, which isn't empty.
    pub(crate) fn feed(&mut self, buf: &mut [u8]) -> io::Result<Fed> {
        match self {
            Input::File(file) => match file.file.read(buf) {
                Ok(0) => Ok(Fed::End),
                Ok(n) => Ok(Fed::Bytes(n)),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Fed::Pause),
                Err(error) => Err(error),
            },
            Input::Pipe(pipe) => pipe.feed(buf),
        }
    }

    /// The file, if this is one.
    pub(crate) fn as_file(&self) -> Option<&File> {
        match self {
            Input::File(file) => Some(file),
            Input::Pipe(_) => None,
        }
    }

    /// Goes on reading at an offset. A pipe stays where it is.
    pub(crate) fn seek(&mut self, offset: u64) -> io::Result<()> {
        if let Input::File(file) = self {
            file.file.seek(SeekFrom::Start(offset))?;
        }
        Ok(())
    }
}

/// A regular file.
pub(crate) struct File {
    file: fs::File,
    path: PathBuf,
    bytes: u64,
    id: (u64, u64),
}

impl File {
    fn open(path: &Path) -> io::Result<File> {
        let file = fs::File::open(path)?;
        let meta = file.metadata()?;
        let path = fs::canonicalize(path)?;
        Ok(File {
            file,
            path,
            bytes: meta.len(),
            id: (meta.dev(), meta.ino()),
        })
    }

    /// The absolute path without links, which names the file in its job.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The length when it was opened.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Device and inode, to tell that input and output are one file.
    pub(crate) fn id(&self) -> (u64, u64) {
        self.id
    }

    /// A hash of the first 4 KiB, or of what stands before `offset` if that is less.
    pub(crate) fn fingerprint(&self, offset: u64) -> io::Result<u64> {
        let mut head = vec![0; offset.min(FINGERPRINT_BYTES) as usize];
        self.file.read_exact_at(&mut head, 0)?;
        Ok(xxh3_64(&head))
    }
}

/// Standard input or a named pipe.
pub(crate) struct Pipe {
    chunks: Receiver<io::Result<Vec<u8>>>,
    chunk: Vec<u8>,
    used: usize,
}

impl Pipe {
    fn start<R: Read>(open: impl FnOnce() -> io::Result<R> + Send + 'static) -> Pipe {
        let (send, chunks) = mpsc::sync_channel(CHUNKS);
        thread::spawn(move || {
            let mut from = match open() {
                Ok(from) => from,
                Err(error) => return drop(send.send(Err(error))),
            };
            loop {
                let mut chunk = vec![0; CHUNK_BYTES];
                let chunk = match from.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(n) => {
                        chunk.truncate(n);
                        Ok(chunk)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => Err(error),
                };
                let failed = chunk.is_err();
                if send.send(chunk).is_err() || failed {
                    return;
                }
            }
        });
        Pipe {
            chunks,
            chunk: Vec::new(),
            used: 0,
        }
    }

    fn feed(&mut self, buf: &mut [u8]) -> io::Result<Fed> {
        if self.used == self.chunk.len() {
            self.chunk = match self.chunks.recv_timeout(PAUSE) {
                Ok(chunk) => chunk?,
                Err(RecvTimeoutError::Timeout) => return Ok(Fed::Pause),
                Err(RecvTimeoutError::Disconnected) => return Ok(Fed::End),
            };
            self.used = 0;
        }
        let n = buf.len().min(self.chunk.len() - self.used);
        buf[..n].copy_from_slice(&self.chunk[self.used..self.used + n]);
        self.used += n;
        Ok(Fed::Bytes(n))
    }
}
