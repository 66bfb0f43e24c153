//! Runs every scenario by two schedulers, and demands that a left-out rule is noticed.
//!
//! A failing schedule is printed; `shuttle::replay` takes it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use models::{batches, commits, rows, verdicts};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Executions by each scheduler.
const EXECUTIONS: usize = 5_000;
/// A left-out rule must show within so many executions; the shyest takes some hundreds.
const EXECUTIONS_UNTIL_FOUND: usize = 100_000;
const CHANGE_POINTS: usize = 3;

fn config(on_failure: FailurePersistence) -> Config {
    let mut config = Config::new();
    config.failure_persistence = on_failure;
    config.silence_warnings = true;
    config.stack_size = 1 << 18;
    config
}

fn holds_always(executions: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let random = RandomScheduler::new(executions);
    Runner::new(random, config(FailurePersistence::Print)).run(scenario);
    let pct = PctScheduler::new(CHANGE_POINTS, executions);
    Runner::new(pct, config(FailurePersistence::Print)).run(scenario);
}

/// One of `complaints` comes up: which one first is the scheduler's choice. Both schedulers try in
/// turn: what takes two threads in step is the one's, what takes a thread that stands still for
/// long is the other's.
fn is_found(what: &str, complaints: &[&str], scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    let scenario = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    let mut failure = None;
    while failure.is_none() && executions.load(Ordering::Relaxed) < EXECUTIONS_UNTIL_FOUND {
        failure = [true, false].into_iter().find_map(|pct| {
            let scenario = Arc::clone(&scenario);
            let run = AssertUnwindSafe(|| run_some(pct, move || scenario()));
            catch_unwind(run).err()
        });
    }
    let payload = failure.expect("the left-out rule was not noticed");
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("");
    let expected = complaints.iter().any(|complaint| text.contains(complaint));
    assert!(expected, "another failure than {complaints:?}: {text}");
    let executions = executions.load(Ordering::Relaxed);
    println!("{what}: found after {executions} executions");
}

fn run_some(pct: bool, scenario: impl Fn() + Send + Sync + 'static) {
    const SOME: usize = 1_000;
    let config = config(FailurePersistence::None);
    if pct {
        Runner::new(PctScheduler::new(CHANGE_POINTS, SOME), config).run(scenario);
    } else {
        Runner::new(RandomScheduler::new(SOME), config).run(scenario);
    }
}

#[test]
fn overlapping_batches_exclude_each_other_and_end() {
    holds_always(EXECUTIONS, || batches::overlapping(batches::Mode::Wait));
}

#[test]
fn overlapping_large_batches_exclude_each_other_and_end() {
    holds_always(EXECUTIONS / 8, || {
        batches::overlapping(batches::Mode::WaitLarge)
    });
}

#[test]
fn a_wait_that_times_out_leaves_nothing_behind() {
    holds_always(EXECUTIONS, || {
        batches::overlapping(batches::Mode::MayTimeOut)
    });
}

#[test]
fn poison_tells_every_waiter() {
    holds_always(EXECUTIONS, batches::poisoned);
}

#[test]
fn sorted_waits_end_and_unsorted_ones_deadlock() {
    holds_always(EXECUTIONS, || batches::opposite_orders(false));
    is_found("sorted", &["deadlock"], || batches::opposite_orders(true));
}

#[test]
fn one_first_an_id_through_rotation_sealing_and_expiry() {
    holds_always(EXECUTIONS, || verdicts::one_first(None));
}

#[test]
fn one_sight_an_id_of_an_approximate_scope() {
    holds_always(EXECUTIONS, || verdicts::one_sight(None));
}

#[test]
fn duplicates_wait_for_the_durability_of_their_original() {
    holds_always(EXECUTIONS, || verdicts::duplicates_wait(None));
}

#[test]
fn no_look_misses_an_id() {
    holds_always(EXECUTIONS, || verdicts::never_missed(None));
}

#[test]
fn a_filter_that_comes_late_hides_nothing() {
    holds_always(EXECUTIONS, || verdicts::filters_come_late(None));
}

#[test]
fn effective_time_is_never_ahead_and_never_goes_back() {
    holds_always(EXECUTIONS, || verdicts::effective_time(None));
}

#[test]
fn commits_of_a_group_are_all_answered() {
    holds_always(EXECUTIONS, || commits::grouped(None));
}

#[test]
fn what_is_marked_as_written_is_found() {
    holds_always(EXECUTIONS, || commits::marked(None));
}

#[test]
fn a_synced_commit_is_durable_when_it_returns() {
    holds_always(EXECUTIONS, || commits::synced(None));
}

#[test]
fn a_write_of_unknown_outcome_ends_every_wait() {
    holds_always(EXECUTIONS, || commits::poisoned(None));
}

#[test]
fn buffered_commits_are_seen_by_who_made_them() {
    holds_always(EXECUTIONS, || commits::buffered(None));
}

#[test]
fn a_power_failure_takes_nothing_acknowledged_and_tears_nothing() {
    holds_always(EXECUTIONS, || commits::power_failure(None));
}

#[test]
fn a_full_disk_keeps_what_was_acknowledged_and_nothing_that_was_refused() {
    holds_always(EXECUTIONS, || commits::full_disk(None));
}

#[test]
fn who_waits_for_room_gets_it() {
    holds_always(EXECUTIONS, || commits::room(None));
}

