//! The kill test: SIGKILL at random, hundreds of times, and the canaries that prove the checker.

use std::path::Path;
use std::time::Duration;

use super::campaign::{CRASHES_A_STORE, Campaign, Ending, When, crash_one, when};
use super::found::Found;
use super::ledger::Ledger;
use super::worker::Broken;
use super::{now, number};

/// Kills children until there were enough kills, or something was found.
fn campaign(seed: u64, kills: u64, broken: Broken) -> Campaign {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut campaign = Campaign::default();
    while campaign.crashes < kills && campaign.found.is_clean() {
        let dir = directory(campaign.crashes);
        let store = dir.path().join("store");
        let mut ledger = Ledger::new(rng.u64(..));
        for at in 0..CRASHES_A_STORE.min(kills - campaign.crashes) {
            let when = when(&mut rng);
            crash_one(&store, &mut ledger, broken, when, &Ending::Kill);
            campaign.crashes += 1;
            // Now and then two crashes in a row, with no look between.
            if at + 1 == CRASHES_A_STORE || rng.u8(0..4) > 0 {
                campaign.look(&mut ledger, &store, false);
            }
        }
        campaign.look(&mut ledger, &store, true);
        campaign.add(&ledger);
    }
    campaign
}

/// Every other store lies in memory, if the system has such a place: nothing waits for a disk
/// there, so more is done before the kill. On a disk, more kills meet a sync.
fn directory(kills: u64) -> tempfile::TempDir {
    let memory = Path::new("/dev/shm");
    let dir = match (kills / CRASHES_A_STORE).is_multiple_of(2) && memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    dir.expect("a temporary directory")
}

#[test]
fn nothing_is_lost_doubled_or_torn() {
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let kills = number("KILLS").unwrap_or(200);
    let started = now();
    let campaign = campaign(seed, kills, Broken::Not);
    let found = &campaign.found;
    println!("{} seed {seed}", campaign.line("kills"));
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
        let dir = directory(campaign.crashes * CRASHES_A_STORE);
        let store = dir.path().join("store");
        let mut ledger = Ledger::new(rng.u64(..));
        let when = When::Started(Duration::from_micros(rng.u64(1_000..40_000)));
        let ready = crash_one(&store, &mut ledger, Broken::Not, when, &Ending::Kill);
        unready += u64::from(!ready);
        campaign.crashes += 1;
        campaign.look(&mut ledger, &store, false);
        assert!(
            campaign.found.is_clean(),
            "SEED={seed}: {}",
            campaign.found.text()
        );
    }
    println!(
        "{} kills, {unready} of them before the store was ready",
        campaign.crashes
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
