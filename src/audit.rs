//! The audit: what was done by request against the rule, when and why.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::commit::AuditRow;
use crate::engine::Rows;
use crate::error::Result;
use crate::position::Position;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditEvent {
    /// An id was forgotten ([`Scope::forget`](crate::Scope::forget)).
    Forgotten {
        /// The scope's name.
        scope: String,
        /// The id.
        id: Bytes,
    },
    /// A resume point was moved by hand ([`Store::rewind`](crate::Store::rewind)).
    Rewound {
        /// The source.
        source: String,
        /// Where it was, if it had one.
        from: Option<Position>,
        /// Where it was set to.
        to: Position,
    },
    /// A dead letter was made claimable again ([`Scope::redrive`](crate::Scope::redrive)).
    Redriven {
        /// The scope's name.
        scope: String,
        /// The id.
        id: Bytes,
    },
    /// A dead letter was removed ([`Scope::purge`](crate::Scope::purge)).
    Purged {
        /// The scope's name.
        scope: String,
        /// The id.
        id: Bytes,
    },
    /// An unknown outcome was decided ([`Scope::decide`](crate::Scope::decide)).
    Decided {
        /// The scope's name.
        scope: String,
        /// The id.
        id: Bytes,
        /// `done`, `failed` or `retry`.
        outcome: String,
    },
}

/// One entry of the audit.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AuditEntry {
    /// When, by the store's clock.
    pub at: SystemTime,
    /// What was done.
    pub event: AuditEvent,
    /// The reason that was given.
    pub why: String,
}

/// The entries of the audit, oldest first; see [`Store::audit`](crate::Store::audit).
pub struct AuditScan(Rows);

impl AuditScan {
    pub(crate) fn new(rows: Rows) -> AuditScan {
        AuditScan(rows)
    }
}

impl Iterator for AuditScan {
    type Item = Result<AuditEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.0.next()?;
        Some(row.and_then(|(key, value)| entry(AuditRow::decode(&key, &value)?)))
    }
}

fn entry(row: AuditRow) -> Result<AuditEntry> {
    let (at_ms, event, why) = match row {
        AuditRow::Forget {
            at_ms,
            scope,
            id,
            why,
        } => (
            at_ms,
            AuditEvent::Forgotten {
                scope,
                id: Bytes::from(id),
            },
            why,
        ),
        AuditRow::Redrive {
            at_ms,
            scope,
            id,
            why,
        } => {
            let id = Bytes::from(id);
            (at_ms, AuditEvent::Redriven { scope, id }, why)
        }
        AuditRow::Purge {
            at_ms,
            scope,
            id,
            why,
        } => {
            let id = Bytes::from(id);
            (at_ms, AuditEvent::Purged { scope, id }, why)
        }
        AuditRow::Decided {
            at_ms,
            scope,
            id,
            outcome,
            why,
        } => {
            let id = Bytes::from(id);
            let event = AuditEvent::Decided { scope, id, outcome };
            (at_ms, event, why)
        }
        AuditRow::Rewind {
            at_ms,
            source,
            from,
            to,
            why,
        } => {
            let from = from.map(|from| Position::decode(&from)).transpose()?;
            let to = Position::decode(&to)?;
            (at_ms, AuditEvent::Rewound { source, from, to }, why)
        }
    };
    let at = UNIX_EPOCH + Duration::from_millis(at_ms);
    Ok(AuditEntry { at, event, why })
}
