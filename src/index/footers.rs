//! Which runs the generations have, from their footers: two seeks each.
//!
//! A run that a later one covers is what a merge left that was cut short: it is removed, unless
//! the store is only read.

use std::sync::Arc;

use crate::engine::{Engine, Family};
use crate::error::{Error, Result};
use crate::resources::Resources;

use super::record::Slice;
use super::run::{Run, RunInfo, RunKey};
use super::view::Generation;
use super::{Classes, snapshot};

/// The generations, latest first; removes strays and snapshots of none.
pub(super) fn load_generations(
    engine: &Engine,
    families: &[(Slice, Arc<Family>)],
    classes: &Classes,
    resources: &Resources,
    is_reader: bool,
) -> Result<Vec<Arc<Generation>>> {
    let mut known = Vec::new();
    let mut generations = Vec::new();
    for (slice, family) in families {
        known.push(snapshot::name(*slice));
        let mut runs = read_footers(family)?;
        let strays: Vec<RunInfo> = runs
            .iter()
            .filter(|r| runs.iter().any(|o| o.covers(r)))
            .copied()
            .collect();
        runs.retain(|r| !strays.contains(r));
        for stray in strays.iter().filter(|_| !is_reader) {
            engine.remove_files(family, &stray.key.page(0), &stray.key.footer())?;
        }
        let width_ms = classes.width_ms(*slice);
        let generation = Generation {
            slice: *slice,
            width_ms,
            family: Arc::clone(family),
            runs: Vec::new(),
        };
        let runs = runs
            .into_iter()
            .map(|info| Run::new(info, resources))
            .collect();
        generations.push(generation.with_runs(runs));
    }
    if is_reader {
        return Ok(generations);
    }
    for file in engine.home().list(snapshot::FOLDER)? {
        if !known.contains(&file) {
            engine.home().remove(&file)?;
        }
    }
    Ok(generations)
}

/// The footers of a generation's runs.
pub(super) fn read_footers(family: &Arc<Family>) -> Result<Vec<RunInfo>> {
    let mut runs = Vec::new();
    let mut rows = family.rows(&[]);
    while let Some((key, _)) = rows.here() {
        let run = RunKey::of(key)?;
        let footer = family
            .get(&run.footer())?
            .ok_or_else(|| Error::damaged(format!("a run of {} has no footer", family.name())))?;
        runs.push(RunInfo::decode(run, &footer)?);
        rows.seek(&run.footer());
        rows.step();
    }
    rows.status()?;
    Ok(runs)
}
