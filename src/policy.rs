//! A scope's policy: how long ids are remembered, and what is done about odd ones.
//!
//! The *semantics* (form and retention) are stored with the scope and compared at reopen; the
//! rest belongs to the handle and may differ each time. docs/operations.md has the matrix.

use std::time::Duration;

use crate::clock::millis;
use crate::error::{Error, Result};
use crate::id::PayloadKey;
use crate::id_time::{IdTime, OnLate, OwnTime};
use crate::mode::{Mode, OnStoreError};

/// `n` days, for retentions.
///
/// ```
/// assert_eq!(firstseen::days(7).as_secs(), 604_800);
/// ```
#[must_use]
pub const fn days(n: u64) -> Duration {
    Duration::from_secs(n * 86_400)
}

/// How long the ids of a scope are remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Retention {
    /// From first sight.
    Fixed { ms: u64 },
    /// From the last sight, at most `cap_ms` from the first.
    Sliding { ms: u64, cap_ms: u64 },
    /// Never forgotten.
    Forever,
}

impl Retention {
    /// The longest time from a write to the expiry it may set.
    pub(crate) fn longest_ms(&self) -> Option<u64> {
        match *self {
            Retention::Fixed { ms } | Retention::Sliding { ms, .. } => Some(ms),
            Retention::Forever => None,
        }
    }

    /// Whether an expiry tells the first sight.
    pub(crate) fn is_fixed(&self) -> bool {
        matches!(self, Retention::Fixed { .. })
    }

    /// Whether the other one differs in no more than its durations.
    pub(crate) fn same_form(&self, other: &Retention) -> bool {
        std::mem::discriminant(self) == std::mem::discriminant(other)
    }
}

/// What a scope does about a message without an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnMissingId {
    /// The item's verdict is [`Verdict::BadId`](crate::Verdict::BadId); nothing is written.
    #[default]
    Refuse,
    /// The item is first seen each time: its writes are committed, no id is recorded, and
    /// [`Stats::unkeyed`](crate::Stats::unkeyed) counts it. Empty and oversize ids are still
    /// refused.
    Process,
}

/// What becomes of a claim whose holder doesn't know whether the effect took place
/// ([`Claim::outcome_unknown`](crate::Claim::outcome_unknown)).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnUnknown {
    /// It stays as it is until [`Scope::decide`](crate::Scope::decide) says what happened; calls
    /// meanwhile answer [`OutcomeUnknown`](crate::Verdict::OutcomeUnknown).
    #[default]
    Hold,
    /// The next attempt may begin, as after a failure that may be retried: for effects that may
    /// happen twice, or that the other side dedups by the id.
    Retry,
    /// The effect is taken to have happened: later calls are duplicates.
    Done,
}

/// The policy of a scope.
///
/// ```
/// use firstseen::{days, Policy};
/// let policy = Policy::remember(days(7)).redelivery_horizon(days(3));
/// # let _ = policy;
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use]
pub struct Policy {
    pub(crate) retention: Retention,
    pub(crate) wait: Option<Duration>,
    pub(crate) horizon: Option<Duration>,
    pub(crate) on_missing_id: OnMissingId,
    pub(crate) id_bytes_max: usize,
    pub(crate) sources: bool,
    pub(crate) lease: Duration,
    pub(crate) attempts_max: Option<u32>,
    pub(crate) backoff: Duration,
    pub(crate) on_unknown: OnUnknown,
    pub(crate) takes_over_dead_runs: bool,
    pub(crate) payloads: bool,
    pub(crate) payload_key: Option<u64>,
    pub(crate) results: bool,
    pub(crate) result_bytes_max: usize,
    pub(crate) id_time: Option<IdTime>,
    pub(crate) on_late: OnLate,
    pub(crate) ahead_max: Duration,
    pub(crate) mode: Option<Mode>,
    pub(crate) on_store_error: Option<OnStoreError>,
}

