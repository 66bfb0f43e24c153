//! The seeds of the fuzz targets, replayed without a fuzzer: what a target once found stays
//! found. Those of `cli_rows` are replayed by the program's own tests.
//!
//! `SEEDS=write` in the environment writes those that are made: a store's bytes for each decoder,
//! and programs of chance.

#[path = "../../fuzz/bodies/atomicity.rs"]
mod atomicity;
#[path = "../../fuzz/bodies/keys.rs"]
mod keys;
#[path = "../../fuzz/bodies/log_recovery.rs"]
mod log_recovery;
#[path = "../../fuzz/bodies/records.rs"]
mod records;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstseen::fuzzing::{self, Stored};
use firstseen::{Clock, ManualClock, Options, Policy, Store};

fn folder(target: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/seeds")
        .join(target)
}

/// Runs a target on each of its seeds.
fn replay(target: &str, run: impl Fn(&[u8])) {
    let mut seeds = 0;
    for seed in folder(target).read_dir().expect("a target has seeds") {
        let path = seed.expect("a readable folder").path();
        println!("{}", path.display());
        run(&fs::read(&path).expect("a readable seed"));
        seeds += 1;
    }
    assert!(seeds > 10, "{target} has {seeds} seeds");
}

#[test]
fn atomicity_holds() {
    replay("atomicity", atomicity::run);
}

#[test]
fn keys_hold() {
    replay("keys", keys::run);
}

#[test]
fn log_recovery_holds() {
    replay("log_recovery", log_recovery::run);
}

#[test]
fn records_hold() {
    replay("records", records::run);
}

/// The input that brings these bytes to this decoder as they are.
fn input(stored: Stored, bytes: &[u8]) -> Vec<u8> {
    let which = Stored::ALL.iter().position(|s| *s == stored);
    let which = u8::try_from(which.expect("all are there")).expect("they are few");
    [&[which][..], bytes].concat()
}

/// Where the fuzzer begins: programs and damages that chance gives.
fn write_chance(target: &str, bytes: usize) {
    for n in 1..=12 {
        let mut seed = vec![0; bytes];
        fastrand::Rng::with_seed(n).fill(&mut seed);
        fs::write(folder(target).join(format!("made-{n}")), seed).expect("a seed");
    }
}

/// A store with something of everything that is stored.
fn stored_bytes() -> Vec<(Stored, Vec<u8>)> {
    let clock = ManualClock::new();
    let options = Options::new()
        .background(false)
        .top_sources(10)
        .clock(Clock::Manual(clock.clone()));
    let store = Store::in_memory(options).expect("a new store opens");
    let minutes = |n: u64| Duration::from_secs(60 * n);
    let hour = Policy::remember(minutes(60)).sources();
    let hour = store.scope("hour", hour).expect("a scope");
    let sliding = Policy::sliding(minutes(5), minutes(50));
    let sliding = store.scope("sliding", sliding).expect("a scope");
    store.guarded_table("stock").expect("a table");
    let events = firstseen::SequencePolicy::new().window_bits(64);
    let events = store.sequences("events", events).expect("sequences");
    for (name, epoch, n) in [("web-1", 1, 7), ("web-2", 3, 900)] {
        let producer = firstseen::Producer { name, epoch };
        let accepted = events.accept_all(producer, [n, n + 2, n + 1, n + 80]);
        assert!(accepted.expect("numbers").iter().all(|v| v.is_first()));
    }
    for round in ["old", "new"] {
        let mut batch = store.batch();
        for n in 0..6 {
            let id = format!("{round}-{}", "x".repeat(n));
            let source = ["", "a source"][n % 2];
            batch.once(&hour, firstseen::Id::from(&id).source(source));
            batch.once(&sliding, &id);
        }
        batch
            .resume_at("number", 7_u64)
            .resume_at("text", &b"0001:f"[..]);
        batch
            .commit()
            .expect("a commit")
            .first()
            .expect("a verdict");
        hour.forget(&format!("{round}-"), "a reason")
            .expect("a forget");
        store.rewind("number", 6, "another").expect("a rewind");
        if round == "old" {
            let repeat = hour.insert(firstseen::Id::new("old-x").source("a source"));
            assert!(repeat.expect("an answer").is_duplicate());
            store.seal().expect("a seal");
            clock.advance(minutes(45));
            store.compact().expect("a merge");
        }
    }
    for claimed in ["slow", "slower"] {
        let claim = hour.claim(claimed).expect("an answer").first();
        let mut claim = claim.expect("a claim");
        claim.start();
    }
    let mut batch = store.batch();
    batch.once(&hour, "bad").dead_letter("no sense", b"body");
    batch.commit().expect("a commit").first().expect("one");
    let outbox = store.outbox("out").expect("an outbox").keeping(1);
    for payload in ["", "a message"] {
        let mut batch = store.batch();
        batch.always().send(&outbox, payload);
        assert!(batch.commit().expect("a commit").is_empty());
    }
    let drained = outbox.drain(9).expect("messages");
    outbox.ack(drained[1].id).expect("an acknowledgement");
    for txn in ["ended", "in doubt"] {
        let mut batch = store.batch();
        batch.once(&sliding, "old-xx");
        batch
            .once(&hour, txn)
            .put(&store.table("rows").expect("a table"), txn, "row");
        batch.resume_at(txn, 1);
        let verdicts = batch.prepare(txn).expect("a prepare");
        assert!(verdicts[1].is_first());
        if txn == "ended" {
            store.commit_prepared(txn).expect("an end");
        }
    }
    let mut all = Vec::new();
    let mut families = fuzzing::families(&store).expect("families");
    families.retain(|name| name != "default");
    for family in families {
        all.push((Stored::Name, family.clone().into_bytes()));
        for (key, value) in fuzzing::rows(&store, &family).expect("rows") {
            all.extend(row(&family, &key, &value));
        }
    }
    let extras = b"\x01\x08\0\x02\x01\0\0\0\0\0\0\x02\x03\0o/3\x03\0\0";
    all.push((Stored::Extras, extras.to_vec()));
    let floor = fuzzing::file(&store, "FLOOR")
        .expect("a floor")
        .expect("a floor");
    all.push((Stored::Slot, floor[..45].to_vec()));
    for name in fuzzing::snapshots(&store).expect("snapshots") {
        let file = fuzzing::file(&store, &name).expect("one").expect("one");
        all.push((Stored::Filter, file[44..file.len() - 8].to_vec()));
        all.push((Stored::Filters, file));
    }
    all
}

