//! Producers that number their messages (V6, R7): who is first, what is fenced, what goes.

#[cfg(feature = "failpoints")]
use firstseen::Durability;
use firstseen::{
    Action, BelowWindow, ErrorKind, Key, OnUnknownProducer, Options, Partition, Producer, Recorded,
    SequencePolicy, Sequences, Store, Verdict,
};

#[cfg(feature = "failpoints")]
use super::secs;
use super::{LEVELS, counter, expect_error, memory, ms, quiet, timed, week};

fn of(name: &str, epoch: u64) -> Producer<'_> {
    Producer { name, epoch }
}

fn small() -> SequencePolicy {
    SequencePolicy::new().window_bits(64)
}

fn events(store: &Store) -> Sequences {
    store.sequences("events", small()).unwrap()
}

#[test]
fn numbers_out_of_order_are_told_apart_within_the_window() {
    let store = memory();
    let events = events(&store);
    let say = |n| events.accept(of("p", 1), n).unwrap();
    for n in [10, 12, 11, 40, 13] {
        assert!(say(n).is_first(), "{n}");
        assert!(say(n).is_duplicate(), "{n}");
    }
    let known = events.producer("p").unwrap().unwrap();
    assert_eq!((known.epoch, known.high, known.gaps), (1, Some(40), 26));
    assert!(say(14).is_first());
    assert!(say(9).is_first(), "before the first one seen");
    assert!(events.accept(of("other", 1), 10).unwrap().is_first());
}

/// The default loses nothing and doubles nothing: what nobody can know is said to be so.
#[test]
fn below_the_window_a_number_is_a_duplicate_only_if_nothing_was_missed_since() {
    let store = memory();
    let gapless = events(&store);
    let all = gapless.accept_all(of("p", 1), 0..1000).unwrap();
    assert!(all.iter().all(Verdict::is_first));
    let again = gapless.accept_all(of("p", 1), 0..1000).unwrap();
    assert!(again.iter().all(Verdict::is_duplicate), "told for sure");
    // 1000 is missed, and leaves the window.
    let _ = gapless.accept_all(of("p", 1), 1001..2000).unwrap();
    for n in [0, 999, 1000] {
        let late = gapless.accept(of("p", 1), n).unwrap();
        assert!(matches!(late, Verdict::Late(_)), "{n}: {late:?}");
        assert_eq!(late.action(), Action::DeadLetter);
    }
    assert!(gapless.accept(of("p", 1), 1001).unwrap().is_duplicate());
    let trusting = small().below_window(BelowWindow::Duplicate);
    let trusting = store.sequences("events", trusting).unwrap();
    assert!(trusting.accept(of("p", 1), 1000).unwrap().is_duplicate());
}

#[test]
fn a_later_epoch_begins_anew_and_fences_the_earlier() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let numbers = events(&store);
    let _ = numbers.accept_all(of("p", 4), 0..10).unwrap();
    let mut batch = store.batch();
    for (epoch, n) in [(4, 10), (5, 0), (4, 11), (5, 1), (5, 0)] {
        batch.sequence(&numbers, of("p", epoch), n);
    }
    let verdicts = batch.commit().unwrap();
    assert!(verdicts[0].is_first() && verdicts[1].is_first() && verdicts[3].is_first());
    assert_eq!(verdicts[2], Verdict::Fenced);
    assert_eq!(verdicts[2].action(), Action::Stop);
    assert!(verdicts[4].is_duplicate());
    drop((batch, numbers));
    store.close().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert_eq!(store.sequences_names().unwrap(), ["events"]);
    let numbers = store.existing_sequences("events").unwrap().unwrap();
    assert_eq!(numbers.accept(of("p", 4), 12).unwrap(), Verdict::Fenced);
    assert!(numbers.accept(of("p", 5), 1).unwrap().is_duplicate());
}

