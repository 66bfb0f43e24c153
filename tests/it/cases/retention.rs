//! How long an id is remembered: exactly as long as its policy says, read at any moment.

use std::time::Duration;

use firstseen::{Clock, Id, ManualClock, Policy, Scope, Store, days};

use super::{expect_invalid, ms, quiet, secs, timed};

/// Where an id's record may be when it is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Memory,
    Sealed,
    Merged,
    Reopened,
}

const PLACES: [Place; 4] = [Place::Memory, Place::Sealed, Place::Merged, Place::Reopened];

/// Brings every record to a place.
fn bring(store: Store, place: Place) -> Store {
    match place {
        Place::Memory => {}
        Place::Sealed => store.seal().unwrap(),
        Place::Merged => store.compact().unwrap(),
        Place::Reopened => return store.crash_and_reopen().unwrap(),
    }
    store
}

/// R1: expired rows were still returned until compaction.
#[test]
fn an_id_is_new_again_at_the_millisecond_of_its_expiry() {
    for place in PLACES {
        let (store, clock) = timed();
        let policy = Policy::remember(ms(12_345));
        assert!(
            store
                .scope("s", policy.clone())
                .unwrap()
                .insert("a")
                .unwrap()
                .is_first()
        );
        let store = bring(store, place);
        let ids = store.scope("s", policy).unwrap();
        clock.advance(ms(12_344));
        assert!(ids.insert("a").unwrap().is_duplicate(), "{place:?}");
        assert!(ids.peek("a").unwrap().is_some());
        assert_eq!(ids.scan(..).unwrap().count(), 1);
        clock.advance(ms(1));
        assert_eq!(ids.peek("a").unwrap(), None, "{place:?}");
        assert_eq!(ids.scan(..).unwrap().count(), 0);
        assert!(ids.insert("a").unwrap().is_first(), "{place:?}");
        assert!(ids.insert("a").unwrap().is_duplicate(), "{place:?}");
    }
}

/// The verdicts of one id that comes at the given seconds: `1` is first seen, `d` a duplicate.
fn verdicts(policy: &Policy, at_secs: &[u64], place: Place) -> String {
    let (mut store, clock) = timed();
    let mut now = 0;
    let mut answers = String::new();
    for at in at_secs {
        clock.advance(secs(at - now));
        now = *at;
        let ids = store.scope("s", policy.clone()).unwrap();
        answers.push(if ids.insert("a").unwrap().is_first() {
            '1'
        } else {
            'd'
        });
        drop(ids);
        store = bring(store, place);
    }
    answers
}

/// R3: repeats every minute passed every second time with a two-minute window. A fixed window
/// does just that; the sliding one is what was wanted. The table is in docs/operations.md.
#[test]
fn fixed_and_sliding_windows_match_the_table_of_timings() {
    let fixed = Policy::remember(secs(120));
    let sliding = Policy::sliding(secs(120), secs(300));
    for (policy, at_secs, expected) in [
        // Every minute.
        (&fixed, &[0, 60, 120, 180, 240, 300][..], "1d1d1d"),
        (&sliding, &[0, 60, 120, 180, 240, 300, 360], "1dddd1d"),
        // Just below and at the window.
        (&fixed, &[0, 119, 120, 239, 240], "1d1d1"),
        (&sliding, &[0, 119, 238, 299, 300, 419, 420], "1ddd1dd"),
        (&sliding, &[0, 120, 240], "111"),
        // A burst, then silence.
        (&fixed, &[0, 1, 2, 100, 121], "1ddd1"),
        (&sliding, &[0, 1, 2, 100, 121, 241], "1dddd1"),
    ] {
        for place in PLACES {
            let answers = verdicts(policy, at_secs, place);
            assert_eq!(answers, expected, "{policy:?} at {at_secs:?}, {place:?}");
        }
    }
}

/// Repeats within one batch count once, also in a sliding scope.
#[test]
fn a_sliding_scope_prolongs_an_id_once_a_batch() {
    let (store, clock) = timed();
    let ids = store
        .scope("s", Policy::sliding(secs(10), secs(60)))
        .unwrap();
    assert!(ids.insert("a").unwrap().is_first());
    clock.advance(secs(9));
    let verdicts = ids.insert_all(["a", "a", "b", "a"].iter()).unwrap();
    let firsts: Vec<bool> = verdicts.iter().map(|v| v.is_first()).collect();
    assert_eq!(firsts, [false, false, true, false]);
    clock.advance(secs(9));
    assert!(ids.insert("a").unwrap().is_duplicate());
    assert!(
        ids.once("a", |_| Ok::<_, firstseen::Error>(()))
            .unwrap()
            .is_duplicate()
    );
    clock.advance(secs(10));
    assert!(ids.insert("a").unwrap().is_first());
}

