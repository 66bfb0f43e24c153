//! What a check answers: one enum for every call, and the closed set of reactions to it.

use std::fmt;
use std::ops::Deref;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The answer for one id.
///
/// Only [`First`](Verdict::First) means that the effect belongs to this message. Match
/// [`action`](Verdict::action) rather than the verdict itself when all you need is what to tell
/// the broker: [`Action`] never grows, so no `_` arm can turn a new verdict into loss.
#[must_use = "a verdict decides whether the effect may happen"]
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Verdict<T = ()> {
    /// First seen: the id is recorded (or held, see [`Batch::hold`](crate::Batch::hold)).
    First(T),
    /// Seen before, within retention. The effect is already there: acknowledge.
    Duplicate(Sighting),
    /// Seen before, with another payload ([`Id::payload`](crate::Id::payload)): the producer used
    /// one id for two messages. Nothing was written for it, and the id lives no longer for it.
    PayloadMismatch(Sighting),
    /// Another caller holds the id and did not finish in time, or has a claim of it whose lease
    /// runs, or a prepared transaction has it, or the id rests after a failed attempt. Nothing is
    /// known yet.
    InProgress(InProgress),
    /// A condition of the item's writes did not hold.
    Refused(Refusal),
    /// The id is missing, empty or too long for the scope, or carries no time that it should.
    BadId(BadId),
    /// A claim of the id failed for good ([`Failure::Permanent`](crate::Failure::Permanent)); the
    /// sighting has its result. It stays so for as long as the id is remembered: acknowledge.
    Failed(Sighting),
    /// The id was given up: at the limit of attempts, or by
    /// [`Writes::dead_letter`](crate::Writes::dead_letter). Its message is kept with the store's
    /// dead letters ([`Scope::dead_letters`](crate::Scope::dead_letters)): acknowledge.
    DeadLettered(Sighting),
    /// Nobody knows whether the effect took place, and the policy waits for a decision
    /// ([`Scope::decide`](crate::Scope::decide)).
    OutcomeUnknown(Sighting),
    /// The claim that a batch was to complete is somebody else's by now; nothing was written for
    /// it.
    LeaseLost,
    /// The caller finished without recording the id.
    Declined(T),
    /// Too old to tell whether it was seen: what would tell is gone. To be set aside, or to be
    /// acknowledged if the scope says so ([`OnLate`](crate::OnLate)). Of an id that carries its own
    /// time the sighting has that time, as nothing else is known of it.
    Late(Sighting),
    /// A later epoch of the producer has begun: whoever sent this may not go on.
    Fenced,
    /// The producer is not known and the policy does not let it in.
    UnknownProducer,
    /// The scope only observes ([`Mode::ObserveOnly`](crate::Mode::ObserveOnly)), and would have
    /// answered the verdict within: the effect belongs to this message all the same. What was
    /// known of the id stays as it is.
    Observed(T, Box<Verdict>),
}

/// What to do with the message. Closed for ever: match it without `_`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Go on with the effect; after a commit: it happened, acknowledge.
    Proceed,
    /// Nothing is left to do: acknowledge.
    Ack,
    /// Deliver it again after this time.
    Retry(Duration),
    /// It can't succeed as it is: set it aside.
    DeadLetter,
    /// This consumer may not go on (it is not the owner any more).
    Stop,
}

/// Until when an unfinished id is likely to be held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct InProgress {
    retry_after_ms: u64,
}

impl InProgress {
    pub(crate) fn new(retry_after_ms: u64) -> InProgress {
        InProgress {
            retry_after_ms: retry_after_ms.max(1),
        }
    }

    /// When asking again makes sense; never zero.
    #[must_use]
    pub fn retry_after(&self) -> Duration {
        Duration::from_millis(self.retry_after_ms)
    }
}

/// Which write of the item was refused, and what became of the id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    write: u32,
    settled: bool,
}

impl Refusal {
    pub(crate) fn new(write: u32, settled: bool) -> Refusal {
        Refusal { write, settled }
    }

