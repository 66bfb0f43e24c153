//! The playbook, tried: for each alert of docs/alerts.yml the fault is brought about, its rule
//! fires over two real scrapes, the commands of its section in docs/operations.md are run as they
//! stand there, what it says is done, and the rule falls silent.
//!
//! | file | what |
//! | --- | --- |
//! | `rules` (support) | the rules, evaluated over exported text |
//! | `disks` | faults of the disk and of background work |
//! | `traffic` | what messages and their producers do wrong |
//! | `claims` | work that is stuck or was given up |
//! | `ends` | what waits for somebody else: transactions in doubt, outboxes |
//! | `switches` | scopes that let through what others stop |
//! | `limits` | memory, filters, time |
//!
//! A flush of RocksDB that fails takes a disk of its own: that drill is in `tests/limits`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod claims;
mod disks;
mod ends;
mod limits;
#[path = "../../support/rules.rs"]
mod rules;
mod switches;
mod traffic;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firstseen::{Clock, ManualClock, Options, Policy, Scope, Store, days, prometheus};

use super::cli::program::{Ran, run_args};
use rules::{Scrapes, rules};

const ALERTS: &str = include_str!("../../../docs/alerts.yml");
const PLAYBOOK: &str = include_str!("../../../docs/operations.md");

const HOUR: Duration = Duration::from_secs(3600);

/// Which drill tries which alert.
const DRILLS: [(&str, &str); 26] = [
    (
        "FirstseenDegraded",
        "disks::a_failed_write_stops_the_store_until_it_is_opened_again",
    ),
    (
        "FirstseenRecoveredShort",
        "disks::a_store_that_came_back_short_says_from_where_to_replay",
    ),
    (
        "FirstseenFullDisk",
        "disks::a_full_disk_refuses_writes_until_there_is_room",
    ),
    (
        "FirstseenWritesStopped",
        "disks::rows_beyond_what_compactions_take_stop_writes",
    ),
    (
        "FirstseenStalls",
        "disks::sealing_that_fails_makes_calls_wait",
    ),
    (
        "FirstseenSealingBehind",
        "disks::sealing_that_fails_makes_calls_wait",
    ),
    (
        "FirstseenBackgroundFailures",
        "disks::sealing_that_fails_makes_calls_wait",
    ),
    (
        "FirstseenRocksErrors",
        "full::a_flush_that_finds_no_room_passes_without_a_restart",
    ),
    (
        "FirstseenDuplicateShare",
        "traffic::a_producer_that_repeats_is_found",
    ),
    ("FirstseenSurge", "traffic::a_surge_is_found"),
    (
        "FirstseenSlowCommits",
        "limits::ids_that_are_held_too_long_make_commits_slow",
    ),
    (
        "FirstseenBadIds",
        "traffic::messages_without_an_id_are_told",
    ),
    (
        "FirstseenLate",
        "traffic::a_retention_below_the_time_under_way_is_told",
    ),
    (
        "FirstseenPayloadMismatch",
        "traffic::one_key_for_two_messages_is_told",
    ),
    (
        "FirstseenOldClaims",
        "claims::a_claim_that_nobody_ends_is_forgotten_by_hand",
    ),
    (
        "FirstseenUnknownOutcomes",
        "claims::an_unknown_outcome_is_decided",
    ),
    (
        "FirstseenDeadLetters",
        "claims::dead_letters_are_redriven_and_purged",
    ),
    (
        "FirstseenInDoubt",
        "ends::transactions_in_doubt_are_ended_as_their_coordinator_did",
    ),
    (
        "FirstseenOutboxStalled",
        "ends::an_outbox_that_nobody_drains_is_told",
    ),
    (
        "FirstseenFailedOpen",
        "switches::effects_made_while_the_store_failed_are_recorded",
    ),
    (
        "FirstseenObserveOnly",
        "switches::a_scope_that_only_observes_is_told",
    ),
    (
        "FirstseenFiltersMissing",
        "limits::too_little_memory_for_filters_is_told",
    ),
    (
        "FirstseenFalsePositives",
        "limits::filters_that_are_too_small_are_told",
    ),
    (
        "FirstseenClockFrozen",
        "limits::a_clock_that_jumps_ahead_is_accepted",
    ),
    (
        "FirstseenClockBehind",
        "limits::a_clock_that_was_set_back_is_corrected",
    ),
    (
        "FirstseenUnsynced",
        "limits::a_floor_that_is_not_renewed_is_told",
    ),
];

/// A store in a directory, and the scrape before.
struct Drill {
    root: tempfile::TempDir,
    before: String,
    at: Instant,
    ids: Vec<String>,
}

impl Drill {
    fn new() -> Drill {
        Drill {
            root: tempfile::tempdir().unwrap(),
            before: String::new(),
            at: now(),
            ids: Vec::new(),
        }
    }

    fn dir(&self) -> PathBuf {
        self.root.path().join("store")
    }

    /// What the other side has.
    fn file(&self) -> PathBuf {
        self.root.path().join("effects.csv")
    }

    fn open(&self, options: Options) -> Store {
        Store::open(self.dir(), options).unwrap()
    }

    /// Takes the scrape that the next ones are compared with.
    fn scrape(&mut self, store: &Store) {
        self.before = text(store);
        self.at = now();
    }

