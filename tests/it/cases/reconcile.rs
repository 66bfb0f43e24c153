//! Reconciling: the ids against the business side, and the repair of what differs.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::{Duration, SystemTime};

use firstseen::{
    AuditEvent, Clock, Counts, Effect, Error, Finding, FindingClass, Id, ManualClock, Options,
    Policy, Reconcile, Reconciliation, Repair, Result, Scope, Store, Why, days,
};

use super::{expect_invalid, memory, quiet, secs, timed, week};

fn at_once() -> Reconcile {
    Reconcile::new().grace(Duration::ZERO)
}

fn compare(scope: &Scope, how: &Reconcile, effects: &[Effect]) -> Reconciliation {
    let effects = effects.iter().cloned().map(Ok::<_, Error>);
    scope.reconcile(how, effects).unwrap()
}

/// All findings, sorted, and the counts.
fn findings(scope: &Scope, how: &Reconcile, effects: &[Effect]) -> (Vec<Finding>, Counts) {
    let mut found = compare(scope, how, effects);
    let mut all: Vec<Finding> = (&mut found).map(Result::unwrap).collect();
    all.sort_by(|a, b| a.id.cmp(&b.id));
    (all, found.counts())
}

/// L3: ids known, effects missing after a bad rollout. Exactly those are opened again, and the
/// store tells who did it and why.
#[test]
fn ids_whose_effect_is_missing_are_found_and_opened_again() {
    let (store, clock) = timed();
    let ids = week(&store);
    let rows = store.table("orders").unwrap();
    for i in 0..300 {
        let id = format!("order-{i}");
        let mut batch = store.batch();
        let mut item = batch.once(&ids, &id);
        // The rollout: of every third order the row was never written.
        if i % 3 != 0 {
            item.put(&rows, &id, "row");
        }
        let _ = batch.commit().unwrap();
    }
    store.seal().unwrap();
    clock.advance(secs(600));
    let effects = || {
        let rows = rows.range("").unwrap();
        rows.map(|row| row.map(|(key, _)| Effect::new(key)))
    };
    let plan = ids.reconcile(&Reconcile::new(), effects()).unwrap();
    let plan = plan.plan(5).unwrap();
    assert_eq!(
        (plan.counts().effect_missing, plan.counts().agreed),
        (100, 200)
    );
    assert_eq!(plan.sample().len(), 5);
    assert!(ids.insert("order-0").unwrap().is_duplicate(), "a dry run");

    let why = Why::new("rollout 7").by("alice");
    let repaired = plan.apply(&Repair::all(why)).unwrap();
    assert_eq!((repaired.forgotten, repaired.changed), (100, 0));
    for i in 0..300 {
        let known = ids.peek(&format!("order-{i}")).unwrap().is_some();
        assert_eq!(known, i % 3 != 0, "order {i}");
    }
    let again = ids.reconcile(&Reconcile::new(), effects()).unwrap();
    assert_eq!(again.plan(1).unwrap().counts().effect_missing, 0);
    let entries: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    assert_eq!(entries.len(), 100);
    for entry in entries {
        assert!(matches!(entry.event, AuditEvent::Forgotten { .. }));
        assert_eq!(
            (&entry.why[..], entry.who.as_deref()),
            ("rollout 7", Some("alice"))
        );
    }
    // Applied once more nothing is left to do.
    let _ = ids.insert("order-3").unwrap();
    let repaired = plan.apply(&Repair::all("twice")).unwrap();
    assert_eq!((repaired.forgotten, repaired.changed), (0, 100));
    assert!(ids.insert("order-3").unwrap().is_duplicate(), "seen anew");
}

#[test]
fn effects_whose_id_is_unknown_are_recorded_with_their_own_time() {
    let (store, clock) = timed();
    let ids = week(&store);
    clock.advance(secs(3 * 86_400));
    let two_days_ago = clock.now() - secs(2 * 86_400);
    let effects = [
        Effect::new("lost").at(two_days_ago),
        Effect::new("timeless"),
    ];
    let (found, counts) = findings(&ids, &at_once(), &effects);
    assert_eq!(counts.id_unknown, 2);
    assert_eq!(found[0].effect_at, Some(two_days_ago));
    let plan = compare(&ids, &at_once(), &effects).plan(0).unwrap();
    let repaired = plan.apply(&Repair::forget("not these")).unwrap();
    assert_eq!(repaired, firstseen::Repaired::default());
    let repaired = plan.apply(&Repair::record("they are there")).unwrap();
    assert_eq!(repaired.recorded, 2);
    let seen = ids.peek("lost").unwrap().unwrap();
    assert_eq!(seen.first_seen_at(), two_days_ago);
    assert_eq!(findings(&ids, &at_once(), &effects).0, []);
    let entry = store.audit().unwrap().next().unwrap().unwrap();
    assert!(
        matches!(&entry.event, AuditEvent::Recorded { scope, .. } if scope == "ids"),
        "{entry:?}"
    );
    // Remembered from its own time: five days more, not seven.
    clock.advance(secs(5 * 86_400 - 1));
    assert!(ids.insert("lost").unwrap().is_duplicate());
    clock.advance(secs(1));
    assert!(ids.insert("lost").unwrap().is_first());
    assert!(ids.insert("timeless").unwrap().is_duplicate());
    // An effect older than the retention says nothing; a repair of it would be in vain.
    let (found, counts) = findings(&ids, &at_once(), &[Effect::new("old").at(two_days_ago)]);
    assert!(found.iter().all(|f| f.class == FindingClass::EffectMissing));
    assert_eq!((counts.expired, counts.id_unknown), (1, 0));
}

