//! What a handler's failure means for its message.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use crate::error::Error;

/// What becomes of a message whose handler failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// Another attempt may succeed: nothing is recorded, the message comes again after the policy's
    /// [`backoff`](crate::Policy::backoff). With a claim the attempt is counted, so that the
    /// policy's limit ends it.
    Retryable,
    /// The same, with a time of its own.
    RetryAfter(Duration),
    /// No attempt will succeed, and nobody needs to look at it: the id is recorded as failed, the
    /// message acknowledged. Repeats are [`Failed`](crate::Verdict::Failed).
    Permanent,
    /// No attempt will succeed, and somebody should look at it: the message goes to the store's
    /// dead letters, in the commit that records its id, and is acknowledged.
    Poison,
    /// Nobody knows whether the effect took place (a timeout): the policy's
    /// [`on_unknown`](crate::Policy::on_unknown) decides. An effect within the store did not.
    Unknown,
    /// This consumer may not go on, and has begun nothing: nothing is recorded, a claim is
    /// released.
    Stop,
}

/// An error of a handler, which says what it means for the message.
///
/// Its text (`Display`) goes into the dead letter, or is what repeats of a failed message are
/// answered with.
///
/// ```
/// use firstseen::{FailureKind, HandlerError};
/// #[derive(Debug)]
/// enum Pay { Declined, Malformed, Timeout }
/// impl std::fmt::Display for Pay {
///     fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result { write!(f, "{self:?}") }
/// }
/// impl HandlerError for Pay {
///     fn failure_kind(&self) -> FailureKind {
///         match self {
///             Pay::Declined => FailureKind::Permanent,
///             Pay::Malformed => FailureKind::Poison,
///             Pay::Timeout => FailureKind::Unknown,
///         }
///     }
/// }
/// ```
pub trait HandlerError: fmt::Display {
    /// What becomes of the message.
    fn failure_kind(&self) -> FailureKind;
}

impl HandlerError for Infallible {
    fn failure_kind(&self) -> FailureKind {
        match *self {}
    }
}

/// A store's error that a handler passes on: what may pass by itself is tried again.
impl HandlerError for Error {
    fn failure_kind(&self) -> FailureKind {
        if self.is_retryable() {
            FailureKind::Retryable
        } else {
            FailureKind::Stop
        }
    }
}

/// Any error with what it means, for errors of other crates.
///
/// ```
/// use firstseen::{Failed, FailureKind};
/// let parsed: Result<u64, Failed> = "x".parse().map_err(|e| Failed::new(FailureKind::Poison, e));
/// assert!(parsed.is_err());
/// ```
#[derive(Debug)]
pub struct Failed {
    kind: FailureKind,
    error: Box<dyn StdError + Send + Sync>,
}

impl Failed {
    /// An error, or a text, with what it means.
    pub fn new(kind: FailureKind, error: impl Into<Box<dyn StdError + Send + Sync>>) -> Failed {
        Failed {
            kind,
            error: error.into(),
        }
    }
}

impl HandlerError for Failed {
    fn failure_kind(&self) -> FailureKind {
        self.kind
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl StdError for Failed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.error)
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Failed {
        Failed::new(error.failure_kind(), error)
    }
}
