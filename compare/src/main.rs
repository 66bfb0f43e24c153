//! Compares firstseen with what one would otherwise pick, on the same seeded workloads.
//!
//! A package of its own, so that nobody who depends on the library builds the other engines.
//! `args` says what can be asked, `workload` and `plan` what is done, `systems` to whom. `run`
//! measures one run, `child` gives it a process, `rounds` interleaves them; `report`, `table` and
//! `plot` show the results. `expiry`, `reopen`, `steady` and `input` are runs of their own shape,
//! `grow` many runs; `server` and `stop` see to it that nothing is left behind.

mod args;
mod child;
mod expiry;
mod grow;
mod ids;
mod input;
mod measure;
mod plan;
mod plot;
mod reopen;
mod report;
mod rounds;
mod run;
mod sample;
mod server;
mod steady;
mod stop;
mod systems;
mod table;
mod workload;

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::ExitCode;

use clap::Parser;

use args::Args;
use plot::Chart;
use report::Report;
use rounds::Asked;
use systems::Result;
use workload::{Size, Workload};

/// The exit code of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;

fn main() -> ExitCode {
    let args = Args::parse();
    let result = if args.one {
        rounds::one(&args).map(|()| true)
    } else {
        compare(&args)
    };
    if stop::requested() {
        eprintln!("interrupted");
        return ExitCode::from(INTERRUPTED);
    }
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
    args.check()?;
    stop::catch()?;
    server::inherit()?;
    let temporary;
    let dir = match &args.dir {
        Some(dir) => {
            std::fs::create_dir_all(dir)?;
            dir.as_path()
        }
        None => {
            // Whoever a server runs as must get through.
            let mode = PermissionsExt::from_mode(0o711);
            let mut builder = tempfile::Builder::new();
            temporary = builder.permissions(mode).prefix("compare").tempdir()?;
            temporary.path()
        }
    };
    let heading = heading(args);
    if args.json {
        eprint!("{heading}")
    } else {
        print!("{heading}")
    }
    let (all_ran, charts) = if args.grow.is_empty() {
        workloads(args, dir)?
    } else {
        let sizes = grow::run(args, &args.grow, dir);
        match args.json {
            true => say(grow::json_lines(&sizes))?,
            false => say([String::new(), grow::table(&sizes)])?,
        }
        (!grow::failed(&sizes), grow::charts(&sizes))
    };
    if let Some(file) = args.plot.as_ref().filter(|_| !stop::requested()) {
        plot::draw(&charts, file)?;
        eprintln!("plotted: {}", file.display());
    }
    Ok(all_ran)
}

/// One workload after another; whether none failed, and the charts.
fn workloads(args: &Args, dir: &Path) -> Result<(bool, Vec<Chart>)> {
    let mut reports = Vec::new();
    for workload in args.workloads() {
        let asked = Asked {
            args,
            workload,
            pace: args.pace(),
            size: size_of_input(args, workload)?,
        };
        let outcomes = asked.run(&args.systems(workload), dir);
        if stop::requested() {
            break;
        }
        let report = Report { workload, outcomes };
        if args.json {
            say(report.json_lines())?;
        } else {
            say([String::new(), text(args, &report)])?;
        }
        reports.push(report);
    }
    if !args.json && args.pace().is_none() {
        say(Some(table::across(&reports)).filter(|text| !text.is_empty()))?;
    }
    let failed = reports.iter().any(Report::failed);
    let charts = match args.pace() {
        Some(_) => steady::charts(&reports),
        None => plot::of_reports(&reports),
    };
    Ok((!failed, charts))
}

/// How many ids the file has; read before anything runs, as it may be no file of ids.
fn size_of_input(args: &Args, workload: Workload) -> Result<Option<Size>> {
    let file = args.input().filter(|_| workload == Workload::Input);
    let Some((file, _)) = file else {
        return Ok(None);
    };
    let input = input::read(&file)?;
    eprintln!(
        "{}: {} ids, {} of them different",
        file.display(),
        table::grouped(input.len() as f64),
        table::grouped(input.different as f64)
    );
    let ids = input.len();
    Ok(Some(Size { ids, preload: 0 }))
}

fn text(args: &Args, report: &Report) -> String {
    match args.pace() {
        Some(_) => steady::table(report),
        None => table::table(report),
    }
}

fn say(lines: impl IntoIterator<Item = String>) -> Result<()> {
    let mut out = std::io::stdout().lock();
    for line in lines {
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(out.flush()?)
}

/// What is run and how, before the first figure.
fn heading(args: &Args) -> String {
    let command: Vec<String> = std::env::args().skip(1).collect();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let mut text = format!(
        "compare {}\n{cores} cores, {} {}; {} ids timed, {} rounds interleaved, seed {}\n\
         firstseen: a manual clock spreads the ids over {} live generations: the preload fills \
         them, the\n  clock goes on with the timed ids, old generations expire; sealing is part of \
         the timed part,\n  including what is left at its end. The peers forget nothing and are \
         charged nothing at the end.\n\
         rss: growth of the resident memory until the end of the timed part. disk: after a flush, \
         per live id,\n  rows included.\n",
        command.join(" "),
        std::env::consts::OS,
        std::env::consts::ARCH,
        table::short(args.ids),
        args.rounds,
        args.seed,
        args.generations,
    );
    for system in args.all_systems() {
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
    let workloads = match args.grow[..] {
        [] => args.workloads(),
        _ => Vec::new(),
    };
    for workload in workloads {
        let size = args.size(system, workload);
        let asked = args.size(systems::Kind::Firstseen, workload);
        if size.ids < asked.ids && workload != Workload::Input {
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