/// V6. A producer that was idle and had to go is unknown, and so is its next message; it is
/// never a duplicate.
#[test]
fn an_evicted_producer_is_unknown_and_never_a_duplicate() {
    let (store, clock) = timed();
    for rule in [OnUnknownProducer::Accept, OnUnknownProducer::Refuse] {
        let name = format!("{rule:?}");
        let policy = small().producers_max(3).on_unknown(rule);
        let numbers = store.sequences(&name, policy).unwrap();
        for p in ["a", "b", "c", "a", "d"] {
            clock.advance(ms(5));
            let before = numbers.producer(p).unwrap();
            if before.is_none() {
                assert!(numbers.admit(of(p, 1), 0).unwrap());
            }
            let n = before.and_then(|b| b.high).map_or(0, |high| high + 1);
            assert!(numbers.accept(of(p, 1), n).unwrap().is_first());
        }
        let known = numbers.producers().unwrap();
        let names: Vec<&str> = known.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "c", "d"], "the one idle longest went");
        let verdict = numbers.accept(of("b", 1), 1).unwrap();
        match rule {
            OnUnknownProducer::Accept => assert!(verdict.is_first()),
            _ => {
                assert_eq!(verdict, Verdict::UnknownProducer);
                assert_eq!(verdict.action(), Action::DeadLetter);
                assert!(numbers.admit(of("b", 1), 1).unwrap());
                assert!(!numbers.admit(of("b", 1), 9).unwrap(), "it is known");
                assert!(numbers.accept(of("b", 1), 0).unwrap().is_duplicate());
                assert!(numbers.accept(of("b", 1), 1).unwrap().is_first());
            }
        }
    }
    let stats = store.stats().unwrap();
    assert_eq!((stats.sequences.producers, stats.sequences.evicted), (6, 4));
    // What is gone is gone from the store too.
    let store = store.crash_and_reopen().unwrap();
    let numbers = store.existing_sequences("Accept").unwrap().unwrap();
    let known = numbers.producers().unwrap();
    assert_eq!(
        known.iter().map(|p| &p.name).collect::<Vec<_>>(),
        ["a", "b", "d"]
    );
}

/// R7. Ten times as many producers as the cap allows take no more memory and no more rows.
#[test]
fn ten_times_as_many_producers_take_no_more() {
    let store = memory();
    let policy = small().producers_max(100);
    let numbers = store.sequences("events", policy).unwrap();
    for n in 0..1000_u64 {
        let name = format!("producer-{n}");
        assert!(numbers.accept(of(&name, 1), n).unwrap().is_first());
        let stats = store.stats().unwrap().sequences;
        assert_eq!(stats.producers, (n + 1).min(100));
        assert_eq!(stats.evicted, (n + 1).saturating_sub(100));
    }
    let rows = firstseen::fuzzing::rows(&store, "producers").unwrap();
    assert_eq!(rows.len(), 100);
    // A batch's own producers stay, so they must fit.
    let mut batch = store.batch();
    for n in 0..101 {
        batch.sequence(&numbers, of(&format!("new-{n}"), 1), 0);
    }
    expect_error(batch.commit(), ErrorKind::Full, Recorded::No);
    assert_eq!(numbers.producer("new-0").unwrap(), None);
}

