//! What settling records of an id: the record of a first sight, and a prolonged one.
//!
//! A record's extras are its first sight where the expiry doesn't tell it, the source, whether
//! it was refused, the payload's fingerprint and the stored result. A prolonged record carries
//! all of them on: they stay with the id for as long as it is remembered.

use std::ops::Range;

use crate::claims::DeadRow;
use crate::error::Result;
use crate::index::{Ended, Extras, FOR_EVER_MS, Meta, State};
use crate::policy::Retention;
use crate::verdict::{Extra, Sighting};

use super::item::Item;
use super::settle::{Fate, Settling};
use super::sighting::{first_seen_ms, id_state};

/// How an id comes to its record.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct How {
    pub(super) refused: bool,
    pub(super) ended: Ended,
    /// 0: it was not claimed.
    pub(super) attempt: u32,
}

impl Settling<'_, '_> {
    /// Whether an item brings another payload than a record was made with. Where either has
    /// none there is nothing to compare.
    pub(super) fn is_other_payload(&self, item: &Item, extras: &[u8]) -> bool {
        let brought = self.draft.more(item).and_then(|more| more.fingerprint);
        let Some(brought) = brought else {
            return false;
        };
        let kept = Extras::decode(extras).payload;
        kept.is_some_and(|kept| kept != brought)
    }

    /// The same for a record that an earlier item of the batch made.
    pub(super) fn is_other_payload_within(&self, item: &Item, by: u32, entry: usize) -> bool {
        let of = |item: &Item| self.draft.more(item).and_then(|more| more.fingerprint);
        let first = &self.draft.items[by as usize];
        let claim = self.claim_row(by, first, entry);
        let carried = claim.and_then(|claim| Extras::decode(&claim.row.extras).payload);
        let kept = of(first).or(carried);
        of(item)
            .zip(kept)
            .is_some_and(|(brought, kept)| brought != kept)
    }

    /// What is known of an id that an earlier item of the batch recorded.
    pub(super) fn sighting_within(&self, by: u32, entry: usize, how: How) -> Sighting {
        let first = &self.draft.items[by as usize];
        let claim = self.claim_row(by, first, entry);
        let carried = claim.as_ref().map(|c| Extras::decode(&c.row.extras));
        let kept = first
            .source
            .as_ref()
            .filter(|_| self.rules[first.scope as usize].sources);
        let source = kept.and_then(|s| std::str::from_utf8(self.draft.get(s)).ok());
        let source = source.map(Extras::shortened);
        let extra = Extra {
            source: source.or(carried.and_then(|c| c.source)).map(Box::from),
            refused: how.refused,
            result: (self.draft.result(first, how.refused))
                .filter(|_| how.ended != Ended::Dead)
                .map(Box::from),
            state: id_state(how.ended),
            attempt: how.attempt,
            is_dropped: false,
        };
        let first_ms = claim
            .as_ref()
            .map_or(self.decision.now_ms, |c| c.row.first_ms);
        Sighting::new(first_ms, Some(extra))
    }

    /// A sliding scope's duplicate moves its expiry, up to the cap from first sight. The record
    /// is written under the id it was found by, the item's own or its older form.
    pub(super) fn prolong(&mut self, i: u32, item: &Item, entry: usize, id: &Range<u32>) {
        let rules = &self.rules[item.scope as usize];
        let (Retention::Sliding { ms, cap_ms }, Some(hit)) =
            (rules.in_force(), self.decision.hit(entry))
        else {
            return;
        };
        let mut extras = Extras::decode(hit.extras.as_deref().unwrap_or_default());
        let first_ms = first_seen_ms(hit, &extras, &rules.versions);
        let now_ms = self.decision.now_ms;
        let ms = item.remember_ms().unwrap_or(ms);
        let expiry_ms = now_ms
            .saturating_add(ms)
            .min(first_ms.saturating_add(cap_ms));
        if expiry_ms <= hit.meta.expiry_ms {
            return;
        }
        extras.first_seen_ms = Some(first_ms);
        let stamp = rules.meta.stamp;
        // An id's own retention has its own class; else the class is one of the scope's, and a
        // longer one is always a right place.
        let class = item.remember_ms().and_then(|_| self.decision.class(i));
        let own = class
            .map_or(rules.placement, |c| c.slice(expiry_ms))
            .max(hit.placement);
        let meta = Meta {
            stamp,
            state: State::Seen,
            over: true,
            expiry_ms,
        };
        self.extras.clear();
        extras.encode(&mut self.extras);
        let hash = self.decision.hash(entry);
        let id = self.draft.get(id);
        self.prolonged.push(self.log.hashes().len() as u32);
        self.log.add(hash, &meta, own, id, Some(&self.extras));
        self.fates[entry] = Fate::Prolonged;
    }

