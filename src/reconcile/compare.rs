//! Both sides, in one order, compared id by id.
//!
//! The store's ids come from its scan, the business side from the sort; both ascend by the keyed
//! hash. Ids of one hash are compared whole, so memory holds those of one hash: nearly always
//! one.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::claims::claim_key;
use crate::commit::sighting;
use crate::error::Result;
use crate::explain::moment;
use crate::index::{Extras, Fingerprint, Hit, IdScan, Slice, State, Streamed};
use crate::policy::Retention;
use crate::scope::Scope;
use crate::verdict::{IdState, Sighting};

use super::sort::Sorted;
use super::spill::Place;
use super::{Counts, Finding, FindingClass};

/// When an id or an effect was, as far as the comparison cares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Within {
    Range,
    /// So near an edge that its other half may lie beyond.
    Edge,
    Outside,
}

/// What is compared with what.
pub(super) struct Rules {
    pub(super) from_ms: Option<u64>,
    /// Exclusive; at most the moment at which the comparison began.
    pub(super) to_ms: u64,
    pub(super) grace_ms: u64,
    pub(super) one_effect: bool,
    /// The id of an effect up to then may be forgotten by now; none of a scope that remembers
    /// for ever.
    pub(super) forgotten_to_ms: Option<u64>,
    /// For whether a record stands.
    pub(super) now_ms: u64,
}

impl Rules {
    fn within(&self, ms: u64) -> Within {
        let from_ms = self.from_ms.unwrap_or(0);
        if ms < from_ms || ms >= self.to_ms {
            return Within::Outside;
        }
        let is_early = self.from_ms.is_some() && ms - from_ms < self.grace_ms;
        if is_early || self.to_ms - ms <= self.grace_ms {
            return Within::Edge;
        }
        Within::Range
    }
}

/// A comparison in progress: the faults, as they are found; see
/// [`Scope::reconcile`](crate::Scope::reconcile). It sees the store's ids as they were when the
/// business side had been read.
pub struct Reconciliation {
    pub(super) scope: Scope,
    pub(super) place: Place,
    ids: IdScan,
    head: Option<Streamed>,
    versions: Arc<[Retention]>,
    effects: Sorted,
    rules: Rules,
    counts: Counts,
    ready: VecDeque<Finding>,
    has_ended: bool,
}

/// What the store has of an id.
struct Known {
    id: Vec<u8>,
    /// None: its record has expired.
    seen: Option<Sighting>,
    print: Option<Fingerprint>,
}

/// What the business side has of an id.
struct Effects {
    id: Box<[u8]>,
    at_ms: Option<u64>,
    count: u64,
    print: Option<Fingerprint>,
    /// Whether its rows have different payloads.
    is_mixed: bool,
}

impl Reconciliation {
    pub(super) fn new(
        (scope, place): (Scope, Place),
        mut ids: IdScan,
        versions: Arc<[Retention]>,
        effects: Sorted,
        (rules, effects_read): (Rules, u64),
    ) -> Result<Reconciliation> {
        let counts = Counts {
            effects_read,
            sorted_runs: effects.spilled,
            ..Counts::default()
        };
        Ok(Reconciliation {
            scope,
            place,
            head: ids.next()?,
            ids,
            versions,
            effects,
            rules,
            counts,
            ready: VecDeque::new(),
            has_ended: false,
        })
    }

