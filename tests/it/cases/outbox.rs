//! Outboxes: messages that are there iff their verdict is, drained in order, under ids that last.

use std::collections::{BTreeMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};

use firstseen::{
    AuditEvent, Durability, ErrorKind, NextCommit, Options, Outbox, OutboxId, Outgoing, Policy,
    Recorded, Store, Verdict, days, verify,
};

use super::{LEVELS, expect_error, expect_invalid, memory, ms, put_once, quiet, secs, timed, week};

fn mails(store: &Store) -> Outbox {
    store.outbox("mails").unwrap()
}

fn send(store: &Store, outbox: &Outbox, payload: &str) {
    let mut batch = store.batch();
    batch.always().send(outbox, payload);
    let _ = batch.commit().unwrap();
}

fn texts(messages: &[Outgoing]) -> Vec<String> {
    let text = |m: &Outgoing| String::from_utf8_lossy(&m.payload).into_owned();
    messages.iter().map(text).collect()
}

/// All that wait, whose numbers follow each other.
#[track_caller]
fn waiting(outbox: &Outbox) -> Vec<String> {
    let messages = outbox.drain(usize::MAX).unwrap();
    let first = outbox.acknowledged().unwrap() + 1;
    for (number, message) in (first..).zip(&messages) {
        assert_eq!(message.id.number(), number);
    }
    texts(&messages)
}

fn ids(outbox: &Outbox) -> Vec<OutboxId> {
    let messages = outbox.drain(usize::MAX).unwrap();
    messages.iter().map(|m| m.id).collect()
}

#[test]
fn messages_are_sent_iff_their_item_takes_effect() {
    for level in LEVELS {
        let store = memory();
        let (ids, outbox) = (week(&store), mails(&store));
        let stock = store.guarded_table("stock").unwrap();
        let mut batch = store.batch();
        batch.durability(level);
        batch
            .once(&ids, "a")
            .send(&outbox, "a1")
            .send(&outbox, "a2");
        batch.once(&ids, "a").send(&outbox, "again");
        batch.once(&ids, "b").send(&outbox, "b").decline();
        batch
            .once(&ids, "c")
            .send(&outbox, "c, before it was refused")
            .add(&stock, "x", -1, 0..)
            .if_refused(|w| {
                w.send(&outbox, "no c");
            });
        batch
            .once(&ids, "d")
            .add(&stock, "x", -1, 0..)
            .send(&outbox, "d");
        batch.always().send(&outbox, "always");
        let verdicts = batch.commit().unwrap();
        assert!(verdicts[0].is_first() && verdicts[1].is_duplicate());
        drop(batch);
        assert_eq!(
            waiting(&outbox),
            ["a1", "a2", "no c", "always"],
            "{level:?}"
        );
        // Of an id that is known nothing is sent again.
        let mut batch = store.batch();
        batch.once(&ids, "a").send(&outbox, "again");
        let _ = batch.commit().unwrap();
        assert_eq!(waiting(&outbox).len(), 4);
    }
}

#[test]
fn closures_and_claims_send_with_their_commit() {
    let store = memory();
    let (ids, outbox) = (week(&store), mails(&store));
    let rows = store.guarded_table("rows").unwrap();
    let verdict = ids.once("a", |tx| {
        tx.put(&rows, "r", "1").send(&outbox, "from a closure");
        Ok::<_, firstseen::Error>(())
    });
    assert!(verdict.unwrap().is_first());
    let failed = ids.once("b", |tx| {
        tx.send(&outbox, "never");
        Err::<(), _>(Box::<dyn std::error::Error>::from("no"))
    });
    assert!(failed.is_err());
    let refused = ids.once("c", |tx| {
        tx.send(&outbox, "refused")
            .add(&rows, "n", -1, 0..)
            .if_refused(|w| {
                w.send(&outbox, "instead");
            });
        Ok::<_, firstseen::Error>(())
    });
    assert!(matches!(refused.unwrap(), Verdict::Refused(_)));
    let mut claim = ids.claim("d").unwrap().first().unwrap();
    claim
        .complete("", |w| {
            w.send(&outbox, "of a claim");
        })
        .unwrap();
    assert_eq!(
        waiting(&outbox),
        ["from a closure", "instead", "of a claim"]
    );
}

