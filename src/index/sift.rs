//! Which runs may hold which ids of a batch, by what memory knows.
//!
//! Nearly every id is new. Sieves rule most of them out in all the runs that they stand before, so
//! the runs' own filters are asked for the few ids that pass, and for all ids only where no sieve
//! stands before a run: after an open, or without memory.
//!
//! Concurrency: one view, immutable. Failure: none; what is not known is a maybe.

use std::sync::Arc;

use crate::front::{Ask, Filter, Lines, Mark, Mask, Sieve};
use crate::sync::Guard;

use super::lookup::{Probe, Tiers};
use super::run::Run;
use super::screen::{Maybe, screen};
use super::view::{Generation, View};

/// Buffers that are used again.
#[derive(Default)]
pub(super) struct Sifting {
    masks: Vec<Mask>,
    marks: Vec<Mark>,
    /// Of sieves: what passed them.
    passed: Vec<Maybe>,
    /// The hashes of those of one sieve.
    hashes: Vec<u64>,
    /// Which runs may hold which ids, run by run in the order of probing.
    pub(super) maybe: Vec<Maybe>,
}

/// Ids that no sieve rules out.
#[derive(Default)]
pub(super) struct Suspects {
    marks: Vec<Mark>,
    passed: Vec<Maybe>,
    /// Their positions in the batch, ascending, and their hashes.
    pub(super) at: Vec<u32>,
    pub(super) hashes: Vec<u64>,
}

/// Leaves in `suspects` the ids of a batch that may be anywhere at all, in a view of which
/// everything is behind sieves. The others are counted as ruled out.
pub(super) fn suspects(view: &View, hashes: &[u64], suspects: &mut Suspects, tiers: &mut Tiers) {
    let Suspects {
        marks,
        passed,
        at,
        hashes: of_suspects,
    } = suspects;
    ask_sieves(view, hashes, marks, passed, tiers);
    at.clear();
    at.extend(passed.iter().map(|m| m.at));
    at.sort_unstable();
    at.dedup();
    of_suspects.clear();
    of_suspects.extend(at.iter().map(|at| hashes[*at as usize]));
    tiers.filtered += (hashes.len() - at.len()) as u64;
}

fn ask_sieves(
    view: &View,
    hashes: &[u64],
    marks: &mut Vec<Mark>,
    passed: &mut Vec<Maybe>,
    tiers: &mut Tiers,
) {
    let sieves: Vec<(u32, &Sieve)> = (0..).zip(view.sieves().iter().map(|s| s.sieve())).collect();
    passed.clear();
    screen(&sieves, hashes, marks, passed);
    tiers.filter_probes += (sieves.len() * hashes.len()) as u64;
}

type Runs<'a> = [(&'a Arc<Generation>, &'a Arc<Run>)];
type Guards = [Guard<Option<Arc<Filter>>>];

/// Leaves in `sifting.maybe` which of `runs`, all those of the view, may hold which ids, given by
/// their positions in the batch and their hashes.
pub(super) fn sift<'a>(
    view: &View,
    runs: &Runs<'_>,
    (open, hashes): (&[u32], &[u64]),
    probe: &impl Fn(usize) -> Probe<'a>,
    sifting: &mut Sifting,
    tiers: &mut Tiers,
) {
    sifting.maybe.clear();
    let guards: Vec<_> = runs.iter().map(|(_, run)| run.filter()).collect();
    let first = open.first().map(|i| probe(*i as usize));
    if first.is_some_and(|probe| probe.only.is_some()) {
        return sift_placed(runs, &guards, (open, hashes), probe, sifting, tiers);
    }
    let always = |run: usize| view.sieves_before(run) == 0;
    ask(
        always,
        &guards,
        hashes,
        &mut sifting.masks,
        &mut sifting.maybe,
        tiers,
    );
    sift_through(view, &guards, hashes, sifting, tiers);
    sifting.maybe.retain(|m| {
        let slice = runs[m.of as usize].0.slice;
        let may = probe(open[m.at as usize] as usize).may_be_in(slice);
        tiers.unfiltered += u64::from(may && guards[m.of as usize].is_none());
        may
    });
    sifting.maybe.sort_unstable();
    // An id may have passed two sieves before the same run.
    sifting.maybe.dedup();
}

/// Asks the sieves, and of what passes them the runs behind.
fn sift_through(
    view: &View,
    guards: &Guards,
    hashes: &[u64],
    sifting: &mut Sifting,
    tiers: &mut Tiers,
) {
    ask_sieves(view, hashes, &mut sifting.marks, &mut sifting.passed, tiers);
    sifting.passed.sort_unstable();
    for passed in sifting.passed.chunk_by(|a, b| a.of == b.of) {
        let of_passed = passed.iter().map(|m| hashes[m.at as usize]);
        sifting.hashes.clear();
        sifting.hashes.extend(of_passed);
        let is_behind = |run: usize| view.sieves_before(run) >> passed[0].of & 1 == 1;
        let from = sifting.maybe.len();
        let maybe = &mut sifting.maybe;
        ask(
            is_behind,
            guards,
            &sifting.hashes,
            &mut sifting.masks,
            maybe,
            tiers,
        );
        for found in &mut sifting.maybe[from..] {
            found.at = passed[found.at as usize].at;
        }
    }
}

/// Asks the filters of some runs; one without a filter may hold anything.
fn ask(
    of: impl Fn(usize) -> bool,
    guards: &Guards,
    hashes: &[u64],
    masks: &mut Vec<Mask>,
    maybe: &mut Vec<Maybe>,
    tiers: &mut Tiers,
) {
    let asked = || guards.iter().enumerate().filter(|(run, _)| of(*run));
    let filters: Vec<(u32, Lines<'_>)> = asked()
        .filter_map(|(run, guard)| Some((run as u32, guard.as_ref()?.lines())))
        .collect();
    screen(&filters, hashes, masks, maybe);
    tiers.filter_probes += (filters.len() * hashes.len()) as u64;
    for (run, _) in asked().filter(|(_, guard)| guard.is_none()) {
        let of = run as u32;
        maybe.extend((0..hashes.len() as u32).map(|at| Maybe { of, at }));
    }
}

/// [`sift`] of ids whose generations are mostly known: only those are asked, id by id.
fn sift_placed<'a>(
    runs: &Runs<'_>,
    guards: &Guards,
    (open, hashes): (&[u32], &[u64]),
    probe: &impl Fn(usize) -> Probe<'a>,
    sifting: &mut Sifting,
    tiers: &mut Tiers,
) {
    for (at, (id, hash)) in (0..).zip(open.iter().zip(hashes.iter())) {
        let probe = probe(*id as usize);
        let mask = Filter::mask(*hash);
        // Latest first, as they are probed.
        let from = probe.only.map_or(0, |only| {
            runs.partition_point(|(generation, _)| generation.slice > only)
        });
        for (run, (generation, _)) in (0..).zip(runs).skip(from) {
            if probe.only.is_some_and(|only| generation.slice < only) {
                break;
            }
            if !probe.may_be_in(generation.slice) {
                continue;
            }
            match guards[run as usize].as_ref() {
                None => tiers.unfiltered += 1,
                Some(filter) => {
                    tiers.filter_probes += 1;
                    if !filter.lines().may_contain(*hash, &mask) {
                        continue;
                    }
                }
            }
            sifting.maybe.push(Maybe { of: run, at });
        }
    }
    sifting.maybe.sort_unstable();
}
