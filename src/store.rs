//! A store: one open directory, the unit of atomicity, ownership and movement.

mod observed;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::approx::Approximate;
use crate::approximate::ApproximateScope;
use crate::background::Background;
use crate::batch::Batch;
use crate::catalog::{ScopeState, TableKind};
use crate::commit::{DraftCaps, ScopeUse};
use crate::engine::Home;
#[cfg(feature = "testing")]
use crate::engine::Injection;
use crate::error::{Error, Result};
use crate::options::Options;
use crate::policy::Policy;
use crate::position::Position;
use crate::scope::Scope;
use crate::sequences::Sequences;
use crate::stats::{Health, Stats};
use crate::sync::ArcSwapOption;
use crate::table::Table;

pub(crate) use crate::core::Core;

/// What all handles of a store share: the open core, until it is closed.
pub(crate) struct Shared {
    core: ArcSwapOption<Core>,
    pub(crate) caps: DraftCaps,
    pub(crate) home: Home,
    pub(crate) options: Options,
    /// Of a store that is only read: who had it open then, if anybody.
    pub(crate) opener: Option<Option<String>>,
    /// Effective time as it was opened.
    pub(crate) opened_at: SystemTime,
}

impl Shared {
    /// The open core.
    ///
    /// # Errors
    /// `Closed`.
    pub(crate) fn core(&self) -> Result<Arc<Core>> {
        self.core.load_full().ok_or_else(Error::closed)
    }

    /// What stays free of the file system.
    pub(crate) fn free_bytes_min(&self) -> u64 {
        self.options.free_bytes_min
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(core) = self.core.swap(None)
            && let Err(error) = core.close_unattended(self.options.wait_max)
        {
            log::error!("closing the store: {error}");
        }
    }
}

