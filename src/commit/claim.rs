//! Settling what concerns claims: an id that has one, and what is done with claims themselves.
//!
//! A claim's row outranks all records of its id (protocol: "which record of an id wins"). What a
//! claim becomes is placed by the lookup of the commit that ends it, as any record is: that
//! lookup finds every older record there still is, so the row needs to say nothing of it.
//!
//! - W5: a nonce is compared while the id is held, in the commit that writes. One that is not the
//!   row's changes nothing.
//! - W6: a lease that ran out ends no claim; the next claim of the id does. Until then its holder
//!   may still complete it: that the effect took place is then known rather than lost.

use std::sync::Arc;

use crate::claims::{ClaimRow, DeadRow, Entry, Nonce, Phase, Standing, claim_key};
use crate::engine::Family;
use crate::error::Result;
use crate::index::{Book, Ended, Extras, FOR_EVER_MS};
use crate::policy::{OnUnknown, Policy};
use crate::verdict::{Extra, IdState, InProgress, Sighting, Verdict};

use super::Committer;
use super::claim_op::{ClaimOp, shortened};
use super::decide::Decision;
use super::draft::Draft;
use super::item::Item;
use super::record::How;
use super::settle::{Fate, Settling};
use super::write::{Bytes, Write};

impl Committer {
    /// An entry's claim and how it stands for an item's caller.
    pub(super) fn claim_of<'a>(
        &self,
        draft: &Draft,
        decision: &'a Decision,
        item: &Item,
        entry: usize,
    ) -> Option<(&'a Arc<Entry>, Standing)> {
        let found = decision.claim(entry)?;
        let policy = &draft.scopes[item.scope as usize].policy;
        let is_abandoned =
            policy.takes_over_dead_runs && !self.claims.is_of_this_run(found.row.nonce);
        let standing = found.standing(decision.now_ms, decision.mono_ms, is_abandoned);
        Some((found, standing))
    }
}

/// What is known of an id by its claim.
pub(crate) fn claim_sighting(row: &ClaimRow) -> Sighting {
    let state = match row.phase {
        Phase::Held => IdState::Claimed,
        Phase::Free => IdState::Waiting,
        Phase::Unknown => IdState::OutcomeUnknown,
    };
    sighting_as(row, state)
}

fn sighting_as(row: &ClaimRow, state: IdState) -> Sighting {
    let extra = Extra {
        source: Extras::decode(&row.extras).source.map(Box::from),
        state,
        attempt: row.attempt,
        ..Extra::default()
    };
    Sighting::new(row.first_ms, Some(extra))
}

fn is_exhausted(row: &ClaimRow, policy: &Policy) -> bool {
    policy
        .attempts_max
        .is_some_and(|most| row.attempts() >= most)
}

impl Settling<'_, '_> {
    pub(super) fn policy(&self, item: &Item) -> &Policy {
        &self.draft.scopes[item.scope as usize].policy
    }

    fn family(&self, book: Book) -> Result<Arc<Family>> {
        self.committer.index.make_book(book)
    }

    fn key(&self, item: &Item, id: &Bytes) -> Box<[u8]> {
        let scope = self.draft.scopes[item.scope as usize].state.number;
        claim_key(scope, self.draft.get(id))
    }

    /// The item's own entry and that of its older id, with their ids.
    fn forms(&self, i: u32, item: &Item, entry: usize) -> Vec<(usize, Bytes)> {
        let older = self.decision.also(i).zip(item.also.clone());
        std::iter::once((entry, item.id.clone()))
            .chain(older)
            .collect()
    }

    /// The claim of an item's id, own or older, that has not expired.
    pub(super) fn claim_row(&self, i: u32, item: &Item, entry: usize) -> Option<Arc<Entry>> {
        if !self.decision.has_claims() {
            return None;
        }
        let forms = self.forms(i, item, entry);
        forms.into_iter().find_map(|(entry, _)| {
            let of = self
                .committer
                .claim_of(self.draft, self.decision, item, entry);
            let (found, standing) = of?;
            (standing != Standing::Gone).then(|| Arc::clone(found))
        })
    }

    /// The verdict if the id's claim keeps the item out. At the limit of attempts the id is
    /// dead-lettered here, by whoever asks next.
    pub(super) fn claimed(&mut self, i: u32, item: &Item, entry: usize) -> Result<Option<Verdict>> {
        if !self.decision.has_claims() || self.fates[entry] != Fate::Open {
            return Ok(None);
        }
        for (form, _) in self.forms(i, item, entry) {
            let of = self
                .committer
                .claim_of(self.draft, self.decision, item, form);
            let Some((found, standing)) = of else {
                continue;
            };
            // One that an earlier item of the batch has ended is judged by what that recorded.
            if standing == Standing::Gone || self.fates[form] != Fate::Open {
                continue;
            }
            let row = &Arc::clone(found).row;
            if self.is_other_payload(item, &row.extras) {
                return Ok(Some(Verdict::PayloadMismatch(claim_sighting(row))));
            }
            match standing {
                Standing::Taken(ms) => return Ok(Some(Verdict::InProgress(InProgress::new(ms)))),
                Standing::Unknown => return Ok(Some(Verdict::OutcomeUnknown(claim_sighting(row)))),
                _ if is_exhausted(row, self.policy(item)) => {
                    let last = if row.why.is_empty() {
                        "its lease ran out".to_string()
                    } else {
                        row.why.clone()
                    };
                    if !self.decision.observes(item.scope) {
                        self.bury(i, item, entry, row, &last)?;
                    }
                    let sighting = sighting_as(row, IdState::DeadLettered);
                    return Ok(Some(Verdict::DeadLettered(sighting)));
                }
                _ => {}
            }
        }
        Ok(None)
    }

