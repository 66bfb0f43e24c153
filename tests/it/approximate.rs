//! Approximate scopes: what they promise within the window, over openings, crashes and damage,
//! and among threads.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, UNIX_EPOCH};

use fastrand::Rng;
use firstseen::{
    Approximate, ApproximateScope, Area, BadId, Clock, ErrorKind, Injected, Injection, ManualClock,
    Options, Place, Recovery, Remedy, Sight, Store, verify,
};

use crate::cases::until;

const WINDOW_MS: u64 = 8_000;
const SLICE_MS: u64 = 1_000;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn window() -> Approximate {
    Approximate::window(ms(WINDOW_MS)).distinct_precision(10)
}

fn options(clock: &ManualClock) -> Options {
    Options::new()
        .background(false)
        .clock(Clock::Manual(clock.clone()))
}

fn open(dir: &Path, clock: &ManualClock) -> Store {
    Store::open(dir, options(clock)).unwrap()
}

fn is_first(scope: &ApproximateScope, id: u64) -> bool {
    scope.insert(id.to_le_bytes()).unwrap().is_first()
}

fn snapshot_file(dir: &Path) -> PathBuf {
    dir.join("approx/ids.seen")
}

/// The store as a power cut would leave it now.
fn copied(dir: &Path) -> tempfile::TempDir {
    fn copy(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap() {
            let path = entry.unwrap().path();
            let to = to.join(path.file_name().unwrap());
            match path.is_dir() {
                true => copy(&path, &to),
                false => drop(fs::copy(&path, &to).unwrap()),
            }
        }
    }
    let root = tempfile::tempdir().unwrap();
    copy(dir, root.path());
    root
}

/// Every id's answer, through turns, idle times and clean openings, against a map of when each
/// was first.
#[test]
fn never_a_false_negative_within_the_window() {
    for seed in 0..4 {
        let mut rng = Rng::with_seed(seed);
        let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
        let made_for = window().expected(4_000).error_rate(1e-6);
        let mut store = open(root.path(), &clock);
        let mut scope = store.approximate("ids", made_for.clone()).unwrap();
        let (mut first, mut now) = (HashMap::new(), 0u64);
        let (mut seen, mut again) = (0, 0);
        for _ in 0..6_000 {
            match rng.u32(0..600) {
                0 => {
                    drop(scope);
                    store.close().unwrap();
                    store = open(root.path(), &clock);
                    scope = store.approximate("ids", made_for.clone()).unwrap();
                    assert_eq!(scope.recovery().unwrap(), Recovery::Whole);
                }
                1 => scope.snapshot().unwrap(),
                // Its background work, and a long idle time.
                2 => clock.advance(ms(advanced(&mut now, rng.u64(0..3 * WINDOW_MS)))),
                3..100 => clock.advance(ms(advanced(&mut now, rng.u64(0..120)))),
                _ => {
                    let id = rng.u64(0..300);
                    let age = first.get(&id).map(|at| now - at);
                    match is_first(&scope, id) {
                        true => {
                            let (at, age) = (now, age.unwrap_or(u64::MAX));
                            assert!(age >= WINDOW_MS, "seed {seed}: {id} forgotten at {age} ms");
                            again += u32::from(age < u64::MAX);
                            first.insert(id, at);
                        }
                        false => {
                            let age = age.expect("an error of one in a million");
                            assert!(age <= WINDOW_MS + SLICE_MS, "seed {seed}: {age} ms");
                            seen += 1;
                        }
                    }
                }
            }
        }
        assert!(seen > 1_000 && again > 50, "seed {seed}: {seen} {again}");
    }
}

fn advanced(now: &mut u64, by: u64) -> u64 {
    *now += by;
    by
}

