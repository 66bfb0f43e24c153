//! Reads beside the write path: they hold nothing and decide nothing.

use crate::catalog::{ScopeState, TableState};
use crate::claims::claim_key;
use crate::error::{ErrorKind, Result};
use crate::index::{Probe, Scratch, Tiers};
use crate::position::Position;
use crate::verdict::Sighting;

use super::Committer;
use super::claim::claim_sighting;
use super::sighting::sighting;

impl Committer {
    /// The stored resume point of a source.
    pub(crate) fn resume_point(&self, source: &str) -> Result<Option<Position>> {
        let row = self.index.points.get(source.as_bytes())?;
        row.map(|bytes| Position::decode(&bytes)).transpose()
    }

    /// What is known of an id now. Decides nothing.
    pub(crate) fn peek(&self, scope: &ScopeState, id: &[u8]) -> Result<Option<Sighting>> {
        // Claims first, as in every lookup: what ends one is in the index before it goes.
        if scope.has_claims()
            && let Some(claim) = self.claims.get(&claim_key(scope.number, id))
            && claim.row.expiry_ms > self.index.time.now_ms()
        {
            return Ok(Some(claim_sighting(&claim.row)));
        }
        let hash = self.index.ids.of(scope.number, id);
        let probe = Probe {
            scope: scope.number,
            classes: scope.classes(),
            only: None,
            id,
        };
        let mut found = None;
        let (mut scratch, mut tiers) = (Scratch::default(), Tiers::default());
        self.index.lookup(
            &[hash],
            |_| probe,
            &mut scratch,
            &mut tiers,
            |_, hit| found = Some(hit),
        )?;
        let now_ms = self.index.time.now_ms();
        let hit = found.filter(|h| h.meta.is_duplicate_at(now_ms));
        Ok(hit.map(|h| sighting(&h, &scope.versions())))
    }

    /// A row of a table, after what was buffered.
    pub(crate) fn row(&self, table: &TableState, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let family = table.family()?;
        match self.flush_buffer() {
            // On a full disk what is buffered stays so, and is read from there.
            Err(error) if error.kind() == ErrorKind::Full => {
                if let Some(row) = self.buffer.row(family.number(), key) {
                    return Ok(row);
                }
            }
            flushed => flushed?,
        }
        Ok(family.get(key)?.map(|v| v.to_vec()))
    }
}
