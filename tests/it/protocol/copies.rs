//! The model of copies: checkpoints, restores, filter snapshots, run ids, incarnations.
//!
//! A store commits ids one by one and seals them into runs. Beside it lie its floor and a filter
//! snapshot. A checkpoint is a copy; a restore puts it in place of the store, where the floor and
//! the snapshot of the newer store may still lie. What a restored store must remember is what the
//! copy holds, no more; but that it must.

use super::explore::{Broken, Label, Model};
use super::rules::{Rule, Rules};

/// Bounds.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    commits: u8,
    seals: u8,
    pub(super) rules: Rules,
}

impl Workload {
    /// The same workload under other rules.
    pub(super) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

/// The one workload.
pub(super) const RESTORE: Workload = Workload {
    name: "restore",
    commits: 5,
    seals: 4,
    rules: Rules::ALL,
};

/// All of them.
pub(super) const ALL: &[Workload] = &[RESTORE];

const IDS: u8 = 3;

/// A run: its id, and the ids in it.
type Run = (u8, u8);

/// What is in the database, and so in a copy of it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Store {
    incarnation: u8,
    runs: Vec<Run>,
    /// Committed and not sealed.
    active: u8,
    last_n: u8,
    marker: u8,
}

impl Store {
    fn ids(&self) -> u8 {
        self.runs.iter().fold(self.active, |all, run| all | run.1)
    }
}

/// Somebody who was told `Unknown` about a commit.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Unknown {
    incarnation: u8,
    n: u8,
    id: u8,
}

/// A store, the files beside it, a copy.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    store: Store,
    floor: u8,
    snapshot: Option<Vec<Run>>,
    /// The runs a filter in memory says nothing new of, if one is in use.
    filter: Option<u8>,
    copy: Option<Store>,
    restored: bool,
    unknown: Option<Unknown>,
    /// Stands for randomness: never the same twice.
    fresh: u8,
    commits: u8,
    seals: u8,
    broken: Option<Broken>,
}

type Step = (Label, State);

impl State {
    fn step(&self, what: &'static str, change: impl FnOnce(&mut Self)) -> Step {
        let mut next = self.clone();
        change(&mut next);
        (Label::store(what), next)
    }

    fn commit_steps(&self, out: &mut Vec<Step>) {
        for id in (0..IDS).filter(|id| self.store.ids() & (1 << id) == 0) {
            let commit = |next: &mut Self| {
                next.commits -= 1;
                next.store.last_n += 1;
                next.store.active |= 1 << id;
            };
            let (label, next) = self.step("commits id", commit);
            out.push((label.number(id), next));
            if self.unknown.is_some() {
                continue;
            }
            let (label, next) = self.step("commits, and tells the caller Unknown, id", |next| {
                commit(next);
                let Store {
                    incarnation,
                    last_n: n,
                    ..
                } = next.store;
                next.unknown = Some(Unknown { incarnation, n, id });
            });
            out.push((label.number(id), next));
        }
    }

    fn seal(&self, setup: &Workload) -> Step {
        self.step("seals", |next| {
            next.seals -= 1;
            let run_id = match setup.rules.on(Rule::RandomRunIds) {
                true => next.draw(),
                false => next.store.runs.len() as u8,
            };
            let ids = std::mem::take(&mut next.store.active);
            next.store.runs.push((run_id, ids));
            next.store.marker = next.store.last_n;
            next.floor = next.store.marker;
            next.filter = next.filter.map(|filter| filter | ids);
        })
    }

    fn draw(&mut self) -> u8 {
        self.fresh += 1;
        self.fresh
    }

    /// Open: a snapshot is used if it may be.
    fn open(&mut self, setup: &Workload) {
        if self.store.marker < self.floor {
            self.broken = Some(Broken::FalseRefusal);
        }
        let listed = |snapshot: &Vec<Run>| {
            let lists = |run: &Run| snapshot.iter().any(|of| of.0 == run.0);
            self.store.runs.iter().all(lists) || !setup.rules.on(Rule::SnapshotListsEveryRun)
        };
        let usable = self.snapshot.as_ref().filter(|snapshot| listed(snapshot));
        self.filter = usable.map(|runs| runs.iter().fold(0, |all, run| all | run.1));
    }

    fn restore(&self, setup: &Workload, copy: &Store) -> Step {
        self.step("is replaced by the copy and opened", |next| {
            next.store = copy.clone();
            next.restored = true;
            if setup.rules.on(Rule::NewIncarnation) {
                next.store.incarnation = next.draw();
            }
            if setup.rules.on(Rule::FloorOfTheCopy) {
                next.floor = copy.marker;
            }
            next.open(setup);
        })
    }

    /// The commit of that number counts as the caller's, if the incarnation is the same.
    fn ask(&self, unknown: Unknown) -> Step {
        self.step("is asked about the unknown commit", |next| {
            next.unknown = None;
            let Unknown { incarnation, n, id } = unknown;
            let recorded = incarnation == self.store.incarnation && n <= self.store.last_n;
            if recorded && self.store.ids() & (1 << id) == 0 {
                next.broken = Some(Broken::WrongAnswer);
            }
        })
    }
}

impl Model for State {
    type Setup = Workload;

    fn start(setup: &Workload) -> Self {
        let store = Store {
            incarnation: 0,
            runs: Vec::new(),
            active: 0,
            last_n: 0,
            marker: 0,
        };
        Self {
            store,
            floor: 0,
            snapshot: None,
            filter: None,
            copy: None,
            restored: false,
            unknown: None,
            fresh: 0,
            commits: setup.commits,
            seals: setup.seals,
            broken: None,
        }
    }

    fn steps(&self, setup: &Workload) -> Vec<Step> {
        let mut out = Vec::new();
        if self.commits > 0 {
            self.commit_steps(&mut out);
        }
        if self.seals > 0 && self.store.active != 0 {
            out.push(self.seal(setup));
        }
        if self.snapshot.as_ref() != Some(&self.store.runs) {
            let runs = self.store.runs.clone();
            out.push(self.step("writes a filter snapshot", |next| {
                next.snapshot = Some(runs)
            }));
        }
        out.push(self.step("is closed and opened", |next| next.open(setup)));
        match &self.copy {
            None => out.push(self.step("is copied", |next| next.copy = Some(next.store.clone()))),
            Some(copy) if !self.restored => out.push(self.restore(setup, copy)),
            Some(_) => {}
        }
        out.extend(self.unknown.map(|unknown| self.ask(unknown)));
        out
    }

    fn broken(&self, _: &Workload) -> Option<Broken> {
        let sealed = self.store.runs.iter().fold(0, |all, run| all | run.1);
        let missed = self.filter.is_some_and(|filter| sealed & !filter != 0);
        self.broken.or(missed.then_some(Broken::Double))
    }

    fn finished(&self, _: &Workload) -> bool {
        true
    }
}
