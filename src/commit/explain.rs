//! Everything that is known about an id, for whoever has to explain a verdict later.

use crate::catalog::ScopeState;
use crate::error::Result;
use crate::index::{Hit, Probe, Scratch, Tiers};
use crate::verdict::Sighting;

use super::{Committer, sighting};

/// The record that stands for an id, also if it has expired or is a tombstone.
pub(crate) struct Explained {
    pub(crate) hit: Hit,
    pub(crate) sighting: Sighting,
    pub(crate) now_ms: u64,
    /// Whether it is sealed into a generation, or still in memory and log.
    pub(crate) is_sealed: bool,
}

impl Committer {
    /// The record of an id as it is now. Decides nothing.
    pub(crate) fn explain(&self, scope: &ScopeState, id: &[u8]) -> Result<Option<Explained>> {
        self.flush_buffer()?;
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
        Ok(found.map(|hit| Explained {
            sighting: sighting(&hit, &scope.versions()),
            hit,
            now_ms,
            is_sealed: tiers.active == 0,
        }))
    }
}
