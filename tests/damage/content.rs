//! A store whose content is known: commits one after another, each with ids of two retentions, a
//! row an id, a counter and the resume point.
//!
//! So the content after k commits is known for every k, and the resume point says which k it is.
//! Some commits are sealed and merged, with filters on disk; some lie in table files of a log
//! family, since they were replayed once; the last ones are in the write-ahead log alone.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use firstseen::{Clock, Durability, ManualClock, Options, Policy, Resources, Scope, Store, Table};
use firstseen::{Result, days};

/// Ids of the first scope in one commit.
const IDS: u64 = 40;
/// Commits of each stage: sealed and merged, sealed, replayed, in the log alone.
const STAGES: [u64; 4] = [60, 20, 10, 10];
/// Commits that a floor covers: all before the second session.
pub(crate) const FLOOR: u64 = STAGES[0] + STAGES[1] + STAGES[2];
/// All commits with a resume point.
pub(crate) const ALL: u64 = FLOOR + STAGES[3];
/// Commits without one: the forgotten id came and went.
pub(crate) const OTHERS: u64 = 2;
/// How much later the second stage begins.
const LATER: Duration = Duration::from_secs(38 * 3600);
/// The source whose resume point counts the commits.
pub(crate) const SOURCE: &str = "orders/0";
/// An id that was forgotten, and the reason.
pub(crate) const FORGOTTEN: (&str, &str) = ("forgotten", "asked for");

/// How stores are opened: the same clock, small resources, nothing in the background.
pub(crate) struct Setup {
    resources: Resources,
    clock: ManualClock,
    began: SystemTime,
}

impl Setup {
    pub(crate) fn new() -> Setup {
        let clock = ManualClock::new();
        Setup {
            resources: Resources::new()
                .cache_bytes(16 << 20)
                .segment_bytes(4 << 20),
            began: clock.now(),
            clock,
        }
    }

    /// The same, at the time when the content is complete.
    pub(crate) fn later() -> Setup {
        let setup = Setup::new();
        setup.clock.advance(LATER);
        setup
    }

    pub(crate) fn options(&self, level: Durability) -> Options {
        Options::new()
            .resources(&self.resources)
            .clock(Clock::Manual(self.clock.clone()))
            .durability(level)
            .background(false)
    }

    /// When commit `k` was made.
    pub(crate) fn made_at(&self, k: u64) -> SystemTime {
        match k <= STAGES[0] {
            true => self.began,
            false => self.began + LATER,
        }
    }
}

/// An open store with its handles.
pub(crate) struct Open {
    pub(crate) store: Store,
    pub(crate) week: Scope,
    pub(crate) month: Scope,
    pub(crate) rows: Table,
    pub(crate) total: Table,
}

impl Open {
    pub(crate) fn new(dir: &Path, options: Options) -> Result<Open> {
        let store = Store::open(dir, options)?;
        Ok(Open {
            week: store.scope("week", Policy::remember(days(7)))?,
            month: store.scope("month", Policy::remember(days(30)))?,
            rows: store.table("rows")?,
            total: store.guarded_table("total")?,
            store,
        })
    }

    fn commit(&self, commits: impl IntoIterator<Item = u64>) {
        for k in commits {
            let mut batch = self.store.batch();
            for id in week_ids(k) {
                let value = row(&id);
                batch.once(&self.week, &id).put(&self.rows, &id, value);
            }
            batch
                .once(&self.month, &month_id(k))
                .add(&self.total, "n", 1, ..);
            batch.resume_at(SOURCE, k);
            assert!(batch.commit().unwrap().iter().all(|v| v.is_first()));
        }
    }

    pub(crate) fn close(self) -> Result<()> {
        let store = self.store.clone();
        drop(self);
        store.close()
    }
}

pub(crate) fn week_ids(k: u64) -> impl Iterator<Item = String> {
    (0..IDS).map(move |i| format!("order-{k:04}-{i:04}"))
}

pub(crate) fn month_id(k: u64) -> String {
    format!("customer-{k}")
}

/// The row of an id.
pub(crate) fn row(id: &str) -> String {
    format!("the row of {id}")
}

/// How the processes left a store that is damaged then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum State {
    /// Closed, ten commits ago.
    Older,
    /// Killed: the floor is that of the older one.
    Killed,
    /// Killed just after the floor was renewed.
    Renewed,
    /// Closed.
    Closed,
    /// Closed after everything was sealed.
    Sealed,
}

/// Makes the store in each of its states, in directories of `root` named by [`path`].
pub(crate) fn make(root: &Path, level: Durability) {
    let setup = Setup::new();
    let at = |state| path(root, level, state);
    let mut commits = 1..=ALL;
    let open = Open::new(&at(State::Closed), setup.options(level)).unwrap();
    assert!(open.week.insert(FORGOTTEN.0).unwrap().is_first());
    open.commit(commits.by_ref().take(STAGES[0] as usize / 2));
    open.store.seal().unwrap();
    assert!(open.week.forget(FORGOTTEN.0, FORGOTTEN.1).unwrap());
    open.commit(commits.by_ref().take(STAGES[0] as usize / 2));
    setup.clock.advance(LATER);
    open.store.compact().unwrap();
    open.commit(commits.by_ref().take(STAGES[1] as usize));
    open.store.seal().unwrap();
    open.commit(commits.by_ref().take(STAGES[2] as usize));
    open.close().unwrap();
    copy(&at(State::Closed), &at(State::Older));
    let open = Open::new(&at(State::Closed), setup.options(level)).unwrap();
    open.commit(commits.by_ref());
    copy(&at(State::Closed), &at(State::Killed));
    open.close().unwrap();
    // What the floor says then, beside the files of the killed one.
    copy(&at(State::Killed), &at(State::Renewed));
    let floor = |state| at(state).join("FLOOR");
    std::fs::copy(floor(State::Closed), floor(State::Renewed)).unwrap();
    copy(&at(State::Closed), &at(State::Sealed));
    let open = Open::new(&at(State::Sealed), setup.options(level)).unwrap();
    open.store.seal().unwrap();
    open.close().unwrap();
}

/// Where [`make`] puts a store.
pub(crate) fn path(root: &Path, level: Durability, state: State) -> PathBuf {
    root.join(format!("{level:?}-{state:?}"))
}

/// Copies a directory with all that is in it.
pub(crate) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &to);
        } else {
            std::fs::copy(entry.path(), to).unwrap();
        }
    }
}

/// Opens a store, does something to it and closes it.
pub(crate) fn change(dir: &Path, level: Durability, act: impl FnOnce(&Open)) {
    let open = Open::new(dir, Setup::later().options(level)).unwrap();
    act(&open);
    open.close().unwrap();
}
