//! Two-phase commit, for callers that coordinate with another system: a batch is prepared, and
//! committed or aborted once the other system has decided.
//!
//! The phases are in `commit/prepare.rs` and `commit/in_doubt.rs`; here is their public face.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::batch::Batch;
use crate::commit::{Doubt, End, Ended};
use crate::core::Core;
use crate::error::{Recorded, Result};
use crate::id::Id;
use crate::scope::Scope;
use crate::store::Store;
use crate::verdict::Verdicts;
use crate::why::Why;

/// A transaction that is prepared, and neither committed nor aborted; see [`Store::in_doubt`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InDoubt {
    /// Its name.
    pub txn: Bytes,
    /// When it was prepared, in effective time.
    pub prepared_at: SystemTime,
    /// Ids that its commit records. They are in progress for everybody else.
    pub ids: u64,
    /// Rows that its commit writes, resume points among them.
    pub writes: u64,
    /// Bytes it takes on disk.
    pub bytes: u64,
    /// The names of the scopes that its ids are of.
    pub scopes: Vec<String>,
    /// The names of the tables that it writes to.
    pub tables: Vec<String>,
}

/// How a transaction ended; see [`Store::commit_prepared`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outcome {
    /// When it ended, in effective time: for its ids, when they were first seen.
    pub ended_at: SystemTime,
    /// Ids that were recorded; none by an abort.
    pub ids: u64,
    /// It had ended so before: this call has changed nothing.
    pub is_repeat: bool,
}

fn time(ms: u64) -> SystemTime {
    let since = UNIX_EPOCH.checked_add(Duration::from_millis(ms));
    since.unwrap_or(UNIX_EPOCH)
}

fn outcome(ended: Ended) -> Outcome {
    Outcome {
        ended_at: time(ended.row.at_ms),
        ids: ended.row.ids,
        is_repeat: ended.is_repeat,
    }
}

fn told(core: &Core, doubt: &Doubt) -> InDoubt {
    let catalog = &core.committer.catalog;
    let scopes = doubt.uses.scopes.iter();
    let scopes = scopes.filter_map(|number| catalog.scope_of(*number));
    let tables = doubt.uses.tables.iter();
    let tables = tables.filter_map(|number| catalog.table_of(*number));
    InDoubt {
        txn: Bytes::copy_from_slice(&doubt.txn),
        prepared_at: time(doubt.prepared_ms),
        ids: doubt.ids,
        writes: doubt.writes,
        bytes: doubt.bytes,
        scopes: scopes.map(|scope| scope.name.clone()).collect(),
        tables: tables.map(|table| table.name.clone()).collect(),
    }
}

impl Batch {
    /// The first phase of two: decides the batch as [`Batch::commit`] does and stores it durably
    /// under a transaction's name, so that [`Store::commit_prepared`] can make it whenever another
    /// system has decided, also after a crash. Returns the verdicts that the commit will have.
    ///
    /// Until it ends, nothing of it can be seen, and what it rests on stays as it is, over crashes
    /// and reopenings:
    /// - ids that it will record are *in progress* for everybody else, at once and without a wait
    ///   (a batch with a resume point and such an id is `Undecided`); its retention begins with the
    ///   commit, which is also when they are first seen;
    /// - rows of guarded tables that it writes are locked: who wants one gets `Busy`, at once too,
    ///   since nobody knows when it ends. So are its sources' resume points, and its producers.
    ///   Reads see the rows of before;
    /// - rows of plain tables are not locked: what it writes there wins over what was written
    ///   meanwhile;
    /// - claims that it completes are kept: their leases may run out, nobody can take them over;
    /// - its scopes, tables and sequences can't be dropped (`InDoubt`).
    ///
    /// Ids whose verdict is not first are free again; their verdicts stand, even if they expire
    /// meanwhile.
    ///
    /// On success the batch is empty. Always durable when it returns: one sync, whatever the
    /// batch's level. Costs the bytes of the batch twice, once now and once at the commit. A batch
    /// may be held before ([`Batch::hold`]).
    ///
    /// `txn`: chosen by the coordinator, 1 to [`txn_bytes_max`](crate::Options::txn_bytes_max)
    /// bytes; not one that is in doubt or remembered to have ended.
    ///
    /// # Errors
    /// As [`Batch::commit`]: with `Recorded::No` the batch is untouched. `InDoubt` if a transaction
    /// of this name is prepared: whoever lost the answer finds it in [`Store::in_doubt`].
    /// `TransactionEnded` if one of this name has ended. `Full` beyond
    /// [`prepared_max`](crate::Options::prepared_max) or
    /// [`prepared_bytes_max`](crate::Options::prepared_bytes_max). With `Recorded::Unknown`
    /// reopening the store decides: it is then in doubt, or was never prepared.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store, Verdict};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let ids = store.scope("orders", Policy::remember(days(7)))?;
    /// let orders = store.table("orders")?;
    ///
    /// let mut batch = store.batch();
    /// batch.once(&ids, "order-1").put(&orders, "order-1", "sold");
    /// let verdicts = batch.prepare("checkpoint-17")?;
    /// assert!(verdicts[0].is_first());
    /// assert!(matches!(ids.insert("order-1")?, Verdict::InProgress(_)));
    /// assert!(orders.get("order-1")?.is_none());
    ///
    /// // The other system has committed checkpoint 17.
    /// assert_eq!(store.commit_prepared("checkpoint-17")?.ids, 1);
    /// assert!(ids.insert("order-1")?.is_duplicate());
    /// assert!(orders.get("order-1")?.is_some());
    /// assert!(store.commit_prepared("checkpoint-17")?.is_repeat);
    /// # Ok(()) }
    /// ```
    pub fn prepare(&mut self, txn: impl AsRef<[u8]>) -> Result<Verdicts> {
        let core = self.shared.core()?;
        let prepared = core
            .committer
            .prepare(&mut self.draft, &mut self.held, txn.as_ref());
        match &prepared {
            Ok(_) => self.clear(),
            Err(error) if error.recorded() == Recorded::Unknown => self.clear(),
            Err(_) => {}
        }
        prepared
    }
}

