//! RocksDB's handle of one column family, and how families are made and dropped.
//!
//! Why not by the crate's own calls: RocksDB makes (or drops) a family in its MANIFEST and then
//! writes its options file. If only that last step fails, for want of space, the crate forgets
//! the handle of a family that is there: it could be neither used nor made again before the
//! store is reopened. It also forgets the handle of a family that it failed to drop. Here the
//! handle is kept, and a missing options file, which nobody reads, is only logged.

use std::ffi::{CStr, CString, c_char};
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

use librocksdb_sys as ffi;
use rocksdb::{AsColumnFamilyRef, AsRawPtr, BoundColumnFamily, Options};

use crate::error::{Error, Result};

use super::db::Db;
use super::fault::map_text;

/// A family's handle. The database must outlive it.
pub(super) enum Handle {
    /// Of a family that was there at open; the crate has it too.
    Opened(Arc<BoundColumnFamily<'static>>),
    /// Of a family that was made since; ours alone.
    Made(Made),
}

pub(super) struct Made(NonNull<ffi::rocksdb_column_family_handle_t>);

// SAFETY: RocksDB's handles may be used and destroyed on any thread.
unsafe impl Send for Made {}
// SAFETY: as above; every use of a handle is a call that RocksDB allows concurrently.
unsafe impl Sync for Made {}

impl Drop for Made {
    fn drop(&mut self) {
        // SAFETY: the handle came from RocksDB and is destroyed once, here.
        unsafe { ffi::rocksdb_column_family_handle_destroy(self.0.as_ptr()) };
    }
}

impl AsColumnFamilyRef for Handle {
    fn inner(&self) -> *mut ffi::rocksdb_column_family_handle_t {
        match self {
            Handle::Opened(handle) => handle.inner(),
            Handle::Made(made) => made.0.as_ptr(),
        }
    }
}

/// RocksDB's words when a family was made or dropped and only the options file was not written.
const ONLY_OPTIONS: &str = "Unable to persist options";
/// Its words when an earlier, failed drop had done it.
const IS_DROPPED: &str = "already dropped";

impl Handle {
    /// The handle of a family that the database was opened with.
    pub(super) fn opened(db: &Arc<Db>, name: &str) -> Result<Handle> {
        let handle = db
            .cf_handle(name)
            .ok_or_else(|| Error::damaged(format!("column family {name} is missing")))?;
        // SAFETY: only the lifetime changes. The handle borrows the database, which the family
        // that owns this handle keeps alive, and it is dropped before that.
        let handle = unsafe {
            std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(
                handle,
            )
        };
        Ok(Handle::Opened(handle))
    }

    /// Makes a family.
    pub(super) fn make(db: &Arc<Db>, name: &str, options: &Options) -> Result<Handle> {
        let text = CString::new(name).map_err(|e| Error::invalid(format!("{name:?}: {e}")))?;
        let names = [text.as_ptr()];
        let (mut count, mut error) = (0, null_mut());
        // SAFETY: the pointers are live for the call, one name is passed as said, and the list
        // that comes back holds `count` handles, which are ours; only the list is freed.
        let made = unsafe {
            let list = ffi::rocksdb_create_column_families(
                db.as_raw_ptr(),
                options.as_raw_ptr(),
                1,
                names.as_ptr(),
                &raw mut count,
                &raw mut error,
            );
            let made = (count == 1).then(|| *list);
            ffi::rocksdb_create_column_families_destroy(list);
            made
        };
        let failed = take_text(error);
        match (made.and_then(NonNull::new), failed) {
            (Some(handle), failed) => {
                if let Some(text) = failed {
                    log::warn!("{name} was made, its options were not written: {text}");
                }
                Ok(Handle::Made(Made(handle)))
            }
            (None, failed) => Err(map_text(failed.unwrap_or_default())),
        }
    }

    /// Drops the family, as often as it takes.
    pub(super) fn drop_family(&self, db: &Arc<Db>, name: &str) -> Result<()> {
        let mut error = null_mut();
        // SAFETY: database and handle are live; the handle stays ours.
        unsafe {
            ffi::rocksdb_drop_column_family(db.as_raw_ptr(), self.inner(), &raw mut error);
        }
        if let Some(text) = take_text(error) {
            if !text.contains(ONLY_OPTIONS) && !text.contains(IS_DROPPED) {
                return Err(map_text(text));
            }
            log::warn!("{name} is dropped: {text}");
        }
        if let Handle::Opened(_) = self {
            // Takes the crate's own handle away; that the family is dropped already is an error
            // to it, which says nothing new.
            let _ = db.drop_cf(name);
        }
        Ok(())
    }
}

/// RocksDB's error text, if there is one, freed.
fn take_text(error: *mut c_char) -> Option<String> {
    if error.is_null() {
        return None;
    }
    // SAFETY: it is a string that RocksDB allocated for us, freed once.
    unsafe {
        let text = CStr::from_ptr(error).to_string_lossy().into_owned();
        ffi::rocksdb_free(error.cast());
        Some(text)
    }
}
