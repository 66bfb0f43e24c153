//! What is done by request against the rule, and leaves a row in the audit with its reason: an
//! id is forgotten or recorded by hand, a resume point is moved back, an outbox sends again. The
//! row is in the same atomic write. Here are the rows' form and the rewind; `amend` has the rest.

use std::sync::Arc;

use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::LogBuilder;
use crate::options::Durability;
use crate::position::Position;
use crate::why::Why;

use super::decide::Held;
use super::{Committer, evaluate, keep_if_unknown};

impl Committer {
    /// Sets a resume point to anywhere, with an audit row.
    pub(crate) fn rewind(
        self: &Arc<Self>,
        source: &str,
        to: &Position,
        why: &Why<'_>,
    ) -> Result<()> {
        let mut held = Held::new(self, self.rows.owner(), true);
        self.hold_rows(&mut held, &[evaluate::point_hash(source)])?;
        let mut rows = Rep::default();
        rows.put(self.index.points.number(), source.as_bytes(), &to.encode());
        let from = self
            .resume_point(source)?
            .map(|p| p.encode())
            .unwrap_or_default();
        let audit = Audit::Rewind {
            source: source.as_bytes(),
            from: &from,
            to: &to.encode(),
        };
        self.write_audited(rows, &audit, why, held)
    }

    /// Writes rows with what the audit tells of them, durable on return. `held` are their locks,
    /// which stay if nobody knows the outcome.
    pub(super) fn write_audited(
        &self,
        mut rows: Rep,
        audit: &Audit<'_>,
        why: &Why<'_>,
        held: Held,
    ) -> Result<()> {
        let tally = self.put_audit(&mut rows, audit, why)?;
        let appended = self.append(&mut LogBuilder::default(), &mut rows, Durability::Synced);
        drop(tally);
        match appended.and_then(|n| self.index.wait_durable(n)) {
            Ok(()) => Ok(()),
            Err(error) => {
                keep_if_unknown(&error, [Some(held)]);
                Err(error)
            }
        }
    }
}

/// What an audit row says happened.
pub(super) enum Audit<'a> {
    Forget {
        scope: &'a str,
        id: &'a [u8],
    },
    Rewind {
        source: &'a [u8],
        from: &'a [u8],
        to: &'a [u8],
    },
    Record {
        scope: &'a str,
        id: &'a [u8],
        first_ms: u64,
    },
    Import {
        scope: &'a str,
        ids: u64,
    },
    Redrive {
        scope: &'a str,
        id: &'a [u8],
    },
    Purge {
        scope: &'a str,
        id: &'a [u8],
    },
    Decided {
        scope: &'a str,
        id: &'a [u8],
        outcome: &'a str,
    },
    Resend {
        outbox: &'a str,
        from: u64,
        to: u64,
    },
    Settled {
        txn: &'a [u8],
        committed: bool,
    },
}

const FORGET: u8 = 1;
const REWIND: u8 = 2;
const REDRIVE: u8 = 3;
const PURGE: u8 = 4;
const DECIDED: u8 = 5;
/// Of repair and import; the first field says which.
const RECORD: u8 = 6;
const SETTLED: u8 = 7;
const RESEND: u8 = 8;
const ONE: &[u8] = &[1];
const MANY: &[u8] = &[2];

/// The fields of a kind, without reason and actor.
fn fields_of(kind: u8) -> Option<usize> {
    match kind {
        FORGET | REDRIVE | PURGE | SETTLED => Some(2),
        REWIND | DECIDED | RESEND => Some(3),
        RECORD => Some(4),
        _ => None,
    }
}

