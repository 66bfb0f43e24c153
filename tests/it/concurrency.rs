//! Many threads on few ids and few rows: exactly one first sight each, no lost update, no
//! deadlock. Segments are tiny and sealed in the background meanwhile, at every durability.
//!
//! A deadlock shows as `InProgress` or `Busy` after `wait_max`, which no test here accepts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use firstseen::{
    Durability, Error, Id, NextCommit, Options, Policy, Producer, Recorded, Resources, Scope,
    SequencePolicy, Store, Verdict, days,
};

const LEVELS: [Durability; 3] = [
    Durability::Buffered,
    Durability::Written,
    Durability::Synced,
];
const THREADS: u64 = 6;

fn busy(level: Durability) -> Store {
    let options = Options::new()
        .durability(level)
        .wait_max(Duration::from_secs(60))
        .segment_ids_max(64)
        .segment_age_max(Duration::from_millis(20))
        .resources(&Resources::new().threads(2));
    Store::in_memory(options).unwrap()
}

fn scope(store: &Store) -> Scope {
    store.scope("ids", Policy::remember(days(7))).unwrap()
}

/// How often each id was first seen.
#[derive(Default)]
struct Firsts(std::sync::Mutex<HashMap<u64, u32>>);

impl Firsts {
    #[track_caller]
    fn note(&self, id: u64, verdict: &Verdict) {
        match verdict {
            Verdict::First(()) => *self.0.lock().unwrap().entry(id).or_default() += 1,
            Verdict::Duplicate(_) => {}
            other => panic!("{other:?}"),
        }
    }

    #[track_caller]
    fn check(&self, ids: impl Iterator<Item = u64>) {
        let firsts = self.0.lock().unwrap();
        for id in ids {
            assert_eq!(firsts.get(&id), Some(&1), "id {id}");
        }
    }
}

/// Overlapping batches in opposite orders, single inserts, closures and held batches.
#[test]
fn of_overlapping_calls_each_id_has_exactly_one_first() {
    const IDS: u64 = 600;
    for level in LEVELS {
        let store = busy(level);
        let (ids, firsts) = (scope(&store), Firsts::default());
        let total = store.guarded_table("total").unwrap();
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, ids, firsts, total) = (&store, &ids, &firsts, &total);
                s.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(thread);
                    let mut batch = store.batch();
                    for from in 0..IDS {
                        let mut some: Vec<u64> = (from..(from + 8).min(IDS)).collect();
                        random.shuffle(&mut some);
                        match random.u32(..4) {
                            0 => {
                                let bytes = some[0].to_be_bytes();
                                let verdict = ids.once(&bytes, |tx| {
                                    tx.add(total, "n", 1, ..);
                                    Ok::<_, Error>(())
                                });
                                firsts.note(some[0], &verdict.unwrap());
                                continue;
                            }
                            1 => {
                                for id in &some {
                                    batch.once(ids, &id.to_be_bytes());
                                }
                                let held = batch.hold().unwrap();
                                for (i, v) in held.iter().enumerate() {
                                    if v.is_first() {
                                        batch.item(i).add(total, "n", 1, ..);
                                    }
                                }
                            }
                            _ => {
                                for id in &some {
                                    batch.once(ids, &id.to_be_bytes()).add(total, "n", 1, ..);
                                }
                            }
                        }
                        let verdicts = batch.commit().unwrap();
                        assert_eq!(verdicts.len(), some.len());
                        for (id, verdict) in some.iter().zip(&verdicts) {
                            firsts.note(*id, verdict);
                        }
                    }
                });
            }
        });
        // Each first sight made its write, once.
        let n = total.get("n").unwrap().and_then(|v| v.as_counter());
        assert_eq!(n, Some(scanned(&ids)), "{level:?}");
        for id in 0..IDS {
            firsts.note(id, &ids.insert(&id.to_be_bytes()).unwrap());
        }
        firsts.check(0..IDS);
        let stats = store.stats().unwrap();
        assert!(stats.background.seals > 2, "nothing was sealed meanwhile");
        assert_eq!(stats.ids_in_flight, 0);
    }
}

fn scanned(ids: &Scope) -> i64 {
    ids.scan(..)
        .unwrap()
        .map(|item| item.map(|_| 1).unwrap())
        .sum()
}

