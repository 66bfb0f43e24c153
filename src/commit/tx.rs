//! A closure's transaction: reads and writes under row locks, committed with the verdict.
//!
//! Rows are locked as the closure touches them, without waiting (the closure already holds its
//! id, and may hold rows in any order). When one is taken, the run is given up: all rows are
//! released, those it had touched are locked in sorted order, waiting, and the closure runs
//! again. So two closures that touch the same rows in opposite order neither deadlock nor lose
//! an update, and the set of rows only grows until a run succeeds.

use std::sync::Arc;

use crate::catalog::TableState;
use crate::clock::{self, Stopwatch};
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;
use crate::position::Position;
use crate::verdict::{Refusal, Verdict};

use super::dead_tally::DeadTurn;
use super::decide::Held;
use super::draft::Draft;
use super::evaluate::{ItemMark, Overlay, point_hash, row_hash};
use super::holds::{HoldError, Holds};
use super::inside::Inside;
use super::write::{Op, What};
use super::{Committer, LogBuilder, Unsynced, decide, keep_if_unknown};

/// What one run of a closure has read and written.
pub(crate) struct TxState {
    committer: Arc<Committer>,
    locks: Held,
    overlay: Overlay,
    mark: ItemMark,
    rows: Rep,
    /// The row that was taken, if a run met one.
    conflict: Option<u64>,
    /// A failure of the store within the closure; it counts even if the closure ignores it.
    error: Option<Error>,
    refused: Option<u32>,
    writes: u32,
    fallback: Option<Draft>,
    is_declined: bool,
    result: Option<Vec<u8>>,
    dead: Option<(String, Vec<u8>)>,
    is_failed: bool,
    points: Vec<(String, Position)>,
}

/// What a run ended with.
enum Run<T, E> {
    Again,
    Ended(Result<T, E>),
}

impl TxState {
    fn new(committer: &Arc<Committer>) -> TxState {
        let mut overlay = Overlay::default();
        let rows = Rep::default();
        TxState {
            committer: Arc::clone(committer),
            locks: Held::new(committer, committer.rows.owner(), true),
            mark: overlay.begin(&rows),
            overlay,
            rows,
            conflict: None,
            error: None,
            refused: None,
            writes: 0,
            fallback: None,
            is_declined: false,
            result: None,
            dead: None,
            is_failed: false,
            points: Vec::new(),
        }
    }

    fn restart(&mut self) {
        self.conflict = None;
        self.error = None;
        self.points.clear();
        self.undo();
    }

    /// Takes back all that was written so far; resume points stay.
    pub(crate) fn undo(&mut self) {
        self.overlay = Overlay::default();
        self.rows.clear();
        self.mark = self.overlay.begin(&self.rows);
        self.refused = None;
        self.writes = 0;
        self.fallback = None;
        self.is_declined = false;
        self.result = None;
        self.dead = None;
        self.is_failed = false;
    }

    /// The store's failure that this run met, if any; a taken row is one, too.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.error.as_ref().map(Error::copy)
    }

    /// Leaves resume points where they are.
    pub(crate) fn stay(&mut self) {
        self.points.clear();
    }

    /// The id is to be recorded as failed for good.
    pub(crate) fn set_failed(&mut self) {
        self.is_failed = true;
    }

    /// Locks one row without waiting.
    fn lock(&mut self, hash: u64) -> Result<()> {
        if self.conflict.is_some() {
            return Err(conflict());
        }
        let mut met = Vec::new();
        match self
            .committer
            .rows
            .try_hold(self.locks.owner(), &[hash], &mut met)
        {
            Ok(()) => {
                if met.is_empty() {
                    self.locks.add([hash]);
                }
                Ok(())
            }
            Err(HoldError::Foreign(foreign)) => {
                self.committer.check_reentrant(foreign, true)?;
                self.conflict = Some(hash);
                Err(conflict())
            }
            Err(HoldError::Poisoned) => {
                self.committer.index.poison.check()?;
                Err(Error::closed())
            }
        }
    }

    pub(crate) fn get(&mut self, table: &Arc<TableState>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.try_get(table, key);
        self.note(value)
    }

    fn try_get(&mut self, table: &Arc<TableState>, key: &[u8]) -> Result<Option<Vec<u8>>> {
        if table.guarded {
            self.lock(row_hash(table, key))?;
        }
        self.committer.flush_buffer()?;
        self.overlay.get(table, key)
    }

    pub(crate) fn write(&mut self, table: &Arc<TableState>, key: &[u8], op: Op<'_>) {
        let written = self.try_write(table, key, op);
        let _ = self.note(written);
    }

    fn try_write(&mut self, table: &Arc<TableState>, key: &[u8], op: Op<'_>) -> Result<()> {
        let at = self.writes;
        self.writes += 1;
        if table.is_dropped() {
            return Err(Error::invalid(format!(
                "table {:?} was dropped",
                table.name
            )));
        }
        if table.guarded {
            self.lock(row_hash(table, key))?;
        } else if op.is_conditional() {
            let text = format!(
                "table {:?} is plain; conditions need a guarded one",
                table.name
            );
            return Err(Error::invalid(text));
        }
        if op.is_conditional() {
            self.committer.flush_buffer()?;
        }
        if self.refused.is_none() && !self.overlay.apply(table, key, op, &mut self.rows)? {
            self.refused = Some(at);
        }
        Ok(())
    }

    /// Sends a message with the commit.
    pub(crate) fn send(&mut self, outbox: &TableState, payload: &[u8]) {
        self.writes += 1;
        if outbox.is_dropped() {
            let text = format!("outbox {:?} was dropped", outbox.name);
            self.fail(Error::invalid(text));
        } else if self.refused.is_none() {
            let sent = self.committer.send(outbox, payload, &mut self.rows);
            let _ = self.note(sent);
        }
    }

    fn note<T>(&mut self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.error.get_or_insert_with(|| error.copy());
        }
        result
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    pub(crate) fn decline(&mut self) {
        self.is_declined = true;
    }

    /// Gives the message up.
    pub(crate) fn set_dead(&mut self, why: &str, payload: &[u8]) {
        self.dead = Some((why.to_string(), payload.to_vec()));
    }

    /// The policy allows it.
    pub(crate) fn set_result(&mut self, bytes: &[u8]) {
        self.result = Some(bytes.to_vec());
    }

    pub(crate) fn set_fallback(&mut self, fallback: Draft) {
        self.fallback = Some(fallback);
    }

    pub(crate) fn resume_at(&mut self, source: &str, next: Position) {
        let locked = self.lock(point_hash(source));
        if self.note(locked).is_ok() {
            self.points.retain(|p| p.0 != source);
            self.points.push((source.to_string(), next));
        }
    }
}

