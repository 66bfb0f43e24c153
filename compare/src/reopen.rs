//! Killed with ids that had not come to rest: how long until it answers again?
//!
//! Two processes on one directory. The first fills it and says so; then it is killed, with its
//! server if it has one, in the middle of its life. The second opens what it finds. What the
//! first handed to the system is still there, in the system's own cache too: this measures the
//! work of opening, not the disk.
//!
//! Invariant I1: what a system promised to keep is there: all of a thousand ids at rest, and the
//! last of those that weren't. Whose promise is weaker gets the ids that it lost as a figure.

use std::io::{Read, Write};
use std::path::Path;
use std::time::Duration;

use crate::ids::{Id, Rows, id};
use crate::measure::{disk_bytes, now, pause, resident_bytes};
use crate::plan::FILL_BATCH;
use crate::run::{Task, check};
use crate::sample::Sample;
use crate::systems::{Result, Setup, System, Worker};

/// What the first process prints when it may be killed.
pub const FILLED: &str = "filled";
/// So many of the last ids are looked for.
const LAST_ASKED: u64 = 10_000;
/// A system that isn't ready after this time is stuck.
const PATIENCE: Duration = Duration::from_mins(10);
const PAUSE: Duration = Duration::from_micros(200);

/// The first process: never returns of itself when all went well.
///
/// # Errors
///
/// The system failed, or brought to rest what should not be.
pub fn fill(task: &Task, dir: &Path) -> Result<()> {
    let rows = Rows::new(task.seed);
    let system = task.system.open(dir, task.setup())?;
    fill_system(task, system.as_ref(), &rows)?;
    // Of one that buffers some have not even come in.
    if let Some(unsealed) = figure(system.as_ref(), "unsealed_ids")?
        && task.system.keeps_written()
        && unsealed < task.size.ids as f64
    {
        let asked = task.size.ids;
        return Err(format!("{unsealed} ids are unsealed, {asked} were asked for").into());
    }
    println!("{FILLED}");
    std::io::stdout().flush()?;
    // Until it is killed, or who would do it is gone.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    system.close()
}

fn fill_system(task: &Task, system: &dyn System, rows: &Rows) -> Result<()> {
    let (preload, end) = (task.size.preload, task.size.preload + task.size.ids);
    let mut worker = system.worker()?;
    let mut inserted = 0;
    while inserted < end {
        let stop = if inserted < preload { preload } else { end }.min(inserted + FILL_BATCH);
        let ids = numbers(task.seed, inserted, stop);
        system.at(inserted);
        let answer = if inserted >= preload && task.workload.writes_rows() {
            worker.commit(&ids, rows)?
        } else {
            worker.insert(&ids)?
        };
        check(answer, stop - inserted)?;
        inserted = stop;
        if inserted == preload {
            system.settle()?;
        }
    }
    Ok(())
}

fn numbers(seed: u64, from: u64, to: u64) -> Vec<Id> {
    (from..to).map(|n| id(seed, n)).collect()
}

fn figure(system: &dyn System, name: &str) -> Result<Option<f64>> {
    let figures = system.figures()?;
    Ok(figures.iter().find(|(n, _)| *n == name).map(|(_, v)| *v))
}

/// The second process.
///
/// # Errors
///
/// The system doesn't open, or has lost what it promised to keep.
pub fn open(task: &Task, dir: &Path) -> Result<Sample> {
    let inserted = task.size.preload + task.size.ids;
    let setup = Setup {
        inserted,
        ..task.setup()
    };
    let resident_before = resident_bytes(None);
    let start = now();
    let system = task.system.open(dir, setup)?;
    let mut worker = system.worker()?;
    worker.insert(&[id(task.seed, inserted - 1 - task.size.ids / 2)])?;
    let first_verdict = start.elapsed();
    while !system.is_ready()? {
        if start.elapsed() > PATIENCE {
            return Err("it is not ready after ten minutes".into());
        }
        pause(PAUSE);
    }
    let ready = start.elapsed();

    let mut sample = Sample::default();
    sample.set("first_verdict_ms", 1e3 * first_verdict.as_secs_f64());
    sample.set("ready_ms", 1e3 * ready.as_secs_f64());
    let resident = resident_bytes(system.server()).saturating_sub(resident_before);
    sample.set("rss_mib", resident as f64 / f64::from(1 << 20));
    for (name, value) in system.figures()? {
        sample.set(name, value);
    }
    let lost = lost(task, worker.as_mut(), inserted)?;
    sample.set("lost_ids", lost as f64);
    drop(worker);
    system.close()?;
    sample.set(
        "disk_bytes_per_id",
        disk_bytes(dir)? as f64 / inserted as f64,
    );
    Ok(sample)
}

/// How many of the last ids are gone.
fn lost(task: &Task, worker: &mut dyn Worker, inserted: u64) -> Result<u64> {
    let settled = numbers(task.seed, 0, task.size.preload.min(FILL_BATCH));
    if !settled.is_empty() {
        check(worker.insert(&settled)?, 0)?;
    }
    let mut lost = 0;
    let mut from = inserted - task.size.ids.min(LAST_ASKED);
    while from < inserted {
        let to = inserted.min(from + FILL_BATCH);
        let ids = numbers(task.seed, from, to);
        lost += worker.insert(&ids)?.ok_or("it can't tell a duplicate")?;
        from = to;
    }
    if lost > 0 && task.system.keeps_written() {
        return Err(format!("{lost} of its last ids are lost").into());
    }
    Ok(lost)
}
