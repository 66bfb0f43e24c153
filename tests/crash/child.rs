//! Starting this binary again as a child, and the pipe between the two.
//!
//! The child is a test that is ignored otherwise, so that one binary serves both. It tells what
//! happened in lines that begin with `@` and the time; whatever else the test harness prints is
//! passed over.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::SystemTime;

use super::exit::exit_now;

const JOB: &str = "FIRSTSEEN_CRASH_JOB";

/// A started child and what it says.
pub(crate) struct Started {
    /// Taken by whoever ends it.
    pub(crate) process: Option<Child>,
    lines: BufReader<ChildStdout>,
}

/// Starts a child with a job: words, none of which has a space.
pub(crate) fn start(job: &[String]) -> Started {
    start_within(&[], job)
}

/// Starts a child by another program, which is given its command line.
pub(crate) fn start_within(program: &[&str], job: &[String]) -> Started {
    let binary = std::env::current_exe().expect("the path of this binary");
    let mut command = match program.split_first() {
        None => Command::new(binary),
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(binary);
            command
        }
    };
    let mut process = command
        .args([
            "child::child",
            "--exact",
            "--ignored",
            "--nocapture",
            "--test-threads=1",
        ])
        .env(JOB, job.join(" "))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this binary runs");
    let lines = BufReader::new(process.stdout.take().expect("its output is piped"));
    Started {
        process: Some(process),
        lines,
    }
}

impl Started {
    /// The words of the next line; `None` when the child is gone.
    pub(crate) fn line(&mut self) -> Option<Vec<String>> {
        Some(self.timed_line()?.1)
    }

    /// The words of the next line, and when it was said.
    pub(crate) fn timed_line(&mut self) -> Option<(u128, Vec<String>)> {
        let mut line = String::new();
        loop {
            line.clear();
            // A line that the kill cut off never ends, and tells nothing.
            let read = self.lines.read_line(&mut line).expect("the pipe reads");
            if read == 0 || !line.ends_with('\n') {
                return None;
            }
            // The harness prints before us on the first line.
            if let Some((_, told)) = line.split_once('@') {
                let mut words = told.split_whitespace().map(str::to_string);
                let time = words.next().and_then(|word| word.parse().ok());
                return Some((time.expect("each line has its time"), words.collect()));
            }
        }
    }
}

/// Tells the parent something, in one write.
pub(crate) fn tell(line: &str) {
    let text = format!("@{} {line}\n", now_ns());
    let mut out = std::io::stdout().lock();
    let told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if told.is_err() {
        // Nobody listens any more.
        exit_now(0);
    }
}

/// Nanoseconds, the same clock in parent and child.
#[expect(
    clippy::disallowed_methods,
    reason = "what a child tells is judged by real time"
)]
pub(crate) fn now_ns() -> u128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos())
}

#[test]
#[ignore = "a process that other tests start"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let words: Vec<&str> = job.split(' ').collect();
    match words[0] {
        "work" => super::worker::work(&words[1..]),
        "two_phase" => super::two_phase::work(&words[1..]),
        "cuts" => super::cut::work(&words[1..]),
        #[cfg(feature = "failpoints")]
        "points" => super::points::work(&words[1..]),
        other => panic!("no such job: {other}"),
    }
}