#[test]
fn the_stated_error_rate_holds_over_all_slices() {
    for (rate, slices, seed) in [(0.05, 8, 1), (0.01, 8, 2), (0.01, 1, 3), (0.02, 3, 4)] {
        let clock = ManualClock::new();
        let store = Store::in_memory(options(&clock)).unwrap();
        let expected = 24_000;
        let made_for = Approximate::window(ms(24_000)).slices(slices);
        let made_for = made_for.expected(expected).error_rate(rate);
        let scope = store.approximate("ids", made_for).unwrap();
        let mut rng = Rng::with_seed(seed);
        let (mut asked, mut wrong) = (0u64, 0u64);
        for tick in 0..5 * expected {
            clock.advance(ms(1));
            let sight = scope.insert(rng.u64(..).to_le_bytes()).unwrap();
            // In steady use: every slice is full.
            if tick >= 2 * expected {
                asked += 1;
                if let Sight::Probably { error_rate } = sight {
                    wrong += 1;
                    assert!(error_rate <= rate * 1.001, "{error_rate}");
                }
            }
        }
        let (asked, wrong) = (asked as f64, wrong as f64);
        let sigma = (asked * rate * (1.0 - rate)).sqrt();
        assert!(
            wrong <= asked * rate + 5.0 * sigma,
            "{wrong} of {asked} at {rate}"
        );
        assert!(
            wrong > asked * rate / 4.0,
            "{wrong} of {asked} at {rate}: not asked"
        );
        let stats = scope.stats().unwrap();
        assert!(stats.fill <= 1.0 && stats.beyond_expected == 0, "{stats:?}");
        // What it says of itself is what happened.
        let now = asked * stats.error_rate;
        assert!((0.4..1.6).contains(&(wrong / now)), "{wrong} {now}");
    }
}

/// R7: memory at ten times the cardinality.
#[test]
fn memory_is_the_same_at_ten_times_the_ids_and_only_the_rate_suffers() {
    let clock = ManualClock::new();
    let store = Store::in_memory(options(&clock)).unwrap();
    let made_for = window().expected(10_000);
    let bytes = made_for.bytes().unwrap();
    let scope = store.approximate("ids", made_for).unwrap();
    let ids = |from: u64, count: u64| (from..from + count).map(u64::to_le_bytes);
    let firsts = |sights: Vec<Sight>| sights.iter().filter(|s| s.is_first()).count();
    firsts(scope.insert_all(ids(0, 1_000)).unwrap());
    let before = scope.stats().unwrap();
    firsts(scope.insert_all(ids(1_000, 100_000)).unwrap());
    let after = scope.stats().unwrap();
    assert_eq!(
        [
            before.bytes,
            after.bytes,
            store.stats().unwrap().approximate_bytes
        ],
        [bytes; 3]
    );
    assert!(
        before.fill < 1.0 && before.beyond_expected == 0,
        "{before:?}"
    );
    assert!(
        after.fill > 4.0 && after.beyond_expected > 4_000,
        "{after:?}"
    );
    assert!(
        before.error_rate < 0.01 && after.error_rate > 0.5,
        "{after:?}"
    );
    assert_eq!(firsts(scope.insert_all(ids(0, 101_000)).unwrap()), 0);
    assert_eq!(after.first + after.probably, 101_000);
}

#[test]
fn of_threads_with_one_id_exactly_one_is_first() {
    const THREADS: u64 = 6;
    let clock = ManualClock::new();
    let store = Store::in_memory(options(&clock)).unwrap();
    let scope = store
        .approximate("ids", window().expected(200_000).error_rate(1e-6))
        .unwrap();
    let firsts: Vec<AtomicU64> = (0..30_000).map(|_| AtomicU64::new(0)).collect();
    std::thread::scope(|threads| {
        for thread in 0..THREADS {
            let (scope, firsts, clock) = (&scope, &firsts, &clock);
            threads.spawn(move || {
                for (id, first) in firsts.iter().enumerate() {
                    if is_first(scope, id as u64) {
                        first.fetch_add(1, Ordering::Relaxed);
                    }
                    // Slices turn below the others' feet, within the window.
                    if thread == 0 && id % 5_000 == 0 {
                        clock.advance(ms(SLICE_MS));
                    }
                }
            });
        }
    });
    assert!(scope.stats().unwrap().rotations >= 5);
    for (id, first) in firsts.iter().enumerate() {
        assert_eq!(first.load(Ordering::Relaxed), 1, "{id}");
    }
}

