//! Wall clocks that step by an hour and by ten years, both ways, while the store runs and while
//! it is closed; and one store under a really wrong system clock.

use std::path::Path;
use std::time::Duration;

use firstseen::{Clock, ClockState, Health, ManualClock, Options, Policy, Store, days};

use super::{child, skipped, small};

const HOUR: Duration = Duration::from_secs(3600);
const TEN_YEARS: Duration = days(3652);

fn open(dir: &Path, clock: &ManualClock) -> Store {
    let options = small()
        .background(false)
        .clock(Clock::Manual(clock.clone()));
    Store::open(dir, options).unwrap()
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    Ahead(Duration),
    Back(Duration),
}

const STEPS: [Step; 4] = [
    Step::Ahead(HOUR),
    Step::Back(HOUR),
    Step::Ahead(TEN_YEARS),
    Step::Back(TEN_YEARS),
];

fn turn(clock: &ManualClock, step: Step) {
    clock.step_to(match step {
        Step::Ahead(by) => clock.now() + by,
        Step::Back(by) => clock.now() - by,
    });
}

/// What each step must do: an id of a week stays known; one of half an hour goes only by time
/// that passed or was believed; nothing that had expired comes back.
fn check(step: Step, is_closed: bool) {
    let what = format!("{step:?}, closed: {is_closed}");
    let dir = tempfile::tempdir().unwrap();
    let clock = ManualClock::new();
    let store = open(dir.path(), &clock);
    let scopes = |store: &Store| {
        let short = Policy::remember(HOUR / 2);
        (super::week(store), store.scope("short", short).unwrap())
    };
    let (week, short) = scopes(&store);
    assert!(short.insert("expired").unwrap().is_first());
    clock.advance(HOUR / 2);
    assert!(short.insert("expired").unwrap().is_first(), "{what}");
    assert!(week.insert("a").unwrap().is_first() && short.insert("a").unwrap().is_first());
    store.seal().unwrap();
    assert!(week.insert("b").unwrap().is_first() && short.insert("b").unwrap().is_first());
    drop((week, short));
    let store = if is_closed {
        store.close().unwrap();
        turn(&clock, step);
        open(dir.path(), &clock)
    } else {
        turn(&clock, step);
        store
    };
    let (week, short) = scopes(&store);
    let believed = step == Step::Ahead(HOUR);
    for id in ["a", "b"] {
        assert!(week.insert(id).unwrap().is_duplicate(), "{what}: {id}");
        assert_eq!(
            short.insert(id).unwrap().is_first(),
            believed,
            "{what}: {id}"
        );
    }
    let state = store.stats().unwrap().clock;
    match step {
        Step::Ahead(HOUR) => assert_eq!(state, ClockState::Following, "{what}"),
        Step::Ahead(_) => assert!(matches!(state, ClockState::Frozen { .. }), "{what}"),
        Step::Back(_) => assert!(matches!(state, ClockState::Behind { .. }), "{what}"),
    }
    assert_eq!(
        matches!(store.health(), Health::Degraded(_)),
        step == Step::Ahead(TEN_YEARS),
        "{what}"
    );
    // Time that really passes counts, whatever the wall clock shows.
    store.compact().unwrap();
    assert!(week.insert("a").unwrap().is_duplicate(), "{what}");
    clock.advance(HOUR / 2);
    assert!(short.insert("a").unwrap().is_first(), "{what}");
    assert!(week.insert("a").unwrap().is_duplicate(), "{what}");
    clock.advance(days(7));
    assert!(week.insert("a").unwrap().is_first(), "{what}");
    // Right again, it is followed without a jump.
    if let Step::Back(by) = step {
        clock.step_to(clock.now() + by);
        assert_eq!(
            store.stats().unwrap().clock,
            ClockState::Following,
            "{what}"
        );
        assert!(week.insert("a").unwrap().is_duplicate(), "{what}");
    }
}

#[test]
fn clocks_that_step_while_the_store_runs_forget_nothing_early_and_revive_nothing() {
    STEPS.into_iter().for_each(|step| check(step, false));
}

#[test]
fn clocks_that_step_while_the_store_is_closed_forget_nothing_early_and_revive_nothing() {
    STEPS.into_iter().for_each(|step| check(step, true));
}

/// The child's job under a wrong system clock. Words: the directory, what to expect.
pub(crate) fn work(words: &[&str]) {
    let store = Store::open(Path::new(words[0]), Options::new()).unwrap();
    let short = Policy::remember(Duration::from_secs(1200));
    let (week, short) = (super::week(&store), store.scope("short", short).unwrap());
    let state = store.stats().unwrap().clock;
    let verdicts = (
        week.insert("a").unwrap().is_first(),
        short.insert("a").unwrap().is_first(),
    );
    println!("@{state:?} {verdicts:?}");
    store.close().unwrap();
}

/// libfaketime's library, where systems keep it.
fn faketime() -> Option<String> {
    let places = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
        "/usr/lib/faketime/libfaketimeMT.so.1",
        "/usr/lib64/faketime/libfaketimeMT.so.1",
        "/usr/local/lib/faketime/libfaketimeMT.so.1",
    ];
    let found = places.iter().find(|p| Path::new(p).exists());
    found.map(|p| (*p).to_string())
}

#[test]
fn under_a_wrong_system_clock_a_store_forgets_nothing_early() {
    let Some(library) = faketime() else {
        skipped("a wrong system clock", "libfaketime is not installed");
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let job = ["clock", dir.path().to_str().unwrap()];
    for (offset, state, verdicts) in [
        ("+0", "Following", "(true, true)"),
        ("-1h", "Behind", "(false, false)"),
        ("-10y", "Behind", "(false, false)"),
        ("+10y", "Frozen", "(false, false)"),
        ("+1h", "Following", "(false, true)"),
        ("+0", "Behind", "(false, false)"),
    ] {
        // Only wall time is wrong: monotonic time can't step.
        let fake = [
            ("LD_PRELOAD", library.as_str()),
            ("FAKETIME", offset),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
            ("DONT_FAKE_MONOTONIC", "1"),
        ];
        let said = child::expect_done(&child::run_with("", &job, &fake));
        let told = said.split_once('@').unwrap().1;
        assert!(
            told.starts_with(state) && told.contains(verdicts),
            "{offset}: {told}"
        );
    }
}
