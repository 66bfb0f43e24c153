//! The runner's writing calls: batches, holds and closures, put together from steps.

use std::time::{Duration, SystemTime};

use firstseen::{
    Durability, Error, Id, Position, Producer, Recorded, Table as RowTable, Tx, Verdict, Verdicts,
    Writes,
};

use super::draft::incremented;
use super::op::{
    Batch, Closure, End, Finish, GIVEN, ID_BYTES_MAX, Item, Level, Name, Number, Point, SOURCES,
    Step, Table, WITH_PAYLOADS, WITH_RESULTS, Write, bare, give_out, id, key, payload, producer,
    result, source, value,
};
use super::runner::{Called, Runner};
use super::said::{CLOSURE, Said, kind, list, maybe_bytes};

/// What a closure may end with.
enum Ended {
    Store(Error),
    Own,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Ended {
        Ended::Store(error)
    }
}

impl Runner<'_> {
    pub(super) fn batch(&self, batch: &Batch) -> Called<String> {
        let mut real = self.fill(batch);
        if batch.submitted {
            return self.told(real.submit().wait());
        }
        let outcome = real.commit();
        if let Err(error) = &outcome
            && error.recorded() == Recorded::No
        {
            // Nothing was recorded and the batch is as it was: it must fail again.
            let again = real.commit();
            let again = again.expect_err("a batch that failed was committed the second time");
            assert_eq!(kind(error), kind(&again));
        }
        self.told(outcome)
    }

    pub(super) fn told(&self, outcome: Called<Verdicts>) -> Called<String> {
        match outcome {
            Ok(verdicts) => Ok(self.said(&verdicts)),
            Err(error) => match error.verdicts() {
                Some(verdicts) => Ok(format!("error: {}: {}", kind(&error), self.said(verdicts))),
                None => Err(error),
            },
        }
    }

    pub(super) fn fill(&self, batch: &Batch) -> firstseen::Batch {
        let mut real = self.store.batch();
        for (scope, item) in &batch.items {
            self.add(&mut real, *scope, item);
        }
        for write in &batch.always {
            self.write(&mut real.always(), write);
        }
        self.points(&mut real, &batch.points);
        if let Some(level) = batch.level {
            real.durability(durability(level));
        }
        real
    }

    pub(super) fn add(&self, real: &mut firstseen::Batch, scope: usize, item: &Item) {
        let owned = self.owned(scope, item);
        let name;
        let mut writes = match item.name {
            Name::Sequence(number) => {
                name = producer(number.producer);
                real.sequence(&self.numbers[number.space], told(number, &name), number.n)
            }
            _ => real.once(&self.scopes[scope], owned.id()),
        };
        item.writes
            .iter()
            .for_each(|write| self.write(&mut writes, write));
        if let Some(fallback) = &item.if_refused {
            let result = stored(scope, item.results.refused);
            writes.if_refused(|w| {
                fallback.iter().for_each(|write| self.write(w, write));
                if let Some(result) = result {
                    w.result(result);
                }
            });
        }
        if let Some(result) = stored(scope, item.results.first) {
            writes.result(result);
        }
        if item.declined {
            writes.decline();
        }
    }

    pub(super) fn points(&self, real: &mut firstseen::Batch, points: &[(usize, Point)]) {
        for (source, next) in points {
            real.resume_at(SOURCES[*source], position(*next));
        }
    }

    pub(super) fn table(&self, table: Table) -> &RowTable {
        &self.tables[table as usize]
    }

    pub(super) fn write(&self, to: &mut Writes<'_>, write: &Write) {
        let table = self.table(write.table());
        match *write {
            Write::Put(_, row, v) => to.put(table, key(row), value(v)),
            Write::Send(v) => to.send(&self.drained.outbox, value(v)),
            Write::Delete(_, row) => to.delete(table, key(row)),
            Write::Add(_, row, by, low, high) => to.add(table, key(row), by, within(low, high)),
            Write::Transition(_, row, from, next) => {
                to.transition(table, key(row), &value(from), &value(next))
            }
            Write::CompareAndSet(_, row, expected, v) => {
                let expected = expected.map(value);
                to.compare_and_set(table, key(row), expected.as_deref(), value(v))
            }
            Write::CompareVersion(_, row, expected, v) => {
                to.compare_version(table, key(row), expected, value(v))
            }
        };
    }

    pub(super) fn hold(&mut self, items: &[(usize, Item)]) -> Called<String> {
        self.held = None;
        let mut real = self.store.batch();
        for (scope, item) in &bare(items) {
            self.add(&mut real, *scope, item);
        }
        let verdicts = real.hold()?;
        let first = (0..verdicts.len())
            .filter(|i| verdicts[*i].is_first())
            .collect();
        let scopes = items.iter().map(|(scope, _)| *scope).collect();
        self.held = Some((real, first, scopes));
        Ok(self.said(&verdicts))
    }

    pub(super) fn finish(&mut self, finish: &Finish) -> Called<String> {
        let Some((mut real, first, scopes)) = self.held.take() else {
            return Ok("nothing held".to_string());
        };
        if !finish.committed {
            return Ok("dropped".to_string());
        }
        give_out(&finish.writes, &first, |i, write| {
            self.write(&mut real.item(i), &write)
        });
        for i in first {
            if let Some(result) = stored(scopes[i], finish.result) {
                real.item(i).result(result);
            }
        }
        self.points(&mut real, &finish.points);
        Ok(self.said(&real.commit()?))
    }

    pub(super) fn once(&self, scope: usize, item: &Item, closure: &Closure) -> Called<String> {
        let owned = self.owned(scope, item);
        let verdict = self.scopes[scope].once(owned.id(), |tx| self.run(tx, scope, closure));
        let said = match &verdict {
            Ok(verdict) => Said::of(verdict, self.start),
            Err(Ended::Own) => return Ok(format!("error: {CLOSURE}")),
            Err(Ended::Store(error)) => return Ok(format!("error: {}", kind(error))),
        };
        Ok(match verdict {
            Ok(Verdict::First(told) | Verdict::Declined(told)) => format!("{said}: {told}"),
            _ if matches!(said, Said::Refused { .. }) => said.to_string(),
            _ => list(&[said]),
        })
    }

    fn run(&self, tx: &mut Tx<'_>, scope: usize, closure: &Closure) -> Result<String, Ended> {
        let mut told = Vec::new();
        for step in &closure.steps {
            match step {
                Step::Get(table, row) => {
                    let value = tx.get(self.table(*table), key(*row))?;
                    told.push(maybe_bytes(value.as_deref()));
                }
                Step::Increment(row) => {
                    let table = self.table(Table::Guarded);
                    let next = incremented(tx.get(table, key(*row))?.as_deref());
                    tx.put(table, key(*row), value(next));
                }
                Step::Write(write) => self.write_in(tx, write),
            }
        }
        if let Some(fallback) = &closure.if_refused {
            let result = stored(scope, closure.results.refused);
            tx.if_refused(|w| {
                fallback.iter().for_each(|write| self.write(w, write));
                if let Some(result) = result {
                    w.result(result);
                }
            });
        }
        if let Some(result) = stored(scope, closure.results.first) {
            tx.result(result);
        }
        for (source, next) in &closure.points {
            tx.resume_at(SOURCES[*source], position(*next));
        }
        match closure.end {
            End::Ok => {}
            End::Decline => tx.decline(),
            End::Fail => return Err(Ended::Own),
        }
        Ok(told.join(","))
    }

    pub(super) fn write_in(&self, tx: &mut Tx<'_>, write: &Write) {
        let table = self.table(write.table());
        match *write {
            Write::Put(_, row, v) => tx.put(table, key(row), value(v)),
            Write::Send(v) => tx.send(&self.drained.outbox, value(v)),
            Write::Delete(_, row) => tx.delete(table, key(row)),
            Write::Add(_, row, by, low, high) => tx.add(table, key(row), by, within(low, high)),
            Write::Transition(_, row, from, next) => {
                tx.transition(table, key(row), &value(from), &value(next))
            }
            Write::CompareAndSet(_, row, expected, v) => {
                let expected = expected.map(value);
                tx.compare_and_set(table, key(row), expected.as_deref(), value(v))
            }
            Write::CompareVersion(_, row, expected, v) => {
                tx.compare_version(table, key(row), expected, value(v))
            }
        };
    }
}

