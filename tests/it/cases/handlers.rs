//! Handlers: from a message to what its broker is told, and the switches of scopes.

mod observe;
mod open;
mod perform;
mod process;
mod random;
mod threads;
mod twins;

use std::fmt;

use firstseen::{
    Action, Durability, FailureKind, Handled, HandlerError, Message, Options, Policy, Store, days,
};

use super::{quiet, secs};

/// A handler's failure of a kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Oops(FailureKind);

impl fmt::Display for Oops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "it failed as {:?}", self.0)
    }
}

impl HandlerError for Oops {
    fn failure_kind(&self) -> FailureKind {
        self.0
    }
}

impl From<firstseen::Error> for Oops {
    fn from(error: firstseen::Error) -> Oops {
        panic!("the store's own errors are no handler's: {error}")
    }
}

fn policy() -> Policy {
    Policy::remember(days(7)).lease(secs(30)).wait(secs(0))
}

/// The number of the last commit, and of the last one known durable.
fn numbers(store: &Store) -> (u64, u64) {
    let stats = store.stats().unwrap();
    (stats.written, stats.durable)
}

#[track_caller]
fn is_durable(store: &Store) {
    let (written, durable) = numbers(store);
    assert_eq!(written, durable, "acknowledged before it was durable");
}

/// Whether an answer lets the broker forget the message.
fn lets_go<T, E>(handled: &Handled<T, E>) -> bool {
    match handled.action() {
        Action::Proceed | Action::Ack => true,
        Action::Retry(_) | Action::DeadLetter | Action::Stop => false,
    }
}

fn message(id: &str) -> Message<'_> {
    Message::new(id).payload(b"body")
}

fn written() -> Options {
    quiet().durability(Durability::Written)
}
