//! One opaque error for the whole crate, and what a caller does about each kind.
//!
//! A duplicate is never an error; see [`Verdict`](crate::Verdict). An error says what kind of
//! reaction it needs ([`ErrorKind`]) and whether anything may have been recorded ([`Recorded`]).
//! It is one pointer wide, so that `Result<Verdict>` stays small.

use std::error::Error as StdError;
use std::fmt;

use crate::verdict::Verdicts;

/// The crate's result; the error is [`Error`] unless a closure brings its own.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, in terms of what the caller must do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The call, option or stored policy is wrong: fix the caller. Nothing was recorded.
    Invalid,
    /// A batch with a resume point or unconditional writes met an id that another caller
    /// still holds. Nothing was recorded; commit again.
    Undecided,
    /// The directory is open in this or in another process.
    AlreadyOpen,
    /// A handle of another store was used.
    ForeignHandle,
    /// A closure called back into the store for an id or a row that it holds itself.
    Reentrant,
    /// Waiting took longer than `wait_max`, a row is locked by a prepared transaction, or the
    /// process has no descriptor or memory to spare. Nothing was recorded; try again.
    Busy,
    /// A limit or the disk is full. Nothing was recorded; reads still work. A full disk passes:
    /// try again.
    Full,
    /// Another call has the id by now: the claim's lease ran out and it was taken over, or it was
    /// ended or forgotten. Nothing was recorded; what the caller did outside the store counts no
    /// more.
    LeaseLost,
    /// A prepared transaction is in the way: it has that name, or uses what was to be dropped.
    /// Commit or abort it first. Nothing was changed.
    InDoubt,
    /// No transaction of that name is prepared, and none is remembered to have ended. Nothing was
    /// changed.
    UnknownTransaction,
    /// The transaction has ended otherwise than was asked for, or its name is used up. Nothing was
    /// changed.
    TransactionEnded,
    /// The store stopped writing after a failed write or sync: close it and open it again.
    Degraded,
    /// Stored bytes are damaged, or of a format this release does not know.
    Damaged,
    /// The store came back with less than was once durable.
    RecoveredShort,
    /// The store was closed.
    Closed,
}

/// Whether a failed call may have left something behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Recorded {
    /// Nothing was recorded: the same call may simply be made again.
    No,
    /// The write was handed on and its fate is not known. Reopening the store decides it: the
    /// id is then either a duplicate, with its mutations, or new, without them.
    Unknown,
}

/// Why a call failed.
///
/// ```
/// use firstseen::{Options, Store, ErrorKind, Recorded};
/// let error = Store::open("", Options::new()).unwrap_err();
/// assert_eq!(error.kind(), ErrorKind::Invalid);
/// assert_eq!(error.recorded(), Recorded::No);
/// ```
pub struct Error(Box<Inner>);

struct Inner {
    kind: ErrorKind,
    message: String,
    recorded: Recorded,
    verdicts: Option<Verdicts>,
    source: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner {
            kind,
            message: message.into(),
            recorded: Recorded::No,
            verdicts: None,
            source: None,
        }))
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Invalid, message)
    }

    pub(crate) fn damaged(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Damaged, message)
    }

    pub(crate) fn closed() -> Error {
        Error::new(ErrorKind::Closed, "the store is closed")
    }

    pub(crate) fn foreign(what: &str) -> Error {
        Error::new(
            ErrorKind::ForeignHandle,
            format!("{what} belongs to another store"),
        )
    }

    pub(crate) fn unknown(mut self) -> Error {
        self.0.recorded = Recorded::Unknown;
        self
    }

    pub(crate) fn with_source(mut self, source: impl StdError + Send + Sync + 'static) -> Error {
        self.0.source = Some(Box::new(source));
        self
    }

    pub(crate) fn with_verdicts(mut self, verdicts: Verdicts) -> Error {
        self.0.verdicts = Some(verdicts);
        self
    }

    pub(crate) fn message(&self) -> &str {
        &self.0.message
    }

    /// The same failure for another caller that it concerns; without its source.
    pub(crate) fn copy(&self) -> Error {
        let mut copy = Error::new(self.kind(), self.message());
        copy.0.recorded = self.0.recorded;
        copy
    }

    /// Puts where it happened before the message.
    pub(crate) fn context(mut self, what: impl fmt::Display) -> Error {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// The kind, which says what to do.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Whether the failed call may have recorded anything.
    #[must_use]
    pub fn recorded(&self) -> Recorded {
        self.0.recorded
    }

    /// Whether the same call may succeed when made again on the same open store.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(
            self.kind(),
            ErrorKind::Busy | ErrorKind::Full | ErrorKind::Undecided
        ) && self.recorded() == Recorded::No
    }

    /// The verdicts of the batch, where the error came after they were found
    /// ([`ErrorKind::Undecided`]).
    #[must_use]
    pub fn verdicts(&self) -> Option<&Verdicts> {
        self.0.verdicts.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)?;
        if self.0.recorded == Recorded::Unknown {
            f.write_str(" (whether it was recorded is unknown until the store is reopened)")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Error")
            .field("kind", &self.0.kind)
            .field("message", &self.0.message)
            .field("recorded", &self.0.recorded)
            .field("source", &self.0.source)
            .finish_non_exhaustive()
    }
}

impl StdError for Error {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        self.0
            .source
            .as_deref()
            .map(|e| e as &(dyn StdError + 'static))
    }
}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Error {
        use std::io::ErrorKind as Io;
        let kind = match error.kind() {
            Io::StorageFull | Io::QuotaExceeded | Io::FileTooLarge => ErrorKind::Full,
            Io::InvalidInput | Io::NotFound | Io::ReadOnlyFilesystem | Io::PermissionDenied => {
                ErrorKind::Invalid
            }
            Io::OutOfMemory | Io::WouldBlock => ErrorKind::Busy,
            // The kinds don't name it yet.
            _ if error.to_string().contains("Too many open files") => ErrorKind::Busy,
            _ => ErrorKind::Degraded,
        };
        Error::new(kind, error.to_string()).with_source(error)
    }
}