/// The verdicts and the commit are those of ids: the same batch, the same writes.
#[test]
fn a_batch_mixes_ids_numbers_and_resume_points_in_one_commit() {
    for level in LEVELS {
        let store = Store::in_memory(quiet().durability(level)).unwrap();
        let (ids, numbers) = (week(&store), events(&store));
        let (rows, stock) = (
            store.table("rows").unwrap(),
            store.guarded_table("stock").unwrap(),
        );
        let mut batch = store.batch();
        batch.always().put(&stock, "n", 2_i64.to_le_bytes());
        for n in [1, 2, 1, 3, 4] {
            batch
                .sequence(&numbers, of("p", 1), n)
                .put(&rows, n.to_string(), "row")
                .add(&stock, "n", -1, 0..);
            batch.once(&ids, &n.to_string());
        }
        batch.sequence(&numbers, of("p", 1), 4).if_refused(|_| {});
        batch.item(10).add(&stock, "n", -1, 0..);
        batch.sequence(&numbers, of("p", 1), 5).decline();
        batch.resume_at("orders/3", 5);
        let v = batch.commit().unwrap();
        assert!(v[0].is_first() && v[2].is_first() && v[4].is_duplicate());
        assert!(matches!(v[6], Verdict::Refused(_)), "sold out");
        assert!(matches!(v[8], Verdict::Refused(_)));
        assert!(
            matches!(&v[10], Verdict::Refused(r) if r.is_settled()),
            "{:?}",
            v[10]
        );
        assert_eq!(v[11], Verdict::Declined(()));
        assert!(v[1].is_first() && v[5].is_duplicate(), "ids beside them");
        let store = store.crash_and_reopen().unwrap();
        let numbers = events(&store);
        let say = |n| numbers.accept(of("p", 1), n).unwrap();
        assert!(say(1).is_duplicate() && say(2).is_duplicate());
        assert!(say(3).is_first(), "a refusal records nothing");
        assert!(say(4).is_duplicate(), "settled by its fallback");
        assert!(say(5).is_first(), "declined");
        assert_eq!(
            counter(&store.guarded_table("stock").unwrap(), "n"),
            Some(0)
        );
        assert!(store.table("rows").unwrap().get("3").unwrap().is_none());
        assert!(store.resume_point("orders/3").unwrap().is_some());
    }
}

/// A number whose commit failed is new again, and one whose outcome is unknown is decided by
/// reopening: with its row or not at all.
#[test]
fn a_failed_commit_leaves_no_number() {
    use firstseen::NextCommit::{NotRecorded, UnknownLost, UnknownWritten};
    for failure in [NotRecorded, UnknownLost, UnknownWritten] {
        let store = memory();
        let (numbers, rows) = (events(&store), store.table("rows").unwrap());
        store.fail_next_commit(failure).unwrap();
        let mut batch = store.batch();
        batch
            .sequence(&numbers, of("p", 1), 7)
            .put(&rows, "7", "row");
        batch.commit().unwrap_err();
        if failure == NotRecorded {
            assert_eq!(numbers.producer("p").unwrap(), None);
            assert!(batch.commit().unwrap()[0].is_first());
        }
        drop(batch);
        let store = store.crash_and_reopen().unwrap();
        let is_there = store.table("rows").unwrap().get("7").unwrap().is_some();
        assert_eq!(is_there, failure != UnknownLost);
        let verdict = events(&store).accept(of("p", 1), 7).unwrap();
        assert_eq!(verdict.is_duplicate(), is_there);
    }
}

/// I5: whoever is told "duplicate" may acknowledge, so the original must be safe by then. Other
/// numbers of the producer don't wait for its sync.
#[test]
#[cfg(feature = "failpoints")]
fn a_duplicate_of_a_number_waits_for_its_synced_original() {
    let name = "a_duplicate_of_a_number_waits_for_its_synced_original";
    if !super::alone(module_path!(), name) {
        return;
    }
    let store = Store::in_memory(quiet().wait_max(secs(60))).unwrap();
    let numbers = events(&store);
    let synced = |n| {
        let mut batch = store.batch();
        batch.sequence(&numbers, of("p", 1), n);
        batch.durability(Durability::Synced).commit().unwrap()[0].clone()
    };
    assert!(numbers.accept(of("p", 1), 0).unwrap().is_first());
    fail::cfg("commit::before_sync", "pause").unwrap();
    std::thread::scope(|s| {
        let original = s.spawn(|| synced(1).is_first());
        super::until("the original is written", || {
            store.stats().unwrap().written >= 2
        });
        let duplicate = s.spawn(|| numbers.accept(of("p", 1), 1).unwrap().is_duplicate());
        let strict = s.spawn(|| synced(1).is_duplicate());
        super::nap(ms(100));
        let waiting = [&original, &duplicate, &strict].map(|t| !t.is_finished());
        let other = numbers.accept(of("p", 1), 2);
        // First, or a failure would wait for ever.
        fail::remove("commit::before_sync");
        assert_eq!(waiting, [true; 3], "answered before the original's sync");
        assert!(other.unwrap().is_first());
        assert!(original.join().unwrap() && duplicate.join().unwrap() && strict.join().unwrap());
    });
}

