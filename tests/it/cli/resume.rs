//! Files are exactly-once: killed, interrupted, truncated and changed under the program.

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use super::program::{bytes, command, order_lines, run, run_piped, wait_while_running};

/// Order lines in a directory, and what an uninterrupted run makes of them.
fn uninterrupted(dir: &Path) -> Vec<u8> {
    fs::copy(order_lines(), dir.join("in.csv")).expect("the order lines");
    let ran = run(
        dir,
        "dedup --store s0 --key * --input in.csv --output whole.csv --json",
    );
    assert_eq!(ran.expect(0).counts(), [9999, 9803, 196, 0]);
    fs::read(dir.join("whole.csv")).expect("an output")
}

/// Makes a run that stops in the middle of `in.csv`: at a bad row after `rows` good ones.
fn stop_after(dir: &Path, rows: &str) {
    fs::write(dir.join("in.csv"), format!("a,b\n{rows}bad\n")).expect("a directory");
    run(
        dir,
        "dedup --store s --key b --input in.csv --output out.csv",
    )
    .expect(3);
}

fn interrupt(child: &Child) {
    let pid = child
        .id()
        .try_into()
        .ok()
        .and_then(Pid::from_raw)
        .expect("a process id");
    kill_process(pid, Signal::INT).expect("a running child");
}

#[test]
fn a_run_killed_again_and_again_gives_the_uninterrupted_output() {
    let dir = tempfile::tempdir().unwrap();
    let whole = uninterrupted(dir.path());
    let out = dir.path().join("out.csv");
    let mut random = fastrand::Rng::with_seed(7);
    let mut kills = 0;
    loop {
        let batch = random.usize(1..40);
        let durability = random.choice(["written", "buffered"]).unwrap();
        let args = format!(
            "dedup --store s --key * --input in.csv --output out.csv --json --batch {batch} \
             --durability {durability}"
        );
        let mut child = command(dir.path(), &args).spawn().unwrap();
        let limit = bytes(&out) + random.u64(1..150_000);
        let running = wait_while_running(&mut child, || bytes(&out) >= limit);
        child.kill().unwrap();
        let ran: super::program::Ran = child.wait_with_output().unwrap().into();
        if !running && ran.code.is_some() {
            assert_eq!(
                ran.expect(0).counts(),
                [9999, 9803, 196, 0],
                "after {kills} kills"
            );
            break;
        }
        kills += 1;
        let torn = fs::read(&out).unwrap();
        assert!(whole.starts_with(&torn), "torn after {kills} kills");
    }
    assert!(kills > 2, "only {kills} kills hit");
    assert!(
        fs::read(&out).unwrap() == whole,
        "the output differs after {kills} kills"
    );
}

#[test]
fn ctrl_c_commits_what_came_and_the_replayed_pipe_completes_the_output() {
    let dir = tempfile::tempdir().unwrap();
    let whole = uninterrupted(dir.path());
    let text = fs::read(order_lines()).unwrap();
    let out = dir.path().join("out.csv");
    let args = "dedup --store s --key * --output out.csv --json";
    let mut child = command(dir.path(), args)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(&text[..300_000]).unwrap();
    // The pipe falls silent in the middle of a row; what came whole is committed all the same.
    let mut last = 0;
    let running = wait_while_running(&mut child, || {
        let now = bytes(&out);
        let quiet = now == last;
        last = now;
        quiet && now > 280_000
    });
    assert!(running, "it ended too early");
    interrupt(&child);
    let ran: super::program::Ran = child.wait_with_output().unwrap().into();
    drop(pipe);
    ran.expect_said(130, "interrupted after row");
    let [rows, first_seen, ..] = ran.counts();
    assert!(rows > 3000 && first_seen > 3000, "{}", ran.stderr);
    assert!(whole.starts_with(&fs::read(&out).unwrap()));

    let ran = run_piped(dir.path(), args, &text);
    ran.expect_said(0, "an earlier run did not finish");
    assert_eq!(ran.counts(), [9999, 9803 - first_seen, 196 + first_seen, 0]);
    assert!(fs::read(&out).unwrap() == whole, "the output differs");
}

#[test]
fn an_output_shorter_than_committed_is_an_error_until_the_job_is_given_up() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.csv");
    stop_after(dir.path(), "1,x\n2,y\n");
    assert_eq!(fs::read(&out).unwrap(), b"a,b\n1,x\n2,y\n");
    fs::write(&out, "a,b\n1,x\n").unwrap();
    fs::write(dir.path().join("in.csv"), "a,b\n1,x\n2,y\n3,z\n").unwrap();
    let args = "dedup --store s --key b --input in.csv --output out.csv --json";
    run(dir.path(), args).expect_said(1, "has 8 bytes, but 12 were committed");
    assert_eq!(fs::read(&out).unwrap(), b"a,b\n1,x\n");
    let ran = run(dir.path(), &format!("{args} --restart"));
    assert_eq!(ran.expect(0).counts(), [3, 1, 2, 0]);
    assert_eq!(fs::read(&out).unwrap(), b"a,b\n3,z\n");
}

