//! A check of an index at rest, which changes nothing in its directory.
//!
//! The database is opened to be read only: its log is replayed into memory and not flushed, and
//! nothing is removed. Whatever fails a check is a finding, and the check goes on with the rest;
//! an error is only what keeps it from looking (the store is open elsewhere, or not readable).
//!
//! | file | what |
//! | --- | --- |
//! | here | lock, floor, database, marks and classes; rows of any family |
//! | `log` | commits that are not sealed |
//! | `prepared` | ids of prepared transactions |
//! | `runs` | sealed ids, and the filters beside them |

mod log;
mod prepared;
mod runs;

use std::fs::File;
use std::sync::Arc;

use crate::engine::{Access, Engine, Family, Recovery, Settings, TableFile};
use crate::error::{Error, ErrorKind, Result};
use crate::report::{Area, Findings, Remedy};

use super::floor::{self, Floor, Mark, Slot};
use super::recover::Families;
use super::{Class, IdHash, Name, meta, names};

pub(crate) use prepared::PreparedIds;

/// A store that nobody has open, and what of it can be read.
pub(crate) struct AtRest {
    engine: Engine,
    families: Families,
    files: Vec<TableFile>,
    floor: Option<Mark>,
    marks: Marks,
    had_lock: bool,
    _lock: Option<File>,
}

/// The index's own rows.
struct Marks {
    ids: IdHash,
    /// The persisted high-water mark of time.
    mark: u64,
    marker: u64,
    classes: Vec<Class>,
}

/// What the catalog says of a scope, by its number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScopeFacts {
    pub(crate) versions: usize,
    /// The classes its ids may be in, one bit each.
    pub(crate) classes: u32,
}

impl AtRest {
    /// Opens what there is. `None` if the database or the index's own rows can't be read at all;
    /// the findings say why.
    ///
    /// # Errors
    /// `AlreadyOpen`; `Invalid` if there is no store; what keeps files from being read.
    pub(crate) fn open(settings: &Settings, found: &mut Findings<'_>) -> Result<Option<AtRest>> {
        let home = &settings.home;
        let lock = home.lock_for_reading()?;
        let had_lock = lock.is_some();
        let slots = Floor::slots(home)?;
        if slots.is_none() && !home.holds_data() {
            return Err(Error::invalid("there is no store here"));
        }
        let floor = check_floor(slots, found);
        if floor.is_some_and(|mark| mark.is_fresh()) && !home.holds_data() {
            found.note("the store was never made: an open makes it");
            return Ok(None);
        }
        let faults = found.report.faults.len();
        let opened = open_engine(settings, floor, found)?;
        if floor.is_some_and(|mark| mark.is_fresh()) {
            // What a making left that was cut short is no damage: an open begins again.
            found.report.faults.truncate(faults);
        }
        let Some((engine, families)) = opened else {
            return Ok(None);
        };
        let files = engine.table_files()?;
        found.report.checked.table_files = files.len() as u64;
        found.report.checked.bytes = files.iter().map(|f| f.bytes).sum();
        let families = Families::sort(families)?;
        let Some(marks) = read_marks(&families, floor, found) else {
            return Ok(None);
        };
        Ok(Some(AtRest {
            engine,
            families,
            files,
            floor,
            marks,
            had_lock,
            _lock: lock,
        }))
    }

    /// Checks the log, the sealed ids and their filters. `scopes`: by number, if the catalog can
    /// be read.
    pub(crate) fn check(&self, scopes: Option<&[ScopeFacts]>, found: &mut Findings<'_>) {
        self.check_generations(scopes, found);
        self.check_log(scopes, found);
    }

    /// The family of that name.
    pub(crate) fn rows_family(&self, name: &str) -> Option<&Arc<Family>> {
        self.families.rows.iter().find(|f| f.name() == name)
    }

    /// The families of tables by number.
    pub(crate) fn tables(&self) -> &[(u32, Arc<Family>)] {
        &self.families.tables
    }

    /// Reads every row of a family. A block that can't be read is a fault; what follows it is
    /// read from the next table file on.
    pub(crate) fn read_rows(
        &self,
        family: &Arc<Family>,
        area: Area,
        found: &mut Findings<'_>,
        mut check: impl FnMut(&[u8], &[u8]) -> Result<()>,
    ) {
        let mut starts: Vec<&[u8]> = self.starts(family.name());
        starts.sort_unstable();
        let mut rows = family.rows_once(&[]);
        let mut last: Box<[u8]> = Box::default();
        loop {
            match rows.next() {
                None => return,
                Some(Ok((key, value))) => {
                    found.report.checked.rows += 1;
                    found.read(key.len() + value.len(), family.name());
                    if let Err(error) = check(&key, &value) {
                        found.fault(area, family.name(), error, Remedy::Restore);
                    }
                    last = key;
                }
                Some(Err(error)) => {
                    found.fault(area, family.name(), error, Remedy::Restore);
                    // Not the file that just failed: it may begin before what was read last.
                    starts.retain(|start| **start > *last);
                    let Some(next) = (!starts.is_empty()).then(|| starts.remove(0)) else {
                        return;
                    };
                    rows.seek(next);
                    last = next.into();
                }
            }
        }
    }

