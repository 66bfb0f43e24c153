//! Errors in the system's words, as far as an injected failure says any.

use std::sync::MutexGuard;

use crate::error::{Error, ErrorKind};

/// The error that the engine makes of such a text.
pub(crate) fn map_text(text: String) -> Error {
    let kind = if text.contains("No space left") {
        ErrorKind::Full
    } else if text.contains("Too many open files") {
        ErrorKind::Busy
    } else {
        ErrorKind::Degraded
    };
    Error::new(kind, text)
}

/// A lock that the scheduler doesn't see: nothing that waits is done under it.
#[derive(Default)]
pub(crate) struct Mutex<T>(std::sync::Mutex<T>);

impl<T> Mutex<T> {
    pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().expect("nothing here panics")
    }
}
