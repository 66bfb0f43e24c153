//! The second phase: a prepared transaction is committed or aborted, once, whoever asks how often.
//!
//! | step | *crash here* |
//! | --- | --- |
//! | room, time, records (`prepare::ending`) | still in doubt |
//! | ONE write: records, rows, no prepared row, the end (`prepare::ended`) | ended, or in doubt |
//! | memory follows, sync (`prepare::told`) | ended |
//! | holds are released | ended |
//!
//! An abort is the same without records and rows, with an audit row. Nothing of an end can be
//! refused for what others did meanwhile: ids and rows were held, so it needs but room and disk.

use std::sync::Arc;

use crate::catalog::outbox;
use crate::claims::{claim_key, scope_of};
use crate::clock;
use crate::engine::{Rep, failpoint};
use crate::error::{Error, Result};
use crate::index::{Book, LogBuilder, Sections};
use crate::options::Durability;
use crate::prepared::{EndedRow, Key, PreparedRow, To, Written};
use crate::sequence::{decode, split_key};
use crate::sync::atomic::Ordering;
use crate::why::Why;

use super::Committer;
use super::audit::Audit;
use super::dead_tally::{DeadChange, DeadTurn};
use super::doubts::{Doubt, Found, has_ended};

/// How a transaction is to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Commit,
    Abort,
}

/// How it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ended {
    pub(crate) row: EndedRow,
    /// By an earlier call.
    pub(crate) is_repeat: bool,
}

impl Committer {
    /// Takes over what an earlier opening prepared, before the first verdict.
    pub(crate) fn load_prepared(&self) -> Result<()> {
        let Some(family) = self.index.book(Book::Prepared) else {
            return Ok(());
        };
        for row in family.rows(&[]) {
            let (key, value) = row?;
            match Key::decode(&key)? {
                Key::Ended(txn) => self.doubts.found_ended(txn, EndedRow::decode(&value)?),
                Key::Prepared(txn) => {
                    let bytes = (txn.len() + value.len()) as u64;
                    let doubt = self.doubt(txn, &PreparedRow::decode(&value)?, bytes)?;
                    self.take_holds(&doubt)?;
                    self.stand(&doubt);
                    self.doubts.found(doubt);
                }
            }
        }
        Ok(())
    }

    fn take_holds(&self, doubt: &Doubt) -> Result<()> {
        let mut met = Vec::new();
        for (table, kept) in [(&self.ids, &doubt.id_holds), (&self.rows, &doubt.row_holds)] {
            if table.try_hold(kept.owner, &kept.hashes, &mut met).is_err() {
                let text = "two prepared transactions have one id or row";
                return Err(Error::damaged(text));
            }
        }
        Ok(())
    }

    /// The transaction in doubt that holds an id, told by the id itself and not by its hash.
    pub(crate) fn in_doubt_with(&self, scope: u16, id: &[u8]) -> Result<Option<Box<[u8]>>> {
        let hash = self.index.ids.of(scope, id);
        let all = self.doubts.list().into_iter();
        for doubt in all.filter(|d| d.id_holds.hashes.binary_search(&hash).is_ok()) {
            let book = self.index.make_book(Book::Prepared)?;
            // It may have ended just now.
            let Some(stored) = book.get(&Key::Prepared(&doubt.txn).encode())? else {
                continue;
            };
            let row = PreparedRow::decode(&stored)?;
            let claim = claim_key(scope, id);
            let mut is_its = (row.writes.iter()).any(|w| w.to == To::Claim && *w.key == *claim);
            for section in Sections::new(row.log) {
                let section = section?;
                let mut ids = section.ids();
                is_its |= section.meta.stamp.scope == scope && ids.any(|(held, _)| held == id);
            }
            if is_its {
                return Ok(Some(doubt.txn.clone()));
            }
        }
        Ok(None)
    }

    /// Ends a prepared transaction, or tells that it has ended so.
    ///
    /// # Errors
    /// With `Recorded::No` it is as it was, and the call may be made again.
    pub(crate) fn end_prepared(
        self: &Arc<Self>,
        txn: &[u8],
        how: End,
        why: Option<&Why<'_>>,
    ) -> Result<Ended> {
        let _tables = self.tables.read_recursive();
        loop {
            self.index.poison.check()?;
            let doubt = match self.doubts.find(txn, self.index.time.now_ms())? {
                Found::InDoubt(doubt) => doubt,
                Found::Ended(row) if row.committed == (how == End::Commit) => {
                    return Ok(Ended {
                        row,
                        is_repeat: true,
                    });
                }
                Found::Ended(row) => return Err(has_ended(txn, &row)),
            };
            let mut is_ended = doubt.is_ended.lock();
            if !*is_ended {
                let row = self.end(&doubt, how, why)?;
                *is_ended = true;
                return Ok(Ended {
                    row,
                    is_repeat: false,
                });
            }
        }
    }

