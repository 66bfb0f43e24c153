//! A store that must not write any more says so, and why.
//!
//! After a failed write or sync nobody knows what the disk holds (but for a full disk, where a
//! failed write left nothing: `index/space.rs`). The store then answers
//! `Degraded` to everything that writes; closing and reopening it finds out.

use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};

/// Set once, for as long as the store is open.
#[derive(Default)]
pub(crate) struct Poison(OnceLock<String>);

impl Poison {
    /// Records the first reason.
    pub(crate) fn set(&self, why: String) {
        log::error!("the store stops writing: {why}");
        let _ = self.0.set(why);
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.get().is_some()
    }

    /// # Errors
    /// `Degraded` once the store is poisoned.
    pub(crate) fn check(&self) -> Result<()> {
        match self.why() {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::Degraded,
                format!("the store stopped writing ({why}); close it and open it again"),
            )),
        }
    }
}
