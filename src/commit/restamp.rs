//! The records of a prepared transaction as its commit makes them.
//!
//! They were settled at the prepare and are stored as a log record of that moment. An id is first
//! seen when the transaction is committed, and remembered from then on; so what counted from the
//! prepare moves by the time in between:
//!
//! | record | expiry | first sight |
//! | --- | --- | --- |
//! | of an id that is first | moves | moves |
//! | of a claim that ends | moves | the claim's |
//! | of a duplicate that is prolonged | stands | its own |
//! | of an id with its own time | stands | moves |
//! | for ever | stands | moves |
//!
//! A record whose expiry has come meanwhile is left out: it would say nothing, and its slice may
//! be gone. (What the transaction writes beside it is written all the same.) Nobody wrote a record
//! of these ids since the prepare, as they were held; so what `over` says still holds, and the
//! placement found then is a lower bound of the placement now (protocol: "which record wins").

use crate::error::{Error, Result};
use crate::index::{Extras, FOR_EVER_MS, LogBuilder, Sections, words_for_item};
use crate::prepared::PreparedRow;

use super::Committer;

/// What a prepared transaction's records need of the current segment, as [`Committer::reserve`]
/// takes it.
pub(super) struct Records {
    pub(super) ids: usize,
    pub(super) words: usize,
    /// The hash of each id, in order.
    pub(super) hashes: Vec<u64>,
    /// The scopes, each once.
    pub(super) scopes: Vec<u16>,
}

impl Committer {
    /// Looks through the records of a prepared transaction.
    ///
    /// # Errors
    /// `Damaged` if it is of no scope there is, or says what cannot be.
    pub(super) fn prepared_records(&self, row: &PreparedRow<'_>) -> Result<Records> {
        let mut found = Records {
            ids: 0,
            words: 0,
            hashes: Vec::new(),
            scopes: Vec::new(),
        };
        for section in Sections::new(row.log) {
            let section = section?;
            let scope = section.meta.stamp.scope;
            if self.catalog.scope_of(scope).is_none_or(|s| s.is_dropped()) {
                let text = "a prepared transaction has an id of no scope there is";
                return Err(Error::damaged(text));
            }
            if !found.scopes.contains(&scope) {
                found.scopes.push(scope);
            }
            for (id, extras) in section.ids() {
                found.ids += 1;
                found.words += words_for_item(id.len(), extras.map(<[u8]>::len));
                found.hashes.push(self.index.ids.of(scope, id));
            }
        }
        if row
            .standing
            .last()
            .is_some_and(|at| *at as usize >= found.ids)
        {
            let text = "a prepared transaction names more ids than it has";
            return Err(Error::damaged(text));
        }
        Ok(found)
    }

    /// The records of a transaction that is committed now.
    pub(super) fn restamped(&self, row: &PreparedRow<'_>, now_ms: u64) -> Result<LogBuilder> {
        let mut log = LogBuilder::default();
        let later_ms = now_ms.saturating_sub(row.prepared_ms);
        let mut standing = row.standing.iter().peekable();
        let (mut at, mut moved) = (0_u32, Vec::new());
        for section in Sections::new(row.log) {
            let section = section?;
            let (scope, expiry_ms) = (section.meta.stamp.scope, section.meta.expiry_ms);
            let state = self.catalog.scope_of(scope);
            let has_own_time = state.is_some_and(|state| state.own_time.is_some());
            for (id, extras) in section.ids() {
                let is_prolonged = standing.next_if_eq(&&at).is_some();
                at += 1;
                let (mut meta, mut placement) = (section.meta, section.placement);
                if !is_prolonged && !has_own_time && expiry_ms != FOR_EVER_MS {
                    let expiry_ms = expiry_ms.saturating_add(later_ms).min(FOR_EVER_MS - 1);
                    meta.expiry_ms = expiry_ms;
                    if let Some(class) = self.index.classes.get(placement.class) {
                        placement = placement.max(class.slice(expiry_ms));
                    }
                } else if expiry_ms <= now_ms {
                    continue;
                }
                let extras = match extras {
                    Some(bytes) if !is_prolonged => {
                        moved.clear();
                        first_seen(bytes, row.prepared_ms, now_ms).encode(&mut moved);
                        Some(&moved[..])
                    }
                    extras => extras,
                };
                log.add(self.index.ids.of(scope, id), &meta, placement, id, extras);
            }
        }
        log.finish();
        Ok(log)
    }
}

/// Extras with the first sight of the commit, unless it is that of a claim.
fn first_seen(bytes: &[u8], prepared_ms: u64, now_ms: u64) -> Extras<'_> {
    let mut extras = Extras::decode(bytes);
    let is_of_prepare = extras.first_seen_ms == Some(prepared_ms) && extras.attempt == 0;
    if is_of_prepare {
        extras.first_seen_ms = Some(now_ms.max(prepared_ms));
    }
    extras
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_sight_moves_but_for_a_claims() {
        let bytes = |first_seen_ms, attempt| {
            let mut bytes = Vec::new();
            let extras = Extras {
                first_seen_ms,
                attempt,
                source: Some("s"),
                ..Extras::default()
            };
            extras.encode(&mut bytes);
            bytes
        };
        let moved = |first_ms, attempt| {
            let bytes = bytes(first_ms, attempt);
            let extras = first_seen(&bytes, 5, 9);
            assert_eq!(extras.source, Some("s"));
            extras.first_seen_ms
        };
        assert_eq!(moved(Some(5), 0), Some(9));
        assert_eq!(moved(Some(5), 1), Some(5), "a claim's");
        assert_eq!(moved(Some(4), 0), Some(4));
        assert_eq!(moved(None, 0), None);
    }
}