    /// The position of the refused write among the item's writes, from 0.
    #[must_use]
    pub fn write(&self) -> usize {
        self.write as usize
    }

    /// Whether the item had an `if_refused`, so that the id is recorded, with those writes.
    /// Otherwise nothing was recorded and the id is free.
    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.settled
    }
}

/// Why an id can't be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BadId {
    /// There was none.
    Missing,
    /// It has no bytes.
    Empty,
    /// It has more bytes than the scope's limit.
    TooLong {
        /// Its length in bytes.
        bytes: u32,
        /// The limit in bytes.
        bytes_max: u32,
    },
    /// It carries no time of its own in a scope of ids that do
    /// ([`Policy::id_time`](crate::Policy::id_time)).
    NoTime,
    /// Its own time is further ahead of the store's than the scope allows
    /// ([`Policy::ahead_max`](crate::Policy::ahead_max)).
    TooFarAhead {
        /// By how much it is ahead, in seconds begun.
        secs: u32,
    },
}

impl fmt::Display for BadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadId::Missing => f.write_str("the id is missing"),
            BadId::Empty => f.write_str("the id is empty"),
            BadId::TooLong { bytes, bytes_max } => {
                write!(f, "the id has {bytes} bytes, more than {bytes_max}")
            }
            BadId::NoTime => f.write_str("the id carries no time of its own"),
            BadId::TooFarAhead { secs } => {
                write!(
                    f,
                    "the id's own time is {secs} seconds ahead, more than is allowed"
                )
            }
        }
    }
}

/// What has become of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum IdState {
    /// Its effect took place.
    #[default]
    Done,
    /// A claim of it failed for good.
    Failed,
    /// It was given up.
    DeadLettered,
    /// It is claimed; the lease may have run out.
    Claimed,
    /// An attempt failed or was released, and the next one may be made, at once or after a rest.
    Waiting,
    /// Whether its effect took place is not known, and waits for a decision.
    OutcomeUnknown,
}

/// What is known about an id that was seen before.
#[derive(Clone, PartialEq, Eq)]
pub struct Sighting {
    first_seen_ms: u64,
    extra: Option<Box<Extra>>,
}

/// The parts of a sighting that few records have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Extra {
    pub(crate) source: Option<Box<str>>,
    pub(crate) refused: bool,
    pub(crate) result: Option<Box<[u8]>>,
    pub(crate) state: IdState,
    pub(crate) attempt: u32,
    /// Of a late id: it is worth nothing any more.
    pub(crate) is_dropped: bool,
}

impl Sighting {
    pub(crate) fn new(first_seen_ms: u64, extra: Option<Extra>) -> Sighting {
        let extra = extra.filter(|e| *e != Extra::default()).map(Box::new);
        Sighting {
            first_seen_ms,
            extra,
        }
    }

    /// When the id was first seen, by the store's clock, to the millisecond. A sequence number
    /// was seen then or before: it is when its producer last recorded one.
    #[must_use]
    pub fn first_seen_at(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.first_seen_ms)
    }

    /// Where it was first seen, if the scope keeps sources and the id brought one.
    #[must_use]
    pub fn source(&self) -> Option<&str> {
        self.extra.as_ref()?.source.as_deref()
    }

    /// What has become of it.
    #[must_use]
    pub fn state(&self) -> IdState {
        self.extra.as_ref().map_or(IdState::Done, |e| e.state)
    }

    /// The attempt that it was brought to this state by, from 1; `None` if it never was claimed.
    #[must_use]
    pub fn attempt(&self) -> Option<u32> {
        self.extra.as_ref().map(|e| e.attempt).filter(|n| *n > 0)
    }

    /// Whether it was late, and the scope drops what is.
    fn is_dropped(&self) -> bool {
        self.extra.as_ref().is_some_and(|e| e.is_dropped)
    }

    /// Whether the id was recorded by an `if_refused`: its conditions did not hold then.
    #[must_use]
    pub fn was_refused(&self) -> bool {
        self.extra.as_ref().is_some_and(|e| e.refused)
    }

    /// The result stored with the id ([`Writes::result`](crate::Writes::result)), byte for byte,
    /// if there is one.
    #[must_use]
    pub fn result(&self) -> Option<&[u8]> {
        self.extra.as_ref()?.result.as_deref()
    }
}

