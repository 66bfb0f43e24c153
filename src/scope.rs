//! A scope: a named space of ids with its own policy.

use std::cell::RefCell;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;

use crate::batch::Batch;
use crate::clock::since_epoch;
use crate::commit::{Amended, Amendment, Draft, ScopeUse, Telling, check_id, sighting};
use crate::error::{Error, ErrorKind, Result};
use crate::handler::{Handler, Source};
use crate::id::Id;
use crate::index::{Extras, Fingerprint, Hit, IdScan, Slice};
use crate::mode::{Mode, OnStoreError, Switched};
use crate::options::Durability;
use crate::policy::Retention;
use crate::store::{Core, Shared};
use crate::sync::thread_local;
use crate::tx::Tx;
use crate::verdict::{Sighting, Verdict, Verdicts};
use crate::why::Why;

thread_local! {
    /// Buffers of single calls, used again by the next one on the thread.
    static DRAFT: RefCell<Draft> = RefCell::default();
}

/// A handle of a scope. Cheap to clone; `Send + Sync`; may outlive the store, whose calls then
/// answer `Closed`.
#[derive(Clone)]
pub struct Scope {
    pub(crate) shared: Arc<Shared>,
    pub(crate) used: ScopeUse,
}

impl std::fmt::Debug for Scope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scope")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl Scope {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.used.state.name
    }

    /// Switches it, for all its handles at once: whether it keeps out what was seen before. A
    /// commit that was decided before goes on as it was decided.
    ///
    /// # Errors
    /// If the switch could not be stored, which only those need who look from outside
    /// (`firstseen stat`): **it is in force all the same**.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Action, Mode, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let ids = store.scope("orders", Policy::remember(days(7)))?;
    /// ids.set_mode(Mode::ObserveOnly)?;
    /// assert!(ids.insert("a")?.would_be().is_none());
    /// let again = ids.insert("a")?;
    /// assert!(again.would_be().is_some_and(|v| v.is_duplicate()));
    /// assert_eq!(again.action(), Action::Proceed);
    /// # Ok(()) }
    /// ```
    pub fn set_mode(&self, mode: Mode) -> Result<()> {
        self.switch(|switched| switched.mode = mode)
    }

    /// How it is switched now.
    #[must_use]
    pub fn mode(&self) -> Mode {
        self.used.state.switches.now().mode
    }

    /// Switches what its handlers do when the store fails, for all its handles at once.
    ///
    /// # Errors
    /// As [`Scope::set_mode`]: **it is in force all the same**. A store that fails can't store it.
    pub fn set_on_store_error(&self, rule: OnStoreError) -> Result<()> {
        self.switch(|switched| switched.on_store_error = rule)
    }

    /// What its handlers do when the store fails.
    #[must_use]
    pub fn on_store_error(&self) -> OnStoreError {
        self.used.state.switches.now().on_store_error
    }

    fn switch(&self, change: impl Fn(&mut Switched)) -> Result<()> {
        let state = &self.used.state;
        match self.shared.core() {
            Ok(core) => core.committer.catalog.switch(state, change),
            Err(closed) => {
                let mut to = state.switches.now();
                change(&mut to);
                state.switches.set(to);
                Err(closed)
            }
        }
    }

    /// The atomic check-and-insert of one id: first seen, and recorded, or a duplicate.
    ///
    /// Of concurrent calls with one id exactly one is first; the others wait for it (up to the
    /// policy's `wait`, then `InProgress`). Durable at the store's level when it returns; a
    /// duplicate is never answered before its original is. Costs one write for a new id, none
    /// for a duplicate.
    ///
    /// # Errors
    /// `Busy` if sealing fell behind, `Full`, `Degraded`, `Damaged`, `Closed`; whether anything
    /// was recorded is in [`Error::recorded`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let orders = store.scope("orders", Policy::remember(days(7)))?;
    /// assert!(orders.insert("order-17")?.is_first());
    /// assert!(orders.insert("order-17")?.is_duplicate());
    /// # Ok(()) }
    /// ```
    pub fn insert<'a>(&self, id: impl Into<Id<'a>>) -> Result<Verdict> {
        let id = id.into();
        let verdicts = self.with_draft(|core, draft| {
            draft.add_item(&self.used, &id, core.caps);
            core.committer.commit(draft, &mut None, core.durability)
        })?;
        verdicts.into_iter().next().ok_or_else(Error::closed)
    }

    /// The check-and-insert of many ids in one commit: a verdict for each, in their order.
    /// A repeat within the call is a duplicate of the first one.
    ///
    /// # Errors
    /// As [`Scope::insert`]; all of them are recorded or none.
    pub fn insert_all<'a, I>(&self, ids: I) -> Result<Verdicts>
    where
        I: IntoIterator,
        I::Item: Into<Id<'a>>,
    {
        self.with_draft(|core, draft| {
            for id in ids {
                draft.add_item(&self.used, &id.into(), core.caps);
            }
            core.committer.commit(draft, &mut None, core.durability)
        })
    }

    pub(crate) fn with_draft<T>(
        &self,
        run: impl FnOnce(&Core, &mut Draft) -> Result<T>,
    ) -> Result<T> {
        let core = self.shared.core()?;
        let mut draft = DRAFT.with_borrow_mut(std::mem::take);
        draft.clear();
        let result = run(&core, &mut draft);
        draft.clear();
        DRAFT.set(draft);
        result
    }

    /// Runs `f` if the id is first seen, and commits what it wrote together with the id.
    ///
    /// The closure reads rows with the locks of guarded tables held and sees its own writes. It
    /// may run more than once (when a row is locked by another commit) but takes effect once.
    /// An error from it, or a panic, frees the id and its rows and records nothing. What a
    /// closure reads from a plain table is not locked.
    ///
    /// # Errors
    /// The closure's own; the store's as [`Scope::insert`]; `Reentrant` if the closure calls
    /// for an id or row that it holds.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Error, Options, Policy, Store, Verdict};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let ids = store.scope("payments", Policy::remember(days(7)))?;
    /// let totals = store.guarded_table("totals")?;
    /// let verdict = ids.once("pay-1", |tx| {
    ///     let before = tx.get(&totals, "sum")?.map_or(0, |v| v[0]);
    ///     tx.put(&totals, "sum", [before + 5]);
    ///     Ok::<_, Error>(before + 5)
    /// })?;
    /// assert_eq!(verdict, Verdict::First(5));
    /// # Ok(()) }
    /// ```
    pub fn once<'a, T, E: From<Error>>(
        &self,
        id: impl Into<Id<'a>>,
        f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Verdict<T>, E> {
        let core = self.shared.core()?;
        self.once_at(&core, &id.into(), core.durability, f)
    }

    /// [`Scope::once`] at a level of its own.
    pub(crate) fn once_at<T, E: From<Error>>(
        &self,
        core: &Core,
        id: &Id<'_>,
        level: Durability,
        mut f: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Verdict<T>, E> {
        let mut draft = Draft::default();
        draft.add_item(&self.used, id, core.caps);
        // Room for what an `if_refused` may add to the record.
        if let Some(item) = draft.item_mut(0) {
            item.has_fallback = true;
        }
        core.committer.once(&mut draft, level, |state| {
            let mut tx = Tx::new(self, core.caps, state);
            let result = f(&mut tx);
            (tx.into_state(), result)
        })
    }

    /// A handler of its messages, whose source is of this kind.
    #[must_use]
    pub fn handler(&self, source: Source) -> Handler {
        Handler::new(self, source)
    }

    /// An empty batch of its store.
    pub(crate) fn shared_batch(&self) -> Batch {
        Batch::new(&self.shared)
    }

    /// What is known of an id now. It decides nothing: by the time it returns, another caller
    /// may have recorded the id.
    ///
    /// # Errors
    /// `Invalid` for a missing, empty or oversize id; `Damaged`, `Closed`.
    pub fn peek<'a>(&self, id: impl Into<Id<'a>>) -> Result<Option<Sighting>> {
        let core = self.shared.core()?;
        let id = id.into();
        if let Some(bad) = check_id(&id, &self.used.policy) {
            return Err(Error::invalid(bad.to_string()));
        }
        self.check_not_dropped()?;
        core.committer
            .peek(&self.used.state, id.bytes.unwrap_or_default())
    }

    /// Forgets an id, so that it is first seen again; `why` goes into the audit. False if it
    /// was not known (then nothing is written).
    ///
    /// # Errors
    /// `Invalid` for an unusable id or an empty reason; `Busy` if another caller holds the id;
    /// as [`Scope::insert`] otherwise.
    pub fn forget<'a, 'w>(&self, id: impl Into<Id<'a>>, why: impl Into<Why<'w>>) -> Result<bool> {
        let (id, why) = (id.into(), why.into());
        if let Some(bad) = check_id(&id, &self.used.policy) {
            return Err(Error::invalid(bad.to_string()));
        }
        why.check("forgetting an id")?;
        let how = [Amendment::Forget { first_ms: None }];
        let fates = self.amend([id], &how, (&why, Telling::Each))?;
        match fates.first() {
            Some(Amended::Held) => Err(Error::new(ErrorKind::Busy, "another caller holds the id")),
            fate => Ok(fate == Some(&Amended::Done)),
        }
    }

    /// Amends ids in one commit.
    pub(crate) fn amend<'a>(
        &self,
        ids: impl IntoIterator<Item = Id<'a>>,
        how: &[Amendment],
        why: (&Why<'_>, Telling),
    ) -> Result<Vec<Amended>> {
        self.with_draft(|core, draft| {
            for (id, how) in ids.into_iter().zip(how) {
                let id = match how {
                    Amendment::Forget { .. } => id.timeless(),
                    Amendment::Record { .. } => id,
                };
                draft.add_item(&self.used, &id, core.caps);
            }
            core.committer.amend(draft, how, why, core.durability)
        })
    }

    pub(crate) fn check_not_dropped(&self) -> Result<()> {
        if self.used.state.is_dropped() {
            return Err(Error::invalid(format!(
                "scope {:?} was dropped",
                self.name()
            )));
        }
        Ok(())
    }

    /// The ids first seen within a range of time that are still remembered, in id order (the
    /// order of their keyed hashes, the same for every scan of a store), streaming: memory is
    /// one page a run and an index of the unsealed ids. It sees the store as it was when it
    /// began.
    ///
    /// # Errors
    /// `Damaged`, `Closed`; later ones come as items.
    pub fn scan(&self, range: impl RangeBounds<SystemTime>) -> Result<Scan> {
        let core = self.shared.core()?;
        self.check_not_dropped()?;
        core.committer.flush_buffer()?;
        let state = &self.used.state;
        let bound = |b: Bound<&SystemTime>| b.map(|t| since_epoch(*t));
        Ok(Scan {
            ids: core.committer.index.scan(state.number, state.classes())?,
            versions: state.versions(),
            now_ms: core.committer.index.time.now_ms(),
            range: (bound(range.start_bound()), bound(range.end_bound())),
        })
    }
}