    fn starts(&self, family: &str) -> Vec<&[u8]> {
        let files = self.files.iter().filter(|f| f.family == family);
        files.map(|f| &f.first_key[..]).collect()
    }

    /// Must be asked at the end: whether nobody opened the store meanwhile.
    ///
    /// # Errors
    /// `AlreadyOpen`: the findings may be of a store that was being written.
    pub(crate) fn still_at_rest(&self) -> Result<()> {
        if self.had_lock || !self.engine.home().has_lock() {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::AlreadyOpen,
            "the store was opened while it was checked",
        ))
    }
}

fn check_floor(slots: Option<[Slot; 2]>, found: &mut Findings<'_>) -> Option<Mark> {
    let Some(slots) = slots else {
        let what = "the file is missing";
        found.fault(Area::Floor, floor::NAME, what, Remedy::Restore);
        return None;
    };
    let valid = slots.iter().filter_map(|slot| match slot {
        Slot::Valid(mark) => Some(*mark),
        Slot::Unused | Slot::Damaged => None,
    });
    let best = valid.max_by_key(Mark::sequence);
    let damaged = slots.iter().filter(|slot| **slot == Slot::Damaged).count();
    if best.is_none() {
        let what = "neither slot is valid";
        found.fault(Area::Floor, floor::NAME, what, Remedy::Restore);
    } else if damaged > 0 {
        let what = "one of the two slots is damaged; the other one counts";
        found.fault(Area::Floor, floor::NAME, what, Remedy::Use);
    }
    best
}

type Opened = (Engine, Vec<Arc<Family>>);

/// Opens the database as exactly as it can be.
fn open_engine(
    settings: &Settings,
    floor: Option<Mark>,
    found: &mut Findings<'_>,
) -> Result<Option<Opened>> {
    let open = |recovery| {
        Engine::open(
            settings.clone(),
            recovery,
            Access::Read,
            |name| Name::parse(name).map(Name::kind),
            names::table_name,
        )
    };
    let torn = match open(Recovery::Exact) {
        Ok(opened) => return Ok(Some(opened)),
        Err(error) if error.kind() != ErrorKind::Damaged => return Err(error),
        Err(error) => error,
    };
    // With an unknown floor any of the store's own ways will do.
    let own = match floor {
        Some(mark) if !mark.unsynced => Recovery::Synced,
        _ => Recovery::Unsynced,
    };
    let error = match open(own) {
        Ok(opened) => {
            found.note(format_args!(
                "the log has no whole end, as after a crash; an open leaves out what follows \
                 ({torn})"
            ));
            return Ok(Some(opened));
        }
        Err(error) => error,
    };
    let remedy = if error.message().contains("this release") {
        Remedy::OtherRelease
    } else {
        Remedy::Restore
    };
    match open(Recovery::Anything) {
        Ok(opened) => {
            found.fault(Area::Log, "data/*.log", error, remedy);
            Ok(Some(opened))
        }
        Err(_) => {
            found.fault(Area::Database, "data", error, remedy);
            Ok(None)
        }
    }
}

/// The index's own rows, if they can be read.
fn read_marks(families: &Families, floor: Option<Mark>, found: &mut Findings<'_>) -> Option<Marks> {
    let mut fault = |error: Error| {
        let remedy = match error.kind() {
            ErrorKind::RecoveredShort => Remedy::AcceptShort,
            _ if error.message().contains("this release") => Remedy::OtherRelease,
            _ => Remedy::Restore,
        };
        found.fault(Area::Catalog, names::META, error, remedy);
    };
    let meta = families.rows.iter().find(|f| f.name() == names::META);
    let read = meta.map_or_else(|| Ok(None), try_marks);
    match read {
        Ok(Some(marks)) => Some(marks),
        Ok(None) if floor.is_some_and(|mark| mark.is_fresh()) => {
            found.note("the store was never made: an open makes it");
            None
        }
        Ok(None) => {
            fault(Error::damaged("the store's catalog is gone"));
            None
        }
        Err(error) => {
            fault(error);
            None
        }
    }
}

fn try_marks(meta: &Arc<Family>) -> Result<Option<Marks>> {
    if meta::format(meta)?.is_none() {
        return Ok(None);
    }
    let seed = meta::number(meta, meta::SEED_KEY)?
        .ok_or_else(|| Error::damaged("the stored hash seed is missing"))?;
    Ok(Some(Marks {
        ids: IdHash::new(seed),
        mark: meta::number(meta, meta::MARK_KEY)?.unwrap_or(0),
        marker: meta::number(meta, meta::MARKER_KEY)?.unwrap_or(0),
        classes: meta::classes(meta)?,
    }))
}
