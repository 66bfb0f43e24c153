//! The model's commits: what a batch or a closure does, on a copy, taken over if it succeeds.
//!
//! Rules, as the library's documentation states them:
//! - an id is a duplicate iff it was recorded and its expiry is not reached, or was recorded
//!   earlier in the same commit; under `also` just so;
//! - what is refused leaves no row; it leaves its id only with an `if_refused`;
//! - a sliding scope's duplicate lives on for the retention, never beyond the cap from first
//!   sight; one commit does that once for an id;
//! - an id that comes with another payload than it was recorded with is no duplicate but a
//!   mismatch, and lives no longer for it; where either has none they are the same;
//! - a result stays with its id;
//! - an id with its own time is remembered from it on; a late one is first each time, but within
//!   one commit, and leaves no record;
//! - items see the rows of those before them.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::Claims;
use super::model::{Model, Seen};
use super::numbers::Numbers;
use super::op::{
    AHEAD_MS, Closure, End, GIVEN, ID_BYTES_MAX, Item, Keep, Name, Number, PRODUCERS, Step, Table,
    UNKEYED, WITH_PAYLOADS, WITH_RESULTS, Write, id, payload, result,
};
use super::prepared::Lock;
use super::rows::Rows;
use super::said::{CLOSURE, INVALID, Kind, Said, maybe_bytes};

/// A commit in the making.
pub(super) struct Draft<'m> {
    pub(super) model: &'m Model,
    pub(super) now_ms: u64,
    /// Ids that another caller holds.
    foreign: &'m [(usize, Vec<u8>)],
    pub(super) rows: Rows,
    pub(super) numbers: Numbers,
    pub(super) ids: BTreeMap<(usize, Vec<u8>), Staged>,
    pub(super) claims: Claims,
    /// Whether what is being recorded was refused.
    pub(super) is_refused: bool,
    pub(super) unkeyed: u64,
    /// Rows that are written.
    pub(super) touched: BTreeSet<(Table, String)>,
    /// Whether there is anything to write, an empty row change included.
    pub(super) writes_rows: bool,
}

/// What a commit does to an id.
#[derive(Clone, Debug)]
pub(super) enum Staged {
    Recorded(Seen),
    Prolonged(Seen),
}