/// Ids with their sightings; see [`Scope::scan`].
pub struct Scan {
    ids: IdScan,
    versions: Arc<[Retention]>,
    now_ms: u64,
    range: (Bound<u64>, Bound<u64>),
}

/// A remembered id with all that is kept of it.
pub(crate) struct Whole {
    pub(crate) id: Bytes,
    pub(crate) seen: Sighting,
    pub(crate) expiry_ms: u64,
    pub(crate) fingerprint: Option<Fingerprint>,
}

impl Scan {
    fn step(&mut self) -> Result<Option<(Bytes, Sighting)>> {
        Ok(self.step_whole()?.map(|whole| (whole.id, whole.seen)))
    }

    /// The next id with all that is kept of it.
    pub(crate) fn step_whole(&mut self) -> Result<Option<Whole>> {
        while let Some(record) = self.ids.next()? {
            if !record.meta.is_duplicate_at(self.now_ms) {
                continue;
            }
            let placement = Slice {
                end_ms: 0,
                class: 0,
            };
            let extras = record.extras().map(Box::from);
            let hit = Hit {
                meta: record.meta,
                placement,
                extras,
            };
            let seen = sighting(&hit, &self.versions);
            if self.range.contains(&since_epoch(seen.first_seen_at())) {
                return Ok(Some(Whole {
                    fingerprint: record.extras().and_then(|e| Extras::decode(e).payload),
                    expiry_ms: record.meta.expiry_ms,
                    id: Bytes::from(record.id),
                    seen,
                }));
            }
        }
        Ok(None)
    }
}

impl Iterator for Scan {
    type Item = Result<(Bytes, Sighting)>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step().transpose()
    }
}
