//! Runs the binary and takes what it said apart.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

/// The real order lines: 9,999 rows, 9,803 of them distinct.
pub(super) fn order_lines() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/online_retail_10k.csv")
}

/// The binary with arguments split at spaces, in a directory.
pub(super) fn command(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_firstseen"));
    command.args(args.split_whitespace()).current_dir(dir);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

/// Runs the binary with these arguments, to its end.
#[cfg(all(feature = "raw", feature = "testing"))]
pub(crate) fn run_args(dir: &Path, args: &[String]) -> Ran {
    let mut command = command(dir, "");
    command.args(args);
    command.output().expect("the binary starts").into()
}

/// What a run left.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: String,
}

impl Ran {
    /// The numbers of the summary: rows, first seen, duplicates, rejected.
    #[track_caller]
    pub(super) fn counts(&self) -> [u64; 4] {
        let summary = self.stderr.lines().find(|line| line.starts_with('{'));
        let summary: Value = summary
            .and_then(|line| serde_json::from_str(line).ok())
            .unwrap_or_else(|| panic!("no summary in {:?}", self.stderr));
        assert!(summary["rows_per_s"].is_u64(), "{summary}");
        ["rows", "first_seen", "duplicates", "rejected"].map(|name| {
            summary[name]
                .as_u64()
                .unwrap_or_else(|| panic!("no {name} in {summary}"))
        })
    }

    #[track_caller]
    pub(super) fn expect(&self, code: i32) -> &Ran {
        assert_eq!(self.code, Some(code), "it said: {}", self.stderr);
        self
    }

    #[track_caller]
    pub(super) fn expect_said(&self, code: i32, text: &str) {
        self.expect(code);
        assert!(
            self.stderr.contains(text),
            "{:?} lacks {text:?}",
            self.stderr
        );
    }

    /// The lines of standard output as JSON.
    #[track_caller]
    pub(super) fn json_lines(&self) -> Vec<Value> {
        let text = std::str::from_utf8(&self.stdout).expect("UTF-8");
        text.lines()
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    }
}

impl From<Output> for Ran {
    fn from(output: Output) -> Ran {
        Ran {
            code: output.status.code(),
            stdout: output.stdout,
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// Runs the binary to its end.
pub(super) fn run(dir: &Path, args: &str) -> Ran {
    command(dir, args)
        .output()
        .expect("the binary starts")
        .into()
}

/// Runs it with `input` on its standard input.
pub(super) fn run_piped(dir: &Path, args: &str, input: &[u8]) -> Ran {
    let mut child = command(dir, args)
        .stdin(Stdio::piped())
        .spawn()
        .expect("the binary starts");
    // It may stop reading early; then the rest is nobody's.
    let _ = std::io::Write::write_all(&mut child.stdin.take().expect("a pipe"), input);
    child.wait_with_output().expect("it ends").into()
}

/// Waits until `done`, or until the child has ended. Whether the child is still running.
pub(super) fn wait_while_running(child: &mut Child, mut done: impl FnMut() -> bool) -> bool {
    loop {
        if child.try_wait().expect("a child").is_some() {
            return false;
        }
        if done() {
            return true;
        }
        #[expect(clippy::disallowed_methods, reason = "another process is waited for")]
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// The length of a file, 0 if there is none.
pub(super) fn bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |meta| meta.len())
}