impl fmt::Debug for Sighting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sighting")
            .field("first_seen_ms", &self.first_seen_ms)
            .field("source", &self.source())
            .field("was_refused", &self.was_refused())
            .field("state", &self.state())
            .field("attempt", &self.attempt())
            .field("result_bytes", &self.result().map(<[u8]>::len))
            .finish()
    }
}

/// When to ask again for what somebody must decide; the broker keeps the message until then.
const UNDECIDED_PAUSE: Duration = Duration::from_secs(60);
/// When to ask again for what somebody else has taken over.
const LOST_PAUSE: Duration = Duration::from_secs(1);

impl<T> Verdict<T> {
    /// The verdict for an id that a record stands for.
    pub(crate) fn seen(sighting: Sighting) -> Verdict<T> {
        match sighting.state() {
            IdState::Failed => Verdict::Failed(sighting),
            IdState::DeadLettered => Verdict::DeadLettered(sighting),
            IdState::OutcomeUnknown => Verdict::OutcomeUnknown(sighting),
            _ => Verdict::Duplicate(sighting),
        }
    }

    /// What to do with the message.
    pub fn action(&self) -> Action {
        match self {
            Verdict::First(_) => Action::Proceed,
            Verdict::Duplicate(_) | Verdict::Declined(_) => Action::Ack,
            // Settled, and kept where they are listed.
            Verdict::Failed(_) | Verdict::DeadLettered(_) => Action::Ack,
            Verdict::OutcomeUnknown(_) => Action::Retry(UNDECIDED_PAUSE),
            // Whoever has it now answers for it.
            Verdict::LeaseLost => Action::Retry(LOST_PAUSE),
            Verdict::InProgress(p) => Action::Retry(p.retry_after()),
            Verdict::Refused(r) if r.is_settled() => Action::Ack,
            Verdict::Refused(_) | Verdict::BadId(_) | Verdict::PayloadMismatch(_) => {
                Action::DeadLetter
            }
            Verdict::Late(s) if s.is_dropped() => Action::Ack,
            Verdict::Late(_) | Verdict::UnknownProducer => Action::DeadLetter,
            Verdict::Fenced => Action::Stop,
            Verdict::Observed(..) => Action::Proceed,
        }
    }

    /// Whether the effect belongs to this message: `First` and `Observed`.
    pub fn is_first(&self) -> bool {
        matches!(self, Verdict::First(_) | Verdict::Observed(..))
    }

    /// What a scope that only observes would have answered otherwise.
    pub fn would_be(&self) -> Option<&Verdict> {
        match self {
            Verdict::Observed(_, instead) => Some(instead),
            _ => None,
        }
    }

    /// Whether the id was seen before; also if the scope only observes, where the effect belongs to
    /// the message all the same. [`action`](Verdict::action) tells the two apart.
    pub fn is_duplicate(&self) -> bool {
        let said = self.would_be().is_some_and(Verdict::is_duplicate);
        said || matches!(self, Verdict::Duplicate(_))
    }

    /// What the first sight brought, if this is one; or what is processed as if it were.
    pub fn first(self) -> Option<T> {
        match self {
            Verdict::First(value) | Verdict::Observed(value, _) => Some(value),
            _ => None,
        }
    }

