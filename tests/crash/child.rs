//! Starting this binary again as a child, and the pipe between the two.
//!
//! The child is a test that is ignored otherwise, so that one binary serves both. It tells what
//! happened in lines that begin with `@`; whatever else the test harness prints is passed over.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

const JOB: &str = "FIRSTSEEN_CRASH_JOB";

/// A started child and what it says.
pub(crate) struct Started {
    /// Taken by whoever ends it.
    pub(crate) process: Option<Child>,
    lines: BufReader<ChildStdout>,
}

/// Starts a child with a job: words, none of which has a space.
pub(crate) fn start(job: &[String]) -> Started {
    let binary = std::env::current_exe().expect("the path of this binary");
    let mut process = Command::new(binary)
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
    /// The words of the next line, without its mark; `None` when the child is gone.
    pub(crate) fn line(&mut self) -> Option<Vec<String>> {
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
                return Some(told.split_whitespace().map(str::to_string).collect());
            }
        }
    }
}

/// Tells the parent something, in one write.
pub(crate) fn tell(line: &str) {
    let text = format!("@{line}\n");
    let mut out = std::io::stdout().lock();
    let told = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if told.is_err() {
        // Nobody listens any more.
        std::process::exit(0);
    }
}

#[test]
#[ignore = "a process that other tests start"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let words: Vec<&str> = job.split(' ').collect();
    match words[0] {
        "work" => super::worker::work(&words[1..]),
        #[cfg(feature = "failpoints")]
        "points" => super::points::work(&words[1..]),
        other => panic!("no such job: {other}"),
    }
}