/// Deliveries of one message from many threads at once, for ids that expire meanwhile: between
/// two expiries exactly one is first.
#[test]
fn while_ids_expire_and_are_forgotten_no_two_callers_are_first() {
    let clock = firstseen::ManualClock::new();
    let options = Options::new()
        .clock(firstseen::Clock::Manual(clock.clone()))
        .wait_max(Duration::from_secs(60))
        .segment_ids_max(32);
    let store = Store::in_memory(options).unwrap();
    let ids = store
        .scope("s", Policy::remember(Duration::from_secs(8)))
        .unwrap();
    for round in 0..30_u64 {
        let firsts = AtomicU64::new(0);
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (ids, firsts) = (&ids, &firsts);
                s.spawn(move || {
                    for n in 0..40_u64 {
                        let id = (n + thread * 7) % 40;
                        let verdict = ids.insert(&id.to_be_bytes()).unwrap();
                        assert!(verdict.is_first() || verdict.is_duplicate(), "{verdict:?}");
                        firsts.fetch_add(u64::from(verdict.is_first()), Ordering::Relaxed);
                    }
                });
            }
        });
        assert_eq!(firsts.load(Ordering::Relaxed), 40, "round {round}");
        if round % 3 == 0 {
            for id in 0..40_u64 {
                assert!(ids.forget(&id.to_be_bytes(), "test").unwrap());
            }
        } else {
            clock.advance(Duration::from_secs(8));
        }
    }
    assert!(store.stats().unwrap().background.seals > 0);
}

/// Threads × increments of one row, through conditions and through closures that read and write.
#[test]
fn no_update_of_a_row_is_lost() {
    const ROUNDS: u64 = 150;
    for level in LEVELS {
        let store = busy(level);
        let (ids, rows) = (scope(&store), store.guarded_table("rows").unwrap());
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, ids, rows) = (&store, &ids, &rows);
                s.spawn(move || {
                    for n in 0..ROUNDS {
                        let id = (thread << 32 | n).to_be_bytes();
                        if (thread + n) % 2 == 0 {
                            let mut batch = store.batch();
                            batch.once(ids, &id).add(rows, "n", 1, ..);
                            assert!(batch.commit().unwrap()[0].is_first());
                            continue;
                        }
                        let verdict = ids.once(&id, |tx| {
                            let row = tx.get(rows, "n")?;
                            let before = row.and_then(|v| v.as_counter()).unwrap_or(0);
                            std::thread::yield_now();
                            tx.put(rows, "n", (before + 1).to_le_bytes());
                            Ok::<_, Error>(())
                        });
                        assert!(verdict.unwrap().is_first());
                    }
                });
            }
        });
        let n = rows.get("n").unwrap().and_then(|v| v.as_counter());
        assert_eq!(n, Some((THREADS * ROUNDS) as i64), "{level:?}");
    }
}

/// Two rows in opposite order: money moves between two accounts in closures and batches; none
/// is made or lost, and nobody waits for ever.
#[test]
fn two_rows_in_opposite_order_neither_deadlock_nor_lose() {
    const ROUNDS: u64 = 120;
    for level in LEVELS {
        let store = busy(level);
        let (ids, rows) = (scope(&store), store.guarded_table("accounts").unwrap());
        let mut batch = store.batch();
        for account in ["a", "b"] {
            batch.always().put(&rows, account, 1000_i64.to_le_bytes());
        }
        let _ = batch.commit().unwrap();
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, ids, rows) = (&store, &ids, &rows);
                s.spawn(move || {
                    let (from, to) = if thread % 2 == 0 {
                        ("a", "b")
                    } else {
                        ("b", "a")
                    };
                    for n in 0..ROUNDS {
                        let id = (thread << 32 | n).to_be_bytes();
                        if n % 3 == 0 {
                            let mut batch = store.batch();
                            batch
                                .once(ids, &id)
                                .add(rows, from, -3, ..)
                                .add(rows, to, 3, ..);
                            assert!(batch.commit().unwrap()[0].is_first());
                            continue;
                        }
                        let verdict = ids.once(&id, |tx| {
                            for (account, by) in [(from, -2), (to, 2)] {
                                let row = tx.get(rows, account)?;
                                let sum = row.and_then(|v| v.as_counter()).unwrap_or(0) + by;
                                std::thread::yield_now();
                                tx.put(rows, account, i64::to_le_bytes(sum));
                            }
                            Ok::<_, Error>(())
                        });
                        assert!(verdict.unwrap().is_first());
                    }
                });
            }
        });
        for account in ["a", "b"] {
            let sum = rows.get(account).unwrap().and_then(|v| v.as_counter());
            assert_eq!(sum, Some(1000), "{account} at {level:?}");
        }
    }
}

