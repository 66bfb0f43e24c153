//! The model: what a store must answer, said in plain maps and a clock that is a number.
//!
//! It knows no segment, generation or filter; that is the point. Sealing, merging, reopening and
//! crashing change nothing here but what a process forgets: its holds and its counts.

use std::collections::{BTreeMap, BTreeSet};

use super::claims::Claims;
use super::draft::{Draft, Staged, check, own};
use super::held::Held;
use super::numbers::Numbers;
use super::op::{
    Batch, Failure, GIVEN, Item, KEEPS, Keep, Name, Number, Op, PRODUCERS, Point, SCOPES, Table,
    Write,
};
use super::prepared::{InDoubt, Lock};
use super::rows::Rows;
use super::said::{BUSY, IN_DOUBT, INVALID, Kind, Said, Sight, Totals, UNDECIDED, UNKNOWN, list};

/// What is known of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) first_ms: u64,
    pub(crate) expiry_ms: u64,
    pub(crate) refused: bool,
    pub(crate) source: Option<String>,
    pub(crate) payload: Option<Vec<u8>>,
    /// How it ended: "" is done.
    pub(crate) ended: &'static str,
    pub(crate) attempt: u32,
    pub(crate) result: Option<Vec<u8>>,
}

impl Seen {
    pub(crate) fn sight(&self) -> Sight {
        let source = self.source.clone();
        Sight {
            first_ms: self.first_ms,
            refused: self.refused,
            source,
            state: self.ended,
            attempt: self.attempt,
            result: self.result.clone(),
        }
    }
}

/// The model's state.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) now_ms: u64,
    pub(crate) keeps: [Keep; SCOPES.len()],
    pub(crate) rows: Rows,
    pub(super) numbers: Numbers,
    pub(super) ids: BTreeMap<(usize, Vec<u8>), Seen>,
    pub(super) points: BTreeMap<usize, Point>,
    pub(super) held: Option<Held>,
    pub(super) claims: Claims,
    pub(super) in_doubt: InDoubt,
    pub(super) tokens: BTreeMap<(usize, Vec<u8>), Vec<u64>>,
    pub(super) serials: u64,
    pub(super) totals: Totals,
}

impl Model {
    pub(crate) fn new() -> Model {
        Model {
            now_ms: 0,
            keeps: KEEPS,
            rows: Rows::default(),
            numbers: Numbers::default(),
            ids: BTreeMap::new(),
            points: BTreeMap::new(),
            held: None,
            claims: Claims::default(),
            in_doubt: InDoubt::default(),
            tokens: BTreeMap::new(),
            serials: 0,
            totals: Totals::default(),
        }
    }

    /// The record of an id that is remembered at a time.
    pub(crate) fn live(&self, scope: usize, id: &[u8], now_ms: u64) -> Option<&Seen> {
        self.ids
            .get(&(scope, id.to_vec()))
            .filter(|seen| now_ms < seen.expiry_ms)
    }