/// An id may have a retention of its own, shorter or longer than its scope's.
#[test]
fn an_id_of_its_own_retention_keeps_it_wherever_it_is() {
    for place in PLACES {
        let (store, clock) = timed();
        let policy = Policy::remember(secs(60));
        {
            let ids = store.scope("s", policy.clone()).unwrap();
            let own = |id: &'static str, time| ids.insert(Id::new(id).remember(time)).unwrap();
            assert!(own("short", ms(1500)).is_first());
            assert!(own("long", days(30)).is_first());
            assert!(ids.insert("plain").unwrap().is_first());
        }
        let seen_at = clock.now();
        let store = bring(store, place);
        let ids = store.scope("s", policy).unwrap();
        let known = |ids: &Scope| ["short", "plain", "long"].map(|id| ids.peek(id).unwrap());
        let times: Vec<_> = known(&ids)
            .into_iter()
            .flatten()
            .map(|s| s.first_seen_at())
            .collect();
        assert_eq!(times, [seen_at; 3]);
        for (advance, expected) in [
            (ms(1499), [true, true, true]),
            (ms(1), [false, true, true]),
            (secs(60) - ms(1500), [false, false, true]),
            (days(30) - secs(60) - ms(1), [false, false, true]),
            (ms(1), [false, false, false]),
        ] {
            clock.advance(advance);
            assert_eq!(known(&ids).map(|s| s.is_some()), expected, "{place:?}");
        }
    }
}

#[test]
fn an_id_of_no_or_endless_retention_is_refused() {
    let (store, _) = timed();
    let ids = store.scope("s", Policy::remember(secs(60))).unwrap();
    expect_invalid(ids.insert(Id::new("a").remember(Duration::ZERO)), "1 ms");
    expect_invalid(
        ids.insert(Id::new("a").remember(Duration::MAX)),
        "200 years",
    );
    let forever = store.scope("f", Policy::forever()).unwrap();
    expect_invalid(forever.insert(Id::new("a").remember(secs(1))), "for ever");
    assert_eq!(ids.peek("a").unwrap(), None);
}

/// A scope for ever remembers beyond any slice.
#[test]
fn for_ever_means_for_ever() {
    let (mut store, clock) = timed();
    assert!(
        store
            .scope("f", Policy::forever())
            .unwrap()
            .insert("a")
            .unwrap()
            .is_first()
    );
    for place in PLACES {
        store = bring(store, place);
        for _ in 0..30 {
            clock.advance(days(20));
            let ids = store.scope("f", Policy::forever()).unwrap();
            assert!(ids.insert("a").unwrap().is_duplicate(), "{place:?}");
        }
    }
    let ids = store.scope("f", Policy::forever()).unwrap();
    assert!(ids.forget("a", "asked to").unwrap());
    assert!(ids.insert("a").unwrap().is_first());
}

/// R8: the retention was shorter than the dead-letter redrive.
#[test]
fn a_retention_below_the_stated_horizon_is_refused() {
    let (store, _) = timed();
    let with = |retention, horizon| {
        let policy = Policy::remember(retention).redelivery_horizon(horizon);
        store.scope("s", policy)
    };
    expect_invalid(with(days(3), days(3) + ms(1)), "redelivery horizon");
    assert!(store.scopes().unwrap().is_empty());
    with(days(3), days(3)).unwrap();
    let sliding = Policy::sliding(secs(5), days(9)).redelivery_horizon(secs(6));
    expect_invalid(store.scope("t", sliding), "redelivery horizon");
    store
        .scope("f", Policy::forever().redelivery_horizon(days(999)))
        .unwrap();
    let altered = Policy::remember(days(1)).redelivery_horizon(days(2));
    expect_invalid(store.alter_scope("s", altered), "redelivery horizon");
}

/// What a shorter retention expires, a longer one in the same store does not touch.
#[test]
fn scopes_of_different_retentions_share_a_store() {
    let clock = ManualClock::new();
    let options = quiet().clock(Clock::Manual(clock.clone()));
    let store = Store::in_memory(options).unwrap();
    let kinds = [secs(1), secs(90), secs(7200), days(7)];
    let scopes: Vec<Scope> = (0..)
        .zip(kinds)
        .map(|(n, time)| {
            store
                .scope(&format!("s{n}"), Policy::remember(time))
                .unwrap()
        })
        .collect();
    for scope in &scopes {
        assert!(scope.insert("a").unwrap().is_first());
    }
    let mut passed = Duration::ZERO;
    for time in kinds {
        clock.advance(time - passed);
        passed = time;
        store.compact().unwrap();
        for (scope, kept) in scopes.iter().zip(kinds) {
            let known = scope.peek("a").unwrap().is_some();
            assert_eq!(known, kept > passed, "{} after {passed:?}", scope.name());
        }
    }
    assert!(store.stats().unwrap().background.drops > 0);
}
