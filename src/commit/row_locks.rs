//! Protocol step 6: locks of rows, taken in sorted order and held until the commit is written.

use std::sync::Arc;

use crate::clock;
use crate::error::{Error, ErrorKind, Result};

use super::Committer;
use super::decide::Held;
use super::draft::Draft;
use super::evaluate::{point_hash, row_hash};
use super::holds::HoldError;
use super::write::What;

impl Committer {
    /// Step 6: the locks of the rows that guarded writes and resume points touch, sorted.
    pub(super) fn lock_rows(self: &Arc<Self>, draft: &Draft) -> Result<Option<Held>> {
        if !draft.has_guarded && draft.points.is_empty() && !draft.has_sequences() {
            return Ok(None);
        }
        let guarded = draft.writes.iter().filter_map(|w| match &w.what {
            What::Guarded { table, key, .. } => {
                let table = &draft.tables[*table as usize];
                Some(row_hash(table, draft.get(key)))
            }
            What::Plain { .. } | What::Send { .. } => None,
        });
        let points = draft.points.iter().map(|p| point_hash(&p.0));
        let producers = draft.runs.iter().map(|r| r.hash);
        let wanted: Vec<u64> = guarded.chain(points).chain(producers).collect();
        let mut held = Held::new(self, self.rows.owner(), true);
        self.hold_rows(&mut held, &wanted)?;
        self.flush_buffer()?;
        Ok(Some(held))
    }

    /// Waits for rows in sorted order; the owner must hold none.
    pub(super) fn hold_rows(&self, held: &mut Held, wanted: &[u64]) -> Result<()> {
        let mut met = Vec::new();
        let taken = match self.rows.try_hold(held.owner(), wanted, &mut met) {
            Err(HoldError::Foreign(foreign)) => {
                self.check_reentrant(foreign, true)?;
                self.check_not_prepared(wanted)?;
                let by = clock::deadline(self.wait_max);
                self.rows.hold_sorted(held.owner(), wanted, &mut met, by)
            }
            taken => taken,
        };
        match taken {
            Ok(()) => {
                held.add(wanted.iter().copied());
                Ok(())
            }
            Err(HoldError::Foreign(_)) => {
                self.check_not_prepared(wanted)?;
                let text = "a row was locked for longer than wait_max";
                Err(Error::new(ErrorKind::Busy, text))
            }
            Err(HoldError::Poisoned) => {
                self.index.poison.check()?;
                Err(Error::closed())
            }
        }
    }
}
