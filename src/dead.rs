//! Dead letters: messages that were given up, with the reason, until they are redriven or purged.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::claims::{DeadRow, id_of, scope_of};
use crate::engine::Rows;
use crate::error::Result;

/// A message that was given up.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DeadLetter {
    /// The id.
    pub id: Bytes,
    /// Why.
    pub why: String,
    /// The message, if it was given up with [`Writes::dead_letter`](crate::Writes::dead_letter).
    pub payload: Bytes,
    /// Where the message can be read again, if the claim said so
    /// ([`Id::reference`](crate::Id::reference)).
    pub reference: Bytes,
    /// Where the id came from, if the scope keeps sources.
    pub source: Option<String>,
    /// How many attempts there were.
    pub attempts: u32,
    /// When the id was first seen, by the store's clock.
    pub first_seen_at: SystemTime,
    /// When it was given up.
    pub dead_since: SystemTime,
}

/// The dead letters of a scope, in the order of their ids; see
/// [`Scope::dead_letters`](crate::Scope::dead_letters).
pub struct DeadLetters {
    rows: Option<Rows>,
    scope: u16,
}

impl DeadLetters {
    pub(crate) fn new(rows: Option<Rows>, scope: u16) -> DeadLetters {
        DeadLetters { rows, scope }
    }
}

impl Iterator for DeadLetters {
    type Item = Result<DeadLetter>;

    fn next(&mut self) -> Option<Self::Item> {
        let (key, value) = match self.rows.as_mut()?.next()? {
            Ok(row) => row,
            Err(error) => return Some(Err(error)),
        };
        if scope_of(&key) != Some(self.scope) {
            self.rows = None;
            return None;
        }
        Some(DeadRow::decode(&value).map(|row| letter(id_of(&key), row)))
    }
}

pub(crate) fn letter(id: &[u8], row: DeadRow) -> DeadLetter {
    let time = |ms| UNIX_EPOCH + Duration::from_millis(ms);
    DeadLetter {
        id: Bytes::copy_from_slice(id),
        why: row.why,
        payload: Bytes::from(row.payload),
        reference: Bytes::from(row.reference),
        source: Some(row.source).filter(|s| !s.is_empty()),
        attempts: row.attempts,
        first_seen_at: time(row.first_ms),
        dead_since: time(row.dead_ms),
    }
}