    /// Runs one step; what it must answer.
    pub(crate) fn step(&mut self, op: &Op) -> String {
        match op {
            Op::Insert(scope, item) => self.batch_said(&Batch::of(*scope, [item])),
            Op::InsertAll(scope, items) => self.batch_said(&Batch::of(*scope, items)),
            Op::Batch(batch) => self.batch_said(batch),
            Op::Hold(items) => self.hold(items),
            Op::Finish(finish) => self.finish(finish),
            Op::Once(scope, item, closure) => {
                self.once(*scope, item, closure).unwrap_or_else(failed)
            }
            Op::Claim(scope, item) => self.claim(*scope, item),
            Op::End(scope, name, stale, how) => self.end(*scope, *name, *stale, how),
            Op::Redrive(scope, name) => self.redrive(*scope, *name),
            Op::Purge(scope, name) => self.purge(*scope, *name),
            Op::Decide(scope, name, what) => self.decide(*scope, *name, *what),
            Op::Forget(scope, name) => self.forget(*scope, *name),
            Op::Peek(scope, name) => match check(usize::MAX, &Item::plain(*name)) {
                Ok(_) => self.peek(*scope, *name),
                Err(_) => failed(INVALID),
            },
            Op::Scan(scope, last_ms) => self.scan(*scope, *last_ms),
            Op::Prepare(txn, batch) => self.prepare(*txn, batch),
            Op::EndPrepared(txn, commits) => self.end_prepared(*txn, *commits),
            Op::InDoubt => self.doubts(),
            Op::Admit(number) => self.admit(*number).unwrap_or_else(failed),
            Op::DropSequences(space) if self.uses_sequences(*space) => failed(IN_DOUBT),
            Op::DropSequences(space) => {
                self.numbers.0.retain(|(of, _), _| of != space);
                "true".to_string()
            }
            Op::Drain(..) | Op::Ack(..) | Op::Resend(..) => self.rows.1.step(op),
            Op::Check => self.check(),
            Op::Rewind(source, _) if self.check_lock(&Lock::Point(*source)).is_err() => {
                failed(BUSY)
            }
            Op::Rewind(source, to) => {
                self.points.insert(*source, Point::Number(*to));
                "done".to_string()
            }
            Op::Alter(scope, keep) => self.alter(*scope, *keep),
            Op::DropScope(scope, keep) => {
                self.held = None;
                if self.uses_scope(*scope) {
                    return failed(IN_DOUBT);
                }
                self.ids.retain(|(of, _), _| of != scope);
                self.claims.of.retain(|(of, _), _| of != scope);
                self.claims.dead.retain(|(of, _), _| of != scope);
                self.keeps[*scope] = *keep;
                "true".to_string()
            }
            Op::DropTable(table) => {
                self.held = None;
                if self.uses_table(*table) {
                    return failed(IN_DOUBT);
                }
                self.rows.0.retain(|(of, _), _| of != table);
                "true".to_string()
            }
            Op::Advance(ms) => {
                self.now_ms += ms;
                String::new()
            }
            Op::Seal | Op::Compact => String::new(),
            Op::Reopen | Op::Crash | Op::Dying(..) => {
                self.open_anew();
                String::new()
            }
            Op::Failing(failure, batch) => self.failing(*failure, batch),
        }
    }

    fn admit(&mut self, number: Number) -> Result<String, Kind> {
        if number.producer == PRODUCERS {
            return Err(INVALID);
        }
        self.check_lock(&Lock::Producer(number.space, number.producer))?;
        let mut numbers = self.numbers.clone();
        if !numbers.admit(number, self.now_ms) {
            return Ok("false".to_string());
        }
        let item = Item::plain(Name::Sequence(number));
        let locked = self.locked_producers();
        self.totals.evicted += numbers.evict(&self.numbers, &[(0, item)], &locked)?;
        self.numbers = numbers;
        Ok("true".to_string())
    }

    fn open_anew(&mut self) {
        self.held = None;
        self.totals = Totals::default();
    }

    fn batch_said(&mut self, batch: &Batch) -> String {
        match self.batch(batch) {
            Ok(said) => list(&said),
            Err(kind) => {
                // Unless it is given away, it is committed again, and fails again.
                self.totals.undecided += u64::from(kind == UNDECIDED && !batch.submitted);
                self.told_of(kind, batch)
            }
        }
    }

    /// A batch that failed; one that is undecided tells its verdicts.
    pub(super) fn told_of(&mut self, kind: Kind, batch: &Batch) -> String {
        if kind != UNDECIDED {
            return failed(kind);
        }
        self.totals.undecided += 1;
        let foreign = self.foreign();
        let preview = preview(&mut Draft::new(self, self.now_ms, &foreign), &batch.items);
        format!("{}: {}", failed(kind), list(&preview))
    }

    fn batch(&mut self, batch: &Batch) -> Result<Vec<Said>, Kind> {
        self.misused(batch)?;
        let (said, effects, evicted) = self.decided(batch)?;
        self.commit(effects, &batch.points)?;
        self.totals.evicted += evicted;
        said.iter().for_each(|s| self.totals.count(s));
        Ok(said)
    }

