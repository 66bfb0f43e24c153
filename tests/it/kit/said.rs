//! What a step answers, as text: the one form in which model and store are compared.
//!
//! Times are told as milliseconds since the program began, so that histories of different runs
//! compare. Errors are told by their kind: messages may change.

use std::fmt;

use firstseen::{BadId, Error, IdState, Recorded, Sighting, Verdict};

use super::op::Point;

/// What is known of an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sight {
    /// When it was first seen.
    pub(crate) first_ms: u64,
    pub(crate) refused: bool,
    pub(crate) source: Option<String>,
    pub(crate) result: Option<Vec<u8>>,
    /// What has become of it: "" is done.
    pub(crate) state: &'static str,
    /// 0: it was never claimed.
    pub(crate) attempt: u32,
}

/// A verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    First,
    Duplicate(Sight),
    Mismatch(Sight),
    InProgress,
    Refused { write: usize, settled: bool },
    Bad(&'static str),
    Declined,
    Failed(Sight),
    Dead(Sight),
    Unknown(Sight),
    Late(Sight),
    Fenced,
    UnknownProducer,
}

/// A call that failed: the error's kind.
pub(crate) type Kind = &'static str;

pub(crate) const INVALID: Kind = "Invalid";
pub(crate) const BUSY: Kind = "Busy";
pub(crate) const FULL: Kind = "Full";
pub(crate) const UNDECIDED: Kind = "Undecided";
pub(crate) const IN_DOUBT: Kind = "InDoubt";
pub(crate) const TRANSACTION_ENDED: Kind = "TransactionEnded";
pub(crate) const UNKNOWN_TRANSACTION: Kind = "UnknownTransaction";
pub(crate) const UNKNOWN: Kind = "Degraded, outcome unknown";
/// The closure's own error.
pub(crate) const CLOSURE: Kind = "the closure's own";

/// How often each verdict was given since the store was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) first: u64,
    pub(crate) duplicates: u64,
    pub(crate) mismatches: u64,
    pub(crate) in_progress: u64,
    pub(crate) refused: u64,
    pub(crate) bad_ids: u64,
    pub(crate) declined: u64,
    pub(crate) late: u64,
    pub(crate) fenced: u64,
    pub(crate) unknown_producers: u64,
    pub(crate) evicted: u64,
    pub(crate) unkeyed: u64,
    pub(crate) forgotten: u64,
    pub(crate) undecided: u64,
    pub(crate) failed: u64,
    pub(crate) dead: u64,
    pub(crate) unknown: u64,
}

impl Totals {
    pub(crate) fn count(&mut self, said: &Said) {
        let counter = match said {
            Said::First => &mut self.first,
            Said::Duplicate(_) => &mut self.duplicates,
            Said::Mismatch(_) => &mut self.mismatches,
            Said::InProgress => &mut self.in_progress,
            Said::Refused { .. } => &mut self.refused,
            Said::Bad(_) => &mut self.bad_ids,
            Said::Declined => &mut self.declined,
            Said::Failed(_) => &mut self.failed,
            Said::Dead(_) => &mut self.dead,
            Said::Unknown(_) => &mut self.unknown,
            Said::Late(_) => &mut self.late,
            Said::Fenced => &mut self.fenced,
            Said::UnknownProducer => &mut self.unknown_producers,
        };
        *counter += 1;
    }
}

impl Sight {
    pub(crate) fn of(sighting: &Sighting, start: std::time::SystemTime) -> Sight {
        let since = sighting.first_seen_at().duration_since(start);
        let first_ms = since.map_or(u64::MAX, |d| d.as_millis() as u64);
        let source = sighting.source().map(str::to_string);
        Sight {
            first_ms,
            refused: sighting.was_refused(),
            source,
            result: sighting.result().map(<[u8]>::to_vec),
            state: state(sighting.state()),
            attempt: sighting.attempt().unwrap_or(0),
        }
    }
}

