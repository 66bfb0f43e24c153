//! The first phase: a batch is decided as by a commit, and stored instead of made.
//!
//! A prepared transaction must be able to commit. So everything is decided here: verdicts,
//! conditions, resume points, producers' numbers. What they came to is stored as plain writes, and
//! the ids and the rows that it rests on stay held until the end, so that it stays true.
//!
//! | step | *crash here* |
//! | --- | --- |
//! | 1 to 6 as a commit | nothing is there |
//! | the row, one write (`prepare::staged`, `prepare::written`) | nothing; then in doubt |
//! | sync (`prepare::synced`) | in doubt |
//! | into the table, surplus holds released | in doubt |
//!
//! Nobody was told before the sync, so either outcome is right until then.
//!
//! An id that is not recorded (a duplicate, one refused) is free again at the end of the prepare,
//! unless a claim of it ends; its verdict stands.

use std::collections::HashSet;
use std::sync::Arc;

use crate::claims::{id_of, scope_of};
use crate::engine::{Family, Rep, failpoint};
use crate::error::{Error, Recorded, Result};
use crate::index::{Book, LogBuilder};
use crate::options::Durability;
use crate::prepared::{Key, PreparedRow, To, Written};
use crate::sequence::split_key;
use crate::sync::atomic::Ordering;
use crate::verdict::Verdicts;

use super::Committer;
use super::decide::{Decision, Held};
use super::doubts::{Coming, Doubt, Kept, Uses};
use super::draft::Draft;
use super::evaluate::{point_hash, row_hash};
use super::need::Extent;
use super::sequences::producer_hash;
use super::{Evicted, keep_if_unknown};

/// What a prepare has written.
struct Staged {
    verdicts: Verdicts,
    n: u64,
    rows: Option<Held>,
    doubt: Doubt,
}

impl Uses {
    /// What a draft may use.
    fn of(draft: &Draft) -> Uses {
        Uses {
            scopes: draft.scopes.iter().map(|s| s.state.number).collect(),
            tables: draft.tables.iter().map(|t| t.number).collect(),
            spaces: draft.spaces.iter().map(|s| s.state.number).collect(),
        }
    }
}

impl Committer {
    /// Prepares a draft under a transaction's name, of ids held before or to be held now.
    ///
    /// # Errors
    /// With `Recorded::No` the draft and what it held are as they were.
    pub(crate) fn prepare(
        self: &Arc<Self>,
        draft: &mut Draft,
        held: &mut Option<Decision>,
        txn: &[u8],
    ) -> Result<Verdicts> {
        // Recursive, as for a commit.
        let _tables = self.tables.read_recursive();
        self.index.poison.check()?;
        draft.check_use()?;
        let now_ms = self.index.time.now_ms();
        let mut coming = self.doubts.begin(txn, Uses::of(draft), now_ms)?;
        // Behind the name: what is dropped from now on sees that it is used.
        draft.check_handles()?;
        let book = self.index.make_book(Book::Prepared)?;
        draft.order_writes();
        let was_held = held.is_some();
        let decision = match held.take() {
            Some(decision) => decision,
            None => self.decide(draft, Extent::Final)?,
        };
        let staged = match self.stage(draft, &decision, &mut coming, &book) {
            Ok(staged) => staged,
            Err(error) => {
                if error.recorded() == Recorded::Unknown {
                    decision.held.keep();
                } else if was_held {
                    *held = Some(decision);
                }
                return Err(error);
            }
        };
        let Staged {
            verdicts,
            n,
            rows,
            mut doubt,
        } = staged;
        if let Err(error) = self.index.wait_durable(n) {
            decision.held.keep();
            rows.into_iter().for_each(Held::keep);
            return Err(error);
        }
        failpoint!("prepare::synced");
        let (ids, kept_rows) = (&mut doubt.id_holds, &mut doubt.row_holds);
        ids.owner = decision.held.owner();
        if let Some(rows) = &rows {
            kept_rows.owner = rows.owner();
        }
        let surplus = surplus(&decision.held, &ids.hashes);
        let surplus_rows = rows.as_ref().map(|rows| surplus_of(rows, kept_rows));
        let owners = (ids.owner, kept_rows.owner);
        // Those who wait for it are told of it then, as those who come later.
        coming.finish(doubt, |doubt| self.stand(doubt));
        decision.held.keep();
        rows.into_iter().for_each(Held::keep);
        self.ids.release(owners.0, &surplus);
        self.rows
            .release(owners.1, &surplus_rows.unwrap_or_default());
        Ok(verdicts)
    }

    /// Steps 6 to 12, the row of the transaction being all that is written.
    fn stage(
        self: &Arc<Self>,
        draft: &Draft,
        decision: &Decision,
        coming: &mut Coming<'_>,
        book: &Arc<Family>,
    ) -> Result<Staged> {
        let may_be_open = decision.has_in_progress() || decision.has_claims();
        if may_be_open && draft.is_unconditional() {
            self.check_decided(draft, decision)?;
        }
        let mut rows = self.lock_rows(draft)?;
        let (mut log, mut out) = (LogBuilder::default(), Rep::default());
        let settled = self.settle(draft, decision, &mut log, &mut out)?;
        let _evicted = match &mut rows {
            Some(rows) if draft.has_sequences() => {
                self.put_producers(&settled.producers, rows, &mut out)?
            }
            _ => Evicted::default(),
        };
        let row = PreparedRow {
            prepared_ms: decision.now_ms,
            standing: settled.prolonged,
            log: log.value(),
            writes: self.by_the_catalog(draft, &out)?,
        };
        let value = row.encode();
        let bytes = (coming.txn().len() + value.len()) as u64;
        coming.reserve(bytes)?;
        let doubt = self.doubt(coming.txn(), &row, bytes)?;
        let mut prepared = Rep::default();
        let key = Key::Prepared(coming.txn()).encode();
        prepared.put(book.number(), &key, &value);
        failpoint!("prepare::staged");
        let level = Durability::Synced;
        let n = match self.append(&mut LogBuilder::default(), &mut prepared, level) {
            Ok(n) => n,
            Err(error) => {
                keep_if_unknown(&error, [rows]);
                return Err(error);
            }
        };
        failpoint!("prepare::written");
        // Verdicts count when they are told.
        self.count(draft, &settled.verdicts, decision.now_ms);
        self.counters
            .unkeyed
            .fetch_add(settled.unkeyed, Ordering::Relaxed);
        Ok(Staged {
            verdicts: settled.verdicts,
            n,
            rows,
            doubt,
        })
    }

