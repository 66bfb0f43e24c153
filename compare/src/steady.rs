//! A long run at half of the top rate: what a consumer lives with.
//!
//! First the system runs as fast as it can for a tenth of the time; that is its top rate. Then
//! batches come at fixed times, whether the last one is done or not, at half of that, with ids
//! expiring as fast as new ones come. A batch that begins late because the one before took long
//! is counted from when it was due: a pause in the system is not hidden by waiting for it.

use std::path::Path;
use std::time::Duration;

use crate::ids::{Id, id};
use crate::measure::{Latencies, now, pause, processor_time, resident_bytes, written_bytes};
use crate::plan::FILL_BATCH;
use crate::plot::{Chart, of_moments};
use crate::report::{Missing, Report};
use crate::run::{Task, Timed, check, record};
use crate::sample::{Moment, Sample};
use crate::systems::{Result, System, Worker};
use crate::table::{aligned, grouped};

/// A batch that takes longer is a stall.
const STALL: Duration = Duration::from_millis(50);
/// A long run is shown as so many moments.
const MOMENTS: u64 = 120;

/// How long, and how fast.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub seconds: u64,
    /// Ids a second; half of the top rate if not given.
    pub rate: Option<u64>,
}

struct Load<'a> {
    system: &'a dyn System,
    worker: Box<dyn Worker + 'a>,
    seed: u64,
    inserted: u64,
    ids: Vec<Id>,
}

impl Load<'_> {
    /// Makes the ids of the next batch.
    fn make(&mut self, batch: u64) {
        let numbers = self.inserted..self.inserted + batch;
        self.ids.clear();
        self.ids.extend(numbers.map(|n| id(self.seed, n)));
        self.system.at(self.inserted);
    }

    fn give(&mut self) -> Result<()> {
        let answer = self.worker.insert(&self.ids)?;
        let count = self.ids.len() as u64;
        self.inserted += count;
        check(answer, count)
    }
}

/// Runs it in an empty directory; the timed part is the paced one.
///
/// # Errors
///
/// The system failed, or gave a wrong answer.
pub fn run(task: &Task, pace: Pace, dir: &Path) -> Result<Sample> {
    let resident_before = resident_bytes(None);
    let system = task.system.open(dir, task.setup())?;
    let mut load = Load {
        system: system.as_ref(),
        worker: system.worker()?,
        seed: task.seed,
        inserted: 0,
        ids: Vec::new(),
    };
    while load.inserted < task.size.preload {
        load.make(FILL_BATCH.min(task.size.preload - load.inserted));
        load.give()?;
    }
    system.settle()?;

    let mut sample = Sample::default();
    let length = Duration::from_secs(pace.seconds);
    let top = flat_out(&mut load, task.workload.batch(), length / 10)?;
    sample.set("top_ids_per_s", top);
    let rate = pace.rate.map_or(top / 2.0, |rate| rate as f64);
    let written = written_bytes(system.server());
    let timed = paced(&mut load, task.workload.batch(), rate, length, &mut sample)?;

    if let Some((before, after)) = written.zip(written_bytes(system.server())) {
        let of_ids = (timed.ids * size_of::<Id>() as u64) as f64;
        sample.set("write_amplification", (after - before) as f64 / of_ids);
    }
    sample.set("stalls", timed.latencies.longer_than(STALL) as f64);
    let resident = resident_bytes(system.server()).saturating_sub(resident_before);
    sample.set("rss_mib", resident as f64 / f64::from(1 << 20));
    for (name, value) in system.figures()? {
        sample.set(name, value);
    }
    record(&mut sample, timed);
    sample.set("ids_per_s", rate);
    drop(load);
    system.close()?;
    Ok(sample)
}

/// As fast as it can; ids a second.
fn flat_out(load: &mut Load<'_>, batch: u64, length: Duration) -> Result<f64> {
    let (begun, before) = (now(), load.inserted);
    let mut busy = Duration::ZERO;
    while begun.elapsed() < length {
        load.make(batch);
        let start = now();
        load.give()?;
        busy += start.elapsed();
    }
    if load.inserted == before {
        return Err("not one batch was done: give it more time".into());
    }
    Ok((load.inserted - before) as f64 / busy.as_secs_f64())
}

fn paced(
    load: &mut Load<'_>,
    batch: u64,
    rate: f64,
    length: Duration,
    sample: &mut Sample,
) -> Result<Timed> {
    let before = load.inserted;
    let processor = processor_time(load.system.server());
    let each = Duration::from_secs((length.as_secs() / MOMENTS).max(1));
    let mut all = Latencies::new(0);
    let mut moment = Latencies::new(0);
    let (mut begins, mut moment_ends) = (Duration::ZERO, each);
    let mut latest = Duration::ZERO;
    let begun = now();
    for n in 0_u64.. {
        let due = Duration::from_secs_f64((n * batch) as f64 / rate);
        if due >= moment_ends || due >= length {
            let ends = moment_ends.min(length);
            sample
                .moments
                .push(figures(&mut moment, begins, ends, batch));
            moment = Latencies::new(0);
            (begins, moment_ends) = (ends, moment_ends + each);
        }
        if due >= length {
            break;
        }
        load.make(batch);
        // A system's sleep is late by more than is measured, so none right before it is due.
        while let Some(left) = due.checked_sub(begun.elapsed()) {
            match left.checked_sub(Duration::from_micros(200)) {
                Some(long) => pause(long),
                None => std::thread::yield_now(),
            }
        }
        latest = latest.max(begun.elapsed() - due);
        load.give()?;
        let took = begun.elapsed() - due;
        all.record(took);
        moment.record(took);
    }
    sample.set("behind_max_ms", 1e3 * latest.as_secs_f64());
    Ok(Timed {
        latencies: all,
        ids: load.inserted - before,
        inserted: load.inserted,
        processor: processor_time(load.system.server()).saturating_sub(processor),
    })
}

