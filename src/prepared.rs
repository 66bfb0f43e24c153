//! A prepared transaction as it is stored, and the memory of one that has ended.
//!
//! ```text
//! key       'p' | transaction         prepared
//! value     form u8 (1) | prepared at u64 | P u32, P × u32 | L u32, log record | writes
//! write     to u8 (0 table, 1 resume point, 2 claim, 3 dead letter, 4 producer)
//!           | number of the table u32, if it is one | op u8 (0 delete, 1 put)
//!           | key len u32, key | of a put: value len u32, value
//!
//! key       'e' | transaction         ended
//! value     form u8 (1) | how u8 (0 aborted, 1 committed) | at u64 | serial u64 | ids u64
//! ```
//! Integers little-endian; times in milliseconds, effective time since 1970. The log record is as
//! in the log, as of the prepare; P are the positions of those of its ids whose expiry does not
//! count from the commit. The writes are what the conditions came to, by the catalog's numbers: a
//! family's own number would not outlive a copy made by hand.

use crate::error::{Error, Result};

const FORM: u8 = 1;
const PREPARED: u8 = b'p';
const ENDED: u8 = b'e';

/// What a key of the family is of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Key<'a> {
    Prepared(&'a [u8]),
    Ended(&'a [u8]),
}

impl<'a> Key<'a> {
    pub(crate) fn encode(self) -> Vec<u8> {
        let (kind, txn) = match self {
            Key::Prepared(txn) => (PREPARED, txn),
            Key::Ended(txn) => (ENDED, txn),
        };
        [&[kind], txn].concat()
    }

    /// # Errors
    /// `Damaged` if it is of neither kind, or has no name.
    pub(crate) fn decode(key: &'a [u8]) -> Result<Key<'a>> {
        match key.split_first() {
            Some((&PREPARED, txn)) if !txn.is_empty() => Ok(Key::Prepared(txn)),
            Some((&ENDED, txn)) if !txn.is_empty() => Ok(Key::Ended(txn)),
            _ => Err(Error::damaged("the key of a transaction is of no kind")),
        }
    }
}

/// Where a write goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum To {
    /// The table of that number.
    Table(u32),
    /// The outbox of that number, which numbers the message when it is committed: no key.
    Outbox(u32),
    Point,
    Claim,
    Dead,
    Producer,
}

/// One write of a prepared transaction; no value: the row is deleted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written<'a> {
    pub(crate) to: To,
    pub(crate) key: &'a [u8],
    pub(crate) value: Option<&'a [u8]>,
}

impl Written<'_> {
    fn encode(&self, out: &mut Vec<u8>) {
        match self.to {
            To::Table(number) => {
                out.push(0);
                out.extend(number.to_le_bytes());
            }
            To::Point => out.push(1),
            To::Claim => out.push(2),
            To::Dead => out.push(3),
            To::Producer => out.push(4),
            To::Outbox(number) => {
                out.push(5);
                out.extend(number.to_le_bytes());
            }
        }
        out.push(u8::from(self.value.is_some()));
        sized(out, self.key);
        if let Some(value) = self.value {
            sized(out, value);
        }
    }
}

/// A prepared transaction's value, read in place.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct PreparedRow<'a> {
    pub(crate) prepared_ms: u64,
    /// Positions of ids whose expiry stands, ascending.
    pub(crate) standing: Vec<u32>,
    pub(crate) log: &'a [u8],
    pub(crate) writes: Vec<Written<'a>>,
}

impl<'a> PreparedRow<'a> {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORM];
        out.extend(self.prepared_ms.to_le_bytes());
        out.extend((self.standing.len() as u32).to_le_bytes());
        out.extend(self.standing.iter().flat_map(|at| at.to_le_bytes()));
        sized(&mut out, self.log);
        for write in &self.writes {
            write.encode(&mut out);
        }
        out
    }

    /// # Errors
    /// `Damaged` if it is not what [`PreparedRow::encode`] makes. What is in the log record is
    /// for the caller to check.
    pub(crate) fn decode(bytes: &'a [u8]) -> Result<PreparedRow<'a>> {
        read(bytes).ok_or_else(|| Error::damaged("a prepared transaction is of an unknown form"))
    }
}

fn read(bytes: &[u8]) -> Option<PreparedRow<'_>> {
    let (&FORM, mut rest) = bytes.split_first()? else {
        return None;
    };
    let prepared_ms = take_u64(&mut rest)?;
    let count = take_u32(&mut rest)? as usize;
    let (standing, after) = rest.split_at_checked(count.checked_mul(4)?)?;
    rest = after;
    let (standing, _) = standing.as_chunks::<4>();
    let standing: Vec<u32> = standing.iter().map(|at| u32::from_le_bytes(*at)).collect();
    let log = take_sized(&mut rest)?;
    let mut writes = Vec::new();
    while !rest.is_empty() {
        writes.push(take_write(&mut rest)?);
    }
    let row = PreparedRow {
        prepared_ms,
        standing,
        log,
        writes,
    };
    row.standing.is_sorted_by(|a, b| a < b).then_some(row)
}

fn take_write<'a>(rest: &mut &'a [u8]) -> Option<Written<'a>> {
    let to = match take_u8(rest)? {
        0 => To::Table(take_u32(rest)?),
        1 => To::Point,
        2 => To::Claim,
        3 => To::Dead,
        4 => To::Producer,
        5 => To::Outbox(take_u32(rest)?),
        _ => return None,
    };
    let is_put = match take_u8(rest)? {
        0 => false,
        1 => true,
        _ => return None,
    };
    let key = take_sized(rest)?;
    let value = if is_put {
        Some(take_sized(rest)?)
    } else {
        None
    };
    Some(Written { to, key, value })
}

