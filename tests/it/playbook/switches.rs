//! Scopes that are switched to let through what others stop.

use std::fs;
use std::time::UNIX_EPOCH;

use firstseen::{
    Action, ErrorKind, Failed, Handler, Injected, ManualClock, Message, Mode, OnStoreError, Place,
    Policy, Scope, Source, Store, days,
};

use super::disks::fault;
use super::{Drill, said, text, two_hours_ago, under, week};

fn open_scope(store: &Store) -> Scope {
    let policy = Policy::remember(days(7)).on_store_error(OnStoreError::Open);
    store.scope("ids", policy).unwrap()
}

/// Handles a message whose effect is a line in a file, the other side.
fn book(handler: &Handler, drill: &Drill, clock: &ManualClock, id: &str) -> Action {
    let handled = handler.perform(Message::new(id), |_| {
        let mut lines = fs::read_to_string(drill.file()).unwrap();
        let at = clock.now().duration_since(UNIX_EPOCH).unwrap();
        lines += &format!("{id},@{}\n", at.as_secs());
        fs::write(drill.file(), lines).unwrap();
        Ok::<_, Failed>(())
    });
    handled.action()
}

fn effects(drill: &Drill, id: &str) -> usize {
    let lines = fs::read_to_string(drill.file()).unwrap();
    let of = format!("{id},");
    lines.lines().filter(|line| line.starts_with(&of)).count()
}

#[test]
fn effects_made_while_the_store_failed_are_recorded() {
    let alert = "FirstseenFailedOpen";
    let mut drill = Drill::new();
    fs::write(drill.file(), "order_id,booked_at\n").unwrap();
    let clock = two_hours_ago();
    let store = drill.open(under(&clock));
    let scope = open_scope(&store);
    let handler = scope.handler(Source::AckOnce);
    let run = |id: &str| book(&handler, &drill, &clock, id);
    assert_eq!(run("order-1"), Action::Proceed);
    drill.scrape(&store);
    let run = |id: &str| book(&handler, &drill, &clock, id);
    assert_eq!(run("order-2"), Action::Proceed);
    assert!(!drill.fires(alert, &store));
    // The store stops writing, and the effect is made all the same: twice.
    store.inject(fault(Place::Write, Injected::Io, 1)).unwrap();
    assert_eq!(run("order-3"), Action::Proceed);
    assert_eq!(run("order-3"), Action::Proceed);
    assert_eq!(run("order-4"), Action::Proceed);
    assert!(drill.fires(alert, &store));
    assert!(drill.fires("FirstseenDegraded", &store));
    let found = said(&drill.run(alert, 0));
    assert!(found.contains("ids: fails open"), "{found}");
    let unknown = |id: &str| {
        let mut lines = found.lines().filter(|l| l.starts_with("id unknown "));
        lines.any(|line| line.ends_with(id))
    };
    assert!(unknown("order-3") && unknown("order-4"), "{found}");
    assert!(!unknown("order-1") && !unknown("order-2"), "{found}");
    // From here on messages wait, though the store can't keep the switch.
    let switched = scope.set_on_store_error(OnStoreError::Closed);
    assert!(switched.is_err_and(|e| e.kind() == ErrorKind::Degraded));
    assert_eq!(run("order-5"), Action::Stop);
    assert_eq!(effects(&drill, "order-5"), 0);
    drop((handler, scope, store));
    drill.run(alert, 1);
    // It is opened again, with `Open` out of its policy.
    let store = drill.open(under(&clock));
    let scope = week(&store);
    assert_eq!(scope.on_store_error(), OnStoreError::Closed);
    let handler = scope.handler(Source::AckOnce);
    drill.scrape(&store);
    for (id, action) in [
        ("order-3", Action::Ack),
        ("order-4", Action::Ack),
        ("order-5", Action::Proceed),
    ] {
        assert_eq!(book(&handler, &drill, &clock, id), action, "{id}");
    }
    assert!(!drill.fires(alert, &store));
    let made = ["order-3", "order-4", "order-5"].map(|id| effects(&drill, id));
    assert_eq!(made, [2, 1, 1]);
}

#[test]
fn a_scope_that_only_observes_is_told() {
    let alert = "FirstseenObserveOnly";
    let mut drill = Drill::new();
    drill.ids = vec!["order-1".to_string()];
    let store = drill.open(firstseen::Options::new());
    let enforced = store.scope("other", Policy::remember(days(7))).unwrap();
    assert!(enforced.insert("a").unwrap().is_first());
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    let policy = Policy::remember(days(7)).sources().mode(Mode::ObserveOnly);
    let scope = store.scope("ids", policy).unwrap();
    let message = firstseen::Id::new("order-1").source("shop-7");
    assert!(scope.insert(message).unwrap().would_be().is_none());
    let again = scope.insert(message).unwrap();
    assert!(again.would_be().is_some_and(|v| v.is_duplicate()));
    assert_eq!(again.action(), Action::Proceed);
    assert!(drill.fires(alert, &store));
    let observed = "firstseen_observed_total{store=\"a\",scope=\"ids\",verdict=\"duplicate\"} 1\n";
    let exported = text(&store);
    assert!(exported.contains(observed), "{exported}");
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("ids: only observes") && found.contains("shop-7"),
        "{found}"
    );
    // It is what was expected.
    scope.set_mode(Mode::Enforce).unwrap();
    assert!(!drill.fires(alert, &store));
    assert!(scope.insert(message).unwrap().is_duplicate());
    let found = said(&drill.run(alert, 0));
    assert!(!found.contains("only observes"), "{found}");
}
