//! What is done with claims and dead letters by request, each with an audit row in the same
//! commit: a dead letter is redriven or purged, an unknown outcome is decided.

use crate::claims::{ClaimRow, DeadRow, Nonce, Phase, Standing, claim_key};
use crate::error::Result;
use crate::index::{Book, Ended, Extras, Meta, State};
use crate::verdict::Verdict;
use crate::why::Grounds;

use super::audit::Event;
use super::claim_op::Settlement;
use super::item::Item;
use super::settle::Settling;
use super::sighting::first_seen_ms;

impl<'s> Settling<'_, 's> {
    pub(super) fn dead_row(&self, item: &Item) -> Result<Option<DeadRow>> {
        let Some(family) = self.committer.index.book(Book::Dead) else {
            return Ok(None);
        };
        let scope = &self.draft.scopes[item.scope as usize].state;
        let row = family.get(&claim_key(scope.number, self.draft.get(&item.id)))?;
        row.map(|bytes| DeadRow::decode(&bytes)).transpose()
    }

    fn delete_dead(&mut self, item: &Item) -> Result<()> {
        let family = self.committer.index.make_book(Book::Dead)?;
        let scope = &self.draft.scopes[item.scope as usize].state;
        let key = claim_key(scope.number, self.draft.get(&item.id));
        self.rows.delete(family.number(), &key);
        *self.dead.entry(scope.number).or_default() -= 1;
        Ok(())
    }

    /// Makes a dead-lettered id claimable again. Its attempts go on from where they were.
    pub(super) fn redrive(&mut self, item: &Item, entry: usize, why: &Grounds) -> Result<Verdict> {
        let now_ms = self.decision.now_ms;
        let claim = self
            .committer
            .claim_of(self.draft, self.decision, item, entry);
        let is_claimed = claim.is_some_and(|(_, standing)| standing != Standing::Gone);
        let dead = self.dead_row(item)?;
        let hit = self.decision.hit(entry);
        let hit = hit.filter(|h| h.meta.is_duplicate_at(now_ms));
        let extras = hit.map(|h| Extras::decode(h.extras.as_deref().unwrap_or_default()));
        let is_other = extras.is_some_and(|e| e.ended != Ended::Dead);
        if is_claimed || is_other || (hit.is_none() && dead.is_none()) {
            return Ok(Verdict::LeaseLost);
        }
        let recorded = extras.map_or(0, |e| e.attempt);
        let attempt = dead.as_ref().map_or(recorded, |d| d.attempts.max(recorded));
        let versions = &self.rules[item.scope as usize].versions;
        let first = hit.zip(extras).map(|(h, e)| first_seen_ms(h, &e, versions));
        let first_ms = first
            .or(dead.as_ref().map(|d| d.first_ms))
            .unwrap_or(now_ms);
        let mut kept = Vec::new();
        Extras {
            source: extras.and_then(|e| e.source),
            payload: extras.and_then(|e| e.payload),
            ..Extras::default()
        }
        .encode(&mut kept);
        if let Some(hit) = hit {
            // Else it would come back once the claim's row is gone.
            let meta = Meta {
                state: State::Forgotten,
                over: true,
                ..hit.meta
            };
            let (hash, id) = (self.decision.hash(entry), self.draft.get(&item.id));
            self.log.add(hash, &meta, hit.placement, id, None);
        }
        let row = ClaimRow {
            phase: Phase::Free,
            nonce: Nonce { run: 0, serial: 0 },
            attempt,
            pardoned: attempt,
            first_ms,
            lease_ms: crate::clock::millis(self.draft.scopes[item.scope as usize].policy.lease),
            until_ms: 0,
            expiry_ms: 0,
            why: String::new(),
            reference: dead.as_ref().map_or_else(Vec::new, |d| d.reference.clone()),
            extras: kept,
        };
        if dead.is_some() {
            self.delete_dead(item)?;
        }
        self.free(item, row, "it was redriven", 0)?;
        self.audit(item, why, |scope, id| Event::Redrive { scope, id });
        Ok(Verdict::First(()))
    }

    /// Removes a dead letter; the id itself stays as it is.
    pub(super) fn purge(&mut self, item: &Item, why: &Grounds) -> Result<Verdict> {
        if self.dead_row(item)?.is_none() {
            return Ok(Verdict::LeaseLost);
        }
        self.delete_dead(item)?;
        self.audit(item, why, |scope, id| Event::Purge { scope, id });
        Ok(Verdict::First(()))
    }

    /// Says what became of an effect whose outcome nobody knew.
    pub(super) fn decide_unknown(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        settlement: Settlement,
        why: &Grounds,
    ) -> Result<Verdict> {
        let claim = self
            .committer
            .claim_of(self.draft, self.decision, item, entry);
        let Some((found, Standing::Unknown)) = claim else {
            return Ok(Verdict::LeaseLost);
        };
        let row = found.row.clone();
        let attempt = row.attempt;
        match settlement {
            Settlement::Done => self.end(i, item, entry, Ended::Done, attempt)?,
            Settlement::Failed => self.end(i, item, entry, Ended::Failed, attempt)?,
            Settlement::Retry => self.free(item, row, why.text(), 0)?,
        }
        let outcome = settlement.name().to_string();
        self.audit(item, why, |scope, id| Event::Decided { scope, id, outcome });
        Ok(Verdict::First(()))
    }

    fn audit(&mut self, item: &Item, why: &Grounds, of: impl FnOnce(String, Vec<u8>) -> Event) {
        let scope = self.draft.scopes[item.scope as usize].state.name.clone();
        let id = self.draft.get(&item.id).to_vec();
        self.audits.push((of(scope, id), why.clone()));
    }
}
