//! What becomes of background work that failed.
//!
//! Each step of it may be made again (see `maintain.rs`), so what passes by itself, want of
//! space, of descriptors or of memory, is tried again, ever more seldom, until it succeeds.
//! Anything else, as a failing disk or damaged bytes, stops background work until the store is
//! reopened: trying again would only hide it.

use std::time::Duration;

use crate::clock::Stopwatch;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::Ordering;

use super::Index;

/// A failure that has not passed yet.
pub(super) struct Trouble {
    why: String,
    kind: ErrorKind,
    /// Since the failure, and how long to wait; `None`: it is not tried again.
    retry: Option<(Stopwatch, Duration)>,
}

/// How long to wait after the first failure, and at most.
const RETRY_FIRST: Duration = Duration::from_millis(100);
const RETRY_MAX: Duration = Duration::from_secs(2);

impl Trouble {
    fn after(error: &Error, before: Option<&Trouble>) -> Trouble {
        let passes = matches!(error.kind(), ErrorKind::Full | ErrorKind::Busy);
        let wait = before
            .and_then(|t| t.retry.as_ref())
            .map_or(RETRY_FIRST, |(_, wait)| (*wait * 2).min(RETRY_MAX));
        Trouble {
            why: error.to_string(),
            kind: error.kind(),
            retry: passes.then(|| (Stopwatch::start(), wait)),
        }
    }
}

impl Index {
    /// What is wrong with background work, in a sentence.
    pub(crate) fn trouble(&self) -> Option<String> {
        let trouble = self.trouble.lock();
        trouble.as_ref().map(|t| match t.retry {
            Some(_) => format!("background work failed and is tried again: {}", t.why),
            None => format!("background work stopped: {}", t.why),
        })
    }

    /// Whether a round may run now.
    pub(super) fn may_work(&self) -> bool {
        match &*self.trouble.lock() {
            None => true,
            Some(Trouble { retry: None, .. }) => false,
            Some(Trouble {
                retry: Some((since, wait)),
                ..
            }) => since.elapsed() >= *wait,
        }
    }

    /// # Errors
    /// The failure that stopped background work for good.
    pub(super) fn check_trouble(&self) -> Result<()> {
        match &*self.trouble.lock() {
            Some(t) if t.retry.is_none() => Err(Error::new(t.kind, t.why.clone())),
            _ => Ok(()),
        }
    }

    pub(super) fn is_in_trouble(&self) -> bool {
        self.trouble.lock().is_some()
    }

    /// Notes how a round ended.
    pub(super) fn note_round(&self, result: &Result<()>) {
        let mut trouble = self.trouble.lock();
        match result {
            Ok(()) => {
                if let Some(passed) = trouble.take() {
                    log::warn!("background work goes on; it had failed: {}", passed.why);
                }
            }
            Err(_) if self.is_closing() => return,
            Err(error) => {
                log::error!("background work failed: {error}");
                self.counts.failures.fetch_add(1, Ordering::Relaxed);
                *trouble = Some(Trouble::after(error, trouble.as_ref()));
            }
        }
        drop(trouble);
        self.room_may_have_changed();
    }
}
