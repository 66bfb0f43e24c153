//! Random programs, on the model and on stores with many settings.
//!
//! - The store answers as the model does, whatever the program: verdicts, first sights, rows,
//!   resume points, scans and counts (mission: exact ids, exact retention, no lost update).
//! - Settings change how fast an answer comes, never the answer: one program has one history.
//!
//! Segments have a few ids, so programs of some hundred steps seal, merge and drop; the tests
//! fail if they did not. `SEED=n` runs one program again. `PROGRAMS=n` sets how many.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use firstseen::{Durability, Options, Resources};

use crate::kit::generate::program;
use crate::kit::op::{Batch, Item, Name, Op};
use crate::kit::runner::{Setup, Work};
use crate::kit::trial::{self, Trial};
use crate::number::number;

/// Some hundred steps.
const PROGRAM_BYTES: usize = 8_000;

/// A way to run a store.
struct Variant {
    name: &'static str,
    in_directory: bool,
    options: fn(u32) -> Options,
}

fn resources(cache_bytes: usize, filter_bytes: usize) -> Resources {
    Resources::new()
        .cache_bytes(cache_bytes)
        .filter_bytes(filter_bytes)
}

/// Shared, as threads are too dear for every store of these tests to have its own.
static ROOMY: LazyLock<Resources> = LazyLock::new(|| resources(64 << 20, 64 << 20));
static TINY_CACHE: LazyLock<Resources> = LazyLock::new(|| resources(4 << 10, 64 << 20));
static TINY_FILTERS: LazyLock<Resources> = LazyLock::new(|| resources(64 << 20, 2 << 10));

/// Ordinary options, but for what makes programs repeatable and never refuses a retention.
fn ordinary() -> Options {
    Options::new()
        .resources(&ROOMY)
        .background(false)
        .generations_max(64)
        .clock_jump_max(Duration::from_secs(1 << 32))
}

fn tiny() -> Options {
    ordinary().segment_ids_max(40).slices_per_class(4)
}

const TINY: Variant = Variant {
    name: "tiny segments",
    in_directory: false,
    options: |_| tiny(),
};

/// Other settings at every opening: nothing of them is in the data but the classes' slices.
const CHANGING: Variant = Variant {
    name: "other options at every opening",
    in_directory: true,
    options: |opening| {
        let n = opening as usize;
        let levels = [
            Durability::Written,
            Durability::Synced,
            Durability::Buffered,
        ];
        tiny()
            .segment_ids_max([8, 500, 24][n % 3])
            .filter_bits_per_id([16, 0, 4][n % 3])
            .slices_per_class([8, 1, 3][n % 3])
            .durability(levels[n % 3])
    },
};

/// Few families, so that many seals are cheap.
const GROWING: Variant = Variant {
    name: "segments of 4",
    in_directory: false,
    options: |_| ordinary().segment_ids_max(4).slices_per_class(1),
};

const VARIANTS: [Variant; 14] = [
    TINY,
    CHANGING,
    Variant {
        name: "one segment",
        in_directory: false,
        options: |_| ordinary(),
    },
    Variant {
        name: "segments of 8",
        in_directory: false,
        options: |_| ordinary().segment_ids_max(8),
    },
    Variant {
        name: "no filters",
        in_directory: false,
        options: |_| tiny().filter_bits_per_id(0),
    },
    Variant {
        name: "filters of 4 bits",
        in_directory: false,
        options: |_| tiny().filter_bits_per_id(4),
    },
    Variant {
        name: "a tiny cache",
        in_directory: false,
        options: |_| tiny().resources(&TINY_CACHE),
    },
    Variant {
        name: "a tiny filter budget",
        in_directory: false,
        options: |_| tiny().resources(&TINY_FILTERS),
    },
    Variant {
        name: "one slice a class",
        in_directory: false,
        options: |_| tiny().slices_per_class(1),
    },
    Variant {
        name: "synced",
        in_directory: false,
        options: |_| tiny().durability(Durability::Synced),
    },
    Variant {
        name: "buffered",
        in_directory: false,
        options: |_| tiny().durability(Durability::Buffered),
    },
    Variant {
        name: "background threads",
        in_directory: false,
        options: |_| tiny().background(true),
    },
    Variant {
        name: "closures run twice",
        in_directory: false,
        options: |_| tiny().closures_twice(true),
    },
    Variant {
        name: "a directory",
        in_directory: true,
        options: |_| tiny(),
    },
];

fn attempt(variant: &Variant, ops: &[Op]) -> Trial {
    let dir = variant
        .in_directory
        .then(|| tempfile::tempdir().expect("a temporary directory"));
    let path = dir.as_ref().map(|dir| dir.path().join("store"));
    trial::run(
        Setup {
            dir: path,
            options: &variant.options,
        },
        ops,
    )
}

fn program_of(seed: u64) -> Vec<Op> {
    let mut bytes = vec![0; PROGRAM_BYTES];
    fastrand::Rng::with_seed(seed).fill(&mut bytes);
    program(&bytes)
}

