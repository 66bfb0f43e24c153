//! The rounds of one workload: every system once a round, each run in a process of its own.
//!
//! The order turns by one each round, so that no system always runs after the same neighbour.

use std::path::Path;

use crate::args::{Args, Phase};
use crate::child;
use crate::reopen;
use crate::report::{Missing, Outcome};
use crate::run::{Task, run};
use crate::steady::{self, Pace};
use crate::stop;
use crate::systems::{Kind, Result};
use crate::workload::{Size, Workload};

/// What is asked of every system, round by round.
pub struct Asked<'a> {
    pub args: &'a Args,
    pub workload: Workload,
    pub pace: Option<Pace>,
    /// Instead of what the arguments say, where sizes grow.
    pub size: Option<Size>,
}

impl Asked<'_> {
    fn task(&self, system: Kind, round: u32) -> Task {
        let args = self.args;
        let usual = || args.size(system, self.workload);
        Task {
            system,
            workload: self.workload,
            size: self.size.unwrap_or_else(usual),
            seed: args.seed.wrapping_add(u64::from(round)),
            generations: args.generations,
            input: args.input(),
        }
    }

    /// Why a system isn't run at all.
    fn skips(&self, system: Kind) -> Option<String> {
        let least = self.size.map(|s| s.preload).or(self.workload.live());
        let cap = system.cap(self.workload).filter(|_| !self.args.uncapped);
        system.lacks(self.workload).or_else(|| {
            let (least, cap) = (least?, cap?);
            (least > cap).then(|| "so many ids would take it too long; see --uncapped".to_owned())
        })
    }

    /// Runs all rounds; the outcomes in the order of `systems`.
    pub fn run(&self, systems: &[Kind], dir: &Path) -> Vec<Outcome> {
        let mut outcomes: Vec<Outcome> = systems
            .iter()
            .map(|system| Outcome {
                system: *system,
                size: self.task(*system, 0).size,
                samples: match self.skips(*system) {
                    Some(why) => Err(Missing::Skipped(why)),
                    None => Ok(Vec::new()),
                },
            })
            .collect();
        for round in 0..self.args.rounds {
            for turn in 0..systems.len() {
                let at = (turn + round as usize) % systems.len();
                let outcome = &mut outcomes[at];
                let Ok(samples) = &mut outcome.samples else {
                    continue;
                };
                if stop::requested() {
                    return outcomes;
                }
                match child::run(&self.task(outcome.system, round), self.pace, dir) {
                    Ok(sample) => samples.push(sample),
                    Err(e) => outcome.samples = Err(Missing::Failed(e.to_string())),
                }
            }
        }
        outcomes
    }
}

/// The other side: does the one run that the arguments name, and prints its sample.
///
/// # Errors
///
/// The run failed, or the arguments name more than one.
pub fn one(args: &Args) -> Result<()> {
    let workloads = args.workloads();
    let ([workload], Some(dir)) = (&workloads[..], &args.dir) else {
        return Err("--one takes one workload and a directory".into());
    };
    let systems = args.systems(*workload);
    let [system] = &systems[..] else {
        return Err("--one takes one system".into());
    };
    let task = Task {
        system: *system,
        workload: *workload,
        size: args.size(*system, *workload),
        seed: args.seed,
        generations: args.generations,
        input: args.input(),
    };
    let sample = match args.phase {
        Phase::Whole => run(&task, dir)?,
        Phase::Fill => return reopen::fill(&task, dir),
        Phase::Open => reopen::open(&task, dir)?,
        Phase::Steady => {
            let pace = args.pace().ok_or("--phase steady takes --steady")?;
            steady::run(&task, pace, dir)?
        }
    };
    println!("{}", sample.to_json());
    Ok(())
}
