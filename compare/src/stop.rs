//! Ctrl-C: the run that goes on is killed, and its server with it, before the program ends.
//!
//! The handler knows the process of the current run and kills it by its id; who waits for it then
//! sweeps up what it left. The id is forgotten before it can stand for another process: it is
//! waited for under the lock that the handler takes.

use std::io;
use std::process::{Child, ExitStatus};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process};

use crate::measure::pause;
use crate::systems::Result;

/// How often a run's process is asked whether it has ended.
const PAUSE: Duration = Duration::from_millis(10);

static REQUESTED: AtomicBool = AtomicBool::new(false);
static RUNNING: Mutex<Option<u32>> = Mutex::new(None);

/// Catches Ctrl-C from now on.
///
/// # Errors
///
/// The system's.
pub fn catch() -> Result<()> {
    ctrlc::set_handler(|| {
        REQUESTED.store(true, Ordering::SeqCst);
        kill(*RUNNING.lock());
    })?;
    Ok(())
}

/// Whether the program was asked to end.
pub fn requested() -> bool {
    REQUESTED.load(Ordering::SeqCst)
}

fn kill(process: Option<u32>) {
    let pid = process.and_then(|id| i32::try_from(id).ok());
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        // It may have ended by itself.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Makes a child the one that Ctrl-C kills, until [`wait`] or its own end.
pub fn watch(child: &Child) {
    *RUNNING.lock() = Some(child.id());
    if requested() {
        kill(Some(child.id()));
    }
}

/// Waits for a watched child.
///
/// # Errors
///
/// The system's.
pub fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    loop {
        {
            let mut running = RUNNING.lock();
            if let Some(status) = child.try_wait()? {
                *running = None;
                return Ok(status);
            }
        }
        pause(PAUSE);
    }
}
