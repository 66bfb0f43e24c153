//! What the world does: the clock ticks, the process dies, the power fails; and what open does.

use super::super::explore::{Broken, Label};
use super::super::rules::Rule;
use super::record::IDS;
use super::state::{Caller, Entry, Run, Segment, State};
use super::upkeep::Job;
use super::workload::Workload;

impl State {
    pub(super) fn world_steps(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        if self.now < setup.time_max {
            let mut next = self.clone();
            next.now += 1;
            out.push((Label::world("the clock ticks to").number(next.now), next));
        }
        if setup.renews && self.mark < self.now {
            let mut next = self.clone();
            next.persist_mark();
            out.push((Label::store("renews the mark"), next));
        }
        if self.crashes > 0 {
            self.crash_steps(setup, out);
        }
    }

    /// A kill keeps all of the write-ahead log; a power failure any prefix that holds what was
    /// synced. The clock may come back at any time the rules allow.
    fn crash_steps(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        let all = self.wal.len();
        let shortest = if setup.power { 0 } else { all };
        let back = match setup.rules.on(Rule::TimeNeverBelowMark) {
            true => self.mark,
            false => self.mark.saturating_sub(1),
        };
        let what = match setup.power {
            true => "the power fails, commits cut off:",
            false => "the process is killed",
        };
        for keep in shortest..=all {
            let mut times = vec![self.now, back];
            times.dedup();
            for now in times {
                let next = self.reopened(setup, keep, now);
                out.push((Label::world(what).number((all - keep) as u8), next));
            }
        }
    }

    /// The store after a crash that kept `keep` unsynced entries, opened at `now`.
    fn reopened(&self, setup: &Workload, keep: usize, now: u8) -> Self {
        let mut next = self.clone();
        next.crashes -= 1;
        next.now = now;
        let cut = next.wal.split_off(keep);
        if cut.iter().any(|entry| self.outlives(entry)) {
            next.broken = Some(Broken::Torn);
        }
        // What is replayed is flushed at open, so it is durable from here on.
        next.flush_wal();
        next.next_n = next.synced.last_n + 1;
        next.claims = next.synced.claims;
        next.leader = None;
        next.job = Job::Idle;
        for caller in &mut next.callers {
            *caller = Caller::ready(caller.done);
        }
        next.replay_segments();
        next.list_runs(setup);
        next
    }

    /// Whether an id is in a run although its mutation is cut off.
    fn outlives(&self, entry: &Entry) -> bool {
        let Some(rec) = entry.write.record() else {
            return false;
        };
        self.runs
            .iter()
            .any(|run| run.records[entry.id] == Some(rec))
    }

    /// Every log that is left becomes a frozen segment; a new one opens.
    fn replay_segments(&mut self) {
        let current = self.current() + 1;
        // An empty log has nothing to seal: it goes at once.
        self.segments
            .retain(|of| of.has_log && of.log != [None; IDS]);
        for segment in &mut self.segments {
            segment.set = segment.log;
            segment.sealed = false;
            segment.replayed = true;
        }
        self.segments.push(Segment::new(current));
    }

    /// The family list is authoritative: what lies there is listed, less the strays of a merge.
    fn list_runs(&mut self, setup: &Workload) {
        if setup.rules.on(Rule::StraysGoAtOpen) {
            let runs = std::mem::take(&mut self.runs);
            let covers = |by: &Run, of: &Run| {
                let ((place, order, level), (in_place, older, lower)) = (by.key, of.key);
                place == in_place && level > lower && order >= older
            };
            let stray = |of: &Run| runs.iter().any(|by| covers(by, of));
            self.runs = runs.iter().filter(|of| !stray(of)).cloned().collect();
        }
        for run in &mut self.runs {
            run.live = true;
        }
    }
}
