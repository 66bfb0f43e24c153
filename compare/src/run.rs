//! One run: one system, one workload, one empty directory, one sample.
//!
//! Only the calls of the timed part are on the clock, and what the system then still has to do
//! (`drain`). Making ids and checking answers are not.
//!
//! Invariant I1: a sample exists only if every call reported the right number of first-seen ids
//! and the rows that were written can be read back. A broken run is an error, never a figure.

use std::path::Path;

use serde_json::{Value, json};

use crate::ids::{Id, Rows, id};
use crate::measure::{Latencies, disk_bytes, now, resident_bytes};
use crate::systems::{Kind, Result, Setup, System};
use crate::workload::{Plan, Size, Step, Workload};

/// So many rows are read back after a run.
const ROWS_CHECKED: u64 = 64;

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct Task {
    pub system: Kind,
    pub workload: Workload,
    pub size: Size,
    pub seed: u64,
    pub generations: u32,
}

/// What one run measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    pub ids_per_s: f64,
    pub p50_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub rss_mib: f64,
    pub disk_bytes_per_id: f64,
}

impl Sample {
    /// The sample under the names that the output uses.
    pub fn to_json(self) -> Value {
        json!({
            "ids_per_s": self.ids_per_s,
            "p50_us": self.p50_us,
            "p99_us": self.p99_us,
            "p999_us": self.p999_us,
            "rss_mib": self.rss_mib,
            "disk_bytes_per_id": self.disk_bytes_per_id,
        })
    }

    /// Reads what [`Sample::to_json`] wrote.
    pub fn from_json(value: &Value) -> Option<Sample> {
        let field = |name: &str| value.get(name)?.as_f64();
        Some(Sample {
            ids_per_s: field("ids_per_s")?,
            p50_us: field("p50_us")?,
            p99_us: field("p99_us")?,
            p999_us: field("p999_us")?,
            rss_mib: field("rss_mib")?,
            disk_bytes_per_id: field("disk_bytes_per_id")?,
        })
    }
}

/// Runs a task in an empty directory.
///
/// # Errors
///
/// The system failed, or gave a wrong answer.
pub fn run(task: &Task, dir: &Path) -> Result<Sample> {
    let calls = usize::try_from(task.size.ids.div_ceil(task.workload.batch()))?;
    let mut latencies = Latencies::new(calls);
    let rows = Rows::new(task.seed);
    let resident_before = resident_bytes();
    let window = task.size.window(task.workload.batch());
    let setup = Setup {
        window,
        generations: task.generations,
    };
    let mut system = task.system.open(dir, setup)?;

    let inserted = drive(task, system.as_mut(), &rows, &mut latencies)?;
    let resident = resident_bytes().saturating_sub(resident_before);
    check_rows(task, system.as_ref(), &rows, inserted)?;
    system.close()?;

    let live = if task.system.forgets() {
        inserted.min(window)
    } else {
        inserted
    };
    let [p50_us, p99_us, p999_us] = latencies.percentiles_us([50.0, 99.0, 99.9]);
    Ok(Sample {
        ids_per_s: task.size.ids as f64 / latencies.total().as_secs_f64(),
        p50_us,
        p99_us,
        p999_us,
        rss_mib: resident as f64 / f64::from(1 << 20),
        disk_bytes_per_id: disk_bytes(dir)? as f64 / live as f64,
    })
}

/// Takes the system through the plan; the number of different ids inserted.
fn drive(
    task: &Task,
    system: &mut dyn System,
    rows: &Rows,
    latencies: &mut Latencies,
) -> Result<u64> {
    let mut plan = Plan::new(task.workload, task.size, task.seed);
    let mut ids: Vec<Id> = Vec::new();
    loop {
        system.at(plan.inserted());
        let Some(step) = plan.next(&mut ids) else {
            break;
        };
        let Step::Batch { timed, firsts } = step else {
            system.settle()?;
            continue;
        };
        let start = now();
        let answer = if timed && task.workload.writes_rows() {
            system.commit(&ids, rows)?
        } else {
            system.insert(&ids)?
        };
        let took = start.elapsed();
        if timed {
            latencies.record(took);
        }
        if let Some(answer) = answer.filter(|a| *a != firsts) {
            let name = task.system.name();
            return Err(format!("{name}: {answer} first seen, {firsts} expected").into());
        }
    }
    let start = now();
    system.drain()?;
    latencies.add(start.elapsed());
    Ok(plan.inserted())
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
            return Err(format!("{}: a row is missing or wrong", task.system.name()).into());
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
        }
    }

    #[test]
    fn a_sample_survives_json() -> Result<()> {
        let dir = tempfile::tempdir()?;
        let sample = run(&task(Workload::CommitWithMutationBatch100), dir.path())?;
        assert!(sample.ids_per_s > 0.0 && sample.p999_us >= sample.p50_us);
        assert_eq!(Sample::from_json(&sample.to_json()), Some(sample));
        assert_eq!(Sample::from_json(&json!({"ids_per_s": 1})), None);
        Ok(())
    }

    /// Says that everything is first seen, and keeps no rows.
    struct Forgetful;

    impl System for Forgetful {
        fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
            Ok(Some(ids.len() as u64))
        }
        fn commit(&mut self, ids: &[Id], _: &Rows) -> Result<Option<u64>> {
            self.insert(ids)
        }
        fn row(&self, _: &Id) -> Result<Option<Vec<u8>>> {
            Ok(None)
        }
        fn settle(&mut self) -> Result<()> {
            Ok(())
        }
        fn close(self: Box<Self>) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn wrong_answers_and_lost_rows_are_errors_i1() {
        let rows = Rows::new(9);
        let drive = |w| drive(&task(w), &mut Forgetful, &rows, &mut Latencies::new(0));
        assert!(drive(Workload::NewBatch100).is_ok());
        assert!(drive(Workload::DupOldBatch1000).is_err());
        assert!(drive(Workload::Mixed1PctBatch1000).is_err());
        let commit = task(Workload::CommitWithMutationBatch100);
        assert!(check_rows(&commit, &Forgetful, &rows, 8_000).is_err());
    }
}
