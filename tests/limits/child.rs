//! Starting this binary again, under limits that hold for a whole process.
//!
//! The child is one test that is ignored otherwise. It is started by a shell that sets the
//! limits, and gets its job, words without spaces, in the environment.

use std::process::{Command, Output};

const JOB: &str = "FIRSTSEEN_LIMITS_JOB";

/// Runs a job in a child to its end. `limits` are commands of a shell, as `ulimit -n 64`;
/// signals that they ignore stay ignored.
pub(crate) fn run(limits: &str, job: &[&str]) -> Output {
    run_with(limits, job, &[])
}

/// The same, with more in the child's environment.
pub(crate) fn run_with(limits: &str, job: &[&str], environment: &[(&str, &str)]) -> Output {
    let binary = std::env::current_exe().unwrap();
    Command::new("sh")
        .args(["-c", &format!("{limits}\nexec \"$@\""), "sh"])
        .arg(binary)
        .args(["child::child", "--exact", "--ignored", "--nocapture"])
        .env(JOB, job.join(" "))
        .envs(environment.iter().copied())
        .output()
        .unwrap()
}

/// What a child said, all of it.
pub(crate) fn said(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    String::from_utf8_lossy(out).into_owned() + &String::from_utf8_lossy(err)
}

/// Asserts that a child did its job.
#[track_caller]
pub(crate) fn expect_done(output: &Output) -> String {
    let said = said(output);
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{:?}: {said}", output.status);
    said
}

#[test]
#[ignore = "a process that other tests start"]
fn child() {
    let Ok(job) = std::env::var(JOB) else { return };
    let words: Vec<&str> = job.split(' ').collect();
    match words[0] {
        "clock" => super::clocks::work(&words[1..]),
        "descriptors" => super::descriptors::work(&words[1..]),
        "filesize" => super::filesize::work(&words[1..]),
        "full" => super::full::work(&words[1..]),
        "memory" => super::memory::work(&words[1..]),
        "open" => super::openers::work(&words[1..]),
        #[cfg(feature = "failpoints")]
        "phase" => super::phases::work(&words[1..]),
        other => panic!("no such job: {other}"),
    }
}