    /// Gives an id up at the limit of its attempts.
    fn bury(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        row: &ClaimRow,
        last: &str,
    ) -> Result<()> {
        let source = Extras::decode(&row.extras).source.unwrap_or_default();
        let attempts = row.attempts();
        let why = format!("no outcome after {attempts} attempts: {last}");
        let dead = DeadRow {
            attempts: row.attempt,
            first_ms: row.first_ms,
            dead_ms: self.decision.now_ms,
            why: shortened(&why).to_string(),
            source: source.to_string(),
            reference: row.reference.clone(),
            payload: Vec::new(),
        };
        self.put_dead(item, &dead)?;
        let how = How {
            ended: Ended::Dead,
            attempt: row.attempt,
            ..How::default()
        };
        self.record_as(i, item, entry, how)
    }

    pub(super) fn put_dead(&mut self, item: &Item, dead: &DeadRow) -> Result<()> {
        let family = self.family(Book::Dead)?;
        let key = self.key(item, &item.id);
        // One of an id that was forgotten since may be there still.
        if self.dead_row(item)?.is_none() {
            let scope = self.draft.scopes[item.scope as usize].state.number;
            *self.dead.entry(scope).or_default() += 1;
        }
        self.rows.put(family.number(), &key, &dead.encode());
        Ok(())
    }

    /// Deletes the claims of an item's id, whose outcome is recorded in this commit; also expired
    /// ones: after a crash time may be short of their expiry again.
    pub(super) fn end_claims(&mut self, i: u32, item: &Item, entry: usize) -> Result<()> {
        if !self.decision.has_claims() {
            return Ok(());
        }
        for (form, id) in self.forms(i, item, entry) {
            if self.decision.claim(form).is_some() {
                let key = self.key(item, &id);
                self.delete_claim(key)?;
            }
        }
        Ok(())
    }

    fn delete_claim(&mut self, key: Box<[u8]>) -> Result<()> {
        let family = self.family(Book::Claims)?;
        self.rows.delete(family.number(), &key);
        self.changes.push((key, None));
        Ok(())
    }

    /// Puts a claim's row, which keeps others out for so long.
    fn put_claim(&mut self, item: &Item, mut row: ClaimRow, keep_ms: u64) -> Result<()> {
        let now_ms = self.decision.now_ms;
        row.until_ms = now_ms.saturating_add(keep_ms);
        let retention = self.rules[item.scope as usize].in_force().longest_ms();
        row.expiry_ms = match retention {
            None => FOR_EVER_MS,
            Some(ms) => now_ms.saturating_add(ms).max(row.until_ms),
        };
        let until_mono_ms = self.decision.mono_ms.saturating_add(keep_ms);
        let (family, key) = (self.family(Book::Claims)?, self.key(item, &item.id));
        self.rows.put(family.number(), &key, &row.encode());
        self.changes
            .push((key, Some(Arc::new(Entry { row, until_mono_ms }))));
        Ok(())
    }

    /// The claim that a nonce is of, if it still is (W5).
    fn mine(&self, entry: usize, nonce: Nonce) -> Option<Arc<Entry>> {
        let found = self.decision.claim(entry)?;
        let row = &found.row;
        let is_mine = self.fates[entry] == Fate::Open
            && row.phase == Phase::Held
            && row.nonce == nonce
            && row.expiry_ms > self.decision.now_ms;
        is_mine.then(|| Arc::clone(found))
    }

