//! The process that watches: starts the child, kills it now and then, measures it each second,
//! and says at the end what came of it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::book::{self, Head};
use firstseen::Durability;

use super::bounds::{Measured, SECONDS_BACK, bounds, measure};
use super::child::{CHILD, DISK, HOT, PARTS, UPKEEP};
use super::fail::{Broken, Kind};
use super::lanes::LANES;

pub(crate) const JOB: &str = "FIRSTSEEN_SOAK_JOB";

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) seconds: u64,
    pub(crate) broken: Broken,
    /// Seconds between kills, at least and at most.
    pub(crate) kill_every: (u64, u64),
    /// The longest that a commit may take.
    pub(crate) stall_us: u64,
    /// Between two looks. Bounds of the disk count in seconds.
    pub(crate) look_ms: u64,
    /// Replaces the bounds, for canaries.
    pub(crate) tightened: Option<Measured>,
}

/// How it went.
#[derive(Clone, Debug, Default)]
pub(crate) struct Report {
    seconds: u64,
    heads: Vec<Head>,
    kills: u64,
    pub(crate) most: Measured,
    bounds: Measured,
    synced_us: u64,
    /// What a child found, by kind.
    found: [u64; 4],
    pub(crate) above: Option<String>,
    seed: u64,
}

impl Report {
    pub(crate) fn is_clean(&self) -> bool {
        self.found == [0; 4] && self.above.is_none()
    }

    pub(crate) fn found(&self, kind: Kind) -> u64 {
        self.found[kind as usize - Kind::Lost as usize]
    }

    fn sum(&self, part: impl Fn(&Head) -> u64) -> u64 {
        self.heads.iter().map(part).sum()
    }

    /// Calls of all children.
    pub(crate) fn calls(&self) -> u64 {
        self.sum(|head| head.calls)
    }

    pub(crate) fn line(&self) -> String {
        let head = |part: usize| self.heads.get(part).copied().unwrap_or_default();
        let mib = |bytes: u64| bytes >> 20;
        let [lost, doubled, torn, wrong] = self.found;
        format!(
            "soak seconds {} calls {} ids {} duplicates {} histories {} copies {} reopens {} \
             kills {} lost {lost} doubled {doubled} torn {torn} wrong {wrong} rss_max_mib {} of {} \
             files_max {} of {} disk_max_mib {} of {} stall_max_ms {} of {} \
             synced_max_ms {} disk_sync_max_ms {} seed {}",
            self.seconds,
            self.calls(),
            self.sum(|head| head.ids),
            self.sum(|head| head.duplicates),
            head(HOT).next,
            head(UPKEEP).others[0],
            head(CHILD).next,
            self.kills,
            mib(self.most.rss_bytes),
            mib(self.bounds.rss_bytes),
            self.most.files,
            self.bounds.files,
            mib(self.most.disk_bytes),
            mib(self.bounds.disk_bytes),
            self.most.stall_us / 1000,
            self.bounds.stall_us / 1000,
            self.synced_us / 1000,
            head(DISK).stall_us / 1000,
            self.seed,
        )
    }
}

#[expect(clippy::disallowed_methods, reason = "a soak goes by real time")]
fn now() -> Instant {
    Instant::now()
}

#[expect(clippy::disallowed_methods, reason = "a look each second")]
fn nap(ms: u64) {
    std::thread::sleep(Duration::from_millis(ms));
}

/// The longest commit of each lane, in words.
pub(crate) fn stalls(report: &Report) -> String {
    let lanes = LANES.iter().zip(&report.heads);
    let stalls = lanes.map(|(lane, head)| format!("{} {} ms", lane.name, head.stall_us / 1000));
    stalls.collect::<Vec<_>>().join(", ")
}

