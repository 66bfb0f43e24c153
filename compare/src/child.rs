//! A process for each run, from the side of who starts it.
//!
//! A process of its own gives each run fresh memory, no other engine's background threads, and a
//! resident size that is its own. Each has a new directory that is removed afterwards, and
//! whatever server it leaves behind is ended first.

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;

use clap::ValueEnum;

use crate::args::Phase;
use crate::reopen::FILLED;
use crate::run::Task;
use crate::sample::Sample;
use crate::server::sweep;
use crate::steady::Pace;
use crate::stop;
use crate::systems::Result;

/// Does one run of a task in `dir`, in as many processes as it takes.
///
/// # Errors
///
/// The run failed, with what it said; or was interrupted.
pub fn run(task: &Task, pace: Option<Pace>, dir: &Path) -> Result<Sample> {
    let home = tempfile::Builder::new()
        .prefix(&task.system.name())
        .permissions(PermissionsExt::from_mode(0o711))
        .tempdir_in(dir)?;
    let result = match pace {
        Some(_) => whole(command(task, Phase::Steady, pace, home.path())?),
        None if task.workload.reopens() => reopen(task, home.path()),
        None => whole(command(task, Phase::Whole, None, home.path())?),
    };
    sweep(home.path())?;
    if stop::requested() {
        return Err("interrupted".into());
    }
    result
}

fn command(task: &Task, phase: Phase, pace: Option<Pace>, home: &Path) -> Result<Command> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["--one", "--uncapped", "--workload", &task.workload.name()]);
    command.args(["--systems", &task.system.name()]);
    command.args(["--ids", &task.size.ids.to_string()]);
    command.args(["--preload", &task.size.preload.to_string()]);
    command.args(["--seed", &task.seed.to_string()]);
    command.args(["--generations", &task.generations.to_string()]);
    command.arg("--dir").arg(home);
    if let Some((file, batch)) = &task.input {
        command.arg("--input").arg(file);
        command.args(["--batch", &batch.to_string()]);
    }
    let phase = phase.to_possible_value();
    let phase = phase.map_or_else(String::new, |p| p.get_name().to_owned());
    command.args(["--phase", &phase]);
    if let Some(pace) = pace {
        command.args(["--steady", &pace.seconds.to_string()]);
        if let Some(rate) = pace.rate {
            command.args(["--rate", &rate.to_string()]);
        }
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Reads to the end, beside whoever waits.
fn reader(from: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut from) = from {
            // What comes before an error is still worth reading.
            let _ = from.read_to_end(&mut bytes);
        }
        bytes
    })
}

fn whole(mut command: Command) -> Result<Sample> {
    let mut child = command.stdin(Stdio::null()).spawn()?;
    stop::watch(&child);
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    let status = stop::wait(&mut child)?;
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    if !status.success() {
        let said = String::from_utf8_lossy(&stderr);
        return Err(format!("{status} {}", said.trim()).into());
    }
    let value = serde_json::from_slice(&stdout)?;
    Sample::from_json(&value).ok_or_else(|| "the run printed no sample".into())
}

/// Fills it, kills it, opens it again.
fn reopen(task: &Task, home: &Path) -> Result<Sample> {
    let mut filling = command(task, Phase::Fill, None, home)?;
    let mut child = filling.stdin(Stdio::piped()).spawn()?;
    stop::watch(&child);
    let stderr = reader(child.stderr.take());
    let filled = said_filled(&mut child)?;
    child.kill()?;
    let status = stop::wait(&mut child)?;
    // The server goes the same way.
    sweep(home)?;
    if !filled {
        let said = stderr.join().unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        return Err(format!("{status} {}", said.trim()).into());
    }
    whole(command(task, Phase::Open, None, home)?)
}

fn said_filled(child: &mut Child) -> Result<bool> {
    let mut line = String::new();
    if let Some(stdout) = &mut child.stdout {
        BufReader::new(stdout).read_line(&mut line)?;
    }
    Ok(line.trim() == FILLED)
}
