//! What the children of one store told, and what of it a crash may take.
//!
//! A kill takes nothing that was acknowledged, except buffered commits that were not synced. A
//! power cut may take more, but from the end only:
//!
//! - L1: a `Synced` batch stays, and so does what returned before it, or before a sync, began.
//! - L2: a commit stays if one stays that began after it had returned.
//! - L3: what a look found stays for ever; what it did not find was lost once and for all.
//! - L4: what came out of the outbox stays, whatever the level of its commit.

use std::collections::{BTreeMap, BTreeSet};

use firstseen::Durability;

use super::workload::plan;

/// One attempt to be first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Attempt {
    pub(crate) run: u64,
    pub(crate) thread: usize,
    pub(crate) n: u64,
    pub(crate) i: usize,
}

impl Attempt {
    pub(crate) fn parse(words: &[&str]) -> Attempt {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (thread, i) = (number(1) as usize, number(3) as usize);
        Attempt {
            run: number(0),
            thread,
            n: number(2),
            i,
        }
    }

    pub(crate) fn text(&self) -> String {
        format!("{} {} {} {}", self.run, self.thread, self.n, self.i)
    }
}

/// An acknowledged batch.
#[derive(Clone, Debug)]
pub(crate) struct Ack {
    /// A letter for each message.
    pub(crate) said: String,
    pub(crate) before_ns: u128,
    pub(crate) after_ns: u128,
    /// Sent once more, without a resume point.
    pub(crate) again: bool,
}

/// How a child ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The process alone dies.
    Kill,
    /// What was not synced may be gone.
    Cut,
}

/// What one child told.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) end: End,
    /// A look has found what there is (L3).
    pub(crate) settled: bool,
    pub(crate) starts: BTreeMap<usize, u64>,
    /// By thread and number.
    pub(crate) acks: BTreeMap<(usize, u64), Ack>,
    pub(crate) buffered: BTreeMap<u64, Ack>,
    /// The last batch of each thread that was told of after the cut, which promises nothing.
    pub(crate) too_late: BTreeMap<usize, u64>,
    /// Batches that failed with nothing recorded, by thread.
    pub(crate) denied: BTreeMap<usize, u64>,
    /// Threads with a batch whose fate is not known.
    pub(crate) doubted: BTreeSet<usize>,
    /// When the last sync that returned began.
    sync_began_ns: u128,
    /// Seals, merges and drops.
    did: [u64; 3],
}

impl Run {
    /// What returned before this is safe from a power cut (L1).
    pub(crate) fn safe_before_ns(&self, seed: u64) -> u128 {
        let synced = |(thread, n): (usize, u64)| plan(seed, thread, n).level == Durability::Synced;
        let synced = self.acks.iter().filter(|(at, a)| !a.again && synced(**at));
        let last = synced.map(|(_, ack)| ack.before_ns).max();
        last.unwrap_or(0).max(self.sync_began_ns)
    }

    /// Whether a buffered batch must be there.
    pub(crate) fn keeps_buffered(&self, ack: &Ack) -> bool {
        self.settled || ack.after_ns < self.sync_began_ns
    }
}

/// Everything that the children of one store told.
pub(crate) struct Ledger {
    pub(crate) seed: u64,
    pub(crate) runs: Vec<Run>,
    pub(crate) acknowledged: u64,
    /// Acknowledged batches that a crash was free to take, and took.
    pub(crate) taken: u64,
    /// What came out of the outbox, as often as it came: number, id and payload.
    pub(crate) out: Vec<(u64, String, String)>,
}

impl Ledger {
    pub(crate) fn new(seed: u64) -> Ledger {
        Ledger {
            seed,
            runs: Vec::new(),
            acknowledged: 0,
            taken: 0,
            out: Vec::new(),
        }
    }

    /// Seals, merges and drops within the children, as far as they lived to tell.
    pub(crate) fn did(&self) -> [u64; 3] {
        let sum = |i: usize| self.runs.iter().map(|run| run.did[i]).sum();
        [sum(0), sum(1), sum(2)]
    }

