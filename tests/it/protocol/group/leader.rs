//! The steps of the leader: taking the queue, writing, failing, the set.

use super::super::explore::{Broken, Label};
use super::super::rules::Rule;
use super::state::{Entry, Phase, State, Steps};
use super::workload::Workload;

/// A write under way.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    members: u8,
    ids: u8,
    first_n: u8,
    last_n: u8,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    Drawn,
    /// Only without `OneBatch`: the log record is written, the mutations are not.
    Half,
    Wrote,
    /// Only without `WrittenBeforeRelease`.
    Inserted,
}

impl State {
    /// Step 8: the whole queue in one write.
    pub(super) fn lead(&self, setup: &Workload) -> Option<(Label, Self)> {
        let busy = !self.leaders.is_empty() && setup.rules.on(Rule::OneWriteInFlight);
        let mut next = self.clone();
        let (mut members, mut ids, mut count) = (0, 0, 0);
        for c in 0..self.callers.len() {
            let (Phase::Queued, Some(call)) = (self.callers[c].phase, self.call(setup, c)) else {
                continue;
            };
            next.callers[c].phase = Phase::Member;
            members |= 1 << c;
            ids |= 1 << call.id;
            count += 1;
        }
        if busy || members == 0 {
            return None;
        }
        let (first_n, last_n) = (self.next_n, self.next_n + count - 1);
        next.next_n += count;
        next.leaders.push(Leader {
            members,
            ids,
            first_n,
            last_n,
            stage: Stage::Drawn,
        });
        Some((
            Label::store("a leader takes the queue and draws n up to").number(last_n),
            next,
        ))
    }

    pub(super) fn leader_steps(&self, setup: &Workload, at: usize, out: &mut Steps) {
        let leader = self.leaders[at];
        match leader.stage {
            Stage::Drawn if !setup.rules.on(Rule::OneBatch) => {
                out.push(self.write(
                    at,
                    leader.ids,
                    0,
                    Stage::Half,
                    "writes the log record alone",
                ));
            }
            Stage::Half => {
                out.push(self.write(at, 0, leader.ids, Stage::Wrote, "writes the mutations"));
            }
            Stage::Drawn => {
                let ids = leader.ids;
                out.push(self.write(at, ids, ids, Stage::Wrote, "writes, up to commit"));
                self.fail(setup, at, out);
                out.extend(self.meet_the_end(setup, at));
            }
            Stage::Wrote => out.push(self.insert(setup, at)),
            Stage::Inserted => {
                let mut next = self.clone();
                next.raise_written(setup, leader);
                next.leaders.remove(at);
                out.push((Label::store("raises `written`, late"), next));
            }
        }
    }

    fn write(
        &self,
        at: usize,
        ids: u8,
        effects: u8,
        stage: Stage,
        what: &'static str,
    ) -> (Label, Self) {
        let mut next = self.clone();
        let Leader {
            first_n, last_n, ..
        } = self.leaders[at];
        if self.wal.iter().any(|entry| entry.effects & effects != 0) {
            next.broken = Some(Broken::Double);
        }
        next.wal.push(Entry {
            ids,
            effects,
            first_n,
            last_n,
            promised: false,
        });
        next.leaders[at].stage = stage;
        (Label::store(what).number(last_n), next)
    }

    /// Step 11. Whether the record got into the log, nobody knows.
    fn fail(&self, setup: &Workload, at: usize, out: &mut Steps) {
        if self.errors == 0 {
            return;
        }
        let leader = self.leaders[at];
        let (_, in_log) = self.write(at, leader.ids, leader.ids, Stage::Wrote, "");
        let outcomes = [
            (in_log, "fails, its record in the log"),
            (self.clone(), "fails, nothing"),
        ];
        for (mut next, what) in outcomes {
            next.errors -= 1;
            next.leaders.remove(at);
            let poisons = setup.rules.on(Rule::ErrorPoisons);
            next.poisoned |= poisons;
            let member = |c: &usize| leader.members & (1 << c) != 0;
            let members = (0..self.callers.len()).filter(member);
            for (n, c) in (leader.first_n..).zip(members) {
                next.callers[c].phase = match poisons {
                    true => Phase::Unknown(n),
                    false => Phase::Ready,
                };
            }
            out.push((Label::store(what), next));
        }
    }

    /// Step 11 on a full disk: the record is torn, which counts for nothing at an open, so the
    /// members are told that nothing was recorded, and their numbers are used again. (Refusals
    /// that follow change nothing, and a probe that succeeds ends them.)
    fn meet_the_end(&self, setup: &Workload, at: usize) -> Option<(Label, Self)> {
        if self.errors == 0 {
            return None;
        }
        let leader = self.leaders[at];
        let mut next = match setup.rules.on(Rule::FullLeavesNothing) {
            true => self.clone(),
            false => self.write(at, leader.ids, leader.ids, Stage::Wrote, "").1,
        };
        next.errors -= 1;
        next.leaders.remove(at);
        next.next_n = leader.first_n;
        for c in (0..self.callers.len()).filter(|c| leader.members & (1 << c) != 0) {
            next.callers[c].phase = Phase::Ready;
        }
        Some((Label::store("meets the end of the disk"), next))
    }

    /// Step 12, and 14 for members that asked for `Written`.
    fn insert(&self, setup: &Workload, at: usize) -> (Label, Self) {
        let leader = self.leaders[at];
        let mut next = self.clone();
        next.set |= leader.ids;
        if setup.rules.on(Rule::WrittenBeforeRelease) {
            next.raise_written(setup, leader);
            next.leaders.remove(at);
        } else {
            next.leaders[at].stage = Stage::Inserted;
        }
        for c in (0..self.callers.len()).filter(|c| leader.members & (1 << c) != 0) {
            match self.call(setup, c) {
                Some(call) if !call.synced => next.acknowledge(c, call),
                _ => next.callers[c].phase = Phase::Settled,
            }
        }
        (Label::store("the ids enter the set"), next)
    }

    fn raise_written(&mut self, setup: &Workload, leader: Leader) {
        self.written = match setup.rules.on(Rule::RaisedByMax) {
            true => self.written.max(leader.last_n),
            false => leader.last_n,
        };
    }
}
