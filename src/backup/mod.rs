//! Backups: a folder with many states of stores, each file kept once, and restoring one.
//!
//! | file | what |
//! | --- | --- |
//! | here | the public face |
//! | `pin` | the files of a store as of one moment, also of one that is being written |
//! | `create`, `restore`, `prune` | the verbs |
//! | `manifest` | what a backup consists of, as text with a checksum |
//! | `files` | bytes that are copied, summed and made durable |
//!
//! ```text
//! LOCK                      creating and pruning exclude each other, reading excludes pruning
//! <8 digits>.backup         the manifest of one backup; what it lists is whole (B1)
//! files/<sum>-<bytes>       contents, by their xxh3-128
//! tmp/                      what is being made
//! ```
//!
//! - B1: a manifest is put in place (rename, fsync) after everything that it lists is durable, and
//!   after the store in the backup was opened once, to be read.
//! - B2: contents are never changed; they go when no manifest lists them.
//! - B3: nothing is restored that doesn't have its checksum, and a restored store is in its place
//!   whole or not at all (`crate::copy`).
//!
//! The checksum finds decay, cuts and mix-ups. It is not cryptographic: whoever may write the
//! folder can change a backup so that it is not noticed.

mod create;
mod files;
mod manifest;
mod pin;
mod prune;
mod restore;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::engine::patiently;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::position::Position;
use crate::report::Progress;
use crate::store::Store;

pub use create::copy_store;

/// A folder of backups.
///
/// A backup takes a store as it is after one commit, whoever has it open, and copies what the
/// folder doesn't have yet. A restored one is a store of its own; replaying each source from its
/// resume point leaves no gap and doubles nothing.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let root = tempfile::tempdir()?;
/// # let (live, saved, back) =
/// #     (root.path().join("live"), root.path().join("saved"), root.path().join("back"));
/// use firstseen::{Backups, Options, Policy, Store, days};
/// let store = Store::open(&live, Options::new())?;
/// let orders = store.scope("orders", Policy::remember(days(7)))?;
/// let _ = orders.insert("order-17")?;
///
/// let backups = Backups::open(&saved)?;
/// let made = store.backup(&backups)?;
/// let _ = orders.insert("order-18")?;
///
/// backups.restore(made.id, &back, &Options::new(), |_| {})?;
/// let store = Store::open(&back, Options::new())?;
/// let orders = store.scope("orders", Policy::remember(days(7)))?;
/// assert!(orders.insert("order-17")?.is_duplicate());
/// assert!(orders.insert("order-18")?.is_first());
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Backups {
    dir: PathBuf,
}

/// What is known of one backup.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Backup {
    /// Its number in the folder, ascending.
    pub id: u64,
    /// The store's effective time when it was made.
    pub at: SystemTime,
    /// The last commit that is in it.
    pub commit: u64,
    /// The ids in it, an estimate as [`Stats::live_ids_estimate`](crate::Stats) is.
    pub ids_estimate: u64,
    /// How many files it consists of, and their bytes.
    pub files: u64,
    /// See `files`.
    pub bytes: u64,
    /// Bytes that were not in the folder before it.
    pub bytes_added: u64,
    /// The resume point of each source: from where to replay after restoring it.
    pub resume_points: Vec<(String, Position)>,
}

/// What pruning removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pruned {
    /// Backups.
    pub backups: u64,
    /// Files that none of the remaining ones has.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

const LOCK: &str = "LOCK";
const FILES: &str = "files";
const TMP: &str = "tmp";
const SUFFIX: &str = ".backup";

impl Backups {
    /// Opens a folder of backups, or makes one.
    ///
    /// # Errors
    /// `Invalid` if the directory holds something else; I/O errors.
    pub fn open(dir: impl AsRef<Path>) -> Result<Backups> {
        let dir = dir.as_ref();
        let is_ours = dir.join(FILES).is_dir();
        let is_empty = || match fs::read_dir(dir) {
            Ok(mut entries) => entries.next().is_none(),
            Err(_) => !dir.exists(),
        };
        if !is_ours && !is_empty() {
            let what = format!("{} is no folder of backups", dir.display());
            return Err(Error::invalid(what));
        }
        fs::create_dir_all(dir.join(FILES))?;
        fs::create_dir_all(dir.join(TMP))?;
        Ok(Backups {
            dir: dir.to_path_buf(),
        })
    }

