//! The audit: what was done by request against the rule, when, by whom and why; and the resume
//! points, which it watches over.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::commit::{AuditRow, Event, Tally};
use crate::engine::Rows;
use crate::error::{Error, Result};
use crate::position::Position;
use crate::store::Store;
use crate::why::Why;

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditEvent {
    /// An id was forgotten: by [`Scope::forget`](crate::Scope::forget) or a repair.
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
    /// A prepared transaction was aborted ([`Store::abort_prepared`]), or committed by hand
    /// ([`Store::commit_prepared_by_hand`]).
    TransactionSettled {
        /// Its name.
        txn: Bytes,
        /// Whether it was committed.
        committed: bool,
    },
    /// An id was recorded by a repair ([`RepairPlan::apply`](crate::RepairPlan::apply)).
    Recorded {
        /// The scope's name.
        scope: String,
        /// The id.
        id: Bytes,
        /// The first sight it was given.
        first_seen_at: SystemTime,
    },
    /// Ids were recorded by [`Scope::import`](crate::Scope::import).
    Imported {
        /// The scope's name.
        scope: String,
        /// How many, in this commit.
        ids: u64,
    },
    /// An outbox sends again what was acknowledged ([`Outbox::rewind`](crate::Outbox::rewind)).
    Resent {
        /// The outbox's name.
        outbox: String,
        /// The number up to which it was acknowledged.
        from: u64,
        /// The number up to which it is now.
        to: u64,
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
    /// Who did it, if the store or the call named an actor.
    pub who: Option<String>,
}

/// The entries of the audit, oldest first; see [`Store::audit`](crate::Store::audit).
pub struct AuditScan {
    rows: Rows,
    tally: Tally,
}

impl AuditScan {
    pub(crate) fn new(rows: Rows, tally: Tally) -> AuditScan {
        AuditScan { rows, tally }
    }

    /// How many older entries had to go, since there were more than
    /// [`Options::audit_rows_max`](crate::Options::audit_rows_max).
    #[must_use]
    pub fn gone(&self) -> u64 {
        self.tally.gone
    }

    /// When the latest of those was made, if any went.
    #[must_use]
    pub fn gone_until(&self) -> Option<SystemTime> {
        (self.tally.gone > 0).then(|| time(self.tally.gone_ms))
    }
}

impl Iterator for AuditScan {
    type Item = Result<AuditEntry>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.rows.next()?;
        Some(row.and_then(|(key, value)| entry(AuditRow::decode(&key, &value)?)))
    }
}

fn time(ms: u64) -> SystemTime {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(ms))
        .unwrap_or(UNIX_EPOCH)
}

fn entry(row: AuditRow) -> Result<AuditEntry> {
    let event = match row.event {
        Event::Forget { scope, id } => AuditEvent::Forgotten {
            scope,
            id: Bytes::from(id),
        },
        Event::Rewind { source, from, to } => AuditEvent::Rewound {
            source,
            from: from.map(|from| Position::decode(&from)).transpose()?,
            to: Position::decode(&to)?,
        },
        Event::Record {
            scope,
            id,
            first_ms,
        } => AuditEvent::Recorded {
            scope,
            id: Bytes::from(id),
            first_seen_at: time(first_ms),
        },
        Event::Import { scope, ids } => AuditEvent::Imported { scope, ids },
        Event::Redrive { scope, id } => AuditEvent::Redriven {
            scope,
            id: Bytes::from(id),
        },
        Event::Purge { scope, id } => AuditEvent::Purged {
            scope,
            id: Bytes::from(id),
        },
        Event::Decided { scope, id, outcome } => AuditEvent::Decided {
            scope,
            id: Bytes::from(id),
            outcome,
        },
        Event::Resend { outbox, from, to } => AuditEvent::Resent { outbox, from, to },
        Event::Settled { txn, committed } => AuditEvent::TransactionSettled {
            txn: Bytes::from(txn),
            committed,
        },
    };
    Ok(AuditEntry {
        at: time(row.at_ms),
        event,
        why: row.why,
        who: row.who,
    })
}

impl Store {
    /// The only way to move a resume point back; `why` goes into the audit. Synced.
    ///
    /// # Errors
    /// `Invalid` without a reason; `Busy` if a commit of the source is under way; `Degraded`,
    /// `Closed`.
    pub fn rewind<'a>(
        &self,
        source: &str,
        to: impl Into<Position>,
        why: impl Into<Why<'a>>,
    ) -> Result<()> {
        let why = why.into();
        why.check("a rewind")?;
        self.shared
            .core()?
            .committer
            .rewind(source, &to.into(), &why)
    }

    /// All sources that have a resume point, in the order of their names, with where to go on.
    ///
    /// # Errors
    /// `Closed`; `Damaged` ones come as items.
    pub fn resume_points(&self) -> Result<ResumePoints> {
        let core = self.shared.core()?;
        core.committer.flush_buffer()?;
        Ok(ResumePoints::new(core.committer.index.points.rows(&[])))
    }

    /// What was done by request against the rule, oldest first: ids forgotten, recorded by a
    /// repair or imported, resume points and outboxes rewound; when, by whom and why. It holds the
    /// last [`Options::audit_rows_max`](crate::Options::audit_rows_max) entries.
    ///
    /// # Errors
    /// `Closed`; `Damaged` ones come as items.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let orders = store.scope("orders", Policy::remember(days(7)))?;
    /// let _ = orders.insert("order-17")?;
    /// orders.forget("order-17", "the customer asked for it again")?;
    /// let entry = store.audit()?.next().expect("one entry")?;
    /// assert_eq!(entry.why, "the customer asked for it again");
    /// # Ok(()) }
    /// ```
    pub fn audit(&self) -> Result<AuditScan> {
        let core = self.shared.core()?;
        let rows = core.committer.index.audit.rows(&[]);
        Ok(AuditScan::new(rows, core.committer.audit_tally()?))
    }
}

/// Sources with their resume points; see [`Store::resume_points`](crate::Store::resume_points).
pub struct ResumePoints(Rows);

impl ResumePoints {
    pub(crate) fn new(rows: Rows) -> ResumePoints {
        ResumePoints(rows)
    }
}

impl Iterator for ResumePoints {
    type Item = Result<(String, Position)>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.0.next()?;
        Some(row.and_then(|(source, next)| {
            let source = String::from_utf8(source.into())
                .map_err(|_| Error::damaged("a source's name is no text"))?;
            Ok((source, Position::decode(&next)?))
        }))
    }
}