fn figures(latencies: &mut Latencies, from: Duration, to: Duration, batch: u64) -> Moment {
    let ids = latencies.calls() as u64 * batch;
    let seconds = (to - from).as_secs_f64();
    let [p50, p99, p999, max] = latencies.percentiles_us([50.0, 99.0, 99.9, 100.0]);
    let figures = [
        ("s", to.as_secs_f64()),
        ("ids_per_s", ids as f64 / seconds),
        ("p50_us", p50),
        ("p99_us", p99),
        ("p999_us", p999),
        ("max_us", max),
    ];
    figures.map(|(n, v)| (n.to_owned(), v)).into()
}

/// The figures of long runs, and how the last round's went on: name, head, places.
const COLUMNS: [(&str, &str, usize); 11] = [
    ("top_ids_per_s", "top ids/s", 0),
    ("ids_per_s", "ids/s", 0),
    ("p50_us", "p50 us", 1),
    ("p99_us", "p99 us", 1),
    ("p999_us", "p99.9 us", 1),
    ("max_us", "max us", 0),
    ("stalls", "> 50 ms", 0),
    ("write_amplification", "write ampl.", 2),
    ("generations_dropped", "dropped", 0),
    ("rss_mib", "rss MiB", 0),
    ("cpu_ns_per_id", "cpu ns/id", 0),
];

/// How many moments people are shown; the plot and JSON have all.
const SHOWN: usize = 12;

/// A table of a steady workload, and of its course.
pub fn table(report: &Report) -> String {
    let mut heads = vec!["system".to_owned()];
    heads.extend(COLUMNS.iter().map(|(_, head, _)| (*head).to_owned()));
    let (mut rows, mut course) = (vec![heads], String::new());
    for outcome in &report.outcomes {
        let name = outcome.system.name();
        match &outcome.samples {
            Ok(samples) => {
                let mut row = vec![name.clone()];
                row.extend(COLUMNS.iter().map(|(of, _, places)| {
                    let value = outcome.median(of);
                    value.map_or_else(|| "-".to_owned(), |v| figure(v, *places))
                }));
                rows.push(row);
                if let Some(last) = samples.last() {
                    course.push_str(&course_of(&name, &last.moments));
                }
            }
            Err(Missing::Failed(why)) => course.push_str(&format!("  {name} FAILED: {why}\n")),
            Err(Missing::Skipped(why)) => course.push_str(&format!("  {name} skipped: {why}\n")),
        }
    }
    let name = report.workload.name();
    let heading = format!("steady {name}, each batch from when it was due\n");
    heading + &aligned(&rows) + &course
}

fn figure(value: f64, places: usize) -> String {
    match places {
        0 => grouped(value),
        places => format!("{value:.places$}"),
    }
}

fn course_of(name: &str, moments: &[Moment]) -> String {
    let names = ["s", "p50_us", "p99_us", "p999_us", "max_us"];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    for moment in moments.iter().step_by(moments.len().div_ceil(SHOWN).max(1)) {
        rows.push(
            names
                .map(|n| figure(moment[n], usize::from(n != "s")))
                .to_vec(),
        );
    }
    format!("{name} over time\n{}", aligned(&rows))
}

/// A chart for each system and workload.
pub fn charts(reports: &[Report]) -> Vec<Chart> {
    let mut charts = Vec::new();
    for report in reports {
        for outcome in &report.outcomes {
            if let Some(last) = outcome.samples().last() {
                let title = format!("{} {}", outcome.system.name(), report.workload.name());
                charts.push(of_moments(&title, &last.moments));
            }
        }
    }
    charts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::systems::Kind;
    use crate::workload::{Size, Workload};

    #[test]
    fn batches_come_at_their_rate_and_moments_cover_the_time() -> Result<()> {
        let task = Task {
            system: Kind::Hashset,
            workload: Workload::NewBatch100,
            size: Size {
                ids: 1,
                preload: 2_500,
            },
            seed: 1,
            generations: 8,
            input: None,
        };
        let pace = Pace {
            seconds: 2,
            rate: Some(20_000),
        };
        let dir = tempfile::tempdir()?;
        let sample = run(&task, pace, dir.path())?;
        let seconds: Vec<f64> = sample.moments.iter().map(|m| m["s"]).collect();
        assert_eq!(seconds, [1.0, 2.0]);
        for moment in &sample.moments {
            assert_eq!(moment["ids_per_s"], 20_000.0);
            assert!(moment["max_us"] >= moment["p50_us"]);
        }
        assert!(sample.get("top_ids_per_s") > Some(20_000.0));
        assert_eq!(sample.get("ids_per_s"), Some(20_000.0));
        Ok(())
    }
}