    /// An item that is about its id's claim.
    pub(super) fn claim_op(
        &mut self,
        i: u32,
        item: &Item,
        op: &ClaimOp,
        writes: Option<&[Write]>,
    ) -> Result<Verdict> {
        let entry = self.decision.entry(i);
        let nonce = match op {
            ClaimOp::Take => return self.take(i, item, entry),
            ClaimOp::Redrive(why) => return self.redrive(item, entry, why),
            ClaimOp::Purge(why) => return self.purge(item, why),
            ClaimOp::Unclaimed => return self.unrecorded(item, writes),
            ClaimOp::Decide(settlement, why) => {
                return self.decide_unknown(i, item, entry, *settlement, why);
            }
            ClaimOp::Renew(nonce)
            | ClaimOp::Complete(nonce)
            | ClaimOp::Retry(nonce)
            | ClaimOp::Fail(nonce)
            | ClaimOp::Release(nonce)
            | ClaimOp::Unknown(nonce, _) => *nonce,
        };
        let Some(mine) = self.mine(entry, nonce) else {
            return Ok(Verdict::LeaseLost);
        };
        let row = mine.row.clone();
        match op {
            ClaimOp::Renew(_) => {
                let lease_ms = row.lease_ms;
                self.put_claim(item, row, lease_ms)?;
            }
            ClaimOp::Complete(_) => return self.effect(i, item, entry, writes),
            ClaimOp::Fail(_) => self.end(i, item, entry, Ended::Failed, row.attempt)?,
            ClaimOp::Release(_) => self.free(item, row, "it was released", 0)?,
            ClaimOp::Unknown(_, why) => self.unknown(i, item, entry, row, why)?,
            _ => {
                let result = self.draft.result(item, false).unwrap_or_default();
                let why = String::from_utf8_lossy(result).into_owned();
                self.retry(i, item, entry, row, &why)?;
            }
        }
        Ok(Verdict::First(()))
    }

    fn take(&mut self, i: u32, item: &Item, entry: usize) -> Result<Verdict> {
        if let Some(verdict) = self.kept_out(i, item, entry)? {
            return self.keep_out(item, None, verdict);
        }
        self.committer.claims.check_room()?;
        let before = self.claim_row(i, item, entry);
        let before = before.as_ref().map(|entry| &entry.row);
        let lease_ms = crate::clock::millis(self.policy(item).lease);
        let more = self.draft.more(item);
        let sources = self.rules[item.scope as usize].sources;
        let source = item.source.as_ref().filter(|_| sources);
        let kept = before.map_or_else(Extras::default, |row| Extras::decode(&row.extras));
        let source = source.and_then(|s| std::str::from_utf8(self.draft.get(s)).ok());
        let mut extras = Vec::new();
        Extras {
            source: source.or(kept.source),
            payload: more.and_then(|m| m.fingerprint).or(kept.payload),
            event_ms: self.draft.given_ms(item),
            ..Extras::default()
        }
        .encode(&mut extras);
        let reference = more.and_then(|m| m.reference.as_ref());
        let reference = match (reference, before) {
            (Some(range), _) => self.draft.get(range).to_vec(),
            (None, before) => before.map_or_else(Vec::new, |row| row.reference.clone()),
        };
        let row = ClaimRow {
            phase: Phase::Held,
            nonce: self.committer.claims.nonce(),
            attempt: before.map_or(0, |row| row.attempt).saturating_add(1),
            pardoned: before.map_or(0, |row| row.pardoned),
            first_ms: before.map_or(self.decision.now_ms, |row| row.first_ms),
            lease_ms,
            until_ms: 0,
            expiry_ms: 0,
            why: String::new(),
            reference,
            extras,
        };
        for (form, id) in self.forms(i, item, entry).split_off(1) {
            if self.decision.claim(form).is_some() {
                let key = self.key(item, &id);
                self.delete_claim(key)?;
            }
        }
        self.put_claim(item, row, lease_ms)?;
        Ok(Verdict::First(()))
    }

    /// Lets the next attempt begin after a pause.
    pub(super) fn free(
        &mut self,
        item: &Item,
        row: ClaimRow,
        why: &str,
        pause_ms: u64,
    ) -> Result<()> {
        let row = ClaimRow {
            phase: Phase::Free,
            why: shortened(why).to_string(),
            ..row
        };
        self.put_claim(item, row, pause_ms)
    }

    /// An attempt failed: the next one, or at the limit the dead letters.
    fn retry(&mut self, i: u32, item: &Item, entry: usize, row: ClaimRow, why: &str) -> Result<()> {
        if is_exhausted(&row, self.policy(item)) {
            return self.bury(i, item, entry, &row, why);
        }
        let pause_ms = crate::clock::millis(self.policy(item).backoff);
        self.free(item, row, why, pause_ms)
    }

    fn unknown(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        row: ClaimRow,
        why: &str,
    ) -> Result<()> {
        match self.policy(item).on_unknown {
            OnUnknown::Retry => self.retry(i, item, entry, row, why),
            OnUnknown::Done => self.end(i, item, entry, Ended::Done, row.attempt),
            OnUnknown::Hold => {
                let row = ClaimRow {
                    phase: Phase::Unknown,
                    why: shortened(why).to_string(),
                    ..row
                };
                self.put_claim(item, row, 0)
            }
        }
    }

    /// Ends a claim with a record of its outcome.
    pub(super) fn end(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        ended: Ended,
        attempt: u32,
    ) -> Result<()> {
        let how = How {
            ended,
            attempt,
            ..How::default()
        };
        self.record_as(i, item, entry, how)
    }
}
