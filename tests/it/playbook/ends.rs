//! What waits for somebody else: transactions for their coordinator, messages for their drain.

use std::time::Duration;

use firstseen::Verdict;
use serde_json::{Value, json};

use super::{Drill, said, two_hours_ago, under, week};

#[test]
fn transactions_in_doubt_are_ended_as_their_coordinator_did() {
    let alert = "FirstseenInDoubt";
    let mut drill = Drill::new();
    drill.ids = vec!["cp-17".to_string(), "cp-18".to_string()];
    let clock = two_hours_ago();
    let store = drill.open(under(&clock));
    let (scope, rows) = (week(&store), store.table("rows").unwrap());
    drill.scrape(&store);
    assert!(!drill.fires(alert, &store));
    for txn in &drill.ids {
        let mut batch = store.batch();
        batch.once(&scope, txn).put(&rows, txn, "row");
        assert!(batch.prepare(txn).unwrap()[0].is_first());
    }
    clock.advance(Duration::from_secs(900));
    assert!(!drill.fires(alert, &store), "a quarter of an hour is usual");
    clock.advance(Duration::from_secs(1));
    assert!(drill.fires(alert, &store));
    let held = scope.insert("cp-17").unwrap();
    assert!(matches!(held, Verdict::InProgress(_)), "{held:?}");
    let found = said(&drill.run(alert, 0));
    for told in ["2, the oldest for", "cp-17", "cp-18", "ids, rows"] {
        assert!(found.contains(told), "{found}");
    }
    // A restart does not end them, nor does it silence the rule.
    drop((scope, rows));
    store.close().unwrap();
    let store = drill.open(under(&clock));
    assert!(drill.fires(alert, &store));
    store.close().unwrap();
    // The coordinator was asked.
    drill.run(alert, 1);
    let store = drill.open(under(&clock));
    assert!(!drill.fires(alert, &store));
    let rows = store.table("rows").unwrap();
    assert!(rows.get("cp-17").unwrap().is_some() && rows.get("cp-18").unwrap().is_none());
    assert!(week(&store).insert("cp-17").unwrap().is_duplicate());
    assert!(week(&store).insert("cp-18").unwrap().is_first());
    let entries = store.audit().unwrap().map(Result::unwrap);
    let told: Vec<_> = entries
        .map(|e| (e.why, e.who.unwrap_or_default()))
        .collect();
    let told: Vec<_> = told
        .iter()
        .map(|(w, who)| (w.as_str(), who.as_str()))
        .collect();
    let whys = ["checkpoint 17 is complete", "the job is gone"];
    assert_eq!(told, whys.map(|why| (why, "NAME")));
}

/// The outbox as `stat --json` shows it.
fn shown(drill: &Drill, alert: &str) -> Value {
    let ran = drill.run(alert, 0);
    let looked: Value = serde_json::from_slice(&ran[1].stdout).unwrap();
    looked["outboxes"][0].clone()
}

#[test]
fn an_outbox_that_nobody_drains_is_told() {
    let alert = "FirstseenOutboxStalled";
    let mut drill = Drill::new();
    let clock = two_hours_ago();
    let store = drill.open(under(&clock));
    let (scope, mails) = (week(&store), store.outbox("mails").unwrap());
    let send = |id: &str| {
        let mut batch = store.batch();
        batch.once(&scope, id).send(&mails, id);
        assert!(batch.commit().unwrap()[0].is_first());
    };
    drill.scrape(&store);
    send("order-1");
    clock.advance(Duration::from_secs(300));
    send("order-2");
    assert!(!drill.fires(alert, &store), "five minutes are usual");
    clock.advance(Duration::from_secs(1));
    assert!(drill.fires(alert, &store));
    let found = said(&drill.run(alert, 0));
    assert!(
        found.contains("mails: 2 waiting, the first since"),
        "{found}"
    );
    let before = shown(&drill, alert);
    assert_eq!(before["acknowledged"], json!(0));
    // Who drains is started again; what it hands out counts once it is acknowledged.
    let handed = mails.drain(1).unwrap();
    assert!(drill.fires(alert, &store));
    assert_eq!(mails.ack(handed[0].id).unwrap(), 1);
    assert!(!drill.fires(alert, &store), "the next one is not so old");
    let after = shown(&drill, alert);
    let told = (&after["acknowledged"], &after["waiting"]);
    assert_eq!(told, (&json!(1), &json!(1)));
    // One that the other system refuses for ever is put elsewhere.
    clock.advance(Duration::from_secs(600));
    assert!(drill.fires(alert, &store));
    let refused = mails.drain(1).unwrap().remove(0);
    assert_eq!(&refused.payload[..], b"order-2");
    assert_eq!(mails.ack(refused.id).unwrap(), 1);
    assert!(!drill.fires(alert, &store));
}
