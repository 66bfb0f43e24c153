//! Many threads handle messages of the same ids and of one source at once.

use std::sync::atomic::{AtomicU64, Ordering};

use firstseen::{Action, Handler, Message, Options, Source, Store, Table};

use super::super::counter;
use super::{Oops, policy};

const MESSAGES: u64 = 150;

/// Handles every message on each of four threads until it is let go; how many were first.
fn race(handler: &Handler, run: impl Fn(&Handler, Message<'_>, &str) -> Action + Sync) -> u64 {
    let first = AtomicU64::new(0);
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for n in 0..MESSAGES {
                    let id = format!("m{n}");
                    loop {
                        let message = Message::new(&id).next("p", n + 1);
                        match run(handler, message, &id) {
                            Action::Proceed => {
                                first.fetch_add(1, Ordering::Relaxed);
                                break;
                            }
                            Action::Ack => break,
                            Action::Retry(_) => std::thread::yield_now(),
                            other => panic!("{id}: {other:?}"),
                        }
                    }
                }
            });
        }
    });
    first.into_inner()
}

#[track_caller]
fn is_once(store: &Store, sums: &Table, first: u64) {
    assert_eq!(first, MESSAGES);
    for n in 0..MESSAGES {
        assert_eq!(counter(sums, &format!("m{n}")), Some(1), "{n}");
    }
    let point = store.resume_point("p").unwrap().and_then(|p| p.as_u64());
    assert_eq!(point, Some(MESSAGES));
}

/// The resume point is moved by whoever is ahead; who isn't is no less done.
#[test]
fn of_threads_with_one_source_each_message_is_first_once() {
    let store = Store::in_memory(Options::new()).unwrap();
    let sums = store.guarded_table("sums").unwrap();
    let handler = store.scope("s", policy()).unwrap();
    let handler = handler.handler(Source::Replayable);
    let first = race(&handler, |handler, message, id| {
        let handled = handler.process(message, |tx| {
            tx.add(&sums, id, 1, ..);
            Ok::<_, Oops>(())
        });
        handled.action()
    });
    is_once(&store, &sums, first);
}

#[test]
fn of_threads_with_claims_each_effect_is_made_once() {
    let store = Store::in_memory(Options::new()).unwrap();
    let sums = store.guarded_table("sums").unwrap();
    let handler = store.scope("s", policy()).unwrap();
    let handler = handler.handler(Source::Replayable);
    let made = AtomicU64::new(0);
    let first = race(&handler, |handler, message, id| {
        let handled = handler.perform(message, |work| {
            made.fetch_add(1, Ordering::Relaxed);
            work.writes().add(&sums, id, 1, ..);
            Ok::<_, Oops>(())
        });
        handled.action()
    });
    is_once(&store, &sums, first);
    assert_eq!(made.into_inner(), MESSAGES);
}
