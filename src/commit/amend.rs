//! Ids forgotten and recorded by hand: by `forget`, by a repair, by an import.
//!
//! Unlike a check-and-insert this says what the record is to be; but it goes the same way: the
//! ids are held, looked up, and written with their audit rows in one commit. So an amendment and a
//! caller with the same id exclude each other, and an amendment that no longer fits what is
//! there changes nothing and says so.
//!
//! A first sight of the past gets the expiry that it would have had. In a scope of fixed
//! retention that is a plain record, since its first sight is the expiry less the retention.

use std::sync::Arc;

use crate::claims::{Standing, claim_key};
use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::{
    Book, Ended, Extras, FOR_EVER, FOR_EVER_MS, Fingerprint, Hit, LogBuilder, Meta, Slice, Stamp,
    State,
};
use crate::options::Durability;
use crate::policy::{RESULT_BYTES_MAX, Retention};
use crate::sync::atomic::Ordering;
use crate::why::Why;

use super::audit::Audit;
use super::decide::Decision;
use super::draft::{Draft, DraftCaps};
use super::item::Item;
use super::need::Extent;
use super::sighting::first_seen_ms;
use super::{Committer, Unsynced, keep_if_unknown};

/// What is to become of an item's id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amendment {
    /// Forget it, if it is known; if a first sight is named, only if it is that one.
    Forget { first_ms: Option<u64> },
    /// Record it as first seen then, if it isn't known.
    Record { first_ms: u64 },
}

/// What a record of the past carries beside the id's source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Carried<'a> {
    pub(crate) source: Option<&'a str>,
    pub(crate) result: Option<&'a [u8]>,
    pub(crate) fingerprint: Option<Fingerprint>,
    pub(crate) outcome: Outcome,
}

/// How an id of the past came to its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    pub(crate) refused: bool,
    pub(crate) ended: Ended,
    pub(crate) attempt: u32,
}

impl Draft {
    /// Gives an item what its record is to carry; that is kept whatever the policy.
    pub(crate) fn carry(&mut self, item: u32, carried: &Carried<'_>, caps: DraftCaps) {
        if *carried == Carried::default() {
            return;
        }
        let result = carried.result.unwrap_or_default();
        if result.len() > RESULT_BYTES_MAX {
            let len = result.len();
            let text = format!("a result has {len} bytes, more than {RESULT_BYTES_MAX}");
            return self.fail(Error::invalid(text));
        }
        let result = carried.result.map(|bytes| self.push(bytes, caps));
        let source = carried.source.map(Extras::shortened);
        let source = source.map(|source| self.push(source.as_bytes(), caps));
        let more = self.more_mut(item);
        more.source = source;
        more.result = result;
        more.fingerprint = carried.fingerprint;
        more.outcome = carried.outcome;
    }
}

/// What became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Amended {
    Done,
    /// It is as it should not be: known to be recorded, unknown or seen anew to be forgotten.
    Differs,
    /// It would have expired by now.
    Expired,
    /// Another caller holds it.
    Held,
    /// It is no usable id.
    Bad,
}

/// How the audit tells of a commit's amendments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// One row an id.
    Each,
    /// One row for what was recorded.
    Together,
}

/// A record to write.
struct Written {
    meta: Meta,
    placement: Slice,
    extras: Vec<u8>,
}

