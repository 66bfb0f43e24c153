//! The kill test: SIGKILL at random, hundreds of times, and the canaries that prove the checker.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::Child;
use std::thread::JoinHandle;
use std::time::Duration;

use super::child::{Started, start};
use super::expected::{Found, Ledger};
use super::worker::{Broken, Open};
use super::workload::options;
use super::{check_at_rest, now, number};

/// Kills of one store, each after the last one's recovery.
const KILLS_A_STORE: u64 = 10;

/// What a campaign came to.
#[derive(Debug, Default)]
struct Campaign {
    kills: u64,
    acknowledged: u64,
    found: Found,
    /// Seals, merges and drops within the children.
    did: [u64; 3],
}

/// Kills children until there were enough kills, or something was found.
fn campaign(seed: u64, kills: u64, broken: Broken) -> Campaign {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut campaign = Campaign::default();
    while campaign.kills < kills && campaign.found.is_clean() {
        let dir = directory(campaign.kills);
        let store = dir.path().join("store");
        let mut ledger = Ledger::new(rng.u64(..));
        for at in 0..KILLS_A_STORE.min(kills - campaign.kills) {
            kill_one(&store, &mut ledger, broken, when(&mut rng));
            campaign.kills += 1;
            // Now and then two crashes in a row, with no look between.
            if at + 1 == KILLS_A_STORE || rng.u8(0..4) > 0 {
                campaign.look(&ledger, &store, false);
            }
        }
        campaign.look(&ledger, &store, true);
        campaign.acknowledged += ledger.acknowledged;
        let did = ledger.did();
        (0..did.len()).for_each(|i| campaign.did[i] += did[i]);
    }
    campaign
}

/// Every other store lies in memory, if the system has such a place: nothing waits for a disk
/// there, so more is done before the kill. On a disk, more kills meet a sync.
fn directory(kills: u64) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = match (kills / KILLS_A_STORE).is_multiple_of(2) && memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    dir.expect("a temporary directory")
}

impl Campaign {
    /// Opens the store and compares; once more after everything was sealed and merged.
    fn look(&mut self, ledger: &Ledger, store: &Path, compacted: bool) {
        let sound = check_at_rest(store, &options());
        assert_eq!(sound, Ok(()), "after kill {}", self.kills);
        let open = Open::new(store, options().background(false));
        let open = open.unwrap_or_else(|error| panic!("after kill {}: {error}", self.kills));
        let looked = ledger.check(&open);
        self.found
            .add(looked.unwrap_or_else(|error| panic!("after kill {}: {error}", self.kills)));
        if compacted {
            open.store.compact().expect("an undamaged store compacts");
            self.found
                .add(ledger.check(&open).expect("an undamaged store reads"));
        }
    }
}

/// When a child is killed.
#[derive(Clone, Copy, Debug)]
enum When {
    /// So long after it was started: while it opens, recovers or makes the store, mostly.
    Started(Duration),
    /// So long after it began to work.
    Ready(Duration),
}

fn when(rng: &mut fastrand::Rng) -> When {
    if rng.u8(0..6) == 0 {
        return When::Started(Duration::from_micros(rng.u64(1_000..50_000)));
    }
    // Some live long enough to seal, merge and drop in peace.
    let longest_us = if rng.u8(0..4) == 0 { 400_000 } else { 60_000 };
    When::Ready(Duration::from_micros(rng.u64(1_000..longest_us)))
}

/// Starts a child, listens, and kills it; whether it was ready by then.
fn kill_one(store: &Path, ledger: &mut Ledger, broken: Broken, when: When) -> bool {
    let run = ledger.begin();
    let path = store.to_str().expect("a path of text").to_string();
    let numbers = [run.to_string(), ledger.seed().to_string()];
    let job = [
        &["work".to_string(), path][..],
        &numbers,
        &[format!("{broken:?}")],
    ]
    .concat();
    let mut child = start(&job);
    let mut killing = match when {
        When::Started(delay) => Some(killer(&mut child, delay)),
        When::Ready(_) => None,
    };
    let mut ready = false;
    while let Some(words) = child.line() {
        ledger.take(&words);
        ready |= words[0] == "ready";
        if let (When::Ready(delay), true, None) = (when, ready, &killing) {
            killing = Some(killer(&mut child, delay));
        }
    }
    let process = match killing {
        Some(killer) => killer.join().expect("the killer ends"),
        None => child.process.take(),
    };
    let status = process
        .expect("one of both has it")
        .wait()
        .expect("a child ends");
    assert_eq!(
        status.signal(),
        Some(9),
        "the child ended by itself: {status:?}"
    );
    ready
}

#[expect(clippy::disallowed_methods, reason = "the kill comes after real time")]
fn killer(child: &mut Started, delay: Duration) -> JoinHandle<Option<Child>> {
    let process = child.process.take();
    std::thread::spawn(move || {
        std::thread::sleep(delay);
        let mut process = process?;
        process.kill().expect("a child can be killed");
        Some(process)
    })
}

#[test]
fn nothing_is_lost_doubled_or_torn() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let kills = number("KILLS").unwrap_or(200);
    let started = now();
    let campaign = campaign(seed, kills, Broken::Not);
    let found = &campaign.found;
    println!(
        "kills {} acknowledged {} lost {} doubled {} torn {} seed {seed}",
        campaign.kills, campaign.acknowledged, found.lost, found.doubled, found.torn
    );
    println!(
        "{:.1} s, {:?} seals, merges, drops",
        started.elapsed().as_secs_f32(),
        campaign.did
    );
    assert!(found.is_clean(), "SEED={seed}: {}", found.text());
    assert!(
        campaign.acknowledged > 20 * kills,
        "too little was acknowledged"
    );
    assert!(
        kills < 50 || campaign.did.iter().all(|n| *n > 0),
        "too little went on"
    );
}

/// Until a store is made nothing was ever committed to it, so whatever is left must open.
#[test]
fn a_store_that_was_killed_while_it_was_made_opens() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let mut rng = fastrand::Rng::with_seed(seed);
    let (mut campaign, mut unready) = (Campaign::default(), 0);
    for _ in 0..number("KILLS").unwrap_or(200) / 4 {
        let dir = directory(campaign.kills * KILLS_A_STORE);
        let store = dir.path().join("store");
        let mut ledger = Ledger::new(rng.u64(..));
        let when = When::Started(Duration::from_micros(rng.u64(1_000..40_000)));
        unready += u64::from(!kill_one(&store, &mut ledger, Broken::Not, when));
        campaign.kills += 1;
        campaign.look(&ledger, &store, false);
        assert!(
            campaign.found.is_clean(),
            "SEED={seed}: {}",
            campaign.found.text()
        );
    }
    println!(
        "{} kills, {unready} of them before the store was ready",
        campaign.kills
    );
    assert!(
        unready > 0,
        "every store was made before its child was killed"
    );
}

/// A checker that finds nothing in a broken child would find nothing anywhere.
fn canary(broken: Broken) -> Found {
    let seed = fastrand::u64(..);
    let campaign = campaign(seed, 60, broken);
    println!("{broken:?}: {campaign:?}");
    campaign.found
}

#[test]
fn two_commits_are_seen_to_tear() {
    assert!(canary(Broken::InTwoCommits).torn > 0);
}

#[test]
fn an_early_acknowledgement_is_seen_to_lose() {
    assert!(canary(Broken::AckFirst).lost > 0);
}

#[test]
fn forgetting_is_seen_to_double() {
    assert!(canary(Broken::Forgetful).doubled > 0);
}
