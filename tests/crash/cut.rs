//! Power cuts: the child works on a file system of its own, which loses its power under it.
//!
//! What the child tells after the moment of the cut counts for nothing. Without power it could
//! not have told it, and it may be wrong: on ext4, a sync that is under way when the file system
//! is shut down may return well with nothing on the disk.
//!
//! What was acknowledged as `Synced`, or covered by a `sync` that returned, must be there. Other
//! commits may be gone, but whole, and the last ones only (`ledger.rs` has the rules).
//!
//! One process, in a mount namespace of its own, runs a campaign; the test starts it and reads
//! its counts. Where no file system can be mounted the test says `SKIPPED` past the harness's
//! capture, and is an error if cuts were asked for (`CUTS`, `CUTS_XFS`).

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use super::campaign::{CRASHES_A_STORE, Campaign, Ending, crash_one, when};
use super::child::{start_within, tell};
use super::disk::{Disk, FileSystem, NAMESPACE, cut};
use super::ledger::Ledger;
use super::worker::Broken;
use super::{now, number};

/// Cuts the power until that was done often enough, or something was found.
fn campaign(folder: &Path, kind: FileSystem, seed: u64, cuts: u64, broken: Broken) -> Campaign {
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut campaign = Campaign::default();
    while campaign.crashes < cuts && campaign.found.is_clean() {
        let mut disk = Disk::new(kind, folder);
        let store = disk.path().join("store");
        let mut ledger = Ledger::new(rng.u64(..));
        for at in 0..CRASHES_A_STORE.min(cuts - campaign.crashes) {
            let mounted = disk.path().to_path_buf();
            let ending = Ending::Cut(Arc::new(move || cut(&mounted)));
            crash_one(&store, &mut ledger, broken, when(&mut rng), &ending);
            campaign.crashes += 1;
            disk.unmount().expect("nobody uses it any more");
            disk.mount();
            // Now and then two cuts in a row, with no look between.
            if at + 1 == CRASHES_A_STORE || rng.u8(0..4) > 0 {
                campaign.look(&mut ledger, &store, false);
            }
        }
        campaign.look(&mut ledger, &store, true);
        campaign.add(&ledger);
        disk.unmount().expect("the store is closed");
    }
    campaign
}

/// The campaign's process. Words: folder, file system, seed, cuts, how the child is broken.
pub(crate) fn work(words: &[&str]) {
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let (folder, kind) = (Path::new(words[0]), FileSystem::named(words[1]));
    let (seed, cuts, broken) = (number(words[2]), number(words[3]), Broken::named(words[4]));
    let campaign = campaign(folder, kind, seed, cuts, broken);
    let found = &campaign.found;
    for line in found.text().lines() {
        tell(&format!("note {line}"));
    }
    tell(&format!(
        "counts {} {} {} {}",
        found.lost, found.doubled, found.torn, campaign.taken
    ));
    let name = format!("cuts {}", kind.name());
    tell(&format!(
        "says {} taken {} seed {seed}",
        campaign.line(&name),
        campaign.taken
    ));
    tell(&format!("says {:?} seals, merges, drops", campaign.did));
}

/// What a campaign's process told.
#[derive(Debug, Default)]
struct Told {
    lost: u64,
    doubled: u64,
    torn: u64,
    taken: u64,
    notes: Vec<String>,
}

fn cut_power(kind: FileSystem, seed: u64, cuts: u64, broken: Broken) -> Told {
    let memory = Path::new("/dev/shm");
    let folder = match memory.is_dir() {
        true => tempfile::tempdir_in(memory),
        false => tempfile::tempdir(),
    };
    let folder = folder.expect("a temporary directory");
    let path = folder.path().to_str().expect("a path of text");
    let job = format!("cuts {path} {} {seed} {cuts} {broken:?}", kind.name());
    let job: Vec<String> = job.split(' ').map(str::to_string).collect();
    let mut process = start_within(&NAMESPACE, &job);
    let mut told = None;
    let mut notes = Vec::new();
    while let Some(words) = process.line() {
        let number = |at: usize| words[at].parse().expect("a number");
        match words[0].as_str() {
            "counts" => {
                told = Some(Told {
                    lost: number(1),
                    doubled: number(2),
                    torn: number(3),
                    taken: number(4),
                    notes: Vec::new(),
                });
            }
            "says" => println!("{}", words[1..].join(" ")),
            _ => notes.push(words[1..].join(" ")),
        }
    }
    let process = process.process.take();
    let status = process.map(|mut process| process.wait().expect("it ends"));
    assert!(
        status.is_some_and(|s| s.success()),
        "SEED={seed}: {status:?}"
    );
    let mut told = told.expect("a campaign that ended told its counts");
    told.notes = notes;
    told
}

/// Whether power can be cut here. If not, says so where nobody can miss it.
fn can_cut(kind: FileSystem, asked: bool) -> bool {
    let Some(obstacle) = kind.obstacle() else {
        return true;
    };
    let line = format!("SKIPPED: power cuts on {}: {obstacle}\n", kind.name());
    let _ = std::io::stderr().write_all(line.as_bytes());
    assert!(!asked, "{line}");
    false
}

fn nothing_synced_is_lost(kind: FileSystem, cuts: Option<u64>) {
    if cuts == Some(0) || !can_cut(kind, cuts.is_some()) {
        return;
    }
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..));
    let cuts = cuts.unwrap_or(10);
    let started = now();
    let told = cut_power(kind, seed, cuts, Broken::Not);
    println!("{:.1} s", started.elapsed().as_secs_f32());
    let clean = told.lost + told.doubled + told.torn == 0;
    assert!(clean, "SEED={seed}: {}", told.notes.join("\n"));
    assert!(
        cuts < 30 || told.taken > 0,
        "the cuts took nothing, so they were none"
    );
}

#[test]
fn on_ext4_nothing_synced_is_lost_and_nothing_doubled_or_torn() {
    nothing_synced_is_lost(FileSystem::Ext4, number("CUTS"));
}

#[test]
fn on_xfs_nothing_synced_is_lost_and_nothing_doubled_or_torn() {
    let cuts = number("CUTS_XFS").or(number("CUTS").map(|cuts| cuts / 3));
    nothing_synced_is_lost(FileSystem::Xfs, cuts);
}

/// The null control: with syncing off the same cuts must be seen to lose.
fn losses_are_seen(kind: FileSystem) {
    if can_cut(kind, false) {
        let told = cut_power(kind, fastrand::u64(..), 60, Broken::Unsynced);
        assert!(told.lost > 0, "{told:?}");
    }
}

#[test]
fn without_syncs_cuts_on_ext4_are_seen_to_lose() {
    losses_are_seen(FileSystem::Ext4);
}

#[test]
fn without_syncs_cuts_on_xfs_are_seen_to_lose() {
    losses_are_seen(FileSystem::Xfs);
}

#[test]
fn two_commits_are_seen_to_tear() {
    if can_cut(FileSystem::Ext4, false) {
        let seed = || fastrand::u64(..);
        let torn = |_| cut_power(FileSystem::Ext4, seed(), 60, Broken::InTwoCommits).torn > 0;
        // What was found first may be another consequence.
        assert!((0..5).any(torn));
    }
}
