//! What is done by request against the rule, and leaves a row in the audit with its reason: an
//! id is forgotten, a resume point is moved back. The row is in the same atomic write.

use std::sync::Arc;

use crate::claims::{Standing, claim_key};
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Result};
use crate::index::{Book, LogBuilder, Meta, State};
use crate::options::Durability;
use crate::position::Position;
use crate::sync::atomic::Ordering;

use super::decide::Held;
use super::draft::Draft;
use super::need::Extent;
use super::{Committer, Unsynced, evaluate, keep_if_unknown};

impl Committer {
    /// Sets a resume point to anywhere, with an audit row.
    pub(crate) fn rewind(self: &Arc<Self>, source: &str, to: &Position, why: &str) -> Result<()> {
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
        self.put_audit(&mut rows, &audit, why);
        let appended = self.append(&mut LogBuilder::default(), &mut rows, Durability::Synced);
        match appended.and_then(|n| self.index.wait_durable(n)) {
            Ok(()) => Ok(()),
            Err(error) => {
                keep_if_unknown(&error, [Some(held)]);
                Err(error)
            }
        }
    }

    /// Forgets an id that is known: a tombstone, and an audit row. False if it is not known.
    pub(crate) fn forget(
        self: &Arc<Self>,
        draft: &mut Draft,
        why: &str,
        level: Durability,
    ) -> Result<bool> {
        self.flush_buffer()?;
        let decision = self.decide(draft, Extent::Final)?;
        if decision.has_in_progress() {
            return Err(Error::new(ErrorKind::Busy, "another caller holds the id"));
        }
        let entry = decision.entry(0);
        let hit = decision
            .hit(entry)
            .filter(|h| h.meta.is_duplicate_at(decision.now_ms));
        let claim = self.claim_of(draft, &decision, &draft.items[0], entry);
        let has_claim = claim.is_some_and(|(_, standing)| standing != Standing::Gone);
        if hit.is_none() && !has_claim {
            return Ok(false);
        }
        decision.room.check()?;
        let id = draft.get(&draft.items[0].id);
        let mut log = LogBuilder::default();
        if let Some(hit) = hit {
            let meta = Meta {
                state: State::Forgotten,
                over: true,
                ..hit.meta
            };
            log.add(decision.hash(entry), &meta, hit.placement, id, None);
        }
        log.finish();
        let mut rows = Rep::default();
        let scope = &draft.scopes[0].state;
        let mut changes = Vec::new();
        if has_claim {
            // Whoever has the claim finds it lost.
            let key = claim_key(scope.number, id);
            rows.delete(self.index.make_book(Book::Claims)?.number(), &key);
            changes.push((key, None));
        }
        self.put_audit(
            &mut rows,
            &Audit::Forget {
                scope: &scope.name,
                id,
            },
            why,
        );
        let level = if level == Durability::Buffered {
            Durability::Written
        } else {
            level
        };
        let n = match self.append(&mut log, &mut rows, level) {
            Ok(n) => n,
            Err(error) => {
                keep_if_unknown(&error, [Some(decision.held)]);
                return Err(error);
            }
        };
        self.claims.apply(&changes);
        self.counters.forgotten.fetch_add(1, Ordering::Relaxed);
        if level == Durability::Synced {
            self.wait_synced(Unsynced {
                n,
                held: vec![decision.held],
            })?;
        }
        Ok(true)
    }

    pub(super) fn put_audit(&self, rows: &mut Rep, audit: &Audit<'_>, why: &str) {
        let serial = self.audits.fetch_add(1, Ordering::Relaxed);
        let (key, value) = audit.row(self.index.time.now_ms(), serial, why);
        rows.put(self.index.audit.number(), &key, &value);
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
}

impl Audit<'_> {
    /// Key: time u64 BE | serial u64 BE. Value: kind u8, then fields as (len u32 LE, bytes).
    fn row(&self, now_ms: u64, serial: u64, why: &str) -> ([u8; 16], Vec<u8>) {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&now_ms.to_be_bytes());
        key[8..].copy_from_slice(&serial.to_be_bytes());
        let (kind, fields): (u8, Vec<&[u8]>) = match self {
            Audit::Forget { scope, id } => (1, vec![scope.as_bytes(), id]),
            Audit::Rewind { source, from, to } => (2, vec![source, from, to]),
            Audit::Redrive { scope, id } => (3, vec![scope.as_bytes(), id]),
            Audit::Purge { scope, id } => (4, vec![scope.as_bytes(), id]),
            Audit::Decided { scope, id, outcome } => {
                (5, vec![scope.as_bytes(), id, outcome.as_bytes()])
            }
        };
        let mut value = vec![kind];
        for field in fields.into_iter().chain([why.as_bytes()]) {
            value.extend_from_slice(&(field.len() as u32).to_le_bytes());
            value.extend_from_slice(field);
        }
        (key, value)
    }
}

