//! The calls that a thread makes, one at random each time, and what is recorded of each.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use firstseen::{Durability, Error, ErrorKind, Recorded, Scope, Sighting, Store, Table, Verdict};

use super::record::{Answer, Log};

const LEVELS: [Durability; 3] = [
    Durability::Buffered,
    Durability::Written,
    Durability::Synced,
];

/// What is called: a few ids of a scope, and their counters in a guarded table.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) store: Store,
    pub(crate) ids: Scope,
    pub(crate) counters: Table,
    /// The store's own level.
    pub(crate) level: Durability,
    /// The ids: so many, from this number on.
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) kinds: Kinds,
}

/// Which calls there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(dead_code, reason = "each binary that records histories uses some")]
pub(crate) enum Kinds {
    /// Those that record ids, and reads.
    Plain,
    /// Forgets and syncs too.
    Forgetting,
    /// Sealing and compacting by request too.
    All,
}

/// What a call said, whether a crash may take it, and whether its firsts count.
type Said = (Vec<(u64, Answer)>, (bool, bool));

impl Target {
    fn bytes(&self, id: u64) -> [u8; 8] {
        (self.first + id).to_be_bytes()
    }

    /// One call. False if the store has stopped writing.
    pub(crate) fn call<T: Fn() -> u64>(
        &self,
        log: &mut Log<'_, T>,
        random: &mut fastrand::Rng,
    ) -> bool {
        let mut ids: Vec<u64> = (0..self.count).collect();
        random.shuffle(&mut ids);
        let one = ids[0];
        let is_buffered = self.level == Durability::Buffered;
        let started = log.start();
        let kinds = match self.kinds {
            Kinds::Plain => 12,
            Kinds::Forgetting => 15,
            Kinds::All if random.u8(..4) == 0 => 16,
            Kinds::All => 15,
        };
        let kind = random.u8(..kinds);
        let done = match kind {
            0..3 => self.insert(one).map(|said| (said, (is_buffered, false))),
            3 => self
                .insert_all(&ids)
                .map(|said| (said, (is_buffered, false))),
            4..8 => {
                ids.truncate(random.usize(1..=ids.len()));
                self.batch(&ids, random)
            }
            8 => self.held(&ids),
            9 => self.closure(one),
            10 => self.peek(one),
            11 => return is_fine(self.read(log, one)),
            12 | 13 => self.forget(one),
            14 => return is_fine(self.store.sync().map(|()| log.synced(started))),
            // Work that is asked for, beside what goes on by itself.
            _ if random.bool() => return is_fine(self.store.seal()),
            _ => return is_fine(self.store.compact()),
        };
        match done {
            Ok((said, how)) => {
                log.called(started, how, said);
                true
            }
            Err(error) if error.recorded() == Recorded::Unknown => {
                let unknown = |id: u64| (id, Answer::Unknown);
                let said = match kind {
                    12 | 13 => vec![(one, Answer::UnknownForget)],
                    3..9 => ids.into_iter().map(unknown).collect(),
                    _ => vec![unknown(one)],
                };
                log.called(started, (false, true), said);
                false
            }
            Err(error) => is_fine(Err(error)),
        }
    }

    fn insert(&self, id: u64) -> Result<Vec<(u64, Answer)>, Error> {
        let verdict = self.ids.insert(&self.bytes(id))?;
        Ok(vec![(id, answer(&verdict))])
    }

    fn insert_all(&self, ids: &[u64]) -> Result<Vec<(u64, Answer)>, Error> {
        let bytes: Vec<[u8; 8]> = ids.iter().map(|id| self.bytes(*id)).collect();
        let verdicts = self.ids.insert_all(&bytes)?;
        Ok(said(ids, &verdicts))
    }

    fn batch(&self, ids: &[u64], random: &mut fastrand::Rng) -> Result<Said, Error> {
        let (level, counts) = (*random.choice(&LEVELS).unwrap(), random.bool());
        let mut batch = self.store.batch();
        batch.durability(level);
        for id in ids {
            let bytes = self.bytes(*id);
            let mut writes = batch.once(&self.ids, &bytes);
            if counts {
                writes.add(&self.counters, bytes, 1, 0..);
            }
        }
        let verdicts = match random.u8(..3) {
            0 => batch.submit().wait()?,
            _ => batch.commit()?,
        };
        // A commit with guarded rows is never buffered.
        let is_buffered = level == Durability::Buffered && !counts;
        Ok((said(ids, &verdicts), (is_buffered, counts)))
    }

    fn held(&self, ids: &[u64]) -> Result<Said, Error> {
        let mut batch = self.store.batch();
        for id in ids {
            batch.once(&self.ids, &self.bytes(*id));
        }
        let held = batch.hold()?;
        for (i, verdict) in held.iter().enumerate() {
            if verdict.is_first() {
                batch
                    .item(i)
                    .add(&self.counters, self.bytes(ids[i]), 1, 0..);
            }
        }
        let verdicts = batch.durability(Durability::Written).commit()?;
        assert_eq!(held, verdicts, "what was held is what is committed");
        Ok((said(ids, &verdicts), (false, true)))
    }

    fn closure(&self, id: u64) -> Result<Said, Error> {
        let bytes = self.bytes(id);
        let verdict = self.ids.once(&bytes, |tx| {
            let row = tx.get(&self.counters, bytes)?;
            let before = row.and_then(|v| v.as_counter()).unwrap_or(0);
            tx.put(&self.counters, bytes, (before + 1).to_le_bytes());
            Ok::<_, Error>(())
        })?;
        Ok((vec![(id, answer(&verdict))], (false, true)))
    }

    fn peek(&self, id: u64) -> Result<Said, Error> {
        let seen = self.ids.peek(&self.bytes(id))?;
        let said = vec![(id, Answer::Peeked(seen.as_ref().map(ms)))];
        Ok((said, (false, false)))
    }

    fn forget(&self, id: u64) -> Result<Said, Error> {
        let found = self.ids.forget(&self.bytes(id), "a history")?;
        Ok((vec![(id, Answer::Forgot(found))], (false, false)))
    }

    /// Reads an id's counter.
    ///
    /// # Errors
    /// The store's.
    pub(crate) fn read<T: Fn() -> u64>(&self, log: &mut Log<'_, T>, id: u64) -> Result<(), Error> {
        let started = log.start();
        let row = self.counters.get(self.bytes(id))?;
        let value = row.and_then(|v| v.as_counter()).unwrap_or(0);
        log.read(started, id, u64::try_from(value).unwrap());
        Ok(())
    }
}

/// False if the store has stopped writing; whatever else fails is a fault.
fn is_fine(done: Result<(), Error>) -> bool {
    match done {
        Ok(()) => true,
        Err(error) if error.kind() == ErrorKind::Degraded => false,
        Err(error) => panic!("{error}"),
    }
}

fn said(ids: &[u64], verdicts: &[Verdict]) -> Vec<(u64, Answer)> {
    ids.iter()
        .copied()
        .zip(verdicts.iter().map(answer))
        .collect()
}

fn answer(verdict: &Verdict) -> Answer {
    match verdict {
        Verdict::First(()) => Answer::First,
        Verdict::Duplicate(seen) => Answer::Duplicate(ms(seen)),
        other => panic!("{other:?}: somebody waited too long"),
    }
}

fn ms(seen: &Sighting) -> u64 {
    let at = seen.first_seen_at().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(at.unwrap().as_millis()).unwrap()
}
