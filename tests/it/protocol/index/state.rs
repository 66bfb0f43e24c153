//! What a state of the index model holds, how an id is looked up in it, and what its truth is.

use super::super::explore::{Broken, Label, Model};
use super::super::rules::Rule;
use super::leader::Leader;
use super::record::{IDS, PerId, Place, Rec, Write};
use super::upkeep::Job;
use super::workload::{Op, Workload};

/// One caller: where it is in its program, and what it knows by now.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Caller {
    pub(super) done: u8,
    pub(super) phase: Phase,
    pub(super) view: View,
    /// Effective time of the verdict.
    pub(super) time: u8,
    /// Only without `NumberWhileHeld`: n, drawn early.
    pub(super) n: u8,
    /// Only without `OneHoldTable`: the segment whose table has the hold.
    pub(super) table: u8,
    pub(super) write: Option<Write>,
}

impl Caller {
    /// A caller that has `done` calls behind it.
    pub(super) fn ready(done: u8) -> Self {
        let view = View::default();
        Self {
            done,
            phase: Phase::Ready,
            view,
            time: 0,
            n: 0,
            table: 0,
            write: None,
        }
    }
}

/// How far a call has come. From `Held` on, the id is held.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    Ready,
    /// Only without a rule that forbids doing anything before the hold.
    Prepared,
    Held,
    Looking,
    Queued,
    Leading,
    Syncing,
}

/// The picture a caller looks its id up in. The generations' part is immutable, so the hit is
/// taken along with it; the sets of its segments are asked later.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct View {
    pub(super) segments: u16,
    pub(super) hit: Option<(RunKey, Rec)>,
}

/// Place, order number, merge level: what tells runs apart, and sorts them.
pub(super) type RunKey = (Place, u8, u8);

/// A unit of the packed log with its part of the active set.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Segment {
    pub(super) no: u8,
    pub(super) set: PerId<Option<Rec>>,
    /// What of its log is durable, as replay sees it: the last record of each id.
    pub(super) log: PerId<Option<Rec>>,
    pub(super) has_log: bool,
    /// Out of the view: its runs are in.
    pub(super) sealed: bool,
    /// Found at open, so an earlier seal may have got anywhere.
    pub(super) replayed: bool,
}

impl Segment {
    /// A new one, with an empty log.
    pub(super) fn new(no: u8) -> Self {
        let (set, log) = ([None; IDS], [None; IDS]);
        Self {
            no,
            set,
            log,
            has_log: true,
            sealed: false,
            replayed: false,
        }
    }
}

/// A sorted run of one generation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Run {
    pub(super) key: RunKey,
    /// Whether the view lists it.
    pub(super) live: bool,
    pub(super) records: PerId<Option<Rec>>,
}

/// A record of the write-ahead log that is not yet synced.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) n: u8,
    pub(super) segment: u8,
    pub(super) id: usize,
    pub(super) write: Write,
}

/// What of the write-ahead log is synced, folded.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Synced {
    pub(super) last_n: u8,
    /// The truth of each id.
    pub(super) truth: PerId<Option<Rec>>,
    pub(super) claims: PerId<Option<Option<Place>>>,
}

/// One store, its callers, and its disk.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(in super::super) struct State {
    pub(super) now: u8,
    pub(super) mark: u8,
    pub(super) next_n: u8,
    pub(super) rotations: u8,
    pub(super) crashes: u8,
    pub(super) merges: u8,
    pub(super) callers: Vec<Caller>,
    pub(super) leader: Option<Leader>,
    pub(super) segments: Vec<Segment>,
    /// Ascending by key: the reverse is the order of probing.
    pub(super) runs: Vec<Run>,
    pub(super) wal: Vec<Entry>,
    pub(super) synced: Synced,
    /// Claims in memory, each with the placement it was taken over.
    pub(super) claims: PerId<Option<Option<Place>>>,
    pub(super) job: Job,
    /// The latest generation that was dropped.
    pub(super) dropped: Option<Place>,
    pub(super) broken: Option<Broken>,
}

