//! Crashes in a row, over stores in a row: what the kill test and the power cuts share.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;
use std::time::Duration;

use super::check_at_rest;
use super::child::{Started, now_ns, start};
use super::expected::check;
use super::found::Found;
use super::ledger::{End, Ledger};
use super::worker::{Broken, GAVE_UP, Open};
use super::workload::options;

/// Crashes of one store, each after the last one's recovery.
pub(crate) const CRASHES_A_STORE: u64 = 10;

/// What a campaign came to.
#[derive(Debug, Default)]
pub(crate) struct Campaign {
    pub(crate) crashes: u64,
    pub(crate) acknowledged: u64,
    /// Acknowledged batches that a crash was free to take, and took.
    pub(crate) taken: u64,
    pub(crate) found: Found,
    /// Seals, merges and drops within the children.
    pub(crate) did: [u64; 3],
}

impl Campaign {
    /// Opens the store and compares; once more after everything was sealed and merged.
    pub(crate) fn look(&mut self, ledger: &mut Ledger, store: &Path, compacted: bool) {
        let sound = check_at_rest(store, &options());
        assert_eq!(sound, Ok(()), "after crash {}", self.crashes);
        let open = Open::new(store, options().background(false));
        let open = open.unwrap_or_else(|error| panic!("after crash {}: {error}", self.crashes));
        let looked = check(ledger, &open);
        let looked = looked.unwrap_or_else(|error| panic!("after crash {}: {error}", self.crashes));
        self.found.add(looked);
        if compacted {
            open.store.compact().expect("an undamaged store compacts");
            self.found
                .add(check(ledger, &open).expect("an undamaged store reads"));
        }
    }

    /// Adds what a store's children did.
    pub(crate) fn add(&mut self, ledger: &Ledger) {
        self.acknowledged += ledger.acknowledged;
        self.taken += ledger.taken;
        let did = ledger.did();
        (0..did.len()).for_each(|i| self.did[i] += did[i]);
    }

    /// The counts, in one line.
    pub(crate) fn line(&self, crashes: &str) -> String {
        let Campaign { found, .. } = self;
        format!(
            "{crashes} {} acknowledged {} lost {} doubled {} torn {}",
            self.crashes, self.acknowledged, found.lost, found.doubled, found.torn
        )
    }
}

/// When a child is killed.
#[derive(Clone, Copy, Debug)]
pub(crate) enum When {
    /// So long after it was started: while it opens, recovers or makes the store, mostly.
    Started(Duration),
    /// So long after it began to work.
    Ready(Duration),
}

pub(crate) fn when(rng: &mut fastrand::Rng) -> When {
    if rng.u8(0..6) == 0 {
        return When::Started(Duration::from_micros(rng.u64(1_000..50_000)));
    }
    // Some live long enough to seal, merge and drop in peace.
    let longest_us = if rng.u8(0..4) == 0 { 400_000 } else { 60_000 };
    When::Ready(Duration::from_micros(rng.u64(1_000..longest_us)))
}

/// How a child is ended.
#[derive(Clone)]
pub(crate) enum Ending {
    Kill,
    /// This is done before the kill. What is told after it began was told by nobody.
    Cut(Arc<dyn Fn() + Send + Sync>),
}

/// Starts a child, listens, and ends it; whether it was ready by then.
pub(crate) fn crash_one(
    store: &Path,
    ledger: &mut Ledger,
    broken: Broken,
    when: When,
    ending: &Ending,
) -> bool {
    let run = ledger.begin(match ending {
        Ending::Kill => End::Kill,
        Ending::Cut(_) => End::Cut,
    });
    let path = store.to_str().expect("a path of text").to_string();
    let numbers = [run.to_string(), ledger.seed.to_string()];
    let job = [
        &["work".to_string(), path][..],
        &numbers,
        &[format!("{broken:?}")],
    ]
    .concat();
    let mut child = start(&job);
    let cut_at = Arc::new(OnceLock::new());
    let mut killing = match when {
        When::Started(delay) => Some(killer(&mut child, delay, ending, &cut_at)),
        When::Ready(_) => None,
    };
    let mut ready = false;
    while let Some((time, words)) = child.timed_line() {
        if cut_at.get().is_some_and(|at| time >= *at) {
            ledger.take_from_the_dead(&words);
            continue;
        }
        ledger.take(&words);
        ready |= words[0] == "ready";
        if let (When::Ready(delay), true, None) = (when, ready, &killing) {
            killing = Some(killer(&mut child, delay, ending, &cut_at));
        }
    }
    let process = match killing {
        Some(killer) => killer.join().expect("the killer ends"),
        None => child.process.take(),
    };
    let status = process.map(|mut process| process.wait().expect("a child ends"));
    let status = status.expect("one of both has it");
    let gave_up = cut_at.get().is_some() && status.code() == Some(GAVE_UP);
    assert!(
        status.signal() == Some(9) || gave_up,
        "the child ended by itself: {status:?}"
    );
    ready
}

#[expect(clippy::disallowed_methods, reason = "the kill comes after real time")]
fn killer(
    child: &mut Started,
    delay: Duration,
    ending: &Ending,
    cut_at: &Arc<OnceLock<u128>>,
) -> JoinHandle<Option<Child>> {
    let process = child.process.take();
    let (ending, cut_at) = (ending.clone(), Arc::clone(cut_at));
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        let mut process = process?;
        if let Ending::Cut(cut) = ending {
            cut_at.get_or_init(now_ns);
            cut();
        }
        process.kill().expect("a child can be killed");
        Some(process)
    })
}
