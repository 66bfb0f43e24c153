//! RocksDB's errors, mapped once.
//!
//! The crate gives a kind and a string. The kind decides, except where RocksDB reports an I/O
//! error whose text says more: a full disk, a lock, a file of the store that is gone.

use std::path::Path;

use rocksdb::ErrorKind as Raw;

use crate::error::{Error, ErrorKind};

pub(super) fn map(error: rocksdb::Error) -> Error {
    let text = error.to_string();
    let kind = kind_of(error.kind(), &text);
    Error::new(kind, text).with_source(error)
}

/// An error of opening the database. RocksDB names the file it found damaged, unless that is its
/// log.
pub(super) fn map_open(error: rocksdb::Error, data: &Path) -> Error {
    let error = map(error);
    let named = ["/", "CURRENT", "MANIFEST"];
    if error.kind() != ErrorKind::Damaged || named.iter().any(|n| error.message().contains(n)) {
        return error;
    }
    error.context(format_args!("the write-ahead log in {}", data.display()))
}

fn kind_of(raw: Raw, text: &str) -> ErrorKind {
    match raw {
        Raw::Corruption => ErrorKind::Damaged,
        Raw::IOError if text.contains("No space left") => ErrorKind::Full,
        Raw::IOError if text.contains("lock ") || text.contains("LOCK") => ErrorKind::AlreadyOpen,
        Raw::IOError if text.contains("No such file") => ErrorKind::Damaged,
        Raw::Busy | Raw::TryAgain | Raw::TimedOut => ErrorKind::Busy,
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
            (
                Raw::IOError,
                "IO error: No such file or directory: While open: 000012.sst",
                ErrorKind::Damaged,
            ),
            (Raw::Busy, "Resource busy", ErrorKind::Busy),
            (Raw::TryAgain, "Try again", ErrorKind::Busy),
            (
                Raw::InvalidArgument,
                "Opening an existing DB with no WAL files",
                ErrorKind::Damaged,
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
