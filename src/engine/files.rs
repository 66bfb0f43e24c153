//! Small files of a store beside RocksDB's: the floor, the lock, filter snapshots.
//!
//! A store lives in a directory, or (for tests) in memory; both offer the same few operations.
//! A whole file is replaced by temporary file, fsync, rename, directory fsync. A slot within a
//! file is overwritten in place and fsynced (the floor's two slots).

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;

use crate::error::{Error, ErrorKind, Result};

/// Where a store's files are.
#[derive(Clone)]
pub(crate) enum Home {
    /// A directory.
    Directory(PathBuf),
    /// Memory: RocksDB's in-memory environment, and our small files in a map.
    Memory(Arc<MemoryHome>),
}

/// An in-memory home; it outlives the store, so that a test can reopen it.
pub(crate) struct MemoryHome {
    pub(super) env: rocksdb::Env,
    files: Mutex<HashMap<String, Vec<u8>>>,
    pub(super) has_data: AtomicBool,
}

/// The directory name RocksDB is given in its in-memory environment.
const MEMORY_PATH: &str = "/firstseen";

impl Home {
    pub(crate) fn memory() -> Result<Home> {
        let env = rocksdb::Env::mem_env().map_err(super::fault::map)?;
        Ok(Home::Memory(Arc::new(MemoryHome { env, files: Mutex::default(), has_data: AtomicBool::new(false) })))
    }

    /// Where RocksDB's own files are.
    pub(crate) fn data_path(&self) -> PathBuf {
        match self {
            Home::Directory(dir) => dir.join("data"),
            Home::Memory(_) => PathBuf::from(MEMORY_PATH),
        }
    }

    /// Where runs are written before they are ingested.
    pub(crate) fn run_path(&self, name: &str) -> PathBuf {
        match self {
            Home::Directory(dir) => dir.join("tmp").join(name),
            Home::Memory(_) => PathBuf::from(format!("{MEMORY_PATH}-{name}")),
        }
    }

    /// Reads a run once: its writer drops it from the page cache, and the first lookups would
    /// wait for the disk.
    pub(crate) fn warm(&self, path: &Path) -> Result<()> {
        if let Home::Directory(_) = self {
            let mut buffer = vec![0; 256 << 10];
            let mut file = File::open(path)?;
            while file.read(&mut buffer)? > 0 {}
        }
        Ok(())
    }

    /// Makes the folders; removes what a crash left in the temporary one.
    pub(crate) fn prepare(&self) -> Result<()> {
        let Home::Directory(dir) = self else { return Ok(()) };
        fs::create_dir_all(dir.join("data"))?;
        let temporary = dir.join("tmp");
        if temporary.exists() {
            fs::remove_dir_all(&temporary)?;
        }
        fs::create_dir_all(&temporary)?;
        fs::create_dir_all(dir.join("filters"))?;
        sync_directory(dir)
    }

    /// Whether a database was ever made here.
    pub(crate) fn has_data(&self) -> Result<bool> {
        match self {
            Home::Directory(dir) => Ok(fs::read_dir(dir.join("data"))?.next().is_some()),
            Home::Memory(m) => Ok(m.has_data.load(Ordering::Acquire)),
        }
    }

    pub(super) fn set_has_data(&self) {
        if let Home::Memory(m) = self {
            m.has_data.store(true, Ordering::Release);
        }
    }

    /// Takes the directory for this process; the lock goes with the returned file.
    ///
    /// # Errors
    /// `AlreadyOpen`, with the other opener's process number.
    pub(crate) fn lock(&self) -> Result<Option<File>> {
        let Home::Directory(dir) = self else { return Ok(None) };
        fs::create_dir_all(dir)?;
        let path = dir.join("LOCK");
        let mut file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        match file.try_lock() {
            Ok(()) => {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                Ok(Some(file))
            }
            Err(fs::TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(&path).unwrap_or_default();
                Err(Error::new(
                    ErrorKind::AlreadyOpen,
                    format!("{} is already open by process {owner}", dir.display()),
                ))
            }
            Err(fs::TryLockError::Error(e)) => Err(e.into()),
        }
    }

    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        match self {
            Home::Directory(dir) => match fs::read(dir.join(name)) {
                Ok(bytes) => Ok(Some(bytes)),
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(e) => Err(Error::from(e).context(name)),
            },
            Home::Memory(m) => Ok(m.files.lock().get(name).cloned()),
        }
    }

    /// Replaces a whole file, atomically and durably.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        match self {
            Home::Directory(dir) => {
                let path = dir.join(name);
                let temporary = path.with_extension("new");
                let mut file = File::create(&temporary)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&temporary, &path)?;
                sync_directory(path.parent().unwrap_or(dir))
            }
            Home::Memory(m) => {
                m.files.lock().insert(name.to_string(), bytes.to_vec());
                Ok(())
            }
        }
    }

    /// Overwrites `bytes` at `offset` of an existing file, and fsyncs it.
    pub(crate) fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        match self {
            Home::Directory(dir) => {
                let file = OpenOptions::new().write(true).open(dir.join(name))?;
                file.write_all_at(bytes, offset)?;
                file.sync_data()?;
                Ok(())
            }
            Home::Memory(m) => {
                let mut files = m.files.lock();
                let file = files
                    .get_mut(name)
                    .ok_or_else(|| Error::damaged(format!("{name} is missing")))?;
                let at = usize::try_from(offset).map_err(|_| Error::damaged("offset"))?;
                let Some(slot) = file.get_mut(at..at + bytes.len()) else {
                    return Err(Error::damaged(format!("{name} is too short")));
                };
                slot.copy_from_slice(bytes);
                Ok(())
            }
        }
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        match self {
            Home::Directory(dir) => match fs::remove_file(dir.join(name)) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
                _ => Ok(()),
            },
            Home::Memory(m) => {
                m.files.lock().remove(name);
                Ok(())
            }
        }
    }

    /// The names of the files in one of our folders.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = format!("{folder}/");
        match self {
            Home::Directory(dir) => {
                let mut names = Vec::new();
                for entry in fs::read_dir(dir.join(folder))? {
                    names.push(format!("{prefix}{}", entry?.file_name().to_string_lossy()));
                }
                Ok(names)
            }
            Home::Memory(m) => {
                let files = m.files.lock();
                Ok(files.keys().filter(|k| k.starts_with(&prefix)).cloned().collect())
            }
        }
    }

    /// Bytes free for us on the file system; `None` in memory.
    pub(crate) fn free_bytes(&self) -> Result<Option<u64>> {
        let Home::Directory(dir) = self else { return Ok(None) };
        let stat = rustix::fs::statvfs(dir).map_err(std::io::Error::from)?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    /// The directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        match self {
            Home::Directory(dir) => Some(dir),
            Home::Memory(_) => None,
        }
    }
}

fn sync_directory(dir: &Path) -> Result<()> {
    File::open(dir)?.sync_all()?;
    Ok(())
}
