//! The places of ids that carry their own time: each is looked for in its one generation, and
//! found there whatever the store did meanwhile.

use std::collections::BTreeMap;
use std::time::Duration;

use firstseen::{BadId, Clock, IdTime, ManualClock, Policy, Store, Verdict};

use super::super::{quiet, secs};
use super::{FORMS, id_of, policy, since_1970};

/// What is known of random ids: when they are late, and whether they were recorded.
struct Known {
    form: IdTime,
    start_ms: u64,
    recorded: BTreeMap<Vec<u8>, u64>,
}

impl Known {
    fn said(&mut self, now_ms: u64, (at_ms, n): (u64, u8)) -> (Vec<u8>, &'static str) {
        let id = id_of(self.form, at_ms, n);
        let late_ms = at_ms + 60_000;
        let said = if self.recorded.get(&id).is_some_and(|ms| now_ms < *ms) {
            "duplicate"
        } else if at_ms > now_ms + 5_000 {
            "ahead"
        } else if late_ms <= now_ms {
            "late"
        } else {
            self.recorded.insert(id.clone(), late_ms);
            "first"
        };
        (id, said)
    }

    /// Few times, so that ids come again.
    fn any(&self, rng: &mut fastrand::Rng, now_ms: u64) -> (u64, u8) {
        let back = rng.u64(..80) * 1_000;
        let at_ms = (now_ms + 7_000).saturating_sub(back) / 1_000 * 1_000;
        (at_ms.max(self.start_ms - 70_000), rng.u8(..3))
    }
}

fn said(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::First(()) => "first",
        Verdict::Duplicate(_) => "duplicate",
        Verdict::Late(_) => "late",
        Verdict::BadId(BadId::TooFarAhead { .. }) => "ahead",
        other => panic!("{other:?}"),
    }
}

/// Ids of many times, sealed, merged, dropped, forgotten and recovered, are what a map says; and
/// each is looked for in one generation only.
#[test]
fn random_ids_with_their_own_time_are_found_in_their_one_generation() {
    let seed = fastrand::u64(..);
    let mut rng = fastrand::Rng::with_seed(seed);
    for form in FORMS {
        // An ordinary scope's ids are in the same class, and in the same batches.
        let (clock, plain) = (ManualClock::new(), Policy::remember(secs(64)));
        let options = quiet()
            .clock(Clock::Manual(clock.clone()))
            .segment_ids_max(64);
        let mut store = Store::in_memory(options).unwrap();
        let mut known = Known {
            form,
            start_ms: since_1970(clock.now()),
            recorded: BTreeMap::new(),
        };
        let (mut counts, mut dropped) = (BTreeMap::new(), 0);
        for step in 0..600_u32 {
            let now_ms = since_1970(clock.now());
            let scope = store.scope("s", policy(form)).unwrap();
            let others = store.scope("plain", plain.clone()).unwrap();
            match rng.u8(..20) {
                0 => store.seal().unwrap(),
                1 => store.compact().unwrap(),
                2 => {
                    dropped += store.stats().unwrap().background.drops;
                    store = store.crash_and_reopen().unwrap();
                }
                3..6 => clock.advance(Duration::from_millis(rng.u64(..4_000))),
                6 => {
                    let (id, is_known) = {
                        let (at_ms, n) = known.any(&mut rng, now_ms);
                        let id = id_of(form, at_ms, n);
                        let ms = known.recorded.remove(&id);
                        (id, ms.is_some_and(|ms| now_ms < ms))
                    };
                    assert_eq!(
                        scope.forget(&id, "a test").unwrap(),
                        is_known,
                        "SEED={seed}"
                    );
                }
                _ => {
                    let mut batch = store.batch();
                    let mut expected = Vec::new();
                    let mix = rng.bool();
                    for i in 0..rng.u32(1..12) {
                        let (id, told) = known.said(now_ms, known.any(&mut rng, now_ms));
                        let _ = batch.once(&scope, &id);
                        expected.push(told);
                        *counts.entry(told).or_insert(0) += 1;
                        if mix {
                            let _ = batch.once(&others, &format!("{step} {i}"));
                            expected.push("first");
                        }
                    }
                    let verdicts = batch.commit().unwrap();
                    let answers: Vec<&str> = verdicts.iter().map(said).collect();
                    assert_eq!(answers, expected, "SEED={seed}, {form:?}, step {step}");
                }
            }
        }
        let live = known.recorded.values();
        let now_ms = since_1970(clock.now());
        let live = live.filter(|ms| now_ms < **ms).count();
        let scope = store.scope("s", policy(form)).unwrap();
        assert_eq!(scope.scan(..).unwrap().count(), live, "SEED={seed}");
        dropped += store.stats().unwrap().background.drops;
        assert!(
            dropped > 0 && counts.values().all(|n| *n > 20),
            "{counts:?}"
        );
        assert_eq!(counts.len(), 4, "{counts:?}");
    }
}

/// Without filters each id would be asked for in a page of every generation.
#[test]
fn an_id_is_asked_for_in_one_generation() {
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .filter_bits_per_id(0);
    let store = Store::in_memory(options).unwrap();
    let scope = store.scope("s", policy(IdTime::Ulid)).unwrap();
    let start = since_1970(clock.now());
    for back in 0..59 {
        let ids: Vec<Vec<u8>> = (0..9)
            .map(|n| id_of(IdTime::Ulid, start - back * 1_000, n))
            .collect();
        assert!(
            scope
                .insert_all(&ids)
                .unwrap()
                .iter()
                .all(Verdict::is_first)
        );
    }
    store.seal().unwrap();
    let before = store.stats().unwrap();
    assert!(before.generations.len() >= 7, "{:?}", before.generations);
    let new: Vec<Vec<u8>> = (0..59)
        .map(|back| id_of(IdTime::Ulid, start - back * 1_000, 200))
        .collect();
    assert!(
        scope
            .insert_all(&new)
            .unwrap()
            .iter()
            .all(Verdict::is_first)
    );
    let asked = store.stats().unwrap().filters.unfiltered - before.filters.unfiltered;
    assert_eq!(asked, 59, "one page an id");
}
