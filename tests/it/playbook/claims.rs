//! Work that is stuck, whose outcome nobody knows, or that was given up.

use firstseen::{Options, Policy, Store, days};

use super::{Drill, HOUR, said, two_hours_ago, under, week};

fn begin(store: &Store, id: &str) -> firstseen::Claim {
    let mut claim = week(store).claim(id).unwrap().first().unwrap();
    claim.start();
    claim
}

#[test]
fn a_claim_that_nobody_ends_is_forgotten_by_hand() {
    let alert = "FirstseenOldClaims";
    let mut drill = Drill::new();
    drill.ids = vec!["job-1".to_string()];
    let clock = two_hours_ago();
    let store = drill.open(under(&clock));
    let claim = begin(&store, "job-1");
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    drop(claim);
    clock.advance(HOUR + HOUR / 60);
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("job-1") && found.contains("claim: Claimed, attempt 1"),
        "{found}"
    );
    store.close().unwrap();
    drill.run(alert, 1);
    let store = drill.open(under(&clock));
    assert!(!drill.fires(alert, &store));
    // It may come again.
    assert!(week(&store).claim("job-1").unwrap().is_first());
}

#[test]
fn an_unknown_outcome_is_decided() {
    let alert = "FirstseenUnknownOutcomes";
    let mut drill = Drill::new();
    drill.ids = vec!["pay-1".to_string()];
    let store = drill.open(Options::new());
    let mut claim = begin(&store, "pay-1");
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    claim.outcome_unknown("a timeout").unwrap();
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("OutcomeUnknown") && found.contains("a timeout"),
        "{found}"
    );
    drop(claim);
    store.close().unwrap();
    drill.run(alert, 1);
    let store = drill.open(Options::new());
    assert!(!drill.fires(alert, &store));
    assert!(week(&store).claim("pay-1").unwrap().is_duplicate());
}

#[test]
fn dead_letters_are_redriven_and_purged() {
    let alert = "FirstseenDeadLetters";
    let mut drill = Drill::new();
    drill.ids = vec!["order-1".to_string(), "order-2".to_string()];
    let store = drill.open(Options::new());
    let scope = store.scope("ids", Policy::remember(days(7))).unwrap();
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    for id in &drill.ids {
        let mut batch = store.batch();
        batch.once(&scope, id).dead_letter("no price", b"{}");
        assert!(batch.commit().unwrap()[0].is_first());
    }
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("order-2") && found.contains("no price"),
        "{found}"
    );
    drop(scope);
    store.close().unwrap();
    drill.run(alert, 1);
    let store = drill.open(Options::new());
    assert!(!drill.fires(alert, &store));
    let scope = week(&store);
    assert!(scope.claim("order-1").unwrap().is_first());
    assert!(!scope.claim("order-2").unwrap().is_first());
}