#[test]
fn messages_come_again_under_their_ids_until_they_are_acknowledged() {
    let mut store = memory();
    let outbox = mails(&store);
    for payload in ["1", "2", "3", "4"] {
        send(&store, &outbox, payload);
    }
    let first = ids(&outbox);
    assert_eq!(outbox.drain(2).unwrap().len(), 2);
    let text = first[0].to_string();
    assert_eq!(text.len(), 32);
    assert_eq!(
        OutboxId::from_bytes(&first[0].to_bytes()).unwrap(),
        first[0]
    );
    expect_invalid(OutboxId::from_bytes(&[0; 15]), "16 bytes");
    for gone in 0..3 {
        drop(outbox.clone());
        store = store.crash_and_reopen().unwrap();
        let outbox = mails(&store);
        assert_eq!(ids(&outbox), first[gone..]);
        assert_eq!(outbox.ack(first[gone]).unwrap(), 1);
        assert_eq!(outbox.ack(first[gone]).unwrap(), 0);
        assert_eq!(outbox.ack(first[0]).unwrap(), 0);
        assert_eq!(ids(&outbox), first[gone + 1..]);
    }
    // All gone, it goes on where it was.
    let outbox = mails(&store);
    assert_eq!(outbox.ack(first[3]).unwrap(), 1);
    store = store.crash_and_reopen().unwrap();
    let outbox = mails(&store);
    assert!(outbox.drain(9).unwrap().is_empty());
    send(&store, &outbox, "5");
    assert_eq!(waiting(&outbox), ["5"]);
    assert_eq!(ids(&outbox)[0].number(), 5);
}

/// A commit that fails draws no number, and one whose outcome is unknown shows none: whoever
/// drains neither waits for it nor passes one that comes later.
#[test]
fn commits_that_fail_leave_no_gap_and_no_id_comes_twice() {
    for (failure, survives) in [
        (NextCommit::NotRecorded, false),
        (NextCommit::UnknownLost, false),
        (NextCommit::UnknownWritten, true),
    ] {
        let mut store = memory();
        let outbox = mails(&store);
        send(&store, &outbox, "before");
        store.fail_next_commit(failure).unwrap();
        let mut batch = store.batch();
        batch.always().send(&outbox, "fails");
        let error = batch.commit().unwrap_err();
        drop(batch);
        if failure == NextCommit::NotRecorded {
            assert_eq!(error.recorded(), Recorded::No);
            assert_eq!(waiting(&outbox), ["before"]);
        } else {
            // Nobody knows: nothing is handed out.
            expect_error(outbox.drain(9), ErrorKind::Degraded, Recorded::No);
            store = store.crash_and_reopen().unwrap();
        }
        let outbox = mails(&store);
        send(&store, &outbox, "after");
        let all = match survives {
            true => &["before", "fails", "after"][..],
            false => &["before", "after"],
        };
        assert_eq!(waiting(&outbox), all, "{failure:?}");
        let ids = ids(&outbox);
        let distinct: HashSet<_> = ids.iter().map(|id| id.to_bytes()).collect();
        assert_eq!(distinct.len(), ids.len());
        if failure == NextCommit::UnknownLost {
            // The number of the lost message, under another run.
            assert_eq!(ids[1].number(), 2);
            assert_ne!(ids[0].to_bytes()[..8], ids[1].to_bytes()[..8]);
        }
    }
}

/// Many commit, some fail, at every level, and one drains meanwhile.
#[test]
fn of_concurrent_commits_a_drain_skips_and_doubles_none() {
    const SENDERS: usize = 4;
    const EACH: usize = 300;
    let store = memory();
    let (scope, outbox) = (week(&store), mails(&store));
    let done = AtomicBool::new(false);
    let mut drained = Vec::new();
    std::thread::scope(|threads| {
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let (store, scope, outbox) = (&store, &scope, &outbox);
                threads.spawn(move || {
                    for n in 0..EACH {
                        let payload = format!("{sender} {n}");
                        if n % 7 == 0 {
                            let failed = scope.once(&format!("fails {payload}"), |tx| {
                                tx.send(outbox, "never");
                                Err::<(), _>(firstseen::Error::from(std::io::Error::other("no")))
                            });
                            assert!(failed.is_err());
                        }
                        if n % 5 == 0 {
                            let verdict = scope.once(&payload, |tx| {
                                tx.send(outbox, &payload);
                                Ok::<_, firstseen::Error>(())
                            });
                            assert!(verdict.unwrap().is_first());
                            continue;
                        }
                        let mut batch = store.batch();
                        batch.durability(LEVELS[(n / 3) % 3]);
                        batch.once(scope, &payload).send(outbox, &payload);
                        let _ = batch.commit().unwrap();
                    }
                })
            })
            .collect();
        let drainer = threads.spawn(|| {
            let mut all = Vec::new();
            loop {
                let ended = done.load(Ordering::Acquire);
                let messages = outbox.drain(64).unwrap();
                let Some(last) = messages.last() else {
                    if ended {
                        return all;
                    }
                    std::thread::yield_now();
                    continue;
                };
                let acked = outbox.ack(last.id).unwrap();
                assert_eq!(acked, messages.len() as u64);
                all.extend(messages);
            }
        });
        for sender in senders {
            sender.join().unwrap();
        }
        done.store(true, Ordering::Release);
        drained = drainer.join().unwrap();
    });
    assert_eq!(drained.len(), SENDERS * EACH);
    for (number, message) in (1..).zip(&drained) {
        assert_eq!(message.id.number(), number);
    }
    let mut of_sender: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for text in texts(&drained) {
        let (sender, n) = text.split_once(' ').unwrap();
        let numbers = of_sender.entry(sender.to_string()).or_default();
        numbers.push(n.parse().unwrap());
    }
    assert_eq!(of_sender.len(), SENDERS);
    for numbers in of_sender.values() {
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..EACH).collect::<Vec<_>>());
    }
    let stats = &store.stats().unwrap().outboxes[0];
    assert_eq!((stats.sent, stats.waiting, stats.kept), (1200, 0, 0));
}

