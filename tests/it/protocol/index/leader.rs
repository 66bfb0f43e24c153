//! The steps of the leader: steps 8 to 12 of the write path, one member a commit.

use super::super::explore::{Broken, Label};
use super::super::rules::Rule;
use super::record::Write;
use super::state::{Entry, Phase, State};
use super::workload::Workload;

/// The one commit under way. It has its own copy of what it commits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Leader {
    pub(super) caller: usize,
    pub(super) id: usize,
    segment: u8,
    time: u8,
    n: u8,
    write: Write,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Stage {
    /// Only without `GateOfCurrent`: it knows the segment and is not in its gate.
    Chosen,
    Entered,
    Wrote,
    /// Only without `SetBeforeGate`.
    LeftGate,
}

impl Leader {
    /// Whether it is inside the gate of segment `no`.
    pub(super) fn inside(self, no: u8) -> bool {
        self.segment == no && matches!(self.stage, Stage::Entered | Stage::Wrote)
    }

    /// Whether it writes, or is about to write, to segment `no`.
    pub(super) fn uses(self, no: u8) -> bool {
        self.segment == no
    }

    /// Whether the write has returned.
    pub(super) fn wrote(self) -> bool {
        matches!(self.stage, Stage::Wrote | Stage::LeftGate)
    }
}

impl State {
    pub(super) fn leader_steps(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        let Some(leader) = self.leader else {
            let queued = |c: &usize| self.callers[*c].phase == Phase::Queued;
            let callers = (0..self.callers.len()).filter(queued);
            out.extend(callers.map(|c| self.lead(setup, c)));
            return;
        };
        out.push(match leader.stage {
            Stage::Chosen => self.advance(leader, Stage::Entered, "enters the gate it chose"),
            Stage::Entered => self.write(leader),
            Stage::Wrote if !setup.rules.on(Rule::SetBeforeGate) => self.advance(
                leader,
                Stage::LeftGate,
                "leaves the gate before the set has the id",
            ),
            Stage::Wrote | Stage::LeftGate => self.insert(setup, leader),
        });
    }

    /// Step 8: entering the gate and the segment's being current are one step.
    fn lead(&self, setup: &Workload, c: usize) -> (Label, Self) {
        let mut next = self.clone();
        let caller = &mut next.callers[c];
        let n = match setup.rules.on(Rule::NumberWhileHeld) {
            true => self.next_n,
            false => caller.n,
        };
        let write = caller
            .write
            .take()
            .expect("a queued caller has a write")
            .numbered(n);
        caller.phase = Phase::Leading;
        next.next_n = self.next_n.max(n + 1);
        let stage = match setup.rules.on(Rule::GateOfCurrent) {
            true => Stage::Entered,
            false => Stage::Chosen,
        };
        let (id, time) = (self.op(setup, c).id(), self.callers[c].time);
        let segment = self.current();
        next.leader = Some(Leader {
            caller: c,
            id,
            segment,
            time,
            n,
            write,
            stage,
        });
        (Label::caller(c, "leads, for segment").number(segment), next)
    }

    fn advance(&self, leader: Leader, stage: Stage, what: &'static str) -> (Label, Self) {
        let mut next = self.clone();
        next.leader = Some(Leader { stage, ..leader });
        (Label::store(what), next)
    }

    /// Steps 9 and 10: log record and mutation, whole.
    fn write(&self, leader: Leader) -> (Label, Self) {
        let Leader {
            segment,
            id,
            n,
            write,
            ..
        } = leader;
        let (_, mut next) = self.advance(leader, Stage::Wrote, "");
        let first_seen = match write {
            Write::Record(rec) => !rec.tombstone,
            Write::Claim(_) => true,
            // First when it was claimed. The clock may have come back lower since.
            Write::Completion(_) => false,
        };
        if first_seen && (self.truly_live(id, leader.time) || self.truly_claimed(id)) {
            next.broken = Some(Broken::Double);
        }
        next.wal.push(Entry {
            n,
            segment,
            id,
            write,
        });
        (Label::store("writes commit").number(n), next)
    }

    /// Step 12, and step 14 for `Written`.
    fn insert(&self, setup: &Workload, leader: Leader) -> (Label, Self) {
        let Leader {
            caller: c,
            segment,
            id,
            write,
            ..
        } = leader;
        let mut next = self.clone();
        next.claims[id] = write.claim_after(self.claims[id]);
        let of = next.segments.iter_mut().find(|of| of.no == segment);
        // Without the gate the segment may be gone, and the record with it.
        if let (Some(of), Some(rec)) = (of, write.record()) {
            of.set[id] = Some(rec);
        }
        next.leader = None;
        if next.callers[c].phase == Phase::Leading {
            if setup.synced {
                next.callers[c].phase = Phase::Syncing;
            } else {
                next = next.release(c, "").1;
            }
        }
        (
            Label::store("inserts into the set of segment").number(segment),
            next,
        )
    }
}
