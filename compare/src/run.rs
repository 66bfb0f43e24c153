//! One run: one system, one workload, one empty directory, one sample.
//!
//! Only the calls of the timed part are on the clock, and what the system then still has to do
//! (`drain`). Making ids and checking answers are not. Of several threads the one whose calls took
//! longest in all counts.
//!
//! Invariant I1: a sample exists only if every call reported the right number of first-seen ids
//! and the rows that were written can be read back. A broken run is an error, never a figure.

use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::expiry;
use crate::ids::{Id, Rows, id};
use crate::input;
use crate::measure::{Latencies, disk_bytes, now, processor_time, resident_bytes};
use crate::plan::{Plan, Step};
use crate::sample::Sample;
use crate::systems::{Kind, Result, Setup, System, Worker};
use crate::workload::{Size, Workload};

/// So many rows are read back after a run.
const ROWS_CHECKED: u64 = 64;
/// A cache can hardly be smaller.
const CACHE_BYTES_MIN: u64 = 256 << 10;

/// What to run.
#[derive(Clone, Debug)]
pub struct Task {
    pub system: Kind,
    pub workload: Workload,
    pub size: Size,
    pub seed: u64,
    pub generations: u32,
    /// The file of ids that [`Workload::Input`] is about, and the size of its batches.
    pub input: Option<(PathBuf, usize)>,
}

impl Task {
    /// How the system is opened.
    pub fn setup(&self) -> Setup {
        let Size { ids, preload } = self.size;
        let window = match self.workload {
            // Nothing may expire: whose ids come again isn't known.
            Workload::Input => 2 * ids,
            w if w.reopens() => Size {
                preload: preload + ids,
                ids,
            }
            .window(w.batch()),
            w => self.size.window(w.batch()),
        };
        let data = preload * size_of::<Id>() as u64;
        Setup {
            window,
            generations: self.generations,
            level: self.workload.level(),
            cache_bytes: (self.workload.is_cold()).then(|| (data / 10).max(CACHE_BYTES_MIN)),
            own_time: self.workload.own_time(),
            unsealed: if self.workload.reopens() { ids } else { 0 },
            compacted: self.workload == Workload::Footprint,
            inserted: 0,
        }
    }
}

/// What was done in the timed part, and how long it took.
pub struct Timed {
    pub latencies: Latencies,
    /// Ids given, duplicates included.
    pub ids: u64,
    /// Different ids that the system holds or has held.
    pub inserted: u64,
    /// Processor time of all threads, of background work and the server too.
    pub processor: Duration,
}

/// Runs a task in an empty directory.
///
/// # Errors
///
/// The system failed, or gave a wrong answer.
pub fn run(task: &Task, dir: &Path) -> Result<Sample> {
    let file = task.input.as_ref().map(|(f, _)| input::read(f));
    let file = file.transpose()?;
    let calls = usize::try_from(task.size.ids.div_ceil(task.workload.batch()))?;
    let latencies = Latencies::new(calls);
    let rows = Rows::new(task.seed);
    let resident_before = resident_bytes(None);
    let setup = task.setup();
    let system = task.system.open(dir, setup)?;

    let mut sample = Sample::default();
    let timed = match (&file, &task.input) {
        (Some(file), Some((_, batch))) => input::drive(file, *batch, system.as_ref(), latencies)?,
        _ if task.workload == Workload::Expiry => {
            expiry::drive(task, system.as_ref(), latencies, &mut sample)?
        }
        _ => drive(task, system.as_ref(), &rows, latencies)?,
    };
    let resident = resident_bytes(system.server()).saturating_sub(resident_before);
    check_rows(task, system.as_ref(), &rows, timed.inserted)?;
    for (name, value) in system.figures()? {
        sample.set(name, value);
    }
    system.close()?;

    let live = if task.system.forgets() && task.workload != Workload::Expiry {
        timed.inserted.min(setup.window)
    } else {
        timed.inserted
    };
    record(&mut sample, timed);
    sample.set("rss_mib", resident as f64 / f64::from(1 << 20));
    sample.set("rss_bytes_per_id", resident as f64 / live.max(1) as f64);
    let disk = disk_bytes(dir)? as f64;
    sample.set("disk_bytes_per_id", disk / live.max(1) as f64);
    if let Some(cache) = setup.cache_bytes {
        sample.set("cache_mib", cache as f64 / f64::from(1 << 20));
    }
    Ok(sample)
}

