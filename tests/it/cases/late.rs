//! Ids that carry their own time: remembered from it on, and late when they are older than the
//! window, whatever has become of their records.

mod placed;

use std::time::{SystemTime, UNIX_EPOCH};

use firstseen::{Action, BadId, Error, Id, IdTime, OnLate, Policy, RecordState, Scope, Verdict};

use super::{Bring, expect_invalid, ms, secs, timed};

/// Milliseconds since 1970, with the epoch of the tests' snowflakes.
const EPOCH_MS: u64 = 1_288_834_974_657;
const SNOWFLAKE: IdTime = IdTime::Snowflake {
    epoch_ms: EPOCH_MS,
    low_bits: 22,
};

fn since_1970(at: SystemTime) -> u64 {
    at.duration_since(UNIX_EPOCH).unwrap().as_millis() as u64
}

/// The n-th id of a time, in a form.
fn id_of(form: IdTime, at_ms: u64, n: u8) -> Vec<u8> {
    let mut bytes = [n; 16];
    bytes[..6].copy_from_slice(&at_ms.to_be_bytes()[2..]);
    match form {
        IdTime::Snowflake { .. } => {
            let number = (at_ms - EPOCH_MS) << 22 | u64::from(n);
            match n % 2 {
                0 => number.to_be_bytes().to_vec(),
                _ => number.to_string().into_bytes(),
            }
        }
        IdTime::UuidV7 => {
            bytes[6] = 0x70;
            bytes[8] = 0x80;
            match n % 2 {
                0 => bytes.to_vec(),
                _ => {
                    let hex: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
                    let parts = [
                        &hex[..8],
                        &hex[8..12],
                        &hex[12..16],
                        &hex[16..20],
                        &hex[20..],
                    ];
                    parts.join("-").into_bytes()
                }
            }
        }
        _ => bytes.to_vec(),
    }
}

const FORMS: [IdTime; 3] = [SNOWFLAKE, IdTime::UuidV7, IdTime::Ulid];

const PLACES: [Bring; 4] = [
    |store| store,
    |store| {
        store.seal().unwrap();
        store
    },
    |store| {
        store.seal().unwrap();
        store.compact().unwrap();
        store
    },
    |store| store.crash_and_reopen().unwrap(),
];

fn policy(form: IdTime) -> Policy {
    Policy::remember(secs(60)).id_time(form).ahead_max(secs(5))
}

/// R6: old event times were neither checked nor recorded. An id is a duplicate up to the last
/// millisecond of its window, and late from the next on, wherever its record is or was.
#[test]
fn an_id_is_late_at_the_millisecond_its_window_ends() {
    for form in FORMS {
        for bring in PLACES {
            let (store, clock) = timed();
            let own = since_1970(clock.now()) - 20_000;
            let (seen, unseen) = (id_of(form, own, 1), id_of(form, own, 2));
            let scope = store.scope("s", policy(form)).unwrap();
            assert!(scope.insert(&seen).unwrap().is_first());
            let store = bring(store);
            let scope = store.scope("s", policy(form)).unwrap();
            clock.advance(ms(39_999));
            let verdict = scope.insert(&seen).unwrap();
            let Verdict::Duplicate(sight) = &verdict else {
                panic!("{form:?}: {verdict:?}");
            };
            let first_ms = since_1970(sight.first_seen_at());
            assert_eq!(first_ms, own + 20_000, "when it came, not its own time");
            clock.advance(ms(1));
            for id in [&seen, &unseen] {
                let verdict = scope.insert(id).unwrap();
                let Verdict::Late(sight) = &verdict else {
                    panic!("{form:?}: {verdict:?}");
                };
                assert_eq!(since_1970(sight.first_seen_at()), own, "its own time");
                assert_eq!(verdict.action(), Action::DeadLetter, "nothing is lost");
            }
            assert_eq!(scope.peek(&seen).unwrap(), None);
            // Also when all that was known of it is gone.
            clock.advance(secs(3_600));
            store.compact().unwrap();
            assert!(matches!(scope.insert(&seen).unwrap(), Verdict::Late(_)));
            assert_eq!(store.stats().unwrap().verdicts.late, 3);
        }
    }
}

