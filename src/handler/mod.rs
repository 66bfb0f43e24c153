//! Handlers: from a message to what its broker is told.
//!
//! A handler puts together what a consumer does with each message: check or claim the id, run,
//! record what became of it, and answer with the one [`Action`] that loses nothing.
//!
//! | came out as | recorded | action |
//! | --- | --- | --- |
//! | handler succeeded | id, rows, resume point | `Proceed` |
//! | duplicate, failed before, dead-lettered before | resume point | `Ack` |
//! | handler failed for good | id as failed, or with its dead letter; resume point | `Ack` |
//! | handler failed: `Retryable`, `Unknown` | nothing; of a claim the attempt | `Retry` |
//! | in progress elsewhere, lease lost | nothing | `Retry` |
//! | refused without fallback, bad id, other payload, late | nothing | `DeadLetter` |
//! | handler failed: `Stop` | nothing | `Stop` |
//! | the store failed | nothing, or unknown until it is reopened | `Retry` or `Stop` |
//!
//! - G1: nothing is answered `Ack` or `Proceed` unless the store has it as durably as the source
//!   needs, or has nothing to keep of it. The exception is a scope that was switched to fail open.
//! - G2: a resume point moves with the commit of its message, or after a verdict that wrote nothing
//!   and is acknowledged; never behind a message that must come again or be set aside. So one that
//!   is to be set aside is replayed until a later one moves the point, or its caller does.
//! - G3: a store's error is never a handler's: what a closure passes on of it is not classified,
//!   and no message is given up because its store failed.
//!
//! A panic of the handler goes through: an effect in the store was not made and the id is free;
//! with a claim the lease runs out, as what was begun may have happened.

mod failure;
mod handled;
mod message;
mod point;
mod work;

use std::fmt::Display;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::options::Durability;
use crate::scope::Scope;
use crate::tx::Tx;
use crate::verdict::{Action, Verdict};

pub use failure::{Failed, FailureKind, HandlerError};
pub use handled::Handled;
pub use message::{Message, Source};
pub use work::{Begun, Work};

use point::Point;

/// Turns messages into effects that happen once, and into what their broker is told.
///
/// `Send + Sync`, cheap to clone. Its calls block as those of its scope do (docs/async.md).
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use firstseen::{days, Action, Failed, FailureKind, Message, Options, Policy, Source, Store};
/// let store = Store::open(dir.path(), Options::new())?;
/// let payments = store.scope("payments", Policy::remember(days(7)))?.handler(Source::AckOnce);
/// let ledger = store.table("ledger")?;
/// let mut deliver = |id: &str, body: &str| {
///     let message = Message::new(id).payload(body);
///     let handled = payments.process(message, |tx| {
///         let sum: u64 = body.parse().map_err(|e| Failed::new(FailureKind::Poison, e))?;
///         tx.put(&ledger, id, sum.to_le_bytes());
///         Ok::<_, Failed>(())
///     });
///     handled.action()
/// };
/// assert_eq!(deliver("pay-1", "10"), Action::Proceed);
/// assert_eq!(deliver("pay-1", "10"), Action::Ack); // again
/// assert_eq!(deliver("pay-2", "ten"), Action::Ack); // it is among the dead letters
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Handler {
    scope: Scope,
    source: Source,
    pause: Duration,
}

/// What one run of a closure came to, if it is to be committed.
enum Ran<T, E> {
    Done(T),
    /// It failed for good, and that is what is recorded.
    Ended(E),
}

/// Why a closure's run is not committed.
enum Unmade<E> {
    Store(Error),
    Handler(E, Action),
}

impl<E> From<Error> for Unmade<E> {
    fn from(error: Error) -> Unmade<E> {
        Unmade::Store(error)
    }
}

/// When a broker is told to deliver again what the store could not take.
const PAUSE: Duration = Duration::from_secs(1);
/// The shortest pause that is told: none would make a consumer spin.
const PAUSE_MIN: Duration = Duration::from_millis(1);

impl Handler {
    pub(crate) fn new(scope: &Scope, source: Source) -> Handler {
        Handler {
            scope: scope.clone(),
            source,
            pause: PAUSE,
        }
    }