    /// What a batch comes to: verdicts, effects, and how many producers go.
    pub(super) fn decided(&self, batch: &Batch) -> Result<(Vec<Said>, Effects, u64), Kind> {
        let foreign = self.foreign();
        let mut draft = Draft::new(self, self.now_ms, &foreign);
        let whatever = !batch.always.is_empty() || !batch.points.is_empty();
        let mut said = preview(&mut draft, &batch.items)
            .into_iter()
            .zip(&batch.items);
        let is_id = |item: &Item| !matches!(item.name, Name::Sequence(_));
        if whatever && said.any(|(said, (_, i))| said == Said::InProgress && is_id(i)) {
            return Err(UNDECIDED);
        }
        self.check_locks(batch)?;
        let draft = Draft::new(self, self.now_ms, &foreign);
        let (said, mut effects) = settle(draft, &batch.items, &batch.always)?;
        self.check_points(&batch.points)?;
        let locked = self.locked_producers();
        let evicted = effects
            .numbers
            .evict(&self.numbers, &batch.items, &locked)?;
        Ok((said, effects, evicted))
    }

    /// What the library calls misuse, and refuses whole.
    pub(super) fn misused(&self, batch: &Batch) -> Result<(), Kind> {
        let of_items = batch.items.iter().any(|(scope, item)| {
            let is_bound = self.keeps[*scope] == Keep::Forever || *scope == GIVEN;
            let misused = is_bound && item.remember_ms.is_some();
            let mut writes = item.writes.iter().chain(item.if_refused.iter().flatten());
            misused || writes.any(Write::is_misuse)
        });
        if of_items || batch.always.iter().any(Write::is_conditional) {
            return Err(INVALID);
        }
        Ok(())
    }

    /// Ids that others hold: a held batch, and prepared ones.
    pub(super) fn foreign(&self) -> Vec<(usize, Vec<u8>)> {
        let held = self.held.iter().flat_map(|held| held.ids().to_vec());
        held.chain(self.in_doubt.ids()).collect()
    }

    /// Whether no resume point goes back.
    fn check_points(&self, points: &[(usize, Point)]) -> Result<BTreeMap<usize, Point>, Kind> {
        let mut last = BTreeMap::new();
        for (source, next) in points {
            last.insert(*source, *next);
        }
        for (source, next) in &last {
            let fine = match (self.points.get(source), next) {
                (None, _) => true,
                (Some(Point::Number(now)), Point::Number(next)) => now <= next,
                (Some(Point::Bytes(now)), Point::Bytes(next)) => now <= next,
                _ => false,
            };
            if !fine {
                return Err(INVALID);
            }
        }
        Ok(last)
    }

    /// Takes a commit over, unless one of its resume points goes back.
    pub(super) fn commit(
        &mut self,
        effects: Effects,
        points: &[(usize, Point)],
    ) -> Result<(), Kind> {
        let last = self.check_points(points)?;
        self.points.extend(last);
        self.rows = effects.rows;
        self.claims = effects.claims;
        self.numbers = effects.numbers;
        for (key, staged) in effects.ids {
            let (Staged::Recorded(seen) | Staged::Prolonged(seen)) = staged;
            self.ids.insert(key, seen);
        }
        self.totals.unkeyed += effects.unkeyed;
        Ok(())
    }

    fn once(
        &mut self,
        scope: usize,
        item: &Item,
        closure: &super::op::Closure,
    ) -> Result<String, Kind> {
        self.misused(&Batch::of(scope, [item]))?;
        let foreign = self.foreign();
        let items = [(scope, item.clone())];
        let said = preview(&mut Draft::new(self, self.now_ms, &foreign), &items);
        if said != [Said::First] {
            // No closure runs; the sight may still prolong the id.
            let draft = Draft::new(self, self.now_ms, &foreign);
            let (_, effects) = settle(draft, &items, &[])?;
            self.commit(effects, &[])?;
            self.totals.count(&said[0]);
            return Ok(list(&said));
        }
        let mut draft = Draft::new(self, self.now_ms, &foreign);
        let (said, told) = draft.closure(scope, item, closure)?;
        let effects = Effects::of(draft);
        let recorded = said == Said::First || matches!(said, Said::Refused { settled: true, .. });
        self.commit(effects, if recorded { &closure.points } else { &[] })?;
        self.totals.count(&said);
        Ok(match said {
            Said::First | Said::Declined => format!("{said}: {told}"),
            _ => said.to_string(),
        })
    }

