//! A private server of a peer: started in a run's directory, reached by a socket there, ended
//! with the run.
//!
//! Invariants:
//! - I1: who starts a server leaves its process id and start time in the directory first thing,
//!   so that [`sweep`] can end it, and nothing else, however its starter ended.
//! - I2: a server is signalled by its id only, and only while the process under that id is the
//!   one that was started: ids are used again.
//!
//! Whoever drops a [`Server`] ends it, also by a panic. A starter that is killed can't; then the
//! one who runs the starters sweeps.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitOptions, getpid, kill_process, set_child_subreaper, waitpid,
};

use crate::measure::{now, pause};
use crate::systems::Result;

/// Where the process is noted within a run's directory.
const NOTE: &str = "server.pid";
/// What it says goes there.
const LOG: &str = "server.log";
/// A server that is not up, or not down, after this time is stuck.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(5);
/// A socket's path can't be longer.
const SOCKET_PATH_MAX: usize = 100;

/// Where the programs of servers are looked for instead, if it is set.
pub const SERVER_PATH: &str = "COMPARE_SERVER_PATH";

/// A program on the search path, or in one of the folders that packages put it in.
pub fn find(program: &str, folders: &[&str]) -> Option<PathBuf> {
    if let Some(path) = std::env::var_os(SERVER_PATH) {
        let mut places = std::env::split_paths(&path).map(|place| place.join(program));
        return places.find(|file| file.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places: Vec<PathBuf> = std::env::split_paths(&path).collect();
    for folder in folders {
        match folder.split_once('*') {
            None => places.push(folder.into()),
            Some((before, after)) => places.extend(versions(before, after)),
        }
    }
    places
        .iter()
        .map(|place| place.join(program))
        .find(|file| file.is_file())
}

/// The folders that `before*after` stands for, the latest version first.
fn versions(before: &str, after: &str) -> Vec<PathBuf> {
    let mut found: Vec<(u64, PathBuf)> = fs::read_dir(before)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let version = entry.file_name().to_str()?.parse().ok()?;
            Some((version, entry.path().join(after.trim_start_matches('/'))))
        })
        .collect();
    found.sort();
    found.into_iter().rev().map(|(_, path)| path).collect()
}

/// Whether a socket in this directory can have a path that the system takes.
pub fn check_socket(socket: &Path) -> Result<()> {
    if socket.as_os_str().len() > SOCKET_PATH_MAX {
        return Err(format!(
            "{}: too long for a socket's path; name a shorter --dir",
            socket.display()
        )
        .into());
    }
    Ok(())
}

/// A started server.
pub struct Server {
    child: Child,
    home: PathBuf,
    /// What asks it to end soon and in order.
    stop: Signal,
}

impl Server {
    /// Starts `command`; its output goes to a file in `home`.
    pub fn start(mut command: Command, home: &Path, stop: Signal) -> Result<Server> {
        let log = fs::File::create(home.join(LOG))?;
        let child = command
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        let server = Server {
            child,
            home: home.to_owned(),
            stop,
        };
        let started = start_time(server.id()).unwrap_or_default();
        fs::write(home.join(NOTE), format!("{} {started}", server.id()))?;
        Ok(server)
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tries until a client gets through.
    ///
    /// # Errors
    ///
    /// The server ended, with what it said; or doesn't let anybody in for a minute.
    pub fn wait_for<T, E: ToString>(
        &mut self,
        mut connect: impl FnMut() -> std::result::Result<T, E>,
    ) -> Result<T> {
        let begun = now();
        loop {
            let why = match connect() {
                Ok(client) => return Ok(client),
                Err(e) => e.to_string(),
            };
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended, {status}: {}", self.said()).into());
            }
            if begun.elapsed() > PATIENCE {
                return Err(format!("the server lets nobody in: {why}; {}", self.said()).into());
            }
            pause(PAUSE);
        }
    }

    /// The last lines of its log.
    fn said(&self) -> String {
        let log = fs::read_to_string(self.home.join(LOG)).unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(5)..].join(" | ")
    }

    /// Asks it to end, and waits.
    ///
    /// # Errors
    ///
    /// It did not within a minute, and was killed.
    pub fn stop(mut self) -> Result<()> {
        let ended = self.end()?;
        if ended {
            return Ok(());
        }
        Err(format!("the server did not stop: {}", self.said()).into())
    }

    fn end(&mut self) -> io::Result<bool> {
        let begun = now();
        if self.child.try_wait()?.is_none() {
            signal(self.id(), self.stop);
        }
        while self.child.try_wait()?.is_none() {
            if begun.elapsed() > PATIENCE {
                self.child.kill()?;
                self.child.wait()?;
                return Ok(false);
            }
            pause(PAUSE);
        }
        fs::remove_file(self.home.join(NOTE)).or_else(|e| match e.kind() {
            io::ErrorKind::NotFound => Ok(()),
            _ => Err(e),
        })?;
        Ok(true)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing more can be done about one that doesn't end; `stop` reports it.
        let _ = self.end();
    }
}