/// What a row is to the decoders.
fn row(family: &str, key: &[u8], value: &[u8]) -> Vec<(Stored, Vec<u8>)> {
    let after = |prefix: &str| key.strip_prefix(prefix.as_bytes());
    let keyed = |number: &[u8]| [number, value].concat();
    match family.split('.').next() {
        Some("meta") => {
            let kinds = [
                (Stored::Class, "class/"),
                (Stored::Scope, "scope/"),
                (Stored::Table, "table/"),
                (Stored::Sequences, "sequences/"),
            ];
            if key == b"top" {
                return vec![(Stored::Top, value.to_vec())];
            }
            let mut kinds = kinds.into_iter();
            let row = kinds.find_map(|(kind, prefix)| Some((kind, keyed(after(prefix)?))));
            row.into_iter().collect()
        }
        Some("points") => vec![(Stored::Position, value.to_vec())],
        Some("producers") => vec![(Stored::Producer, value.to_vec())],
        Some("audit") => vec![(Stored::Audit, keyed(key))],
        Some("claims") => vec![(Stored::Claim, value.to_vec())],
        Some("prepared") if key[0] == b'e' => vec![(Stored::Ended, value.to_vec())],
        Some("prepared") => vec![(Stored::Prepared, value.to_vec())],
        Some("dead") => vec![(Stored::DeadLetter, value.to_vec())],
        Some("table") if key == [0xff] => vec![(Stored::OutboxPoint, value.to_vec())],
        // An outbox's message has its number for a key; else it is the caller's row.
        Some("table") if key.len() != 8 => Vec::new(),
        Some("table") => vec![(Stored::Message, value.to_vec())],
        Some("log1") => vec![
            (Stored::LogNumber, key.to_vec()),
            (Stored::Log, value.to_vec()),
        ],
        Some("gen1") if key.ends_with(&[0xff; 4]) => {
            vec![
                (Stored::RunKey, key.to_vec()),
                (Stored::Footer, keyed(&key[..12])),
            ]
        }
        Some("gen1") => {
            let end = family.rsplit('.').next().expect("a slice");
            let end = u64::from_str_radix(end, 16).expect("a slice's end");
            vec![(Stored::Page, keyed(&end.to_le_bytes()))]
        }
        _ => Vec::new(),
    }
}

/// What a store writes, its decoders read, and would write so again. With `SEEDS=write` these
/// bytes become seeds.
#[test]
fn what_a_store_writes_is_read_and_written_again() {
    let is_writing = std::env::var("SEEDS").is_ok_and(|s| s == "write");
    if is_writing {
        write_chance("atomicity", 600);
        write_chance("log_recovery", 160);
    }
    let all = stored_bytes();
    let mut kinds = std::collections::BTreeMap::<Stored, usize>::new();
    for (stored, bytes) in &all {
        let written = fuzzing::again(*stored, bytes).map(|again| again.1);
        assert_eq!(written.as_ref(), Some(bytes), "{stored:?}");
        records::run(&input(*stored, bytes));
        let nth = kinds.entry(*stored).or_default();
        *nth += 1;
        if is_writing && *nth <= 3 {
            let name = format!("made-{stored:?}-{nth}").to_lowercase();
            fs::write(folder("records").join(name), input(*stored, bytes)).expect("a seed");
        }
    }
    // A whole floor file is long.
    assert_eq!(kinds.len(), Stored::ALL.len() - 1, "{kinds:?}");
}

/// A footer may promise any number of ids and pages: neither memory nor time follows it.
#[test]
fn a_footer_that_promises_too_much_costs_nothing() {
    let resources = firstseen::Resources::new().filter_bytes(1 << 20);
    let options = Options::new().background(false).resources(&resources);
    let store = Store::in_memory(options).expect("a new store opens");
    let scope = store.scope("s", Policy::forever()).expect("a scope");
    assert!(scope.insert("a").expect("an insert").is_first());
    store.seal().expect("a seal");
    let families = fuzzing::families(&store).expect("families");
    let family = families.iter().find(|name| name.starts_with("gen1."));
    let family = family.expect("a generation");
    let rows = fuzzing::rows(&store, family).expect("rows");
    let (key, footer) = rows.last().expect("a footer");
    let mut footer = footer.to_vec();
    footer[17..25].copy_from_slice(&(1_u64 << 40).to_le_bytes());
    footer[25..29].copy_from_slice(&u32::MAX.to_le_bytes());
    fuzzing::put(&store, family, key, Some(&footer)).expect("a damage");
    let store = store.crash_and_reopen().expect("its pages are all there");
    let scope = store.existing_scope("s").expect("open").expect("a scope");
    assert_eq!(scope.scan(..).expect("a scan").count(), 1);
    // Maintenance builds the filter anew, and merges by what the footer says.
    store.compact().expect("a merge");
}
