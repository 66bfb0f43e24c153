//! Batches: many items, their writes and a resume point, in one atomic commit.

use std::future::Future;
use std::ops::RangeBounds;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::claim::Claim;
use crate::claims::Nonce;
use crate::commit::{ClaimOp, Decision, Draft, DraftCaps, Op, Submission, When, counter_bounds};
use crate::error::{Error, Recorded, Result};
use crate::id::Id;
use crate::options::Durability;
use crate::outbox::Outbox;
use crate::position::Position;
use crate::scope::Scope;
use crate::store::Shared;
use crate::table::Table;
use crate::verdict::Verdicts;

/// A batch. It owns its bytes and keeps its buffers, so one batch serves a whole loop.
///
/// Items apply in order; their conditions see what earlier items of the batch wrote. Dropping a
/// batch records nothing and frees what it holds. Misuse (another store's handle, a condition
/// on a plain table, too many bytes) is reported by [`Batch::commit`], and nothing is recorded.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use firstseen::{days, Options, Policy, Store};
/// let store = Store::open(dir.path(), Options::new())?;
/// let ids = store.scope("orders", Policy::remember(days(7)))?;
/// let (orders, stock) = (store.table("orders")?, store.guarded_table("stock")?);
/// let mut batch = store.batch();
/// batch.always().put(&stock, "sku-1", 2_i64.to_le_bytes());
/// for order in ["a", "b", "a"] {
///     batch.once(&ids, order).add(&stock, "sku-1", -1, 0..).put(&orders, order, "sold");
/// }
/// batch.resume_at("orders/3", 3);
/// let verdicts = batch.commit()?;
/// assert!(verdicts[0].is_first());
/// assert!(verdicts[1].is_first());
/// assert!(verdicts[2].is_duplicate());
/// # Ok(()) }
/// ```
pub struct Batch {
    pub(crate) shared: Arc<Shared>,
    pub(crate) draft: Draft,
    pub(crate) held: Option<Decision>,
    durability: Option<Durability>,
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("items", &self.draft.items.len())
            .field("held", &self.held.is_some())
            .finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(shared: &Arc<Shared>) -> Batch {
        Batch {
            shared: Arc::clone(shared),
            draft: Draft::default(),
            held: None,
            durability: None,
        }
    }

