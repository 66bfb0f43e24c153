//! The command-line program `firstseen`: the library's main job on files and pipes, and verbs to
//! look into a store, bring ids in and out, compare, copy it, back it up and plan for it.
//!
//! It uses nothing but the crate's public API, so it is also the longest example of it. Every
//! verb returns how it ended ([`Ending`]) or why it failed ([`Failure`]); only this file turns
//! either into an exit code.

mod args;
mod audit;
mod bench;
mod by_hand;
mod copies;
mod csv;
mod dedup;
mod export;
mod failure;
mod forget;
mod id_rows;
mod import;
mod in_doubt;
mod input;
mod job;
mod json;
mod keys;
mod manual;
mod output;
mod peek;
mod pending;
mod place;
mod plan;
mod plot;
mod progress;
mod reconcile;
mod report;
#[cfg(test)]
mod reread;
mod resume_points;
mod rows;
mod scan;
mod show;
mod sides;
mod sizes;
mod stat;
mod stop;
mod table;
mod time;
mod top;
mod upkeep;
mod verify;
mod work;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Args, Verb};
use crate::failure::{Ending, Failure};

fn main() -> ExitCode {
    let args = Args::parse();
    let ended = match &args.verb {
        Verb::Dedup(args) => dedup::run(args),
        Verb::Stat(args) => stat::run(args),
        Verb::Peek(args) => peek::run(args),
        Verb::Scan(args) => scan::run(args),
        Verb::Forget(args) => forget::run(args),
        Verb::Export(args) => export::run(args),
        Verb::Import(args) => import::run(args),
        Verb::Reconcile(args) => reconcile::run(args),
        Verb::Audit(args) => audit::run(args),
        Verb::ResumePoints(args) => resume_points::run(args),
        Verb::Claims(args) => work::claims(args),
        Verb::Dead(args) => work::dead(args),
        Verb::Decide(args) => work::decide(args),
        Verb::Sequences(args) => work::sequences(args),
        Verb::InDoubt(args) => in_doubt::run(args),
        Verb::Top(args) => top::run(args),
        Verb::Verify(args) => verify::run(args),
        Verb::Generations(args) => stat::run_generations(args),
        Verb::Checkpoint(args) => copies::checkpoint(args),
        Verb::Backup(args) => copies::backup(args),
        Verb::Restore(args) => copies::restore(args),
        Verb::Plan(args) => plan::run(args),
        Verb::Bench(args) => bench::run(args),
        Verb::Report(args) => report::run(args),
        Verb::Completions(args) => manual::completions(args),
        Verb::Man(args) => manual::man(args),
    };
    match ended {
        Ok(ending) => ending.exit_code(),
        // Whoever read our output has read enough: `firstseen … | head` is no failure.
        Err(Failure::BrokenPipe) => Ending::Done.exit_code(),
        Err(failure) => {
            eprintln!("firstseen: {failure}");
            failure.exit_code()
        }
    }
}
