//! What became of one message.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Recorded};
use crate::verdict::{Action, Verdict};

use super::failure::Failed;

/// What became of a message, and what to tell its broker.
///
/// Of a replayable source, `Retry` means: this message again after the pause, before any later one.
#[must_use = "the action decides what the broker is told"]
#[derive(Debug)]
pub struct Handled<T = (), E = Failed> {
    pub(super) action: Action,
    pub(super) verdict: Option<Verdict<T>>,
    pub(super) failure: Option<E>,
    pub(super) error: Option<Error>,
    pub(super) is_unguarded: bool,
}

impl<T, E> Handled<T, E> {
    fn of(action: Action) -> Handled<T, E> {
        Handled {
            action,
            verdict: None,
            failure: None,
            error: None,
            is_unguarded: false,
        }
    }

    pub(super) fn answered(verdict: Verdict<T>) -> Handled<T, E> {
        Handled {
            verdict: Some(verdict),
            ..Handled::of(Action::Ack)
        }
        .by_verdict()
    }

    fn by_verdict(mut self) -> Handled<T, E> {
        if let Some(verdict) = &self.verdict {
            self.action = verdict.action();
        }
        self
    }

    pub(super) fn failed(failure: E, action: Action) -> Handled<T, E> {
        Handled {
            failure: Some(failure),
            ..Handled::of(action)
        }
    }

    pub(super) fn unstored(error: Error, pause: Duration) -> Handled<T, E> {
        Handled {
            action: on_error(&error, pause),
            error: Some(error),
            ..Handled::of(Action::Stop)
        }
    }

    pub(super) fn with_failure(self, failure: Option<E>) -> Handled<T, E> {
        Handled { failure, ..self }
    }

    /// Made without the store's knowledge, which had failed with this.
    pub(super) fn unguarded(self, error: Error) -> Handled<T, E> {
        Handled {
            error: Some(error),
            is_unguarded: true,
            ..self
        }
    }

    /// One that no handler ran for, as one of another handler.
    pub(super) fn cast<U, F>(self) -> Handled<U, F> {
        Handled {
            action: self.action,
            verdict: (self.verdict).map(|v| v.map(|_| unreachable!("no value comes with it"))),
            failure: None,
            error: self.error,
            is_unguarded: self.is_unguarded,
        }
    }

    /// What to tell the broker. Of one message's outcomes there is exactly one.
    pub fn action(&self) -> Action {
        self.action
    }

    /// The store's verdict; `None` if the handler failed, or the store did.
    #[must_use]
    pub fn verdict(&self) -> Option<&Verdict<T>> {
        self.verdict.as_ref()
    }

    /// What the handler returned, if its effect took place with this call.
    #[must_use]
    pub fn value(self) -> Option<T> {
        self.verdict?.first()
    }

    /// What the handler failed with.
    #[must_use]
    pub fn failure(&self) -> Option<&E> {
        self.failure.as_ref()
    }

    /// What the store failed with.
    #[must_use]
    pub fn store_error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// Whether the effect was made without a claim, since the store had failed and the scope is
    /// switched to [`OnStoreError::Open`](crate::OnStoreError::Open).
    #[must_use]
    pub fn is_unguarded(&self) -> bool {
        self.is_unguarded
    }
}

/// What a store's error means: what passes by itself is tried again, for all else the consumer
/// leaves its loop, and reopens the store or corrects the program. Never an acknowledgement.
fn on_error(error: &Error, pause: Duration) -> Action {
    if error.is_retryable() || error.kind() == ErrorKind::LeaseLost {
        Action::Retry(pause)
    } else {
        Action::Stop
    }
}

/// Whether the program is at fault, not the store.
pub(super) fn is_misuse(error: &Error) -> bool {
    let is_callers = matches!(
        error.kind(),
        ErrorKind::Invalid | ErrorKind::ForeignHandle | ErrorKind::Reentrant
    );
    is_callers && error.recorded() == Recorded::No
}