impl Audit<'_> {
    /// Key: time u64 BE | serial u64 BE. Value: kind u8, then fields as (len u32 LE, bytes): the
    /// kind's own, the reason, and the actor if one is named.
    pub(super) fn row(&self, now_ms: u64, serial: u64, why: &Why<'_>) -> ([u8; 16], Vec<u8>) {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&now_ms.to_be_bytes());
        key[8..].copy_from_slice(&serial.to_be_bytes());
        let number;
        let numbers;
        let (kind, fields): (u8, Vec<&[u8]>) = match self {
            Audit::Forget { scope, id } => (FORGET, vec![scope.as_bytes(), id]),
            Audit::Rewind { source, from, to } => (REWIND, vec![source, from, to]),
            Audit::Redrive { scope, id } => (REDRIVE, vec![scope.as_bytes(), id]),
            Audit::Purge { scope, id } => (PURGE, vec![scope.as_bytes(), id]),
            Audit::Decided { scope, id, outcome } => {
                (DECIDED, vec![scope.as_bytes(), id, outcome.as_bytes()])
            }
            Audit::Settled { txn, committed } => (SETTLED, vec![txn, how(*committed)]),
            Audit::Record {
                scope,
                id,
                first_ms,
            } => {
                number = first_ms.to_le_bytes();
                (RECORD, vec![ONE, scope.as_bytes(), id, &number])
            }
            Audit::Import { scope, ids } => {
                number = ids.to_le_bytes();
                (RECORD, vec![MANY, scope.as_bytes(), b"", &number])
            }
            Audit::Resend { outbox, from, to } => {
                numbers = [from.to_le_bytes(), to.to_le_bytes()];
                (RESEND, vec![outbox.as_bytes(), &numbers[0], &numbers[1]])
            }
        };
        let who = why.who.filter(|who| !who.is_empty()).map(str::as_bytes);
        let mut value = vec![kind];
        for field in fields.into_iter().chain([why.text.as_bytes()]).chain(who) {
            value.extend_from_slice(&(field.len() as u32).to_le_bytes());
            value.extend_from_slice(field);
        }
        (key, value)
    }
}

/// How a transaction ended.
fn how(committed: bool) -> &'static [u8] {
    if committed { b"committed" } else { b"aborted" }
}

/// An audit row that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct AuditRow {
    pub(crate) at_ms: u64,
    pub(crate) event: Event,
    pub(crate) why: String,
    pub(crate) who: Option<String>,
}

/// What it says happened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Forget {
        scope: String,
        id: Vec<u8>,
    },
    Rewind {
        source: String,
        from: Option<Vec<u8>>,
        to: Vec<u8>,
    },
    Record {
        scope: String,
        id: Vec<u8>,
        first_ms: u64,
    },
    Import {
        scope: String,
        ids: u64,
    },
    Redrive {
        scope: String,
        id: Vec<u8>,
    },
    Purge {
        scope: String,
        id: Vec<u8>,
    },
    Decided {
        scope: String,
        id: Vec<u8>,
        outcome: String,
    },
    Resend {
        outbox: String,
        from: u64,
        to: u64,
    },
    Settled {
        txn: Vec<u8>,
        committed: bool,
    },
}

impl AuditRow {
    /// # Errors
    /// `Damaged` if the row is not one that [`Audit::row`] makes.
    pub(crate) fn decode(key: &[u8], value: &[u8]) -> Result<AuditRow> {
        read_row(key, value).ok_or_else(|| Error::damaged("an audit row is of an unknown form"))
    }
}

fn read_row(key: &[u8], value: &[u8]) -> Option<AuditRow> {
    let key: &[u8; 16] = key.try_into().ok()?;
    let at_ms = u64::from_be_bytes(*key.first_chunk()?);
    let (&kind, mut rest) = value.split_first()?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (len, after) = rest.split_first_chunk::<4>()?;
        let (field, after) = after.split_at_checked(u32::from_le_bytes(*len) as usize)?;
        fields.push(field.to_vec());
        rest = after;
    }
    // Rows of before there were actors end with the reason, as those without one still do.
    let who = match fields.len().checked_sub(fields_of(kind)?)? {
        1 => None,
        2 => Some(text(fields.pop().filter(|who| !who.is_empty())?)?),
        _ => return None,
    };
    let why = text(fields.pop()?)?;
    let event = read_event(kind, fields)?;
    Some(AuditRow {
        at_ms,
        event,
        why,
        who,
    })
}

