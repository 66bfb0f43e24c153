//! A replayable source's resume point, and how a message moves it.

use crate::batch::Batch;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;
use crate::position::Position;
use crate::scope::Scope;
use crate::store::Core;
use crate::tx::Tx;

use super::message::Message;

/// A move that a message makes. There is none for one that lies behind the point already, as after
/// a broker began earlier than the store.
pub(super) struct Point {
    source: String,
    next: Position,
}

impl Point {
    /// # Errors
    /// `Invalid` if the position is of another kind than the stored one; `Damaged`.
    pub(super) fn of(core: &Core, message: &Message<'_>) -> Result<Option<Point>> {
        let Some((source, next)) = &message.next else {
            return Ok(None);
        };
        let point = Point {
            source: (*source).to_string(),
            next: next.clone(),
        };
        Ok(point.is_ahead(core)?.then_some(point))
    }

    pub(super) fn is_ahead(&self, core: &Core) -> Result<bool> {
        let Some(now) = core.committer.resume_point(&self.source)? else {
            return Ok(true);
        };
        if !now.allows(&self.next) && !self.next.allows(&now) {
            return Err(Error::invalid(format!(
                "positions of {:?} are of another kind: {now:?}, not {:?}",
                self.source, self.next
            )));
        }
        Ok(now != self.next && now.allows(&self.next))
    }

    pub(super) fn source(&self) -> &str {
        &self.source
    }

    pub(super) fn next(&self) -> &Position {
        &self.next
    }

    /// Moves it with a closure's commit. Its lock is held from here on, so that what is found ahead
    /// stays so.
    pub(super) fn set(&self, core: &Core, tx: &mut Tx<'_>) -> Result<()> {
        tx.resume_at(&self.source, self.next.clone());
        if let Some(error) = tx.failure() {
            return Err(error);
        }
        if !self.is_ahead(core)? {
            tx.stay();
        }
        Ok(())
    }

    /// Moves the point behind a message that wrote nothing.
    pub(super) fn advance(&self, scope: &Scope, level: Durability) -> Result<()> {
        let mut batch = Batch::new(&scope.shared);
        batch.resume_at(&self.source, self.next.clone());
        batch.durability(level);
        match batch.commit() {
            Ok(_) => Ok(()),
            // Somebody else has moved it further.
            Err(error) if error.kind() == ErrorKind::Invalid => {
                match self.is_ahead(&*scope.shared.core()?)? {
                    true => Err(error),
                    false => Ok(()),
                }
            }
            Err(error) => Err(error),
        }
    }
}