#[test]
fn a_crash_takes_what_came_after_the_snapshot_and_says_so() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(is_first(&scope, 1));
    clock.advance(ms(10));
    scope.snapshot().unwrap();
    let from = clock.now();
    clock.advance(ms(10));
    assert!(is_first(&scope, 2));
    let crashed = copied(root.path());

    let short = |until| Recovery::Short { from, until };
    let mut opened = clock.now();
    for reopened in 0..2 {
        let store = open(crashed.path(), &clock);
        let scope = store.approximate("ids", window()).unwrap();
        // Said again after a clean close, when nothing came in between.
        assert_eq!(scope.recovery().unwrap(), short(opened), "{reopened}");
        drop(scope);
        store.close().unwrap();
        clock.advance(ms(5));
    }
    let store = open(crashed.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(!is_first(&scope, 1));
    assert!(is_first(&scope, 2), "lost, as was said");
    scope.snapshot().unwrap();
    clock.advance(ms(5));
    let crashed_again = copied(crashed.path());
    drop((store, scope));

    opened = clock.now();
    let store = open(crashed_again.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert_eq!(scope.recovery().unwrap(), short(opened));
    assert!(!is_first(&scope, 2));
    clock.advance(ms(WINDOW_MS + SLICE_MS));
    assert_eq!(scope.recovery().unwrap(), Recovery::Whole);
}

#[test]
fn a_damaged_or_missing_snapshot_is_an_error_until_the_scope_is_dropped() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let made_for = window().expected(50).slices(2).distinct_precision(4);
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", made_for.clone()).unwrap();
    assert!((0..50).all(|id| is_first(&scope, id) || id > 0));
    drop(scope);
    store.close().unwrap();
    let file = snapshot_file(root.path());
    let good = fs::read(&file).unwrap();
    let checked = |options: &Options| verify(root.path(), options, |_| {}).unwrap();
    assert!(checked(&options(&clock)).is_sound());

    let mut rng = Rng::with_seed(5);
    let mut harms: Vec<Vec<u8>> = (0..4)
        .map(|_| good[..rng.usize(..good.len())].to_vec())
        .collect();
    harms.push([&good[..], &[0]].concat());
    for at in (0..good.len()).step_by(7) {
        let mut bytes = good.clone();
        bytes[at] ^= 1 << rng.u32(..8);
        harms.push(bytes);
    }
    let store = open(root.path(), &clock);
    for bytes in &harms {
        fs::write(&file, bytes).unwrap();
        let error = store.approximate("ids", made_for.clone()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
        assert!(error.to_string().contains("drop_approximate"), "{error}");
    }
    store.close().unwrap();
    fs::write(root.path().join("approx/notes.txt"), "not ours").unwrap();
    let report = checked(&options(&clock));
    let found: Vec<_> = report.faults.iter().map(|f| (f.area, f.remedy)).collect();
    assert_eq!(found, [(Area::Approximate, Remedy::DropApproximate)]);

    let store = open(root.path(), &clock);
    assert!(store.drop_approximate("ids").unwrap());
    assert!(!store.drop_approximate("ids").unwrap());
    let scope = store.approximate("ids", made_for.clone()).unwrap();
    assert!(is_first(&scope, 1));
    // Gone while it was open: no empty scope either.
    let crashed = copied(root.path());
    fs::remove_file(snapshot_file(crashed.path())).unwrap();
    let store = open(crashed.path(), &clock);
    let error = store.approximate("ids", made_for).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Damaged, "{error}");
    assert!(crashed.path().join("approx/notes.txt").exists());
}

#[test]
fn a_disk_without_space_leaves_the_last_snapshot_and_the_mark() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(is_first(&scope, 1));
    scope.snapshot().unwrap();
    assert!(is_first(&scope, 2));
    let full = Injection {
        place: Place::SmallFile,
        failure: Injected::NoSpace,
        skip: 0,
        times: 2,
    };
    store.inject(full).unwrap();
    assert_eq!(scope.snapshot().unwrap_err().kind(), ErrorKind::Full);
    let stats = scope.stats().unwrap();
    assert_eq!((stats.snapshots, stats.snapshots_failed), (2, 1));
    drop(scope);
    assert_eq!(store.close().unwrap_err().kind(), ErrorKind::Full);

    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(matches!(scope.recovery().unwrap(), Recovery::Short { .. }));
    assert!(!is_first(&scope, 1));
    assert!(is_first(&scope, 2));
}