#[test]
fn an_id_that_first_comes_late_in_its_window_is_first_once() {
    let (store, clock) = timed();
    let own = since_1970(clock.now()) - 59_999;
    let id = id_of(IdTime::Ulid, own, 0);
    let scope = store.scope("s", policy(IdTime::Ulid)).unwrap();
    assert!(scope.insert(&id).unwrap().is_first());
    assert!(scope.insert(&id).unwrap().is_duplicate());
    let told = scope.explain(&id).unwrap().record.unwrap();
    assert_eq!(told.state, RecordState::Remembered);
    assert_eq!(told.expires_at, Some(clock.now() + ms(1)));
    clock.advance(ms(1));
    assert!(matches!(scope.insert(&id).unwrap(), Verdict::Late(_)));
}

#[test]
fn what_becomes_of_late_ids_is_the_policys() {
    let (store, clock) = timed();
    let rows = store.table("rows").unwrap();
    let id = id_of(SNOWFLAKE, since_1970(clock.now()) - 60_000, 1);
    let with = |rule| store.scope("s", policy(SNOWFLAKE).on_late(rule)).unwrap();
    let run = |scope: &Scope, key: &str| {
        let mut batch = store.batch();
        batch.once(scope, &id).put(&rows, key, "x");
        let verdict = batch.commit().unwrap()[0].clone();
        (verdict, rows.get(key).unwrap().is_some())
    };
    let (verdict, is_written) = run(&with(OnLate::Refuse), "refuse");
    assert!(matches!(verdict, Verdict::Late(_)) && !is_written);
    assert_eq!(verdict.action(), Action::DeadLetter);
    let (verdict, is_written) = run(&with(OnLate::Drop), "drop");
    assert!(matches!(verdict, Verdict::Late(_)) && !is_written);
    assert_eq!(verdict.action(), Action::Ack);
    // Each time: there is no telling, and nothing is recorded.
    let scope = with(OnLate::Process);
    for key in ["once", "again"] {
        let (verdict, is_written) = run(&scope, key);
        assert!(verdict.is_first() && is_written);
        assert_eq!(scope.peek(&id).unwrap(), None);
    }
    let closure = scope.once(&id, |tx| {
        tx.put(&rows, "closure", "x");
        Ok::<_, Error>(7)
    });
    assert_eq!(closure.unwrap(), Verdict::First(7));
    assert!(rows.get("closure").unwrap().is_some());
    // Within one commit it is known.
    let verdicts = scope.insert_all([&id, &id]).unwrap();
    assert!(verdicts[0].is_first() && verdicts[1].is_duplicate());
    let stats = store.stats().unwrap();
    assert_eq!((stats.unkeyed, stats.verdicts.late), (4, 2));
    assert_eq!(stats.ids_recorded, 0);
    assert_eq!(scope.scan(..).unwrap().count(), 0);
}

#[test]
fn ids_without_a_time_or_too_far_ahead_are_bad_and_never_recorded() {
    let (store, clock) = timed();
    for form in FORMS {
        let now = since_1970(clock.now());
        let scope = store.scope(&format!("{form:?}"), policy(form)).unwrap();
        let verdict = scope.insert("order 17 of 20").unwrap();
        assert_eq!(verdict, Verdict::BadId(BadId::NoTime));
        assert_eq!(verdict.action(), Action::DeadLetter);
        assert_eq!(
            scope.insert(None::<&str>).unwrap(),
            Verdict::BadId(BadId::Missing)
        );
        let ahead = id_of(form, now + 5_001, 1);
        let verdict = scope.insert(&ahead).unwrap();
        assert_eq!(verdict, Verdict::BadId(BadId::TooFarAhead { secs: 6 }));
        assert!(
            scope
                .insert(&id_of(form, now + 5_000, 1))
                .unwrap()
                .is_first()
        );
        clock.advance(ms(1));
        assert!(
            scope.insert(&ahead).unwrap().is_first(),
            "its time has come"
        );
        assert_eq!(scope.scan(..).unwrap().count(), 2);
        clock.advance(ms(59_999));
        // Ahead of the store's clock or not, the window counts from its own time.
        assert!(scope.insert(&ahead).unwrap().is_duplicate());
        clock.advance(ms(5_001));
        assert!(matches!(scope.insert(&ahead).unwrap(), Verdict::Late(_)));
    }
}