    /// When a message is to come again that the store could not take, because it was busy or its
    /// disk full. Default: one second.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Handler {
        self.pause = pause.max(PAUSE_MIN);
        self
    }

    /// Its scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Handles a message whose effect is in the store: [`Scope::once`], then the action.
    ///
    /// The closure runs if the message is first seen (or the scope only observes). What it wrote,
    /// the id and the source's resume point are one commit. It may run more than once and takes
    /// effect once. An error from it is classified ([`HandlerError`]): for good, its own writes are
    /// dropped and that outcome is committed instead, in the same hold of the id; else nothing is.
    /// A store that fails answers `Retry` or `Stop` whatever
    /// [`OnStoreError`](crate::OnStoreError) says: without it there is no effect.
    pub fn process<T, E: HandlerError>(
        &self,
        message: Message<'_>,
        mut run: impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Handled<T, E> {
        let handled = self.try_process(&message, &mut run);
        handled.unwrap_or_else(|error| Handled::unstored(error, self.pause))
    }

    fn try_process<T, E: HandlerError>(
        &self,
        message: &Message<'_>,
        run: &mut impl FnMut(&mut Tx<'_>) -> Result<T, E>,
    ) -> Result<Handled<T, E>> {
        message.check(self.source)?;
        let core = self.scope.shared.core()?;
        let point = Point::of(&core, message)?;
        let level = self.level(core.durability);
        let id = message.id(self.scope.used.policy.payloads);
        let verdict = self.scope.once_at(&core, &id, level, |tx| {
            if let Some(point) = &point {
                point.set(&core, tx)?;
            }
            let ran = run(tx);
            if let Some(error) = tx.failure() {
                return Err(Unmade::Store(error));
            }
            match ran {
                Ok(value) => Ok(Ran::Done(value)),
                Err(failure) => self.end(tx, message, failure),
            }
        });
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(Unmade::Store(error)) => return Err(error),
            Err(Unmade::Handler(failure, action)) => {
                return Ok(Handled::failed(failure, action));
            }
        };
        let is_committed = match &verdict {
            Verdict::Refused(refusal) => refusal.is_settled(),
            verdict => verdict.is_first(),
        };
        if let (Some(point), false, Action::Ack) = (&point, is_committed, verdict.action()) {
            point.advance(&self.scope, level)?;
        }
        Ok(match verdict {
            Verdict::First(Ran::Ended(failure)) | Verdict::Observed(Ran::Ended(failure), _) => {
                Handled::failed(failure, Action::Ack)
            }
            verdict => Handled::answered(verdict.map(|ran| match ran {
                Ran::Done(value) => value,
                Ran::Ended(_) => unreachable!("it was told above"),
            })),
        })
    }

    /// What a closure's own error comes to.
    fn end<T, E: HandlerError>(
        &self,
        tx: &mut Tx<'_>,
        message: &Message<'_>,
        failure: E,
    ) -> Result<Ran<T, E>, Unmade<E>> {
        let kind = failure.failure_kind();
        if let Some(action) = self.again(kind) {
            return Err(Unmade::Handler(failure, action));
        }
        if kind == FailureKind::Poison && message.id.bytes.is_none() {
            // Without an id there is nothing to keep it under.
            return Err(Unmade::Handler(failure, Action::DeadLetter));
        }
        tx.undo();
        match kind {
            FailureKind::Poison => {
                tx.dead_letter(&failure.to_string(), message.payload);
            }
            _ => tx.fail_for_good(&failure.to_string()),
        }
        Ok(Ran::Ended(failure))
    }

    /// The action of a failure that leaves the message to a later attempt.
    fn again(&self, kind: FailureKind) -> Option<Action> {
        match kind {
            FailureKind::Retryable | FailureKind::Unknown => Some(Action::Retry(self.backoff())),
            FailureKind::RetryAfter(pause) => Some(Action::Retry(pause.max(PAUSE_MIN))),
            FailureKind::Stop => Some(Action::Stop),
            FailureKind::Permanent | FailureKind::Poison => None,
        }
    }

    fn backoff(&self) -> Duration {
        self.scope.used.policy.backoff.max(PAUSE_MIN)
    }

    /// The level that an answer to the source needs.
    fn level(&self, own: Durability) -> Durability {
        match self.source {
            Source::Replayable => own,
            Source::AckOnce => Durability::Synced,
        }
    }

    /// An error's text, as long as the policy stores results.
    fn result_of(&self, failure: &impl Display) -> String {
        let mut text = failure.to_string();
        let mut end = text.len().min(self.scope.used.policy.result_bytes_max);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text
    }
}

const _: fn() = || {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn owned<T: Send + 'static>() {}
    shared::<Handler>();
    owned::<Work>();
    owned::<Handled>();
};
