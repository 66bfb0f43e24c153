//! RocksDB's errors, mapped once.
//!
//! The crate gives a kind and a string. The kind decides, except where RocksDB hides an I/O error
//! in another: a full disk is an I/O error whose text says so, an open that could not write its
//! options an invalid argument. A family that exists already is one whose making failed before,
//! after it was made, as we never make two of a name.

use rocksdb::ErrorKind as Raw;

use crate::error::{Error, ErrorKind};

pub(super) fn map(error: rocksdb::Error) -> Error {
    let text = error.to_string();
    let kind = kind_of(error.kind(), &text);
    Error::new(kind, text).with_source(error)
}

fn kind_of(raw: Raw, text: &str) -> ErrorKind {
    match raw {
        Raw::Corruption => ErrorKind::Damaged,
        Raw::IOError | Raw::InvalidArgument if text.contains("No space left") => ErrorKind::Full,
        Raw::IOError if text.contains("lock ") || text.contains("LOCK") => ErrorKind::AlreadyOpen,
        Raw::Busy | Raw::TryAgain | Raw::TimedOut => ErrorKind::Busy,
        Raw::InvalidArgument if text.contains("IO error") => ErrorKind::Degraded,
        Raw::InvalidArgument if text.contains("family already exists") => ErrorKind::Degraded,
        Raw::InvalidArgument if text.contains("WAL") => ErrorKind::Damaged,
        Raw::InvalidArgument | Raw::NotSupported => ErrorKind::Invalid,
        Raw::ShutdownInProgress | Raw::Aborted => ErrorKind::Closed,
        _ => ErrorKind::Degraded,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_reaction() {
        for (raw, text, kind) in [
            (Raw::Corruption, "Corruption: bad block", ErrorKind::Damaged),
            (
                Raw::IOError,
                "IO error: No space left on device: x",
                ErrorKind::Full,
            ),
            (
                Raw::IOError,
                "IO error: lock hold by current process",
                ErrorKind::AlreadyOpen,
            ),
            (Raw::IOError, "IO error: While fsync", ErrorKind::Degraded),
            (Raw::Busy, "Resource busy", ErrorKind::Busy),
            (Raw::TryAgain, "Try again", ErrorKind::Busy),
            (
                Raw::InvalidArgument,
                "Opening an existing DB with no WAL files",
                ErrorKind::Damaged,
            ),
            (
                Raw::InvalidArgument,
                "Found options incompatible with filesystem: IO error: While fsync",
                ErrorKind::Degraded,
            ),
            (
                Raw::InvalidArgument,
                "Found options incompatible with filesystem: IO error: No space left on device",
                ErrorKind::Full,
            ),
            (
                Raw::InvalidArgument,
                "Column family already exists",
                ErrorKind::Degraded,
            ),
            (
                Raw::InvalidArgument,
                "column family not found",
                ErrorKind::Invalid,
            ),
            (
                Raw::ShutdownInProgress,
                "Shutdown in progress",
                ErrorKind::Closed,
            ),
            (Raw::Unknown, "?", ErrorKind::Degraded),
        ] {
            assert_eq!(kind_of(raw, text), kind, "{text}");
        }
    }
}
