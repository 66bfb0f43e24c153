//! Runs every scenario through all orders that loom finds, and demands that a weakened ordering
//! is noticed. One test, as what is weakened is weakened for all.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use orderings::{Weakened, scenarios, weaken};

/// Preemptions of each execution; the violations below take one or two.
const PREEMPTIONS: usize = 3;

fn check(scenario: fn()) {
    let executions = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&executions);
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(PREEMPTIONS);
    builder.max_branches = 10_000;
    builder.check(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        scenario();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

fn is_found(what: Weakened, scenario: fn()) {
    weaken(what);
    let failure = catch_unwind(AssertUnwindSafe(|| check(scenario)));
    weaken(Weakened::Nothing);
    let payload = failure.expect_err("the weakened ordering was not noticed");
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied());
    let text = text.unwrap_or_default();
    let is_broken = ["torn", "missed", "went back"]
        .iter()
        .any(|c| text.contains(c));
    assert!(is_broken, "another failure: {text}");
}

#[test]
fn readers_see_whole_records_by_release_and_acquire() {
    for scenario in [
        scenarios::superseded,
        scenarios::added,
        scenarios::handed_over,
    ] {
        check(scenario);
    }
    for what in [Weakened::Release, Weakened::Acquire] {
        is_found(what, scenarios::superseded);
    }
}
