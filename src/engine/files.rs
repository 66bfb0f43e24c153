//! Small files of a store beside RocksDB's: the floor, the lock, filter snapshots.
//!
//! A store lives in a directory, or (for tests) in memory; both offer the same few operations.
//! A whole file is replaced by temporary file, fsync, rename, directory fsync. A slot within a
//! file is overwritten in place and fsynced (the floor's two slots).

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};

#[cfg(feature = "testing")]
use super::inject::Faults;
use super::inject::{Place, at};
#[cfg(any(test, feature = "testing"))]
use super::memory::{self, Memory};

/// The file whose lock says who has the store open.
const LOCK: &str = "LOCK";
/// The extension of a run whose ingestion failed (`stand_in.rs`).
const KEPT_ASIDE: &str = "kept";
/// So many are kept: work that fails again and again must not fill the disk.
const KEPT_MAX: usize = 8;

/// Where a store's files are.
#[derive(Clone)]
pub(crate) struct Home {
    dir: PathBuf,
    /// What stands in for the directory, in tests.
    #[cfg(any(test, feature = "testing"))]
    pub(super) memory: Option<std::sync::Arc<Memory>>,
    /// What a test wants to fail.
    #[cfg(feature = "testing")]
    pub(crate) faults: std::sync::Arc<Faults>,
    /// What RocksDB's files go through, in tests.
    #[cfg(any(test, feature = "testing"))]
    env: Option<rocksdb::Env>,
}

/// How often the lock is tried, and how long is waited between.
const LOCK_TRIES: u32 = 10;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// What the function it stands in answers for a home in memory.
macro_rules! in_memory {
    ($home:expr, $memory:pat => $answer:expr) => {
        #[cfg(any(test, feature = "testing"))]
        if let Some($memory) = &$home.memory {
            return $answer;
        }
    };
}

/// Tries a lock until it can be had, for a moment: a process that was just started from here holds
/// copies of our open files until its program begins.
pub(crate) fn patiently(
    mut try_lock: impl FnMut() -> std::result::Result<(), fs::TryLockError>,
) -> std::result::Result<(), fs::TryLockError> {
    for _ in 0..LOCK_TRIES {
        match try_lock() {
            Err(fs::TryLockError::WouldBlock) => clock::pause(LOCK_PAUSE),
            tried => return tried,
        }
    }
    try_lock()
}

impl Home {
    #[cfg(any(test, feature = "testing"))]
    pub(crate) fn memory() -> Result<Home> {
        let memory = Memory::new()?;
        Ok(Home {
            dir: PathBuf::from(memory::PATH),
            env: Some(memory.env.clone()),
            memory: Some(std::sync::Arc::new(memory)),
            #[cfg(feature = "testing")]
            faults: std::sync::Arc::default(),
        })
    }

    pub(crate) fn at(dir: &Path) -> Home {
        Home {
            dir: dir.to_path_buf(),
            #[cfg(any(test, feature = "testing"))]
            memory: None,
            #[cfg(feature = "testing")]
            faults: std::sync::Arc::default(),
            #[cfg(any(test, feature = "testing"))]
            env: None,
        }
    }

    /// Sends RocksDB's files through an environment. Ours stay with the system.
    #[cfg(all(feature = "testing", feature = "raw"))]
    pub(crate) fn through(self, env: Option<&rocksdb::Env>) -> Home {
        Home {
            env: env.cloned(),
            ..self
        }
    }

    /// The environment that RocksDB's files go through, if it isn't the system's.
    #[cfg(any(test, feature = "testing"))]
    pub(super) fn env(&self) -> Option<&rocksdb::Env> {
        self.env.as_ref()
    }

    /// Where RocksDB's own files are.
    pub(crate) fn data_path(&self) -> PathBuf {
        in_memory!(self, _ => self.dir.clone());
        self.dir.join("data")
    }

    /// Where runs are written before they are ingested.
    pub(crate) fn run_path(&self, name: &str) -> PathBuf {
        in_memory!(self, _ => PathBuf::from(format!("{}-{name}", memory::PATH)));
        self.dir.join("tmp").join(name)
    }

    /// Reads a run once: its writer drops it from the page cache, and the first lookups would
    /// wait for the disk.
    pub(crate) fn warm(&self, path: &Path) -> Result<()> {
        in_memory!(self, _ => Ok(()));
        let mut buffer = vec![0; 256 << 10];
        let mut file = File::open(path)?;
        while file.read(&mut buffer)? > 0 {}
        Ok(())
    }

    /// Removes a run's file that came to nothing. What stays is removed at the next open.
    pub(super) fn discard(&self, path: &Path) {
        in_memory!(self, memory => memory.discard(path));
        let _ = fs::remove_file(path);
    }

    /// Keeps a run whose ingestion failed, through the next open.
    pub(super) fn keep_aside(&self, run: &Path) -> Result<()> {
        in_memory!(self, _ => Ok(()));
        if self.kept_aside()?.len() >= KEPT_MAX {
            return Ok(());
        }
        fs::rename(run, run.with_extension(KEPT_ASIDE))?;
        sync_directory(&self.dir.join("tmp"))
    }

