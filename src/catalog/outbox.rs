//! The rows of an outbox, and who numbers them.
//!
//! ```text
//! <number u64 BE>  run u64 LE | sent ms u64 LE | payload
//! ff               acknowledged u64 LE | deleted u64 LE
//! ```
//!
//! Numbers begin at 1, and none is missing between what is deleted and the last one. The row
//! under `ff`, above all others, is the resume point: the last number that is acknowledged, and
//! the last one whose row is deleted; without it both are 0.

use std::sync::Arc;

use crate::engine::{Family, NUMBERED_KEY_BYTES, Numbering};
use crate::error::{Error, Result};
use crate::index;

use super::{Catalog, TableKind, TableState};

/// The key of the resume point.
pub(crate) const POINT: &[u8] = &[0xff];

/// Who numbers an outbox's messages.
pub(crate) struct Sends {
    pub(crate) numbering: Arc<Numbering>,
    /// Random, of this outbox and this opening of the store: no message of before, nor of another
    /// store, has it beside its number.
    pub(crate) run: u64,
}

impl Sends {
    /// Goes on where the rows end.
    pub(super) fn of(family: &Family) -> Result<Sends> {
        let row = match family.last_before(POINT)? {
            Some(key) => number(&key).ok_or_else(damaged)?,
            None => 0,
        };
        let last = row.max(Point::read(family)?.acknowledged);
        Ok(Sends {
            numbering: Arc::new(Numbering::new(last)),
            run: index::random_number()?,
        })
    }
}

/// How far an outbox is drained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Point {
    /// The last number that is acknowledged.
    pub(crate) acknowledged: u64,
    /// The last number whose row is deleted; no more than `acknowledged`.
    pub(crate) deleted: u64,
}

impl Point {
    /// # Errors
    /// `Damaged`.
    pub(crate) fn read(family: &Family) -> Result<Point> {
        match family.get(POINT)? {
            Some(bytes) => Point::decode(&bytes).ok_or_else(damaged),
            None => Ok(Point::default()),
        }
    }

    fn decode(bytes: &[u8]) -> Option<Point> {
        let (acknowledged, deleted) = bytes.split_first_chunk::<8>()?;
        let point = Point {
            acknowledged: u64::from_le_bytes(*acknowledged),
            deleted: u64::from_le_bytes(deleted.try_into().ok()?),
        };
        (point.deleted <= point.acknowledged).then_some(point)
    }

    pub(crate) fn encode(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.acknowledged.to_le_bytes());
        bytes[8..].copy_from_slice(&self.deleted.to_le_bytes());
        bytes
    }
}

impl Catalog {
    pub(crate) fn outboxes(&self) -> Vec<Arc<TableState>> {
        let inner = self.inner.lock();
        let tables = inner.tables.iter().map(|(table, _)| table);
        let outboxes = tables.filter(|t| t.kind == TableKind::Outbox);
        outboxes.cloned().collect()
    }
}

/// The key of a message.
pub(crate) fn key(number: u64) -> [u8; NUMBERED_KEY_BYTES] {
    number.to_be_bytes()
}

pub(crate) fn number(key: &[u8]) -> Option<u64> {
    key.try_into().map(u64::from_be_bytes).ok()
}

/// What a row says besides its number.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Message<'a> {
    pub(crate) run: u64,
    pub(crate) sent_ms: u64,
    pub(crate) payload: &'a [u8],
}

impl<'a> Message<'a> {
    /// # Errors
    /// `Damaged`.
    pub(crate) fn decode(value: &'a [u8]) -> Result<Message<'a>> {
        let parts = value.split_first_chunk::<8>().and_then(|(run, rest)| {
            let (sent_ms, payload) = rest.split_first_chunk::<8>()?;
            Some(Message {
                run: u64::from_le_bytes(*run),
                sent_ms: u64::from_le_bytes(*sent_ms),
                payload,
            })
        });
        parts.ok_or_else(damaged)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let (run, sent) = (self.run.to_le_bytes(), self.sent_ms.to_le_bytes());
        [&run[..], &sent, self.payload].concat()
    }
}

/// A message's row, or the resume point, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn outbox_again(bytes: &[u8], is_point: bool) -> Option<(String, Vec<u8>)> {
    if is_point {
        let point = Point::decode(bytes)?;
        return Some((format!("{point:?}"), point.encode().to_vec()));
    }
    let message = Message::decode(bytes).ok()?;
    Some((format!("{message:?}"), message.encode()))
}