/// The last pieces are sold once, whoever asks, and a refused buyer's id stays free.
#[test]
fn a_stock_is_never_oversold() {
    for level in LEVELS {
        let store = busy(level);
        let (ids, stock) = (scope(&store), store.guarded_table("stock").unwrap());
        let mut batch = store.batch();
        batch.always().put(&stock, "n", 100_i64.to_le_bytes());
        let _ = batch.commit().unwrap();
        let sold = AtomicU64::new(0);
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, ids, stock, sold) = (&store, &ids, &stock, &sold);
                s.spawn(move || {
                    for n in 0..50_u64 {
                        let mut batch = store.batch();
                        for part in 0..2_u64 {
                            // Each message comes to two threads.
                            let id = ((thread / 2) << 32 | n << 1 | part).to_be_bytes();
                            batch.once(ids, &id).add(stock, "n", -1, 0..);
                        }
                        let verdicts = batch.commit().unwrap();
                        let firsts = verdicts.iter().filter(|v| v.is_first()).count();
                        sold.fetch_add(firsts as u64, Ordering::Relaxed);
                    }
                });
            }
        });
        let n = stock.get("n").unwrap().and_then(|v| v.as_counter());
        assert_eq!(
            (sold.load(Ordering::Relaxed), n),
            (100, Some(0)),
            "{level:?}"
        );
        assert_eq!(scanned(&ids), 100);
    }
}

/// Producers come to all threads at once, each number to two of them, beside more producers
/// than are kept: each number is first once, and its row changes once.
#[test]
fn each_number_of_a_producer_is_first_once() {
    for level in LEVELS {
        let store = busy(level);
        let policy = SequencePolicy::new().window_bits(4096);
        let few = policy.clone().producers_max(8);
        let (events, brief) = (
            store.sequences("events", policy).unwrap(),
            store.sequences("brief", few).unwrap(),
        );
        let counts = store.guarded_table("counts").unwrap();
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, events, brief, counts) = (&store, &events, &brief, &counts);
                s.spawn(move || {
                    for n in 0..100_u64 {
                        let mut batch = store.batch();
                        for turn in 0..3_u64 {
                            let name = format!("p-{}", (thread + turn) % 3);
                            let producer = Producer {
                                name: &name,
                                epoch: 1,
                            };
                            let n = (n << 1 | turn) * 2;
                            batch
                                .sequence(events, producer, n)
                                .add(counts, &name, 1, ..);
                        }
                        let _ = batch.commit().unwrap();
                        // Each makes another one go, never one that is in use.
                        let name = format!("once-{thread}-{n}");
                        let producer = Producer {
                            name: &name,
                            epoch: 1,
                        };
                        assert!(brief.accept(producer, 1).unwrap().is_first());
                    }
                });
            }
        });
        // Whoever came at the same moment as others may have found none free to go.
        let evicted = store.stats().unwrap().sequences.evicted;
        let kept = brief.producers().unwrap().len() as u64;
        assert_eq!(kept + evicted, THREADS * 100);
        assert!(kept <= 8 + THREADS, "{kept}");
        for n in 0..3 {
            let name = format!("p-{n}");
            let count = counts.get(&name).unwrap().and_then(|v| v.as_counter());
            let numbers: std::collections::BTreeSet<u64> = (0..THREADS)
                .flat_map(|thread| (0..3).filter(move |turn| (thread + turn) % 3 == n))
                .flat_map(|turn| (0..100).map(move |i| (i << 1 | turn) * 2))
                .collect();
            assert_eq!(count, Some(numbers.len() as i64), "{name} {level:?}");
        }
    }
}

