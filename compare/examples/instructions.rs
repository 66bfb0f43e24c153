//! The main paths of firstseen, each a fixed number of times, for counting their instructions.
//!
//! `scripts/instructions.sh` runs this under callgrind, which collects only inside
//! [`counted_path`] and so only what the calling thread does, and reads the cost of each function
//! whose name begins with `path_`. Seeds and the clock are fixed and no background work runs, but
//! the store draws a hash seed of its own, so counts repeat within a part of a percent, not to
//! the last digit.
//!
//! It prints a line a path, `name ids`. Run by itself it checks that each path gives the verdicts
//! it is about.

use std::error::Error;
use std::hint::black_box;
use std::time::Duration;

use firstseen::{
    Batch, Clock, ManualClock, Options, Policy, Producer, Scope, SequencePolicy, Sequences, Store,
    Table, Verdicts,
};

type Result<T> = std::result::Result<T, Box<dyn Error>>;
type RawId = [u8; 16];

const GENERATIONS: u64 = 8;
const SLICE_MS: u64 = 1 << 21;
const IDS_PER_GENERATION: u64 = 10_000;
const FILL_BATCH: u64 = 1000;
const ROW: [u8; 200] = [7; 200];
/// Each has a memtable of its own: how tall its nodes are is chance, that of many evens out.
const TABLES: usize = 8;
const PRODUCERS: [&str; 4] = ["north", "east", "south", "west"];

/// Where callgrind collects.
#[inline(never)]
fn counted_path(path: &mut dyn FnMut() -> Result<()>) -> Result<()> {
    black_box(path)()
}

/// A function of its own name for a path, that no other is merged with.
macro_rules! path {
    ($name:ident, $what:literal, $body:expr) => {{
        #[inline(never)]
        fn $name(run: &mut dyn FnMut() -> Result<()>) -> Result<()> {
            let result = run();
            black_box($what);
            result
        }
        counted_path(&mut || $name(&mut || $body))
    }};
}

fn say(name: &str, ids: u64) {
    println!("{name} {ids}");
}

fn mix(number: u64) -> u64 {
    let x = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

fn id(number: u64) -> RawId {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&mix(number).to_le_bytes());
    bytes[8..].copy_from_slice(&mix(!number).to_le_bytes());
    bytes
}

struct Bed {
    store: Store,
    scope: Scope,
    clock: ManualClock,
    next: u64,
}

impl Bed {
    /// A store with eight sealed generations.
    fn new(dir: &std::path::Path) -> Result<Bed> {
        let clock = ManualClock::new();
        let options = Options::new()
            .clock(Clock::Manual(clock.clone()))
            .background(false);
        let store = Store::open(dir, options)?;
        let retention = Duration::from_millis(SLICE_MS * GENERATIONS);
        let scope = store.scope("ids", Policy::remember(retention))?;
        let next = 0;
        let mut bed = Bed {
            store,
            scope,
            clock,
            next,
        };
        for generation in 0..GENERATIONS {
            if generation > 0 {
                bed.clock.advance(Duration::from_millis(SLICE_MS));
            }
            for batch in bed.fresh(IDS_PER_GENERATION / FILL_BATCH, FILL_BATCH) {
                expect(&bed.scope.insert_all(&batch)?, true)?;
            }
            bed.store.seal()?;
        }
        Ok(bed)
    }

    /// Batches of new ids.
    fn fresh(&mut self, batches: u64, size: u64) -> Vec<Vec<RawId>> {
        let mut batch = || {
            let from = self.next;
            self.next += size;
            (from..self.next).map(id).collect()
        };
        (0..batches).map(|_| batch()).collect()
    }
}

/// Batches of ids that were inserted between two numbers.
fn seen(from: u64, to: u64, batches: u64, size: u64) -> Vec<Vec<RawId>> {
    let mut random = fastrand::Rng::with_seed(1);
    let mut batch = || (0..size).map(|_| id(random.u64(from..to))).collect();
    (0..batches).map(|_| batch()).collect()
}