    /// The runs that were kept.
    pub(super) fn kept_aside(&self) -> Result<Vec<PathBuf>> {
        in_memory!(self, _ => Ok(Vec::new()));
        let entries = fs::read_dir(self.dir.join("tmp"))?;
        let paths = entries.map(|entry| Ok(entry?.path()));
        let is_kept = |p: &PathBuf| p.extension().is_some_and(|e| e == KEPT_ASIDE);
        paths.filter(|p| p.as_ref().map_or(true, is_kept)).collect()
    }

    /// The first of RocksDB's tables that isn't there.
    pub(super) fn missing_table(&self, tables: &[String]) -> Option<String> {
        let names = tables.iter().map(|name| name.trim_start_matches('/'));
        let mut missing = names.filter(|name| !self.dir.join("data").join(name).exists());
        missing.next().map(str::to_string)
    }

    /// Puts a kept run in the place of a missing table; where that is.
    pub(super) fn stand_in(&self, run: &Path, table: &str) -> Result<PathBuf> {
        let place = self.dir.join("data").join(table);
        fs::hard_link(run, &place)?;
        sync_directory(&self.dir.join("data"))?;
        Ok(place)
    }

    /// Removes the kept runs: nothing needs them, or they are in their places.
    pub(super) fn forget_kept_aside(&self) -> Result<()> {
        for run in self.kept_aside()? {
            fs::remove_file(run)?;
        }
        Ok(())
    }

    /// Makes the folders; removes what a crash left in the temporary one.
    pub(crate) fn prepare(&self) -> Result<()> {
        in_memory!(self, _ => Ok(()));
        fs::create_dir_all(self.dir.join("data"))?;
        let temporary = self.dir.join("tmp");
        fs::create_dir_all(&temporary)?;
        for entry in fs::read_dir(&temporary)? {
            let path = entry?.path();
            if path.extension().is_none_or(|e| e != KEPT_ASIDE) {
                fs::remove_file(path)?;
            }
        }
        fs::create_dir_all(self.dir.join("filters"))?;
        sync_directory(&self.dir)
    }

    /// Whether a database was ever made here.
    pub(crate) fn has_data(&self) -> Result<bool> {
        in_memory!(self, memory => Ok(memory.has_data()));
        Ok(fs::read_dir(self.dir.join("data"))?.next().is_some())
    }

    /// The same of a directory that may lack the folder.
    pub(crate) fn holds_data(&self) -> bool {
        self.has_data().unwrap_or(false)
    }

    /// Removes what a database left that was stopped while it was made: without its CURRENT
    /// file, or a first log after that, it can't be opened. Only for a store that never was one.
    pub(crate) fn clear_unfinished(&self) -> Result<()> {
        let data = self.dir.join("data");
        if self.directory().is_none() {
            return Ok(());
        }
        let files = fs::read_dir(&data)?.map(|entry| Ok(entry?.path()));
        let files = files.collect::<Result<Vec<PathBuf>>>()?;
        let has_log = files
            .iter()
            .any(|f| f.extension().is_some_and(|e| e == "log"));
        if has_log && data.join("CURRENT").exists() {
            return Ok(());
        }
        for file in files {
            fs::remove_file(file)?;
        }
        sync_directory(&data)
    }

    /// Says that there is a database now.
    pub(super) fn set_has_data(&self) {
        // A directory shows it.
        in_memory!(self, memory => memory.set_has_data());
    }

    /// Takes the directory for this process; the lock goes with the returned file. A process
    /// that is just ending may hold it for a moment longer, so it is tried a few times.
    ///
    /// # Errors
    /// `AlreadyOpen`, with the other opener's process number.
    pub(crate) fn lock(&self) -> Result<Option<File>> {
        in_memory!(self, _ => Ok(None));
        fs::create_dir_all(&self.dir)?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(self.dir.join(LOCK))?;
        match patiently(|| file.try_lock()) {
            Ok(()) => {
                file.set_len(0)?;
                write!(file, "{}", std::process::id())?;
                Ok(Some(file))
            }
            Err(fs::TryLockError::WouldBlock) => Err(self.already_open()),
            Err(fs::TryLockError::Error(e)) => Err(e.into()),
        }
    }

    /// Keeps others from opening the store, without writing anything: for who only reads. `None`
    /// if it has no lock file, as a copy that was never opened.
    ///
    /// # Errors
    /// `AlreadyOpen`.
    pub(crate) fn lock_for_reading(&self) -> Result<Option<File>> {
        let file = match File::open(self.dir.join(LOCK)) {
            Ok(file) => file,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(Error::from(e).context(LOCK)),
        };
        match patiently(|| file.try_lock()) {
            Ok(()) => Ok(Some(file)),
            Err(fs::TryLockError::WouldBlock) => Err(self.already_open()),
            Err(fs::TryLockError::Error(e)) => Err(e.into()),
        }
    }

    /// Whether anybody ever opened the store for writing here.
    pub(crate) fn has_lock(&self) -> bool {
        self.dir.join(LOCK).exists()
    }