fn conflict() -> Error {
    Error::new(
        ErrorKind::Busy,
        "a row is locked by another commit; the closure runs again",
    )
}

impl Committer {
    /// Runs a closure if the draft's one id is first seen, and commits what it wrote.
    pub(crate) fn once<T, E: From<Error>>(
        self: &Arc<Self>,
        draft: &mut Draft,
        level: Durability,
        mut run: impl FnMut(TxState) -> (TxState, Result<T, E>),
    ) -> Result<Verdict<T>, E> {
        let (decision, verdicts) = self.hold_draft(draft)?;
        let first = verdicts.into_iter().next().filter(Verdict::is_first);
        let Some(first) = first else {
            // Nothing to run: the ordinary path answers, and prolongs a sliding id.
            let verdicts = self.commit(draft, &mut Some(decision), level)?;
            return match verdicts.into_iter().next() {
                Some(Verdict::First(())) | None => Err(E::from(Error::closed())),
                Some(Verdict::Declined(())) => Err(E::from(Error::closed())),
                Some(other) => Ok(other.map(|()| unreachable!("no value comes with it"))),
            };
        };
        // Before the closure runs, so that it does not run for nothing.
        self.index.space.check()?;
        decision.room.check()?;
        let _tables = self.tables.read_recursive();
        let mut tx = TxState::new(self);
        let _inside = Inside::enter(&decision.held, tx.locks.owner());
        let by = clock::deadline(self.wait_max);
        let mut runs_left = u32::from(self.closures_twice);
        loop {
            let (state, result) = run(tx);
            tx = state;
            match self.after_run(&mut tx, result, by)? {
                Run::Again => {}
                Run::Ended(Ok(_)) if runs_left > 0 => {
                    runs_left -= 1;
                    tx.restart();
                }
                Run::Ended(Err(error)) => return Err(error),
                Run::Ended(Ok(value)) => {
                    let verdict = self.finish(draft, decision, tx, (first, level))?;
                    return Ok(match verdict {
                        Verdict::First(()) => Verdict::First(value),
                        Verdict::Declined(()) => Verdict::Declined(value),
                        Verdict::Observed((), instead) => Verdict::Observed(value, instead),
                        other => other.map(|()| unreachable!("no value comes with it")),
                    });
                }
            }
        }
    }

    /// Decides what a run's end means; after a conflict the rows are locked for the next run.
    fn after_run<T, E: From<Error>>(
        &self,
        tx: &mut TxState,
        result: Result<T, E>,
        by: std::time::Instant,
    ) -> Result<Run<T, E>, E> {
        if let Some(hash) = tx.conflict {
            let mut wanted: Vec<u64> = tx.locks.hashes().to_vec();
            wanted.push(hash);
            tx.locks.release();
            tx.restart();
            if clock::left(by).is_zero() {
                let text = "rows were locked by others for longer than wait_max";
                return Err(E::from(Error::new(ErrorKind::Busy, text)));
            }
            self.hold_rows(&mut tx.locks, &wanted)?;
            return Ok(Run::Again);
        }
        match (result, tx.error.take()) {
            (Err(error), _) => Ok(Run::Ended(Err(error))),
            (Ok(_), Some(error)) => Err(E::from(error)),
            (Ok(value), None) => Ok(Run::Ended(Ok(value))),
        }
    }