    /// Whether a rule fires, over the time since the last scrape.
    fn fires(&self, alert: &str, store: &Store) -> bool {
        let rules = rules(ALERTS);
        let rule = rules.iter().find(|rule| rule.name == alert).expect(alert);
        let scrapes = Scrapes::new(&self.before, &text(store), self.at.elapsed().as_secs_f64());
        !scrapes.firing(&rule.expr).is_empty()
    }

    /// Runs the n-th block of commands of an alert's section; all must end well.
    fn run(&self, alert: &str, block: usize) -> Vec<Ran> {
        let section = section(alert);
        let block = section.split("```sh\n").nth(block + 1);
        let block = block.unwrap_or_else(|| panic!("{alert} has too few blocks"));
        let commands = block.split("```").next().unwrap().lines();
        let commands: Vec<Ran> = commands.map(|line| self.command(line)).collect();
        assert!(!commands.is_empty(), "{alert}");
        commands
    }

    #[track_caller]
    fn command(&self, line: &str) -> Ran {
        let (line, comment) = line.split_once(" # ").unwrap_or((line, ""));
        let ends = match comment.contains("5 if they differ") {
            true => [0, 5],
            false => [0, 0],
        };
        let mut words = words(line);
        assert_eq!(words.remove(0), "firstseen", "{line}");
        let store = self.dir().display().to_string();
        for word in &mut words {
            let id = |n: usize| self.ids.get(n).cloned().unwrap_or_default();
            *word = match word.as_str() {
                "DIR" => store.clone(),
                "SCOPE" => "ids".to_string(),
                "ID" | "TXN" => id(0),
                "ID2" | "TXN2" => id(1),
                "FILE" => self.file().display().to_string(),
                _ => continue,
            };
        }
        let ran = run_args(Path::new("."), &words);
        let is_well = ran.code.is_some_and(|code| ends.contains(&code));
        assert!(is_well, "{line}: {:?}, {}", ran.code, ran.stderr);
        ran
    }
}

#[expect(clippy::disallowed_methods, reason = "rates are over real time")]
fn now() -> Instant {
    Instant::now()
}

/// Words of a command, split at spaces outside of double quotes.
fn words(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(n, part)| match n % 2 {
        0 => part.split_whitespace().map(str::to_string).collect(),
        _ => vec![part.to_string()],
    });
    words.collect()
}

fn text(store: &Store) -> String {
    prometheus(&[("a", &store.stats().unwrap())])
}

fn said(ran: &[Ran]) -> String {
    let said = ran.iter().map(|r| String::from_utf8_lossy(&r.stdout));
    said.collect::<Vec<_>>().concat()
}

fn week(store: &Store) -> Scope {
    store.scope("ids", Policy::remember(days(7))).unwrap()
}

/// A clock that is two hours behind the system's, which the program goes by.
#[expect(
    clippy::disallowed_methods,
    reason = "the program reads the system's clock"
)]
fn two_hours_ago() -> ManualClock {
    let clock = ManualClock::new();
    clock.step_to(std::time::SystemTime::now() - 2 * HOUR);
    clock
}

fn under(clock: &ManualClock) -> Options {
    let clock = Clock::Manual(clock.clone());
    Options::new().background(false).clock(clock)
}

/// An alert's section.
fn section(alert: &str) -> &'static str {
    let (_, rest) = PLAYBOOK
        .split_once(&format!("#### {alert}\n"))
        .unwrap_or_else(|| panic!("docs/operations.md has no section {alert}"));
    let end = rest.find("\n#### ").or(rest.find("\n## "));
    &rest[..end.unwrap_or(rest.len())]
}

/// Every rule has a section and a drill, and there are no others; every drill is there.
#[test]
fn every_alert_has_its_section_and_its_drill() {
    let named: BTreeSet<String> = rules(ALERTS).into_iter().map(|rule| rule.name).collect();
    let sections = PLAYBOOK
        .lines()
        .filter_map(|l| l.strip_prefix("#### Firstseen"));
    let sections: BTreeSet<String> = sections.map(|name| format!("Firstseen{name}")).collect();
    assert_eq!(named, sections);
    let drills: BTreeSet<String> = DRILLS.iter().map(|d| d.0.to_string()).collect();
    assert_eq!(named, drills);
    let sources = [
        ("disks", include_str!("disks.rs")),
        ("traffic", include_str!("traffic.rs")),
        ("claims", include_str!("claims.rs")),
        ("ends", include_str!("ends.rs")),
        ("switches", include_str!("switches.rs")),
        ("limits", include_str!("limits.rs")),
        ("full", include_str!("../../limits/full.rs")),
    ];
    for (alert, drill) in DRILLS {
        let (file, test) = drill.split_once("::").unwrap();
        let source = sources.iter().find(|s| s.0 == file).unwrap().1;
        let body = source
            .split_once(&format!("#[test]\nfn {test}() {{"))
            .expect(drill)
            .1;
        let body = &body[..body.find("\n}\n").unwrap()];
        assert!(
            body.contains(&format!("\"{alert}\"")),
            "{drill} does not try {alert}"
        );
        assert!(
            section(alert).contains("```sh\nfirstseen "),
            "{alert} has nothing to look at"
        );
    }
}

#[test]
fn commands_are_split_as_a_shell_does() {
    let split = words("firstseen decide --why \"the bank said so\" ID");
    assert_eq!(
        split,
        ["firstseen", "decide", "--why", "the bank said so", "ID"]
    );
}