    /// Adds an item. What is written through the returned [`Writes`] is committed only if the
    /// id is first seen.
    pub fn once<'a>(&mut self, scope: &Scope, id: impl Into<Id<'a>>) -> Writes<'_> {
        let caps = self.shared.caps;
        if self.held.is_some() {
            self.draft
                .fail(Error::invalid("a held batch takes no more items"));
        }
        if !Arc::ptr_eq(&scope.shared, &self.shared) {
            self.draft.fail(Error::foreign("the scope"));
        }
        let item = self.draft.add_item(&scope.used, &id.into(), caps);
        Writes::new(&self.shared, &mut self.draft, caps, (item, When::First))
    }

    /// Completes a claim with this commit; see [`Claim::complete`](crate::Claim::complete). The
    /// item's verdict is `First` if it did, `LeaseLost` if the claim is somebody else's by now. A
    /// claim that was not started must not be dropped before the commit.
    pub fn complete(&mut self, claim: &Claim, result: impl AsRef<[u8]>) -> Writes<'_> {
        self.end_claim(claim, ClaimOp::Complete, result.as_ref())
    }

    /// Ends a claim in one way or another.
    pub(crate) fn end_claim(
        &mut self,
        claim: &Claim,
        how: impl FnOnce(Nonce) -> ClaimOp,
        result: &[u8],
    ) -> Writes<'_> {
        let caps = self.shared.caps;
        let (scope, lease) = claim.lease();
        if self.held.is_some() {
            self.draft
                .fail(Error::invalid("a held batch takes no more items"));
        }
        if !Arc::ptr_eq(&scope.shared, &self.shared) {
            self.draft.fail(Error::foreign("the claim"));
        }
        let op = lease.op(how(lease.nonce));
        let item = lease.add_to(&mut self.draft, &lease.used, op, caps);
        self.draft.end_with(item, result, caps);
        Writes::new(&self.shared, &mut self.draft, caps, (item, When::First))
    }

    /// Writes that are committed whatever the verdicts. They take no conditions. Items added
    /// later see them, items added earlier don't.
    pub fn always(&mut self) -> Writes<'_> {
        let caps = self.shared.caps;
        let next = self.draft.items.len() as u32;
        Writes::new(&self.shared, &mut self.draft, caps, (next, When::Always))
    }

    /// Moves a source's resume point with this commit: the *next* position to read. It never
    /// goes back, and a batch that has one is not committed while an item is undecided.
    pub fn resume_at(&mut self, source: &str, next: impl Into<Position>) -> &mut Batch {
        self.draft.resume_at(source, next.into());
        self
    }

    /// The level of this batch's commits, instead of the store's.
    pub fn durability(&mut self, level: Durability) -> &mut Batch {
        self.durability = Some(level);
        self
    }

    /// Decides the ids now and holds the new ones, in memory, until the commit or drop. First
    /// seen means: ours, and not recorded yet.
    ///
    /// # Errors
    /// As [`Batch::commit`]; nothing is held then.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, Options, Policy, Store};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// # let ids = store.scope("orders", Policy::remember(days(7)))?;
    /// # let prices = store.table("prices")?;
    /// let mut batch = store.batch();
    /// batch.once(&ids, "a");
    /// for (i, verdict) in batch.hold()?.iter().enumerate() {
    ///     if verdict.is_first() {
    ///         batch.item(i).put(&prices, "a", "dear to compute");
    ///     }
    /// }
    /// let _ = batch.commit()?;
    /// # Ok(()) }
    /// ```
    pub fn hold(&mut self) -> Result<Verdicts> {
        let core = self.shared.core()?;
        if self.draft.has_sequences() {
            return Err(Error::invalid("a batch with sequences can't be held"));
        }
        self.held = None;
        let (decision, verdicts) = core.committer.hold_draft(&mut self.draft)?;
        self.held = Some(decision);
        Ok(verdicts)
    }

    /// The writes of an item that was added before, by its position.
    ///
    /// # Panics
    /// If there is no such item.
    pub fn item(&mut self, i: usize) -> Writes<'_> {
        assert!(i < self.draft.items.len(), "the batch has no item {i}");
        let caps = self.shared.caps;
        Writes::new(&self.shared, &mut self.draft, caps, (i as u32, When::First))
    }

    /// Commits: new ids, the writes of first seen items, unconditional writes and resume points
    /// in one atomic write. Returns a verdict for each item, in order.
    ///
    /// On success the batch is empty and keeps its buffers. Durable as its level says when it
    /// returns. Waits for ids and rows that other callers hold, up to `wait_max`.
    ///
    /// # Errors
    /// With `Recorded::No` the batch is untouched, what it holds included: commit again, or drop
    /// it. `Undecided` if it
    /// has unconditional writes or a resume point and an id stayed in flight; `Invalid` for
    /// misuse; `Busy`, `Full`, `Degraded`, `Damaged`, `Closed`. With `Recorded::Unknown` the
    /// store has stopped writing and reopening it decides.
    pub fn commit(&mut self) -> Result<Verdicts> {
        let core = self.shared.core()?;
        let level = self.durability.unwrap_or(core.durability);
        match core
            .committer
            .commit(&mut self.draft, &mut self.held, level)
        {
            Ok(verdicts) => {
                self.draft.clear();
                Ok(verdicts)
            }
            Err(error) => {
                if error.recorded() == Recorded::Unknown {
                    self.draft.clear();
                }
                Err(error)
            }
        }
    }

    /// Hands the commit to the store's own threads, which write submitted batches in order and
    /// let several share a sync. Await the result on any runtime, or [`Submitted::wait`].
    /// Dropping it does not cancel the commit.
    ///
    /// A batch with a resume point that fails makes those submitted behind it for the same
    /// source fail too (`Undecided`), until its failure was seen: submit again from there.
    pub fn submit(mut self) -> Submitted {
        let submission = self.shared.core().and_then(|core| {
            let level = self.durability.unwrap_or(core.durability);
            let (draft, held) = (std::mem::take(&mut self.draft), self.held.take());
            core.lane.submit(&core.committer, draft, held, level)
        });
        Submitted(submission.unwrap_or_else(Submission::failed))
    }

    /// Empties it; what it holds is free again. Buffers are kept.
    pub fn clear(&mut self) {
        self.held = None;
        self.draft.clear();
    }

    /// How many items it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.draft.items.len()
    }

    /// Whether it has no items.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.draft.items.is_empty()
    }
}

