//! Protocol step 6 for the most frequent batch: stretches of new ids, and a duplicate here and
//! there.
//!
//! It comes to what `settle` does item by item, so whatever is not plain stays with that.

use std::ops::Range;

use crate::engine::Rep;
use crate::error::Result;
use crate::index::LogBuilder;
use crate::verdict::{Verdict, Verdicts};

use super::Committer;
use super::decide::Decision;
use super::draft::Draft;
use super::sequences::Producers;
use super::settle::{Rules, Settled};

/// A batch of which more than this part was found is settled item by item.
const HITS_PART: usize = 8;

impl Committer {
    /// The most frequent batch by stretches: ids of one length and scope, each its own, nearly all
    /// of them new, and nothing else. Item by item it would come to the same.
    pub(super) fn settle_new(
        &self,
        draft: &Draft,
        decision: &Decision,
        log: &mut LogBuilder,
        rows: &mut Rep,
    ) -> Result<Option<Settled<'static>>> {
        let Some(id_len) = draft.uniform().filter(|_| decision.is_all_separate()) else {
            return Ok(None);
        };
        let items = draft.items.len();
        if decision.hits().len() > items / HITS_PART {
            return Ok(None);
        }
        let mut settling = self.settling(draft, decision, log, rows)?;
        let Some(&Rules {
            meta, placement, ..
        }) = settling.rules.first().filter(|r| r.is_plain)
        else {
            return Ok(None);
        };
        let hashes = decision.held.hashes();
        let mut verdicts = Vec::with_capacity(items);
        let add_new = |log: &mut LogBuilder, verdicts: &mut Vec<Verdict>, new: Range<usize>| {
            let ids = &draft.bytes[new.start * id_len..new.end * id_len];
            if !new.is_empty() {
                log.add_all(&hashes[new.clone()], &meta, placement, id_len, ids);
                verdicts.extend(new.map(|_| Verdict::First(())));
            }
        };
        let mut next = 0;
        for at in decision.found() {
            add_new(settling.log, &mut verdicts, next..at);
            verdicts.push(settling.item(at as u32, &draft.items[at], Some(&[]))?);
            next = at + 1;
        }
        add_new(settling.log, &mut verdicts, next..items);
        Ok(Some(Settled {
            verdicts: Verdicts::new(verdicts),
            unkeyed: settling.unkeyed,
            changes: settling.changes,
            producers: Producers::default(),
            audits: settling.audits,
            prolonged: settling.prolonged,
            dead: settling.dead,
            is_all_first: decision.hits().is_empty(),
        }))
    }
}
