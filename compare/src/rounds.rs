//! The rounds of one workload: every system once a round, each run in a process of its own.
//!
//! A process of its own gives each run fresh memory, no other engine's background threads, and a
//! resident size that is its own. The order turns by one each round, so that no system always
//! runs after the same neighbour.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::args::Args;
use crate::report::Outcome;
use crate::run::{Sample, Task, run};
use crate::systems::{Kind, Result};
use crate::workload::Workload;

/// Runs all rounds of a workload; the outcomes in the order of `systems`.
pub fn rounds(args: &Args, workload: Workload, systems: &[Kind], dir: &Path) -> Vec<Outcome> {
    let mut outcomes: Vec<Outcome> = systems
        .iter()
        .map(|s| Outcome {
            system: *s,
            size: args.size(*s, workload),
            samples: Ok(Vec::new()),
        })
        .collect();
    for round in 0..args.rounds {
        for turn in 0..systems.len() {
            let at = (turn + round as usize) % systems.len();
            let outcome = &mut outcomes[at];
            let Ok(samples) = &mut outcome.samples else {
                continue;
            };
            match in_a_process(args, workload, outcome.system, round, dir) {
                Ok(sample) => samples.push(sample),
                Err(e) => outcome.samples = Err(e.to_string()),
            }
        }
    }
    outcomes
}

/// Runs one system once in a new process, in a new directory that is removed afterwards.
fn in_a_process(
    args: &Args,
    workload: Workload,
    system: Kind,
    round: u32,
    dir: &Path,
) -> Result<Sample> {
    let home = tempfile::Builder::new()
        .prefix(&system.name())
        .tempdir_in(dir)?;
    let size = args.size(system, workload);
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", "--uncapped", "--workload", &workload.name()]);
    command.args(["--systems", &system.name(), "--ids", &size.ids.to_string()]);
    command.args(["--preload", &size.preload.to_string()]);
    command.args([
        "--seed",
        &args.seed.wrapping_add(u64::from(round)).to_string(),
    ]);
    command.args(["--generations", &args.generations.to_string()]);
    command.arg("--dir").arg(home.path());
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim();
        return Err(format!("{} {said}", output.status).into());
    }
    let value = serde_json::from_slice(&output.stdout)?;
    Sample::from_json(&value).ok_or_else(|| "the run printed no sample".into())
}

/// The other side: does the one run that the arguments name, and prints its sample.
///
/// # Errors
///
/// The run failed, or the arguments name more than one.
pub fn one(args: &Args) -> Result<()> {
    let (systems, workloads) = (args.systems(), args.workloads());
    let ([system], [workload], Some(dir)) = (&systems[..], &workloads[..], &args.dir) else {
        return Err("--one takes one system, one workload and a directory".into());
    };
    let task = Task {
        system: *system,
        workload: *workload,
        size: args.size(*system, *workload),
        seed: args.seed,
        generations: args.generations,
    };
    println!("{}", run(&task, dir)?.to_json());
    Ok(())
}
