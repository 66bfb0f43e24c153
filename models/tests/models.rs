//! Runs every scenario by two schedulers, and demands that a left-out rule is noticed.
//!
//! A failing schedule is printed; `shuttle::replay` takes it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use models::{batches, rows, write_path};
use shuttle::scheduler::{PctScheduler, RandomScheduler};
use shuttle::{Config, FailurePersistence, Runner};

/// Executions by each scheduler.
const EXECUTIONS: usize = 10_000;
/// A left-out rule must show within so many random executions; the shyest takes some 4,000.
const EXECUTIONS_UNTIL_FOUND: usize = 200_000;
const CHANGE_POINTS: usize = 3;

fn config(on_failure: FailurePersistence) -> Config {
    let mut config = Config::new();
    config.failure_persistence = on_failure;
    config.silence_warnings = true;
    config
}

fn holds_always(executions: usize, scenario: impl Fn() + Send + Sync + Copy + 'static) {
    let random = RandomScheduler::new(executions);
    Runner::new(random, config(FailurePersistence::Print)).run(scenario);
    let pct = PctScheduler::new(CHANGE_POINTS, executions);
    Runner::new(pct, config(FailurePersistence::Print)).run(scenario);
}

/// One of `complaints` comes up: which one first is the scheduler's choice.
fn is_found(complaints: &[&str], scenario: impl Fn() + Send + Sync + 'static) {
    let random = RandomScheduler::new(EXECUTIONS_UNTIL_FOUND);
    let runner = Runner::new(random, config(FailurePersistence::None));
    let failure = catch_unwind(AssertUnwindSafe(|| runner.run(scenario)));
    let payload = failure.expect_err("the left-out rule was not noticed");
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("");
    let expected = complaints.iter().any(|complaint| text.contains(complaint));
    assert!(expected, "another failure than {complaints:?}: {text}");
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
    is_found(&["deadlock"], || batches::opposite_orders(true));
}

#[test]
fn one_first_an_id_through_rotation_sealing_and_expiry() {
    holds_always(EXECUTIONS, || {
        write_path::one_first(write_path::Broken::Nothing)
    });
}

#[test]
fn a_double_is_found_when_a_rule_is_left_out() {
    use write_path::Broken::*;
    for rule in [ViewBeforeHold, TimeBeforeLookup, TwoSwaps] {
        is_found(&["double"], move || write_path::one_first(rule));
    }
    // These leave an id out of the sealed segment, for ever: with or without a second caller.
    for rule in [InsertAfterRelease, SealPastTheGate] {
        is_found(&["double", "lost"], move || write_path::one_first(rule));
    }
}

#[test]
fn duplicates_wait_for_the_durability_of_their_original() {
    holds_always(EXECUTIONS, || {
        write_path::duplicates_wait(write_path::Broken::Nothing)
    });
}

#[test]
fn an_early_acknowledgement_is_found_when_a_rule_is_left_out() {
    use write_path::Broken::*;
    for rule in [ReleaseBeforeSync, MarkBeforeHold] {
        is_found(&["not durable"], move || write_path::duplicates_wait(rule));
    }
}

#[test]
fn closures_lose_no_update() {
    holds_always(EXECUTIONS, || {
        rows::read_modify_write(rows::Broken::Nothing)
    });
}

#[test]
fn a_lost_update_is_found_when_a_rule_is_left_out() {
    for rule in [
        rows::Broken::ReadBeforeLock,
        rows::Broken::ReleaseBeforeWrite,
    ] {
        is_found(&["lost update"], move || rows::read_modify_write(rule));
    }
}