    /// Records an item's id as seen.
    pub(super) fn record(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        refused: bool,
    ) -> Result<()> {
        let rules = &self.rules[item.scope as usize];
        let hit = self.decision.hit(entry);
        let is_new = hit.is_none() && !self.decision.has_claims();
        if rules.is_plain && item.is_plain() && !refused && is_new {
            self.fates[entry] = Fate::Recorded {
                by: i,
                how: How::default(),
            };
            // Nearly every record: of a fixed retention, with nothing before it.
            let (hash, id) = (self.decision.hash(entry), self.draft.get(&item.id));
            self.log.add(hash, &rules.meta, rules.placement, id, None);
            return Ok(());
        }
        let more = self.draft.more(item);
        let claim = self.claim_row(i, item, entry);
        let is_taken = more.is_some_and(|more| more.claim.is_some());
        let mut how = How {
            refused,
            ended: Ended::Done,
            // Whoever records a free id without claiming it makes the next attempt.
            attempt: claim
                .as_ref()
                .map_or(0, |c| c.row.attempt + u32::from(!is_taken)),
        };
        if more.is_some_and(|more| more.is_failed) {
            how.ended = Ended::Failed;
            how.attempt = how.attempt.max(1);
        }
        let first_ms = claim.map(|claim| claim.row.first_ms);
        self.give_up(item, refused, first_ms, &mut how)?;
        self.record_as(i, item, entry, how)
    }

    /// Keeps an item's message among the dead letters, if its writes say so.
    pub(super) fn give_up(
        &mut self,
        item: &Item,
        refused: bool,
        first_ms: Option<u64>,
        how: &mut How,
    ) -> Result<()> {
        let Some(dead) = self.draft.more(item).and_then(|more| more.dead(refused)) else {
            return Ok(());
        };
        let kept = item
            .source
            .as_ref()
            .filter(|_| self.rules[item.scope as usize].sources);
        let source = kept.map_or(&[][..], |s| self.draft.get(s));
        let row = DeadRow {
            attempts: how.attempt.max(1),
            first_ms: first_ms.unwrap_or(self.decision.now_ms),
            dead_ms: self.decision.now_ms,
            why: String::from_utf8_lossy(self.draft.get(&dead.why)).into_owned(),
            source: Extras::shortened(&String::from_utf8_lossy(source)).to_string(),
            reference: Vec::new(),
            payload: self.draft.get(&dead.payload).to_vec(),
        };
        self.put_dead(item, &row)?;
        how.ended = Ended::Dead;
        how.attempt = how.attempt.max(1);
        Ok(())
    }

    /// Records how an item's id ended, and ends its claim if it has one.
    pub(super) fn record_as(&mut self, i: u32, item: &Item, entry: usize, how: How) -> Result<()> {
        let How {
            refused,
            ended,
            attempt,
        } = how;
        self.fates[entry] = Fate::Recorded { by: i, how };
        let claim = self.claim_row(i, item, entry);
        let kept = claim.as_ref().map(|c| Extras::decode(&c.row.extras));
        let rules = &self.rules[item.scope as usize];
        let now_ms = self.decision.now_ms;
        let (mut placement, mut expiry_ms) = (rules.placement, rules.meta.expiry_ms);
        let own_expiry_ms = self.own_expiry_ms(item, kept.as_ref());
        if let (Some(ms), Some(class)) = (own_expiry_ms, rules.class) {
            if ms <= now_ms {
                // It is late: there is no place for its record any more.
                return self.end_claims(i, item, entry);
            }
            (placement, expiry_ms) = (class.slice(ms), ms);
        }
        if let (Some(ms), Some(class)) = (item.remember_ms(), self.decision.class(i)) {
            expiry_ms = now_ms.saturating_add(ms).min(FOR_EVER_MS - 1);
            placement = class.slice(expiry_ms);
        }
        if let Retention::Sliding { cap_ms, .. } = rules.in_force() {
            expiry_ms = expiry_ms.min(now_ms.saturating_add(cap_ms));
        }
        let is_derived =
            item.remember_ms().is_none() && own_expiry_ms.is_none() && rules.in_force().is_fixed();
        let source = item.source.as_ref().filter(|_| rules.sources);
        let extras = Extras {
            first_seen_ms: match &claim {
                Some(claim) => Some(claim.row.first_ms),
                None => (!is_derived).then_some(now_ms),
            },
            source: source
                .and_then(|s| std::str::from_utf8(self.draft.get(s)).ok())
                .or(kept.and_then(|k| k.source)),
            refused,
            payload: (self.draft.more(item).and_then(|more| more.fingerprint))
                .or(kept.and_then(|k| k.payload)),
            // What a dead letter says stands there.
            result: self
                .draft
                .result(item, refused)
                .filter(|_| ended != Ended::Dead),
            attempt,
            ended,
            event_ms: None,
        };
        let hit = self.decision.hit(entry);
        if let Some(hit) = hit {
            placement = placement.max(hit.placement);
        }
        let over = hit.is_some();
        let meta = Meta {
            over,
            expiry_ms,
            ..rules.meta
        };
        let (hash, id) = (self.decision.hash(entry), self.draft.get(&item.id));
        if extras.is_empty() {
            self.log.add(hash, &meta, placement, id, None);
        } else {
            self.extras.clear();
            extras.encode(&mut self.extras);
            self.log.add(hash, &meta, placement, id, Some(&self.extras));
        }
        self.end_claims(i, item, entry)
    }
}