impl State {
    /// The segment that takes new records.
    pub(super) fn current(&self) -> u8 {
        self.segments
            .iter()
            .map(|segment| segment.no)
            .max()
            .unwrap_or(0)
    }

    /// The segment numbered `no`, which the caller knows to exist.
    pub(super) fn segment(&mut self, no: u8) -> &mut Segment {
        let found = self.segments.iter_mut().find(|segment| segment.no == no);
        found.expect("a segment stays while its log or a view needs it")
    }

    /// The picture a caller would load now.
    pub(super) fn view(&self, setup: &Workload, id: usize) -> View {
        View {
            segments: self.listed(),
            hit: self.generations_hit(setup, id),
        }
    }

    /// The segments of the current view.
    pub(super) fn listed(&self) -> u16 {
        let listed = self.segments.iter().filter(|segment| !segment.sealed);
        listed.fold(0, |set, segment| set | 1 << segment.no)
    }

    /// Filters and generations: the hit in the runs that the current view lists.
    pub(super) fn generations_hit(&self, setup: &Workload, id: usize) -> Option<(RunKey, Rec)> {
        let rules = setup.rules;
        let mut runs: Vec<&Run> = self.runs.iter().rev().filter(|run| run.live).collect();
        if !rules.on(Rule::LaterRunWins) {
            runs.sort_by_key(|run| (std::cmp::Reverse(run.key.0), run.key.1, run.key.2));
        }
        if !rules.on(Rule::LatestSliceFirst) {
            runs.sort_by_key(|run| run.key.0);
        }
        let filtered = |rec: &Rec| rules.on(Rule::FilterHoldsAll) || !rec.supersedes();
        let hits = runs.iter().filter_map(|run| {
            let rec = run.records[id].filter(filtered)?;
            Some((run.key, rec))
        });
        self.first_standing(setup, hits, |&(_, rec)| rec)
    }

    /// The whole lookup of step 4, through a view loaded earlier.
    pub(super) fn look_up(&self, setup: &Workload, id: usize, view: View) -> Option<Rec> {
        let mut segments: Vec<&Segment> = self.segments.iter().rev().collect();
        if !setup.rules.on(Rule::NewestSegmentFirst) {
            segments.reverse();
        }
        let in_view = |segment: &&&Segment| view.segments & (1 << segment.no) != 0;
        let in_sets = segments
            .iter()
            .filter(in_view)
            .filter_map(|segment| segment.set[id]);
        let hits = in_sets.chain(view.hit.map(|(_, rec)| rec));
        self.first_standing(setup, hits, |&rec| rec)
    }

    /// The first hit; without `FirstHitStands` the first that is live, if one is.
    fn first_standing<T: Copy>(
        &self,
        setup: &Workload,
        hits: impl Iterator<Item = T>,
        record: impl Fn(&T) -> Rec,
    ) -> Option<T> {
        let mut first = None;
        for hit in hits {
            if setup.rules.on(Rule::FirstHitStands) || record(&hit).live(self.now) {
                return Some(hit);
            }
            first = first.or(Some(hit));
        }
        first
    }

    /// What the surviving log says last about an id.
    pub(super) fn truth(&self, id: usize) -> Option<Rec> {
        let of_id = |entry: &&Entry| entry.id == id;
        let last = self
            .wal
            .iter()
            .rev()
            .filter(of_id)
            .find_map(|entry| entry.write.record());
        last.or(self.synced.truth[id])
    }

    /// Whether an id is a duplicate at `time`, in truth.
    pub(super) fn truly_live(&self, id: usize, time: u8) -> bool {
        self.truth(id).is_some_and(|rec| rec.live(time))
    }

    /// Whether the surviving log says that an id is claimed.
    pub(super) fn truly_claimed(&self, id: usize) -> bool {
        let of_id = self.wal.iter().filter(|entry| entry.id == id);
        of_id
            .fold(self.synced.claims[id], |claim, entry| {
                entry.write.claim_after(claim)
            })
            .is_some()
    }