    fn forget(&mut self, scope: usize, name: Name) -> String {
        let item = Item::plain(name);
        let Ok(Some(id)) = check(usize::MAX, &item).map(|_| own(&item)) else {
            return failed(INVALID);
        };
        if self.foreign().contains(&(scope, id.clone())) {
            return failed(BUSY);
        }
        let known = self.live(scope, &id, self.now_ms).is_some();
        let claim = self.claims.of.get(&(scope, id.clone()));
        let claimed = claim.is_some_and(|claim| claim.expiry_ms > self.now_ms);
        if claimed {
            self.claims.of.remove(&(scope, id.clone()));
        }
        if known {
            self.ids.remove(&(scope, id));
        }
        let known = known || claimed;
        if known {
            self.totals.forgotten += 1;
        }
        known.to_string()
    }

    fn alter(&mut self, scope: usize, keep: Keep) -> String {
        let same_form = std::mem::discriminant(&self.keeps[scope]) == std::mem::discriminant(&keep);
        let is_for_life = scope == GIVEN && self.keeps[scope] != keep;
        if !same_form || is_for_life {
            return failed(INVALID);
        }
        self.keeps[scope] = keep;
        "done".to_string()
    }

    /// A commit that fails, then a crash: it is there whole or not at all.
    fn failing(&mut self, failure: Failure, batch: &Batch) -> String {
        self.held = None;
        let before = self.clone();
        let outcome = self.batch(batch);
        let writes = outcome.is_ok() && before.writes(batch);
        let told = match outcome {
            Err(kind) => failed(kind),
            Ok(said) if !writes => list(&said),
            Ok(said) => match failure {
                // It is committed a second time, and then it succeeds.
                Failure::NotRecorded => format!("{}, then {}", failed(BUSY), list(&said)),
                Failure::Written => failed(UNKNOWN),
                Failure::Lost => {
                    *self = before;
                    failed(UNKNOWN)
                }
            },
        };
        self.open_anew();
        told
    }

    /// Whether a batch that succeeds writes anything at all.
    fn writes(&self, batch: &Batch) -> bool {
        let foreign = self.foreign();
        let draft = Draft::new(self, self.now_ms, &foreign);
        let settled = settle(draft, &batch.items, &batch.always);
        settled.is_ok_and(|(_, e)| {
            let mut ids = e.ids.values();
            // What was late is not recorded.
            let records = ids.any(|staged| {
                let (Staged::Recorded(seen) | Staged::Prolonged(seen)) = staged;
                seen.expiry_ms > self.now_ms
            });
            e.writes_rows || records || !batch.points.is_empty()
        })
    }
}

/// What a commit leaves.
pub(super) struct Effects {
    pub(super) claims: Claims,
    pub(super) rows: Rows,
    pub(super) numbers: Numbers,
    pub(super) ids: BTreeMap<(usize, Vec<u8>), Staged>,
    pub(super) touched: BTreeSet<(Table, String)>,
    pub(super) unkeyed: u64,
    writes_rows: bool,
}

impl Effects {
    pub(super) fn of(draft: Draft<'_>) -> Effects {
        Effects {
            claims: draft.claims,
            rows: draft.rows,
            numbers: draft.numbers,
            ids: draft.ids,
            touched: draft.touched,
            unkeyed: draft.unkeyed,
            writes_rows: draft.writes_rows,
        }
    }
}

pub(super) fn settle(
    mut draft: Draft<'_>,
    items: &[(usize, Item)],
    always: &[Write],
) -> Result<(Vec<Said>, Effects), Kind> {
    let said = items
        .iter()
        .map(|(scope, item)| draft.item(*scope, item, Some(&item.writes)));
    let said = said.collect::<Result<Vec<Said>, Kind>>()?;
    draft.write_all(always)?;
    Ok((said, Effects::of(draft)))
}

/// The verdicts as far as they are known before any write.
pub(super) fn preview(draft: &mut Draft<'_>, items: &[(usize, Item)]) -> Vec<Said> {
    items
        .iter()
        .map(|(scope, item)| draft.item(*scope, item, None).unwrap_or(Said::First))
        .collect()
}

pub(super) fn failed(kind: Kind) -> String {
    format!("error: {kind}")
}
