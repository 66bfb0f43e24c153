//! Rounds of several threads on the same few ids, each recorded and checked as a history.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use firstseen::Durability;

use super::book::Book;
use super::fail::{Kind, fail};
use super::history::{History, Kinds, Log, Recorder, Target, Wrong, check};
use super::lanes::{Open, SLACK_MS, now_ms};

const THREADS: u64 = 3;
const IDS: u64 = 4;
const CALLS: u64 = 100;
/// Rounds are short: nothing expires in one. A second, or ten rounds, of ids is little.
const PAUSE: Duration = Duration::from_millis(60);

/// Rounds until it is told to stop.
#[expect(clippy::disallowed_methods, reason = "rounds come now and then")]
pub(crate) fn work(open: &Open, book: &mut Book, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        // The round's ids are spent before they are used: a kill leaves them in any state.
        let round = book.head.next;
        book.head.next += 1;
        book.save_head();
        let passed = run(open, round);
        book.head.calls += passed.calls + passed.reads;
        book.head.ids += passed.firsts;
        book.head.duplicates += passed.duplicates;
        book.save_head();
        std::thread::sleep(PAUSE);
    }
}

fn run(open: &Open, round: u64) -> super::history::Passed {
    let target = Target {
        store: open.store.clone(),
        ids: open.hot.clone(),
        counters: open.hot_counters.clone(),
        level: Durability::Written,
        first: round * IDS,
        count: IDS,
        kinds: Kinds::Forgetting,
    };
    let recorder = Recorder::new(now_ms, SLACK_MS);
    let mut history = History::new(None);
    std::thread::scope(|s| {
        let threads: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (target, recorder) = (&target, &recorder);
                s.spawn(move || {
                    let mut random = fastrand::Rng::new();
                    let mut log = Log::new(recorder, thread);
                    for _ in 0..CALLS {
                        if !target.call(&mut log, &mut random) {
                            fail(Kind::Wrong, "the store stopped writing");
                        }
                    }
                    log.into_part()
                })
            })
            .collect();
        for thread in threads {
            match thread.join() {
                Ok(part) => history.add(part),
                Err(_) => fail(Kind::Wrong, "a call of a hot id failed"),
            }
        }
    });
    check(&history).unwrap_or_else(|fault| {
        let kind = match fault.wrong {
            Wrong::Lost => Kind::Lost,
            Wrong::Doubled => Kind::Doubled,
            Wrong::Unfounded | Wrong::Stale | Wrong::Miscounted => Kind::Wrong,
        };
        fail(kind, &format!("round {round}: {fault:?}"))
    })
}