pub(crate) fn damaged() -> Error {
    Error::damaged("a row of an outbox is of an unknown form")
}

/// Checks an outbox's rows at rest: they decode, and none is missing.
#[derive(Debug, Default)]
pub(crate) struct OutboxCheck {
    first: Option<u64>,
    last: u64,
    has_point: bool,
}

impl OutboxCheck {
    /// The next row.
    ///
    /// # Errors
    /// `Damaged`, in words.
    pub(crate) fn row(&mut self, row_key: &[u8], value: &[u8]) -> Result<()> {
        if row_key == POINT {
            self.has_point = true;
            return self.point(Point::decode(value).ok_or_else(damaged)?);
        }
        let number = number(row_key).ok_or_else(damaged)?;
        Message::decode(value)?;
        let (before, is_first) = (self.last, self.first.is_none());
        self.first.get_or_insert(number);
        self.last = number;
        match is_first || number == before + 1 {
            true => Ok(()),
            false => Err(missing(before + 1)),
        }
    }

    fn point(&self, point: Point) -> Result<()> {
        match self.first {
            Some(first) if first != point.deleted + 1 => Err(missing(point.deleted + 1)),
            None if point.acknowledged != point.deleted => Err(missing(point.deleted + 1)),
            Some(_) if point.acknowledged > self.last => Err(Error::damaged(
                "the resume point of an outbox is past its last message",
            )),
            _ => Ok(()),
        }
    }

    /// After the last row.
    ///
    /// # Errors
    /// As of a row.
    pub(crate) fn end(&self) -> Result<()> {
        match self.has_point {
            true => Ok(()),
            false => self.point(Point::default()),
        }
    }
}

pub(crate) fn missing(number: u64) -> Error {
    Error::damaged(format!("message {number} of an outbox is missing"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_golden_and_read_back() {
        let message = Message {
            run: 0x0102,
            sent_ms: 3,
            payload: b"p",
        };
        let mut value = vec![2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0];
        assert!(Message::decode(&value[..15]).is_err());
        value.push(b'p');
        assert_eq!(message.encode(), value);
        assert_eq!(Message::decode(&value).unwrap(), message);
        assert_eq!(key(0x0102), [0, 0, 0, 0, 0, 0, 1, 2]);
        assert!(POINT > &key(u64::MAX >> 1)[..]);
        let point = Point {
            acknowledged: 7,
            deleted: 5,
        };
        let bytes = point.encode();
        assert_eq!(bytes, [7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Point::decode(&bytes), Some(point));
        assert_eq!(Point::decode(&bytes[..15]), None);
        assert_eq!(Point::decode(&[&bytes[..], &[0]].concat()), None);
        let past = Point {
            acknowledged: 5,
            deleted: 7,
        };
        assert_eq!(Point::decode(&past.encode()), None);
    }

    /// What a check says of these rows, and this point.
    fn said(numbers: &[u64], point: Option<(u64, u64)>) -> Option<String> {
        let mut check = OutboxCheck::default();
        let value = [0; 16];
        let rows = numbers.iter().map(|n| (key(*n).to_vec(), value));
        let point = point.map(|(acknowledged, deleted)| {
            let point = Point {
                acknowledged,
                deleted,
            };
            (POINT.to_vec(), point.encode())
        });
        let mut rows = rows.chain(point);
        let checked = rows.try_for_each(|(key, value)| check.row(&key, &value));
        checked
            .and_then(|()| check.end())
            .err()
            .map(|e| e.message().to_string())
    }

    #[test]
    fn a_missing_message_and_a_point_past_the_end_are_found() {
        assert_eq!(said(&[], None), None);
        assert_eq!(said(&[1, 2], None), None);
        assert_eq!(said(&[3, 4], Some((2, 2))), None);
        assert_eq!(said(&[3, 4], Some((4, 2))), None);
        assert_eq!(said(&[], Some((2, 2))), None);
        let missing = |n| Some(missing(n).message().to_string());
        assert_eq!(said(&[2], None), missing(1));
        assert_eq!(said(&[1, 3], None), missing(2));
        assert_eq!(said(&[4], Some((2, 2))), missing(3));
        assert_eq!(said(&[], Some((2, 1))), missing(2));
        let past = said(&[3, 4], Some((5, 2))).unwrap();
        assert!(past.contains("past its last"), "{past}");
        let mut check = OutboxCheck::default();
        assert!(check.row(&[1, 2], &[0; 16]).is_err());
        assert!(check.row(POINT, &[0; 15]).is_err());
    }
}