impl<'m> Draft<'m> {
    pub(super) fn new(model: &'m Model, now_ms: u64, foreign: &'m [(usize, Vec<u8>)]) -> Draft<'m> {
        Draft {
            model,
            now_ms,
            foreign,
            rows: model.rows.clone(),
            numbers: model.numbers.clone(),
            ids: BTreeMap::new(),
            claims: model.claims.clone(),
            is_refused: false,
            unkeyed: 0,
            touched: BTreeSet::new(),
            writes_rows: false,
        }
    }

    /// One item's verdict; without writes if that is all that is asked.
    pub(super) fn item(
        &mut self,
        scope: usize,
        item: &Item,
        writes: Option<&[Write]>,
    ) -> Result<Said, Kind> {
        if let Name::Sequence(number) = item.name {
            return self.sequence(number, item, writes);
        }
        let unkeyed = match check(scope, item) {
            Ok(unkeyed) => unkeyed,
            Err(bad) => return Ok(Said::Bad(bad)),
        };
        if !unkeyed {
            if self.is_in_progress(scope, item) {
                return Ok(Said::InProgress);
            }
            if let Some(said) = self.claimed(scope, item) {
                return Ok(said);
            }
            if let Some(said) = self.seen(scope, item) {
                return Ok(said);
            }
            if let Some(said) = self.ahead(scope, item) {
                return Ok(said);
            }
        }
        if item.declined {
            return Ok(Said::Declined);
        }
        let Some(writes) = writes else {
            self.record(scope, item, false);
            return Ok(Said::First);
        };
        if let Some(write) = self.write_all(writes)? {
            let settled = match &item.if_refused {
                Some(fallback) => self.write_all(fallback)?.is_none(),
                None => false,
            };
            if settled {
                self.record(scope, item, true);
            }
            return Ok(Said::Refused { write, settled });
        }
        self.unkeyed += u64::from(unkeyed || self.is_late(scope, item));
        self.record(scope, item, false);
        Ok(Said::First)
    }

    fn sequence(
        &mut self,
        number: Number,
        item: &Item,
        writes: Option<&[Write]>,
    ) -> Result<Said, Kind> {
        if number.producer == PRODUCERS {
            return Ok(Said::Bad("empty"));
        }
        // Producers are not held before the commit.
        let Some(writes) = writes else {
            return Ok(Said::InProgress);
        };
        if let Some(said) = self.numbers.judge(number) {
            return Ok(said);
        }
        if item.declined {
            return Ok(Said::Declined);
        }
        let refused = self.write_all(writes)?;
        let settled = match (refused, &item.if_refused) {
            (None, _) => true,
            (Some(_), None) => false,
            (Some(_), Some(fallback)) => self.write_all(fallback)?.is_none(),
        };
        if settled {
            self.numbers.record(number, self.now_ms);
            self.writes_rows = true;
        }
        Ok(refused.map_or(Said::First, |write| Said::Refused { write, settled }))
    }

    pub(super) fn write_all(&mut self, writes: &[Write]) -> Result<Option<usize>, Kind> {
        let refused = self.rows.write_all(writes)?;
        if refused.is_none() {
            self.writes_rows |= !writes.is_empty();
            self.touched.extend(writes.iter().filter_map(Write::place));
        }
        Ok(refused)
    }

    pub(super) fn is_in_progress(&self, scope: usize, item: &Item) -> bool {
        let named = [own(item), item.also.map(id)];
        named
            .into_iter()
            .flatten()
            .any(|id| self.foreign.contains(&(scope, id)))
    }

    /// The verdict if the item's id, or its older form, was seen; a sliding one lives on then.
    pub(super) fn seen(&mut self, scope: usize, item: &Item) -> Option<Said> {
        for id in [own(item), item.also.map(id)].into_iter().flatten() {
            if let Some(Staged::Recorded(seen)) = self.ids.get(&(scope, id.clone())) {
                return Some(judged(scope, item, seen));
            }
            if let Some(seen) = self.model.live(scope, &id, self.now_ms) {
                let said = judged(scope, item, seen);
                if matches!(said, Said::Duplicate(_)) {
                    self.prolong(scope, id, item, seen.clone());
                }
                return Some(said);
            }
        }
        None
    }

    /// When an id with its own time is late; signed, as it may have been before all began.
    pub(super) fn own_expiry(&self, scope: usize, item: &Item) -> Option<i64> {
        let Keep::Fixed(ms) = self.model.keeps[scope] else {
            return None;
        };
        let ago_ms = item.ago_ms.filter(|_| scope == GIVEN)?;
        Some(self.now_ms as i64 - ago_ms + ms as i64)
    }

    fn is_late(&self, scope: usize, item: &Item) -> bool {
        self.own_expiry(scope, item)
            .is_some_and(|ms| ms <= self.now_ms as i64)
    }

    /// The verdict if an id's own time is too far ahead.
    pub(super) fn ahead(&self, scope: usize, item: &Item) -> Option<Said> {
        let ago_ms = item.ago_ms.filter(|_| scope == GIVEN)?;
        (-ago_ms > AHEAD_MS as i64).then_some(Said::Bad("ahead"))
    }

    fn prolong(&mut self, scope: usize, id: Vec<u8>, item: &Item, mut seen: Seen) {
        let Keep::Sliding(ms, cap_ms) = self.model.keeps[scope] else {
            return;
        };
        let later = self.now_ms + item.remember_ms.unwrap_or(ms);
        let expiry_ms = later.min(seen.first_ms + cap_ms);
        if !self.ids.contains_key(&(scope, id.clone())) && expiry_ms > seen.expiry_ms {
            seen.expiry_ms = expiry_ms;
            self.ids.insert((scope, id), Staged::Prolonged(seen));
        }
    }

    fn record(&mut self, scope: usize, item: &Item, refused: bool) {
        let given = if refused {
            item.results.refused
        } else {
            item.results.first
        };
        self.record_with(scope, item, refused, given);
    }

    fn record_with(&mut self, scope: usize, item: &Item, refused: bool, given: Option<u8>) {
        let result = given.filter(|_| WITH_RESULTS.contains(&scope)).map(result);
        // Whoever records a free id without claiming it makes the next attempt.
        let attempt = self
            .claim_of(scope, item)
            .map_or(0, |claim| claim.attempt + 1);
        self.is_refused = refused;
        self.record_as(scope, item, ("", attempt), result);
        self.is_refused = false;
    }

    /// A closure's end for an item that was first: its verdict, and what it returned.
    pub(super) fn closure(
        &mut self,
        scope: usize,
        item: &Item,
        closure: &Closure,
    ) -> Result<(Said, String), Kind> {
        self.check_locks(closure)?;
        let before = self.rows.clone();
        let run = self.run(closure);
        if closure.end == End::Fail {
            return Err(CLOSURE);
        }
        let (refused, told) = run?;
        if closure.if_refused.iter().flatten().any(Write::is_misuse) {
            return Err(INVALID);
        }
        if let Some(write) = refused {
            self.rows = before;
            let Some(fallback) = &closure.if_refused else {
                return Ok((
                    Said::Refused {
                        write,
                        settled: false,
                    },
                    told,
                ));
            };
            for write in fallback {
                self.model.check_write(write)?;
                if !self.rows.write(write)? {
                    return Err(INVALID);
                }
            }
            self.record_with(scope, item, true, closure.results.refused);
            return Ok((
                Said::Refused {
                    write,
                    settled: true,
                },
                told,
            ));
        }
        if closure.end == End::Decline {
            self.rows = before;
            return Ok((Said::Declined, told));
        }
        let unkeyed = own(item).is_none() || self.is_late(scope, item);
        self.unkeyed += u64::from(unkeyed);
        self.record_with(scope, item, false, closure.results.first);
        Ok((Said::First, told))
    }

    /// Whether the closure gets all rows and sources that it touches, however it ends.
    fn check_locks(&self, closure: &Closure) -> Result<(), Kind> {
        for step in &closure.steps {
            let write = match step {
                Step::Get(table, row) => Write::Delete(*table, *row),
                Step::Increment(row) => Write::Delete(Table::Guarded, *row),
                Step::Write(write) => write.clone(),
            };
            self.model.check_write(&write)?;
        }
        let mut points = closure.points.iter();
        points.try_for_each(|(source, _)| self.model.check_lock(&Lock::Point(*source)))
    }

    /// The first write that was refused, and what the closure read.
    fn run(&mut self, closure: &Closure) -> Result<(Option<usize>, String), Kind> {
        let (mut refused, mut failed, mut writes) = (None, None, 0);
        let mut told = Vec::new();
        for step in &closure.steps {
            let write = match step {
                Step::Get(table, row) => {
                    told.push(maybe_bytes(self.rows.get(*table, *row)));
                    continue;
                }
                Step::Increment(row) => Write::Put(Table::Guarded, *row, self.next_count(*row)),
                Step::Write(write) => write.clone(),
            };
            if write.is_misuse() {
                failed = Some(INVALID);
            } else if refused.is_none() {
                match self.rows.write(&write) {
                    Ok(true) => {}
                    Ok(false) => refused = Some(writes),
                    Err(kind) => failed = Some(kind),
                }
            }
            writes += 1;
        }
        failed.map_or(Ok((refused, told.join(","))), Err)
    }

    fn next_count(&self, row: u8) -> u8 {
        incremented(self.rows.get(Table::Guarded, row))
    }
}

