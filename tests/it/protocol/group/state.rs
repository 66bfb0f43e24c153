//! What a state of group commit holds, and the steps of callers and of the world.

use super::super::explore::{Broken, Label, Model};
use super::super::rules::Rule;
use super::leader::Leader;
use super::workload::{Call, Workload};

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    Ready,
    /// Only without `MarkAfterHold`.
    Prepared,
    Held,
    Queued,
    /// In the leader's write.
    Member,
    /// In the set, or found there; the log has to be flushed.
    Settled,
    /// With the mark captured, and how much of the log was written then.
    Flushing(u8, u8),
    /// Told `Unknown` with this n.
    Unknown(u8),
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) done: u8,
    pub(super) phase: Phase,
    pub(super) mark: u8,
}

/// One record of the write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) ids: u8,
    pub(super) effects: u8,
    pub(super) first_n: u8,
    pub(super) last_n: u8,
    pub(super) promised: bool,
}

/// One store and its callers.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct State {
    pub(super) callers: Vec<Caller>,
    pub(super) leaders: Vec<Leader>,
    pub(super) wal: Vec<Entry>,
    /// How many entries no power failure can take.
    pub(super) synced: u8,
    pub(super) set: u8,
    pub(super) next_n: u8,
    pub(super) written: u8,
    pub(super) durable: u8,
    pub(super) poisoned: bool,
    pub(super) crashes: u8,
    pub(super) errors: u8,
    pub(super) broken: Option<Broken>,
}

pub(super) type Steps = Vec<(Label, State)>;

impl State {
    pub(super) fn call(&self, setup: &Workload, c: usize) -> Option<Call> {
        setup.programs[c]
            .get(self.callers[c].done as usize)
            .copied()
    }

    fn caller_steps(&self, setup: &Workload, c: usize, call: Call, out: &mut Steps) {
        match self.callers[c].phase {
            Phase::Ready if !setup.rules.on(Rule::MarkAfterHold) => {
                let mut next = self.clone();
                next.callers[c].mark = self.written;
                next.callers[c].phase = Phase::Prepared;
                out.push((
                    Label::caller(c, "reads the written mark before its hold"),
                    next,
                ));
            }
            Phase::Ready | Phase::Prepared => out.extend(self.hold(setup, c, call)),
            Phase::Held => out.push(self.resolve(setup, c, call)),
            Phase::Settled => {
                let mut next = self.clone();
                next.callers[c].phase = Phase::Flushing(self.written, self.wal.len() as u8);
                out.push((
                    Label::caller(c, "starts a flush, having written").number(self.written),
                    next,
                ));
            }
            Phase::Flushing(mark, written) => {
                let mut next = self.clone();
                next.synced = self.synced.max(written);
                let mark = match setup.rules.on(Rule::MarkBeforeFlush) {
                    true => mark,
                    false => self.written,
                };
                next.durable = self.durable.max(mark);
                next.acknowledge(c, call);
                out.push((Label::caller(c, "ends its flush and returns"), next));
            }
            Phase::Unknown(n) => out.extend(self.ask_late(setup, c, call, n)),
            Phase::Queued | Phase::Member => {}
        }
    }

    fn hold(&self, setup: &Workload, c: usize, call: Call) -> Option<(Label, Self)> {
        let holds = |(other, caller): (usize, &Caller)| {
            let same = self
                .call(setup, other)
                .is_some_and(|other| other.id == call.id);
            caller.phase >= Phase::Held && same
        };
        if self.callers.iter().enumerate().any(holds) {
            return None;
        }
        let mut next = self.clone();
        next.callers[c].phase = Phase::Held;
        Some((Label::caller(c, "holds id").number(call.id), next))
    }

    fn resolve(&self, setup: &Workload, c: usize, call: Call) -> (Label, Self) {
        let mut next = self.clone();
        if self.set & (1 << call.id) == 0 {
            next.callers[c].phase = Phase::Queued;
            return (Label::caller(c, "is first and queues its commit"), next);
        }
        let mark = match setup.rules.on(Rule::MarkAfterHold) {
            true => self.written,
            false => self.callers[c].mark,
        };
        let waits = setup.rules.on(Rule::DuplicateWaits) && mark > self.durable;
        if call.synced && waits {
            next.callers[c].phase = Phase::Settled;
            return (
                Label::caller(c, "is a duplicate that is not durable yet"),
                next,
            );
        }
        next.acknowledge(c, call);
        (Label::caller(c, "returns duplicate"), next)
    }