    /// The number of the process that has the store open, as text; `None` if none has.
    ///
    /// # Errors
    /// Those of reading the lock's file.
    pub(crate) fn opener(&self) -> Result<Option<String>> {
        in_memory!(self, _ => Ok(None));
        let Ok(file) = File::open(self.dir.join(LOCK)) else {
            return Ok(None);
        };
        // Shared, so that two who look don't take each other for an opener; let go at once.
        match file.try_lock_shared() {
            Ok(()) => Ok(None),
            Err(fs::TryLockError::WouldBlock) => {
                let owner = fs::read_to_string(self.dir.join(LOCK)).unwrap_or_default();
                Ok(Some(owner))
            }
            Err(fs::TryLockError::Error(e)) => Err(e.into()),
        }
    }

    fn already_open(&self) -> Error {
        let owner = fs::read_to_string(self.dir.join(LOCK)).unwrap_or_default();
        Error::new(
            ErrorKind::AlreadyOpen,
            format!("{} is already open by process {owner}", self.dir.display()),
        )
    }

    pub(crate) fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        in_memory!(self, memory => Ok(memory.read(name)));
        match fs::read(self.dir.join(name)) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from(e).context(name)),
        }
    }

    /// Replaces a whole file, atomically and durably.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> Result<()> {
        in_memory!(self, memory => {
            at(self, Place::SmallFile, || Ok(()))?;
            memory.replace(name, bytes);
            Ok(())
        });
        self.replace_by(name, |file| file.write_all(bytes))
    }

    /// As [`Home::replace`], with what the function writes; only where there is a directory.
    pub(crate) fn replace_by(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<()> {
        at(self, Place::SmallFile, || Ok(()))?;
        let path = self.dir.join(name);
        let temporary = path.with_extension("new");
        let written = File::create(&temporary).and_then(|mut file| {
            write(&mut file)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)
        });
        if let Err(error) = written {
            // Half a file would only take room.
            let _ = fs::remove_file(&temporary);
            return Err(error.into());
        }
        sync_directory(path.parent().unwrap_or(&self.dir))
    }

    /// Overwrites `bytes` at `offset` of an existing file, and fsyncs it.
    pub(crate) fn overwrite(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        at(self, Place::Floor, || Ok(()))?;
        in_memory!(self, memory => memory.overwrite(name, offset, bytes));
        let file = OpenOptions::new().write(true).open(self.dir.join(name))?;
        file.write_all_at(bytes, offset)?;
        file.sync_data()?;
        Ok(())
    }

    pub(crate) fn remove(&self, name: &str) -> Result<()> {
        in_memory!(self, memory => {
            memory.remove(name);
            Ok(())
        });
        match fs::remove_file(self.dir.join(name)) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(e.into()),
            _ => Ok(()),
        }
    }

    /// Removes a file of a directory so that it stays away after a power failure.
    pub(crate) fn remove_durably(&self, name: &str) -> Result<()> {
        at(self, Place::SmallFile, || Ok(()))?;
        self.remove(name)?;
        let path = self.dir.join(name);
        match path.parent() {
            Some(folder) if folder.is_dir() => sync_directory(folder),
            _ => Ok(()),
        }
    }

    /// Makes one of our folders, if it isn't there.
    pub(crate) fn make_folder(&self, folder: &str) -> Result<()> {
        fs::create_dir_all(self.dir.join(folder))?;
        sync_directory(&self.dir)
    }

    /// Whether a directory has a file.
    pub(crate) fn has_file(&self, name: &str) -> bool {
        self.directory().is_some_and(|dir| dir.join(name).exists())
    }

    /// Opens a file of a directory to be read.
    pub(crate) fn open_file(&self, name: &str) -> Result<Option<File>> {
        match File::open(self.dir.join(name)) {
            Ok(file) => Ok(Some(file)),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::from(e).context(name)),
        }
    }

    /// The names of the files in one of our folders.
    pub(crate) fn list(&self, folder: &str) -> Result<Vec<String>> {
        let prefix = format!("{folder}/");
        in_memory!(self, memory => Ok(memory.list(&prefix)));
        let mut names = Vec::new();
        for entry in fs::read_dir(self.dir.join(folder))? {
            names.push(format!("{prefix}{}", entry?.file_name().to_string_lossy()));
        }
        Ok(names)
    }

    /// Bytes free for us on the file system; `None` in memory.
    pub(crate) fn free_bytes(&self) -> Result<Option<u64>> {
        in_memory!(self, _ => Ok(None));
        let stat = rustix::fs::statvfs(&self.dir).map_err(std::io::Error::from)?;
        Ok(Some(stat.f_bavail.saturating_mul(stat.f_frsize)))
    }

    /// The directory, if it is one.
    pub(crate) fn directory(&self) -> Option<&Path> {
        in_memory!(self, _ => None);
        Some(&self.dir)
    }
}

/// Makes the names in a directory durable.
pub(crate) fn sync_directory(dir: &Path) -> Result<()> {
    File::open(dir)?.sync_all()?;
    Ok(())
}