/// What was handed out is durable, whatever the level of its commit.
#[test]
fn nothing_is_handed_out_that_a_power_failure_could_take() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), quiet()).unwrap();
    let outbox = mails(&store);
    let marks = || {
        let stats = store.stats().unwrap();
        (stats.durable, stats.written)
    };
    for level in [Durability::Buffered, Durability::Written] {
        let mut batch = store.batch();
        batch.durability(level).always().send(&outbox, "m");
        let _ = batch.commit().unwrap();
        drop(batch);
        let before = marks().0;
        let unsynced = outbox.drain_unsynced(9).unwrap();
        assert_eq!(unsynced.len(), 1);
        assert_eq!(marks().0, before, "it was synced");
        let synced = outbox.drain(9).unwrap();
        assert_eq!(synced, unsynced);
        let (durable, written) = marks();
        assert_eq!(durable, written);
        assert!(durable > before);
        outbox.ack(synced[0].id).unwrap();
        // With nothing to hand out there is nothing to sync.
        let before = marks().0;
        assert!(outbox.drain(9).unwrap().is_empty());
        assert_eq!(marks().0, before);
    }
}

#[test]
fn only_messages_that_are_there_are_acknowledged() {
    let (store, other) = (memory(), memory());
    let (outbox, elsewhere) = (mails(&store), mails(&other));
    let beside = store.outbox("beside").unwrap();
    for (store, outbox) in [(&store, &outbox), (&other, &elsewhere), (&store, &beside)] {
        send(store, outbox, "m");
    }
    let own = ids(&outbox)[0];
    for foreign in [ids(&elsewhere)[0], ids(&beside)[0]] {
        assert_eq!(foreign.number(), own.number());
        assert_ne!(foreign, own);
        expect_invalid(outbox.ack(foreign), "no message of this id");
    }
    let mut next = own.to_bytes();
    next[15] += 1;
    let next = OutboxId::from_bytes(&next).unwrap();
    expect_invalid(outbox.ack(next), "no message of this id");
    assert_eq!(waiting(&outbox), ["m"]);
    let mut batch = store.batch();
    batch.always().send(&elsewhere, "m");
    assert!(batch.commit().is_err());
}

#[test]
fn kept_messages_are_sent_again_by_an_audited_rewind() {
    let mut store = memory();
    let outbox = mails(&store).keeping(2);
    for payload in ["1", "2", "3", "4", "5"] {
        send(&store, &outbox, payload);
    }
    let first = ids(&outbox);
    assert_eq!(outbox.ack(first[3]).unwrap(), 4);
    assert_eq!(waiting(&outbox), ["5"]);
    let stats = store.stats().unwrap().outboxes[0].clone();
    assert_eq!((stats.waiting, stats.kept), (1, 2));
    expect_invalid(outbox.rewind(first[2], ""), "reason");
    expect_invalid(outbox.rewind(first[4], "why"), "not acknowledged");
    expect_invalid(outbox.rewind(first[1], "why"), "no message of this id");
    outbox.rewind(first[2], "their disk burnt").unwrap();
    drop(outbox);
    store = store.crash_and_reopen().unwrap();
    let outbox = mails(&store);
    assert_eq!(ids(&outbox), first[2..]);
    let entry = store.audit().unwrap().last().unwrap().unwrap();
    assert_eq!(entry.why, "their disk burnt");
    let told = AuditEvent::Resent {
        outbox: "mails".to_string(),
        from: 4,
        to: 2,
    };
    assert_eq!(entry.event, told);
    // Without keeping, what was kept goes too.
    assert_eq!(outbox.ack(first[4]).unwrap(), 3);
    assert_eq!(store.stats().unwrap().outboxes[0].kept, 0);
    expect_invalid(outbox.rewind(first[4], "why"), "no message");
}

