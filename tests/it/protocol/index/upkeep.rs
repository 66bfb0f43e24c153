//! The steps under the maintenance lock: sealing, merging, dropping; and rotation.

use super::super::explore::{Broken, Label};
use super::super::rules::Rule;
use super::record::{IDS, PerId, Place, Rec};
use super::state::{Caller, Phase, Run, RunKey, Segment, State};
use super::workload::Workload;

/// Segments of a view: the current one, and two that wait for their ingest.
const LISTED_MAX: usize = 3;

/// What the maintenance lock is held for.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Job {
    Idle,
    /// Sealing: after step 4, after step 5 (with what is still to be ingested), after step 8.
    Flushed(u8),
    Ingesting(u8, PerId<Option<Rec>>),
    Swapped(u8),
    /// Merging: the merged run is there; the view lists it instead of its inputs.
    Merged(Place),
    Replaced(Place),
    /// Dropping: the view is without the generation.
    Unlisted(Place),
}

impl State {
    pub(super) fn upkeep_steps(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        out.extend(self.rotate());
        match self.job {
            Job::Idle => {
                self.begin_seals(setup, out);
                self.begin_merges(setup, out);
                self.begin_drops(setup, out);
            }
            Job::Flushed(no) => out.push(self.partition(setup, no)),
            Job::Ingesting(no, pending) => self.ingest(setup, no, pending, out),
            Job::Swapped(no) => out.push(self.drop_log(no)),
            Job::Merged(place) => out.push(self.replace(setup, place)),
            Job::Replaced(place) => self.remove_inputs(setup, place, out),
            Job::Unlisted(place) => out.push(self.drop_generation(place)),
        }
        if !setup.rules.on(Rule::OneSegmentAtATime) {
            let late = self.segments.iter().filter(|of| of.sealed && of.has_log);
            out.extend(late.map(|of| self.drop_log(of.no)));
        }
    }

    /// Sealing 1. Useless rotations are left out: an empty segment nobody writes to.
    fn rotate(&self) -> Option<(Label, Self)> {
        let current = self.current();
        let used = self
            .segments
            .iter()
            .any(|of| of.no == current && of.set != [None; IDS]);
        let entered = self.leader.is_some_and(|leader| leader.uses(current));
        let room = self.segments.iter().filter(|of| !of.sealed).count() < LISTED_MAX;
        if self.rotations == 0 || !room || !(used || entered) {
            return None;
        }
        let mut next = self.clone();
        next.rotations -= 1;
        next.segments.push(Segment::new(current + 1));
        Some((Label::store("rotates to segment").number(current + 1), next))
    }

    /// Sealing 2 to 4.
    fn begin_seals(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        let rules = setup.rules;
        let current = self.current();
        let mut waiting: Vec<u8> = Vec::new();
        waiting.extend(self.segments.iter().filter(|of| !of.sealed).map(|of| of.no));
        waiting.retain(|&no| no != current);
        if rules.on(Rule::OldestSegmentFirst) {
            waiting.truncate(1);
        }
        for no in waiting {
            let inside = self.leader.is_some_and(|leader| leader.inside(no));
            if inside && rules.on(Rule::GateEmpty) {
                continue;
            }
            let mut next = self.clone();
            if rules.on(Rule::FlushBeforeIngest) {
                next.persist_mark();
            }
            next.job = Job::Flushed(no);
            out.push((
                Label::store("locks, flushes and marks, to seal segment").number(no),
                next,
            ));
        }
    }

    /// Sealing 5.
    fn partition(&self, setup: &Workload, no: u8) -> (Label, Self) {
        let mut next = self.clone();
        let segment = next.segment(no);
        let replayed = segment.replayed;
        let set = segment.set;
        let keep = |rec: &Rec| !self.skips(setup, *rec, replayed);
        next.job = Job::Ingesting(no, set.map(|rec| rec.filter(keep)));
        (Label::store("partitions segment").number(no), next)
    }

    fn skips(&self, setup: &Workload, rec: Rec, replayed: bool) -> bool {
        let rules = setup.rules;
        let mark = self.removal_time(setup);
        let ended = rules.on(Rule::SkipEnded) && rec.place.ended(mark);
        let seal = rules.on(Rule::SkipAgain) || !replayed;
        ended || seal && !rec.supersedes() && !rec.live(mark)
    }

    /// The time that says what may be removed.
    fn removal_time(&self, setup: &Workload) -> u8 {
        match setup.rules.on(Rule::PersistedTimeRemoves) {
            true => self.mark,
            false => self.now,
        }
    }

    /// Sealing 6, one generation a step, in any order; then sealing 8.
    fn ingest(
        &self,
        setup: &Workload,
        no: u8,
        pending: PerId<Option<Rec>>,
        out: &mut Vec<(Label, Self)>,
    ) {
        let mut places: Vec<Place> = pending.iter().flatten().map(|rec| rec.place).collect();
        places.sort_unstable();
        places.dedup();
        if places.is_empty() {
            out.push(self.swap(setup, no));
        }
        for place in places {
            let mut next = self.clone();
            let records = pending.map(|rec| rec.filter(|rec| rec.place == place));
            let order = 1 + self.orders(place).max().unwrap_or(0);
            next.add_run(Run {
                key: (place, order, 0),
                live: false,
                records,
            });
            let rest = pending.map(|rec| rec.filter(|rec| rec.place != place));
            next.job = Job::Ingesting(no, rest);
            if self.dropped.is_some_and(|dropped| place <= dropped) {
                next.broken = Some(Broken::Zombie);
            }
            out.push((Label::store("ingests a run of segment").number(no), next));
        }
    }

