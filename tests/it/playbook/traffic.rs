//! What messages and their producers do wrong: repeats, surges, bad ids, late ones.

use firstseen::{Clock, Id, IdTime, ManualClock, Options, Policy, Store, Verdict, days};

use super::{Drill, said, week};

fn repeat(store: &Store, ids: u32, times: u32) {
    let scope = week(store);
    for n in 0..ids {
        for _ in 0..times {
            let _ = scope
                .insert(Id::new(&n.to_be_bytes()).source("shop-7"))
                .unwrap();
        }
    }
}

#[test]
fn a_producer_that_repeats_is_found() {
    let alert = "FirstseenDuplicateShare";
    let mut drill = Drill::new();
    let store = drill.open(Options::new().background(false).top_sources(10));
    drill.scrape(&store);
    repeat(&store, 20, 2);
    assert!(!drill.fires(alert, &store), "half is not above a half");
    repeat(&store, 20, 3);
    assert!(drill.fires(alert, &store));
    // As the store does by itself every ten seconds.
    store.seal().unwrap();
    let found = said(&drill.run(alert, 0));
    assert!(found.contains("shop-7"), "{found}");
    // The producer stops repeating.
    drill.scrape(&store);
    let scope = week(&store);
    for n in 100..200_u32 {
        assert!(scope.insert(&n.to_be_bytes()).unwrap().is_first());
    }
    assert!(!drill.fires(alert, &store));
}

#[test]
fn a_surge_is_found() {
    let alert = "FirstseenSurge";
    let mut drill = Drill::new();
    let clock = ManualClock::new();
    let options = Options::new()
        .background(false)
        .clock(Clock::Manual(clock.clone()));
    let store = drill.open(options.top_sources(10).on_surge(|_| {}));
    let scope = week(&store);
    let mut next = 0_u64;
    let mut interval = |first: u64, duplicates: u64| {
        for n in 0..first + duplicates {
            next += u64::from(n < first);
            let _ = scope
                .insert(Id::new(&next.to_be_bytes()).source("shop-7"))
                .unwrap();
        }
        clock.advance(std::time::Duration::from_secs(10));
        store.seal().unwrap();
    };
    (0..12).for_each(|n| interval(90, 10 + n % 2));
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    (0..3).for_each(|_| interval(10, 90));
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(found.contains("shop-7"), "{found}");
    drill.scrape(&store);
    (0..3).for_each(|_| interval(90, 10));
    assert!(!drill.fires(alert, &store));
}

#[test]
fn messages_without_an_id_are_told() {
    let alert = "FirstseenBadIds";
    let mut drill = Drill::new();
    let store = drill.open(Options::new().background(false).top_sources(10));
    repeat(&store, 2, 2);
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    let _ = week(&store).insert("").unwrap();
    assert!(drill.fires(alert, &store));
    store.seal().unwrap();
    drill.run(alert, 0);
    drill.scrape(&store);
    let _ = week(&store).insert("a key").unwrap();
    assert!(!drill.fires(alert, &store));
}

#[test]
fn a_retention_below_the_time_under_way_is_told() {
    let alert = "FirstseenLate";
    let mut drill = Drill::new();
    let clock = ManualClock::new();
    let options = Options::new()
        .background(false)
        .clock(Clock::Manual(clock.clone()));
    let store = drill.open(options);
    let policy = |retention| Policy::remember(days(retention)).id_time(IdTime::Given);
    let short = store.scope("short", policy(2)).unwrap();
    let made = clock.now();
    drill.scrape(&store);
    clock.advance(days(3));
    let late = short.insert(Id::new("a").event_time(made)).unwrap();
    assert!(matches!(late, Verdict::Late(_)), "{late:?}");
    assert!(drill.fires(alert, &store));
    drill.run(alert, 0);
    // What the section says of the horizon: it refuses such a retention, and a plan says so.
    let horizon = policy(2).redelivery_horizon(days(3));
    assert!(store.scope("other", horizon).is_err());
    let plan = "firstseen plan --rate 10 --retention 7d --horizon 3d";
    assert!(super::section(alert).contains("firstseen plan --rate N --retention TIME --horizon"));
    drill.command(plan);
    let long = store
        .scope("long", policy(7).redelivery_horizon(days(3)))
        .unwrap();
    drill.scrape(&store);
    assert!(
        long.insert(Id::new("a").event_time(made))
            .unwrap()
            .is_first()
    );
    assert!(!drill.fires(alert, &store));
}

#[test]
fn one_key_for_two_messages_is_told() {
    let alert = "FirstseenPayloadMismatch";
    let mut drill = Drill::new();
    drill.ids = vec!["order-1".to_string()];
    let store = drill.open(Options::new().background(false).top_sources(10));
    let policy = Policy::remember(days(7)).payloads().sources();
    let scope = store.scope("ids", policy).unwrap();
    let message = |body: &'static str| Id::new("order-1").payload(body).source("shop-7");
    drill.scrape(&store);
    for body in ["one", "one"] {
        let _ = scope.insert(message(body)).unwrap();
    }
    assert!(!drill.fires(alert, &store));
    let other = scope.insert(message("two")).unwrap();
    assert!(matches!(other, Verdict::PayloadMismatch(_)));
    assert!(drill.fires(alert, &store));
    store.seal().unwrap();
    drill.run(alert, 0);
    let peek = "firstseen peek --store DIR --scope SCOPE ID";
    assert!(super::section(alert).contains(peek));
    let found = drill.command(peek);
    let found = String::from_utf8_lossy(&found.stdout).into_owned();
    assert!(found.contains("shop-7"), "{found}");
    drill.scrape(&store);
    let _ = scope.insert(message("one")).unwrap();
    assert!(!drill.fires(alert, &store));
}
