//! Histories that are broken on purpose: the checker must see each, and pass what is allowed.

use super::super::history::{Answer, Call, History, Wrong, check};
use super::super::history::{Passed, Recorder};
use super::run;

const R: u64 = 100;

/// A call of one id by stamps and times.
fn call(stamps: (u64, u64), times: (u64, u64), answer: Answer) -> Call {
    calls(stamps, times, vec![(7, answer)])
}

fn calls((from, to): (u64, u64), (from_ms, to_ms): (u64, u64), said: Vec<(u64, Answer)>) -> Call {
    let span = super::super::history::Span {
        from,
        to,
        from_ms,
        to_ms,
    };
    Call {
        thread: 0,
        span,
        is_buffered: false,
        counts: false,
        said,
    }
}

fn of(calls: Vec<Call>) -> History {
    History {
        calls,
        ..History::new(Some(R))
    }
}

#[track_caller]
fn passes(history: &History) -> Passed {
    check(history).unwrap()
}

#[track_caller]
fn fails(history: &History, wrong: Wrong) {
    match check(history) {
        Ok(passed) => panic!("it passed: {passed:?}"),
        Err(fault) => assert_eq!(fault.wrong, wrong, "{fault:?}"),
    }
}

#[test]
fn two_firsts_at_once_are_seen() {
    let first = call((0, 2), (10, 10), Answer::First);
    let second = call((1, 3), (10, 10), Answer::First);
    fails(&of(vec![first.clone(), second.clone()]), Wrong::Doubled);
    // In two scopes, or of two ids, they are right.
    let other = calls((1, 3), (10, 10), vec![(8, Answer::First)]);
    assert_eq!(passes(&of(vec![first, other])).firsts, 2);
}

#[test]
fn an_acknowledged_id_that_is_first_again_is_lost() {
    let first = call((0, 1), (10, 10), Answer::First);
    for again in [Answer::First, Answer::Peeked(None), Answer::Forgot(false)] {
        let lost = call((2, 3), (10 + R - 1, 10 + R - 1), again);
        fails(&of(vec![first.clone(), lost]), Wrong::Lost);
        // Its retention is over.
        let expired = call((2, 3), (10 + R, 10 + R), again);
        let _ = passes(&of(vec![first.clone(), expired]));
    }
    // A forget between the two that may have come in time makes it right.
    let forgot = call((2, 5), (20, 20), Answer::Forgot(true));
    let again = call((3, 4), (20, 20), Answer::First);
    let _ = passes(&of(vec![first.clone(), forgot.clone(), again]));
    let again = calls((6, 7), (20, 20), vec![(7, Answer::First)]);
    let third = call((8, 9), (20, 20), Answer::First);
    fails(&of(vec![first, forgot, again, third]), Wrong::Lost);
}

#[test]
fn a_duplicate_from_nowhere_is_seen() {
    let first = call((2, 3), (10, 10), Answer::First);
    let before = call((0, 1), (10, 10), Answer::Duplicate(10));
    fails(&of(vec![before, first.clone()]), Wrong::Unfounded);
    // It overlaps the first sight: it may have waited for it.
    let beside = call((1, 4), (10, 10), Answer::Duplicate(10));
    let _ = passes(&of(vec![beside, first.clone()]));
    // It tells of a first sight that nobody had.
    let other = call((4, 5), (12, 12), Answer::Duplicate(11));
    fails(&of(vec![first, other]), Wrong::Unfounded);
}

#[test]
fn a_duplicate_of_a_span_that_ended_is_seen() {
    let first = call((0, 1), (10, 10), Answer::First);
    let late = call((2, 3), (10 + R, 10 + R), Answer::Duplicate(10));
    fails(&of(vec![first.clone(), late]), Wrong::Stale);
    let just = call((2, 3), (10 + R - 1, 10 + R + 5), Answer::Duplicate(10));
    let _ = passes(&of(vec![first.clone(), just]));
    let forgot = call((2, 3), (20, 20), Answer::Forgot(true));
    for knows in [
        Answer::Duplicate(10),
        Answer::Peeked(Some(10)),
        Answer::Forgot(true),
    ] {
        let late = call((4, 5), (21, 21), knows);
        fails(&of(vec![first.clone(), forgot.clone(), late]), Wrong::Stale);
    }
}

