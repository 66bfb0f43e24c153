//! The write path: from a draft to verdicts and one atomic commit.
//!
//! | step (protocol) | where |
//! | --- | --- |
//! | 1 validate, 2 reserve, 3 hold, 4 look up, 5 time | `decide` |
//! | 6 rows and conditions, in order | `settle`, `evaluate` |
//! | 7 nothing to write; undecided | here |
//! | 8 to 12 one write, ids into the set | `queue`, `index::append` |
//! | 13 durability | here, `index::durable` |
//! | 14 release | `Held`'s drop |
//!
//! Lock order: room → ids → rows → gate. Ids before rows, so that no two callers wait for each
//! other; the gate is the leader's alone.

mod amend;
mod audit;
mod buffer;
mod by_hand;
mod claim;
mod claim_op;
mod counters;
mod dead_tally;
mod decide;
mod doubts;
mod draft;
mod drops;
mod evaluate;
mod explain;
mod holds;
mod in_doubt;
mod inside;
mod item;
mod kept_top;
mod lease;
mod need;
mod observe;
mod outbox;
mod picture;
mod prepare;
mod queue;
mod reads;
mod record;
mod restamp;
mod row_locks;
mod sequences;
mod settle;
mod sighting;
mod stretches;
mod submit;
mod tally;
mod timed;
mod times;
mod tx;
mod write;

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::Catalog;
use crate::claims::Claims;
use crate::clock::Stopwatch;
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Recorded, Result};
use crate::index::{Index, LogBuilder};
use crate::meter::{Duplicates, Tally as VerdictTally};
use crate::options::Durability;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Mutex, RwLock};
use crate::trace::span;
use crate::verdict::{Verdict, Verdicts};

pub(crate) use amend::{Amended, Amendment, Carried, Outcome as PastOutcome, Telling};
#[cfg(feature = "testing")]
pub(crate) use audit::audit_again;
pub(crate) use audit::{AuditRow, Event};
pub(crate) use claim_op::{ClaimOp, Settlement};
pub(crate) use counters::Counters;
pub(crate) use decide::Decision;
pub(crate) use doubts::{Doubt, Doubts};
pub(crate) use draft::{Draft, DraftCaps};
pub(crate) use in_doubt::{End, Ended};
pub(crate) use item::{ScopeUse, check_id};
pub(crate) use kept_top::TOP_EVERY;
#[cfg(feature = "testing")]
pub(crate) use kept_top::top_again;
pub(crate) use lease::{load_claims, owned, taken};
pub(crate) use outbox::{RowId, Waiting};
pub(crate) use sequences::SequencesUse;
pub(crate) use sighting::sighting;
pub(crate) use submit::{Lane, Submission};
pub(crate) use tally::{AUDIT_ROWS_A_COMMIT, AuditRules, Tally};
pub(crate) use tx::TxState;
pub(crate) use write::{Op, When, counter_bounds};

use buffer::Buffer;
use dead_tally::{DeadTally, DeadTurn};
use decide::Held;
use draft::Spare;
use holds::Holds;
use kept_top::KeptTop;
use need::Extent;
use queue::Queue;
use sequences::Evicted;
use times::Times;

/// Everything that commits go through.
pub(crate) struct Committer {
    pub(crate) index: Arc<Index>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) claims: Claims,
    pub(crate) doubts: Doubts,
    pub(crate) counters: Counters,
    /// Verdicts on numbers of producers.
    sequence_tally: VerdictTally,
    /// Duplicates by source and scope, if asked for.
    pub(crate) duplicates: Option<Duplicates>,
    kept_top: KeptTop,
    pub(crate) times: Times,
    pub(crate) wait_max: Duration,
    pub(crate) closures_twice: bool,
    ids: Arc<Holds>,
    rows: Arc<Holds>,
    queue: Queue,
    buffer: Buffer,
    /// The last commit that recorded a sequence and must be synced before that is told.
    sequences_synced: AtomicU64,
    /// Held while audit rows are written.
    auditing: Mutex<()>,
    audit_rules: AuditRules,
    /// Dead letters by scope.
    pub(crate) dead: DeadTally,
    /// The last commit at open: no audit row of before has a serial above it.
    audits_from: u64,
    /// Read by every commit, written to drop a table.
    tables: RwLock<()>,
}

