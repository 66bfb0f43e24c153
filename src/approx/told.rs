//! What an approximate scope tells its callers, in types of its own, so that nobody takes it for
//! exact.

use std::time::SystemTime;

use crate::verdict::{Action, BadId};

/// What an approximate scope says of an id. Not a [`Verdict`](crate::Verdict): it may err in one
/// direction.
///
/// ```
/// use firstseen::{Action, Sight};
/// assert_eq!(Sight::First.action(), Action::Proceed);
/// assert_eq!(Sight::Probably { error_rate: 0.01 }.action(), Action::Ack);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Sight {
    /// Certainly not seen within the window (after a crash: as far as
    /// [`ApproximateScope::recovery`](crate::ApproximateScope::recovery) says), and recorded.
    First,
    /// Probably seen within the window. A new id is told so, too, with a chance of
    /// `error_rate`; nothing is recorded then.
    Probably {
        /// The chance with which a new id would be told this now, by what is recorded: at most
        /// the stated one while no more than the expected ids are.
        error_rate: f64,
    },
    /// It is no id; nothing is recorded.
    BadId(BadId),
}

impl Sight {
    /// What to do with the message, if a mistake with the stated chance may lose it.
    #[must_use]
    pub fn action(&self) -> Action {
        match self {
            Sight::First => Action::Proceed,
            Sight::Probably { .. } => Action::Ack,
            Sight::BadId(_) => Action::DeadLetter,
        }
    }

    /// Whether it is the first sight.
    #[must_use]
    pub fn is_first(&self) -> bool {
        matches!(self, Sight::First)
    }
}

/// About how many distinct ids there were.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Distinct {
    /// The estimate, of first and seen ids alike.
    pub estimate: u64,
    /// Its standard error as a share of it: two thirds of all estimates are as near as that.
    pub standard_error: f64,
    /// From when on ids were counted: when the oldest remembered slice began.
    pub since: SystemTime,
}

/// Whether all that was first within the window is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Recovery {
    /// All of it: the scope was made in this opening, or closed properly before it, or what a
    /// crash took would be forgotten by now anyway.
    Whole,
    /// The process ended without closing the store. Ids that were first within this time may be
    /// *first again*.
    Short {
        /// When the snapshot was begun that it came back with.
        from: SystemTime,
        /// When it was opened after that.
        until: SystemTime,
    },
}

/// Counters and sizes of an approximate scope, since it was opened unless said otherwise.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ApproximateStats {
    /// Ids that were first.
    pub first: u64,
    /// Answers that an id was probably seen.
    pub probably: u64,
    /// Ids that are remembered, over all openings.
    pub remembered: u64,
    /// Ids of the fullest slice, as a share of what a slice is made for. Above 1 the error rate
    /// may be above the stated one.
    pub fill: f64,
    /// The chance that a new id is taken for a seen one now, by what is recorded.
    pub error_rate: f64,
    /// The stated one.
    pub error_rate_stated: f64,
    /// Ids recorded in a slice that already had all it is made for: an alarm should watch it.
    pub beyond_expected: u64,
    /// Memory, in bytes: always the same.
    pub bytes: u64,
    /// Slices begun.
    pub rotations: u64,
    /// When the last snapshot was begun, in effective time; of a new scope, when it was made.
    pub snapshot_at: SystemTime,
    /// Snapshots written.
    pub snapshots: u64,
    /// Snapshots that failed. The next one is tried an interval later.
    pub snapshots_failed: u64,
}