/// The result that is given, in a scope that stores one.
fn stored(scope: usize, given: Option<u8>) -> Option<Vec<u8>> {
    given.filter(|_| WITH_RESULTS.contains(&scope)).map(result)
}

/// An item's parts, owned, that an `Id` borrows.
pub(super) struct Owned {
    bytes: Option<Vec<u8>>,
    also: Option<Vec<u8>>,
    source: Option<String>,
    payload: Option<Vec<u8>>,
    remember_ms: Option<u64>,
    event: Option<SystemTime>,
}

impl Owned {
    pub(super) fn of(now: SystemTime, scope: usize, item: &Item) -> Owned {
        let bytes = match item.name {
            Name::Id(n) => Some(id(n)),
            Name::Missing | Name::Sequence(_) => None,
            Name::Empty => Some(Vec::new()),
            Name::TooLong => Some(vec![b'x'; ID_BYTES_MAX + 1]),
        };
        let (also, source) = (item.also.map(id), item.source.map(source));
        Owned {
            bytes,
            also,
            source,
            payload: item
                .payload
                .filter(|_| WITH_PAYLOADS.contains(&scope))
                .map(payload),
            remember_ms: item.remember_ms,
            event: item.ago_ms.filter(|_| scope == GIVEN).map(|ago_ms| {
                let ms = Duration::from_millis(ago_ms.unsigned_abs());
                if ago_ms < 0 { now + ms } else { now - ms }
            }),
        }
    }