/// The figures of speed.
pub fn record(sample: &mut Sample, mut timed: Timed) {
    let total = timed.latencies.total().as_secs_f64();
    sample.set("ids_per_s", timed.ids as f64 / total);
    let processor = timed.processor.as_nanos() as f64;
    sample.set("cpu_ns_per_id", processor / timed.ids.max(1) as f64);
    let percentiles = timed.latencies.percentiles_us([50.0, 99.0, 99.9, 100.0]);
    for (name, value) in ["p50_us", "p99_us", "p999_us", "max_us"]
        .iter()
        .zip(percentiles)
    {
        sample.set(name, value);
    }
}

/// An answer that isn't the expected one.
pub fn check(answer: Option<u64>, expected: u64) -> Result<()> {
    match answer.filter(|a| *a != expected) {
        Some(answer) => Err(format!("{answer} first seen, {expected} expected").into()),
        None => Ok(()),
    }
}

/// Takes the system through the plan.
fn drive(task: &Task, system: &dyn System, rows: &Rows, mut latencies: Latencies) -> Result<Timed> {
    let mut plan = Plan::new(task.workload, task.size, task.seed);
    let mut ids: Vec<Id> = Vec::new();
    let mut worker = system.worker()?;
    let mut timed_from = None;
    loop {
        system.at(plan.inserted());
        let Some(step) = plan.next(&mut ids) else {
            break;
        };
        let Step::Batch { timed, firsts } = step else {
            system.settle()?;
            continue;
        };
        if timed && timed_from.is_none() {
            timed_from = Some(processor_time(system.server()));
        }
        let start = now();
        let answer = give(task, worker.as_mut(), &ids, rows, timed)?;
        let took = start.elapsed();
        if timed {
            latencies.record(took);
        }
        check(answer, firsts)?;
    }
    let mut inserted = plan.inserted();
    let from = timed_from.unwrap_or_else(|| processor_time(system.server()));
    if task.workload.threads() > 1 {
        drop(worker);
        latencies = side_by_side(task, system, rows, inserted)?;
        inserted += task.size.ids;
    }
    let start = now();
    system.drain()?;
    latencies.add(start.elapsed());
    Ok(Timed {
        latencies,
        ids: task.size.ids,
        inserted,
        processor: processor_time(system.server()).saturating_sub(from),
    })
}

fn give(
    task: &Task,
    worker: &mut dyn Worker,
    ids: &[Id],
    rows: &Rows,
    timed: bool,
) -> Result<Option<u64>> {
    if timed && task.workload.writes_rows() {
        worker.commit(ids, rows)
    } else {
        worker.insert(ids)
    }
}

/// New ids by several threads at once, each taking the next numbers there are.
fn side_by_side(task: &Task, system: &dyn System, rows: &Rows, from: u64) -> Result<Latencies> {
    let (batch, end) = (task.workload.batch(), from + task.size.ids);
    let next = AtomicU64::new(from);
    let threads = task.workload.threads() as usize;
    let barrier = Barrier::new(threads);
    let one = || -> Result<Latencies> {
        let worker = system.worker();
        // All wait for all, also for one that failed.
        barrier.wait();
        let mut worker = worker?;
        let mut latencies = Latencies::new(0);
        loop {
            let start = next.fetch_add(batch, Ordering::Relaxed);
            if start >= end {
                return Ok(latencies);
            }
            let stop = end.min(start + batch);
            let ids: Vec<Id> = (start..stop).map(|n| id(task.seed, n)).collect();
            system.at(stop);
            let begun = now();
            let answer = give(task, worker.as_mut(), &ids, rows, true)?;
            latencies.record(begun.elapsed());
            check(answer, stop - start)?;
        }
    };
    let mut all = Latencies::new(0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(one)).collect();
        for thread in threads {
            let latencies = thread.join().map_err(|_| "a thread panicked")??;
            all.join(&latencies);
        }
        Ok(all)
    })
}