#[test]
fn a_long_way_is_deleted_in_several_commits_and_an_outbox_goes_with_its_name() {
    let store = memory();
    let outbox = mails(&store);
    let mut batch = store.batch();
    for n in 0..10_000_u32 {
        batch.always().send(&outbox, n.to_be_bytes());
    }
    let _ = batch.commit().unwrap();
    drop(batch);
    let all = ids(&outbox);
    let before = store.stats().unwrap().written;
    assert_eq!(outbox.ack(all[8_999]).unwrap(), 9_000);
    let stats = store.stats().unwrap();
    assert_eq!(stats.written - before, 3, "of 4096 rows each");
    assert_eq!(
        (stats.outboxes[0].kept, stats.outboxes[0].waiting),
        (0, 1_000)
    );
    assert_eq!(ids(&outbox), all[9_000..]);

    expect_invalid(store.table("mails"), "an outbox, not plain");
    expect_invalid(store.guarded_table("mails"), "an outbox");
    assert!(store.existing_table("mails").unwrap().is_none());
    let _ = store.table("rows").unwrap();
    expect_invalid(store.outbox("rows"), "plain, not an outbox");
    assert!(store.drop_table("mails").unwrap());
    expect_invalid(outbox.drain(1), "dropped");
    expect_invalid(outbox.ack(all[9_999]), "dropped");
    let mut batch = store.batch();
    batch.always().send(&outbox, "m");
    expect_invalid(batch.commit(), "dropped");
    let sent = week(&store).once("a", |tx| {
        tx.send(&outbox, "m");
        Ok::<_, firstseen::Error>(())
    });
    expect_invalid(sent, "dropped");
    let anew = mails(&store);
    assert!(anew.drain(1).unwrap().is_empty());
    send(&store, &anew, "m");
    assert_eq!(ids(&anew)[0].number(), 1);
    assert_ne!(ids(&anew)[0], all[0]);
}

/// A copy hands out what its original would have, under the same ids; what either sends from
/// then on has ids of its own.
#[test]
fn copies_have_the_messages_under_their_ids_and_new_ones_never_share_an_id() {
    let dir = tempfile::tempdir().unwrap();
    let (home, copy) = (dir.path().join("store"), dir.path().join("copy"));
    let store = Store::open(&home, quiet()).unwrap();
    let ids_scope = week(&store);
    let outbox = mails(&store);
    for n in ["1", "2", "3"] {
        let mut batch = store.batch();
        batch.once(&ids_scope, n).send(&outbox, n);
        let _ = batch.commit().unwrap();
    }
    let first = ids(&outbox);
    outbox.ack(first[0]).unwrap();
    store.checkpoint(&copy).unwrap();
    let restored = Store::open(&copy, quiet()).unwrap();
    let theirs = mails(&restored);
    assert_eq!(ids(&theirs), first[1..]);
    send(&store, &outbox, "4 here");
    send(&restored, &theirs, "4 there");
    let (here, there) = (ids(&outbox)[2], ids(&theirs)[2]);
    assert_eq!((here.number(), there.number()), (4, 4));
    assert_ne!(here, there);
    drop((outbox, theirs, ids_scope));
    store.close().unwrap();
    restored.close().unwrap();
    for dir in [&home, &copy] {
        let report = verify(dir, &Options::new(), |_| {}).unwrap();
        assert!(report.is_sound(), "{:?}", report.faults);
    }
    // Who only looks sees what waits, and takes nothing.
    let look = Store::open_read_only(&home, Options::new()).unwrap();
    assert_eq!(look.stats().unwrap().outboxes[0].waiting, 3);
    expect_invalid(mails(&look).drain(1), "read");
    look.close().unwrap();
}

#[test]
fn depth_and_age_are_told() {
    let (store, clock) = timed();
    let outbox = mails(&store);
    let told = || store.stats().unwrap().outboxes[0].clone();
    assert_eq!((told().waiting, told().oldest_at), (0, None));
    let began = clock.now();
    send(&store, &outbox, "1");
    clock.advance(secs(5));
    send(&store, &outbox, "2");
    clock.advance(ms(500));
    let stats = told();
    assert_eq!(
        (stats.name.as_str(), stats.sent, stats.waiting),
        ("mails", 2, 2)
    );
    assert_eq!(stats.oldest_at, Some(began));
    let drained = outbox.drain(9).unwrap();
    assert_eq!(drained[1].sent_at, began + secs(5));
    outbox.ack(drained[0].id).unwrap();
    assert_eq!(told().oldest_at, Some(began + secs(5)));
    assert_eq!((told().acknowledged, told().waiting), (1, 1));
    let text = store.prometheus().unwrap();
    assert!(
        text.contains("firstseen_outbox_waiting{outbox=\"mails\"} 1"),
        "{text}"
    );
    assert!(text.contains("firstseen_outbox_oldest_age_seconds{outbox=\"mails\"} 0.5"));
    // A row of a commit beside it changes nothing here.
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    let rows = store.table("rows").unwrap();
    assert!(put_once(&store, &ids, &rows, "a").unwrap().is_first());
    assert_eq!(told().sent, 2);
}
