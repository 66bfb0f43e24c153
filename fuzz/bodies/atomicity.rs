//! Programs of the model's language, with settings, crashes and failing commits where the bytes
//! want them: whatever happens, the store's verdicts, ids and rows are the model's.
//!
//! The first bytes are the settings and the countdown, the rest is the program.

use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use firstseen::{Durability, Options, Resources};

use crate::kit::generate::program;
use crate::kit::op::{Failure, Op};
use crate::kit::runner::Setup;
use crate::kit::trial;

/// A program this long takes some 50 ms; longer ones show little more for their time.
const OPS_MAX: usize = 200;

/// Few bytes and threads, shared by all stores.
static RESOURCES: LazyLock<Resources> = LazyLock::new(|| {
    Resources::new()
        .cache_bytes(4 << 20)
        .filter_bytes(1 << 20)
        .segment_bytes(1 << 20)
        .threads(1)
});

struct Settings {
    segment_ids: usize,
    filter_bits: u32,
    slices: u32,
    durability: Durability,
    closures_twice: bool,
    /// The n-th step becomes a crash; and each after that many more, if there are to be several.
    countdown: usize,
    again: bool,
    crash: u8,
}

pub(crate) fn run(data: &[u8]) {
    let (head, rest) = data.split_at(data.len().min(8));
    let Ok(settings) = settings(&mut Unstructured::new(head)) else {
        return;
    };
    let mut ops = program(rest);
    ops.truncate(OPS_MAX);
    interrupt(&mut ops, &settings);
    let options = |_| options(&settings);
    let attempt = |ops: &[Op]| {
        let setup = Setup {
            dir: None,
            options: &options,
        };
        trial::run(setup, ops)
    };
    if attempt(&ops).expected.is_some() {
        panic!("{}", trial::report(&ops, attempt));
    }
}

fn settings(u: &mut Unstructured<'_>) -> Result<Settings> {
    let levels = [
        Durability::Written,
        Durability::Synced,
        Durability::Buffered,
    ];
    Ok(Settings {
        segment_ids: *u.choose(&[4, 8, 24, 40, 500])?,
        filter_bits: *u.choose(&[16, 0, 4])?,
        slices: u.int_in_range(1..=8)?,
        durability: *u.choose(&levels)?,
        closures_twice: u.ratio(1, 4)?,
        countdown: u.int_in_range(0..=63)?,
        again: u.arbitrary()?,
        crash: u.arbitrary()?,
    })
}

fn options(settings: &Settings) -> Options {
    Options::new()
        .resources(&RESOURCES)
        .background(false)
        .generations_max(64)
        .clock_jump_max(Duration::from_secs(1 << 32))
        .segment_ids_max(settings.segment_ids)
        .filter_bits_per_id(settings.filter_bits)
        .slices_per_class(settings.slices)
        .durability(settings.durability)
        .closures_twice(settings.closures_twice)
}

/// Puts crashes where the countdown ends: in a batch's commit, in maintenance, or between steps.
fn interrupt(ops: &mut [Op], settings: &Settings) {
    let mut at = settings.countdown;
    while at < ops.len() {
        ops[at] = match (&ops[at], settings.crash % 4) {
            (Op::Batch(batch), 0) => Op::Failing(Failure::Written, batch.clone()),
            (Op::Batch(batch), 1) => Op::Failing(Failure::Lost, batch.clone()),
            (Op::Batch(batch), 2) => Op::Failing(Failure::NotRecorded, batch.clone()),
            (_, 3) => Op::Dying(settings.crash / 4, at as u8 % 3),
            _ => Op::Crash,
        };
        if !settings.again {
            return;
        }
        at += settings.countdown + 1;
    }
}