#[test]
fn closures_lose_no_update() {
    holds_always(EXECUTIONS, || rows::read_modify_write(None));
}

#[test]
fn counters_are_never_oversold() {
    holds_always(EXECUTIONS, || rows::counters(None));
}

#[test]
fn a_prepared_batch_is_first_once_and_ends_once() {
    holds_always(EXECUTIONS / 2, || rows::prepared(None));
}

/// A scenario by the rule it leaves out.
type Scenario = fn(Option<&'static str>);

/// Each rule, the scenario that sees that it is left out, and what that one says. Which of several
/// complaints comes first is the scheduler's choice.
const NEEDED: [(&str, Scenario, &[&str]); 32] = [
    ("one stripe an id", verdicts::one_sight, &["double"]),
    ("view after the hold", verdicts::one_first, &["double"]),
    ("time after the lookups", verdicts::one_first, &["double"]),
    ("held until seen", verdicts::one_first, &["double"]),
    // A leader may also find the log of its segment sealed and dropped.
    (
        "gate",
        verdicts::one_first,
        &["double", "lost", "no family"],
    ),
    ("one swap", verdicts::one_first, &["double"]),
    (
        "swaps one at a time",
        commits::room,
        &["lost", "deadlock", "max_steps", "sealing"],
    ),
    (
        "swapped before removed",
        verdicts::never_missed,
        &["missed"],
    ),
    (
        "merged while views read",
        verdicts::never_missed,
        &["missed"],
    ),
    ("into the sieve", verdicts::never_missed, &["missed"]),
    (
        "sieves before all",
        verdicts::filters_come_late,
        &["missed", "double"],
    ),
    (
        "filter when whole",
        verdicts::filters_come_late,
        &["missed", "double"],
    ),
    (
        "wall before monotonic",
        verdicts::effective_time,
        &["ahead"],
    ),
    (
        "mark after the hold",
        verdicts::duplicates_wait,
        &["not durable"],
    ),
    (
        "held until durable",
        verdicts::duplicates_wait,
        &["not durable"],
    ),
    ("marked after the set", commits::marked, &["missed"]),
    ("one leader", commits::grouped, &["number"]),
    ("lead is handed on", commits::grouped, &["deadlock"]),
    ("poison wakes", commits::poisoned, &["deadlock"]),
    (
        "empty after the write",
        commits::buffered,
        &["row not there"],
    ),
    ("buffered goes first", commits::buffered, &["row not there"]),
    ("mark before the sync", commits::synced, &["not durable"]),
    (
        "synced before the ingest",
        commits::power_failure,
        &["torn", "lost", "RecoveredShort"],
    ),
    (
        "notified under the lock",
        commits::room,
        &["deadlock", "max_steps"],
    ),
    (
        "refused leaves nothing",
        commits::full_disk,
        &["refused but there"],
    ),
    ("refused stays buffered", commits::full_disk, &["lost"]),
    ("rows locked", rows::counters, &["lost update"]),
    (
        "prepared stays held",
        rows::prepared,
        &["double", "lost update"],
    ),
    (
        "nobody waits for what stands",
        rows::prepared,
        &["deadlock"],
    ),
    (
        "one end",
        rows::prepared,
        &["ended twice", "is gone", "double"],
    ),
    (
        "read under the lock",
        rows::read_modify_write,
        &["lost update"],
    ),
    (
        "locked until written",
        rows::read_modify_write,
        &["lost update"],
    ),
];

fn finds(scenarios: &[Scenario]) {
    let is_one_of = |of: Scenario| scenarios.iter().any(|s| std::ptr::fn_addr_eq(*s, of));
    for (rule, scenario, complaints) in NEEDED.iter().filter(|needed| is_one_of(needed.1)) {
        is_found(rule, complaints, move || scenario(Some(rule)));
    }
}

#[test]
fn every_rule_that_can_be_left_out_is_needed() {
    for rule in models::rules() {
        assert!(
            NEEDED.iter().any(|needed| needed.0 == rule),
            "no test leaves out {rule:?}"
        );
    }
}

#[test]
fn a_double_is_found_when_a_rule_is_left_out() {
    finds(&[verdicts::one_first, verdicts::one_sight]);
}

#[test]
fn a_missed_id_is_found_when_a_rule_is_left_out() {
    finds(&[
        verdicts::never_missed,
        verdicts::filters_come_late,
        verdicts::effective_time,
    ]);
}

#[test]
fn an_early_acknowledgement_is_found_when_a_rule_is_left_out() {
    finds(&[
        verdicts::duplicates_wait,
        commits::marked,
        commits::synced,
        commits::power_failure,
    ]);
}

#[test]
fn a_wrong_refusal_is_found_when_a_rule_is_left_out() {
    finds(&[commits::full_disk]);
}

#[test]
fn a_lost_wake_up_is_found_when_a_rule_is_left_out() {
    finds(&[commits::grouped, commits::poisoned, commits::room]);
}

#[test]
fn a_row_that_is_late_is_found_when_a_rule_is_left_out() {
    finds(&[commits::buffered]);
}

#[test]
fn a_lost_update_is_found_when_a_rule_is_left_out() {
    finds(&[rows::counters, rows::read_modify_write]);
}

#[test]
fn a_second_end_is_found_when_a_rule_is_left_out() {
    finds(&[rows::prepared]);
}