#[test]
fn a_partitions_offsets_are_its_sequence() {
    let store = memory();
    let numbers = events(&store);
    let mut batch = store.batch();
    for (partition, offset) in [(3, 7), (4, 7), (3, 8), (3, 7)] {
        let key = Key::position("eu-1", "orders", partition, offset);
        let (partition, n) = Partition::of(&key).unwrap();
        batch.sequence(&numbers, partition.producer(0), n);
    }
    let firsts: Vec<bool> = batch
        .commit()
        .unwrap()
        .iter()
        .map(Verdict::is_first)
        .collect();
    assert_eq!(firsts, [true, true, true, false]);
}

#[test]
fn wrong_names_are_verdicts_and_wrong_policies_and_windows_are_refused() {
    let store = memory();
    let numbers = events(&store);
    for name in [String::new(), "x".repeat(513)] {
        let verdict = numbers.accept(of(&name, 1), 0).unwrap();
        assert!(matches!(verdict, Verdict::BadId(_)), "{verdict:?}");
        let admitted = numbers.admit(of(&name, 1), 0);
        expect_error(admitted, ErrorKind::Invalid, Recorded::No);
    }
    assert!(
        numbers
            .accept(of(&"x".repeat(512), 1), u64::MAX)
            .unwrap()
            .is_first()
    );
    for bits in [0, 32, 96, 8192] {
        let made = store.sequences("x", small().window_bits(bits));
        expect_error(made, ErrorKind::Invalid, Recorded::No);
    }
    let other = store.sequences("events", SequencePolicy::new());
    expect_error(other, ErrorKind::Invalid, Recorded::No);
    let mut batch = store.batch();
    batch.sequence(&numbers, of("p", 1), 0);
    expect_error(batch.hold(), ErrorKind::Invalid, Recorded::No);
    assert!(batch.commit().unwrap()[0].is_first(), "it may be committed");
    let foreign = memory();
    let mut batch = foreign.batch();
    batch.sequence(&numbers, of("p", 1), 1);
    expect_error(batch.commit(), ErrorKind::ForeignHandle, Recorded::No);
}

#[test]
fn dropped_sequences_never_come_back() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let numbers = events(&store);
    for n in 0..10 {
        assert!(
            numbers
                .accept(of(&format!("p-{n}"), 1), 5)
                .unwrap()
                .is_first()
        );
    }
    assert!(store.drop_sequences("events").unwrap());
    assert!(!store.drop_sequences("events").unwrap());
    let stale = numbers.accept(of("p-1", 1), 6);
    expect_error(stale, ErrorKind::Invalid, Recorded::No);
    assert!(
        firstseen::fuzzing::rows(&store, "producers")
            .unwrap()
            .is_empty()
    );
    // Another window may be chosen, as it is another space.
    let policy = SequencePolicy::new().window_bits(128);
    let numbers = store.sequences("events", policy.clone()).unwrap();
    assert!(numbers.accept(of("p-1", 1), 5).unwrap().is_first());
    drop(numbers);
    store.close().unwrap();
    let report = firstseen::verify(dir.path(), &Options::new(), |_| {}).unwrap();
    assert!(report.is_sound(), "{:?}", report.faults);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let numbers = store.sequences("events", policy).unwrap();
    assert!(numbers.accept(of("p-1", 1), 5).unwrap().is_duplicate());
}

/// A row that can't be read is an error, never an unknown producer.
#[test]
fn a_damaged_producer_is_an_error_and_verify_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::new()).unwrap();
    assert!(events(&store).accept(of("p", 1), 5).unwrap().is_first());
    let (key, value) = firstseen::fuzzing::rows(&store, "producers")
        .unwrap()
        .remove(0);
    firstseen::fuzzing::put(&store, "producers", &key, Some(&value[1..])).unwrap();
    store.close().unwrap();
    let report = firstseen::verify(dir.path(), &Options::new(), |_| {}).unwrap();
    assert_eq!(report.faults.len(), 1, "{:?}", report.faults);
    let store = Store::open(dir.path(), Options::new()).unwrap();
    let opened = store.sequences("events", small());
    expect_error(opened, ErrorKind::Damaged, Recorded::No);
}
