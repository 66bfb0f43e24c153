//! Generations that drop under load: what it does to the latency of a batch.
//!
//! The same number of new ids twice: a quiet time, in which the clock stands still and nothing
//! expires, then one in which it jumps by a generation again and again. Sealing goes on in both.
//! What is asked is the ratio of the two p99.9.

use crate::ids::{Id, id};
use crate::measure::{Latencies, now, processor_time};
use crate::plan::FILL_BATCH;
use crate::run::{Task, Timed, check};
use crate::sample::Sample;
use crate::systems::{Result, System, Worker};

/// Generations that drop in the timed part.
const DROPS: u64 = 4;

/// New ids, and how long each batch took.
struct Load<'a> {
    worker: Box<dyn Worker + 'a>,
    seed: u64,
    inserted: u64,
    ids: Vec<Id>,
}

impl Load<'_> {
    fn give(&mut self, count: u64, batch: u64, latencies: &mut Latencies) -> Result<()> {
        let end = self.inserted + count;
        while self.inserted < end {
            let stop = end.min(self.inserted + batch);
            let numbers = self.inserted..stop;
            self.ids.clear();
            self.ids.extend(numbers.clone().map(|n| id(self.seed, n)));
            let start = now();
            let answer = self.worker.insert(&self.ids)?;
            latencies.record(start.elapsed());
            check(answer, numbers.end - numbers.start)?;
            self.inserted = stop;
        }
        Ok(())
    }
}

/// Drives a system through it; the timed part is the second one.
///
/// # Errors
///
/// The system failed; or nothing was dropped meanwhile, so there is nothing to tell.
pub fn drive(
    task: &Task,
    system: &dyn System,
    mut latencies: Latencies,
    sample: &mut Sample,
) -> Result<Timed> {
    let (size, window) = (task.size, task.setup().window);
    let mut load = Load {
        worker: system.worker()?,
        seed: task.seed,
        inserted: 0,
        ids: Vec::new(),
    };
    let mut unmeasured = Latencies::new(0);
    while load.inserted < size.preload {
        let count = FILL_BATCH.min(size.preload - load.inserted);
        load.give(count, FILL_BATCH, &mut unmeasured)?;
        system.at(load.inserted);
    }
    system.settle()?;

    let mut quiet = Latencies::new(0);
    load.give(size.ids, task.workload.batch(), &mut quiet)?;
    system.drain()?;
    let before = dropped(system)?;

    let processor = processor_time(system.server());
    let generation = window / u64::from(task.generations);
    let mut shown = size.preload.max(window);
    for drop in 1..=DROPS {
        shown += generation;
        system.at(shown);
        let count = size.ids * drop / DROPS - size.ids * (drop - 1) / DROPS;
        load.give(count, task.workload.batch(), &mut latencies)?;
    }
    let start = now();
    system.drain()?;
    latencies.add(start.elapsed());
    let dropped = dropped(system)? - before;
    if dropped < 1.0 {
        return Err("no generation was dropped under load: give it more --ids".into());
    }
    sample.set("dropped_under_load", dropped);
    let [quiet_us] = quiet.percentiles_us([99.9]);
    let [loaded_us] = latencies.percentiles_us([99.9]);
    sample.set("quiet_p999_us", quiet_us);
    sample.set("x_quiet_p999", loaded_us / quiet_us);
    Ok(Timed {
        latencies,
        ids: size.ids,
        inserted: load.inserted,
        processor: processor_time(system.server()).saturating_sub(processor),
    })
}

fn dropped(system: &dyn System) -> Result<f64> {
    let figures = system.figures()?;
    let dropped = figures.iter().find(|(n, _)| *n == "generations_dropped");
    Ok(dropped.ok_or("it has no generations")?.1)
}