    /// Begins a child; returns its run's number.
    pub(crate) fn begin(&mut self, end: End) -> u64 {
        self.runs.push(Run {
            end,
            settled: false,
            starts: BTreeMap::new(),
            acks: BTreeMap::new(),
            buffered: BTreeMap::new(),
            too_late: BTreeMap::new(),
            denied: BTreeMap::new(),
            doubted: BTreeSet::new(),
            sync_began_ns: 0,
            did: [0; 3],
        });
        (self.runs.len() - 1) as u64
    }

    /// Takes down a line of the current child's. Panics if it says that the child failed.
    pub(crate) fn take<S: AsRef<str>>(&mut self, words: &[S]) {
        let word = |at: usize| words.get(at).map_or("", |word| word.as_ref());
        let number = |at: usize| word(at).parse::<u64>().expect("a number");
        let time = |at: usize| word(at).parse::<u128>().expect("a time");
        let run = self.runs.last_mut().expect("a child was begun");
        match word(0) {
            "ready" => {}
            "start" => {
                run.starts.insert(number(1) as usize, number(2));
            }
            "did" => run.did = [number(1), number(2), number(3)],
            "out" => {
                let payload: Vec<&str> = words[3..].iter().map(AsRef::as_ref).collect();
                self.out
                    .push((number(1), word(2).to_string(), payload.join(" ")));
            }
            "synced" => run.sync_began_ns = run.sync_began_ns.max(time(1)),
            how @ ("sent" | "again" | "buffered") => {
                let (thread, n) = (number(1) as usize, number(2));
                let ack = Ack {
                    said: word(5).to_string(),
                    before_ns: time(3),
                    after_ns: time(4),
                    again: how == "again",
                };
                self.acknowledged += ack.said.len() as u64;
                if how == "buffered" {
                    run.buffered.insert(n, ack);
                } else {
                    run.acks.insert((thread, n), ack);
                }
            }
            _ => {
                let line: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
                panic!("the child: {}", line.join(" "));
            }
        }
    }

    /// Takes down that a batch was under way when the power was cut. Whatever the child says
    /// from then on, errors and all, nobody would have heard.
    pub(crate) fn take_from_the_dead(&mut self, words: &[String]) {
        let run = self.runs.last_mut().expect("a child was begun");
        if let [how, thread, n, ..] = words
            && how == "sent"
        {
            let number = |word: &String| word.parse::<u64>().expect("a number");
            run.too_late.insert(number(thread) as usize, number(n));
        }
    }

    /// Takes down that a batch failed, and that nothing of it was recorded, as far as the call
    /// can know: not of a thread that was in doubt already.
    #[cfg_attr(not(feature = "raw"), expect(dead_code, reason = "only faults deny"))]
    pub(crate) fn deny(&mut self, thread: usize, n: u64) {
        let run = self.runs.last_mut().expect("a run was begun");
        if !run.doubted.contains(&thread) {
            run.denied.insert(thread, n);
        }
    }

    /// Takes down that a batch may have been recorded.
    #[cfg_attr(
        not(feature = "raw"),
        expect(dead_code, reason = "only faults leave doubts")
    )]
    pub(crate) fn doubt(&mut self, thread: usize) {
        let run = self.runs.last_mut().expect("a run was begun");
        run.doubted.insert(thread);
    }

    pub(crate) fn ack(&self, of: &Attempt) -> Option<&Ack> {
        let run = self.runs.get(of.run as usize)?;
        run.acks.get(&(of.thread, of.n))
    }

    /// Where a run left a thread's source, if the store stands at `point` now.
    pub(crate) fn left_at(&self, run: usize, thread: usize, point: u64) -> u64 {
        let later = self.runs[run + 1..].iter();
        let start = later.filter_map(|r| r.starts.get(&thread)).next();
        start.copied().unwrap_or(point)
    }
}