    /// Commits what the closure wrote, with the id.
    fn finish(
        self: &Arc<Self>,
        draft: &mut Draft,
        decision: decide::Decision,
        mut tx: TxState,
        (first, level): (Verdict, Durability),
    ) -> Result<Verdict> {
        let watch = Stopwatch::start();
        let mut refusal = None;
        let mut result = tx.result.take();
        let mut dead = tx.dead.take();
        if let Some(write) = tx.refused {
            tx.overlay.undo(&tx.mark, &mut tx.rows);
            let Some(fallback) = tx.fallback.take() else {
                let refused = Verdict::Refused(Refusal::new(write, false));
                self.count(draft, std::slice::from_ref(&refused), decision.now_ms);
                return Ok(refused);
            };
            self.fall_back(&mut tx, &fallback)?;
            refusal = Some(Refusal::new(write, true));
            result = fallback
                .result(&fallback.items[0], true)
                .map(<[u8]>::to_vec);
            dead = fallback.dead_of_first();
        }
        if tx.is_declined && refusal.is_none() {
            self.count(draft, &[Verdict::Declined(())], decision.now_ms);
            return Ok(Verdict::Declined(()));
        }
        if let Some(bytes) = &result {
            draft.keep_result(refusal.is_some(), bytes);
        }
        if tx.is_failed {
            draft.more_mut(0).is_failed = true;
        }
        if let Some((why, payload)) = &dead {
            if matches!(first.would_be(), Some(Verdict::BadId(_))) {
                let bad = first.would_be().cloned().unwrap_or(first);
                self.count(draft, std::slice::from_ref(&bad), decision.now_ms);
                return Ok(bad);
            }
            self.make_claim_books()?;
            draft.keep_dead(refusal.is_some(), why, payload);
            draft.check_use()?;
        }
        let mut log = LogBuilder::default();
        let written = (&mut log, &mut tx.rows);
        let is_observed = first.would_be().is_some();
        let how = (refusal.is_some(), is_observed);
        let (changes, dead) = self.record_one(draft, &decision, how, written)?;
        draft.points = std::mem::take(&mut tx.points);
        self.points(draft, &mut tx.rows)?;
        let verdict = refusal.map_or(first, Verdict::Refused);
        let is_unrecorded = draft.is_unrecorded(&draft.items[0], decision.now_ms);
        let unkeyed = u64::from(is_unrecorded && refusal.is_none() && !is_observed);
        let ids = log.hashes().len();
        let level = if level == Durability::Buffered {
            Durability::Written
        } else {
            level
        };
        let decide::Decision {
            held, room, now_ms, ..
        } = decision;
        room.check()?;
        let dead = self.put_dead_tally(&mut tx.rows, &dead);
        let n = match self.append(&mut log, &mut tx.rows, level) {
            Ok(n) => n,
            Err(error) => {
                keep_if_unknown(&error, [Some(held), Some(tx.locks)]);
                return Err(error);
            }
        };
        dead.into_iter().for_each(DeadTurn::written);
        self.claims.apply(&changes);
        self.count(draft, std::slice::from_ref(&verdict), now_ms);
        self.counters.commit(ids, unkeyed);
        drop(room);
        drop(tx.locks);
        if level == Durability::Synced {
            self.wait_synced(Unsynced {
                n,
                held: vec![held],
            })?;
        }
        self.times.at(level).record(watch.elapsed());
        Ok(verdict)
    }

    /// The writes of `if_refused`; those to guarded rows take their locks first.
    fn fall_back(&self, tx: &mut TxState, fallback: &Draft) -> Result<()> {
        for write in &fallback.writes {
            match &write.what {
                What::Plain { body, count } => {
                    tx.rows.copy(&fallback.plain.body()[body.clone()], *count);
                }
                What::Send { table, payload } => {
                    let outbox = &fallback.tables[*table as usize];
                    self.send(outbox, fallback.get(payload), &mut tx.rows)?;
                }
                What::Guarded { table, key, op } => {
                    let table = &fallback.tables[*table as usize];
                    let (key, op) = (fallback.get(key), fallback.op(op));
                    let mut met = Vec::new();
                    let hash = row_hash(table, key);
                    let rows: &Holds = &self.rows;
                    if rows.try_hold(tx.locks.owner(), &[hash], &mut met).is_err() {
                        let text = "a row of `if_refused` is locked by another commit";
                        return Err(Error::new(ErrorKind::Busy, text));
                    }
                    if met.is_empty() {
                        tx.locks.add([hash]);
                    }
                    if !tx.overlay.apply(table, key, op, &mut tx.rows)? {
                        return Err(Error::invalid(
                            "a condition within `if_refused` was refused",
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}
