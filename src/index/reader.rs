//! Opening a store to be read only, while another process may write it.
//!
//! What an open does is done without its writes: nothing in the directory changes, nothing is
//! locked, and the store is poisoned from the start. Files of runs that were merged away are left
//! alone, and so is the floor.

use std::sync::Arc;

use crate::engine::{Access, Engine, Family, Recovery};
use crate::error::{Error, Result};

use super::floor::Floor;
use super::recover::{Families, Opened, Opening, assemble};
use super::segment::{Segment, SetSize};
use super::{Index, Name, names};

/// Opens the index in a home to be read only, while another process may write it. Nothing in the
/// directory changes, nothing is locked.
///
/// # Errors
/// `Invalid` if there is no store. Any error may come of what the other process did meanwhile.
pub(crate) fn open_to_read(opening: Opening) -> Result<Opened> {
    let home = opening.settings.home.clone();
    let none = || Error::invalid("there is no store here");
    let mark = match Floor::read(&home)? {
        Some(mark) if home.holds_data() => mark,
        Some(_) => return Err(Error::damaged("the store's data folder is empty")),
        None if home.holds_data() => return Err(Error::damaged("the floor file is missing")),
        None => return Err(none()),
    };
    let (engine, found) = Engine::open(
        opening.settings.clone(),
        // A record at the log's end may be half written: the floor says what must be there.
        Recovery::Unsynced,
        Access::Look,
        |name| Name::parse(name).map(Name::kind),
        names::table_name,
    )?;
    let families = Families::sort(found)?;
    assemble(opening, engine, families, mark, None)
}

impl Index {
    /// An empty segment is current; if there is none, the newest one that is not.
    pub(super) fn begin_to_read(&self, empty: &[(u64, Arc<Family>)]) -> Result<()> {
        let newest = self.view.load().segments.first().map(|s| s.number);
        let next = empty
            .iter()
            .find(|(n, _)| newest.is_none_or(|newest| *n > newest));
        if let Some((number, family)) = next {
            let size = SetSize::within(0);
            let current = Segment::new(*number, Arc::clone(family), size, &self.pool)?;
            let view = self.view.load().rotated(Arc::new(current));
            self.view.store(Arc::new(view));
        } else if newest.is_none() {
            return Err(Error::damaged("the store has no log"));
        }
        Ok(())
    }

    /// Whether no commit can have gone into a family that was made after this store was opened.
    /// `names`: the families there are now.
    ///
    /// Segments are used in their order, so if the last log known is empty, later ones are.
    pub(crate) fn has_all_of(&self, names: &[String]) -> bool {
        let view = self.view();
        let is_known = |name: &str| match Name::parse(name) {
            Some(Name::Generation(_)) => true,
            Some(Name::Log(number)) => {
                number <= view.current().number || view.current().last_n() == 0
            }
            Some(Name::Table(_) | Name::Rows) => self.engine.was_opened_with(name),
            None => name == "default",
        };
        names.iter().all(|name| is_known(name))
    }
}