impl Committer {
    pub(crate) fn new(
        index: Arc<Index>,
        catalog: Arc<Catalog>,
        claims: Claims,
        doubts: Doubts,
        duplicates: Option<Duplicates>,
        (wait_max, closures_twice): (Duration, bool),
        audit_rules: AuditRules,
    ) -> Committer {
        let written = index.written();
        let (ids, rows) = (Arc::new(Holds::new()), Arc::new(Holds::new()));
        let tables = [Arc::clone(&ids), Arc::clone(&rows)];
        // Whoever waits for an id must not wait for ever (H5).
        index
            .poison
            .on_set(move || tables.iter().for_each(|held| held.poison()));
        Committer {
            index,
            catalog,
            claims,
            doubts,
            counters: Counters::default(),
            sequence_tally: VerdictTally::default(),
            duplicates,
            kept_top: KeptTop::default(),
            times: Times::default(),
            wait_max,
            closures_twice,
            ids,
            rows,
            queue: Queue::default(),
            buffer: Buffer::default(),
            sequences_synced: AtomicU64::new(0),
            auditing: Mutex::new(()),
            audit_rules,
            dead: DeadTally::default(),
            audits_from: written,
            tables: RwLock::new(()),
        }
    }

    /// Holds a draft's ids; its verdicts so far.
    pub(crate) fn hold_draft(self: &Arc<Self>, draft: &mut Draft) -> Result<(Decision, Verdicts)> {
        let decision = self.decide(draft, Extent::Open)?;
        let verdicts = self.preview(draft, &decision)?;
        Ok((decision, verdicts))
    }

    /// Commits a draft, of ids held before or to be held now.
    ///
    /// # Errors
    /// With `Recorded::No` the draft is as it was and may be committed again; what was held
    /// before stays held, since its writes were added for what the hold had found.
    pub(crate) fn commit(
        self: &Arc<Self>,
        draft: &mut Draft,
        held: &mut Option<Decision>,
        level: Durability,
    ) -> Result<Verdicts> {
        let watch = Stopwatch::start();
        let span = span!(DEBUG, "commit", { items = draft.items.len() }, [first]);
        let (verdicts, mark) = self.write(draft, held, level)?;
        if let Some(mark) = mark {
            self.wait_synced(mark)?;
        }
        self.times.at(level).record(watch.elapsed());
        if cfg!(feature = "tracing") {
            let first = verdicts.iter().filter(|v| v.is_first()).count();
            span.record("first", first as u64);
        }
        Ok(verdicts)
    }

    /// Steps 1 to 12, and 14 for what needs no sync.
    pub(crate) fn write(
        self: &Arc<Self>,
        draft: &mut Draft,
        held: &mut Option<Decision>,
        level: Durability,
    ) -> Result<(Verdicts, Option<Unsynced>)> {
        // Recursive: a closure may commit while a drop waits for it.
        let _tables = self.tables.read_recursive();
        draft.order_writes();
        let was_held = held.is_some();
        if was_held {
            draft.check_use()?;
            draft.check_handles()?;
        }
        let mut decision = match held.take() {
            Some(decision) => decision,
            None => self.decide(draft, Extent::Final)?,
        };
        self.reserve_again(draft, &mut decision);
        let mut spare = std::mem::take(&mut draft.spare);
        spare.log.clear();
        spare.rows.clear();
        spare.changes.clear();
        let done = self.write_decided(draft, &decision, level, &mut spare);
        let (verdicts, written) = match done {
            Ok(done) => done,
            Err(error) => {
                if error.recorded() == Recorded::Unknown {
                    decision.held.keep();
                } else if was_held {
                    *held = Some(decision);
                }
                return Err(error);
            }
        };
        let Decision {
            held,
            room,
            written: before,
            entries,
            entry_of,
            ..
        } = decision;
        (spare.entries, spare.entry_of) = (entries, entry_of);
        draft.spare = spare;
        let spare = &draft.spare;
        let n = match written {
            // A duplicate waits for its original all the same (I5).
            Outcome::Nothing if draft.has_sequences() => self.index.written(),
            Outcome::Nothing => before,
            Outcome::Written(n) => n,
            Outcome::Buffered => {
                if self.buffer.push(&spare.log, &spare.rows, held, room)? {
                    self.flush_pushed()?;
                }
                return Ok((verdicts, None));
            }
        };
        drop(room);
        let n = if level == Durability::Synced {
            Some(n)
        } else {
            self.unsynced_original(draft, &verdicts)
        };
        let mark = n.map(|n| Unsynced {
            n,
            held: vec![held],
        });
        Ok((verdicts, mark))
    }