#[test]
fn what_is_near_an_edge_or_outside_is_no_fault() {
    let (store, clock) = timed();
    let ids = week(&store);
    clock.advance(secs(3600));
    let noon = clock.now();
    let hour = noon..noon + secs(3600);
    let insert_at = |id: &str, after: u64| {
        clock.advance((noon + secs(after)).duration_since(clock.now()).unwrap());
        let _ = ids.insert(id).unwrap();
    };
    for (id, after) in [
        ("early edge", 59),
        ("inside", 60),
        ("inside, late", 3539),
        ("late edge", 3540),
        ("outside", 3600),
    ] {
        insert_at(id, after);
    }
    clock.advance(secs(7200));
    let how = Reconcile::new().between(hour);
    let (found, counts) = findings(&ids, &how, &[]);
    let names: Vec<_> = found.iter().map(|f| &f.id[..]).collect();
    assert_eq!(names, [&b"inside"[..], b"inside, late"]);
    assert_eq!((counts.near_edge, counts.outside), (2, 1));
    // The other side likewise. The late edge's id has an effect beyond the range: both agree.
    let effects = [
        Effect::new("a").at(noon - secs(1)),
        Effect::new("b").at(noon + secs(1)),
        Effect::new("c").at(noon + secs(60)),
        Effect::new("d").at(noon + secs(3600)),
        Effect::new("late edge").at(noon + secs(3605)),
    ];
    let (found, counts) = findings(&ids, &how, &effects);
    let unknown = found.iter().filter(|f| f.class == FindingClass::IdUnknown);
    assert_eq!(unknown.map(|f| &f.id[..]).collect::<Vec<_>>(), [b"c"]);
    assert_eq!((counts.near_edge, counts.outside, counts.agreed), (2, 3, 1));
    // The present is an edge: what was just recorded may be on its way.
    let _ = ids.insert("just now").unwrap();
    let (_, counts) = findings(
        &ids,
        &Reconcile::new().between(clock.now() - secs(30)..),
        &[],
    );
    assert_eq!(
        (counts.effect_missing, counts.near_edge),
        (0, 0),
        "{counts:?}"
    );
    clock.advance(secs(30));
    let (_, counts) = findings(
        &ids,
        &Reconcile::new().between(clock.now() - secs(300)..),
        &[],
    );
    assert_eq!(
        (counts.effect_missing, counts.near_edge),
        (0, 1),
        "{counts:?}"
    );
}

#[test]
fn refused_ids_need_no_effect_and_repeated_effects_are_told() {
    let (store, clock) = timed();
    let ids = week(&store);
    let (stock, refused) = (
        store.guarded_table("stock").unwrap(),
        store.table("refused").unwrap(),
    );
    let mut batch = store.batch();
    batch
        .once(&ids, "too many")
        .add(&stock, "sku", -1, 0..)
        .if_refused(|w| {
            w.put(&refused, "too many", "");
        });
    batch.once(&ids, "twice");
    let _ = batch.commit().unwrap();
    clock.advance(secs(1));
    let twice = [Effect::new("twice"), Effect::new("twice")];
    let (found, counts) = findings(&ids, &at_once(), &twice);
    assert_eq!((found, counts.refused, counts.agreed), (vec![], 1, 1));
    assert_eq!(counts.effect_repeated, 1);
    let (found, counts) = findings(&ids, &at_once().one_effect(), &twice);
    assert_eq!(
        (found[0].class, found[0].effects),
        (FindingClass::EffectRepeated, 2)
    );
    assert_eq!(counts.agreed, 0);
    // An unknown id is found once, however often its effect is there.
    let both = [Effect::new("x"), Effect::new("x"), Effect::new("x")];
    let (found, counts) = findings(&ids, &at_once(), &both);
    let unknown: Vec<_> = found
        .iter()
        .filter(|f| f.class == FindingClass::IdUnknown)
        .collect();
    assert_eq!(
        (unknown.len(), unknown[0].effects, counts.id_unknown),
        (1, 3, 1)
    );
}