fn read_event(kind: u8, fields: Vec<Vec<u8>>) -> Option<Event> {
    let mut fields = fields.into_iter();
    let mut field = || fields.next();
    match kind {
        FORGET => Some(Event::Forget {
            scope: text(field()?)?,
            id: field()?,
        }),
        REWIND => Some(Event::Rewind {
            source: text(field()?)?,
            from: field().map(|from| Some(from).filter(|f| !f.is_empty()))?,
            to: field()?,
        }),
        REDRIVE => Some(Event::Redrive {
            scope: text(field()?)?,
            id: field()?,
        }),
        PURGE => Some(Event::Purge {
            scope: text(field()?)?,
            id: field()?,
        }),
        DECIDED => Some(Event::Decided {
            scope: text(field()?)?,
            id: field()?,
            outcome: text(field()?)?,
        }),
        RESEND => {
            let (outbox, from, to) = (text(field()?)?, field()?, field()?);
            Some(Event::Resend {
                outbox,
                from: u64::from_le_bytes(from.try_into().ok()?),
                to: u64::from_le_bytes(to.try_into().ok()?),
            })
        }
        SETTLED => {
            let (txn, outcome) = (field()?, field()?);
            let committed = outcome == how(true);
            (outcome == how(committed)).then_some(Event::Settled { txn, committed })
        }
        RECORD => {
            let (which, scope, id) = (field()?, text(field()?)?, field()?);
            let number = u64::from_le_bytes(field()?.try_into().ok()?);
            match (&which[..], &id[..]) {
                (ONE, _) => Some(Event::Record {
                    scope,
                    id,
                    first_ms: number,
                }),
                (MANY, []) => Some(Event::Import { scope, ids: number }),
                _ => None,
            }
        }
        _ => None,
    }
}

fn text(bytes: Vec<u8>) -> Option<String> {
    String::from_utf8(bytes).ok()
}

impl Event {
    /// The same, to be written.
    pub(super) fn as_audit(&self) -> Audit<'_> {
        match self {
            Event::Forget { scope, id } => Audit::Forget { scope, id },
            Event::Rewind { source, from, to } => Audit::Rewind {
                source: source.as_bytes(),
                from: from.as_deref().unwrap_or_default(),
                to,
            },
            Event::Record {
                scope,
                id,
                first_ms,
            } => Audit::Record {
                scope,
                id,
                first_ms: *first_ms,
            },
            Event::Import { scope, ids } => Audit::Import { scope, ids: *ids },
            Event::Redrive { scope, id } => Audit::Redrive { scope, id },
            Event::Purge { scope, id } => Audit::Purge { scope, id },
            Event::Decided { scope, id, outcome } => Audit::Decided { scope, id, outcome },
            Event::Resend { outbox, from, to } => Audit::Resend {
                outbox,
                from: *from,
                to: *to,
            },
            Event::Settled { txn, committed } => Audit::Settled {
                txn,
                committed: *committed,
            },
        }
    }
}