#[expect(clippy::disallowed_methods, reason = "a test may time itself")]
fn now() -> Instant {
    Instant::now()
}

/// The seeds to run: one that was asked for, or new ones each time.
fn seeds(programs: u64) -> Vec<u64> {
    if let Some(seed) = number("SEED") {
        return vec![seed];
    }
    let first = u64::from(fastrand::u32(..));
    (first..first + number("PROGRAMS").unwrap_or(programs)).collect()
}

#[track_caller]
fn check(seed: u64, variant: &Variant, ops: &[Op]) -> Trial {
    let trial = attempt(variant, ops);
    if trial.expected.is_some() {
        let report = trial::report(ops, |ops| attempt(variant, ops));
        panic!("SEED={seed}, {}: {report}", variant.name);
    }
    trial
}

#[track_caller]
fn assert_worked(work: &Work, programs: usize) {
    // One program may miss one of them; a run may not.
    let all = [
        work.seals,
        work.merges,
        work.drops,
        work.replayed,
        work.generation_hits,
    ];
    // These are rarer.
    let ended = [work.committed, work.aborted];
    let rare = [work.claims, work.late, work.fenced, work.evicted];
    assert!(
        (programs < 2 || all.iter().all(|n| *n > 0))
            && (programs < 16 || rare.iter().chain(&ended).all(|n| *n > 0)),
        "too little happened: {work:?}"
    );
}

#[test]
fn every_answer_is_the_models() {
    let started = now();
    let (mut steps, mut work) = (0, Work::default());
    let seeds = seeds(40);
    for seed in &seeds {
        let ops = program_of(*seed);
        let variant = if seed % 8 == 0 { &CHANGING } else { &TINY };
        let trial = check(*seed, variant, &ops);
        steps += trial.history.len();
        work += trial.work;
    }
    assert_worked(&work, seeds.len());
    println!(
        "model steps {steps} in {} programs from SEED={}, {:.1} s, {work:?}",
        seeds.len(),
        seeds[0],
        started.elapsed().as_secs_f32()
    );
}

/// The same program on few ids of one long scope, with many short-lived and forgotten ones: a
/// generation that grows and grows, and is merged in parts while older runs lie below.
fn narrowed(mut ops: Vec<Op>) -> Vec<Op> {
    for op in &mut ops {
        match op {
            Op::Insert(scope, item) | Op::Once(scope, item, _) => narrow(scope, item),
            Op::InsertAll(scope, items) => items.iter_mut().for_each(|item| narrow(scope, item)),
            Op::Hold(items)
            | Op::Batch(Batch { items, .. })
            | Op::Prepare(_, Batch { items, .. })
            | Op::Failing(_, Batch { items, .. }) => {
                items
                    .iter_mut()
                    .for_each(|(scope, item)| narrow(scope, item));
            }
            Op::Forget(scope, name) => (*scope, *name) = (NARROW, few(*name)),
            Op::Peek(_, name) => *op = Op::Forget(NARROW, few(*name)),
            Op::Advance(ms) => *ms %= 40,
            Op::Compact | Op::DropScope(..) | Op::Alter(..) => *op = Op::Seal,
            _ => {}
        }
    }
    ops
}

/// The scope that remembers for an hour.
const NARROW: usize = 2;

fn few(name: Name) -> Name {
    match name {
        Name::Id(n) => Name::Id(n % 30),
        other => other,
    }
}

fn narrow(scope: &mut usize, item: &mut Item) {
    *scope = NARROW;
    item.name = few(item.name);
    if item.source.is_some() {
        item.remember_ms = Some(20);
    }
}

#[test]
fn a_growing_generation_is_merged_in_parts() {
    let started = now();
    let (mut steps, mut work) = (0, Work::default());
    let seeds = seeds(16);
    for seed in &seeds {
        let ops = narrowed(program_of(*seed));
        let trial = check(*seed, &GROWING, &ops);
        steps += trial.history.len();
        work += trial.work;
    }
    assert!(
        work.merges > 0 && work.seals > 20 * seeds.len() as u64,
        "{work:?}"
    );
    println!(
        "model steps {steps} in {} programs from SEED={}, {:.1} s, {work:?}",
        seeds.len(),
        seeds[0],
        started.elapsed().as_secs_f32()
    );
}

#[test]
fn settings_never_change_an_answer() {
    let started = now();
    let seeds = seeds(2);
    let mut work = Work::default();
    for seed in &seeds {
        let ops = program_of(*seed);
        let mut first: Option<String> = None;
        for variant in &VARIANTS {
            let trial = check(*seed, variant, &ops);
            work += trial.work;
            let history = trial.text(&ops);
            let first = first.get_or_insert_with(|| history.clone());
            let difference = trial::difference(first, &history);
            assert!(
                difference.is_empty(),
                "SEED={seed}, {}:\n{difference}",
                variant.name
            );
        }
    }
    assert_worked(&work, seeds.len());
    println!(
        "{} programs with {} settings, {:.1} s, {work:?}",
        seeds.len(),
        VARIANTS.len(),
        started.elapsed().as_secs_f32()
    );
}
