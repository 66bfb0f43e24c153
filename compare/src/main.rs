//! Compares firstseen with what one would otherwise pick, on the same seeded workloads.
//!
//! A package of its own, so that nobody who depends on the library builds the other engines.
//! `args` says what can be asked, `workload` what is done, `systems` to whom, `run` measures one
//! run, `rounds` interleaves them, `report` and `table` print.

mod args;
mod ids;
mod measure;
mod report;
mod rounds;
mod run;
mod systems;
mod table;
mod workload;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use args::Args;
use report::Report;
use systems::Result;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = if args.one {
        rounds::one(&args).map(|()| true)
    } else {
        compare(&args)
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

/// Runs and prints everything; whether no system failed.
fn compare(args: &Args) -> Result<bool> {
    let temporary;
    let dir = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            dir.as_path()
        }
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path()
        }
    };
    let heading = heading(args);
    if args.json {
        eprint!("{heading}")
    } else {
        print!("{heading}")
    }
    let mut all_ran = true;
    for workload in args.workloads() {
        let outcomes = rounds::rounds(args, workload, &args.systems(), dir);
        let report = Report { workload, outcomes };
        all_ran &= !report.failed();
        print(args, &report)?;
    }
    Ok(all_ran)
}

fn print(args: &Args, report: &Report) -> Result<()> {
    let mut out = std::io::stdout().lock();
    if args.json {
        for line in report.json_lines() {
            writeln!(out, "{line}")?;
        }
    } else {
        writeln!(out, "\n{}", table::table(report))?;
    }
    Ok(out.flush()?)
}

/// What is run and how, before the first figure.
fn heading(args: &Args) -> String {
    let mut text = format!(
        "{} ids timed, {} rounds interleaved, seed {}, 16-byte ids, one thread\n\
         firstseen: a manual clock spreads the ids over {} live generations: the preload fills \
         them, the\n  clock goes on with the timed ids, old generations expire; sealing is part of \
         the timed part,\n  including what is left at its end. The peers forget nothing and are \
         charged nothing at the end.\n\
         rss: growth of the resident memory until the end of the timed part. disk: after a flush, \
         per live id,\n  rows included.\n",
        table::short(args.ids),
        args.rounds,
        args.seed,
        args.generations,
    );
    for system in args.systems() {
        text.push_str(&format!(
            "{}: {}{}\n",
            system.name(),
            system.settings(),
            capped(args, system)
        ));
    }
    text
}

/// Says where a slow system gets fewer ids.
fn capped(args: &Args, system: systems::Kind) -> String {
    let mut text = String::new();
    for workload in args.workloads() {
        let size = args.size(system, workload);
        if size.ids < args.ids {
            text.push_str(&format!(
                " {} in {},",
                table::short(size.ids),
                workload.name()
            ));
        }
    }
    if text.is_empty() {
        return text;
    }
    format!("\n  slow, so at most{} see --uncapped", text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heading_names_settings_and_caps() {
        let line = "compare --ids 1m --systems rocksdb_blind,sqlite --workload new_batch100";
        let text = heading(&Args::parse_from(line.split(' ')));
        assert!(text.contains("rocksdb_blind: RocksDB") && text.contains("128 MB x4"));
        assert!(text.contains("at most 200k in new_batch100, see --uncapped"));
        assert_eq!(text.matches("at most").count(), 1);
        assert!(!text.contains("redb"));
    }
}