/// Key and value of an audit row, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn audit_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (key, value) = bytes.split_at_checked(16)?;
    let read = AuditRow::decode(key, value).ok()?;
    let serial = u64::from_be_bytes(*key.last_chunk()?);
    let why = Why {
        text: &read.why,
        who: read.who.as_deref(),
    };
    let (key, value) = read.event.as_audit().row(read.at_ms, serial, &why);
    Some((format!("{read:?}"), [&key[..], &value].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_cuts_are_refused() {
        let events = [
            Event::Forget {
                scope: "s".to_string(),
                id: b"id".to_vec(),
            },
            Event::Rewind {
                source: "s".to_string(),
                from: None,
                to: b"to".to_vec(),
            },
            Event::Record {
                scope: "s".to_string(),
                id: b"id".to_vec(),
                first_ms: 9,
            },
            Event::Import {
                scope: "s".to_string(),
                ids: 7,
            },
            Event::Redrive {
                scope: "s".to_string(),
                id: b"id".to_vec(),
            },
            Event::Purge {
                scope: "s".to_string(),
                id: b"id".to_vec(),
            },
            Event::Decided {
                scope: "s".to_string(),
                id: b"id".to_vec(),
                outcome: "done".to_string(),
            },
            Event::Resend {
                outbox: "mails".to_string(),
                from: 9,
                to: 4,
            },
            Event::Settled {
                txn: b"t".to_vec(),
                committed: false,
            },
        ];
        for event in events {
            for who in [None, Some("alice")] {
                let why = Why { text: "why", who };
                let (key, value) = event.as_audit().row(7, 1, &why);
                let read = AuditRow::decode(&key, &value).unwrap();
                assert_eq!((read.at_ms, &read.event), (7, &event));
                assert_eq!((&read.why[..], read.who.as_deref()), ("why", who));
                // A row cut at its last field is one without an actor.
                let whole_without = value.len() - who.map_or(0, |who| 4 + who.len());
                for cut in (0..value.len()).filter(|cut| *cut != whole_without) {
                    assert!(AuditRow::decode(&key, &value[..cut]).is_err(), "{cut}");
                }
            }
        }
    }

    #[test]
    fn what_is_done_with_claims_by_hand_is_golden() {
        let (scope, id, outcome) = ("s", &b"id"[..], "done");
        let rows = [
            (3, Audit::Redrive { scope, id }),
            (4, Audit::Purge { scope, id }),
            (5, Audit::Decided { scope, id, outcome }),
        ];
        for (kind, audit) in rows {
            let (key, value) = audit.row(7, 1, &Why::new("why"));
            let mut expected = [&[kind, 1, 0, 0, 0, b's', 2, 0, 0, 0][..], id].concat();
            if kind == 5 {
                expected.extend([&[4, 0, 0, 0][..], outcome.as_bytes()].concat());
            }
            expected.extend([&[3, 0, 0, 0][..], b"why"].concat());
            assert_eq!(value, expected);
            assert!(AuditRow::decode(&key, &value).is_ok());
            assert!(AuditRow::decode(&key, &value[..value.len() - 1]).is_err());
        }
    }

    #[test]
    fn the_end_of_a_transaction_is_golden() {
        for (committed, name) in [(true, &b"committed"[..]), (false, b"aborted")] {
            let txn = b"t";
            let (key, value) = Audit::Settled { txn, committed }.row(7, 1, &Why::new("why"));
            let len = [name.len() as u8, 0, 0, 0];
            let mut expected = [&b"\x07\x01\0\0\0t"[..], &len, name].concat();
            expected.extend(b"\x03\0\0\0why");
            assert_eq!(value, expected);
            let mut other = value.clone();
            other[10] = b'x';
            assert!(AuditRow::decode(&key, &value).is_ok());
            assert!(AuditRow::decode(&key, &other).is_err(), "no such end");
        }
    }

    #[test]
    fn an_audit_row_is_golden_with_and_without_an_actor() {
        let audit = Audit::Forget {
            scope: "s",
            id: b"id",
        };
        let (key, value) = audit.row(0x0102, 3, &Why::new("why"));
        assert_eq!(key, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        let mut expected = [
            &[1, 1, 0, 0, 0, b's', 2, 0, 0, 0][..],
            b"id",
            &[3, 0, 0, 0],
            b"why",
        ]
        .concat();
        assert_eq!(value, expected);
        expected.extend([&[2, 0, 0, 0][..], b"me"].concat());
        let (_, value) = audit.row(0x0102, 3, &Why::new("why").by("me"));
        assert_eq!(value, expected);
    }
}