impl Said {
    pub(crate) fn of<T>(verdict: &Verdict<T>, start: std::time::SystemTime) -> Said {
        match verdict {
            Verdict::First(_) => Said::First,
            Verdict::Duplicate(seen) => Said::Duplicate(Sight::of(seen, start)),
            Verdict::PayloadMismatch(seen) => Said::Mismatch(Sight::of(seen, start)),
            Verdict::InProgress(_) => Said::InProgress,
            Verdict::Refused(refusal) => Said::Refused {
                write: refusal.write(),
                settled: refusal.is_settled(),
            },
            Verdict::BadId(BadId::Missing) => Said::Bad("missing"),
            Verdict::BadId(BadId::Empty) => Said::Bad("empty"),
            Verdict::BadId(BadId::TooLong { .. }) => Said::Bad("too long"),
            Verdict::BadId(BadId::NoTime) => Said::Bad("no time"),
            Verdict::BadId(BadId::TooFarAhead { .. }) => Said::Bad("ahead"),
            Verdict::Declined(_) => Said::Declined,
            Verdict::Failed(seen) => Said::Failed(Sight::of(seen, start)),
            Verdict::DeadLettered(seen) => Said::Dead(Sight::of(seen, start)),
            Verdict::OutcomeUnknown(seen) => Said::Unknown(Sight::of(seen, start)),
            Verdict::Late(seen) => Said::Late(Sight::of(seen, start)),
            Verdict::Fenced => Said::Fenced,
            Verdict::UnknownProducer => Said::UnknownProducer,
            _ => panic!("a verdict that the model does not know"),
        }
    }
}

/// The state of an id, in a word.
pub(crate) fn state(state: IdState) -> &'static str {
    match state {
        IdState::Done => "",
        IdState::Failed => "failed",
        IdState::DeadLettered => "dead",
        IdState::Claimed => "claimed",
        IdState::Waiting => "waiting",
        IdState::OutcomeUnknown => "unknown",
        _ => panic!("a state that the model does not know"),
    }
}

/// The kind of an error, told apart where the outcome is unknown.
pub(crate) fn kind(error: &Error) -> String {
    let unknown = error.recorded() == Recorded::Unknown;
    format!(
        "{:?}{}",
        error.kind(),
        if unknown { ", outcome unknown" } else { "" }
    )
}

impl fmt::Display for Sight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "since {}", self.first_ms)?;
        if self.refused {
            f.write_str(" (refused)")?;
        }
        if let Some(source) = &self.source {
            write!(f, " from {source}")?;
        }
        if let Some(result) = &self.result {
            let byte = result.first().copied().unwrap_or_default();
            write!(f, " with {}*{byte}", result.len())?;
        }
        if self.attempt > 0 {
            write!(f, " {} by attempt {}", self.state, self.attempt)?;
        }
        Ok(())
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Said::First => f.write_str("first"),
            Said::Duplicate(sight) => write!(f, "duplicate {sight}"),
            Said::Mismatch(sight) => write!(f, "another payload than {sight}"),
            Said::InProgress => f.write_str("in progress"),
            Said::Refused {
                write,
                settled: true,
            } => write!(f, "refused by {write}, settled"),
            Said::Refused { write, .. } => write!(f, "refused by {write}"),
            Said::Bad(why) => write!(f, "bad id: {why}"),
            Said::Declined => f.write_str("declined"),
            Said::Failed(sight) => write!(f, "failed {sight}"),
            Said::Dead(sight) => write!(f, "dead {sight}"),
            Said::Unknown(sight) => write!(f, "unknown {sight}"),
            Said::Late(sight) => write!(f, "late {sight}"),
            Said::Fenced => f.write_str("fenced"),
            Said::UnknownProducer => f.write_str("unknown producer"),
        }
    }
}

pub(crate) fn list<T: fmt::Display>(all: &[T]) -> String {
    let texts: Vec<String> = all.iter().map(T::to_string).collect();
    format!("[{}]", texts.join("; "))
}

/// Readable bytes.
pub(crate) fn bytes(bytes: &[u8]) -> String {
    match <[u8; 8]>::try_from(bytes) {
        Ok(counter) => format!("#{}", i64::from_le_bytes(counter)),
        Err(_) => bytes.escape_ascii().to_string(),
    }
}

pub(crate) fn maybe_bytes(value: Option<&[u8]>) -> String {
    value.map_or_else(|| "none".to_string(), bytes)
}

pub(crate) fn point(point: Option<Point>) -> String {
    match point {
        None => "none".to_string(),
        Some(Point::Number(n)) => format!("at {n}"),
        Some(Point::Bytes(b)) => format!("at bytes {b}"),
    }
}

/// One entry of a scan.
pub(crate) fn entry(id: &[u8], sight: &Sight) -> String {
    format!("{} {sight}", id.escape_ascii())
}

/// One producer.
pub(crate) fn producer(
    space: &str,
    name: &str,
    epoch: u64,
    (high, gaps): (Option<u64>, u64),
    last_ms: u64,
) -> String {
    let high = high.map_or_else(|| "nothing".to_string(), |high| high.to_string());
    format!("{space} {name}: epoch {epoch} to {high}, {gaps} missing, at {last_ms}")
}

/// One row.
pub(crate) fn row(table: &str, key: &str, value: &[u8]) -> String {
    format!("{table} {key}={}", bytes(value))
}