#[test]
fn errors_of_the_business_side_end_it_and_misuse_is_refused() {
    let store = memory();
    let ids = week(&store);
    #[derive(Debug)]
    enum Broken {
        Line,
        Store,
    }
    impl From<Error> for Broken {
        fn from(_: Error) -> Broken {
            Broken::Store
        }
    }
    let effects = [Ok(Effect::new("a")), Err(Broken::Line)];
    let ended = ids.reconcile(&at_once(), effects).err();
    assert!(matches!(ended, Some(Broken::Line)), "{ended:?}");
    let ended = ids
        .reconcile(&at_once(), [Ok::<_, Broken>(Effect::new(""))])
        .err();
    assert!(matches!(ended, Some(Broken::Store)), "{ended:?}");
    let long = Effect::new(vec![b'x'; 16_385]);
    let ended = ids.reconcile(&at_once(), [Ok::<_, Error>(long)]);
    expect_invalid(ended.map(drop), "effect 1 has an id of 16385 bytes");
    let plan = compare(&ids, &at_once(), &[Effect::new("a")])
        .plan(0)
        .unwrap();
    expect_invalid(plan.apply(&Repair::all("")), "reason");
    let who = "x".repeat(256);
    expect_invalid(plan.apply(&Repair::all(Why::new("w").by(&who))), "actor");
    assert!(store.drop_scope("ids").unwrap());
    expect_invalid(plan.apply(&Repair::all("gone")), "dropped");
    let none: [std::result::Result<Effect, Infallible>; 0] = [];
    let none = none.into_iter().map(|e| e.map_err(|never| match never {}));
    expect_invalid(ids.reconcile(&at_once(), none).map(drop), "dropped");
}

/// Payloads are compared where both sides have them.
#[test]
fn another_payload_is_a_fault() {
    let (store, clock) = timed();
    let ids = store
        .scope("paid", Policy::remember(days(7)).payloads())
        .unwrap();
    for (id, body) in [("same", "5"), ("other", "5"), ("mixed", "5")] {
        let _ = ids.insert(Id::new(id).payload(body)).unwrap();
    }
    let _ = ids.insert("without").unwrap();
    store.seal().unwrap();
    clock.advance(secs(1));
    let effects = [
        Effect::new("same").payload("5"),
        Effect::new("other").payload("6"),
        Effect::new("mixed").payload("5"),
        Effect::new("mixed").payload("6"),
        Effect::new("without").payload("7"),
    ];
    let (found, counts) = findings(&ids, &at_once(), &effects);
    let names: Vec<_> = found.iter().map(|f| (&f.id[..], f.class)).collect();
    let differs = FindingClass::PayloadDiffers;
    assert_eq!(names, [(&b"mixed"[..], differs), (b"other", differs)]);
    assert_eq!(
        (counts.payload_differs, counts.agreed, counts.faults),
        (2, 2, 2)
    );
}

/// A claim is neither known nor unknown, a dead letter needs no effect, and a repair leaves
/// claims alone.
#[test]
fn claims_and_dead_letters_are_no_faults() {
    let (store, clock) = timed();
    let ids = store
        .scope("jobs", Policy::remember(days(7)).lease(secs(60)))
        .unwrap();
    let claim = ids.claim("claimed").unwrap().first().unwrap();
    let mut batch = store.batch();
    batch.once(&ids, "dead").dead_letter("poison", b"body");
    let _ = batch.commit().unwrap();
    clock.advance(secs(1));
    let effects = [Effect::new("claimed"), Effect::new("later")];
    let (found, counts) = findings(&ids, &at_once(), &effects);
    assert_eq!(
        (counts.in_progress, counts.refused, counts.id_unknown),
        (1, 1, 1)
    );
    assert_eq!(found.len(), 1);
    // What is claimed after the comparison is left too.
    let plan = compare(&ids, &at_once(), &effects).plan(0).unwrap();
    let later = ids.claim("later").unwrap().first().unwrap();
    let repaired = plan.apply(&Repair::all("a test")).unwrap();
    assert_eq!((repaired.recorded, repaired.in_progress), (0, 1));
    assert!(!claim.is_lost() && !later.is_lost());
    // A forget takes the claim away, as it ever did.
    assert!(ids.forget("later", "a test").unwrap());
    assert!(ids.claim("later").unwrap().is_first());
}

/// What the naive comparison knows: everything at once, in maps.
struct Naive {
    known: BTreeMap<String, SystemTime>,
    effects: BTreeMap<String, Vec<Option<SystemTime>>>,
}