#[test]
fn the_background_saves_and_cleans() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = Store::open(root.path(), options(&clock).background(true)).unwrap();
    let made_for = window().snapshot_every(ms(1));
    let scope = store.approximate("ids", made_for).unwrap();
    assert!(is_first(&scope, 1));
    until("a snapshot", || scope.stats().unwrap().snapshots >= 2);
    let crashed = copied(root.path());
    let store = open(crashed.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(!is_first(&scope, 1));
}

#[test]
fn distinct_counts_sights_of_the_window_over_slices_and_openings() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window().expected(20_000)).unwrap();
    for slice in 0..4u64 {
        // Half of each slice's were there before: counted once.
        for id in slice * 2_000..slice * 2_000 + 4_000 {
            let _ = scope.insert(id.to_le_bytes()).unwrap();
        }
        clock.advance(ms(SLICE_MS));
    }
    let near = |scope: &ApproximateScope, count: f64| {
        let told = scope.distinct().unwrap();
        let off = (told.estimate as f64 - count).abs() / count;
        assert!(off <= 4.0 * told.standard_error, "{told:?}, not {count}");
    };
    near(&scope, 10_000.0);
    drop(scope);
    store.close().unwrap();
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window().expected(20_000)).unwrap();
    near(&scope, 10_000.0);
    // Of the first two slices nothing counts any more, but their ids that came again do.
    clock.advance(ms(WINDOW_MS - 2 * SLICE_MS));
    near(&scope, 6_000.0);
    let since = scope.distinct().unwrap().since;
    assert!(clock.now() - ms(WINDOW_MS + SLICE_MS) < since && since > UNIX_EPOCH);
    clock.advance(ms(WINDOW_MS));
    assert_eq!(scope.distinct().unwrap().estimate, 0);
}

#[test]
fn a_checkpoint_has_the_approximate_scopes_as_they_are() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = open(root.path(), &clock);
    for name in ["ids", "Other/one"] {
        assert!(is_first(&store.approximate(name, window()).unwrap(), 1));
    }
    store.close().unwrap();
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(is_first(&scope, 2));
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy");
    store.checkpoint(&copy).unwrap();
    assert!(is_first(&scope, 3));
    let store = open(&copy, &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert_eq!(scope.recovery().unwrap(), Recovery::Whole);
    assert_eq!(
        [1, 2, 3].map(|id| is_first(&scope, id)),
        [false, false, true]
    );
    assert!(!is_first(
        &store.approximate("Other/one", window()).unwrap(),
        1
    ));
}

#[test]
fn a_frozen_clock_forgets_nothing_early() {
    let (root, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let store = open(root.path(), &clock);
    let scope = store.approximate("ids", window()).unwrap();
    assert!(is_first(&scope, 1));
    let right = clock.now();
    clock.step_to(right + Duration::from_secs(86_400 * 365));
    assert!(!is_first(&scope, 1));
    clock.step_to(right - Duration::from_secs(3_600));
    clock.advance(ms(WINDOW_MS - 1));
    assert!(!is_first(&scope, 1));
    clock.advance(ms(SLICE_MS + 1));
    assert!(
        is_first(&scope, 1),
        "time goes on while the clock is behind"
    );
}

#[test]
fn handles_and_names_behave() {
    let clock = ManualClock::new();
    let store = Store::in_memory(options(&clock)).unwrap();
    let scope = store.approximate("ids", window()).unwrap();
    assert_eq!(scope.insert("").unwrap(), Sight::BadId(BadId::Empty));
    assert!(is_first(&scope, 1));
    assert!(!is_first(&store.approximate("ids", window()).unwrap(), 1));
    assert!(is_first(&store.approximate("other", window()).unwrap(), 1));
    for wrong in ["", "\0", &"x".repeat(81)] {
        let error = store.approximate(wrong, window()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    let error = store.approximate("ids", window().expected(7)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("7 ids"), "{error}");
    assert!(store.drop_approximate("ids").unwrap());
    assert_eq!(scope.insert("x").unwrap_err().kind(), ErrorKind::Invalid);
    let other = store.approximate("other", window()).unwrap();
    store.close().unwrap();
    assert_eq!(other.insert("x").unwrap_err().kind(), ErrorKind::Closed);
}