#[test]
fn what_was_written_but_not_committed_is_cut_off() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out.csv");
    stop_after(dir.path(), "1,x\n2,y\n");
    let mut file = fs::OpenOptions::new().append(true).open(&out).unwrap();
    file.write_all(b"3,z\n4,").unwrap();
    fs::write(dir.path().join("in.csv"), "a,b\n1,x\n2,y\n3,z\n4,w\n").unwrap();
    let ran = run(
        dir.path(),
        "dedup --store s --key b --input in.csv --output out.csv --json",
    );
    ran.expect_said(0, "resuming after row 2");
    assert_eq!(ran.counts(), [4, 4, 0, 0]);
    assert_eq!(fs::read(&out).unwrap(), b"a,b\n1,x\n2,y\n3,z\n4,w\n");
}

#[test]
fn another_input_under_the_same_name_is_not_resumed() {
    let dir = tempfile::tempdir().unwrap();
    stop_after(dir.path(), "1,x\n2,y\n");
    let args = "dedup --store s --key b --input in.csv --output out.csv --json";
    for other in ["a,b\n", "a,b\n9,x\n2,y\n3,z\n"] {
        fs::write(dir.path().join("in.csv"), other).unwrap();
        run(dir.path(), args).expect_said(1, "is not what this unfinished job has read");
    }
}

#[test]
fn another_key_output_or_scope_is_another_job() {
    let dir = tempfile::tempdir().unwrap();
    stop_after(dir.path(), "1,x\n2,y\n");
    fs::write(dir.path().join("in.csv"), "a,b\n1,x\n2,y\n3,z\n").unwrap();
    let base = "dedup --store s --input in.csv --json";
    let ran = run(dir.path(), &format!("{base} --key a --output out2.csv"));
    assert_eq!(ran.expect(0).counts(), [3, 3, 0, 0]);
    let ran = run(dir.path(), &format!("{base} --key b --output out3.csv"));
    assert_eq!(ran.expect(0).counts(), [3, 1, 2, 0]);
    let ran = run(
        dir.path(),
        &format!("{base} --key b --output out4.csv --scope t"),
    );
    assert_eq!(ran.expect(0).counts(), [3, 3, 0, 0]);
    let ran = run(dir.path(), &format!("{base} --key b --output out.csv"));
    assert_eq!(ran.expect(0).counts(), [3, 2, 1, 0]);
}

#[test]
fn rejects_are_exactly_once_too() {
    let dir = tempfile::tempdir().unwrap();
    let (bad, input) = (dir.path().join("bad.csv"), dir.path().join("in.csv"));
    let args = "dedup --store s --key b --input in.csv --output out.csv --rejects bad.csv --json";
    fs::write(&input, "a,b\n1,x\nbad1\nbad2\n").unwrap();
    run(dir.path(), &format!("{args} --on-error stop")).expect_said(3, "row 2");
    let ran = run(dir.path(), args);
    assert_eq!(ran.expect(0).counts(), [3, 1, 0, 2]);
    assert_eq!(fs::read(&bad).unwrap(), b"a,b\nbad1\nbad2\n");
    // A finished job starts anew, its rejects with it.
    let ran = run(dir.path(), args);
    assert_eq!(ran.expect(0).counts(), [3, 0, 1, 2]);
    assert_eq!(fs::read(&bad).unwrap(), b"a,b\nbad1\nbad2\n");
}

#[test]
fn a_reader_that_goes_away_ends_the_run_cleanly_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let args = format!(
        "dedup --store s --key * --json --input {}",
        order_lines().display()
    );
    let mut child = command(dir.path(), &args).spawn().unwrap();
    let mut head = [0; 100];
    child.stdout.take().unwrap().read_exact(&mut head).unwrap();
    let ran: super::program::Ran = child.wait_with_output().unwrap().into();
    let [rows, ..] = ran.expect(0).counts();
    assert!(rows < 9999, "the whole output fitted into the pipe");
    assert!(!ran.stderr.contains("firstseen:"), "{}", ran.stderr);
    // What was not taken is not recorded, so that it comes out now.
    let [_, first_seen, ..] = run(dir.path(), &args).expect(0).counts();
    assert!(
        first_seen >= 9803 - rows,
        "{first_seen} first seen after {rows} rows"
    );
}