    /// A batch's writes by the numbers of the catalog.
    fn by_the_catalog<'a>(&self, draft: &Draft, out: &'a Rep) -> Result<Vec<Written<'a>>> {
        let books = [
            (Book::Claims, To::Claim),
            (Book::Dead, To::Dead),
            (Book::Producers, To::Producer),
        ];
        let books = books.into_iter().filter_map(|(book, to)| {
            let family = self.index.book(book)?;
            Some((family.number(), to))
        });
        let tables = draft.tables.iter();
        let tables = tables.map(|table| match table.sends {
            Some(_) => (table.family_number, To::Outbox(table.number)),
            None => (table.family_number, To::Table(table.number)),
        });
        let points = [(self.index.points.number(), To::Point)];
        let places: Vec<(u32, To)> = points.into_iter().chain(books).chain(tables).collect();
        let written = out.records().map(|(family, key, value)| {
            let place = places.iter().find(|place| place.0 == family);
            let &(_, to) = place.ok_or_else(|| {
                Error::invalid("the batch has writes that a transaction can't be prepared with")
            })?;
            // What stands for a number that is not drawn yet is no key.
            let key = if let To::Outbox(_) = to { &[] } else { key };
            Ok(Written { to, key, value })
        });
        written.collect()
    }

    /// A transaction as memory has it; whose holds they are is for the caller to say.
    pub(super) fn doubt(&self, txn: &[u8], row: &PreparedRow<'_>, bytes: u64) -> Result<Doubt> {
        let records = self.prepared_records(row)?;
        let mut uses = Uses {
            scopes: records.scopes,
            ..Uses::default()
        };
        let (mut ids, mut rows) = (records.hashes, Vec::new());
        for write in &row.writes {
            self.follow(write, &mut uses, (&mut ids, &mut rows))?;
        }
        for used in [&mut uses.scopes, &mut uses.spaces] {
            used.sort_unstable();
            used.dedup();
        }
        uses.tables.sort_unstable();
        uses.tables.dedup();
        for hashes in [&mut ids, &mut rows] {
            hashes.sort_unstable();
            hashes.dedup();
        }
        let kept = |owner, hashes| Kept { owner, hashes };
        Ok(Doubt {
            txn: txn.into(),
            prepared_ms: row.prepared_ms,
            ids: records.ids as u64,
            writes: row.writes.len() as u64,
            bytes,
            uses,
            id_holds: kept(self.ids.owner(), ids),
            row_holds: kept(self.rows.owner(), rows),
            is_ended: crate::sync::Mutex::new(false),
        })
    }

    /// Notes what a write uses, and what must be held for it: of a claim that ends its id, which
    /// may be the older form of one that is recorded.
    fn follow(
        &self,
        write: &Written<'_>,
        uses: &mut Uses,
        (ids, rows): (&mut Vec<u64>, &mut Vec<u64>),
    ) -> Result<()> {
        let gone = |what: &str| {
            Error::damaged(format!(
                "a prepared transaction writes to {what} there is not"
            ))
        };
        match write.to {
            To::Table(number) => {
                let table = self.catalog.table_of(number);
                let table = table.ok_or_else(|| gone("a table"))?;
                uses.tables.push(number);
                if table.guarded {
                    rows.push(row_hash(&table, write.key));
                }
            }
            To::Outbox(number) => {
                self.catalog
                    .table_of(number)
                    .ok_or_else(|| gone("an outbox"))?;
                uses.tables.push(number);
            }
            To::Point => {
                let source = std::str::from_utf8(write.key).map_err(|_| gone("a source"))?;
                rows.push(point_hash(source));
            }
            To::Claim | To::Dead => {
                let scope = scope_of(write.key).ok_or_else(|| gone("a scope"))?;
                uses.scopes.push(scope);
                if write.to == To::Claim {
                    ids.push(self.index.ids.of(scope, id_of(write.key)));
                }
            }
            To::Producer => {
                let (space, name) = split_key(write.key)?;
                if !self.catalog.has_sequences(space) {
                    return Err(gone("sequences"));
                }
                uses.spaces.push(space);
                rows.push(producer_hash(space, name));
            }
        }
        Ok(())
    }
}

/// What is held beyond what must be.
fn surplus(held: &Held, kept: &[u64]) -> Vec<u64> {
    let kept: HashSet<u64> = kept.iter().copied().collect();
    let all = held.hashes().iter().copied();
    all.filter(|hash| !kept.contains(hash)).collect()
}

fn surplus_of(held: &Held, kept: &Kept) -> Vec<u64> {
    surplus(held, &kept.hashes)
}