#[test]
fn given_times_are_no_part_of_the_id() {
    for bring in PLACES {
        let (store, clock) = timed();
        let policy = || policy(IdTime::Given);
        let scope = store.scope("s", policy()).unwrap();
        let now = clock.now();
        assert_eq!(
            scope.insert("a").unwrap(),
            Verdict::BadId(BadId::NoTime),
            "its message says none"
        );
        let at = |back: u64| Id::new("a").event_time(now - secs(back));
        assert!(scope.insert(at(10)).unwrap().is_first());
        let store = bring(store);
        let scope = store.scope("s", policy()).unwrap();
        // A producer that tells another time doubles nothing, and what is known is not late.
        for back in [10, 0, 30, 100] {
            assert!(scope.insert(at(back)).unwrap().is_duplicate(), "{back}");
        }
        assert!(scope.peek("a").unwrap().is_some());
        assert!(scope.forget("a", "a test").unwrap(), "without its time");
        assert!(matches!(scope.insert(at(100)).unwrap(), Verdict::Late(_)));
        assert!(scope.insert(at(59)).unwrap().is_first());
        clock.advance(secs(1));
        assert!(matches!(scope.insert(at(59)).unwrap(), Verdict::Late(_)));
    }
}

#[test]
fn a_time_where_none_is_asked_for_is_misuse() {
    let (store, clock) = timed();
    let plain = store.scope("plain", Policy::remember(secs(60))).unwrap();
    let ulids = store.scope("ulids", policy(IdTime::Ulid)).unwrap();
    let id = id_of(IdTime::Ulid, since_1970(clock.now()), 1);
    let timed_id = Id::new(&id).event_time(clock.now());
    expect_invalid(plain.insert(timed_id), "event time");
    expect_invalid(ulids.insert(timed_id), "event time");
    expect_invalid(ulids.insert(Id::new(&id).remember(secs(1))), "retention");
    assert!(ulids.insert(&id).unwrap().is_first());
    let sliding = Policy::sliding(secs(1), secs(9)).id_time(IdTime::Ulid);
    expect_invalid(store.scope("x", sliding), "fixed retention");
    let forever = Policy::forever().id_time(IdTime::Ulid);
    expect_invalid(store.scope("x", forever), "fixed retention");
    let wide = policy(IdTime::Snowflake {
        epoch_ms: 0,
        low_bits: 63,
    });
    expect_invalid(store.scope("x", wide), "low_bits");
}

#[test]
fn how_ids_carry_their_time_is_the_scopes_for_life() {
    let (store, clock) = timed();
    let scope = store.scope("s", policy(SNOWFLAKE)).unwrap();
    let id = id_of(SNOWFLAKE, since_1970(clock.now()), 1);
    assert!(scope.insert(&id).unwrap().is_first());
    let _ = store.scope("plain", Policy::remember(secs(60))).unwrap();
    let store = store.crash_and_reopen().unwrap();
    for other in [
        Policy::remember(secs(60)),
        policy(IdTime::UuidV7),
        policy(SNOWFLAKE).ahead_max(secs(6)),
        policy(IdTime::Snowflake {
            epoch_ms: EPOCH_MS + 1,
            low_bits: 22,
        }),
    ] {
        expect_invalid(store.scope("s", other.clone()), "own times");
        expect_invalid(store.alter_scope("s", other), "own times");
    }
    let longer = Policy::remember(secs(61))
        .id_time(SNOWFLAKE)
        .ahead_max(secs(5));
    expect_invalid(store.alter_scope("s", longer), "can't change");
    expect_invalid(store.scope("plain", policy(SNOWFLAKE)), "own times");
    expect_invalid(store.alter_scope("plain", policy(SNOWFLAKE)), "own times");
    let scope = store.alter_scope("s", policy(SNOWFLAKE)).unwrap();
    assert!(scope.insert(&id).unwrap().is_duplicate());
    // A tool that looks at the store sees its ids as they are.
    let found = store.existing_scope("s").unwrap().unwrap();
    assert!(found.insert(&id).unwrap().is_duplicate());
    assert_eq!(
        found.insert("x").unwrap(),
        Verdict::BadId(BadId::NoTime),
        "and their form"
    );
}

