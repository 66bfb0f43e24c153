//! What a scope that only observes lets through.
//!
//! - B1: the effect of such an item is made as that of a first one: its writes, its `if_refused`,
//!   its dead letter. What is known of its id stays as it is: no record, no claim is written for
//!   it, so that a scope which enforces again still knows the first sight.
//! - B2: nothing that may yet be decided is let through: an id that another caller holds or has
//!   claimed stays in progress, for its message is not lost by waiting.
//! - B3: scopes observe or enforce for one decision as a whole: what a hold said is what its commit
//!   does ([`Decision::observes`](super::Decision)).

use crate::error::Result;
use crate::verdict::{Refusal, Verdict};

use super::claim_op::ClaimOp;
use super::item::Item;
use super::record::How;
use super::settle::{Outcome, Settling};
use super::write::Write;

impl Settling<'_, '_> {
    /// An item whose claim was none, since its scope only observed.
    pub(super) fn is_unclaimed(&self, item: &Item) -> bool {
        let claim = |item| self.draft.more(item).and_then(|more| more.claim.as_ref());
        self.draft.has_claims && matches!(claim(item), Some(ClaimOp::Unclaimed))
    }

    /// Keeps an item out, or only says so.
    pub(super) fn keep_out(
        &mut self,
        item: &Item,
        writes: Option<&[Write]>,
        verdict: Verdict,
    ) -> Result<Verdict> {
        if !self.observes(item, &verdict) {
            return Ok(verdict);
        }
        if item.is_declined {
            return Ok(Verdict::Declined(()));
        }
        let done = self.unrecorded(item, writes)?;
        Ok(match done {
            Verdict::First(()) => Verdict::Observed((), Box::new(verdict)),
            refused => refused,
        })
    }

    /// Whether a verdict that keeps an item out is only observed.
    pub(super) fn observes(&self, item: &Item, verdict: &Verdict) -> bool {
        // Without an id there is nothing to keep a dead letter under: its sender must set it aside.
        let is_lost = matches!(verdict, Verdict::BadId(_))
            && self
                .draft
                .more(item)
                .is_some_and(|more| more.dead(false).is_some());
        let may_come_again = matches!(verdict, Verdict::InProgress(_));
        self.decision.observes(item.scope) && !may_come_again && !is_lost
    }

    /// An item's effect without a record of its id.
    pub(super) fn unrecorded(&mut self, item: &Item, writes: Option<&[Write]>) -> Result<Verdict> {
        match self.write(item, writes.unwrap_or_default())? {
            Outcome::Done => {
                self.give_up(item, false, None, &mut How::default())?;
                Ok(Verdict::First(()))
            }
            Outcome::Refused { write, settled } => {
                if settled {
                    self.give_up(item, true, None, &mut How::default())?;
                }
                Ok(Verdict::Refused(Refusal::new(write, settled)))
            }
        }
    }

    /// What a closure that was let through leaves beside its writes: its dead letter, and the
    /// prolonged record of its id.
    pub(super) fn record_observed(&mut self, item: &Item, refused: bool) -> Result<()> {
        if item.bad.is_none() {
            let entry = self.decision.entry(0);
            let _ = self.kept_out(0, item, entry)?;
        }
        self.give_up(item, refused, None, &mut How::default())
    }
}