/// An open store. Cheap to clone; `Send + Sync`. Dropping the last handle of a store (its
/// scopes, tables and batches included) closes it.
///
/// One process has one store open at a time in a directory; a second opener gets
/// `AlreadyOpen`.
#[derive(Clone)]
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let directory = self.shared.home.directory();
        f.debug_struct("Store")
            .field("directory", &directory)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Opens the store in a directory, or makes a new one in a missing or empty directory.
    ///
    /// Takes time in proportion to the *unsealed* ids (well below a second a million); filters
    /// load in the background meanwhile ([`Store::health`]). An unreadable store is an error,
    /// never silently an empty one.
    ///
    /// # Errors
    /// `Invalid` with all violations of the options; `AlreadyOpen` with the other opener;
    /// `Damaged`; `RecoveredShort` if less came back than was durable; I/O errors.
    pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Store> {
        let dir = dir.as_ref();
        if dir.as_os_str().is_empty() {
            return Err(Error::invalid("the store's directory has no name"));
        }
        let home = Home::at(dir);
        #[cfg(all(feature = "testing", feature = "raw"))]
        let home = home.through(options.env.as_ref());
        Store::open_home(home, options)
            .map_err(|e| e.context(format_args!("store {}", dir.display())))
    }

    /// A store in memory: the same engine and verdicts, no directory. It lives as long as its
    /// handles, and through [`Store::crash_and_reopen`].
    ///
    /// # Errors
    /// As [`Store::open`].
    #[cfg(feature = "testing")]
    pub fn in_memory(options: Options) -> Result<Store> {
        Store::open_home(Home::memory()?, options)
    }

    fn open_home(home: Home, options: Options) -> Result<Store> {
        let core = Core::open(home.clone(), &options)?;
        let weak: std::sync::Weak<dyn Background> = Arc::downgrade(&core) as _;
        core.register(weak);
        Ok(Store::of_core(core, home, options, None))
    }

    pub(crate) fn of_core(
        core: Arc<Core>,
        home: Home,
        options: Options,
        opener: Option<Option<String>>,
    ) -> Store {
        let caps = core.caps;
        let opened_at = UNIX_EPOCH + Duration::from_millis(core.index().time.now_ms());
        let core = ArcSwapOption::from(Some(core));
        Store {
            shared: Arc::new(Shared {
                core,
                caps,
                home,
                options,
                opener,
                opened_at,
            }),
        }
    }

    /// Makes a scope, or finds the one of that name. Safe to call at every start.
    ///
    /// # Errors
    /// `Invalid` with all violations of the policy, or if the stored scope has other semantics
    /// ([`Store::alter_scope`] changes a retention); `Full` beyond `scopes_max`.
    pub fn scope(&self, name: &str, policy: Policy) -> Result<Scope> {
        let core = self.shared.core()?;
        let state = core.committer.catalog.scope(name, &policy)?;
        Ok(self.scope_handle(&core, state, policy))
    }

    fn scope_handle(&self, core: &Core, state: Arc<ScopeState>, policy: Policy) -> Scope {
        let used = ScopeUse {
            state,
            policy: Arc::new(policy),
            hash: core.index().ids,
        };
        Scope {
            shared: Arc::clone(&self.shared),
            used,
        }
    }

    /// The names of the scopes it has.
    ///
    /// # Errors
    /// `Closed`.
    pub fn scopes(&self) -> Result<Vec<String>> {
        Ok(self.shared.core()?.committer.catalog.scope_names())
    }

    /// A scope as it is stored, for tools that look at a store; `None` if there is no such.
    ///
    /// # Errors
    /// `Closed`.
    pub fn existing_scope(&self, name: &str) -> Result<Option<Scope>> {
        let core = self.shared.core()?;
        let found = core.committer.catalog.existing_scope(name);
        Ok(found.map(|state| {
            let retention = state.versions().last().copied();
            let policy = Policy::stored(retention, state.own_time);
            self.scope_handle(&core, state, policy)
        }))
    }

    /// Changes a scope's retention for ids recorded from now on; those already there keep
    /// theirs. The form (fixed, sliding, for ever) can't change, nor can anything of a scope whose
    /// ids carry their own time. Other handles of the scope
    /// follow at once.
    ///
    /// # Errors
    /// `Invalid` if there is no such scope, the form differs or the policy is wrong.
    pub fn alter_scope(&self, name: &str, policy: Policy) -> Result<Scope> {
        let core = self.shared.core()?;
        let state = core.committer.catalog.alter_scope(name, &policy)?;
        Ok(self.scope_handle(&core, state, policy))
    }

    /// Drops a scope with its ids, claims and dead letters; false if there is none. Its handles
    /// get `Invalid` from then on. A new scope of the name starts empty: numbers are never used
    /// again.
    ///
    /// # Errors
    /// `Degraded`, `Closed`.
    pub fn drop_scope(&self, name: &str) -> Result<bool> {
        self.shared.core()?.committer.drop_scope(name)
    }

    /// Makes a plain table, or finds the one of that name; also while the store is in use.
    ///
    /// # Errors
    /// `Invalid` if it is of another kind; `Full` beyond `tables_max`.
    pub fn table(&self, name: &str) -> Result<Table> {
        self.table_of(name, TableKind::Plain)
    }

    /// Makes a guarded table, or finds the one of that name.
    ///
    /// # Errors
    /// `Invalid` if it is of another kind; `Full` beyond `tables_max`.
    pub fn guarded_table(&self, name: &str) -> Result<Table> {
        self.table_of(name, TableKind::Guarded)
    }

    fn table_of(&self, name: &str, kind: TableKind) -> Result<Table> {
        let state = self.shared.core()?.committer.catalog.table(name, kind)?;
        Ok(Table {
            shared: Arc::clone(&self.shared),
            state,
        })
    }

    /// A table as it is stored, for tools; `None` if there is no such.
    ///
    /// # Errors
    /// `Closed`.
    pub fn existing_table(&self, name: &str) -> Result<Option<Table>> {
        let found = self.shared.core()?.committer.catalog.existing_table(name);
        let found = found.filter(|state| state.kind != TableKind::Outbox);
        Ok(found.map(|state| Table {
            shared: Arc::clone(&self.shared),
            state,
        }))
    }

    /// Drops a table or an outbox with all its rows; false if there is none. Waits for commits
    /// under way.
    ///
    /// # Errors
    /// `Degraded`, `Closed`.
    pub fn drop_table(&self, name: &str) -> Result<bool> {
        self.shared.core()?.committer.drop_table(name)
    }

    /// Makes an approximate scope, or brings it back as it was closed: a filter in fixed memory,
    /// for streams where a stated share of new ids may be taken for seen ones. Its names are
    /// apart from those of exact scopes. Reads its snapshot, if there is one.
    ///
    /// Within the window it never takes a seen id for a new one, in one opening and over clean
    /// closes. After a crash, ids since the last snapshot may be first again, and
    /// [`ApproximateScope::recovery`] says from when on.
    ///
    /// # Errors
    /// `Invalid` with all violations, or if it was made for something else; `Damaged` if its
    /// snapshot is ([`Store::drop_approximate`] begins anew); `Busy` if the memory is not to be
    /// had; I/O errors.
    pub fn approximate(&self, name: &str, made_for: Approximate) -> Result<ApproximateScope> {
        let core = self.shared.core()?;
        core.check_may_write()?;
        let index = core.index();
        // Keyed by the store, so that nobody outside can make ids that look seen.
        let seed = index.ids.of(u16::MAX, name.as_bytes());
        let (home, now_ms) = (index.engine.home(), index.time.now_ms());
        let state = core
            .approximates
            .open(home, name, &made_for, seed, now_ms)?;
        Ok(ApproximateScope {
            shared: Arc::clone(&self.shared),
            state,
        })
    }

    /// Drops an approximate scope with its files; false if there is none. Its handles get
    /// `Invalid` from then on.
    ///
    /// # Errors
    /// `Closed`; I/O errors.
    pub fn drop_approximate(&self, name: &str) -> Result<bool> {
        let core = self.shared.core()?;
        core.check_may_write()?;
        core.approximates.drop(core.index().engine.home(), name)
    }

    /// An empty batch.
    #[must_use]
    pub fn batch(&self) -> Batch {
        Batch::new(&self.shared)
    }

    /// Where to go on reading a source: the *next* position, as the last commit left it.
    ///
    /// # Errors
    /// `Damaged`, `Closed`.
    pub fn resume_point(&self, source: &str) -> Result<Option<Position>> {
        self.shared.core()?.committer.resume_point(source)
    }

    /// Returns once everything that returned before is safe from a power failure. One fsync,
    /// however many commits it covers.
    ///
    /// # Errors
    /// `Full` while the disk is: nothing is lost, sync again when there is room. `Degraded` if it
    /// failed: the store stops writing then, and a reopening decides what is there.
    pub fn sync(&self) -> Result<()> {
        self.shared.core()?.committer.sync()
    }

    /// Seals the ids in memory now, and does all background work that is due. Not needed in
    /// ordinary use.
    ///
    /// # Errors
    /// What background work failed with.
    pub fn seal(&self) -> Result<()> {
        let core = self.shared.core()?;
        core.committer.flush_buffer()?;
        core.look_for_surges();
        core.committer.keep_top()?;
        core.committer.index.seal_now()
    }

    /// Seals, and merges every generation into one run; drops what has expired. Not needed in
    /// ordinary use.
    ///
    /// # Errors
    /// What background work failed with.
    pub fn compact(&self) -> Result<()> {
        let core = self.shared.core()?;
        core.committer.flush_buffer()?;
        core.committer.index.compact_now()?;
        core.committer.sweep_claims()?;
        core.committer.expire_audit()
    }

    /// Makes a consistent copy of the store in a new directory: ids, rows and resume points of
    /// one moment, everything that returned before included. It opens as a store of its own.
    ///
    /// # Errors
    /// `Invalid` if the directory exists or the store is in memory; I/O errors.
    pub fn checkpoint(&self, dir: impl AsRef<Path>) -> Result<()> {
        self.shared.core()?.checkpoint(dir.as_ref())
    }

    /// Believes the system's wall clock after it jumped ahead by more than `clock_jump_max`
    /// and expiry froze.
    ///
    /// # Errors
    /// `Closed`.
    pub fn accept_clock(&self) -> Result<()> {
        self.shared.core()?.committer.index.time.accept();
        Ok(())
    }

    /// Counters and sizes. Costs a look at each generation's files.
    ///
    /// # Errors
    /// `Closed`; I/O errors.
    pub fn stats(&self) -> Result<Stats> {
        self.shared.core()?.stats()
    }

    /// Whether it serves. Cheap.
    #[must_use]
    pub fn health(&self) -> Health {
        match self.shared.core() {
            Ok(core) => core.health(),
            Err(error) => Health::Degraded(error.to_string()),
        }
    }

    /// Closes it: finishes what was submitted, syncs, waits for background work. Other handles
    /// then get `Closed`.
    ///
    /// # Errors
    /// `Busy` if calls, scans or held batches still use it after `wait_max`: the directory is
    /// free once they end. What the last sync failed with. The store is closed in any case.
    pub fn close(self) -> Result<()> {
        self.close_within(None)
    }

    pub(crate) fn close_within(&self, within: Option<Duration>) -> Result<()> {
        let core = self.shared.core.swap(None).ok_or_else(Error::closed)?;
        let wait = within.unwrap_or(self.shared.options.wait_max);
        core.close_and_wait(wait)
    }

    /// Whether a call may still be made.
    pub(crate) fn is_open(&self) -> bool {
        self.shared.core.load().is_some()
    }

    /// Makes the next write fail.
    ///
    /// # Errors
    /// `Closed`.
    #[cfg(feature = "testing")]
    pub fn fail_next_commit(&self, failure: NextCommit) -> Result<()> {
        use crate::index::NextFailure;
        self.shared
            .core()?
            .committer
            .index
            .fail_next(match failure {
                NextCommit::NotRecorded => NextFailure::Before,
                NextCommit::UnknownLost => NextFailure::Lost,
                NextCommit::UnknownWritten => NextFailure::After,
            });
        Ok(())
    }

    /// Makes the engine's calls at a place fail; also after a reopening.
    ///
    /// # Errors
    /// `Closed`.
    #[cfg(feature = "testing")]
    pub fn inject(&self, fault: Injection) -> Result<()> {
        let core = self.shared.core()?;
        core.index().engine.home().faults.add(fault);
        Ok(())
    }

    /// Takes back all faults that were asked for and not met yet.
    ///
    /// # Errors
    /// `Closed`.
    #[cfg(feature = "testing")]
    pub fn clear_faults(&self) -> Result<()> {
        let core = self.shared.core()?;
        core.index().engine.home().faults.clear();
        Ok(())
    }

    /// Drops the store as a killed process would, and opens it again. Old handles get
    /// `Closed`. Buffered commits are lost, others are not.
    ///
    /// # Errors
    /// As [`Store::open`]; `Busy` if other handles are in a call.
    #[cfg(feature = "testing")]
    pub fn crash_and_reopen(self) -> Result<Store> {
        let core = self.shared.core.swap(None).ok_or_else(Error::closed)?;
        core.crash(self.shared.options.wait_max)?;
        Store::open_home(self.shared.home.clone(), self.shared.options.clone())
    }
}

/// How the next commit fails; see [`Store::fail_next_commit`].
#[cfg(feature = "testing")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NextCommit {
    /// Before anything is written.
    NotRecorded,
    /// The outcome is unknown, and it was not written.
    UnknownLost,
    /// The outcome is unknown, and it was written.
    UnknownWritten,
}

const _: fn() = || {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn owned<T: Send + 'static>() {}
    shared::<Store>();
    shared::<Scope>();
    shared::<Sequences>();
    shared::<Table>();
    shared::<ApproximateScope>();
    owned::<Batch>();
    owned::<crate::batch::Submitted>();
    shared::<Options>();
    owned::<Error>();
};