/// The longest id any policy may allow, in bytes.
pub(crate) const ID_BYTES_MAX: usize = 16_384;
/// The longest result any policy may allow, in bytes: with all else that a record may carry it
/// stays far below the 64 KiB that a log record and a set have for it.
pub(crate) const RESULT_BYTES_MAX: usize = 16_384;

impl Policy {
    fn new(retention: Retention) -> Policy {
        Policy {
            retention,
            wait: None,
            horizon: None,
            on_missing_id: OnMissingId::default(),
            id_bytes_max: 4096,
            sources: false,
            lease: Duration::from_secs(30),
            attempts_max: None,
            backoff: Duration::ZERO,
            on_unknown: OnUnknown::default(),
            takes_over_dead_runs: false,
            payloads: false,
            payload_key: None,
            results: false,
            result_bytes_max: 4096,
            id_time: None,
            on_late: OnLate::default(),
            ahead_max: Duration::from_secs(60),
            mode: None,
            on_store_error: None,
        }
    }

    /// The policy of a stored scope, with the defaults for what is not stored.
    pub(crate) fn stored(retention: Option<Retention>, own: Option<OwnTime>) -> Policy {
        let policy = Policy::new(retention.unwrap_or(Retention::Forever));
        Policy {
            id_bytes_max: ID_BYTES_MAX,
            id_time: own.map(|own| own.form),
            ahead_max: Duration::from_millis(own.map_or(0, |own| own.ahead_ms)),
            ..policy
        }
    }

    /// Ids are remembered for `retention` from their first sight, to the millisecond.
    /// Longer than the longest time after which a message may come again; a week suits most
    /// brokers, minutes suit none.
    pub fn remember(retention: Duration) -> Policy {
        Policy::new(Retention::Fixed {
            ms: millis(retention),
        })
    }

    /// Each sight of an id prolongs it to `retention` from then, but never beyond `cap` from
    /// its first sight. A duplicate in such a scope writes.
    pub fn sliding(retention: Duration, cap: Duration) -> Policy {
        Policy::new(Retention::Sliding {
            ms: millis(retention),
            cap_ms: millis(cap),
        })
    }

    /// Ids are never forgotten, except by [`Scope::forget`](crate::Scope::forget).
    pub fn forever() -> Policy {
        Policy::new(Retention::Forever)
    }

    /// How long a call waits for an id that another caller holds before it answers
    /// `InProgress`. Default: the store's `wait_max`.
    pub fn wait(mut self, wait: Duration) -> Policy {
        self.wait = Some(wait);
        self
    }

    /// The longest time after which the source may still deliver a message again. A shorter
    /// retention is refused when the scope is opened. Not stored.
    pub fn redelivery_horizon(mut self, horizon: Duration) -> Policy {
        self.horizon = Some(horizon);
        self
    }

    /// What to do about a message without an id. Default: its verdict is `BadId`.
    pub fn on_missing_id(mut self, rule: OnMissingId) -> Policy {
        self.on_missing_id = rule;
        self
    }

    /// The longest id in bytes; 1 to 16,384, default 4,096. Longer ones are `BadId`.
    pub fn id_bytes_max(mut self, bytes: usize) -> Policy {
        self.id_bytes_max = bytes;
        self
    }

    /// Keeps each id's source ([`Id::source`](crate::Id::source)) with it, for
    /// [`Sighting::source`](crate::Sighting::source). Costs the source's bytes an id.
    pub fn sources(mut self) -> Policy {
        self.sources = true;
        self
    }

    /// Keeps a fingerprint of each id's payload ([`Id::payload`](crate::Id::payload)) with it,
    /// and answers [`PayloadMismatch`](crate::Verdict::PayloadMismatch) when the id comes again
    /// with another one. Costs 19 bytes an id that brings a payload. Without it an id that
    /// brings one is `Invalid`: a check that is asked for is never left out. Ids recorded before
    /// a scope opts in have no fingerprint and are not compared. Not stored.
    pub fn payloads(mut self) -> Policy {
        self.payloads = true;
        self
    }

