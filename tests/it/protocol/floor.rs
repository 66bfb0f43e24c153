//! The model of recovery: marker row, floor file, sticky bit, numbers, and damaged logs.
//!
//! One writer, whose commits are numbered; seals that move ids out of the log and renew marker
//! and floor; two files of the write-ahead log. A power failure takes any unsynced end of each
//! file, damage takes any end of either. An undamaged store must open, with a prefix of its
//! commits. A damaged one must refuse, or open with all that the last seal vouched for: what lies
//! above the floor at the clean end of a log cannot be told from a crash, by nobody.

use super::explore::{Broken, Label, Model};
use super::rules::{Rule, Rules};

/// Bounds.
#[derive(Clone, Copy)]
pub(super) struct Workload {
    pub(super) name: &'static str,
    /// Every commit is synced, so the sticky bit stays clear.
    synced: bool,
    /// The log may be damaged as well.
    damage: bool,
    commits: u8,
    seals: u8,
    crashes: u8,
    pub(super) rules: Rules,
}

impl Workload {
    /// The same workload under other rules.
    pub(super) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

/// A store that syncs each commit.
pub(super) const SYNCED: Workload = Workload {
    name: "synced",
    synced: true,
    damage: true,
    commits: 4,
    seals: 2,
    crashes: 2,
    rules: Rules::ALL,
};

/// A store that does not.
pub(super) const UNSYNCED: Workload = Workload {
    name: "unsynced",
    synced: false,
    ..SYNCED
};

/// A store that syncs and has not sealed yet, so that every commit is still in a log.
pub(super) const UNSEALED: Workload = Workload {
    name: "unsealed",
    seals: 0,
    ..SYNCED
};

/// A store whose disk is sound.
pub(super) const SOUND: Workload = Workload {
    name: "sound",
    damage: false,
    ..UNSYNCED
};

/// All of them.
pub(super) const ALL: &[Workload] = &[SYNCED, UNSYNCED, UNSEALED, SOUND];

/// An entry of the write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Entry {
    /// Log record and mutations.
    Commit(u8),
    /// The marker row of a seal.
    Marker(u8),
}

/// What a seal does, one step each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Act {
    Flush,
    Mark,
    Floor,
    Ingest,
    Drop,
}

/// The order of a seal's steps, as the rules have it.
fn acts(rules: Rules) -> &'static [Act] {
    use Act::{Drop, Floor, Flush, Ingest, Mark};
    if !rules.on(Rule::MarkerBeforeDrop) {
        &[Flush, Ingest, Drop, Mark, Floor]
    } else if !rules.on(Rule::MarkerBeforeIngest) {
        &[Flush, Ingest, Mark, Floor, Drop]
    } else if !rules.on(Rule::MarkerBeforeFloor) {
        &[Flush, Floor, Mark, Ingest, Drop]
    } else if !rules.on(Rule::FloorRenewed) {
        &[Flush, Mark, Ingest, Drop]
    } else {
        &[Flush, Mark, Floor, Ingest, Drop]
    }
}

/// One store on disk.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    next_n: u8,
    files: [Vec<Entry>; 2],
    /// Which file is written to, and how much of each is synced.
    file: usize,
    synced: [usize; 2],
    /// The commits whose mutations are in tables, and the marker, both flushed at an open.
    base: u8,
    base_marker: u8,
    /// The bits of the commits that a run has, and of those whose log was dropped.
    in_runs: u16,
    dropped: u16,
    floor: u8,
    bit: bool,
    /// The commit sealed up to, and the next step.
    seal: Option<(u8, usize)>,
    seals: u8,
    crashes: u8,
    closed: bool,
    broken: Option<Broken>,
}

type Step = (Label, State);

fn up_to(n: u8) -> u16 {
    (1 << (n + 1)) - 2
}

impl State {
    fn step(&self, what: &'static str, change: impl FnOnce(&mut Self)) -> Step {
        let mut next = self.clone();
        change(&mut next);
        (Label::store(what), next)
    }

    fn sync(&mut self) {
        self.synced = [self.files[0].len(), self.files[1].len()];
    }

    fn append(&mut self, entry: Entry, sync: bool) {
        self.files[self.file].push(entry);
        if sync {
            self.sync();
        }
    }

    fn writer_steps(&self, setup: &Workload, out: &mut Vec<Step>) {
        let bit_first = setup.rules.on(Rule::StickyBitFirst);
        if !setup.synced && !self.bit {
            out.push(self.step("sets the sticky bit", |next| next.bit = true));
        }
        let allowed = setup.synced || self.bit || !bit_first;
        if self.next_n <= setup.commits && allowed {
            let (label, next) = self.step("commits", |next| {
                next.append(Entry::Commit(next.next_n), setup.synced);
                next.next_n += 1;
            });
            out.push((label.number(self.next_n), next));
        }
        if self.file == 0 && !self.files[0].is_empty() {
            out.push(self.step("starts a second log file", |next| next.file = 1));
        }
    }