/// An audit row that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum AuditRow {
    Forget {
        at_ms: u64,
        scope: String,
        id: Vec<u8>,
        why: String,
    },
    Rewind {
        at_ms: u64,
        source: String,
        from: Option<Vec<u8>>,
        to: Vec<u8>,
        why: String,
    },
    Redrive {
        at_ms: u64,
        scope: String,
        id: Vec<u8>,
        why: String,
    },
    Purge {
        at_ms: u64,
        scope: String,
        id: Vec<u8>,
        why: String,
    },
    Decided {
        at_ms: u64,
        scope: String,
        id: Vec<u8>,
        outcome: String,
        why: String,
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
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).ok();
    let why = text(fields.pop()?)?;
    match (kind, <[Vec<u8>; 2]>::try_from(fields)) {
        (kind @ (1 | 3 | 4), Ok([scope, id])) => {
            let scope = text(scope)?;
            Some(match kind {
                1 => AuditRow::Forget {
                    at_ms,
                    scope,
                    id,
                    why,
                },
                3 => AuditRow::Redrive {
                    at_ms,
                    scope,
                    id,
                    why,
                },
                _ => AuditRow::Purge {
                    at_ms,
                    scope,
                    id,
                    why,
                },
            })
        }
        (5, Err(fields)) => {
            let [scope, id, outcome] = <[Vec<u8>; 3]>::try_from(fields).ok()?;
            Some(AuditRow::Decided {
                at_ms,
                scope: text(scope)?,
                id,
                outcome: text(outcome)?,
                why,
            })
        }
        (2, Err(fields)) => {
            let [source, from, to] = <[Vec<u8>; 3]>::try_from(fields).ok()?;
            let (source, from) = (text(source)?, Some(from).filter(|f| !f.is_empty()));
            Some(AuditRow::Rewind {
                at_ms,
                source,
                from,
                to,
                why,
            })
        }
        _ => None,
    }
}

/// Key and value of an audit row, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn audit_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (key, value) = bytes.split_at_checked(16)?;
    let read = AuditRow::decode(key, value).ok()?;
    let serial = u64::from_be_bytes(*key.last_chunk()?);
    let (key, value) = match &read {
        AuditRow::Forget {
            at_ms,
            scope,
            id,
            why,
        } => Audit::Forget { scope, id }.row(*at_ms, serial, why),
        AuditRow::Redrive {
            at_ms,
            scope,
            id,
            why,
        } => Audit::Redrive { scope, id }.row(*at_ms, serial, why),
        AuditRow::Purge {
            at_ms,
            scope,
            id,
            why,
        } => Audit::Purge { scope, id }.row(*at_ms, serial, why),
        AuditRow::Decided {
            at_ms,
            scope,
            id,
            outcome,
            why,
        } => Audit::Decided { scope, id, outcome }.row(*at_ms, serial, why),
        AuditRow::Rewind {
            at_ms,
            source,
            from,
            to,
            why,
        } => {
            let from = from.as_deref().unwrap_or_default();
            let source = source.as_bytes();
            Audit::Rewind { source, from, to }.row(*at_ms, serial, why)
        }
    };
    Some((format!("{read:?}"), [&key[..], &value].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_cuts_are_refused() {
        let rewind = Audit::Rewind {
            source: b"s",
            from: &[],
            to: b"to",
        };
        let (key, value) = rewind.row(7, 1, "why");
        let read = AuditRow::Rewind {
            at_ms: 7,
            source: "s".to_string(),
            from: None,
            to: b"to".to_vec(),
            why: "why".to_string(),
        };
        assert_eq!(AuditRow::decode(&key, &value).unwrap(), read);
        for cut in 0..value.len() {
            assert!(AuditRow::decode(&key, &value[..cut]).is_err(), "{cut}");
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
            let (key, value) = audit.row(7, 1, "why");
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
    fn an_audit_row_is_golden() {
        let audit = Audit::Forget {
            scope: "s",
            id: b"id",
        };
        let (key, value) = audit.row(0x0102, 3, "why");
        assert_eq!(key, [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
        let expected = [
            &[1, 1, 0, 0, 0, b's', 2, 0, 0, 0][..],
            b"id",
            &[3, 0, 0, 0],
            b"why",
        ]
        .concat();
        assert_eq!(value, expected);
    }
}