    /// Backs the store in a directory up, which any process may have open, and of which nothing
    /// is changed. `options` as the store is opened with: only the tables' own count.
    ///
    /// Copies the table files that the folder has not got (they are told by name, size and a sum
    /// of both ends, and never change), and the write-ahead log. What was copied is opened once,
    /// to be read, before the backup is listed: that costs the memory of an open. `told` is
    /// called after each file.
    ///
    /// # Errors
    /// `Invalid` if there is no store; `AlreadyOpen` if somebody creates or prunes in the folder;
    /// `Busy` if the store changed too fast, or too few descriptors are left: each file to be
    /// copied is opened first; `Damaged`, `RecoveredShort`, I/O errors. No backup is listed then.
    pub fn create(
        &self,
        store: impl AsRef<Path>,
        options: &Options,
        mut told: impl FnMut(Progress<'_>),
    ) -> Result<Backup> {
        let _lock = self.lock()?;
        let context = |e: Error| e.context(format_args!("store {}", store.as_ref().display()));
        create::create(self, store.as_ref(), options, &mut told).map_err(context)
    }

    /// The backups by number, ascending, and what is known of each. One whose manifest can't be
    /// read is an error in its place.
    ///
    /// # Errors
    /// I/O errors.
    pub fn list(&self) -> Result<Vec<(u64, Result<Backup>)>> {
        let read = |id| (id, self.manifest(id).map(|m| m.backup));
        Ok(self.ids()?.into_iter().map(read).collect())
    }

    /// Reads all files of a backup and compares their checksums; what is wrong, in words.
    ///
    /// # Errors
    /// `Invalid` if there is no such backup, `Damaged` if its manifest is, I/O errors.
    pub fn verify(&self, id: u64, mut told: impl FnMut(Progress<'_>)) -> Result<Vec<String>> {
        let _lock = self.lock_shared()?;
        restore::verify(self, id, &mut told)
    }

    /// Puts a backup in a missing or empty directory, as a store of its own with a new
    /// incarnation. Every checksum is compared, and the store is opened once, to be read, before
    /// it gets its name: the directory is there whole or not at all.
    ///
    /// # Errors
    /// `Invalid` if there is no such backup, or something at `to`; `Damaged` if a file is not as
    /// it was; `AlreadyOpen` if somebody prunes or restores to the same place; I/O errors.
    pub fn restore(
        &self,
        id: u64,
        to: impl AsRef<Path>,
        options: &Options,
        mut told: impl FnMut(Progress<'_>),
    ) -> Result<Backup> {
        let _lock = self.lock_shared()?;
        restore::restore(self, id, to.as_ref(), options, &mut told)
    }

    /// Removes all backups but the last `keep`, and the files that none of these has.
    ///
    /// # Errors
    /// `Invalid` for 0; `Damaged` if the manifest of one that stays can't be read, as its files
    /// are not known then (nothing is removed); `AlreadyOpen`; I/O errors.
    pub fn prune(&self, keep: usize) -> Result<Pruned> {
        let _lock = self.lock()?;
        prune::prune(self, keep)
    }

    fn manifest_path(&self, id: u64) -> PathBuf {
        self.dir.join(format!("{id:08}{SUFFIX}"))
    }

    fn content_path(&self, content: &files::Content) -> PathBuf {
        self.dir.join(FILES).join(content.name())
    }

    fn ids(&self) -> Result<Vec<u64>> {
        let mut ids = Vec::new();
        for entry in fs::read_dir(&self.dir)? {
            let name = entry?.file_name();
            let id = name.to_str().and_then(|n| n.strip_suffix(SUFFIX));
            ids.extend(id.and_then(|id| id.parse::<u64>().ok()));
        }
        ids.sort_unstable();
        Ok(ids)
    }

    fn manifest(&self, id: u64) -> Result<manifest::Manifest> {
        let bytes = match fs::read(self.manifest_path(id)) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
                return Err(Error::invalid(format!("there is no backup {id}")));
            }
            Err(e) => return Err(e.into()),
        };
        let read = manifest::Manifest::decode(&bytes).filter(|m| m.backup.id == id);
        read.ok_or_else(|| Error::damaged(format!("the manifest of backup {id} is damaged")))
    }

    fn lock_file(&self) -> Result<File> {
        let options = File::options()
            .read(true)
            .append(true)
            .create(true)
            .open(self.dir.join(LOCK))?;
        Ok(options)
    }

    fn lock(&self) -> Result<File> {
        let file = self.lock_file()?;
        self.locked(patiently(|| file.try_lock()))?;
        Ok(file)
    }

    fn lock_shared(&self) -> Result<File> {
        let file = self.lock_file()?;
        self.locked(patiently(|| file.try_lock_shared()))?;
        Ok(file)
    }

    fn locked(&self, tried: std::result::Result<(), fs::TryLockError>) -> Result<()> {
        match tried {
            Ok(()) => Ok(()),
            Err(fs::TryLockError::Error(e)) => Err(e.into()),
            Err(fs::TryLockError::WouldBlock) => Err(Error::new(
                ErrorKind::AlreadyOpen,
                format!("{} is in use by somebody else", self.dir.display()),
            )),
        }
    }
}

impl Store {
    /// Backs this store up; see [`Backups::create`]. What is buffered is written first.
    ///
    /// # Errors
    /// As [`Backups::create`]; `Invalid` for a store in memory.
    pub fn backup(&self, to: &Backups) -> Result<Backup> {
        let core = self.shared.core()?;
        let home = &self.shared.home;
        let dir = home
            .directory()
            .ok_or_else(|| Error::invalid("a store in memory has no backups"))?;
        core.committer.flush_buffer()?;
        to.create(dir, &self.shared.options, |_| {})
    }
}
