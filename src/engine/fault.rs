//! RocksDB's errors, mapped once.
//!
//! The crate gives a kind and a string. The kind decides, except for I/O errors, whose text says
//! whether the disk is full, the process has too many open files, a file of the store is gone, or
//! the device failed. An open that could not write its options hides one in an invalid argument.
//! A family that exists already is one whose making failed before, after it was made, as we never
//! make two of a name.

use std::path::Path;

use rocksdb::ErrorKind as Raw;

use crate::error::{Error, ErrorKind};

/// The system's words for want of space: of the disk, of a quota, of a file's size.
const FULL: [&str; 3] = [NO_SPACE, "Disk quota exceeded", "File too large"];
const NO_SPACE: &str = "No space left";
/// … and for want of something that comes back: descriptors of the process or the system, memory.
const SHORT: [&str; 3] = [
    "Too many open files",
    "Cannot allocate memory",
    "Resource temporarily unavailable",
];
/// … and for what the caller must set right.
const READ_ONLY: [&str; 2] = ["Read-only file system", "Permission denied"];
/// What RocksDB says when its MANIFEST could not be opened and a moment later could: it takes the
/// failure for a lack of direct I/O, which nobody asked it for.
const DIRECT: &str = "Direct I/O is not supported";

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

/// An error that RocksDB's own interface gave as its text.
pub(super) fn map_text(text: String) -> Error {
    let prefixes = [
        ("Corruption", Raw::Corruption),
        ("IO error", Raw::IOError),
        ("Resource busy", Raw::Busy),
        ("Operation timed out", Raw::TimedOut),
        ("Operation failed. Try again", Raw::TryAgain),
        ("Invalid argument", Raw::InvalidArgument),
        ("Not implemented", Raw::NotSupported),
        ("Shutdown in progress", Raw::ShutdownInProgress),
        ("Operation aborted", Raw::Aborted),
    ];
    let known = prefixes.iter().find(|(prefix, _)| text.starts_with(prefix));
    let raw = known.map_or(Raw::Unknown, |(_, raw)| raw.clone());
    Error::new(kind_of(raw, &text), text)
}

/// Whether an error's text says that the disk is full.
pub(super) fn is_no_space(text: &str) -> bool {
    text.contains(NO_SPACE)
}

fn kind_of(raw: Raw, text: &str) -> ErrorKind {
    match raw {
        Raw::Corruption => ErrorKind::Damaged,
        Raw::IOError | Raw::InvalidArgument if FULL.iter().any(|t| text.contains(t)) => {
            ErrorKind::Full
        }
        Raw::IOError if SHORT.iter().any(|t| text.contains(t)) => ErrorKind::Busy,
        Raw::IOError if READ_ONLY.iter().any(|t| text.contains(t)) => ErrorKind::Invalid,
        Raw::IOError if text.contains("lock ") || text.contains("LOCK") => ErrorKind::AlreadyOpen,
        Raw::IOError if text.contains("No such file") => ErrorKind::Damaged,
        Raw::Busy | Raw::TryAgain | Raw::TimedOut => ErrorKind::Busy,
        Raw::InvalidArgument if text.contains("IO error") => ErrorKind::Degraded,
        Raw::InvalidArgument if text.contains(DIRECT) => ErrorKind::Degraded,
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
            (
                Raw::IOError,
                "IO error: No such file or directory: While open: 000012.sst",
                ErrorKind::Damaged,
            ),
            (
                Raw::IOError,
                "IO error: While open a file: x: Too many open files",
                ErrorKind::Busy,
            ),
            (
                Raw::IOError,
                "IO error: Unable to persist options.: IO error: No space left on device: x",
                ErrorKind::Full,
            ),
            (Raw::IOError, "IO error: x: File too large", ErrorKind::Full),
            (
                Raw::IOError,
                "IO error: x: Read-only file system",
                ErrorKind::Invalid,
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
                "Direct I/O is not supported by the specified DB.",
                ErrorKind::Degraded,
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
            if text.starts_with("IO error") || text.starts_with("Corruption") {
                assert_eq!(map_text(text.to_string()).kind(), kind, "{text}");
            }
        }
    }
}