impl Naive {
    /// The faults by id, of a range without grace.
    fn faults(&self, from: SystemTime, to: SystemTime) -> Vec<(String, FindingClass)> {
        let inside = |t: &SystemTime| (from..to).contains(t);
        let mut faults = Vec::new();
        for (id, first) in &self.known {
            if !self.effects.contains_key(id) && inside(first) {
                faults.push((id.clone(), FindingClass::EffectMissing));
            }
        }
        for (id, times) in &self.effects {
            let earliest = times.iter().flatten().min();
            if !self.known.contains_key(id) && earliest.is_none_or(inside) {
                faults.push((id.clone(), FindingClass::IdUnknown));
            }
        }
        faults.sort_by(|a, b| a.0.cmp(&b.0));
        faults
    }
}

/// Random sides, in any order and with repeats, sorted in little memory, give what maps give;
/// a repair leaves nothing to find; memory bounds the rows of a run.
#[test]
fn random_sides_are_compared_as_a_naive_model_does() {
    for seed in 0..40 {
        let mut random = fastrand::Rng::with_seed(seed);
        let clock = ManualClock::new();
        let options = quiet()
            .clock(Clock::Manual(clock.clone()))
            .segment_ids_max(64);
        let store = Store::in_memory(options).unwrap();
        let ids = store.scope("ids", Policy::forever()).unwrap();
        let start = clock.now();
        let mut naive = Naive {
            known: BTreeMap::new(),
            effects: BTreeMap::new(),
        };
        let mut effects = Vec::new();
        for _ in 0..400 {
            let id = format!("id-{}", random.u32(0..300));
            clock.advance(secs(random.u64(0..3)));
            if random.bool() {
                let _ = ids.insert(&id).unwrap();
                naive.known.entry(id).or_insert(clock.now());
            } else {
                let at = random.bool().then(|| start + secs(random.u64(0..600)));
                naive.effects.entry(id.clone()).or_default().push(at);
                let effect = Effect::new(&id);
                effects.push(at.map_or(effect.clone(), |at| effect.at(at)));
            }
            if random.u32(0..60) == 0 {
                store.seal().unwrap();
            }
        }
        clock.advance(secs(1000));
        random.shuffle(&mut effects);
        let (from, to) = (
            start + secs(random.u64(0..300)),
            start + secs(random.u64(300..700)),
        );
        let rows_in_memory = random.usize(1..60);
        let how = at_once().between(from..to).sort_bytes(rows_in_memory * 60);
        let (found, counts) = findings(&ids, &how, &effects);
        let found: Vec<_> = found
            .iter()
            .map(|f| (String::from_utf8(f.id.to_vec()).unwrap(), f.class))
            .collect();
        assert_eq!(found, naive.faults(from, to), "seed {seed}");
        assert_eq!(counts.effects_read, effects.len() as u64);
        assert_eq!(counts.ids_read, naive.known.len() as u64);
        // A row takes 60 bytes or more, so no run had more rows; the last ones stay in memory.
        let runs_min = effects.len().div_ceil(rows_in_memory) - 1;
        assert!(
            counts.sorted_runs >= runs_min as u64,
            "seed {seed}: {counts:?}"
        );
        let judged = counts.agreed + counts.effect_missing + counts.id_unknown + counts.outside;
        let all: std::collections::BTreeSet<_> =
            naive.known.keys().chain(naive.effects.keys()).collect();
        assert_eq!(judged, all.len() as u64, "each id is counted once");

        let plan = compare(&ids, &how, &effects).plan(0).unwrap();
        let repaired = plan.apply(&Repair::all("a test")).unwrap();
        assert_eq!(
            (repaired.forgotten, repaired.recorded),
            (counts.effect_missing, counts.id_unknown)
        );
        assert_eq!(
            findings(&ids, &how, &effects).0,
            [],
            "seed {seed}: repaired"
        );
    }
}

/// The files of a sort are in the store's own folder, have no names, and a reopened store has
/// the repair.
#[test]
fn a_sort_leaves_nothing_behind_and_a_repair_is_there_after_reopening() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    let effects: Vec<_> = (0..5000)
        .map(|i| Effect::new(format!("order-{i}")))
        .collect();
    let how = at_once().sort_bytes(8 << 10);
    let found = compare(&ids, &how, &effects);
    assert!(found.counts().sorted_runs > 30, "{:?}", found.counts());
    assert_eq!(dir.path().join("tmp").read_dir().unwrap().count(), 0);
    let plan = found.plan(0).unwrap();
    assert_eq!(plan.apply(&Repair::all("a test")).unwrap().recorded, 5000);
    drop((plan, ids));
    store.close().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let ids = store.existing_scope("ids").unwrap().unwrap();
    assert_eq!(findings(&ids, &how, &effects).0, []);
    assert_eq!(store.audit().unwrap().count(), 5000);
}
