//! Which record of an id stands: the first hit in the one order of probing.
//!
//! Segments new to old, then generations latest first, within one its runs newest first. The
//! first hit is the record, even if it is expired or a tombstone; older ones are never
//! consulted (protocol: "which record wins"). A read error is an error, never "new".
//!
//! A batch is probed tier by tier rather than id by id: each memory access is prefetched for
//! the whole batch, all filters are asked before any page ([`super::sift`]), and what they
//! can't rule out is read from its run by one sorted batched read.

use std::sync::Arc;

use crate::engine::Blocks;
use crate::error::{Error, Result};

use super::hash::IdHash;
use super::page::{Page, page_of};
use super::record::{Hit, Slice};
use super::run::Run;
use super::sift::{Sifting, Suspects, sift, suspects};
use super::view::{Generation, View};

/// What a lookup needs to know of an id besides its hash, and only where a hash is not enough.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) scope: u16,
    /// The retention classes its scope ever used, one bit each.
    pub(crate) classes: u32,
    /// The one generation that may have it, if that is known.
    pub(crate) only: Option<Slice>,
    pub(crate) id: &'a [u8],
}

impl Probe<'_> {
    pub(super) fn may_be_in(&self, slice: Slice) -> bool {
        let class = 1_u32 << u32::from(slice.class);
        self.classes & class != 0 && self.only.is_none_or(|only| only == slice)
    }
}

/// Where answers came from; added to the store's counters by the caller.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tiers {
    /// Found in the active set.
    pub(crate) active: u64,
    /// Ruled out by memory alone: no set has it and every filter says no.
    pub(crate) filtered: u64,
    /// Found in a generation.
    pub(crate) disk: u64,
    /// Asked on disk and not there.
    pub(crate) disk_missed: u64,
    /// Filter probes, and those that said "maybe" of an id that is not in the run.
    pub(crate) filter_probes: u64,
    pub(crate) false_positives: u64,
    /// Pages asked because a run had no filter.
    pub(crate) unfiltered: u64,
}

/// Buffers that a caller reuses from batch to batch.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Positions of the ids that no segment has, and their hashes.
    open: Vec<u32>,
    hashes: Vec<u64>,
    sifting: Sifting,
    /// What has become of each open id.
    fates: Vec<Fate>,
    suspects: Suspects,
    /// Whether pages read are worth room in the cache, by how many of the last ids asked on disk
    /// were there. A replay's are; the pages that a stream of new ids is sent to by the filters'
    /// errors are no more likely than any others to be read again, and would push out all that
    /// are.
    pages: Worth,
    /// Whether to ask the sieves before the segments, by how many of the last ids no segment had:
    /// a duplicate of a moment ago passes the sieves in vain.
    sieves: Worth,
}

/// Whether something pays, by how often it hit lately.
#[derive(Default)]
struct Worth(i32);

impl Worth {
    /// What it takes to change its mind.
    const MEMORY: i32 = 64;

    fn pays(&self) -> bool {
        self.0 >= 0
    }

    fn learn(&mut self, asked: usize, hits: u64) {
        let part = |n: u64| i32::try_from(n).unwrap_or(Self::MEMORY).min(Self::MEMORY);
        let misses = (asked as u64).saturating_sub(hits);
        let balance = self.0 + part(hits) - part(misses);
        self.0 = balance.clamp(-Self::MEMORY, Self::MEMORY);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// No page was read for it.
    Untouched,
    /// Asked on disk, and not there so far.
    Missed,
    Found,
}

/// Looks ids up in one view, given by their hashes; calls `found` for each that has a record.
/// `probe` tells of the id at a position.
pub(crate) fn lookup<'a>(
    view: &View,
    ids: &IdHash,
    hashes: &[u64],
    probe: impl Fn(usize) -> Probe<'a>,
    scratch: &mut Scratch,
    tiers: &mut Tiers,
    mut found: impl FnMut(usize, Hit),
) -> Result<()> {
    scratch.open.clear();
    scratch.hashes.clear();
    let mut hits = 0;
    let found_recent = |i, hit| {
        hits += 1;
        found(i, hit);
    };
    let is_placed = !hashes.is_empty() && probe(0).only.is_some();
    if view.is_sieved() && !is_placed && scratch.sieves.pays() {
        suspects(view, hashes, &mut scratch.suspects, tiers);
        let suspects = std::mem::take(&mut scratch.suspects);
        in_segments(
            view,
            (&suspects.at, &suspects.hashes),
            &probe,
            scratch,
            found_recent,
        );
        scratch.suspects = suspects;
    } else {
        in_segments(view, (&[], hashes), &probe, scratch, found_recent);
    }
    tiers.active += hits;
    scratch
        .sieves
        .learn(hashes.len(), hashes.len() as u64 - hits);
    if scratch.open.is_empty() {
        return Ok(());
    }
    let runs: Vec<(&Arc<Generation>, &Arc<Run>)> = view
        .generations
        .iter()
        .flat_map(|g| g.runs.iter().map(move |run| (g, run)))
        .collect();
    let open = (&scratch.open[..], &scratch.hashes[..]);
    sift(view, &runs, open, &probe, &mut scratch.sifting, tiers);
    scratch.fates.clear();
    scratch.fates.resize(scratch.open.len(), Fate::Untouched);
    let fates = &mut scratch.fates;
    for asked in scratch.sifting.maybe.chunk_by(|a, b| a.of == b.of) {
        let (generation, run) = runs[asked[0].of as usize];
        let mut asked: Vec<Asked<'a>> = asked
            .iter()
            .filter(|m| fates[m.at as usize] != Fate::Found)
            .map(|m| {
                let (at, hash) = (m.at, scratch.hashes[m.at as usize]);
                let page = page_of(hash, run.info.pages);
                let probe = probe(scratch.open[at as usize] as usize);
                Asked {
                    page,
                    at,
                    hash,
                    probe,
                }
            })
            .collect();
        asked
            .iter()
            .for_each(|a| fates[a.at as usize] = Fate::Missed);
        let blocks = match scratch.pages.pays() {
            true => Blocks::Keep,
            false => Blocks::Pass,
        };
        let mut hits = 0;
        read_run(generation, run, ids, &mut asked, blocks, |at, hit| {
            hits += 1;
            fates[at as usize] = Fate::Found;
            found(scratch.open[at as usize] as usize, hit);
        })?;
        scratch.pages.learn(asked.len(), hits);
        tiers.disk += hits;
        if run.filter().is_some() {
            tiers.false_positives += asked.len() as u64 - hits;
        }
    }
    let count = |fate| fates.iter().filter(|f| **f == fate).count() as u64;
    tiers.disk_missed += count(Fate::Missed);
    tiers.filtered += count(Fate::Untouched);
    Ok(())
}