    /// What was counted so far; all of it once there are no more findings.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    fn step(&mut self) -> Result<Option<Finding>> {
        loop {
            if let Some(finding) = self.ready.pop_front() {
                return Ok(Some(finding));
            }
            let hashes = [self.head.as_ref().map(|r| r.hash), self.effects.hash()];
            let Some(hash) = hashes.into_iter().flatten().min() else {
                return Ok(None);
            };
            let mut known = self.known(hash)?;
            while let Some(effects) = self.effects_of_one(hash)? {
                let at = known.iter().position(|k| k.id[..] == effects.id[..]);
                let known = at.map(|at| known.swap_remove(at));
                self.judge_effects(known, effects);
            }
            known.into_iter().for_each(|k| self.judge_known(k));
        }
    }

    /// The store's ids of a hash.
    fn known(&mut self, hash: u64) -> Result<Vec<Known>> {
        let mut known = Vec::new();
        while let Some(record) = self.head.take_if(|r| r.hash == hash) {
            self.head = self.ids.next()?;
            if record.meta.state == State::Forgotten {
                continue;
            }
            let is_known = record.meta.is_duplicate_at(self.rules.now_ms);
            self.counts.ids_read += u64::from(is_known);
            let hit = Hit {
                meta: record.meta,
                placement: Slice {
                    end_ms: 0,
                    class: 0,
                },
                extras: record.extras().map(Box::from),
            };
            known.push(Known {
                seen: is_known.then(|| sighting(&hit, &self.versions)),
                print: record
                    .extras()
                    .and_then(|bytes| Extras::decode(bytes).payload),
                id: record.id,
            });
        }
        Ok(known)
    }

    /// All rows of the next id of a hash.
    fn effects_of_one(&mut self, hash: u64) -> Result<Option<Effects>> {
        if self.effects.hash() != Some(hash) {
            return Ok(None);
        }
        let mut found: Option<Effects> = None;
        while let Some(row) = self.effects.peek().filter(|row| row.hash == hash) {
            if found.as_ref().is_some_and(|f| f.id != row.id) {
                break;
            }
            let Some(row) = self.effects.next()? else {
                break;
            };
            let of_one = found.get_or_insert(Effects {
                id: row.id,
                at_ms: row.at_ms,
                count: 0,
                print: row.print,
                is_mixed: false,
            });
            let is_other = of_one.print.zip(row.print).is_some_and(|(a, b)| a != b);
            of_one.is_mixed |= is_other;
            of_one.print = of_one.print.or(row.print);
            of_one.count += 1;
            // The earliest is the effect's; rows without a time come first.
            of_one.at_ms = of_one.at_ms.or(row.at_ms);
        }
        Ok(found)
    }

    /// Whether a claim of an id stands, or its outcome is unknown.
    fn is_claimed(&self, id: &[u8]) -> bool {
        let state = &self.scope.used.state;
        let Ok(core) = self.scope.shared.core() else {
            return false;
        };
        let claim = core.committer.claims.get(&claim_key(state.number, id));
        claim.is_some_and(|claim| claim.row.expiry_ms > self.rules.now_ms)
    }

    /// An id that has an effect.
    fn judge_effects(&mut self, known: Option<Known>, effects: Effects) {
        let at = effects.at_ms.map(|ms| self.rules.within(ms));
        let (was_recorded, seen, print) = match known {
            Some(known) => (true, known.seen, known.print),
            None => (false, None, None),
        };
        let is_claimed = seen.is_none() && self.is_claimed(&effects.id);
        let Some(seen) = seen else {
            let counts = &mut self.counts;
            let forgotten_to_ms = self.rules.forgotten_to_ms;
            let may_be_forgotten = |ms: u64| forgotten_to_ms.is_some_and(|to_ms| ms <= to_ms);
            match (at, effects.at_ms) {
                (Some(Within::Outside), _) => counts.outside += 1,
                _ if is_claimed => counts.in_progress += 1,
                _ if was_recorded => counts.expired += 1,
                (_, Some(ms)) if may_be_forgotten(ms) => counts.expired += 1,
                (Some(Within::Edge), _) => counts.near_edge += 1,
                _ => {
                    counts.id_unknown += 1;
                    self.find(FindingClass::IdUnknown, None, effects);
                }
            }
            return;
        };
        let first = self.rules.within(super::ms(seen.first_seen_at()));
        if first == Within::Outside && at.is_none_or(|at| at == Within::Outside) {
            self.counts.outside += 1;
            return;
        }
        let is_other = print.zip(effects.print).is_some_and(|(a, b)| a != b);
        if is_other || (print.is_some() && effects.is_mixed) {
            self.counts.payload_differs += 1;
            self.find(FindingClass::PayloadDiffers, Some(seen), effects);
            return;
        }
        if effects.count > 1 {
            self.counts.effect_repeated += 1;
            if self.rules.one_effect {
                self.find(FindingClass::EffectRepeated, Some(seen), effects);
                return;
            }
        }
        self.counts.agreed += 1;
    }

    /// An id that has no effect.
    fn judge_known(&mut self, known: Known) {
        let Some(seen) = known.seen else {
            return;
        };
        match self.rules.within(super::ms(seen.first_seen_at())) {
            Within::Outside => self.counts.outside += 1,
            // It did not come to an effect, and says so: none is what it should have.
            _ if seen.was_refused() || seen.state() != IdState::Done => self.counts.refused += 1,
            Within::Edge => self.counts.near_edge += 1,
            Within::Range => {
                self.counts.effect_missing += 1;
                let effects = Effects {
                    id: known.id.into(),
                    at_ms: None,
                    count: 0,
                    print: None,
                    is_mixed: false,
                };
                self.find(FindingClass::EffectMissing, Some(seen), effects);
            }
        }
    }

    fn find(&mut self, class: FindingClass, seen: Option<Sighting>, effects: Effects) {
        self.counts.faults += 1;
        self.ready.push_back(Finding {
            id: Bytes::from(effects.id),
            class,
            seen,
            effect_at: effects.at_ms.and_then(moment),
            effects: effects.count,
        });
    }
}

impl Iterator for Reconciliation {
    type Item = Result<Finding>;

    /// After an error it has ended: a comparison that lacks a part says nothing.
    fn next(&mut self) -> Option<Result<Finding>> {
        if self.has_ended {
            return None;
        }
        let step = self.step().transpose();
        self.has_ended = !matches!(step, Some(Ok(_)));
        step
    }
}

/// Up to when a time may be one of an id that is forgotten by now: its expiry is not later.
pub(super) fn forgotten_to_ms(versions: &[Retention], now_ms: u64, grace_ms: u64) -> Option<u64> {
    let shortest = versions.iter().filter_map(Retention::longest_ms).min();
    shortest.map(|ms| now_ms.saturating_sub(ms).saturating_add(grace_ms))
}

/// Where the times of a range begin and end: a lower bound, and an exclusive upper one.
pub(super) fn bounds(
    range: &(std::ops::Bound<SystemTime>, std::ops::Bound<SystemTime>),
) -> (Option<u64>, Option<u64>) {
    use std::ops::Bound::{Excluded, Included, Unbounded};
    let from = match range.0 {
        Included(t) => Some(super::ms(t)),
        Excluded(t) => Some(super::ms(t).saturating_add(1)),
        Unbounded => None,
    };
    let to = match range.1 {
        Included(t) => Some(super::ms(t).saturating_add(1)),
        Excluded(t) => Some(super::ms(t)),
        Unbounded => None,
    };
    (from, to)
}