/// A submitted commit; see [`Batch::submit`].
#[must_use = "a commit's outcome must be seen before its messages are acknowledged"]
pub struct Submitted(Submission);

impl Submitted {
    /// Blocks until the commit is done.
    ///
    /// # Errors
    /// As [`Batch::commit`].
    pub fn wait(self) -> Result<Verdicts> {
        self.0.wait()
    }
}

impl Future for Submitted {
    type Output = Result<Verdicts>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.0).poll(context)
    }
}

/// The writes of one item (or of none, for [`Batch::always`]).
pub struct Writes<'a> {
    shared: &'a Arc<Shared>,
    draft: &'a mut Draft,
    caps: DraftCaps,
    /// The item's position, and when the writes are made.
    to: (u32, When),
}

impl<'a> Writes<'a> {
    pub(crate) fn new(
        shared: &'a Arc<Shared>,
        draft: &'a mut Draft,
        caps: DraftCaps,
        to: (u32, When),
    ) -> Writes<'a> {
        Writes {
            shared,
            draft,
            caps,
            to,
        }
    }

    fn write(&mut self, table: &Table, key: &[u8], op: Op<'_>) -> &mut Self {
        if !Arc::ptr_eq(&table.shared, self.shared) {
            self.draft.fail(Error::foreign("the table"));
        } else if self.to.1 == When::Always && op.is_conditional() {
            self.draft
                .fail(Error::invalid("an unconditional write takes no condition"));
        } else {
            self.draft
                .add_write(self.to, &table.state, key, op, self.caps);
        }
        self
    }

    /// Puts a row.
    pub fn put(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::Put {
                value: value.as_ref(),
            },
        )
    }

    /// Sends a message through an [`Outbox`]: it is committed with the other writes, or not at
    /// all.
    pub fn send(&mut self, outbox: &Outbox, payload: impl AsRef<[u8]>) -> &mut Self {
        if Arc::ptr_eq(&outbox.shared, self.shared) {
            let payload = payload.as_ref();
            self.draft
                .add_send(self.to, &outbox.state, payload, self.caps);
        } else {
            self.draft.fail(Error::foreign("the outbox"));
        }
        self
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> &mut Self {
        self.write(table, key.as_ref(), Op::Delete)
    }

    /// Adds to a counter (an `i64`, little-endian; absent is 0) in a guarded table. Refused if
    /// the sum would leave `within` or overflow: `add(&stock, sku, -3, 0..)` never oversells.
    pub fn add(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        by: i64,
        within: impl RangeBounds<i64>,
    ) -> &mut Self {
        let (low, high) = counter_bounds(&within);
        self.write(table, key.as_ref(), Op::Add { by, low, high })
    }

    /// Moves a state (the whole value) in a guarded table. Refused unless the row is `from`.
    pub fn transition(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        from: &[u8],
        to: &[u8],
    ) -> &mut Self {
        self.write(table, key.as_ref(), Op::Transition { from, to })
    }

    /// Replaces a value in a guarded table. Refused unless the row is `expected` (`None`: it
    /// does not exist).
    pub fn compare_and_set(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::CompareAndSet {
                expected,
                value: value.as_ref(),
            },
        )
    }

    /// Replaces a versioned value in a guarded table: 8 bytes of version, then the value; the
    /// engine writes the next version. Refused unless the row's version is `expected` (`None`:
    /// the row does not exist; it gets version 0). Read with
    /// [`Value::versioned`](crate::Value::versioned).
    pub fn compare_version(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<u64>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::CompareVersion {
                expected,
                value: value.as_ref(),
            },
        )
    }

    /// What is written instead if a condition of the item does not hold. The id is then
    /// recorded, as refused, in the same commit. Without it a refusal records nothing.
    pub fn if_refused(&mut self, f: impl FnOnce(&mut Writes<'_>)) -> &mut Self {
        match self.draft.item_mut(self.to.0) {
            Some(item) if self.to.1 == When::First => item.has_fallback = true,
            _ => self
                .draft
                .fail(Error::invalid("only an item's own writes can be refused")),
        }
        f(&mut Writes::new(
            self.shared,
            self.draft,
            self.caps,
            (self.to.0, When::Refused),
        ));
        self
    }

    /// Stores a result with the id, which every duplicate is answered with
    /// ([`Sighting::result`](crate::Sighting::result)) for as long as the id is remembered. In an
    /// `if_refused`: the result of the refusal, stored instead when it takes effect. The last
    /// one given counts. An item that is let through without an id stores none.
    ///
    /// The scope must store results ([`Policy::results`](crate::Policy::results)), and at most
    /// its `result_bytes_max`; else the commit is `Invalid` and nothing is recorded. The result
    /// is as durable as the id.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, Options, Policy, Store, Verdict};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// let pays = store.scope("payments", Policy::remember(days(7)).results())?;
    /// let mut batch = store.batch();
    /// batch.once(&pays, "pay-1").result("receipt 17");
    /// let _ = batch.commit()?;
    /// match pays.insert("pay-1")? {
    ///     Verdict::Duplicate(seen) => assert_eq!(seen.result(), Some(&b"receipt 17"[..])),
    ///     other => panic!("{other:?}"),
    /// }
    /// # Ok(()) }
    /// ```
    pub fn result(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        self.draft.set_result(self.to, bytes.as_ref(), self.caps);
        self
    }

    /// Gives the message up, in the same commit: its id is recorded as dead-lettered, and `why`
    /// (at most 1,024 bytes of it) and the payload are kept with the store's dead letters
    /// ([`Scope::dead_letters`](crate::Scope::dead_letters)). For messages that can't be
    /// processed, however often they come. The item's verdict is `First`; later ones are
    /// [`DeadLettered`](crate::Verdict::DeadLettered). In an `if_refused`: instead, when it takes
    /// effect.
    pub fn dead_letter(&mut self, why: &str, payload: &[u8]) -> &mut Self {
        self.draft.set_dead(self.to, (why, payload), self.caps);
        self
    }

    /// Finishes the item without recording its id; its writes are not made.
    pub fn decline(&mut self) {
        match self.draft.item_mut(self.to.0) {
            Some(item) if self.to.1 == When::First => item.is_declined = true,
            _ => self
                .draft
                .fail(Error::invalid("only an item can be declined")),
        }
    }

    /// Applies a RocksDB batch to a table: its puts and deletes of the *default* family become
    /// this item's writes. A record that names a column family, and any other kind of record,
    /// is refused: the store's own families can't be touched this way.
    #[cfg(feature = "raw")]
    pub fn apply(&mut self, table: &Table, batch: &crate::raw::RocksBatch) -> &mut Self {
        match crate::engine::records(batch.data()) {
            Ok(records) => {
                for (key, value) in records {
                    let op = value.map_or(Op::Delete, |value| Op::Put { value });
                    self.write(table, key, op);
                }
            }
            Err(error) => self.draft.fail(error),
        }
        self
    }
}