    pub(crate) fn map<U>(self, f: impl FnOnce(T) -> U) -> Verdict<U> {
        match self {
            Verdict::First(t) => Verdict::First(f(t)),
            Verdict::Declined(t) => Verdict::Declined(f(t)),
            Verdict::Duplicate(s) => Verdict::Duplicate(s),
            Verdict::PayloadMismatch(s) => Verdict::PayloadMismatch(s),
            Verdict::InProgress(p) => Verdict::InProgress(p),
            Verdict::Refused(r) => Verdict::Refused(r),
            Verdict::BadId(b) => Verdict::BadId(b),
            Verdict::Failed(s) => Verdict::Failed(s),
            Verdict::DeadLettered(s) => Verdict::DeadLettered(s),
            Verdict::OutcomeUnknown(s) => Verdict::OutcomeUnknown(s),
            Verdict::LeaseLost => Verdict::LeaseLost,
            Verdict::Late(s) => Verdict::Late(s),
            Verdict::Fenced => Verdict::Fenced,
            Verdict::UnknownProducer => Verdict::UnknownProducer,
            Verdict::Observed(t, instead) => Verdict::Observed(f(t), instead),
        }
    }
}

/// The verdicts of a batch, one for each item, in the order of the items.
#[must_use = "verdicts decide which effects may happen"]
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdicts(Vec<Verdict>);

impl Verdicts {
    pub(crate) fn new(verdicts: Vec<Verdict>) -> Verdicts {
        Verdicts(verdicts)
    }
}

impl Deref for Verdicts {
    type Target = [Verdict];

    fn deref(&self) -> &[Verdict] {
        &self.0
    }
}

impl IntoIterator for Verdicts {
    type Item = Verdict;
    type IntoIter = std::vec::IntoIter<Verdict>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a Verdicts {
    type Item = &'a Verdict;
    type IntoIter = std::slice::Iter<'a, Verdict>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

const _: () = assert!(size_of::<Verdict>() <= 24, "a verdict is three words");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_verdict_has_its_action() {
        let seen = Sighting::new(5, None);
        assert_eq!(Verdict::First(1).action(), Action::Proceed);
        assert_eq!(Verdict::<()>::Duplicate(seen.clone()).action(), Action::Ack);
        assert_eq!(
            Verdict::<()>::PayloadMismatch(seen).action(),
            Action::DeadLetter
        );
        assert_eq!(Verdict::Declined(()).action(), Action::Ack);
        let of = |state| {
            let extra = Extra {
                state,
                ..Extra::default()
            };
            Verdict::<()>::seen(Sighting::new(5, Some(extra))).action()
        };
        assert_eq!(of(IdState::Done), Action::Ack);
        assert_eq!(of(IdState::Failed), Action::Ack);
        assert_eq!(of(IdState::DeadLettered), Action::Ack);
        assert!(matches!(of(IdState::OutcomeUnknown), Action::Retry(_)));
        assert!(matches!(
            Verdict::<()>::LeaseLost.action(),
            Action::Retry(_)
        ));
        assert_eq!(
            Verdict::<()>::Refused(Refusal::new(0, true)).action(),
            Action::Ack
        );
        assert_eq!(
            Verdict::<()>::Refused(Refusal::new(0, false)).action(),
            Action::DeadLetter
        );
        assert_eq!(
            Verdict::<()>::BadId(BadId::Missing).action(),
            Action::DeadLetter
        );
        let wait = Verdict::<()>::InProgress(InProgress::new(0));
        assert_eq!(wait.action(), Action::Retry(Duration::from_millis(1)));
        assert_eq!(Verdict::<()>::Fenced.action(), Action::Stop);
        let unknown = Verdict::<()>::UnknownProducer;
        assert_eq!(unknown.action(), Action::DeadLetter);
        let known = Box::new(Verdict::Duplicate(Sighting::new(5, None)));
        let observed = Verdict::Observed(7, known);
        assert_eq!(observed.action(), Action::Proceed);
        assert!(observed.is_first() && observed.is_duplicate());
        assert_eq!(observed.first(), Some(7));
        let late = Verdict::<()>::Late(Sighting::new(5, None));
        assert_eq!(late.action(), Action::DeadLetter);
        let dropped = Extra {
            is_dropped: true,
            ..Extra::default()
        };
        let dropped = Verdict::<()>::Late(Sighting::new(5, Some(dropped)));
        assert_eq!(dropped.action(), Action::Ack);
    }
}
