//! What the copy of a store needs beside the database: a floor of its own.

use crate::engine::Home;
use crate::error::{Error, Result};

use super::floor::Floor;

/// What a store's floor says that its copies must keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Durability {
    /// The last commit known durable.
    pub(crate) n: u64,
    /// Whether a commit may ever have been unsynced: it decides how the copy recovers.
    pub(crate) unsynced: bool,
    pub(crate) incarnation: [u8; 16],
}

/// What the floor of a store says.
///
/// # Errors
/// `Invalid` if there is no store; `Damaged`.
pub(crate) fn durability_of(home: &Home) -> Result<Durability> {
    let mark = Floor::read(home)?.filter(|mark| !mark.is_fresh());
    let mark = mark.ok_or_else(|| Error::invalid("there is no store here"))?;
    Ok(Durability {
        n: mark.n,
        unsynced: mark.unsynced,
        incarnation: mark.incarnation,
    })
}

/// Gives a copy its floor, with an incarnation of its own. From then on it opens.
pub(crate) fn give_floor(home: &Home, n: u64, unsynced: bool) -> Result<()> {
    let mark = Floor::create(home, n, unsynced)?;
    Floor::new(home.clone(), mark).note_made()
}