    /// The call returns: what it was told is a promise from now on.
    pub(super) fn acknowledge(&mut self, c: usize, call: Call) {
        let bit = 1 << call.id;
        match self.wal.iter_mut().find(|entry| entry.ids & bit != 0) {
            Some(entry) => entry.promised |= call.synced,
            None => self.broken = Some(Broken::Lost),
        }
        self.callers[c] = Caller {
            done: self.callers[c].done + 1,
            phase: Phase::Ready,
            mark: 0,
        };
    }

    /// Only without `UnknownAnsweredAtOpen`: whichever commit has that number now.
    fn ask_late(&self, setup: &Workload, c: usize, call: Call, n: u8) -> Option<(Label, Self)> {
        if self.poisoned || setup.rules.on(Rule::UnknownAnsweredAtOpen) {
            return None;
        }
        let mut next = self.clone();
        next.answer_unknown(c, call, n);
        Some((
            Label::caller(c, "asks long after the open for commit").number(n),
            next,
        ))
    }

    fn answer_unknown(&mut self, c: usize, call: Call, n: u8) {
        if !self
            .wal
            .iter()
            .any(|entry| entry.first_n <= n && n <= entry.last_n)
        {
            self.callers[c].phase = Phase::Ready;
        } else if self.wal.iter().any(|entry| entry.ids & (1 << call.id) != 0) {
            self.acknowledge(c, call);
        } else {
            self.broken = Some(Broken::WrongAnswer);
        }
    }

    /// Death with `keep` entries left, and the open after it.
    fn reopened(&self, setup: &Workload, keep: usize) -> Self {
        let mut next = self.clone();
        let cut = next.wal.split_off(keep);
        if cut.iter().any(|entry| entry.promised) {
            next.broken = Some(Broken::Lost);
        }
        let kept = |of: fn(&Entry) -> u8| next.wal.iter().map(of).fold(0, |all, ids| all | ids);
        let (ids, effects) = (kept(|entry| entry.ids), kept(|entry| entry.effects));
        if ids != effects {
            next.broken = Some(Broken::Torn);
        }
        next.set = ids;
        next.synced = keep as u8;
        let last_n = next.wal.iter().map(|entry| entry.last_n).max().unwrap_or(0);
        (next.written, next.durable, next.next_n) = (last_n, last_n, last_n + 1);
        next.poisoned = false;
        next.leaders.clear();
        for c in 0..next.callers.len() {
            match (next.callers[c].phase, next.call(setup, c)) {
                (Phase::Unknown(n), Some(call)) => {
                    if setup.rules.on(Rule::UnknownAnsweredAtOpen) {
                        next.answer_unknown(c, call, n);
                    }
                }
                _ => {
                    next.callers[c] = Caller {
                        phase: Phase::Ready,
                        mark: 0,
                        ..next.callers[c]
                    }
                }
            }
        }
        next
    }

    fn world_steps(&self, setup: &Workload, out: &mut Steps) {
        let all = self.wal.len();
        if self.poisoned {
            out.push((Label::store("is reopened"), self.reopened(setup, all)));
        }
        if self.crashes == 0 {
            return;
        }
        for keep in self.synced as usize..=all {
            let mut next = self.reopened(setup, keep);
            next.crashes -= 1;
            let label = Label::world("the power fails, log records cut off:");
            out.push((label.number((all - keep) as u8), next));
        }
    }
}

impl Model for State {
    type Setup = Workload;

    fn start(setup: &Workload) -> Self {
        let ready = Caller {
            done: 0,
            phase: Phase::Ready,
            mark: 0,
        };
        Self {
            callers: vec![ready; setup.programs.len()],
            leaders: Vec::new(),
            wal: Vec::new(),
            synced: 0,
            set: 0,
            next_n: 1,
            written: 0,
            durable: 0,
            poisoned: false,
            crashes: setup.crashes,
            errors: setup.errors,
            broken: None,
        }
    }

    fn steps(&self, setup: &Workload) -> Steps {
        let mut out = Vec::with_capacity(8);
        if !self.poisoned {
            for c in 0..self.callers.len() {
                if let Some(call) = self.call(setup, c) {
                    self.caller_steps(setup, c, call, &mut out);
                }
            }
            out.extend(self.lead(setup));
            for at in 0..self.leaders.len() {
                self.leader_steps(setup, at, &mut out);
            }
        }
        self.world_steps(setup, &mut out);
        out
    }

    fn broken(&self, _: &Workload) -> Option<Broken> {
        self.broken
    }

    fn finished(&self, setup: &Workload) -> bool {
        (0..self.callers.len()).all(|c| self.call(setup, c).is_none())
    }
}
