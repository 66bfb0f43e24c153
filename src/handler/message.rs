//! A message as a handler takes it, and the kind of source that it is from.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::position::Position;

/// What a broker does with a message that was acknowledged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// It can be read again from a position, and the consumer begins at the store's own
    /// ([`Store::resume_point`](crate::Store::resume_point)). Kafka, a log file. Commits are as
    /// durable as the store's level: what a power failure takes is read again. Messages of one
    /// position are handled one after another, in their order.
    Replayable,
    /// It is forgotten. AMQP, SQS, NATS, an HTTP request. Nothing is answered `Ack` or `Proceed`
    /// before a sync covers the commit, or that of its original.
    AckOnce,
}

/// One message.
///
/// ```
/// use firstseen::Message;
/// let message = Message::new("order-17").payload(b"tea").next("orders/3", 42);
/// # let _ = message;
/// ```
#[derive(Clone, Debug)]
pub struct Message<'a> {
    pub(super) id: Id<'a>,
    pub(super) payload: &'a [u8],
    pub(super) next: Option<(&'a str, Position)>,
}

impl<'a> Message<'a> {
    /// A message with this id.
    pub fn new(id: impl Into<Id<'a>>) -> Message<'a> {
        Message {
            id: id.into(),
            payload: &[],
            next: None,
        }
    }

    /// Its body: kept with its dead letter, and compared if the scope compares payloads
    /// ([`Policy::payloads`](crate::Policy::payloads)).
    #[must_use]
    pub fn payload<T: AsRef<[u8]> + ?Sized>(mut self, body: &'a T) -> Message<'a> {
        self.payload = body.as_ref();
        self
    }

    /// Where its source goes on behind it: the *next* position to read. It moves the resume point
    /// in the commit that the message leads to, and stays where it is while the message must come
    /// again. Of replayable sources only, where each message has one.
    #[must_use]
    pub fn next(mut self, source: &'a str, position: impl Into<Position>) -> Message<'a> {
        self.next = Some((source, position.into()));
        self
    }

    pub(super) fn id(&self, compares_payloads: bool) -> Id<'a> {
        match compares_payloads && self.id.payload.is_none() && !self.payload.is_empty() {
            true => self.id.payload(self.payload),
            false => self.id,
        }
    }

    pub(super) fn check(&self, source: Source) -> Result<()> {
        match (source, &self.next) {
            (Source::Replayable, None) => Err(Error::invalid(
                "a message of a replayable source has no next position (`Message::next`)",
            )),
            (Source::AckOnce, Some(_)) => Err(Error::invalid(
                "a message that is acknowledged once has a position, as if it could be read again",
            )),
            _ => Ok(()),
        }
    }
}
