//! Which record of an id stands: the first hit in the one order of probing.
//!
//! Segments new to old, then generations latest first, within one its runs newest first. The
//! first hit is the record, even if it is expired or a tombstone; older ones are never
//! consulted (protocol: "which record wins"). A read error is an error, never "new".
//!
//! A batch is probed tier by tier rather than id by id: each memory access is prefetched for
//! the whole batch, a filter is asked for all ids at once, and what it can't rule out is read
//! from its run by one sorted batched read.

use crate::error::{Error, Result};
use crate::front::{Filter, Mask};

use super::hash::IdHash;
use super::page::{Page, page_of};
use super::record::Hit;
use super::run::Run;
use super::view::{Generation, View};

/// One id to look up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe<'a> {
    pub(crate) hash: u64,
    pub(crate) scope: u16,
    /// The retention classes its scope ever used, one bit each.
    pub(crate) classes: u32,
    pub(crate) id: &'a [u8],
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
    open: Vec<u32>,
    maybe: Vec<u32>,
    masks: Vec<Mask>,
    touched: Vec<bool>,
}

/// Looks all probes up in one view; calls `found` for each that has a record.
pub(crate) fn lookup(
    view: &View,
    ids: &IdHash,
    probes: &[Probe<'_>],
    scratch: &mut Scratch,
    tiers: &mut Tiers,
    mut found: impl FnMut(usize, Hit),
) -> Result<()> {
    scratch.open.clear();
    in_segments(view, probes, &mut scratch.open, |i, hit| {
        tiers.active += 1;
        found(i, hit);
    });
    if scratch.open.is_empty() {
        return Ok(());
    }
    scratch.masks.clear();
    scratch.masks.extend(
        scratch
            .open
            .iter()
            .map(|i| Filter::mask(probes[*i as usize].hash)),
    );
    scratch.touched.clear();
    scratch.touched.resize(scratch.open.len(), false);
    for generation in &view.generations {
        let class = 1_u32 << u32::from(generation.slice.class);
        for run in &generation.runs {
            filter_run(run, class, probes, scratch, tiers);
            if scratch.maybe.is_empty() {
                continue;
            }
            let hits = read_run(generation, run, ids, probes, scratch, tiers)?;
            for (at, hit) in hits.into_iter().rev() {
                let at = at as usize;
                tiers.disk += 1;
                found(scratch.open[at] as usize, hit);
                scratch.open.swap_remove(at);
                scratch.masks.swap_remove(at);
                scratch.touched.swap_remove(at);
            }
        }
    }
    let missed = scratch.touched.iter().filter(|t| **t).count() as u64;
    tiers.disk_missed += missed;
    tiers.filtered += scratch.open.len() as u64 - missed;
    Ok(())
}

/// How far ahead slots are prefetched: enough to cover a miss, little enough to stay cached.
const AHEAD: usize = 24;

fn in_segments(
    view: &View,
    probes: &[Probe<'_>],
    open: &mut Vec<u32>,
    mut found: impl FnMut(usize, Hit),
) {
    let ask = |i: usize| {
        for segment in &view.segments {
            segment.set().prefetch(probes[i].hash);
        }
    };
    (0..probes.len().min(AHEAD)).for_each(ask);
    for (i, probe) in probes.iter().enumerate() {
        if i + AHEAD < probes.len() {
            ask(i + AHEAD);
        }
        if i + AHEAD / 2 < probes.len() {
            let soon = probes[i + AHEAD / 2].hash;
            for segment in &view.segments {
                segment.set().prefetch_record(soon);
            }
        }
        let mut segments = view.segments.iter();
        let hit = segments.find_map(|s| s.set().find(probe.hash, probe.scope, probe.id));
        match hit {
            Some(hit) => found(i, hit),
            None => open.push(i as u32),
        }
    }
}

/// Leaves in `maybe` the positions (within `open`) that this run may hold.
fn filter_run(
    run: &Run,
    class: u32,
    probes: &[Probe<'_>],
    scratch: &mut Scratch,
    tiers: &mut Tiers,
) {
    let Scratch {
        open,
        maybe,
        masks,
        touched,
    } = scratch;
    maybe.clear();
    let filter = run.filter();
    let Some(filter) = filter.as_ref() else {
        maybe.extend(
            (0..open.len() as u32)
                .filter(|at| probes[open[*at as usize] as usize].classes & class != 0),
        );
        tiers.unfiltered += maybe.len() as u64;
        maybe.iter().for_each(|at| touched[*at as usize] = true);
        return;
    };
    for i in open.iter().take(AHEAD) {
        filter.prefetch(probes[*i as usize].hash);
    }
    for (at, i) in open.iter().enumerate() {
        if let Some(ahead) = open.get(at + AHEAD) {
            filter.prefetch(probes[*ahead as usize].hash);
        }
        let probe = &probes[*i as usize];
        if filter.may_contain(probe.hash, &masks[at]) && probe.classes & class != 0 {
            maybe.push(at as u32);
        }
    }
    tiers.filter_probes += open.len() as u64;
    tiers.false_positives += maybe.len() as u64;
    maybe.iter().for_each(|at| touched[*at as usize] = true);
}

/// Reads the run's pages that may hold the ids in `maybe`. Returns the hits by position within
/// `open`, ascending.
fn read_run(
    generation: &Generation,
    run: &Run,
    ids: &IdHash,
    probes: &[Probe<'_>],
    scratch: &mut Scratch,
    tiers: &mut Tiers,
) -> Result<Vec<(u32, Hit)>> {
    let probe = |at: u32| &probes[scratch.open[at as usize] as usize];
    let pages = run.info.pages;
    let mut wanted: Vec<(u32, u32)> = scratch
        .maybe
        .iter()
        .map(|at| (page_of(probe(*at).hash, pages), *at))
        .collect();
    let mut hits = Vec::new();
    let mut check = |page: &Page<'_>, at: u32| {
        let p = probe(at);
        if let Some(hit) = page.find(ids, p.hash, p.scope, p.id) {
            hits.push((at, hit));
        }
    };
    if let [(page, at)] = wanted[..] {
        if let Some(bytes) = generation.family.get(&run.info.key.page(page))? {
            check(&parse(&bytes, generation)?, at);
        }
    } else {
        wanted.sort_unstable();
        let mut keys: Vec<[u8; 16]> = wanted.iter().map(|w| run.info.key.page(w.0)).collect();
        keys.dedup();
        let values = generation.family.get_sorted(keys.iter())?;
        let mut next = 0;
        for (key, value) in keys.iter().zip(&values) {
            let page = value.as_ref().map(|v| parse(v, generation)).transpose()?;
            while let Some((number, at)) = wanted.get(next)
                && run.info.key.page(*number) == *key
            {
                // A page without ids is not stored.
                if let Some(page) = &page {
                    check(page, *at);
                }
                next += 1;
            }
        }
    }
    if run.filter().is_some() {
        tiers.false_positives -= hits.len() as u64;
    }
    hits.sort_unstable_by_key(|h| h.0);
    Ok(hits)
}

fn parse<'a>(bytes: &'a [u8], generation: &Generation) -> Result<Page<'a>> {
    Page::parse(bytes, generation.slice).map_err(|damage| {
        Error::damaged(format!("a page of {}: {damage}", generation.family.name()))
    })
}