    fn end(self: &Arc<Self>, doubt: &Doubt, how: End, why: Option<&Why<'_>>) -> Result<EndedRow> {
        let book = self.index.make_book(Book::Prepared)?;
        let key = Key::Prepared(&doubt.txn).encode();
        let stored = book.get(&key)?;
        let stored = stored.ok_or_else(|| Error::damaged("a prepared transaction is gone"))?;
        let row = PreparedRow::decode(&stored)?;
        let records = self.prepared_records(&row)?;
        // While it holds ids it waits for room, which needs none of them: nobody who has room
        // waits for the ids of a prepared transaction.
        let (ids, words) = match how {
            End::Commit => (records.ids, records.words),
            End::Abort => (0, 0),
        };
        let room = (self.index).reserve(ids, words, clock::deadline(self.wait_max))?;
        room.check()?;
        let now_ms = self.index.time.now_ms();
        let (mut log, mut out) = (LogBuilder::default(), Rep::default());
        if how == End::Commit {
            log = self.restamped(&row, now_ms)?;
            self.put_writes(&row.writes, &mut out)?;
        }
        out.delete(book.number(), &key);
        let ending = self.doubts.ending.lock();
        let (serial, gone) = self.doubts.make_room(now_ms);
        let ended = EndedRow {
            committed: how == End::Commit,
            at_ms: now_ms,
            serial,
            ids: log.hashes().len() as u64,
        };
        for txn in &gone {
            out.delete(book.number(), &Key::Ended(txn).encode());
        }
        let remembered = Key::Ended(&doubt.txn).encode();
        out.put(book.number(), &remembered, &ended.encode());
        let audit = Audit::Settled {
            txn: &doubt.txn,
            committed: ended.committed,
        };
        let tally = why.map(|why| self.put_audit(&mut out, &audit, why));
        let tally = tally.transpose()?;
        let change = match how {
            End::Commit => self.dead_change(&row.writes)?,
            End::Abort => DeadChange::new(),
        };
        let dead = self.put_dead_tally(&mut out, &change);
        failpoint!("prepare::ending");
        let n = self.append(&mut log, &mut out, Durability::Synced)?;
        dead.into_iter().for_each(DeadTurn::written);
        failpoint!("prepare::ended");
        self.doubts.remember(&doubt.txn, ended, &gone);
        drop((tally, ending, room));
        if how == End::Commit {
            self.follow_writes(&row.writes)?;
            self.counters.commit(ended.ids as usize, 0);
            // A duplicate of a number waits for its original, whatever its level.
            self.sequences_synced.fetch_max(n, Ordering::AcqRel);
        }
        // An error leaves the holds, as it must: the store is poisoned then.
        self.index.wait_durable(n)?;
        failpoint!("prepare::told");
        self.doubts.end(doubt, how == End::Commit);
        let (ids, rows) = (&doubt.id_holds, &doubt.row_holds);
        self.rows.release(rows.owner, &rows.hashes);
        self.ids.release(ids.owner, &ids.hashes);
        Ok(ended)
    }

    /// Writes of the catalog's numbers, as the engine takes them.
    fn put_writes(&self, writes: &[Written<'_>], out: &mut Rep) -> Result<()> {
        let mut last = None;
        let gone = || Error::damaged("a prepared transaction's table is gone");
        for write in writes {
            if let To::Outbox(number) = write.to {
                let table = self.catalog.table_of(number).ok_or_else(gone)?;
                let message = outbox::Message::decode(write.value.unwrap_or_default())?;
                // Of this run and moment: what was prepared in a copy too is another message there.
                self.send(&table, message.payload, out)?;
                continue;
            }
            let family = match (last, write.to) {
                (Some((to, family)), _) if to == write.to => family,
                (_, To::Table(number)) => {
                    self.catalog
                        .table_of(number)
                        .ok_or_else(gone)?
                        .family_number
                }
                (_, To::Point) => self.index.points.number(),
                (_, To::Claim) => self.index.make_book(Book::Claims)?.number(),
                (_, To::Dead) => self.index.make_book(Book::Dead)?.number(),
                (_, To::Producer) => self.index.make_book(Book::Producers)?.number(),
                (_, To::Outbox(_)) => continue,
            };
            last = Some((write.to, family));
            match write.value {
                Some(value) => out.put(family, write.key, value),
                None => out.delete(family, write.key),
            }
        }
        Ok(())
    }

    /// What the writes do to the numbers of dead letters. Their ids are held since the prepare, so
    /// the letters are as they were then.
    fn dead_change(&self, writes: &[Written<'_>]) -> Result<DeadChange> {
        let mut change = DeadChange::new();
        let letters = self.index.book(Book::Dead);
        for write in writes.iter().filter(|write| write.to == To::Dead) {
            let scope = scope_of(write.key);
            let scope = scope.ok_or_else(|| Error::damaged("a dead letter of no scope"))?;
            let was = match &letters {
                Some(letters) => letters.get(write.key)?.is_some(),
                None => false,
            };
            let by = i64::from(write.value.is_some()) - i64::from(was);
            *change.entry(scope).or_default() += by;
        }
        Ok(change)
    }

    /// What of the writes memory has too. Their ids and locks are still held.
    fn follow_writes(&self, writes: &[Written<'_>]) -> Result<()> {
        let mut changes = Vec::new();
        for write in writes {
            match write.to {
                // A commit of a batch ends claims and takes none.
                To::Claim => changes.push((write.key.into(), None)),
                To::Producer => {
                    let (space, name) = split_key(write.key)?;
                    let known = write.value.map(decode).transpose()?;
                    let evicted = u64::from(known.is_none());
                    self.catalog.follow_producer(space, name, known);
                    let counter = &self.counters.producers_evicted;
                    counter.fetch_add(evicted, Ordering::Relaxed);
                }
                To::Table(_) | To::Outbox(_) | To::Point | To::Dead => {}
            }
        }
        self.claims.apply(&changes);
        Ok(())
    }
}