impl Scope {
    /// The name of the prepared transaction that holds an id, if one does: why it is in progress.
    /// Reads the rows of transactions that may.
    ///
    /// # Errors
    /// `Damaged`, `Closed`.
    pub fn in_doubt_by<'a>(&self, id: impl Into<Id<'a>>) -> Result<Option<Bytes>> {
        let core = self.shared.core()?;
        let (scope, id) = (self.used.state.number, id.into().bytes.unwrap_or_default());
        let txn = core.committer.in_doubt_with(scope, id)?;
        Ok(txn.map(|txn| Bytes::from(txn.into_vec())))
    }
}

impl Store {
    /// The second phase: commits a prepared transaction, in one atomic write. Durable when it
    /// returns. May be called again, by anybody and also after a reopening: as long as its end is
    /// remembered ([`outcomes_max`](crate::Options::outcomes_max),
    /// [`outcomes_for`](crate::Options::outcomes_for)) the answer is the same.
    ///
    /// Nothing that others did meanwhile can refuse it. What it needs is room, and a disk that
    /// takes it.
    ///
    /// # Errors
    /// `UnknownTransaction` if none of this name is prepared or remembered; `TransactionEnded` if
    /// it was aborted. `Busy` without room for new ids within `wait_max`, `Full` while the disk is:
    /// it is in doubt as before, call again. `Degraded`, also with `Recorded::Unknown`: reopen, and
    /// call again. `Damaged`, `Closed`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// // At every start: ask the coordinator about what a crash left.
    /// # let was_committed = |_: &[u8]| true;
    /// for doubt in store.in_doubt()? {
    ///     if was_committed(&doubt.txn) {
    ///         store.commit_prepared(&doubt.txn)?;
    ///     } else {
    ///         store.abort_prepared(&doubt.txn, "the coordinator does not know it")?;
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn commit_prepared(&self, txn: impl AsRef<[u8]>) -> Result<Outcome> {
        let core = self.shared.core()?;
        let ended = core
            .committer
            .end_prepared(txn.as_ref(), End::Commit, None)?;
        Ok(outcome(ended))
    }

    /// [`Store::commit_prepared`] by hand, against what the coordinator says or without asking it:
    /// the reason goes into the audit.
    ///
    /// # Errors
    /// As [`Store::commit_prepared`]; `Invalid` without a reason.
    pub fn commit_prepared_by_hand<'a>(
        &self,
        txn: impl AsRef<[u8]>,
        why: impl Into<Why<'a>>,
    ) -> Result<Outcome> {
        let why = why.into();
        why.check("a commit by hand")?;
        let core = self.shared.core()?;
        let ended = core
            .committer
            .end_prepared(txn.as_ref(), End::Commit, Some(&why))?;
        Ok(outcome(ended))
    }

    /// The second phase: aborts a prepared transaction. Its ids are new again and its rows free, as
    /// if it had never been. Durable when it returns; the reason goes into the audit. May be called
    /// again, as [`Store::commit_prepared`].
    ///
    /// # Errors
    /// As [`Store::commit_prepared`], but `TransactionEnded` if it was committed; `Invalid` without
    /// a reason.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, ErrorKind, Options, Policy, Store};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// # let ids = store.scope("orders", Policy::remember(days(7)))?;
    /// let mut batch = store.batch();
    /// batch.once(&ids, "order-1");
    /// let _ = batch.prepare("checkpoint-17")?;
    /// store.abort_prepared("checkpoint-17", "the checkpoint failed")?;
    /// assert!(ids.insert("order-1")?.is_first());
    /// let late = store.commit_prepared("checkpoint-17").unwrap_err();
    /// assert_eq!(late.kind(), ErrorKind::TransactionEnded);
    /// # Ok(()) }
    /// ```
    pub fn abort_prepared<'a>(
        &self,
        txn: impl AsRef<[u8]>,
        why: impl Into<Why<'a>>,
    ) -> Result<Outcome> {
        let why = why.into();
        why.check("an abort")?;
        let core = self.shared.core()?;
        let ended = core
            .committer
            .end_prepared(txn.as_ref(), End::Abort, Some(&why))?;
        Ok(outcome(ended))
    }

    /// The transactions that are prepared and have not ended, the oldest first; also those of
    /// earlier openings. A copy of the store has those that it was copied with.
    ///
    /// # Errors
    /// `Closed`.
    pub fn in_doubt(&self) -> Result<Vec<InDoubt>> {
        let core = self.shared.core()?;
        let all = core.committer.doubts.list();
        Ok(all.iter().map(|doubt| told(&core, doubt)).collect())
    }
}
