//! Checking a store that nobody has open.

use std::path::Path;

use crate::approx;
use crate::catalog;
use crate::catalog::outbox::OutboxCheck;
use crate::claims::{ClaimRow, DeadRow, scope_of};
use crate::commit::AuditRow;
use crate::core::settings;
use crate::engine::Home;
use crate::error::{Error, Result};
use crate::index::{AtRest, PreparedIds, ScopeFacts};
use crate::options::Options;
use crate::position::Position;
use crate::prepared::{EndedRow, Key, PreparedRow, To};
use crate::report::{Area, Findings, Progress, Remedy, Report};
use crate::sequence;

/// Checks a store that nobody has open, and says what is wrong and what can be done about it.
/// Nothing in the directory changes; while it runs, nobody can open the store.
///
/// It reads every row and every page, with RocksDB's checksums; that the commits in the log are
/// whole, down to the floor; that sealed ids are in order, as many as their runs say, and known to
/// the catalog; that no filter on disk denies an id; that no message of an outbox is missing; that
/// the ids of prepared transactions are in no other and in no record; and that catalog, resume
/// points, claims, dead letters and audit decode. What an open would repair by itself, such as a
/// torn end of the log after a crash, is a note and no fault. Bloom filters within table files are
/// not looked at: RocksDB does without one that it can't read.
///
/// `options`: as the store is opened with. Only the resources and the tables' own options count.
/// `told` is called after each page or row.
///
/// It takes about as long as reading all files once, and as much memory as the log has unsealed
/// commits, one filter snapshot, and the block cache of the resources.
///
/// # Errors
/// `AlreadyOpen`; `Invalid` if there is no store or the options are wrong; I/O errors. Damage is
/// no error here: it is in the report.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use firstseen::{Options, Policy, Store, days, verify};
/// let store = Store::open(dir.path(), Options::new())?;
/// let ids = store.scope("orders", Policy::remember(days(7)))?;
/// let _ = ids.insert("order-1")?;
/// drop(ids);
/// store.close()?;
///
/// let report = verify(dir.path(), &Options::new(), |_| {})?;
/// assert!(report.is_sound(), "{:?}", report.faults);
/// assert_eq!(report.checked.unsealed_ids, 1);
/// # Ok(()) }
/// ```
pub fn verify(
    dir: impl AsRef<Path>,
    options: &Options,
    mut told: impl FnMut(Progress<'_>),
) -> Result<Report> {
    let dir = dir.as_ref();
    options.validate()?;
    if !dir.is_dir() {
        return Err(Error::invalid(format!("{} is no directory", dir.display())));
    }
    let resources = options.resources.clone().unwrap_or_default();
    let settings = settings(Home::at(dir), options, &resources);
    let mut found = Findings::new(&mut told);
    let context = |e: Error| e.context(format_args!("store {}", dir.display()));
    if let Some(store) = AtRest::open(&settings, &mut found).map_err(context)? {
        check(&store, &mut found).map_err(context)?;
        approx::check_at_rest(&settings.home, &mut found).map_err(context)?;
    }
    Ok(found.report)
}

fn check(store: &AtRest, found: &mut Findings<'_>) -> Result<()> {
    let scopes = catalog::check_at_rest(store, found);
    store.check(scopes.as_deref(), found);
    for (name, area) in [("points", Area::ResumePoints), ("audit", Area::Audit)] {
        let Some(family) = store.rows_family(name) else {
            found.fault(area, name, "the family is missing", Remedy::Restore);
            continue;
        };
        store.read_rows(family, area, found, |key, value| match area {
            Area::Audit => AuditRow::decode(key, value).map(drop),
            _ => Position::decode(value).map(drop),
        });
    }
    for (name, area) in [("claims", Area::Claims), ("dead", Area::DeadLetters)] {
        if let Some(family) = store.rows_family(name) {
            store.read_rows(family, area, found, |key, value| {
                check_claim(scopes.as_deref(), area, key, value)
            });
        }
    }
    if let Some(family) = store.rows_family("producers") {
        store.read_rows(family, Area::Producers, found, |key, value| {
            sequence::split_key(key)?;
            sequence::decode(value).map(drop)
        });
    }
    check_prepared(store, scopes.as_deref(), found);
    let outboxes = catalog::outboxes_at_rest(store);
    for (number, family) in store.tables() {
        let mut check = outboxes.contains(number).then(OutboxCheck::default);
        store.read_rows(family, Area::Table, found, |key, value| match &mut check {
            Some(check) => check.row(key, value),
            None => Ok(()),
        });
        if let Some(Err(error)) = check.map(|check| check.end()) {
            found.fault(Area::Table, family.name(), error.message(), Remedy::Restore);
        }
    }
    store.still_at_rest()
}

/// Prepared transactions decode, use what there is, and have ids that nobody else has.
fn check_prepared(store: &AtRest, scopes: Option<&[ScopeFacts]>, found: &mut Findings<'_>) {
    let Some(family) = store.rows_family("prepared") else {
        return;
    };
    let mut ids = PreparedIds::default();
    store.read_rows(family, Area::Prepared, found, |key, value| {
        if let Key::Ended(_) = Key::decode(key)? {
            return EndedRow::decode(value).map(drop);
        }
        let row = PreparedRow::decode(value)?;
        for write in &row.writes {
            let is_gone = |number| store.tables().iter().all(|(n, _)| *n != number);
            if matches!(write.to, To::Table(number) | To::Outbox(number) if is_gone(number)) {
                let text = "a prepared transaction writes to a table there is not";
                return Err(Error::damaged(text));
            }
        }
        let of = (row.log, &row.standing[..], row.prepared_ms);
        store.note_prepared(of, scopes, &mut ids)
    });
    store.check_prepared(&ids, found);
}

/// A claim or dead letter decodes, and is of a scope there is.
fn check_claim(scopes: Option<&[ScopeFacts]>, area: Area, key: &[u8], value: &[u8]) -> Result<()> {
    let scope = scope_of(key).map(usize::from);
    if scopes.is_some_and(|scopes| scope.is_none_or(|scope| scope >= scopes.len())) {
        return Err(Error::damaged("a claim is of no scope there is"));
    }
    match area {
        Area::DeadLetters => DeadRow::decode(value).map(drop),
        _ => ClaimRow::decode(value).map(drop),
    }
}

#[cfg(test)]
mod tests;
