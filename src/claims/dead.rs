//! A dead letter as it is stored, under the same key as a claim.
//!
//! ```text
//! value  1 (format) | attempts u32 | first sight u64 | dead since u64
//!        | why len u16, UTF-8 | source len u16, UTF-8 | reference len u16, bytes | payload
//! ```
//! Integers little-endian; times in milliseconds since 1970. It stays until it is redriven or
//! purged, also when the id itself is long forgotten: what was given up must not be lost too.

use super::row::{sized, take_sized, take_u32, take_u64};
use crate::error::{Error, Result};

const FORMAT: u8 = 1;

/// A dead letter's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct DeadRow {
    pub(crate) attempts: u32,
    pub(crate) first_ms: u64,
    pub(crate) dead_ms: u64,
    pub(crate) why: String,
    pub(crate) source: String,
    pub(crate) reference: Vec<u8>,
    pub(crate) payload: Vec<u8>,
}

impl DeadRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![FORMAT];
        out.extend(self.attempts.to_le_bytes());
        out.extend(self.first_ms.to_le_bytes());
        out.extend(self.dead_ms.to_le_bytes());
        for field in [self.why.as_bytes(), self.source.as_bytes(), &self.reference] {
            sized(&mut out, field);
        }
        out.extend_from_slice(&self.payload);
        out
    }

    /// # Errors
    /// `Damaged` if it is not what [`DeadRow::encode`] makes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<DeadRow> {
        read(bytes).ok_or_else(|| Error::damaged("a dead letter is of an unknown form"))
    }
}

fn read(bytes: &[u8]) -> Option<DeadRow> {
    let (&format, mut rest) = bytes.split_first()?;
    if format != FORMAT {
        return None;
    }
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    Some(DeadRow {
        attempts: take_u32(&mut rest)?,
        first_ms: take_u64(&mut rest)?,
        dead_ms: take_u64(&mut rest)?,
        why: text(take_sized(&mut rest)?)?,
        source: text(take_sized(&mut rest)?)?,
        reference: take_sized(&mut rest)?.to_vec(),
        payload: rest.to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dead_letter_is_golden_reads_back_and_cuts_are_refused() {
        let row = DeadRow {
            attempts: 3,
            first_ms: 4,
            dead_ms: 5,
            why: "no".to_string(),
            source: "s".to_string(),
            reference: vec![9],
            payload: b"body".to_vec(),
        };
        let mut expected = vec![1, 3, 0, 0, 0];
        expected.extend([4, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
        expected.extend([&[2, 0][..], b"no", &[1, 0], b"s", &[1, 0, 9], b"body"].concat());
        assert_eq!(row.encode(), expected);
        assert_eq!(DeadRow::decode(&expected).unwrap(), row);
        for cut in 0..expected.len() - row.payload.len() {
            assert!(DeadRow::decode(&expected[..cut]).is_err(), "{cut}");
        }
        expected[0] = 2;
        assert!(DeadRow::decode(&expected).is_err(), "another format");
    }
}