/// The payload that a scope compares.
pub(super) fn brought(scope: usize, item: &Item) -> Option<Vec<u8>> {
    let compared = WITH_PAYLOADS.contains(&scope);
    item.payload.filter(|_| compared).map(payload)
}

/// Whether an id that was seen comes again with its payload.
fn judged(scope: usize, item: &Item, seen: &Seen) -> Said {
    let other = brought(scope, item)
        .zip(seen.payload.as_ref())
        .is_some_and(|(brought, kept)| brought != *kept);
    if other {
        return Said::Mismatch(seen.sight());
    }
    match seen.ended {
        "failed" => Said::Failed(seen.sight()),
        "dead" => Said::Dead(seen.sight()),
        _ => Said::Duplicate(seen.sight()),
    }
}

/// What `Step::Increment` puts over a value: one more, up to 127, of a small counter.
pub(crate) fn incremented(value: Option<&[u8]>) -> u8 {
    let counter = value
        .and_then(|v| <[u8; 8]>::try_from(v).ok())
        .map_or(0, i64::from_le_bytes);
    u8::try_from(counter.clamp(0, 126)).unwrap_or(0) + 1
}

/// The id an item is recorded under.
pub(super) fn own(item: &Item) -> Option<Vec<u8>> {
    match item.name {
        Name::Id(n) => Some(id(n)),
        _ => None,
    }
}

/// Whether the item has no id and needs none; what is wrong with its id otherwise.
pub(super) fn check(scope: usize, item: &Item) -> Result<bool, &'static str> {
    let is_id = matches!(item.name, Name::Id(_));
    match item.name {
        _ if is_id && scope == GIVEN && item.ago_ms.is_none() => Err("no time"),
        Name::Missing if scope == UNKEYED => Ok(true),
        Name::Missing => Err("missing"),
        Name::Empty => Err("empty"),
        Name::TooLong => Err("too long"),
        Name::Id(n) if id(n).len() > ID_BYTES_MAX => Err("too long"),
        Name::Id(_) | Name::Sequence(_) => Ok(false),
    }
}
