//! The model of waiting: the two passes of holding ids, row locks, closures.
//!
//! Nobody is ever first or duplicate here. A batch holds its ids, locks its rows, reads them,
//! writes each plus one, and lets go. Nothing may get stuck, and no increment may be lost.

use super::explore::{Broken, Label, Model};
use super::rules::{Rule, Rules};

const ROWS: usize = 2;

/// One batch, its ids and rows in the order in which it names them.
#[derive(Clone, Copy)]
struct Batch {
    ids: &'static [u8],
    rows: &'static [u8],
    /// It finds out which rows it needs only as it goes.
    closure: bool,
}

/// Who does what.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    batches: &'static [Batch],
    pub(super) rules: Rules,
}

impl Workload {
    /// The same workload under other rules.
    pub(super) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

/// Batches that name ids and rows against each other's order, one of them an id twice.
pub(super) const BATCHES: Workload = Workload {
    name: "batches",
    batches: &[
        Batch {
            ids: &[0, 1, 0],
            rows: &[0, 1],
            closure: false,
        },
        Batch {
            ids: &[1, 2],
            rows: &[1, 0],
            closure: false,
        },
        Batch {
            ids: &[2, 0],
            rows: &[1],
            closure: false,
        },
    ],
    rules: Rules::ALL,
};

/// Closures among batches.
pub(super) const CLOSURES: Workload = Workload {
    name: "closures",
    batches: &[
        Batch {
            ids: &[0, 1],
            rows: &[0, 1],
            closure: true,
        },
        Batch {
            ids: &[1, 2],
            rows: &[1, 0],
            closure: true,
        },
        Batch {
            ids: &[3],
            rows: &[0, 1],
            closure: true,
        },
        Batch {
            ids: &[4, 0],
            rows: &[1, 0],
            closure: false,
        },
    ],
    rules: Rules::ALL,
};

/// Both.
pub(super) const ALL: &[Workload] = &[BATCHES, CLOSURES];

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// Holding ids without waiting, in the order they came in.
    FirstPass(u8),
    /// Holding them in order, waiting.
    SecondPass(u8),
    /// Locking the rows that are known to be needed, in order, waiting.
    Lock(u8),
    /// A closure on its way, at its n-th row.
    Run(u8),
    Evaluated,
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Caller {
    phase: Phase,
    ids: u8,
    rows: u8,
    /// Rows a closure is known to need.
    recorded: u8,
    read: [u8; ROWS],
}

/// The tables of holds and locks are the callers' own sets, seen from outside.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    callers: Vec<Caller>,
    rows: [u8; ROWS],
    written: [u8; ROWS],
}

type Step = (Label, State);

fn set(of: &[u8]) -> u8 {
    of.iter().fold(0, |set, at| set | 1 << at)
}

/// The `at`-th of a batch's ids or rows, sorted or as named.
fn nth(of: &[u8], sorted: bool, at: u8) -> Option<u8> {
    if !sorted {
        return of.get(at as usize).copied();
    }
    let all = set(of);
    (0..8).filter(|bit| all & (1 << bit) != 0).nth(at as usize)
}

impl State {
    fn step(&self, c: usize, what: &'static str, change: impl FnOnce(&mut Caller)) -> Step {
        let mut next = self.clone();
        change(&mut next.callers[c]);
        (Label::caller(c, what), next)
    }

    fn foreign(&self, c: usize, held: fn(&Caller) -> u8, bit: u8) -> bool {
        let holds = |(other, caller): (usize, &Caller)| other != c && held(caller) & bit != 0;
        self.callers.iter().enumerate().any(holds)
    }

    fn first_pass(&self, setup: &Workload, c: usize, at: u8) -> Option<Step> {
        let Some(id) = nth(setup.batches[c].ids, false, at) else {
            return Some(self.ids_held(setup, c));
        };
        let own = self.callers[c].ids & (1 << id) != 0;
        if own && !setup.rules.on(Rule::RepeatWithinBatch) {
            return None;
        }
        if !self.foreign(c, |caller| caller.ids, 1 << id) {
            let step = self.step(c, "holds id", |caller| {
                caller.ids |= 1 << id;
                caller.phase = Phase::FirstPass(at + 1);
            });
            return Some((step.0.number(id), step.1));
        }
        setup.rules.on(Rule::FirstPassNeverWaits).then(|| {
            self.step(
                c,
                "meets a foreign hold and releases all its ids",
                |caller| {
                    caller.ids = 0;
                    caller.phase = Phase::SecondPass(0);
                },
            )
        })
    }

    fn second_pass(&self, setup: &Workload, c: usize, at: u8) -> Option<Step> {
        let sorted = setup.rules.on(Rule::SecondPassSorted);
        let Some(id) = nth(setup.batches[c].ids, sorted, at) else {
            return Some(self.ids_held(setup, c));
        };
        if self.foreign(c, |caller| caller.ids, 1 << id) {
            return None;
        }
        let (label, next) = self.step(c, "holds, in the second pass, id", |caller| {
            caller.ids |= 1 << id;
            caller.phase = Phase::SecondPass(at + 1);
        });
        Some((label.number(id), next))
    }