#[test]
fn a_crash_takes_only_what_was_buffered_and_not_synced() {
    let again = call((8, 9), (10, 10), Answer::First);
    let mut history = of(vec![call((0, 1), (10, 10), Answer::First), again]);
    history.crashes.push(7);
    fails(&history, Wrong::Lost);
    history.calls[0].is_buffered = true;
    let _ = passes(&history);
    // Without the crash it is lost, and with a sync before it too.
    let mut whole = history.clone();
    whole.crashes.clear();
    fails(&whole, Wrong::Lost);
    let mut synced = history.clone();
    synced
        .syncs
        .push(call((2, 3), (10, 10), Answer::First).span);
    fails(&synced, Wrong::Lost);
    // A sync that began before it was acknowledged promises nothing; a duplicate that was not
    // buffered does.
    synced.syncs.clear();
    synced.calls[0].span.to = 5;
    synced
        .syncs
        .push(call((2, 6), (10, 10), Answer::First).span);
    let _ = passes(&synced);
    synced
        .calls
        .push(call((3, 4), (10, 10), Answer::Duplicate(10)));
    fails(&synced, Wrong::Lost);
}

#[test]
fn an_unknown_outcome_is_one_or_the_other() {
    for after in [Answer::First, Answer::Duplicate(10)] {
        let unknown = call((0, 1), (10, 10), Answer::Unknown);
        let mut history = of(vec![unknown, call((4, 5), (11, 11), after)]);
        history.crashes.push(3);
        let _ = passes(&history);
        let mut forgot = history.clone();
        forgot.calls[0].said[0].1 = Answer::UnknownForget;
        match after {
            Answer::First => drop(passes(&forgot)),
            _ => fails(&forgot, Wrong::Unfounded),
        }
        // Once it was seen to be there it stays.
        history.calls.push(call((6, 7), (12, 12), Answer::First));
        fails(&history, Wrong::Lost);
    }
}

#[test]
fn a_wrong_sum_is_seen() {
    let read = |value| super::super::history::Read {
        span: call((6, 7), (20, 20), Answer::First).span,
        id: 7,
        value,
    };
    let mut first = call((0, 1), (10, 10), Answer::First);
    first.counts = true;
    let forgot = call((2, 3), (20, 20), Answer::Forgot(true));
    let mut again = call((4, 5), (20, 20), Answer::First);
    again.counts = true;
    let mut history = of(vec![first, forgot, again]);
    for value in 0..4 {
        history.reads = vec![read(value)];
        match value {
            2 => assert_eq!(passes(&history).reads, 1),
            _ => fails(&history, Wrong::Miscounted),
        }
    }
    // While the second is under way both sums are right, but a counter never falls.
    history.calls[2].span.to = 20;
    for (value, later) in [(1, 2), (2, 2), (1, 1)] {
        let mut last = read(later);
        last.span.from = 8;
        last.span.to = 9;
        history.reads = vec![read(value), last];
        let _ = passes(&history);
    }
    let mut last = read(1);
    last.span.from = 8;
    last.span.to = 9;
    history.reads = vec![read(2), last];
    fails(&history, Wrong::Miscounted);
}

/// A real history, one answer of it changed: each change is seen.
#[test]
fn any_changed_answer_of_a_real_history_is_seen() {
    let seed = fastrand::u64(..1 << 48);
    let history = run::quiet(seed);
    let _ = passes(&history);
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kinds = std::collections::HashMap::new();
    for _ in 0..400 {
        let mut broken = history.clone();
        let at = random.usize(..broken.calls.len());
        let which = random.usize(..broken.calls[at].said.len());
        let from_ms = broken.calls[at].span.from_ms;
        let said = &mut broken.calls[at].said[which].1;
        *said = match *said {
            Answer::First => Answer::Duplicate(from_ms),
            Answer::Duplicate(_) if random.bool() => Answer::First,
            Answer::Duplicate(at) => Answer::Duplicate(at + 1 + random.u64(..5)),
            Answer::Peeked(Some(at)) => Answer::Peeked(Some(at + 1)),
            Answer::Peeked(None) => Answer::Peeked(Some(1)),
            other => panic!("a quiet run has no {other:?}"),
        };
        match check(&broken) {
            Ok(_) => panic!("SEED={seed}: a changed answer of call {at} passed"),
            Err(fault) => *kinds.entry(fault.wrong).or_insert(0) += 1,
        }
    }
    assert!(kinds.len() >= 2, "{kinds:?}");
    let recorder = Recorder::new(|| 5, 2);
    let span = {
        let mut log = super::super::history::Log::new(&recorder, 0);
        let started = recorder.start();
        log.called(started, (false, false), vec![(1, Answer::First)]);
        log.into_part().calls[0].span
    };
    assert_eq!((span.from_ms, span.to_ms, span.to), (3, 7, 1));
}
