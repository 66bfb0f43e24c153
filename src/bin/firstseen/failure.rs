//! How a verb ends: well ([`Ending`]) or not ([`Failure`]), with the exit codes of both.
//!
//! The codes are promised in the help ([`EXIT_CODES`]); a change here is a change of behaviour.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// The table of exit codes, as the help shows it.
pub(crate) const EXIT_CODES: &str = "\
Exit codes:
  0    done (also when the reader of standard output went away)
  1    the store, a file or a pipe failed
  2    wrong usage
  3    stopped at a bad row
  4    peek, forget, dead, in-doubt: at least one id or name was not known
  5    plan: it does not fit; reconcile: the sides differ
  130  interrupted by Ctrl-C; what was done is committed";

/// The same for `verify`.
pub(crate) const VERIFY_EXIT_CODES: &str = "\
Exit codes:
  0    the store is sound
  1    it is damaged: each fault is listed
  2    it could not be checked: open elsewhere, no store, not readable, wrong usage";

/// A verb that did what it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    /// At least one id asked for was not known.
    NotKnown,
    Interrupted,
    /// The load does not fit what there is.
    DoesNotFit,
    /// The sides that were compared differ.
    Differs,
    /// The store that was checked has faults.
    Damaged,
}

impl Ending {
    pub(crate) fn exit_code(self) -> ExitCode {
        ExitCode::from(match self {
            Ending::Done => 0,
            Ending::Damaged => 1,
            Ending::NotKnown => 4,
            Ending::DoesNotFit => 5,
            Ending::Differs => 5,
            Ending::Interrupted => 130,
        })
    }
}

/// Why a verb gave up.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments don't fit the input.
    Usage(String),
    /// A row has no usable id, and the run stops at such rows.
    BadRow { row: u64, offset: u64, why: String },
    /// A line of a file is not what it should be; the column by number, name or both.
    BadLine {
        line: u64,
        column: String,
        why: String,
    },
    /// Standard output's reader is gone.
    BrokenPipe,
    /// A file or pipe failed: what was done with it, and why.
    File(String),
    /// The store said no.
    Store(firstseen::Error),
    /// The store could not be checked.
    NotChecked(firstseen::Error),
}

impl Failure {
    /// A failed operation on a named file.
    pub(crate) fn file(path: &Path, error: &io::Error) -> Failure {
        Failure::File(format!("{}: {error}", path.display()))
    }

    /// A failed write to standard output.
    pub(crate) fn stdout(error: &io::Error) -> Failure {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Failure::BrokenPipe,
            _ => Failure::File(format!("standard output: {error}")),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Failure::BrokenPipe => 0,
            Failure::Usage(_) | Failure::NotChecked(_) => 2,
            Failure::BadRow { .. } | Failure::BadLine { .. } => 3,
            Failure::File(_) | Failure::Store(_) => 1,
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Usage(why) | Failure::File(why) => f.write_str(why),
            Failure::BadRow { row, offset, why } => {
                write!(f, "row {row} (at byte {offset}): {why}")
            }
            Failure::BadLine { line, column, why } => {
                write!(f, "line {line}, column {column}: {why}")
            }
            Failure::BrokenPipe => f.write_str("standard output was closed"),
            Failure::Store(error) | Failure::NotChecked(error) => write!(f, "{error}"),
        }
    }
}

impl From<firstseen::Error> for Failure {
    fn from(error: firstseen::Error) -> Failure {
        Failure::Store(error)
    }
}