/// Kills the server that was started in a run's directory and is still there, and waits for its
/// end (I1). Does nothing if there is none.
///
/// # Errors
///
/// It is still there after a minute.
pub fn sweep(home: &Path) -> Result<()> {
    let Ok(note) = fs::read_to_string(home.join(NOTE)) else {
        return Ok(());
    };
    let mut words = note.split_whitespace();
    let id = words.next().and_then(|w| w.parse::<u32>().ok());
    let started = words.next().and_then(|w| w.parse::<u64>().ok());
    let (Some(id), Some(started)) = (id, started) else {
        return Ok(());
    };
    // A server of several processes: those it started go when it is gone.
    let mut all = Vec::new();
    if birth(id) == Some(started) {
        all.push((id, started));
        let children = children(id);
        all.extend(children.iter().filter_map(|c| Some((*c, birth(*c)?))));
        signal(id, Signal::KILL);
    }
    let begun = now();
    let is_there = |(id, at): &(u32, u64)| {
        birth(*id) == Some(*at) && (start_time(*id).is_some() || !is_buried(*id))
    };
    while all.iter().any(is_there) {
        if begun.elapsed() > PATIENCE {
            return Err(format!("the server {id} can't be killed").into());
        }
        pause(PAUSE);
    }
    fs::remove_file(home.join(NOTE))?;
    Ok(())
}

/// Makes this process the one that inherits what its children leave behind, so that [`sweep`]
/// can wait for it. Who inherits it otherwise may never do so, and an ended process that nobody
/// waited for looks alive to the next server.
///
/// # Errors
///
/// The system's.
pub fn inherit() -> Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Whether no process of ours is left under an id: one that has ended is waited for. Somebody
/// else's isn't ours to wait for.
fn is_buried(id: u32) -> bool {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let waited = pid.map(|pid| waitpid(Some(pid), WaitOptions::NOHANG));
    !matches!(waited, Some(Ok(None)))
}

fn signal(id: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // It may have ended just now.
        let _ = kill_process(pid, signal);
    }
}

/// Field `n` of a process's status line, counted from 1 as in its documentation.
fn field(id: u32, n: usize) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is a name in parentheses that may hold anything.
    let rest = &stat[stat.rfind(')')? + 2..];
    rest.split(' ').nth(n - 3)?.parse().ok()
}

/// When a process was started: with its id, what tells it from all others.
fn birth(id: u32) -> Option<u64> {
    field(id, 22)
}

/// The same of one that has not ended.
fn start_time(id: u32) -> Option<u64> {
    birth(id).filter(|_| !has_ended(id))
}

/// Whether a process is only there because nobody has waited for it yet.
fn has_ended(id: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| rest.starts_with(" Z"))
}

/// The processes that a process has started.
pub fn children(id: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|e| e.file_name().to_str()?.parse().ok())
        .filter(|other| field(*other, 4) == Some(u64::from(id)))
        .collect()
}

/// The processor time of a process and of those it has started and that have ended or are still
/// there, in clock ticks.
pub fn processor_ticks(id: u32) -> u64 {
    let all = std::iter::once(id).chain(children(id));
    let own = |id| field(id, 14).unwrap_or(0) + field(id, 15).unwrap_or(0);
    let ended = field(id, 16).unwrap_or(0) + field(id, 17).unwrap_or(0);
    all.map(own).sum::<u64>() + ended
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(home: &Path) -> Result<Server> {
        let mut command = Command::new("sleep");
        command.arg("600");
        Server::start(command, home, Signal::TERM)
    }

    #[test]
    fn a_dropped_server_is_gone() -> Result<()> {
        let home = tempfile::tempdir()?;
        let server = sleeper(home.path())?;
        let id = server.id();
        assert!(start_time(id).is_some());
        drop(server);
        assert_eq!(start_time(id), None);
        assert!(!home.path().join(NOTE).exists());
        Ok(())
    }

    #[test]
    fn a_panic_ends_it() -> Result<()> {
        let home = tempfile::tempdir()?;
        let server = sleeper(home.path())?;
        let id = server.id();
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
            let _server = server;
            panic!("as asked");
        }));
        assert!(panicked.is_err());
        assert_eq!(start_time(id), None);
        Ok(())
    }

    #[test]
    fn a_sweep_ends_what_its_starter_left_i1() -> Result<()> {
        let home = tempfile::tempdir()?;
        sweep(home.path())?;
        let server = sleeper(home.path())?;
        let id = server.id();
        // As if its starter had been killed.
        std::mem::forget(server);
        sweep(home.path())?;
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "nobody waited");
        Ok(())
    }

    #[test]
    fn another_process_under_the_id_is_left_alone_i2() -> Result<()> {
        let home = tempfile::tempdir()?;
        let mut other = Command::new("sleep").arg("600").spawn()?;
        fs::write(home.path().join(NOTE), format!("{} 1", other.id()))?;
        sweep(home.path())?;
        assert!(other.try_wait()?.is_none(), "it still runs");
        other.kill()?;
        other.wait()?;
        Ok(())
    }

    #[test]
    fn a_server_that_ends_says_why() -> Result<()> {
        let home = tempfile::tempdir()?;
        let mut command = Command::new("sh");
        command.args(["-c", "echo no memory for it >&2; exit 3"]);
        let mut server = Server::start(command, home.path(), Signal::TERM)?;
        let why = server.wait_for(|| Err::<(), _>("nobody there"));
        let why = why.err().map(|e| e.to_string()).unwrap_or_default();
        assert!(
            why.contains("no memory for it") && why.contains('3'),
            "{why}"
        );
        Ok(())
    }

    #[test]
    fn programs_are_found_also_by_version() -> Result<()> {
        assert!(find("sh", &[]).is_some());
        assert_eq!(find("no-such-program", &["/usr/bin"]), None);
        let root = tempfile::tempdir()?;
        for version in ["9", "15"] {
            fs::create_dir_all(root.path().join(version).join("bin"))?;
            fs::write(root.path().join(version).join("bin/no-such-program"), "")?;
        }
        let pattern = format!("{}/*/bin", root.path().display());
        let found = find("no-such-program", &[&pattern]);
        assert_eq!(found, Some(root.path().join("15/bin/no-such-program")));
        Ok(())
    }
}