    pub(super) fn id(&self) -> Id<'_> {
        let mut id = Id::from(self.bytes.as_ref());
        if let Some(also) = &self.also {
            id = id.also(also);
        }
        if let Some(source) = &self.source {
            id = id.source(source);
        }
        if let Some(payload) = &self.payload {
            id = id.payload(payload);
        }
        if let Some(ms) = self.remember_ms {
            id = id.remember(Duration::from_millis(ms));
        }
        if let Some(at) = self.event {
            id = id.event_time(at);
        }
        id
    }
}

/// Adds writes to a claim's completion.
pub(super) fn with_writes(runner: &Runner<'_>, to: &mut Writes<'_>, writes: &[Write]) {
    writes.iter().for_each(|write| runner.write(to, write));
}

fn within(low: Option<i64>, high: Option<i64>) -> std::ops::RangeInclusive<i64> {
    low.unwrap_or(i64::MIN)..=high.unwrap_or(i64::MAX)
}

pub(super) fn durability(level: Level) -> Durability {
    match level {
        Level::Buffered => Durability::Buffered,
        Level::Written => Durability::Written,
        Level::Synced => Durability::Synced,
    }
}

fn told(number: Number, name: &str) -> Producer<'_> {
    Producer {
        name,
        epoch: number.epoch,
    }
}

impl Runner<'_> {
    /// An item's parts as they are now.
    pub(super) fn owned(&self, scope: usize, item: &Item) -> Owned {
        Owned::of(self.clock.now(), scope, item)
    }

    pub(super) fn with_id<T>(&self, scope: usize, item: &Item, run: impl FnOnce(Id<'_>) -> T) -> T {
        run(self.owned(scope, item).id())
    }

    pub(super) fn admit(&self, number: Number) -> Called<String> {
        let name = producer(number.producer);
        let admitted = self.numbers[number.space].admit(told(number, &name), number.n)?;
        Ok(admitted.to_string())
    }
}

fn position(point: Point) -> Position {
    match point {
        Point::Number(n) => Position::from(n),
        Point::Bytes(b) => Position::from(&[b][..]),
    }
}