    /// Makes the scope with the payload key of another one ([`Scope::payload_key`]), so that
    /// fingerprints that are imported from there ([`Past::fingerprint`]) can be compared with
    /// payloads here. It belongs to the scope from its making on; a scope that has another one is
    /// `Invalid`. Default: the store's own.
    ///
    /// [`Scope::payload_key`]: crate::Scope::payload_key
    /// [`Past::fingerprint`]: crate::Past::fingerprint
    pub fn payload_key(mut self, key: PayloadKey) -> Policy {
        self.payload_key = Some(key.0);
        self
    }

    /// Lets items store a result ([`Writes::result`](crate::Writes::result)), which duplicates
    /// are answered with ([`Sighting::result`](crate::Sighting::result)) for as long as the id
    /// is remembered. Costs the result's bytes an id, in memory until it is sealed, then on
    /// disk. Without it giving a result is `Invalid`. Not stored.
    pub fn results(mut self) -> Policy {
        self.results = true;
        self
    }

    /// The longest result in bytes; 0 to 16,384, default 4,096. A longer one is `Invalid`, and
    /// nothing of its batch is recorded. Not stored.
    pub fn result_bytes_max(mut self, bytes: usize) -> Policy {
        self.result_bytes_max = bytes;
        self
    }

    /// Whether an item may store this result.
    pub(crate) fn check_result(&self, bytes: &[u8]) -> Result<()> {
        if !self.results {
            let text = "an item has a result, but its scope's policy stores none (`results`)";
            return Err(Error::invalid(text));
        }
        if bytes.len() > self.result_bytes_max {
            let (len, max) = (bytes.len(), self.result_bytes_max);
            return Err(Error::invalid(format!(
                "a result has {len} bytes, more than {max} (`result_bytes_max`)"
            )));
        }
        Ok(())
    }

    /// For how long a claim keeps its id from others unless it is renewed
    /// ([`Scope::claim`](crate::Scope::claim)), in whole milliseconds. It starts with the call.
    /// A claim that was started renews itself, so the lease bounds how long a *dead* holder
    /// blocks an id, not how long the work may take. 1 ms to 200 years, default 30 s. Not stored.
    pub fn lease(mut self, lease: Duration) -> Policy {
        self.lease = lease;
        self
    }

    /// After so many attempts without an outcome an id is dead-lettered; 1 or more. Attempts
    /// survive crashes and only rise. Default: no limit. Not stored.
    pub fn attempts_max(mut self, attempts: u32) -> Policy {
        self.attempts_max = Some(attempts);
        self
    }

    /// For how long an id rests after an attempt that failed and may be retried. Default: not at
    /// all. Not stored.
    pub fn backoff(mut self, pause: Duration) -> Policy {
        self.backoff = pause;
        self
    }

    /// What becomes of a claim whose outcome nobody knows. Default: it is held for a decision.
    /// Not stored.
    pub fn on_unknown(mut self, rule: OnUnknown) -> Policy {
        self.on_unknown = rule;
        self
    }

    /// Claims of an earlier run of the store, whose process is gone, don't keep their ids until
    /// the lease ends: the next call takes them over at once. Only where the work of that process
    /// ended with it. Not stored.
    pub fn take_over_dead_runs(mut self) -> Policy {
        self.takes_over_dead_runs = true;
        self
    }

    /// Sets the scope's [`Mode`] when it is opened, for all its handles; [`Scope::set_mode`] sets
    /// it at any time. Default: as other handles of this run have it, else `Enforce`.
    ///
    /// [`Scope::set_mode`]: crate::Scope::set_mode
    pub fn mode(mut self, mode: Mode) -> Policy {
        self.mode = Some(mode);
        self
    }

