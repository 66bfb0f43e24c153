//! A scope's switches: whether it keeps out what was seen before, and what a failing store means.
//!
//! They are in force in memory, for all handles of a scope at once; a policy sets them when the
//! scope is opened, a call while it is in use. What they are is also stored, for whoever looks at
//! the store from outside; nothing is ever set by what is stored, so a program without a switch in
//! its policy enforces and stays closed, whatever an earlier run did.

use crate::meter::{Counts, Tally, kind_of};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::verdict::Verdict;

/// Whether a scope keeps out what was seen before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It only says what it would have kept out: every message is processed as if it were first.
    /// Ids are recorded as ever, and what would have been kept out is
    /// [`Observed`](crate::Verdict::Observed), counted in
    /// [`ScopeStats::observed`](crate::ScopeStats::observed).
    ObserveOnly,
}

/// What a handler does when the store can't say whether a message was seen
/// ([`Handler::perform`](crate::Handler::perform)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Hash)]
pub enum OnStoreError {
    /// The message waits: `Retry`, or `Stop` if the store must be reopened.
    #[default]
    Closed,
    /// The effect is made without a claim of the id, counted in
    /// [`ScopeStats::failed_open`](crate::ScopeStats::failed_open): it may happen twice.
    Open,
}

const OBSERVES: u8 = 1;
const OPEN: u8 = 2;

/// Both switches of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Switched {
    pub(crate) mode: Mode,
    pub(crate) on_store_error: OnStoreError,
}

impl Switched {
    /// As it is stored.
    pub(crate) fn encode(self) -> u8 {
        let observes = if self.mode == Mode::ObserveOnly {
            OBSERVES
        } else {
            0
        };
        let open = if self.on_store_error == OnStoreError::Open {
            OPEN
        } else {
            0
        };
        observes | open
    }

    pub(crate) fn decode(flags: u8) -> Option<Switched> {
        let mode = if flags & OBSERVES == 0 {
            Mode::Enforce
        } else {
            Mode::ObserveOnly
        };
        let on_store_error = if flags & OPEN == 0 {
            OnStoreError::Closed
        } else {
            OnStoreError::Open
        };
        (flags & !(OBSERVES | OPEN) == 0).then_some(Switched {
            mode,
            on_store_error,
        })
    }
}

/// The switches of a scope, and what was let through by them since the open.
#[derive(Default)]
pub(crate) struct Switches {
    observes: AtomicBool,
    is_open: AtomicBool,
    /// Whether a policy has set them since the store was opened.
    pub(crate) is_set: AtomicBool,
    /// Verdicts that a scope which only observes would have given.
    observed: Tally,
    failed_open: AtomicU64,
}

impl Switches {
    pub(crate) fn observes(&self) -> bool {
        self.observes.load(Ordering::Acquire)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.is_open.load(Ordering::Acquire)
    }

    pub(crate) fn now(&self) -> Switched {
        let mode = if self.observes() {
            Mode::ObserveOnly
        } else {
            Mode::Enforce
        };
        let on_store_error = if self.is_open() {
            OnStoreError::Open
        } else {
            OnStoreError::Closed
        };
        Switched {
            mode,
            on_store_error,
        }
    }

    pub(crate) fn set(&self, to: Switched) {
        let observes = to.mode == Mode::ObserveOnly;
        self.observes.store(observes, Ordering::Release);
        let is_open = to.on_store_error == OnStoreError::Open;
        self.is_open.store(is_open, Ordering::Release);
    }

    /// Counts what would have been kept out, by the verdict that would have done it.
    pub(crate) fn count_observed(&self, instead: &Verdict) {
        if let Some(kind) = kind_of(instead) {
            let mut counts = Counts::default();
            counts[kind] = 1;
            self.observed.add(&counts);
        }
    }

    pub(crate) fn observed(&self) -> Counts {
        self.observed.read()
    }

    pub(crate) fn count_failed_open(&self) {
        self.failed_open.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn failed_open(&self) -> u64 {
        self.failed_open.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_switches_are_golden_and_unknown_ones_are_none() {
        let all = [
            (0, Mode::Enforce, OnStoreError::Closed),
            (1, Mode::ObserveOnly, OnStoreError::Closed),
            (2, Mode::Enforce, OnStoreError::Open),
            (3, Mode::ObserveOnly, OnStoreError::Open),
        ];
        for (flags, mode, on_store_error) in all {
            let switched = Switched {
                mode,
                on_store_error,
            };
            assert_eq!(switched.encode(), flags);
            assert_eq!(Switched::decode(flags), Some(switched));
            let switches = Switches::default();
            switches.set(switched);
            assert_eq!(switches.now(), switched);
        }
        assert_eq!(Switched::decode(4), None);
    }
}