/// How far ahead slots are prefetched: enough to cover a miss, little enough to stay cached.
const AHEAD: usize = 24;

/// Asks the segments' sets, and notes as open what they don't have. `at` says where in the batch
/// the ids are; nothing if they are all of it.
fn in_segments<'a>(
    view: &View,
    (at, hashes): (&[u32], &[u64]),
    probe: &impl Fn(usize) -> Probe<'a>,
    scratch: &mut Scratch,
    mut found: impl FnMut(usize, Hit),
) {
    let ask = |hash: &u64| {
        for segment in &view.segments {
            segment.set().prefetch(*hash);
        }
    };
    hashes.iter().take(AHEAD).for_each(ask);
    for (i, &hash) in hashes.iter().enumerate() {
        hashes.get(i + AHEAD).into_iter().for_each(ask);
        if let Some(&soon) = hashes.get(i + AHEAD / 2) {
            for segment in &view.segments {
                segment.set().prefetch_record(soon);
            }
        }
        let i = at.get(i).map_or(i, |at| *at as usize);
        let id = || {
            let probe = probe(i);
            (probe.scope, probe.id)
        };
        let hit = view.segments.iter().find_map(|s| s.set().find(hash, id));
        match hit {
            Some(hit) => found(i, hit),
            None => {
                scratch.open.push(i as u32);
                scratch.hashes.push(hash);
            }
        }
    }
}

/// An id that a run's page is asked for.
struct Asked<'a> {
    page: u32,
    /// Its position among the open ids.
    at: u32,
    hash: u64,
    probe: Probe<'a>,
}

/// Reads the run's pages that may hold the ids asked for; calls `found` for each that is there.
fn read_run(
    generation: &Generation,
    run: &Run,
    ids: &IdHash,
    asked: &mut [Asked<'_>],
    blocks: Blocks,
    mut found: impl FnMut(u32, Hit),
) -> Result<()> {
    let mut check = |page: &Page<'_>, asked: &Asked<'_>| {
        if let Some(hit) = page.find(ids, asked.hash, asked.probe.scope, asked.probe.id) {
            found(asked.at, hit);
        }
    };
    // A page without ids is not stored.
    if let [one] = asked {
        if let Some(bytes) = generation
            .family
            .get_with(&run.info.key.page(one.page), blocks)?
        {
            check(&parse(&bytes, generation)?, one);
        }
        return Ok(());
    }
    asked.sort_unstable_by_key(|a| (a.page, a.at));
    let of_page = || asked.chunk_by(|a, b| a.page == b.page);
    let keys: Vec<[u8; 16]> = of_page().map(|a| run.info.key.page(a[0].page)).collect();
    let values = generation.family.get_sorted(keys.iter(), blocks)?;
    for (asked, value) in of_page().zip(&values) {
        if let Some(value) = value {
            let page = parse(value, generation)?;
            asked.iter().for_each(|a| check(&page, a));
        }
    }
    Ok(())
}

fn parse<'a>(bytes: &'a [u8], generation: &Generation) -> Result<Page<'a>> {
    Page::parse(bytes, generation.slice).map_err(|damage| {
        Error::damaged(format!("a page of {}: {damage}", generation.family.name()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hits_again_and_again_pays() {
        let mut worth = Worth::default();
        assert!(worth.pays());
        worth.learn(3, 1);
        assert!(!worth.pays());
        worth.learn(2000, 1990);
        assert!(worth.pays());
        (0..100).for_each(|_| worth.learn(3, 0));
        worth.learn(64, 64);
        assert!(worth.pays(), "it forgets");
    }
}