    /// Sets what handlers of the scope do when the store fails ([`OnStoreError`]), for all its
    /// handles; [`Scope::set_on_store_error`] sets it at any time. Default: as other handles of
    /// this run have it, else `Closed`.
    ///
    /// [`Scope::set_on_store_error`]: crate::Scope::set_on_store_error
    pub fn on_store_error(mut self, rule: OnStoreError) -> Policy {
        self.on_store_error = Some(rule);
        self
    }

    /// Whether a claim may end with this result.
    pub(crate) fn check_claim_result(&self, bytes: &[u8]) -> Result<()> {
        if bytes.len() <= self.result_bytes_max {
            return Ok(());
        }
        let (len, max) = (bytes.len(), self.result_bytes_max);
        Err(Error::invalid(format!(
            "a result has {len} bytes, more than {max} (`result_bytes_max`)"
        )))
    }

    /// Every violation at once, in one error.
    pub(crate) fn validate(&self, scope: &str) -> Result<()> {
        let mut wrong = Vec::new();
        match self.retention {
            Retention::Fixed { ms } => check_duration(&mut wrong, "the retention", ms),
            Retention::Sliding { ms, cap_ms } => {
                check_duration(&mut wrong, "the retention", ms);
                check_duration(&mut wrong, "the cap", cap_ms);
                if cap_ms < ms {
                    wrong.push("the cap is shorter than the retention".to_string());
                }
            }
            Retention::Forever => {}
        }
        if let (Some(horizon), Some(ms)) = (self.horizon, self.retention.longest_ms())
            && millis(horizon) > ms
        {
            wrong.push(format!(
                "the retention of {ms} ms is shorter than the redelivery horizon of {} ms",
                millis(horizon)
            ));
        }
        self.check_id_time(&mut wrong);
        check_duration(&mut wrong, "the lease", millis(self.lease));
        if self.attempts_max == Some(0) {
            wrong.push("attempts_max must be 1 or more".to_string());
        }
        if millis(self.backoff) > DURATION_MS_MAX {
            wrong.push("the backoff is longer than 200 years".to_string());
        }
        if !(1..=ID_BYTES_MAX).contains(&self.id_bytes_max) {
            wrong.push(format!("id_bytes_max must be 1 to {ID_BYTES_MAX}"));
        }
        if self.result_bytes_max > RESULT_BYTES_MAX {
            wrong.push(format!("result_bytes_max must be 0 to {RESULT_BYTES_MAX}"));
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "scope {scope:?}: {}",
            wrong.join("; ")
        )))
    }
}

/// The longest duration: 200 years.
pub(crate) const DURATION_MS_MAX: u64 = 200 * 366 * 86_400_000;

fn check_duration(wrong: &mut Vec<String>, what: &str, ms: u64) {
    if ms == 0 {
        wrong.push(format!("{what} is shorter than 1 ms"));
    } else if ms > DURATION_MS_MAX {
        wrong.push(format!("{what} is longer than 200 years"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_listed() {
        let policy = Policy::sliding(Duration::ZERO, Duration::MAX)
            .id_bytes_max(0)
            .result_bytes_max(RESULT_BYTES_MAX + 1);
        let text = policy.validate("s").unwrap_err().to_string();
        for part in [
            "shorter than 1 ms",
            "longer than 200 years",
            "id_bytes_max",
            "result_bytes_max",
        ] {
            assert!(text.contains(part), "{text} lacks {part}");
        }
        assert!(Policy::remember(days(7)).validate("s").is_ok());
    }

    #[test]
    fn a_retention_below_the_horizon_is_refused() {
        let policy = Policy::remember(days(1)).redelivery_horizon(days(2));
        assert!(
            policy
                .validate("s")
                .unwrap_err()
                .to_string()
                .contains("horizon")
        );
        assert!(
            Policy::forever()
                .redelivery_horizon(days(2))
                .validate("s")
                .is_ok()
        );
    }
}