#[test]
fn claims_keep_the_time_that_their_message_brought() {
    for bring in PLACES {
        let (store, clock) = timed();
        let policy = || {
            policy(IdTime::Given)
                .lease(secs(3_600))
                .on_late(OnLate::Process)
        };
        let scope = store.scope("s", policy()).unwrap();
        let at = clock.now() - secs(10);
        let take = |scope: &Scope, name: &str| {
            let verdict = scope.claim(Id::new(name).event_time(at)).unwrap();
            let mut claim = verdict.first().expect("it is free");
            claim.start();
            claim
        };
        let (early, late) = (take(&scope, "early"), take(&scope, "late"));
        let tokens = [early.token(), late.token()];
        drop((early, late));
        let store = bring(store);
        let scope = store.scope("s", policy()).unwrap();
        scope
            .reclaim(&tokens[0])
            .unwrap()
            .complete("r", |_| {})
            .unwrap();
        let again = |name: &str| scope.insert(Id::new(name).event_time(at)).unwrap();
        assert!(again("early").is_duplicate());
        clock.advance(ms(49_999));
        assert!(again("early").is_duplicate());
        clock.advance(ms(1));
        assert!(
            again("early").is_first(),
            "late, and processed all the same"
        );
        // Its claim keeps it from others, late or not; then it leaves no record.
        assert!(matches!(again("late"), Verdict::InProgress(_)));
        scope
            .reclaim(&tokens[1])
            .unwrap()
            .complete("r", |_| {})
            .unwrap();
        assert!(scope.claims().unwrap().is_empty());
        assert!(again("late").is_first());
        assert_eq!(scope.peek("late").unwrap(), None);
    }
}

#[test]
fn late_ids_are_not_claimed_unless_they_are_processed() {
    let (store, clock) = timed();
    let id = id_of(IdTime::UuidV7, since_1970(clock.now()) - 60_000, 0);
    let refusing = store.scope("s", policy(IdTime::UuidV7)).unwrap();
    assert!(matches!(refusing.claim(&id).unwrap(), Verdict::Late(_)));
    assert!(refusing.claims().unwrap().is_empty());
    let rule = policy(IdTime::UuidV7).on_late(OnLate::Process);
    let processing = store.scope("s", rule).unwrap();
    let mut claim = processing.claim(&id).unwrap().first().unwrap();
    assert!(matches!(
        processing.claim(&id).unwrap(),
        Verdict::InProgress(_)
    ));
    claim.complete("r", |_| {}).unwrap();
    assert!(matches!(refusing.claim(&id).unwrap(), Verdict::Late(_)));
}

#[test]
fn imports_count_from_the_ids_own_times() {
    let (store, clock) = timed();
    let now = since_1970(clock.now());
    let scope = store.scope("s", policy(IdTime::Ulid)).unwrap();
    let id = |back: u64, n| id_of(IdTime::Ulid, now - back, n);
    let ids = [id(1_000, 1), id(60_000, 2), b"none".to_vec()];
    let seen = ids.iter().map(|id| (id, clock.now() - secs(1)));
    let imported = scope.import(seen, "a test").unwrap();
    let counts = (imported.recorded, imported.expired, imported.bad);
    assert_eq!(counts, (1, 1, 1), "{imported:?}");
    let sight = scope.peek(&ids[0]).unwrap().unwrap();
    assert_eq!(sight.first_seen_at(), clock.now() - secs(1));
    let ahead = id_of(IdTime::Ulid, now + 5_001, 1);
    let imported = scope.import([(&ahead, clock.now())], "a test").unwrap();
    assert_eq!(imported.bad, 1);
    clock.advance(ms(58_999));
    assert!(scope.insert(&ids[0]).unwrap().is_duplicate());
    clock.advance(ms(1));
    assert!(matches!(scope.insert(&ids[0]).unwrap(), Verdict::Late(_)));
}
