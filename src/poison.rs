//! A store that must not write any more says so, and why.
//!
//! After a failed write or sync nobody knows what the disk holds (but for a full disk, where a
//! failed write left nothing: `index/space.rs`). The store then answers
//! `Degraded` to everything that writes; closing and reopening it finds out.
//!
//! Whoever sets it, those who wait are told: what they wait for may be held by nobody who runs.
//!
//! A store that was opened to be read only is one of these from the start.

use std::sync::OnceLock;

use crate::error::{Error, ErrorKind, Result};

/// Set once, for as long as the store is open.
#[derive(Default)]
pub(crate) struct Poison {
    why: OnceLock<String>,
    /// It was opened to be read only, and all is well.
    is_reader: bool,
    tell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Poison {
    /// Of a store that was opened to be read only.
    pub(crate) fn reader() -> Poison {
        Poison {
            why: OnceLock::from("it was opened to be read only".to_string()),
            is_reader: true,
            tell: OnceLock::new(),
        }
    }

    /// Records the first reason.
    pub(crate) fn set(&self, why: String) {
        log::error!("the store stops writing: {why}");
        let _ = self.why.set(why);
        if let Some(tell) = self.tell.get() {
            tell();
        }
    }

    /// What tells those who wait; given once, before anything can fail.
    pub(crate) fn on_set(&self, tell: impl Fn() + Send + Sync + 'static) {
        let _ = self.tell.set(Box::new(tell));
    }

    pub(crate) fn why(&self) -> Option<&str> {
        self.why.get().map(String::as_str)
    }

    /// Whether the store was opened to be read only.
    pub(crate) fn is_reader(&self) -> bool {
        self.is_reader
    }

    pub(crate) fn is_set(&self) -> bool {
        self.why.get().is_some()
    }

    /// # Errors
    /// `Degraded` once the store is poisoned; `Invalid` if it was opened to be read only.
    pub(crate) fn check(&self) -> Result<()> {
        match self.why() {
            None => Ok(()),
            Some(why) if self.is_reader => {
                Err(Error::invalid(format!("the store takes no writes: {why}")))
            }
            Some(why) => Err(Error::new(
                ErrorKind::Degraded,
                format!("the store stopped writing ({why}); close it and open it again"),
            )),
        }
    }
}