/// Reads some of the timed part's rows back.
fn check_rows(task: &Task, system: &dyn System, rows: &Rows, inserted: u64) -> Result<()> {
    if !task.workload.writes_rows() {
        return Ok(());
    }
    let ids = task.size.ids.max(1);
    for n in 0..ROWS_CHECKED.min(ids) {
        let id = id(task.seed, inserted - 1 - n * (ids / ROWS_CHECKED.min(ids)));
        if system.row(&id)?.as_deref() != Some(rows.of(&id)) {
            return Err("a row is missing or wrong".into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size {
        ids: 5_000,
        preload: 3_000,
    };

    fn task(workload: Workload) -> Task {
        Task {
            system: Kind::Hashset,
            workload,
            size: SIZE,
            seed: 9,
            generations: 8,
            input: None,
        }
    }

    #[test]
    fn a_run_has_the_figures_that_all_have() -> Result<()> {
        for workload in [
            Workload::CommitWithMutationBatch100,
            Workload::NewBatch100Threads2,
        ] {
            let dir = tempfile::tempdir()?;
            let sample = run(&task(workload), dir.path())?;
            let figure = |name| sample.get(name).unwrap_or(-1.0);
            assert!(figure("ids_per_s") > 0.0);
            assert!(figure("max_us") >= figure("p999_us"));
            assert!(figure("p999_us") >= figure("p50_us") && figure("p50_us") > 0.0);
            assert!(figure("cpu_ns_per_id") > 0.0);
        }
        Ok(())
    }

    #[test]
    fn a_cold_cache_is_a_tenth_of_the_data() {
        let mut task = task(Workload::LargerThanMemoryBatch1000);
        task.size.preload = 10_000_000;
        assert_eq!(task.setup().cache_bytes, Some(16_000_000));
        task.workload = Workload::DupOldBatch1000;
        assert_eq!(task.setup().cache_bytes, None);
    }

    /// Says that everything is first seen, and keeps no rows.
    struct Forgetful;

    impl Worker for &Forgetful {
        fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
            Ok(Some(ids.len() as u64))
        }
        fn insert_any(&mut self, ids: &[&[u8]]) -> Result<Option<u64>> {
            Ok(Some(ids.len() as u64))
        }
        fn commit(&mut self, ids: &[Id], _: &Rows) -> Result<Option<u64>> {
            self.insert(ids)
        }
    }

    impl System for Forgetful {
        fn worker(&self) -> Result<Box<dyn Worker + '_>> {
            Ok(Box::new(self))
        }
        fn row(&self, _: &Id) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }
        fn settle(&self) -> Result<()> {
            Ok(())
        }
        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn wrong_answers_and_lost_rows_are_errors_i1() {
        let rows = Rows::new(9);
        let drive = |w| drive(&task(w), &Forgetful, &rows, Latencies::new(0));
        assert!(drive(Workload::NewBatch100).is_ok());
        assert!(drive(Workload::DupOldBatch1000).is_err());
        assert!(drive(Workload::Mixed1PctBatch1000).is_err());
        let commit = task(Workload::CommitWithMutationBatch100);
        assert!(check_rows(&commit, &Forgetful, &rows, 8_000).is_err());
    }

    #[test]
    fn threads_give_each_id_once() -> Result<()> {
        let mut task = task(Workload::SyncedSingleThreads64);
        task.size.ids = 1_001;
        let hashset = Kind::Hashset.open(Path::new(""), task.setup())?;
        let timed = drive(&task, hashset.as_ref(), &Rows::new(9), Latencies::new(0))?;
        assert_eq!((timed.ids, timed.inserted), (1_001, 4_001));
        // All there are, and no more.
        let ids: Vec<Id> = (0..4_002).map(|n| id(9, n)).collect();
        assert_eq!(hashset.worker()?.insert(&ids)?, Some(1));
        Ok(())
    }
}
