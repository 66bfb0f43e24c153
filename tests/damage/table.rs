//! What each kind of file and damage comes to: expected here, and printed as the table of
//! `docs/testing.md`, which a test compares.

use firstseen::Durability::{self, Synced, Written};

use super::ask::Outcome::{self, Partly, Prefix, Refused, Right, Short};
use super::content::State::{self, Closed, Killed, Renewed};
use super::files::Kind;
use super::harm::HARMS;

/// What a store may come to.
type Outcomes = &'static [Outcome];

/// One row of the table: a kind of file, in some of the stores.
pub(crate) struct Row {
    name: &'static str,
    kind: Kind,
    stores: &'static [(Durability, State)],
    /// One cell a column of [`HARMS`].
    pub(crate) cells: [Outcomes; HARMS.len()],
}

const EACH: &[(Durability, State)] = &[
    (Written, Closed),
    (Written, Killed),
    (Synced, Closed),
    (Synced, Killed),
];
/// For files whose content nobody reads.
const TWO: &[(Durability, State)] = &[(Written, Closed), (Synced, Killed)];

const RIGHT: Outcomes = &[Right];
const PREFIX: Outcomes = &[Prefix];
const REFUSED: Outcomes = &[Refused];
const SHORT: Outcomes = &[Short];
/// Which block a flip hits decides: one that nobody needs, one of data, one that an open reads.
const BY_BLOCK: Outcomes = &[Right, Partly, Refused];
const RIGHT_OR_REFUSED: Outcomes = &[Right, Refused];

/// The row of a table file: any change of its length is noticed at open.
const fn table_file(name: &'static str, kind: Kind) -> Row {
    let cells = [
        BY_BLOCK, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED, REFUSED,
    ];
    Row {
        name,
        kind,
        stores: EACH,
        cells,
    }
}

const fn row(
    name: &'static str,
    kind: Kind,
    stores: &'static [(Durability, State)],
    cells: [Outcomes; HARMS.len()],
) -> Row {
    Row {
        name,
        kind,
        stores,
        cells,
    }
}

pub(crate) const ROWS: [Row; 21] = [
    row(
        "write-ahead log: closed, written",
        Kind::Wal,
        &[(Written, Closed)],
        [RIGHT_OR_REFUSED; 7],
    ),
    row(
        "write-ahead log: closed, synced",
        Kind::Wal,
        &[(Synced, Closed)],
        [RIGHT_OR_REFUSED; 7],
    ),
    row(
        "write-ahead log: killed, written",
        Kind::Wal,
        &[(Written, Killed)],
        [PREFIX, PREFIX, PREFIX, PREFIX, REFUSED, PREFIX, RIGHT],
    ),
    row(
        "write-ahead log: killed, synced",
        Kind::Wal,
        &[(Synced, Killed)],
        [
            &[Prefix, Refused],
            PREFIX,
            PREFIX,
            PREFIX,
            REFUSED,
            &[Prefix, Refused],
            RIGHT_OR_REFUSED,
        ],
    ),
    row(
        "write-ahead log: killed above its floor, written",
        Kind::Wal,
        &[(Written, Renewed)],
        [SHORT, SHORT, SHORT, SHORT, REFUSED, SHORT, RIGHT],
    ),
    row(
        "write-ahead log: killed above its floor, synced",
        Kind::Wal,
        &[(Synced, Renewed)],
        [
            &[Refused, Short],
            SHORT,
            SHORT,
            SHORT,
            REFUSED,
            &[Refused, Short],
            RIGHT_OR_REFUSED,
        ],
    ),
    table_file("table file: ids", Kind::Ids),
    table_file("table file: log family", Kind::Log),
    table_file("table file: catalog", Kind::Catalog),
    table_file("table file: resume points", Kind::Points),
    table_file("table file: audit", Kind::Audit),
    table_file("table file: rows", Kind::Rows),
    row(
        "`MANIFEST`",
        Kind::Manifest,
        EACH,
        [
            &[Right, Refused, Short],
            REFUSED,
            &[Refused, Short],
            RIGHT,
            REFUSED,
            REFUSED,
            RIGHT_OR_REFUSED,
        ],
    ),
    row("`CURRENT`", Kind::Current, EACH, [REFUSED; 7]),
    row(
        "`FLOOR`",
        Kind::Floor,
        EACH,
        [RIGHT, REFUSED, RIGHT, RIGHT, REFUSED, REFUSED, RIGHT],
    ),
    row("filter snapshot", Kind::Filter, EACH, [RIGHT; 7]),
    row("`OPTIONS`", Kind::Settings, TWO, [RIGHT; 7]),
    row("`IDENTITY`", Kind::Identity, TWO, [RIGHT; 7]),
    row("`data/LOCK`", Kind::RocksLock, TWO, [RIGHT; 7]),
    row("`data/LOG`", Kind::Report, TWO, [RIGHT; 7]),
    row("`LOCK`", Kind::Lock, TWO, [RIGHT; 7]),
];

/// The row of a file in a store, if the table has one.
pub(crate) fn row_of(kind: Kind, store: (Durability, State)) -> Option<&'static Row> {
    ROWS.iter()
        .find(|row| row.kind == kind && row.stores.contains(&store))
}

/// The table as the documentation has it.
pub(crate) fn markdown() -> String {
    let mut text = "| file |".to_string();
    for (harm, _) in HARMS {
        text += &format!(" {harm} |");
    }
    text += &format!("\n|{}\n", " --- |".repeat(HARMS.len() + 1));
    for row in &ROWS {
        text += &format!("| {} |", row.name);
        for cell in row.cells {
            let outcomes: Vec<String> = cell.iter().map(Outcome::to_string).collect();
            text += &format!(" {} |", outcomes.join(", "));
        }
        text.push('\n');
    }
    text
}
