//! What a check of a store at rest found: the words of [`verify`](crate::verify), and the place
//! where all layers put their findings.
//!
//! A *fault* is what an open store would answer with an error, or not at all. What only looks
//! odd, such as a torn end of the log that any crash leaves, is a *note*.

use std::fmt;

/// Where in a store a fault is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Area {
    /// The file that says how far the store was once durable.
    Floor,
    /// RocksDB's files as a whole: MANIFEST, CURRENT, or a table file that is not there or not
    /// of its length.
    Database,
    /// The commits that are not sealed: RocksDB's write-ahead log, or the log families.
    Log,
    /// Sealed ids.
    Ids,
    /// A filter snapshot.
    Filter,
    /// The catalog of scopes and tables, the marks and the retention classes.
    Catalog,
    /// Resume points.
    ResumePoints,
    /// The audit.
    Audit,
    /// Claims.
    Claims,
    /// Dead letters.
    DeadLetters,
    /// The rows of a table.
    Table,
    /// A snapshot of an approximate scope.
    Approximate,
    /// What is known of producers' sequences.
    Producers,
    /// Prepared transactions.
    Prepared,
}

impl fmt::Display for Area {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Area::Floor => "floor",
            Area::Database => "database",
            Area::Log => "log",
            Area::Ids => "ids",
            Area::Filter => "filter",
            Area::Catalog => "catalog",
            Area::ResumePoints => "resume points",
            Area::Audit => "audit",
            Area::Claims => "claims",
            Area::DeadLetters => "dead letters",
            Area::Table => "table",
            Area::Approximate => "approximate scope",
            Area::Producers => "producers",
            Area::Prepared => "prepared transactions",
        })
    }
}

/// What can be done about a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Remedy {
    /// Nothing need be done: the store mends it when it is opened and used.
    Use,
    /// Delete the file: it is made anew from what it was made of.
    Delete,
    /// Open with [`accept_recovered_short`](crate::Options::accept_recovered_short) and replay
    /// the sources from the resume points.
    AcceptShort,
    /// Restore a checkpoint, and replay the sources from its resume points.
    Restore,
    /// Open it with the release that wrote it.
    OtherRelease,
    /// Drop the approximate scope: its window begins anew.
    DropApproximate,
}

impl fmt::Display for Remedy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Remedy::Use => "nothing to do: the store mends it when it is used",
            Remedy::Delete => "delete the file: it is made anew",
            Remedy::AcceptShort => {
                "keep a copy; restore a checkpoint, or open with accept_recovered_short and \
                 replay the sources from the resume points"
            }
            Remedy::Restore => "restore a checkpoint and replay the sources from its resume points",
            Remedy::OtherRelease => "open it with the release that wrote it",
            Remedy::DropApproximate => "drop the approximate scope: its window begins anew",
        })
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fault {
    /// Where in the store.
    pub area: Area,
    /// The file within the store, or the column family.
    pub place: String,
    /// What is wrong with it.
    pub what: String,
    /// What can be done about it.
    pub remedy: Remedy,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault {
            area, place, what, ..
        } = self;
        write!(f, "{area}: {place}: {what}")
    }
}

/// How much was checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Checked {
    /// RocksDB's table files.
    pub table_files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Commits in the log.
    pub commits: u64,
    /// Ids in the log.
    pub unsealed_ids: u64,
    /// Runs of sealed ids.
    pub runs: u64,
    /// Sealed ids.
    pub sealed_ids: u64,
    /// Sealed ids that were looked up in a filter snapshot.
    pub filtered_ids: u64,
    /// Rows of tables, the catalog, resume points and the audit.
    pub rows: u64,
}

/// What [`verify`](crate::verify) found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Report {
    /// What is wrong; nothing in a sound store.
    pub faults: Vec<Fault>,
    /// What is odd and does no harm.
    pub notes: Vec<String>,
    /// How much was checked.
    pub checked: Checked,
}

impl Report {
    /// Whether nothing is wrong.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        self.faults.is_empty()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Progress<'a> {
    /// Bytes of keys and values that were read.
    pub bytes: u64,
    /// Bytes of all table files: about what will be read.
    pub bytes_total: u64,
    /// What is being read.
    pub place: &'a str,
}

/// Told how far a check is.
pub(crate) type Told<'a> = &'a mut dyn FnMut(Progress<'_>);

/// A check under way: what it found, and who is told how far it is.
pub(crate) struct Findings<'a> {
    pub(crate) report: Report,
    told: Told<'a>,
    bytes: u64,
}

/// Faults of one place that are listed; more only say the same.
const FAULTS_A_PLACE: usize = 20;

impl<'a> Findings<'a> {
    pub(crate) fn new(told: Told<'a>) -> Findings<'a> {
        Findings {
            report: Report::default(),
            told,
            bytes: 0,
        }
    }

    /// Adds a fault, unless the place said that already or has enough of them.
    pub(crate) fn fault(
        &mut self,
        area: Area,
        place: &str,
        what: impl fmt::Display,
        remedy: Remedy,
    ) {
        let what = what.to_string();
        let mut same_place = self.report.faults.iter().filter(|f| f.place == place);
        let listed = same_place.clone().count();
        if listed >= FAULTS_A_PLACE || same_place.any(|f| f.what == what) {
            return;
        }
        self.report.faults.push(Fault {
            area,
            place: place.to_string(),
            what,
            remedy,
        });
    }

    pub(crate) fn note(&mut self, text: impl fmt::Display) {
        self.report.notes.push(text.to_string());
    }

    /// Counts bytes that were read at a place.
    pub(crate) fn read(&mut self, bytes: usize, place: &str) {
        self.bytes += bytes as u64;
        (self.told)(Progress {
            bytes: self.bytes,
            bytes_total: self.report.checked.bytes,
            place,
        });
    }
}