/// How a transaction ended, as long as that is remembered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EndedRow {
    pub(crate) committed: bool,
    pub(crate) at_ms: u64,
    /// Ends are forgotten in the order of these.
    pub(crate) serial: u64,
    /// The ids it recorded.
    pub(crate) ids: u64,
}

impl EndedRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORM, u8::from(self.committed)];
        for number in [self.at_ms, self.serial, self.ids] {
            out.extend(number.to_le_bytes());
        }
        out
    }

    /// # Errors
    /// `Damaged` if it is not what [`EndedRow::encode`] makes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<EndedRow> {
        let wrong = || Error::damaged("the end of a transaction is of an unknown form");
        let (&[form, how], mut rest) = bytes.split_first_chunk::<2>().ok_or_else(wrong)?;
        let mut number = || take_u64(&mut rest).ok_or_else(wrong);
        let row = EndedRow {
            committed: how == 1,
            at_ms: number()?,
            serial: number()?,
            ids: number()?,
        };
        match form == FORM && how <= 1 && rest.is_empty() {
            true => Ok(row),
            false => Err(wrong()),
        }
    }
}

fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u32::try_from(bytes.len()).expect("keys, values and logs are bounded below 4 GiB");
    out.extend(len.to_le_bytes());
    out.extend_from_slice(bytes);
}

fn take_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_u32(bytes)? as usize;
    let (field, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(field)
}

fn take_u8(bytes: &mut &[u8]) -> Option<u8> {
    let (number, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(*number)
}

fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// A prepared transaction's row, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn prepared_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let row = PreparedRow::decode(bytes).ok()?;
    Some((format!("{row:?}"), row.encode()))
}

/// The row of a transaction's end, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn ended_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let row = EndedRow::decode(bytes).ok()?;
    Some((format!("{row:?}"), row.encode()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(to: To, value: Option<&[u8]>) -> Written<'_> {
        let key = b"k";
        Written { to, key, value }
    }

    #[test]
    fn a_prepared_transaction_is_golden_and_reads_back() {
        let row = PreparedRow {
            prepared_ms: 0x0102,
            standing: vec![1, 3],
            log: b"log",
            writes: vec![
                written(To::Table(7), Some(b"v")),
                written(To::Point, Some(b"")),
                written(To::Claim, None),
                written(To::Dead, None),
                written(To::Producer, None),
                written(To::Outbox(8), Some(b"m")),
            ],
        };
        let mut expected = vec![1, 2, 1, 0, 0, 0, 0, 0, 0];
        expected.extend([2, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0]);
        expected.extend(b"\x03\0\0\0log");
        expected.extend(b"\0\x07\0\0\0\x01\x01\0\0\0k\x01\0\0\0v");
        expected.extend(b"\x01\x01\x01\0\0\0k\0\0\0\0");
        for to in [2, 3, 4] {
            expected.extend([to, 0, 1, 0, 0, 0, b'k']);
        }
        expected.extend(b"\x05\x08\0\0\0\x01\x01\0\0\0k\x01\0\0\0m");
        let bytes = row.encode();
        assert_eq!(bytes, expected);
        assert_eq!(PreparedRow::decode(&bytes).unwrap(), row);
        assert_eq!(Key::Prepared(b"x").encode(), b"px");
        assert_eq!(Key::decode(b"px").unwrap(), Key::Prepared(b"x"));
    }

    #[test]
    fn what_is_cut_or_impossible_is_refused() {
        let row = PreparedRow {
            prepared_ms: 1,
            standing: vec![2],
            log: b"log",
            writes: vec![written(To::Table(7), Some(b"v"))],
        };
        let bytes = row.encode();
        // Cut behind the log it is one without writes.
        let whole_without = bytes.len() - 16;
        for cut in (0..bytes.len()).filter(|cut| *cut != whole_without) {
            assert!(PreparedRow::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        for (at, wrong) in [(0, 2), (whole_without, 6), (whole_without + 5, 2)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert!(PreparedRow::decode(&bytes).is_err(), "{wrong} at {at}");
        }
        let twice = PreparedRow {
            standing: vec![2, 2],
            ..row
        };
        assert!(PreparedRow::decode(&twice.encode()).is_err());
        assert!(Key::decode(b"p").is_err() && Key::decode(b"").is_err());
        assert!(Key::decode(b"xy").is_err());
    }

    #[test]
    fn an_end_is_golden_and_cuts_are_refused() {
        let row = EndedRow {
            committed: true,
            at_ms: 3,
            serial: 4,
            ids: 5,
        };
        let mut expected = vec![1, 1];
        for n in [3, 4, 5] {
            expected.extend([n, 0, 0, 0, 0, 0, 0, 0]);
        }
        assert_eq!(row.encode(), expected);
        assert_eq!(EndedRow::decode(&expected).unwrap(), row);
        for cut in 0..expected.len() {
            assert!(EndedRow::decode(&expected[..cut]).is_err(), "{cut}");
        }
        for (at, wrong) in [(0, 2), (1, 2)] {
            let mut bytes = expected.clone();
            bytes[at] = wrong;
            assert!(EndedRow::decode(&bytes).is_err(), "{wrong} at {at}");
        }
        expected.push(0);
        assert!(EndedRow::decode(&expected).is_err(), "a byte too many");
        assert_eq!(Key::decode(b"ex").unwrap(), Key::Ended(b"x"));
    }
}
