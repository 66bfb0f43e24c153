//! The command-line program `firstseen`: the library's main job on files and pipes, and five
//! verbs to look into a store.
//!
//! It uses nothing but the crate's public API, so it is also the longest example of it. Every
//! verb returns how it ended ([`Ending`]) or why it failed ([`Failure`]); only this file turns
//! either into an exit code.

mod args;
mod csv;
mod dedup;
mod failure;
mod forget;
mod input;
mod job;
mod json;
mod keys;
mod output;
mod peek;
mod pending;
mod place;
mod progress;
#[cfg(test)]
mod reread;
mod rows;
mod scan;
mod show;
mod stat;
mod stop;
mod time;
mod verify;

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
        Verb::Verify(args) => verify::run(args),
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