    /// Steps 6 to 12, of ids that are held.
    fn write_decided(
        self: &Arc<Self>,
        draft: &Draft,
        decision: &Decision,
        level: Durability,
        Spare {
            log,
            rows: out,
            changes,
            ..
        }: &mut Spare,
    ) -> Result<(Verdicts, Outcome)> {
        let may_be_open = decision.has_in_progress() || decision.has_claims();
        if may_be_open && draft.is_unconditional() {
            self.check_decided(draft, decision)?;
        }
        let mut rows = self.lock_rows(draft)?;
        let settled = self.settle(draft, decision, log, out)?;
        let evicted = match &mut rows {
            Some(rows) if draft.has_sequences() => {
                self.put_producers(&settled.producers, rows, out)?
            }
            _ => Evicted::default(),
        };
        if log.is_empty() && out.is_empty() {
            // Step 7: nothing to write.
            self.count(draft, &settled.verdicts, decision.now_ms);
            self.counters
                .unkeyed
                .fetch_add(settled.unkeyed, Ordering::Relaxed);
            return Ok((settled.verdicts, Outcome::Nothing));
        }
        decision.room.check()?;
        let ids = log.hashes().len();
        *changes = settled.changes;
        // What others learn of a claim must be written.
        let may_wait = rows.is_none() && changes.is_empty() && !draft.has_dead;
        let may_wait = may_wait && settled.audits.is_empty();
        let outcome = if level == Durability::Buffered && may_wait {
            self.index.space.check()?;
            self.index.allow_unsynced()?;
            Outcome::Buffered
        } else {
            let _tally = self.put_audits(out, &settled.audits)?;
            let dead = self.put_dead_tally(out, &settled.dead);
            match self.append(log, out, level) {
                Ok(n) => {
                    dead.into_iter().for_each(DeadTurn::written);
                    // Before the rows are released: who holds them next must know of it.
                    if draft.has_sequences() {
                        self.take_over(settled.producers, evicted);
                        if level == Durability::Synced {
                            self.sequences_synced.fetch_max(n, Ordering::AcqRel);
                        }
                    }
                    Outcome::Written(n)
                }
                Err(error) => {
                    keep_if_unknown(&error, [rows]);
                    return Err(error);
                }
            }
        };
        self.claims.apply(changes);
        if settled.is_all_first {
            self.count_all_first(draft);
        } else {
            self.count(draft, &settled.verdicts, decision.now_ms);
        }
        self.counters.commit(ids, settled.unkeyed);
        self.counters.attempt(draft, changes);
        Ok((settled.verdicts, outcome))
    }

    /// A batch with unconditional writes waits for ids that another caller holds or has claimed.
    fn check_decided(&self, draft: &Draft, decision: &Decision) -> Result<()> {
        let verdicts = self.preview(draft, decision)?;
        // Producers are locked later, and are decided then.
        let mut all = verdicts.iter().zip(&draft.items);
        if !all.any(|(v, item)| matches!(v, Verdict::InProgress(_)) && !item.is_sequence) {
            return Ok(());
        }
        self.counters.undecided.fetch_add(1, Ordering::Relaxed);
        let text = "another caller still holds an id of a batch with unconditional writes";
        Err(Error::new(ErrorKind::Undecided, text).with_verdicts(verdicts))
    }

    /// Steps 8 to 12 for one commit. What is buffered goes first.
    fn append(&self, log: &mut LogBuilder, rows: &mut Rep, level: Durability) -> Result<u64> {
        self.index.space.check()?;
        self.flush_buffer()?;
        if level != Durability::Synced {
            self.index.allow_unsynced()?;
        }
        self.queue.commit(&self.index, log, rows)
    }

    /// Step 13, then 14: returns once everything in the mark is durable.
    pub(crate) fn wait_synced(&self, mark: Unsynced) -> Result<()> {
        match self.index.wait_durable(mark.n) {
            Ok(()) => Ok(()),
            Err(error) => {
                mark.held.into_iter().for_each(Held::keep);
                Err(error)
            }
        }
    }

    pub(crate) fn flush_buffer(&self) -> Result<()> {
        self.buffer.flush(&self.index, &self.queue)
    }

    /// Writes the buffer after a commit was added to it. That commit is acknowledged: if there
    /// is no room to write it now, it waits for it.
    fn flush_pushed(&self) -> Result<()> {
        match self.flush_buffer() {
            Err(error) if error.recorded() == Recorded::Unknown => Err(error),
            _ => Ok(()),
        }
    }

    /// Loses what is buffered, as a crash does.
    pub(crate) fn discard_buffered(&self) {
        self.buffer.discard();
    }

    /// Makes everything that returned before durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.flush_buffer()?;
        self.index.poison.check()?;
        self.index.sync_written()
    }

    /// Makes everything durable for the last time: rows, mark, floor.
    pub(crate) fn close(&self) -> Result<()> {
        let closed = self.sync().and_then(|()| self.index.close());
        if closed.is_err() {
            // Its holds would keep the store open for ever.
            self.discard_buffered();
        }
        closed
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.ids.len().saturating_sub(self.doubts.held_ids())
    }
}

/// What became of a commit's records.
enum Outcome {
    /// There were none.
    Nothing,
    /// To be queued with what is buffered.
    Buffered,
    /// Written under this number.
    Written(u64),
}

/// Keeps what a commit of unknown outcome holds.
fn keep_if_unknown<const N: usize>(error: &Error, held: [Option<Held>; N]) {
    if error.recorded() == Recorded::Unknown {
        held.into_iter().flatten().for_each(Held::keep);
    }
}

/// A commit that is written and must be synced before its ids are released (14 after 13).
pub(crate) struct Unsynced {
    n: u64,
    held: Vec<Held>,
}
