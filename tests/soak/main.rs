//! The soak: everything at once, at full speed, for as long as asked, under a live oracle.
//!
//! `make soak HOURS=1` (or `MINUTES=`) runs it; `RECORD=1` appends its last line to docs/soak.md,
//! `SEED=` chooses the ids and the kills. The seed does not fix how threads meet. As one of the
//! tests it runs for some seconds, with the canaries that show that each kind of fault would be
//! seen.
//!
//! A parent watches, a child works. The child's lanes (`lanes`) each know every answer they must
//! get; what was sent and acknowledged is in a book (`book`) that outlives a SIGKILL, so that a
//! lane can be compared after any end (`settle`). Beside them, several threads contend for a few
//! ids and have their histories checked (`hot`), and a thread makes checkpoints, opens and
//! compares them (`upkeep`). Each second the parent compares memory, files, disk and the longest
//! commit with bounds (`bounds`).

mod book;
mod bounds;
mod child;
#[path = "../support/exit.rs"]
mod exit;
mod fail;
#[path = "../it/history/mod.rs"]
#[allow(dead_code, unused_imports, reason = "the history tests use all of it")]
mod history;
mod hot;
mod lane;
mod lanes;
mod parent;
mod settle;
mod upkeep;

use std::io::Write;

use bounds::Measured;
use fail::{Broken, Kind};
use parent::{JOB, Plan, Report, run};

/// A number from the environment.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok().filter(|text| !text.is_empty())?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{name}={text} is no number")),
    )
}

fn main() {
    if let Ok(job) = std::env::var(JOB) {
        return child::work(&job.split(' ').collect::<Vec<_>>());
    }
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.iter().any(|arg| arg == "--list") {
        println!("soak: test");
        return;
    }
    // A name that is asked for and is not ours.
    let mut names = args.iter().filter(|arg| !arg.starts_with('-'));
    if names.clone().count() > 0 && !names.any(|name| "soak".contains(name.as_str())) {
        return;
    }
    let seed = number("SEED").unwrap_or_else(|| fastrand::u64(..1 << 48));
    let minutes = number("HOURS").unwrap_or(0) * 60 + number("MINUTES").unwrap_or(0);
    match minutes {
        0 => short(seed),
        minutes => long(seed, minutes),
    }
}

fn plan(seed: u64, seconds: u64) -> Plan {
    Plan {
        seed,
        seconds,
        broken: Broken::Not,
        kill_every: (15, 40),
        stall_us: 1_000 * number("STALL_MS").unwrap_or(1_000),
        look_ms: 1_000,
        tightened: None,
    }
}

fn long(seed: u64, minutes: u64) {
    let report = run(&plan(seed, minutes * 60));
    let line = report.line();
    println!("{line}");
    println!("longest commits: {}", parent::stalls(&report));
    if number("RECORD") == Some(1) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/soak.md");
        let file = std::fs::OpenOptions::new().append(true).open(path);
        let written = file.and_then(|mut file| writeln!(file, "- `{line}`"));
        written.expect("docs/soak.md takes a line");
    }
    end(&report);
}

fn end(report: &Report) {
    if let Some(above) = &report.above {
        println!("above its bound: {above}");
    }
    if !report.is_clean() {
        std::process::exit(1);
    }
}

/// Some seconds, and every canary.
fn short(seed: u64) {
    // Other programs run beside the tests.
    let stall_us = 5_000_000;
    let plan = |seconds| Plan {
        stall_us,
        kill_every: (2, 3),
        ..plan(seed, seconds)
    };
    let report = run(&plan(6));
    println!("{}", report.line());
    end(&report);
    assert!(report.calls() > 100, "too little went on");
    let canary = || Plan {
        look_ms: 100,
        ..plan(20)
    };
    for (broken, kind) in [
        (Broken::AckFirst, Kind::Lost),
        (Broken::CountTwice, Kind::Doubled),
        (Broken::Torn, Kind::Torn),
    ] {
        let report = run(&Plan { broken, ..canary() });
        assert_eq!(
            report.found(kind),
            1,
            "{broken:?} was not seen: {}",
            report.line()
        );
    }
    let unbounded = Measured {
        rss_bytes: u64::MAX,
        files: u64::MAX,
        disk_bytes: u64::MAX,
        stall_us: u64::MAX,
    };
    for tight in [
        Measured {
            rss_bytes: 1 << 20,
            ..unbounded
        },
        Measured {
            files: 5,
            ..unbounded
        },
        Measured {
            disk_bytes: 4096,
            ..unbounded
        },
        Measured {
            stall_us: 1,
            ..unbounded
        },
    ] {
        let report = run(&Plan {
            tightened: Some(tight),
            ..canary()
        });
        assert!(
            report.above.is_some(),
            "{tight:?} was not seen: {}",
            report.line()
        );
    }
    println!("soak: seven canaries were seen");
}