impl Committer {
    /// Amends the ids of a draft of one scope, all in one commit; what became of each.
    ///
    /// # Errors
    /// None is amended then, if the error doesn't say `Unknown`.
    pub(crate) fn amend(
        self: &Arc<Self>,
        draft: &mut Draft,
        how: &[Amendment],
        (why, telling): (&Why<'_>, Telling),
        level: Durability,
    ) -> Result<Vec<Amended>> {
        self.flush_buffer()?;
        let decision = self.decide(draft, Extent::Final)?;
        let (mut log, mut rows) = (LogBuilder::default(), Rep::default());
        let mut tally = self.audit_entries()?;
        let mut changes = Vec::new();
        let mut fates = Vec::with_capacity(how.len());
        let mut touched = vec![false; decision.entries()];
        let (mut forgotten, mut recorded) = (0, 0);
        for ((i, item), how) in (0..).zip(&draft.items).zip(how) {
            let (fate, written) = self.amended(draft, &decision, (i, item), *how, &mut touched)?;
            fates.push(fate);
            if fate != Amended::Done {
                continue;
            }
            let (scope, id) = (&draft.scopes[0].state.name, draft.get(&item.id));
            if let Some(written) = written {
                let hash = decision.hash(decision.entry(i));
                let extras = Some(&written.extras[..]).filter(|e| !e.is_empty());
                log.add(hash, &written.meta, written.placement, id, extras);
            }
            if self.has_claim(draft, &decision, (i, item)) {
                // Whoever has the claim finds it lost.
                let key = claim_key(draft.scopes[0].state.number, id);
                rows.delete(self.index.make_book(Book::Claims)?.number(), &key);
                changes.push((key, None));
            }
            match (*how, telling) {
                (Amendment::Forget { .. }, _) => {
                    forgotten += 1;
                    tally.put(&mut rows, &Audit::Forget { scope, id }, why);
                }
                (Amendment::Record { first_ms }, Telling::Each) => {
                    recorded += 1;
                    let audit = Audit::Record {
                        scope,
                        id,
                        first_ms,
                    };
                    tally.put(&mut rows, &audit, why);
                }
                (Amendment::Record { .. }, Telling::Together) => recorded += 1,
            }
        }
        if log.is_empty() && rows.is_empty() {
            return Ok(fates);
        }
        if telling == Telling::Together && recorded > 0 {
            let scope = &draft.scopes[0].state.name;
            let ids = recorded as u64;
            tally.put(&mut rows, &Audit::Import { scope, ids }, why);
        }
        log.finish();
        tally.close(&mut rows)?;
        decision.room.check()?;
        let level = match level {
            Durability::Buffered => Durability::Written,
            level => level,
        };
        let appended = self.append(&mut log, &mut rows, level);
        drop(tally);
        let n = match appended {
            Ok(n) => n,
            Err(error) => {
                keep_if_unknown(&error, [Some(decision.held)]);
                return Err(error);
            }
        };
        self.claims.apply(&changes);
        self.counters
            .forgotten
            .fetch_add(forgotten, Ordering::Relaxed);
        self.counters.commit(recorded, 0);
        if level == Durability::Synced {
            self.wait_synced(Unsynced {
                n,
                held: vec![decision.held],
            })?;
        }
        Ok(fates)
    }

    fn amended(
        &self,
        draft: &Draft,
        decision: &Decision,
        (i, item): (u32, &Item),
        how: Amendment,
        touched: &mut [bool],
    ) -> Result<(Amended, Option<Written>)> {
        if item.bad.is_some() || item.is_unkeyed {
            return Ok((Amended::Bad, None));
        }
        if decision.is_in_progress(i) {
            return Ok((Amended::Held, None));
        }
        let entry = decision.entry(i);
        if touched[entry] {
            return Ok((Amended::Differs, None));
        }
        let hit = decision.hit(entry);
        let known = hit.filter(|h| h.meta.is_duplicate_at(decision.now_ms));
        if self.has_claim(draft, decision, (i, item)) {
            // A claim is no first sight of the past, nor does it let one be written.
            if how != (Amendment::Forget { first_ms: None }) {
                return Ok((Amended::Held, None));
            }
            touched[entry] = true;
            return Ok((Amended::Done, known.map(tombstone)));
        }
        let written = match (how, known) {
            (Amendment::Forget { first_ms }, Some(hit)) => {
                let versions = draft.scopes[0].state.versions();
                let extras = Extras::decode(hit.extras.as_deref().unwrap_or_default());
                let is_that_one =
                    first_ms.is_none_or(|ms| ms == first_seen_ms(hit, &extras, &versions));
                is_that_one.then(|| tombstone(hit))
            }
            (Amendment::Record { first_ms }, None) => {
                if draft.ahead_ms(item, decision.now_ms).is_some() {
                    return Ok((Amended::Bad, None));
                }
                let first_ms = first_ms.min(decision.now_ms);
                match self.past(draft, item, first_ms, decision.now_ms, hit)? {
                    None => return Ok((Amended::Expired, None)),
                    written => written,
                }
            }
            _ => None,
        };
        touched[entry] = written.is_some();
        let fate = if written.is_some() {
            Amended::Done
        } else {
            Amended::Differs
        };
        Ok((fate, written))
    }

    /// Whether a claim of the item's id stands.
    fn has_claim(&self, draft: &Draft, decision: &Decision, (i, item): (u32, &Item)) -> bool {
        let claim = self.claim_of(draft, decision, item, decision.entry(i));
        claim.is_some_and(|(_, standing)| standing != Standing::Gone)
    }

    /// The record of an id that was first seen at a time of the past; none if it has expired.
    fn past(
        &self,
        draft: &Draft,
        item: &Item,
        first_ms: u64,
        now_ms: u64,
        hit: Option<&Hit>,
    ) -> Result<Option<Written>> {
        let scope = &draft.scopes[0];
        let versions = scope.state.versions();
        let retention = versions.last().copied().unwrap_or(Retention::Forever);
        let ms = item.remember_ms().or(retention.longest_ms());
        let (mut placement, expiry_ms) = match ms {
            None => (FOR_EVER, FOR_EVER_MS),
            Some(ms) => {
                let most = match retention {
                    Retention::Sliding { cap_ms, .. } => ms.min(cap_ms),
                    _ => ms,
                };
                let from_ms = item.own_ms().unwrap_or(first_ms);
                let expiry_ms = from_ms.saturating_add(most).min(FOR_EVER_MS - 1);
                if expiry_ms <= now_ms {
                    return Ok(None);
                }
                let class = self.catalog.class_for(&scope.state, ms)?;
                (class.slice(expiry_ms), expiry_ms)
            }
        };
        if let Some(hit) = hit {
            placement = placement.max(hit.placement);
        }
        // The scope's own retention, given once more, is no retention of the id's own.
        let is_derived =
            retention.is_fixed() && ms == retention.longest_ms() && item.own_ms().is_none();
        let more = draft.more(item);
        let kept = item.source.as_ref().filter(|_| scope.policy.sources);
        let source = more.and_then(|more| more.source.as_ref()).or(kept);
        let outcome = more.map(|more| more.outcome).unwrap_or_default();
        let extras = Extras {
            first_seen_ms: (!is_derived).then_some(first_ms),
            source: source.and_then(|s| std::str::from_utf8(draft.get(s)).ok()),
            payload: more.and_then(|more| more.fingerprint),
            result: draft.result(item, false),
            refused: outcome.refused,
            attempt: outcome.attempt,
            ended: outcome.ended,
            event_ms: None,
        };
        let mut bytes = Vec::new();
        extras.encode(&mut bytes);
        let version = u8::try_from(versions.len() - 1).unwrap_or(u8::MAX);
        let meta = Meta {
            stamp: Stamp {
                scope: scope.state.number,
                version,
            },
            state: State::Seen,
            over: hit.is_some(),
            expiry_ms,
        };
        Ok(Some(Written {
            meta,
            placement,
            extras: bytes,
        }))
    }
}

fn tombstone(hit: &Hit) -> Written {
    let meta = Meta {
        state: State::Forgotten,
        over: true,
        ..hit.meta
    };
    Written {
        meta,
        placement: hit.placement,
        extras: Vec::new(),
    }
}