/// Runs it in a directory of its own.
pub(crate) fn run(plan: &Plan) -> Report {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = dir.path();
    book::make(&place.join("book"), LANES.len());
    let mut watch = Watch {
        plan: plan.clone(),
        book: File::open(place.join("book")).expect("the book"),
        ids: vec![VecDeque::new(); LANES.len()],
        random: fastrand::Rng::with_seed(plan.seed),
        report: Report {
            seed: plan.seed,
            ..Report::default()
        },
    };
    let began = now();
    let mut child = start(plan, place);
    let mut kill_at = watch.next_kill(0);
    while began.elapsed() < Duration::from_secs(plan.seconds) && watch.report.is_clean() {
        nap(plan.look_ms);
        if let Some(status) = child.try_wait().expect("a child can be asked") {
            watch.ended(status);
            if !watch.report.is_clean() {
                break;
            }
            child = start(plan, place);
        }
        watch.look(child.id(), place);
        let seconds = began.elapsed().as_secs();
        if seconds >= kill_at && seconds + 2 < plan.seconds {
            kill_at = watch.next_kill(seconds);
            child.kill().expect("a child can be killed");
            let status = child.wait().expect("a child ends");
            watch.ended(status);
            child = start(plan, place);
        }
    }
    // Without its pipe the child ends, and looks at everything once more.
    drop(child.stdin.take());
    let status = child.wait().expect("a child ends");
    if watch.report.found == [0; 4] {
        watch.ended(status);
    }
    watch.report.synced_us = longest(&watch.book, true);
    watch.report.seconds = began.elapsed().as_secs();
    watch.report.heads = (0..PARTS)
        .map(|part| book::head(&watch.book, part))
        .collect();
    watch.report
}

/// With two of the C library's arenas: with one a core or more, what one thread freed is kept for
/// that arena, and memory tells little.
fn start(plan: &Plan, place: &Path) -> Child {
    let binary = std::env::current_exe().expect("the path of this binary");
    let job = format!("{} {} {:?}", place.display(), plan.seed, plan.broken);
    let child = Command::new(binary)
        .env(JOB, job)
        .env("MALLOC_ARENA_MAX", "2")
        .stdin(Stdio::piped())
        .spawn();
    child.expect("this binary runs")
}

/// The longest commit of the lanes that sync each, or of the others.
fn longest(book: &File, is_synced: bool) -> u64 {
    let lanes =
        (0..LANES.len()).filter(|lane| (LANES[*lane].level == Durability::Synced) == is_synced);
    let stalls = lanes.map(|lane| book::head(book, lane).stall_us);
    stalls.max().unwrap_or(0)
}

struct Watch {
    plan: Plan,
    book: File,
    /// For each lane, the ids it has recorded, second by second.
    ids: Vec<VecDeque<u64>>,
    random: fastrand::Rng,
    report: Report,
}

impl Watch {
    fn next_kill(&mut self, seconds: u64) -> u64 {
        let (least, most) = self.plan.kill_every;
        seconds + self.random.u64(least..=most)
    }

    /// A child is gone: killed, done, or it found something.
    fn ended(&mut self, status: ExitStatus) {
        let report = &mut self.report;
        match (status.signal(), status.code()) {
            (Some(9), _) => report.kills += 1,
            (_, Some(0)) => {}
            (_, code) => {
                let kind = Kind::ALL
                    .into_iter()
                    .find(|kind| code == Some(*kind as i32));
                report.found[kind.unwrap_or(Kind::Wrong) as usize - Kind::Lost as usize] += 1;
            }
        }
    }

    fn look(&mut self, process: u32, place: &Path) {
        for (part, ids) in self.ids.iter_mut().enumerate() {
            ids.push_back(book::head(&self.book, part).ids);
            // The first one stays: what is never forgotten began there.
            if ids.len() > SECONDS_BACK {
                ids.remove(1);
            }
        }
        let longest = |is_synced| longest(&self.book, is_synced);
        let disk_us = book::head(&self.book, DISK).stall_us;
        let stall_us = longest(false).max(longest(true).saturating_sub(disk_us));
        let bounds = bounds(&self.ids, self.plan.stall_us);
        let bounds = self.plan.tightened.unwrap_or(bounds);
        let Some(measured) = measure(process, &place.join("store")) else {
            return;
        };
        let measured = Measured {
            stall_us,
            ..measured
        };
        let report = &mut self.report;
        report.most = report.most.max(measured);
        report.bounds = report.bounds.max(bounds);
        report.above = report.above.take().or_else(|| measured.above(&bounds));
    }
}