    /// A seal takes everything committed so far; its steps come one by one.
    fn seal_step(&self, setup: &Workload) -> Option<Step> {
        let order = acts(setup.rules);
        let last = self.next_n - 1;
        let done = last == 0 || self.dropped & (1 << last) != 0;
        let (n, at) = match self.seal {
            None if self.seals == 0 || done => return None,
            None => (last, 0),
            Some(seal) => seal,
        };
        let mut next = self.clone();
        next.seals -= u8::from(at == 0);
        next.seal = (at + 1 < order.len()).then_some((n, at + 1));
        let what = match order[at] {
            Act::Flush => {
                next.sync();
                "seals and flushes the log, up to commit"
            }
            Act::Mark => {
                next.append(Entry::Marker(n), setup.rules.on(Rule::MarkerSynced));
                "writes the marker row of commit"
            }
            Act::Floor => {
                next.floor = n;
                "raises the floor to"
            }
            Act::Ingest => {
                next.in_runs |= up_to(n);
                "ingests up to commit"
            }
            Act::Drop => {
                next.dropped |= up_to(n);
                "drops the log up to commit"
            }
        };
        Some((Label::store(what).number(n), next))
    }

    fn crash_steps(&self, setup: &Workload, out: &mut Vec<Step>) {
        let [first, second] = [&self.files[0], &self.files[1]];
        for keep in (0..=first.len()).flat_map(|a| (0..=second.len()).map(move |b| [a, b])) {
            let damaged = keep[0] < self.synced[0] || keep[1] < self.synced[1];
            if damaged && !setup.damage {
                continue;
            }
            let mut next = self.clone();
            next.crashes -= 1;
            next.files[0].truncate(keep[0]);
            next.files[1].truncate(keep[1]);
            let hole = keep[0] < first.len() && keep[1] > 0;
            next.reopen(setup, damaged, hole);
            let what = match damaged {
                true => "the log is damaged, entries kept (ten times the first file's):",
                false => "the power fails, entries kept (ten times the first file's):",
            };
            out.push((
                Label::world(what).number((10 * keep[0] + keep[1]) as u8),
                next,
            ));
        }
    }

    fn reopen(&mut self, setup: &Workload, damaged: bool, hole: bool) {
        let rules = setup.rules;
        let verified = hole && rules.on(Rule::WalsVerified);
        if verified && self.bit {
            self.files[1].clear();
        }
        let entries: Vec<Entry> = self.files.iter().flatten().copied().collect();
        let mut mutations = up_to(self.base);
        let mut marker = self.base_marker;
        for entry in entries {
            match entry {
                Entry::Commit(n) => mutations |= 1 << n,
                Entry::Marker(n) => marker = marker.max(n),
            }
        }
        let below = (self.bit || rules.on(Rule::FloorAlwaysChecked)) && marker < self.floor;
        let logged = mutations & !self.dropped & !up_to(marker);
        let last = 15 - (mutations | up_to(marker) | 1).leading_zeros() as u8;
        let gap = logged != up_to(last) & !up_to(marker) && rules.on(Rule::ContiguousNumbers);
        if below || gap || verified && !self.bit {
            self.closed = true;
            self.broken = (!damaged).then_some(Broken::FalseRefusal);
        } else if mutations != up_to(last) || self.in_runs & !mutations != 0 {
            self.broken = Some(if damaged {
                Broken::SilentShort
            } else {
                Broken::Torn
            });
        } else {
            self.accept(last, marker);
        }
    }

    /// What is replayed is flushed, and the logs start afresh.
    fn accept(&mut self, last: u8, marker: u8) {
        self.base = last;
        self.base_marker = marker;
        self.next_n = last + 1;
        self.files = Default::default();
        self.file = 0;
        self.synced = [0, 0];
        self.seal = None;
    }
}

impl Model for State {
    type Setup = Workload;

    fn start(setup: &Workload) -> Self {
        Self {
            next_n: 1,
            files: Default::default(),
            file: 0,
            synced: [0, 0],
            base: 0,
            base_marker: 0,
            in_runs: 0,
            dropped: 0,
            floor: 0,
            bit: false,
            seal: None,
            seals: setup.seals,
            crashes: setup.crashes,
            closed: false,
            broken: None,
        }
    }

    fn steps(&self, setup: &Workload) -> Vec<Step> {
        let mut out = Vec::new();
        if !self.closed {
            self.writer_steps(setup, &mut out);
            out.extend(self.seal_step(setup));
            if self.crashes > 0 {
                self.crash_steps(setup, &mut out);
            }
        }
        out
    }

    fn broken(&self, _: &Workload) -> Option<Broken> {
        self.broken
    }

    fn finished(&self, setup: &Workload) -> bool {
        self.closed || self.next_n > setup.commits
    }
}
