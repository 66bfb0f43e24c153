//! Aborted at each named point: the commit under way is there whole or not at all.
//!
//! A child runs a program of the model's language, alone, and tells after each step that it is
//! done. It aborts when it passes a failpoint for the n-th time. The parent knows by the model
//! what must be there: the state after the last step that was told, or after the next one.
//!
//! The names are read from the sources, so a new failpoint is covered by being there, and one
//! that no program passes fails the test.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use firstseen::{Options, Resources};

use super::child::{start, tell};
use super::kit::generate::program;
use super::kit::model::Model;
use super::kit::op::{Batch, Level, Op};
use super::kit::runner::{Runner, Setup};
use super::{check_at_rest, copies};
use super::{now, number};

/// Some eighty steps; one child runs up to that many.
const PROGRAM_BYTES: usize = 2_500;
/// Programs that are run at least, and at most, for those that pass each failpoint.
const PROGRAMS: u64 = 4;
const PROGRAMS_MAX: u64 = 40;

/// Passes of each failpoint by a whole program.
type Passes = BTreeMap<String, u64>;

fn options(_: u32) -> Options {
    let resources = Resources::new()
        .cache_bytes(16 << 20)
        .segment_bytes(16 << 20);
    Options::new()
        .resources(&resources)
        .background(false)
        .generations_max(64)
        .slices_per_class(4)
        .segment_ids_max(16)
        .clock_jump_max(Duration::from_secs(1 << 32))
}

/// The program of a seed, without what is not decided by one step alone: buffered commits, and
/// commits that fail on purpose.
fn steps(seed: u64) -> Vec<Op> {
    let mut bytes = vec![0; PROGRAM_BYTES];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    let mut ops = program(&bytes);
    for op in &mut ops {
        match op {
            Op::Batch(Batch {
                level: level @ Some(Level::Buffered),
                ..
            }) => {
                *level = Some(Level::Synced);
            }
            Op::Failing(..) | Op::Dying(..) => *op = Op::Compact,
            _ => {}
        }
    }
    ops
}

/// The child's job. Words: directory, seed, failpoint, pass. The failpoint `none` counts all.
pub(crate) fn work(words: &[&str]) {
    let number = |word: &str| word.parse::<u64>().expect("a number");
    let dir = Path::new(words[0]);
    let passes = match words[2] {
        "none" => Some(count_passes()),
        name => {
            abort_at(name, number(words[3]));
            None
        }
    };
    let setup = Setup {
        dir: Some(dir.join("store")),
        options: &options,
    };
    let mut runner = Runner::new(setup).expect("a new store opens");
    for (k, op) in steps(number(words[1])).iter().enumerate() {
        runner.step(op);
        tell(&format!("did {k}"));
        if k % 30 == 15 {
            copies::make(&runner.store, dir, &options(0), k / 30);
        }
    }
    drop(runner);
    for (name, count) in passes
        .iter()
        .flat_map(|p| p.lock().expect("nobody panicked").clone())
    {
        tell(&format!("passes {name} {count}"));
    }
}

fn count_passes() -> Arc<Mutex<Passes>> {
    let passes = Arc::new(Mutex::new(Passes::new()));
    for name in names() {
        let (passes, key) = (Arc::clone(&passes), name.clone());
        let count = move || {
            *passes
                .lock()
                .expect("nobody panicked")
                .entry(key.clone())
                .or_default() += 1;
        };
        fail::cfg_callback(name, count).expect("a failpoint can be set");
    }
    passes
}

fn abort_at(name: &str, pass: u64) {
    let passed = AtomicU64::new(0);
    let abort = move || {
        if passed.fetch_add(1, Ordering::SeqCst) + 1 == pass {
            std::process::abort();
        }
    };
    fail::cfg_callback(name, abort).expect("a failpoint can be set");
}

/// All failpoints there are, from the sources.
fn names() -> Vec<String> {
    let mut names = Vec::new();
    collect(
        &Path::new(env!("CARGO_MANIFEST_DIR")).join("src"),
        &mut names,
    );
    names.sort();
    names.dedup();
    names
}

fn collect(folder: &Path, names: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            collect(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        let points = text.split("failpoint!(\"").skip(1);
        names.extend(points.filter_map(|rest| rest.split('"').next().map(str::to_string)));
    }
}