/// Ids under two forms, scopes that slide, and scans, all at once with sealing.
#[test]
fn every_kind_of_call_runs_beside_every_other() {
    let store = busy(Durability::Written);
    let fixed = scope(&store);
    let policy = Policy::sliding(Duration::from_secs(60), days(1)).sources();
    let sliding = store.scope("sliding", policy).unwrap();
    let firsts = Firsts::default();
    std::thread::scope(|s| {
        for thread in 0..THREADS {
            let (store, fixed, sliding, firsts) = (&store, &fixed, &sliding, &firsts);
            s.spawn(move || {
                for n in 0..300_u64 {
                    let (new, old) = (n.to_be_bytes(), (n | 1 << 63).to_be_bytes());
                    let source = thread.to_string();
                    let id = Id::new(&new).also(&old).source(&source);
                    firsts.note(n, &sliding.insert(id).unwrap());
                    let mut batch = store.batch();
                    batch.once(fixed, &new);
                    batch.once(sliding, &new);
                    batch.resume_at(&source, n + 1);
                    let verdicts = batch.commit().unwrap();
                    assert!(verdicts[1].is_duplicate());
                    firsts.note(1000 + n, &verdicts[0]);
                    if n % 100 == thread {
                        assert!(fixed.scan(..).unwrap().all(|item| item.is_ok()));
                        store.compact().unwrap();
                    }
                }
            });
        }
    });
    firsts.check((0..300).chain(1000..1300));
    assert_eq!((scanned(&fixed), scanned(&sliding)), (300, 300));
}

/// A write whose outcome is unknown, in the middle of the crowd: nobody hangs, and after the
/// reopening every call's answer holds, ids and rows together.
#[test]
fn a_failed_write_under_load_hangs_nobody_and_splits_nothing() {
    for (round, failure) in [NextCommit::UnknownLost, NextCommit::UnknownWritten]
        .into_iter()
        .cycle()
        .take(12)
        .enumerate()
    {
        let store = busy(LEVELS[1 + round % 2]);
        let (ids, rows) = (scope(&store), store.guarded_table("rows").unwrap());
        let answers = std::sync::Mutex::new(Vec::new());
        std::thread::scope(|s| {
            for thread in 0..THREADS {
                let (store, ids, rows, answers) = (&store, &ids, &rows, &answers);
                s.spawn(move || {
                    for n in 0..200_u64 {
                        // Who asked for the failure goes on with ids of its own, and writes.
                        let own = u64::from(thread == 0 && n > 50) << 32;
                        let id = (n * 4 + thread / 2 + own).to_be_bytes();
                        let mut batch = store.batch();
                        // Pairs of threads share ids, all share a row.
                        batch
                            .once(ids, &id)
                            .put(rows, id, "1")
                            .add(rows, "n", 1, ..);
                        let answer = batch.commit();
                        let ended = answer.is_err();
                        answers.lock().unwrap().push((id, answer));
                        if ended {
                            return;
                        }
                        if thread == 0 && n == 50 {
                            store.fail_next_commit(failure).unwrap();
                        }
                    }
                });
            }
        });
        drop((ids, rows));
        let store = store.crash_and_reopen().unwrap();
        let (ids, rows) = (scope(&store), store.guarded_table("rows").unwrap());
        let (mut unknown, mut there) = (0, 0);
        for (id, answer) in answers.into_inner().unwrap() {
            let known = ids.peek(&id).unwrap().is_some();
            assert_eq!(rows.get(id).unwrap().is_some(), known, "id and row differ");
            match answer {
                Ok(verdicts) => {
                    assert!(known, "{:?} was acknowledged and is lost", verdicts[0]);
                    there += i64::from(verdicts[0].is_first());
                }
                Err(error) if error.recorded() == Recorded::Unknown => {
                    unknown += 1;
                    there += i64::from(known);
                }
                Err(_) => {}
            }
        }
        assert!(unknown > 0, "nobody met the failure");
        // An id of which one caller knows nothing was written by nobody else.
        let n = rows.get("n").unwrap().and_then(|v| v.as_counter());
        assert_eq!(n, Some(scanned(&ids)));
        assert!(n <= Some(there), "{n:?} rows, {there} answers");
    }
}