    fn ids_held(&self, setup: &Workload, c: usize) -> Step {
        let had_rows = self.callers[c].rows != 0;
        self.step(c, "has all its ids", |caller| {
            let runs = had_rows || setup.batches[c].closure;
            caller.phase = if runs { Phase::Run(0) } else { Phase::Lock(0) };
        })
    }

    fn lock(&self, setup: &Workload, c: usize, at: u8) -> Option<Step> {
        let batch = setup.batches[c];
        let row = match batch.closure {
            true => (at < ROWS as u8).then_some(at),
            false => nth(batch.rows, setup.rules.on(Rule::RowsSorted), at),
        };
        let recorded = self.callers[c].recorded;
        match row {
            None => Some(self.rows_locked(setup, c)),
            Some(row) if batch.closure && recorded & (1 << row) == 0 => {
                Some(self.step(c, "passes a row it did not touch", |caller| {
                    caller.phase = Phase::Lock(at + 1);
                }))
            }
            Some(row) if self.blocked(setup, c, row) => None,
            Some(row) => {
                let (label, next) = self.step(c, "locks row", |caller| {
                    caller.rows |= 1 << row;
                    caller.phase = Phase::Lock(at + 1);
                });
                Some((label.number(row), next))
            }
        }
    }

    fn blocked(&self, setup: &Workload, c: usize, row: u8) -> bool {
        setup.rules.on(Rule::RowsLocked) && self.foreign(c, |caller| caller.rows, 1 << row)
    }

    /// With its rows a batch evaluates; one that took them before its ids takes those now.
    fn rows_locked(&self, setup: &Workload, c: usize) -> Step {
        let ids_first = self.callers[c].ids == set(setup.batches[c].ids);
        self.step(c, "has the rows it knows of", |caller| {
            caller.phase = if ids_first {
                Phase::Run(0)
            } else {
                Phase::FirstPass(0)
            };
        })
    }

    /// Reads row after row. A closure locks each as it comes to it.
    fn run(&self, setup: &Workload, c: usize, at: u8) -> Option<Step> {
        let batch = setup.batches[c];
        let Some(row) = nth(batch.rows, false, at) else {
            let early = !setup.rules.on(Rule::RowsUntilWritten);
            return Some(self.step(c, "has evaluated its items", |caller| {
                caller.phase = Phase::Evaluated;
                if early {
                    caller.rows = 0;
                }
            }));
        };
        if !self.blocked(setup, c, row) {
            let value = self.rows[row as usize];
            let (label, next) = self.step(c, "reads row", |caller| {
                caller.rows |= 1 << row;
                caller.recorded |= 1 << row;
                caller.read[row as usize] = value;
                caller.phase = Phase::Run(at + 1);
            });
            return Some((label.number(row), next));
        }
        setup.rules.on(Rule::ClosureTriesLocks).then(|| {
            self.step(
                c,
                "meets a foreign lock, releases its rows, runs again",
                |caller| {
                    caller.rows = 0;
                    caller.read = [0; ROWS];
                    caller.recorded |= 1 << row;
                    caller.phase = Phase::Lock(0);
                },
            )
        })
    }

    fn commit(&self, setup: &Workload, c: usize) -> Step {
        let (label, mut next) = self.step(c, "writes and releases", |_| ());
        for &row in setup.batches[c].rows {
            let row = row as usize;
            next.rows[row] = self.callers[c].read[row] + 1;
            next.written[row] += 1;
        }
        let (phase, read) = (Phase::Done, [0; ROWS]);
        next.callers[c] = Caller {
            phase,
            ids: 0,
            rows: 0,
            recorded: 0,
            read,
        };
        (label, next)
    }
}

impl Model for State {
    type Setup = Workload;

    fn start(setup: &Workload) -> Self {
        let caller = |c: usize| {
            // Without the rule every second caller does it the other way round.
            let rows_first = !setup.rules.on(Rule::IdsBeforeRows) && c % 2 == 1;
            let phase = if rows_first {
                Phase::Lock(0)
            } else {
                Phase::FirstPass(0)
            };
            Caller {
                phase,
                ids: 0,
                rows: 0,
                recorded: 0,
                read: [0; ROWS],
            }
        };
        let callers = (0..setup.batches.len()).map(caller).collect();
        Self {
            callers,
            rows: [0; ROWS],
            written: [0; ROWS],
        }
    }

    fn steps(&self, setup: &Workload) -> Vec<Step> {
        let step = |c: usize| match self.callers[c].phase {
            Phase::FirstPass(at) => self.first_pass(setup, c, at),
            Phase::SecondPass(at) => self.second_pass(setup, c, at),
            Phase::Lock(at) => self.lock(setup, c, at),
            Phase::Run(at) => self.run(setup, c, at),
            Phase::Evaluated => Some(self.commit(setup, c)),
            Phase::Done => None,
        };
        (0..self.callers.len()).filter_map(step).collect()
    }

    fn broken(&self, _: &Workload) -> Option<Broken> {
        (self.rows != self.written).then_some(Broken::LostUpdate)
    }

    fn finished(&self, _: &Workload) -> bool {
        self.callers
            .iter()
            .all(|caller| caller.phase == Phase::Done)
    }
}