    /// Everything in the write-ahead log becomes durable.
    pub(super) fn flush_wal(&mut self) {
        for entry in std::mem::take(&mut self.wal) {
            self.fold(entry);
        }
    }

    /// One entry of the write-ahead log becomes durable.
    pub(super) fn fold(&mut self, entry: Entry) {
        let Entry {
            n,
            segment,
            id,
            write,
        } = entry;
        self.synced.last_n = self.synced.last_n.max(n);
        self.synced.claims[id] = write.claim_after(self.synced.claims[id]);
        let Some(rec) = write.record() else { return };
        self.synced.truth[id] = Some(rec);
        let log = self
            .segments
            .iter_mut()
            .find(|of| of.no == segment && of.has_log);
        let slot = log.map(|segment| &mut segment.log[id]);
        // A family that was dropped takes nothing; replay keeps the last by number.
        if let Some(slot) = slot.filter(|slot| slot.is_none_or(|old| old.n <= n)) {
            *slot = Some(rec);
        }
    }

    /// Persisting the high-water mark of accepted time is a synced write.
    pub(super) fn persist_mark(&mut self) {
        self.mark = self.now;
        self.flush_wal();
    }

    /// Forgets segments that neither the store nor a view needs.
    pub(super) fn release_segments(&mut self) {
        let pinned = self
            .callers
            .iter()
            .fold(0, |set, caller| set | caller.view.segments);
        let needed = |of: &Segment| of.has_log || !of.sealed || pinned & (1 << of.no) != 0;
        self.segments.retain(needed);
    }

    /// Whether anybody is on the way with this id.
    fn in_flight(&self, setup: &Workload, id: usize) -> bool {
        let leading = self.leader.is_some_and(|leader| leader.id == id);
        let held = |(c, caller): (usize, &Caller)| {
            caller.phase >= Phase::Held && self.op(setup, c).id() == id
        };
        leading || self.callers.iter().enumerate().any(held)
    }

    /// The call a caller is in, or would be in next.
    pub(super) fn op(&self, setup: &Workload, caller: usize) -> Op {
        setup.programs[caller][self.callers[caller].done as usize]
    }

    /// What a caller that came now would be told, held against the truth.
    fn audit(&self, setup: &Workload) -> Option<Broken> {
        (0..IDS).find_map(|id| {
            if self.claims[id].is_some() || self.in_flight(setup, id) {
                return None;
            }
            let hit = self.look_up(setup, id, self.view(setup, id));
            let duplicate = hit.is_some_and(|rec| rec.live(self.now));
            match (duplicate, self.truly_live(id, self.now)) {
                (false, true) => Some(Broken::Double),
                (true, false) => Some(Broken::Lost),
                _ => None,
            }
        })
    }
}

impl Model for State {
    type Setup = Workload;

    fn start(setup: &Workload) -> Self {
        Self {
            now: 0,
            mark: 0,
            next_n: 1,
            rotations: setup.rotations,
            crashes: setup.crashes,
            merges: setup.merges,
            callers: vec![Caller::ready(0); setup.programs.len()],
            leader: None,
            segments: vec![Segment::new(0)],
            runs: Vec::new(),
            wal: Vec::new(),
            synced: Synced::default(),
            claims: [None; IDS],
            job: Job::Idle,
            dropped: None,
            broken: None,
        }
    }

    fn steps(&self, setup: &Workload) -> Vec<(Label, Self)> {
        let mut out = Vec::with_capacity(16);
        self.caller_steps(setup, &mut out);
        self.leader_steps(setup, &mut out);
        self.upkeep_steps(setup, &mut out);
        self.world_steps(setup, &mut out);
        for (_, next) in &mut out {
            next.release_segments();
        }
        out
    }

    fn broken(&self, setup: &Workload) -> Option<Broken> {
        self.broken.or_else(|| self.audit(setup))
    }

    fn finished(&self, setup: &Workload) -> bool {
        let at_end =
            |(c, caller): (usize, &Caller)| caller.done as usize == setup.programs[c].len();
        self.callers.iter().enumerate().all(at_end)
            && self.leader.is_none()
            && matches!(self.job, Job::Idle)
    }
}
