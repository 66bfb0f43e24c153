//! Rules of the library that an execution leaves out, at the switches of `switches.rs`.
//!
//! Shuttle runs all threads of an execution on one thread of the system, so what is left out is
//! that thread's affair, and tests run side by side.

use std::any::Any;
use std::cell::RefCell;
use std::collections::HashMap;

use shuttle::thread::ThreadId;

use crate::switches::{DOOR, SWITCHES};

type Kept = HashMap<(ThreadId, &'static str), Box<dyn Any>>;

std::thread_local! {
    static LEFT_OUT: RefCell<Option<&'static str>> = const { RefCell::new(None) };
    static TOO_EARLY: RefCell<Kept> = RefCell::default();
}

/// The rules that can be left out.
pub(crate) fn all() -> impl Iterator<Item = &'static str> {
    SWITCHES.iter().map(|s| s.rule).filter(|rule| *rule != DOOR)
}

/// Leaves out a rule, or none, in the execution that begins.
pub(crate) fn leave_out(rule: Option<&'static str>) {
    let is_known = rule.is_none_or(|rule| all().any(|known| known == rule));
    assert!(is_known, "no switch for {rule:?}");
    LEFT_OUT.set(rule);
    TOO_EARLY.take();
}

/// Whether a rule is followed.
pub(crate) fn is_kept(rule: &'static str) -> bool {
    LEFT_OUT.with_borrow(|left_out| *left_out != Some(rule))
}

/// Takes a value now that the rule says to take later.
pub(crate) fn too_early<T: 'static>(rule: &'static str, take: impl FnOnce() -> T) {
    if !is_kept(rule) {
        let value: Box<dyn Any> = Box::new(take());
        let me = shuttle::thread::current().id();
        TOO_EARLY.with_borrow_mut(|all| all.insert((me, rule), value));
    }
}

/// What was taken too early, if the rule is left out; else what `now` gives.
pub(crate) fn in_time<T: 'static>(rule: &'static str, now: impl FnOnce() -> T) -> T {
    if is_kept(rule) {
        return now();
    }
    let me = shuttle::thread::current().id();
    let early = TOO_EARLY.with_borrow_mut(|all| all.remove(&(me, rule)));
    match early.and_then(|value| value.downcast().ok()) {
        Some(value) => *value,
        None => now(),
    }
}