fn expect(verdicts: &Verdicts, first: bool) -> Result<()> {
    match verdicts.iter().all(|v| v.is_first() == first) {
        true => Ok(()),
        false => Err(format!("not all are {}", if first { "first" } else { "seen" }).into()),
    }
}

fn insert_all(scope: &Scope, batches: &[Vec<RawId>], first: bool) -> Result<()> {
    for batch in batches {
        expect(&scope.insert_all(batch)?, first)?;
    }
    Ok(())
}

fn insert_each(scope: &Scope, ids: &[RawId]) -> Result<()> {
    for id in ids {
        if !scope.insert(id)?.is_first() {
            return Err("a new id was seen".into());
        }
    }
    Ok(())
}

fn commit_rows(
    batch: &mut Batch,
    scope: &Scope,
    tables: &[Table],
    batches: &[Vec<RawId>],
) -> Result<()> {
    for (ids, rows) in batches.iter().zip(tables.iter().cycle()) {
        for id in ids {
            batch.once(scope, id).put(rows, id, ROW);
        }
        expect(&batch.commit()?, true)?;
    }
    Ok(())
}

/// Each batch holds the next numbers of one producer.
fn commit_numbers(batch: &mut Batch, sequences: &Sequences, batches: u64, size: u64) -> Result<()> {
    let mut next = [0; PRODUCERS.len()];
    for turn in 0..batches as usize {
        let at = turn % PRODUCERS.len();
        for _ in 0..size {
            let producer = Producer {
                name: PRODUCERS[at],
                epoch: 1,
            };
            batch.sequence(sequences, producer, next[at]);
            next[at] += 1;
        }
        expect(&batch.commit()?, true)?;
    }
    Ok(())
}

fn main() -> Result<()> {
    let dir = tempfile::tempdir()?;
    let mut bed = Bed::new(dir.path())?;
    let (scope, store) = (bed.scope.clone(), bed.store.clone());
    let sealed = bed.next;
    // What is made once is made now, and pages are in the cache.
    insert_all(&scope, &bed.fresh(2, 1000), true)?;
    let all: Vec<RawId> = (0..sealed).map(id).collect();
    for batch in all.chunks(1000) {
        expect(&scope.insert_all(batch)?, false)?;
    }

    let recent = bed.next;
    let new = bed.fresh(20, 1000);
    path!(path_new_batch1000, "new_batch1000", {
        insert_all(&scope, &new, true)
    })?;
    say("new_batch1000", 20_000);
    let new = bed.fresh(100, 100);
    path!(path_new_batch100, "new_batch100", {
        insert_all(&scope, &new, true)
    })?;
    say("new_batch100", 10_000);
    let new = bed.fresh(1, 4_000);
    path!(path_new_single, "new_single", insert_each(&scope, &new[0]))?;
    say("new_single", 4_000);
    let duplicates = seen(recent, bed.next, 20, 1000);
    path!(path_recent_duplicate, "recent_duplicate", {
        insert_all(&scope, &duplicates, false)
    })?;
    say("recent_duplicate", 20_000);
    let duplicates = seen(0, sealed, 20, 1000);
    path!(path_old_duplicate, "old_duplicate", {
        insert_all(&scope, &duplicates, false)
    })?;
    say("old_duplicate", 20_000);
    let tables: Vec<Table> = (0..TABLES)
        .map(|n| store.table(&format!("rows{n}")))
        .collect::<firstseen::Result<_>>()?;
    let mut batch = store.batch();
    commit_rows(&mut batch, &scope, &tables, &bed.fresh(TABLES as u64, 100))?;
    let new = bed.fresh(160, 100);
    path!(path_commit_with_mutation, "commit_with_mutation", {
        commit_rows(&mut batch, &scope, &tables, &new)
    })?;
    say("commit_with_mutation", 16_000);
    let sequences = store.sequences("events", SequencePolicy::new())?;
    path!(path_sequence, "sequence", {
        commit_numbers(&mut batch, &sequences, 100, 100)
    })?;
    say("sequence", 10_000);
    Ok(())
}
