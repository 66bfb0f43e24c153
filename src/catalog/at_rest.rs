//! The catalog of a store at rest: its rows decode, and each table has its family.

use crate::index::{AtRest, ScopeFacts};
use crate::report::{Area, Findings, Remedy};

use super::rows::{TableKind, read_scopes, read_tables};
use super::sequences::read_sequences;
use super::switches::read_switches;

/// The family that the catalog's rows are in.
const META: &str = "meta";

/// The numbers of outboxes, as far as the catalog can be read.
pub(crate) fn outboxes_at_rest(store: &AtRest) -> Vec<u32> {
    let tables = store
        .rows_family(META)
        .and_then(|meta| read_tables(meta).ok());
    let outboxes = tables.into_iter().flatten();
    let outboxes = outboxes.filter(|(_, _, kind, _)| *kind == TableKind::Outbox);
    outboxes.map(|(number, ..)| number).collect()
}

/// Checks the catalog; what it says of the scopes, by number, if that can be read.
pub(crate) fn check_at_rest(store: &AtRest, found: &mut Findings<'_>) -> Option<Vec<ScopeFacts>> {
    let meta = store.rows_family(META)?;
    store.read_rows(meta, Area::Catalog, found, |_, _| Ok(()));
    match read_tables(meta) {
        Err(error) => found.fault(Area::Catalog, META, error, Remedy::Restore),
        Ok(tables) => {
            for (number, name, _, is_dropped) in &tables {
                let has_rows = store.tables().iter().any(|(n, _)| n == number);
                if !has_rows && !is_dropped {
                    let what = format!("the rows of table {name:?} are gone");
                    found.fault(Area::Table, META, what, Remedy::Restore);
                }
            }
            for (number, family) in store.tables() {
                let is_live = tables.iter().any(|t| t.0 == *number && !t.3);
                if !is_live {
                    let name = family.name();
                    found.note(format_args!("{name} is of no table; an open removes it"));
                }
            }
        }
    }
    if let Err(error) = read_sequences(meta) {
        found.fault(Area::Catalog, META, error, Remedy::Restore);
    }
    if let Err(error) = read_switches(meta) {
        found.fault(Area::Catalog, META, error, Remedy::Restore);
    }
    match read_scopes(meta) {
        Ok(scopes) => {
            let facts = scopes.iter().map(|scope| ScopeFacts {
                versions: scope.versions().len(),
                classes: scope.classes(),
            });
            Some(facts.collect())
        }
        Err(error) => {
            found.fault(Area::Catalog, META, error, Remedy::Restore);
            None
        }
    }
}
