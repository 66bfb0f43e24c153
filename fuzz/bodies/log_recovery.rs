//! Stores whose log, floor, filter snapshots or rows hold bytes that no release wrote: opening is
//! an error, or every id that the bytes did not name is answered as before.
//!
//! A store is made, damaged below its face as the input says, and opened as after a crash. What
//! opens is used, sealed, merged and opened once more. Rows of the catalog and of generations may
//! change any answer, so those damages ask only for no panic and an end.

mod damage;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

use arbitrary::{Result, Unstructured};
use firstseen::{Clock, Error, ManualClock, Options, Policy, Resources, Store};

const SCOPES: [&str; 2] = ["hour", "for ever"];
type Ids = BTreeSet<(u16, Vec<u8>)>;

static RESOURCES: LazyLock<Resources> = LazyLock::new(|| {
    Resources::new()
        .cache_bytes(4 << 20)
        .filter_bytes(1 << 20)
        .segment_bytes(1 << 20)
        .threads(1)
});

/// What is known of a store's ids.
#[derive(Default)]
struct Known {
    ids: BTreeMap<(u16, Vec<u8>), bool>,
    /// Whose answer the damage may have changed.
    touched: Ids,
    /// The damage may have changed any answer.
    any: bool,
}

type Called<T> = std::result::Result<T, Error>;

/// Makes, damages and opens a store.
pub(crate) fn run(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let clock = ManualClock::new();
    let options = options(&mut u, &clock).expect("missing bytes are zeroes");
    let mut known = Known::default();
    let store = Store::in_memory(options).expect("a new store opens");
    fill(&store, &clock, &mut known).expect("a whole store works");
    for _ in 0..u.int_in_range(1..=3).unwrap_or(1) {
        // Bytes that ran out: the damage is done.
        let _ = damage::damage(&mut u, &store, &mut known);
    }
    let Ok(store) = store.crash_and_reopen() else {
        return;
    };
    let stats = store.stats().expect("an open store has stats");
    known.any |= stats.recovered_short.is_some();
    // Most of the time goes to maintenance, so not every input asks for it.
    let is_used = u.ratio(1, 2).unwrap_or(false);
    let works = if is_used {
        used(&store, &mut known)
    } else {
        asked(&store, &mut known)
    };
    if let Err(error) = &works {
        assert!(known.any || !known.touched.is_empty(), "untouched: {error}");
    }
    match store.crash_and_reopen() {
        Ok(store) => drop(asked(&store, &mut known)),
        Err(error) => assert!(known.any || works.is_err(), "it opened before: {error}"),
    }
}

fn options(u: &mut Unstructured<'_>, clock: &ManualClock) -> Result<Options> {
    Ok(Options::new()
        .resources(&RESOURCES)
        .background(false)
        .clock(Clock::Manual(clock.clone()))
        .clock_jump_max(Duration::from_secs(1 << 32))
        .filter_bits_per_id([16, 0, 4][u.int_in_range(0..=2)?])
        .slices_per_class(u.int_in_range(1..=8)?)
        .accept_recovered_short(u.arbitrary()?))
}

/// Ids in a merged run with a snapshot, in runs, in the log; some forgotten, some never seen.
fn fill(store: &Store, clock: &ManualClock, known: &mut Known) -> Called<()> {
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let hour = Policy::remember(minutes(60)).sources();
    store.scope(SCOPES[0], hour)?;
    store.scope(SCOPES[1], Policy::forever())?;
    for round in 0..3_u8 {
        for scope in 0..SCOPES.len() as u16 {
            let of = |n: u8| format!("{round}-{n}-{}", "x".repeat(usize::from(n % 3))).into_bytes();
            let handle = handle(store, scope)?.expect("it was just made");
            let ids: Vec<Vec<u8>> = (0..4).map(of).collect();
            let mut batch = store.batch();
            for id in &ids {
                batch.once(&handle, firstseen::Id::from(id).source("a source"));
            }
            batch.resume_at("source", u64::from(round));
            let _ = batch.commit()?;
            handle.forget(&ids[3], "a reason")?;
            known.ids.extend((0..4).map(|n| ((scope, of(n)), n < 3)));
            known.ids.insert((scope, of(4)), false);
        }
        match round {
            0 => {
                clock.advance(minutes(45));
                store.compact()?;
            }
            1 => store.seal()?,
            _ => {}
        }
    }
    Ok(())
}

fn handle(store: &Store, scope: u16) -> Called<Option<firstseen::Scope>> {
    store.existing_scope(SCOPES[usize::from(scope)])
}

/// Asks for every id, and uses the store in other ways.
fn used(store: &Store, known: &mut Known) -> Called<()> {
    asked(store, known)?;
    store.seal()?;
    asked(store, known)?;
    store.compact()?;
    for entry in store.audit()? {
        entry?;
    }
    store.resume_point("source")?;
    let _ = store.health();
    asked(store, known)
}

fn asked(store: &Store, known: &mut Known) -> Called<()> {
    for ((scope, id), is_known) in &mut known.ids {
        let handle = handle(store, *scope)?;
        assert!(handle.is_some() || known.any, "a scope is gone");
        let Some(handle) = handle else { continue };
        let is_exact = !known.any && !known.touched.contains(&(*scope, id.clone()));
        let seen = handle.peek(&id[..])?.is_some();
        assert!(!is_exact || seen == *is_known, "peek of {id:?}: {seen}");
        // Some of the unknown are seen now.
        if *is_known || id[0] == b'1' {
            let verdict = handle.insert(&id[..])?;
            let is_right = verdict.is_duplicate() == *is_known;
            assert!(!is_exact || is_right, "{id:?}: {verdict:?}");
            *is_known |= verdict.is_first();
        }
    }
    for scope in 0..SCOPES.len() as u16 {
        for entry in handle(store, scope)?.iter().flat_map(|s| s.scan(..)) {
            entry.collect::<Called<Vec<_>>>()?;
        }
    }
    Ok(())
}