/// How a child ended.
struct Ran {
    done: usize,
    aborted: bool,
    passes: Passes,
}

fn run_child(dir: &Path, seed: u64, name: &str, pass: u64) -> Ran {
    let path = dir.to_str().expect("a path of text").to_string();
    let job = [
        "points".to_string(),
        path,
        seed.to_string(),
        name.to_string(),
        pass.to_string(),
    ];
    let mut child = start(&job);
    let mut ran = Ran {
        done: 0,
        aborted: false,
        passes: Passes::new(),
    };
    while let Some(words) = child.line() {
        match words[0].as_str() {
            "did" => ran.done = words[1].parse::<usize>().expect("a number") + 1,
            _ => {
                let count = words[2].parse().expect("a number");
                ran.passes.insert(words[1].clone(), count);
            }
        }
    }
    let status = child
        .process
        .expect("nobody took it")
        .wait()
        .expect("a child ends");
    ran.aborted = status.signal() == Some(6);
    assert!(
        ran.aborted || status.success(),
        "{name}, pass {pass}, SEED={seed}: {status:?}"
    );
    ran
}

/// Opens what the child left and compares it with the model, before and after the step that was
/// under way.
fn check(dir: &Path, seed: u64, done: usize) -> Result<(), String> {
    check_at_rest(&dir.join("store"), &options(0))?;
    copies::check(dir, &options(0))?;
    let ops = steps(seed);
    let mut before = Model::new();
    for op in &ops[..done] {
        before.step(op);
    }
    let mut after = before.clone();
    if let Some(op) = ops.get(done) {
        after.step(op);
    }
    // If the step made a scope anew or altered it, one of the two opens.
    let open = |model: &Model| {
        let setup = Setup {
            dir: Some(dir.join("store")),
            options: &options,
        };
        Runner::open(setup, model.keeps, before.now_ms)
    };
    let mut runner = open(&after)
        .or_else(|_| open(&before))
        .map_err(|e| e.to_string())?;
    let (before, after) = (before.state(), after.state());
    for look in ["opened", "compacted"] {
        let found = runner.state().map_err(|e| e.to_string())?;
        if found != before && found != after {
            let op = ops.get(done);
            return Err(format!(
                "{look}, at {op:?}:\n{found}\nnot\n{before}\nnor\n{after}"
            ));
        }
        runner.step(&Op::Compact);
    }
    Ok(())
}

#[test]
fn an_abort_at_any_point_leaves_all_or_nothing() {
    let started = now();
    let first = number("SEED").unwrap_or_else(|| u64::from(fastrand::u32(..)));
    let names = names();
    assert!(names.len() > 20, "the sources have failpoints: {names:?}");
    let mut counted: Vec<(u64, Passes)> = Vec::new();
    for seed in first..first + PROGRAMS_MAX {
        let is_passed = |name| counted.iter().any(|(_, passes)| passes.contains_key(name));
        if seed >= first + PROGRAMS && names.iter().all(is_passed) {
            break;
        }
        let dir = tempfile::tempdir().expect("a temporary directory");
        let ran = run_child(dir.path(), seed, "none", 0);
        assert!(!ran.aborted, "SEED={seed}: nothing was to abort");
        counted.push((seed, ran.passes));
    }
    let mut aborts = 0;
    for (at, name) in names.iter().enumerate() {
        let passing = counted
            .iter()
            .filter(|(_, passes)| passes.contains_key(name));
        let passing: Vec<_> = passing.collect();
        assert!(
            !passing.is_empty(),
            "SEED={first}: no program passes {name}"
        );
        let (seed, passes) = passing[at % passing.len()];
        let last = passes[name];
        let mut chosen = vec![1, 1 + fastrand::u64(0..last)];
        chosen.dedup();
        for pass in chosen {
            let dir = tempfile::tempdir().expect("a temporary directory");
            let ran = run_child(dir.path(), *seed, name, pass);
            assert!(
                ran.aborted,
                "{name} was not passed {pass} times, SEED={seed}"
            );
            let checked = check(dir.path(), *seed, ran.done);
            assert!(
                checked.is_ok(),
                "{name}, pass {pass}, SEED={seed}: {checked:?}"
            );
            aborts += 1;
        }
    }
    println!(
        "{aborts} aborts at {} points, all or nothing each time, seed {first}, {:.1} s",
        names.len(),
        started.elapsed().as_secs_f32()
    );
}
