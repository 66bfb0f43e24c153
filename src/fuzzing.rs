//! A door for tests that bring bytes of any kind: to each decoder of stored bytes alone, and into
//! an open store below its face.
//!
//! Hidden, and of feature `testing` only: what is here follows the format and promises nothing.

use crate::catalog::outbox::outbox_again;
use crate::catalog::{scope_again, sequences_again, table_again};
use crate::claims::{claim_again, dead_again};
use crate::commit::{audit_again, top_again};
use crate::engine::Rep;
use crate::error::Result;
use crate::index::fuzzing as index;
use crate::position::Position;
use crate::prepared::{ended_again, prepared_again};
use crate::sequence;
use crate::store::Store;

pub use crate::index::fuzzing::log_ids;

/// What stored bytes are said to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Stored {
    /// The value of a log record.
    Log,
    /// The key of a log record.
    LogNumber,
    /// A slice's end (u64), and a page of it.
    Page,
    /// The key of a run's page.
    RunKey,
    /// The first 12 bytes of a run's keys, and its footer.
    Footer,
    /// One slot of the floor file.
    Slot,
    /// The floor file; only the slot that counts is written again.
    Floor,
    /// A filter.
    Filter,
    /// A filter snapshot.
    Filters,
    /// A retention class: its number (u8), and its row.
    Class,
    /// A scope: its number (u16, big-endian), and its row.
    Scope,
    /// A table: its number (u32, big-endian), and its row.
    Table,
    /// The name of a family.
    Name,
    /// What a rich record carries.
    Extras,
    /// A resume point.
    Position,
    /// The key of an audit row (16 bytes), and its value.
    Audit,
    /// A claim.
    Claim,
    /// A dead letter.
    DeadLetter,
    /// A space of sequences: its number (u16, big-endian), and its row.
    Sequences,
    /// What is known of a producer.
    Producer,
    /// A message of an outbox.
    Message,
    /// An outbox's resume point.
    OutboxPoint,
    /// A prepared transaction.
    Prepared,
    /// How one ended.
    Ended,
    /// The top sources of duplicates as they are kept.
    Top,
}

impl Stored {
    /// All of them.
    pub const ALL: [Stored; 25] = [
        Stored::Log,
        Stored::LogNumber,
        Stored::Page,
        Stored::RunKey,
        Stored::Footer,
        Stored::Slot,
        Stored::Floor,
        Stored::Filter,
        Stored::Filters,
        Stored::Class,
        Stored::Scope,
        Stored::Table,
        Stored::Name,
        Stored::Extras,
        Stored::Position,
        Stored::Audit,
        Stored::Claim,
        Stored::DeadLetter,
        Stored::Sequences,
        Stored::Producer,
        Stored::Message,
        Stored::OutboxPoint,
        Stored::Prepared,
        Stored::Ended,
        Stored::Top,
    ];

    /// Whether one value has one form, so that what was read and is written again has the same
    /// bytes.
    pub fn is_canonical(self) -> bool {
        let others = [Stored::Page, Stored::Floor, Stored::Extras];
        !others.contains(&self)
    }
}

/// What bytes say, as text, and the bytes that the store would write for it; `None` if the store
/// refuses them.
pub fn again(stored: Stored, bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    match stored {
        Stored::Log => index::log(bytes),
        Stored::LogNumber => index::number(bytes),
        Stored::Page => index::page(bytes),
        Stored::RunKey => index::run_key(bytes),
        Stored::Footer => index::footer(bytes),
        Stored::Slot => index::slot(bytes),
        Stored::Floor => index::floor(bytes),
        Stored::Filter => index::filter(bytes),
        Stored::Filters => index::filters(bytes),
        Stored::Class => index::class(bytes),
        Stored::Scope => scope_again(bytes),
        Stored::Table => table_again(bytes),
        Stored::Name => index::name(bytes),
        Stored::Extras => index::extras(bytes),
        Stored::Position => {
            let position = Position::decode(bytes).ok()?;
            Some((format!("{position:?}"), position.encode()))
        }
        Stored::Audit => audit_again(bytes),
        Stored::Top => top_again(bytes),
        Stored::Claim => claim_again(bytes),
        Stored::DeadLetter => dead_again(bytes),
        Stored::Sequences => sequences_again(bytes),
        Stored::Producer => {
            let producer = sequence::decode(bytes).ok()?;
            Some((format!("{producer:?}"), sequence::encode(&producer)))
        }
        Stored::Message => outbox_again(bytes, false),
        Stored::OutboxPoint => outbox_again(bytes, true),
        Stored::Prepared => prepared_again(bytes),
        Stored::Ended => ended_again(bytes),
    }
}

/// A row: its key and its value.
pub type Row = (Box<[u8]>, Box<[u8]>);

/// The names of a store's families.
///
/// # Errors
/// `Closed`, I/O errors.
pub fn families(store: &Store) -> Result<Vec<String>> {
    store.shared.core()?.index().engine.names()
}

/// A family's rows, ascending.
///
/// # Errors
/// `Closed`, I/O errors; `Damaged` if there is no such family.
pub fn rows(store: &Store, family: &str) -> Result<Vec<Row>> {
    let core = store.shared.core()?;
    core.index().engine.family(family)?.rows(&[]).collect()
}

/// Puts a row into a family below everything that would refuse it, or removes it. The store
/// sees it when it is opened next.
///
/// # Errors
/// `Closed`, I/O errors; `Damaged` if there is no such family.
pub fn put(store: &Store, family: &str, key: &[u8], value: Option<&[u8]>) -> Result<()> {
    let core = store.shared.core()?;
    let family = core.index().engine.family(family)?;
    let mut rows = Rep::default();
    match value {
        Some(value) => rows.put(family.number(), key, value),
        None => rows.delete(family.number(), key),
    }
    core.index().write_rows(&rows)
}

/// The bytes of a file of ours: `FLOOR`, `filters/…`.
///
/// # Errors
/// I/O errors.
pub fn file(store: &Store, name: &str) -> Result<Option<Vec<u8>>> {
    store.shared.home.read(name)
}

/// The names of the filter snapshots.
///
/// # Errors
/// I/O errors.
pub fn snapshots(store: &Store) -> Result<Vec<String>> {
    store.shared.home.list("filters")
}

/// Replaces a file of ours, or removes it.
///
/// # Errors
/// I/O errors.
pub fn put_file(store: &Store, name: &str, bytes: Option<&[u8]>) -> Result<()> {
    match bytes {
        Some(bytes) => store.shared.home.replace(name, bytes),
        None => store.shared.home.remove(name),
    }
}