    fn swap(&self, setup: &Workload, no: u8) -> (Label, Self) {
        let mut next = self.clone();
        next.segment(no).sealed = true;
        for run in &mut next.runs {
            run.live = true;
        }
        next.job = match setup.rules.on(Rule::OneSegmentAtATime) {
            true => Job::Swapped(no),
            false => Job::Idle,
        };
        (
            Label::store("swaps the view, without segment").number(no),
            next,
        )
    }

    /// Sealing 10; marker and floor are the floor model's.
    fn drop_log(&self, no: u8) -> (Label, Self) {
        let mut next = self.clone();
        let segment = next.segment(no);
        segment.has_log = false;
        segment.log = [None; IDS];
        if matches!(next.job, Job::Swapped(_)) {
            next.job = Job::Idle;
        }
        (Label::store("drops the log of segment").number(no), next)
    }

    /// A merge of all runs of one generation into one, not listed yet.
    fn begin_merges(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        if self.merges == 0 {
            return;
        }
        for place in self.places() {
            let mut next = self.clone();
            next.merges -= 1;
            let records = self.merged(setup, place);
            if records != [None; IDS] || setup.rules.on(Rule::EmptyMergeLeavesKey) {
                let key = self.merged_key(setup, place);
                next.add_run(Run {
                    key,
                    live: false,
                    records,
                });
            }
            next.job = Job::Merged(place);
            out.push((Label::store("ingests the merged run of a generation"), next));
        }
    }

    /// The newest record of each id, less what may go.
    fn merged(&self, setup: &Workload, place: Place) -> PerId<Option<Rec>> {
        let rules = setup.rules;
        let mark = self.removal_time(setup);
        let goes = |rec: &Rec| match (rec.tombstone, rec.over) {
            (true, _) => !rules.on(Rule::MergeKeepsTombstones),
            (_, true) => !rules.on(Rule::MergeKeepsOver) && !rec.live(mark),
            _ => !rec.live(mark),
        };
        let mut records = [None; IDS];
        for run in self.runs.iter().filter(|run| run.key.0 == place) {
            for (newest, rec) in records.iter_mut().zip(run.records) {
                *newest = rec.or(*newest);
            }
        }
        records.map(|rec| rec.filter(|rec| !goes(rec)))
    }

    fn merged_key(&self, setup: &Workload, place: Place) -> RunKey {
        let order = match setup.rules.on(Rule::MergedRunOrder) {
            true => self.orders(place).max(),
            false => self.orders(place).min(),
        };
        let levels = self
            .runs
            .iter()
            .filter(|run| run.key.0 == place)
            .map(|run| run.key.2);
        (place, order.unwrap_or(0), 1 + levels.max().unwrap_or(0))
    }

    fn replace(&self, setup: &Workload, place: Place) -> (Label, Self) {
        let mut next = self.clone();
        let empty = self.merged(setup, place) == [None; IDS];
        let keyless = empty && !setup.rules.on(Rule::EmptyMergeLeavesKey);
        for run in next.runs.iter_mut().filter(|run| run.key.0 == place) {
            run.live = !run.live && !keyless;
        }
        next.job = Job::Replaced(place);
        (Label::store("swaps the view to the merged run"), next)
    }

    /// One file after another, in any order, once no view lists it.
    fn remove_inputs(&self, setup: &Workload, place: Place, out: &mut Vec<(Label, Self)>) {
        let input = |run: &&Run| run.key.0 == place && !run.live;
        for run in self.runs.iter().filter(input) {
            let reads = |caller: &Caller| {
                let looking = matches!(caller.phase, Phase::Prepared | Phase::Looking);
                looking && caller.view.hit.is_some_and(|(key, _)| key == run.key)
            };
            if setup.rules.on(Rule::ViewsPinRuns) && self.callers.iter().any(reads) {
                continue;
            }
            let mut next = self.clone();
            next.runs.retain(|of| of.key != run.key);
            for caller in next.callers.iter_mut().filter(|caller| reads(caller)) {
                caller.view.hit = None;
            }
            if !next.runs.iter().any(|run| input(&run)) {
                next.job = Job::Idle;
            }
            out.push((
                Label::store("removes a merged input of order").number(run.key.1),
                next,
            ));
        }
    }

    /// Dropping, up to the view without it. Only the earliest slice end.
    fn begin_drops(&self, setup: &Workload, out: &mut Vec<(Label, Self)>) {
        let mut places = self.places();
        if setup.rules.on(Rule::DropEarliestFirst) {
            places.truncate(1);
        }
        places.retain(|place| place.ended(self.now));
        for place in places {
            let mut next = self.clone();
            if setup.rules.on(Rule::DropAfterMark) {
                next.persist_mark();
            }
            for run in next.runs.iter_mut().filter(|run| run.key.0 == place) {
                run.live = false;
            }
            next.job = Job::Unlisted(place);
            out.push((
                Label::store("takes an ended generation out of the view"),
                next,
            ));
        }
    }

    fn drop_generation(&self, place: Place) -> (Label, Self) {
        let mut next = self.clone();
        next.runs.retain(|run| run.key.0 != place);
        next.dropped = next.dropped.max(Some(place));
        next.job = Job::Idle;
        (Label::store("drops the generation"), next)
    }

    /// The generations that hold anything, earliest first.
    fn places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = self.runs.iter().map(|run| run.key.0).collect();
        places.dedup();
        places
    }

    fn orders(&self, place: Place) -> impl Iterator<Item = u8> {
        self.runs
            .iter()
            .filter(move |run| run.key.0 == place)
            .map(|run| run.key.1)
    }

    fn add_run(&mut self, run: Run) {
        let at = self.runs.partition_point(|of| of.key < run.key);
        self.runs.insert(at, run);
    }
}
