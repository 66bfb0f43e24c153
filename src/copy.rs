//! A copy of a store in the making, beside the place where it will be.
//!
//! - Y1: under its own name there is nothing, or a whole store: it is made in `NAME.partial` and
//!   renamed at the end. What a crash leaves of it is removed by the next copy to that name.
//! - Y2: what is in the making doesn't open, as an empty store least of all: from the start it has
//!   a file for a floor that is none, and gets its floor last.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::engine::{Home, failpoint, patiently, sync_directory};
use crate::error::{Error, ErrorKind, Result};

const FLOOR: &str = "FLOOR";
/// What stands in for the floor until there is one: such a store is damaged.
const UNFINISHED: &str = "this copy of a store was never finished\n";

/// A copy in the making.
pub(crate) struct Copy {
    to: PathBuf,
    dir: PathBuf,
    /// Keeps others from making the same one.
    _lock: File,
}

impl Copy {
    /// Begins a copy that will be at `to`, which must be missing or empty.
    ///
    /// # Errors
    /// `Invalid` if something is there; `AlreadyOpen` if somebody else makes it; I/O errors.
    pub(crate) fn begin(to: &Path) -> Result<Copy> {
        let is_empty = match fs::read_dir(to) {
            Ok(mut entries) => entries.next().is_none(),
            Err(e) => e.kind() == std::io::ErrorKind::NotFound,
        };
        if !is_empty {
            let what = format!("{} exists already and is not empty", to.display());
            return Err(Error::invalid(what));
        }
        let mut name = to.file_name().map(OsString::from).ok_or_else(|| {
            Error::invalid(format!("{} can't be the name of a copy", to.display()))
        })?;
        name.push(".partial");
        let dir = to.with_file_name(name);
        fs::create_dir_all(&dir)?;
        let lock = File::open(&dir)?;
        match patiently(|| lock.try_lock()) {
            Ok(()) => {}
            Err(fs::TryLockError::Error(e)) => return Err(e.into()),
            Err(fs::TryLockError::WouldBlock) => {
                let what = format!("{} is being made by somebody else", to.display());
                return Err(Error::new(ErrorKind::AlreadyOpen, what));
            }
        }
        let copy = Copy {
            to: to.to_path_buf(),
            dir,
            _lock: lock,
        };
        copy.clear()?;
        failpoint!("copy::begun");
        Ok(copy)
    }

    /// Removes what an earlier one left; first what would let it open.
    fn clear(&self) -> Result<()> {
        self.spoil()?;
        for entry in fs::read_dir(&self.dir)? {
            let entry = entry?;
            if entry.file_name() == FLOOR {
                continue;
            }
            if entry.file_type()?.is_dir() {
                fs::remove_dir_all(entry.path())?;
            } else {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    /// Where it is made.
    pub(crate) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(crate) fn home(&self) -> Home {
        Home::at(&self.dir)
    }

    /// Has it not open again: what was looked at was found wanting.
    pub(crate) fn spoil(&self) -> Result<()> {
        fs::write(self.dir.join(FLOOR), UNFINISHED)?;
        Ok(())
    }

    /// Puts it, with its floor, in its place.
    ///
    /// # Errors
    /// I/O errors; it is not in its place then.
    pub(crate) fn finish(self) -> Result<()> {
        sync_directory(&self.dir)?;
        failpoint!("copy::before_rename");
        fs::rename(&self.dir, &self.to)?;
        let parent = self.to.parent().filter(|p| !p.as_os_str().is_empty());
        sync_directory(parent.unwrap_or(Path::new(".")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_is_cleared_and_what_is_there_stays() {
        let root = tempfile::tempdir().unwrap();
        let to = root.path().join("copy");
        let first = Copy::begin(&to).unwrap();
        let Err(error) = Copy::begin(&to) else {
            panic!("two make one copy");
        };
        assert_eq!(error.kind(), ErrorKind::AlreadyOpen);
        fs::write(first.dir().join(FLOOR), "x").unwrap();
        fs::create_dir(first.dir().join("data")).unwrap();
        drop(first);
        assert!(!to.exists());
        let second = Copy::begin(&to).unwrap();
        let floor = fs::read_to_string(second.dir().join(FLOOR)).unwrap();
        assert_eq!(floor, UNFINISHED);
        assert_eq!(fs::read_dir(second.dir()).unwrap().count(), 1);
        second.finish().unwrap();
        assert!(to.is_dir() && !root.path().join("copy.partial").exists());
        assert!(Copy::begin(&to).is_err());
    }
}
