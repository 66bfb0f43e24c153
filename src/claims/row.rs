//! A claim as it is stored.
//!
//! ```text
//! key    scope u16 BE | id
//! value  1 (format) | phase u8 | nonce 16 | attempt u32 | pardoned u32
//!        | first sight u64 | lease u64 | until u64 | expiry u64
//!        | why len u16, UTF-8 | reference len u16, bytes | extras
//! ```
//! Integers little-endian but the key's; times in milliseconds, effective time since 1970.
//! `until` is the lease's end, or the moment from which a free id may be claimed. The extras are
//! those of a record (source, payload fingerprint), for the record that the claim becomes.
//!
//! Invariant W1: the attempt only rises, from the first claim of an id to its end. `pardoned` is
//! what it was when the id was last redriven; the limit counts from there.

use crate::error::{Error, Result};

const FORMAT: u8 = 1;

/// What tells one claim of an id from every other: the run of the store that it was made in (a
/// random number, new at each open), and a number within it. So it can't come again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) struct Nonce {
    pub(crate) run: u64,
    pub(crate) serial: u64,
}

/// What a claim's row says of its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Somebody works on it, or did until the lease ran out.
    Held,
    /// An attempt ended without an outcome: the next one may begin.
    Free,
    /// Nobody knows whether the effect took place, and somebody must decide.
    Unknown,
}

/// A claim's row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct ClaimRow {
    pub(crate) phase: Phase,
    pub(crate) nonce: Nonce,
    /// From 1; 0 if it never was claimed (a message that was redriven).
    pub(crate) attempt: u32,
    pub(crate) pardoned: u32,
    pub(crate) first_ms: u64,
    pub(crate) lease_ms: u64,
    pub(crate) until_ms: u64,
    /// From then on the row means nothing.
    pub(crate) expiry_ms: u64,
    /// Why the outcome is unknown, or the last attempt failed.
    pub(crate) why: String,
    /// Where the payload can be read again.
    pub(crate) reference: Vec<u8>,
    pub(crate) extras: Vec<u8>,
}

/// The key of an id's row, of claims and of dead letters.
pub(crate) fn claim_key(scope: u16, id: &[u8]) -> Box<[u8]> {
    [&scope.to_be_bytes(), id].concat().into()
}

/// The scope of a key, if it is one.
pub(crate) fn scope_of(key: &[u8]) -> Option<u16> {
    let (scope, id) = key.split_first_chunk::<2>()?;
    (!id.is_empty()).then(|| u16::from_be_bytes(*scope))
}

/// The id of a key.
pub(crate) fn id_of(key: &[u8]) -> &[u8] {
    key.get(2..).unwrap_or_default()
}

impl ClaimRow {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let phase = match self.phase {
            Phase::Held => 0,
            Phase::Free => 1,
            Phase::Unknown => 2,
        };
        let mut out = vec![FORMAT, phase];
        out.extend(self.nonce.run.to_le_bytes());
        out.extend(self.nonce.serial.to_le_bytes());
        out.extend(self.attempt.to_le_bytes());
        out.extend(self.pardoned.to_le_bytes());
        for ms in [self.first_ms, self.lease_ms, self.until_ms, self.expiry_ms] {
            out.extend(ms.to_le_bytes());
        }
        sized(&mut out, self.why.as_bytes());
        sized(&mut out, &self.reference);
        out.extend_from_slice(&self.extras);
        out
    }

    /// # Errors
    /// `Damaged` if it is not what [`ClaimRow::encode`] makes.
    pub(crate) fn decode(bytes: &[u8]) -> Result<ClaimRow> {
        read(bytes).ok_or_else(|| Error::damaged("a claim is of an unknown form"))
    }

    pub(crate) fn is_held(&self) -> bool {
        self.phase == Phase::Held
    }

    /// Attempts since the last redrive.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempt - self.pardoned
    }
}

fn read(bytes: &[u8]) -> Option<ClaimRow> {
    let (&[format, phase], rest) = bytes.split_first_chunk::<2>()?;
    let phase = match (format, phase) {
        (FORMAT, 0) => Phase::Held,
        (FORMAT, 1) => Phase::Free,
        (FORMAT, 2) => Phase::Unknown,
        _ => return None,
    };
    let mut rest = rest;
    let nonce = Nonce {
        run: take_u64(&mut rest)?,
        serial: take_u64(&mut rest)?,
    };
    let (attempt, pardoned) = (take_u32(&mut rest)?, take_u32(&mut rest)?);
    let row = ClaimRow {
        phase,
        nonce,
        attempt,
        pardoned,
        first_ms: take_u64(&mut rest)?,
        lease_ms: take_u64(&mut rest)?,
        until_ms: take_u64(&mut rest)?,
        expiry_ms: take_u64(&mut rest)?,
        why: String::from_utf8(take_sized(&mut rest)?.to_vec()).ok()?,
        reference: take_sized(&mut rest)?.to_vec(),
        extras: rest.to_vec(),
    };
    (row.pardoned <= row.attempt).then_some(row)
}

/// Appends bytes with their length, u16; what it is given is bounded.
pub(super) fn sized(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u16::try_from(bytes.len()).expect("texts and references are bounded at 1 KiB");
    out.extend(len.to_le_bytes());
    out.extend_from_slice(bytes);
}

pub(super) fn take_sized<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (len, rest) = bytes.split_first_chunk::<2>()?;
    let (field, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*len)))?;
    *bytes = rest;
    Some(field)
}

pub(super) fn take_u64(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

pub(super) fn take_u32(bytes: &mut &[u8]) -> Option<u32> {
    let (number, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    Some(u32::from_le_bytes(*number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row() -> ClaimRow {
        ClaimRow {
            phase: Phase::Unknown,
            nonce: Nonce { run: 1, serial: 2 },
            attempt: 4,
            pardoned: 3,
            first_ms: 5,
            lease_ms: 6,
            until_ms: 7,
            expiry_ms: 8,
            why: "late".to_string(),
            reference: b"o/3".to_vec(),
            extras: vec![2, 1, 0, b's'],
        }
    }

    #[test]
    fn a_claim_is_golden_and_reads_back() {
        let number = |n: u8| [n, 0, 0, 0, 0, 0, 0, 0];
        let mut expected = vec![1, 2];
        expected.extend([number(1), number(2)].concat());
        expected.extend([4, 0, 0, 0, 3, 0, 0, 0]);
        expected.extend([number(5), number(6), number(7), number(8)].concat());
        expected.extend([&[4, 0][..], b"late", &[3, 0], b"o/3", &[2, 1, 0, b's']].concat());
        assert_eq!(row().encode(), expected);
        assert_eq!(ClaimRow::decode(&expected).unwrap(), row());
        assert_eq!(&claim_key(0x0102, b"id")[..], b"\x01\x02id");
        assert_eq!(
            (scope_of(b"\x01\x02id"), id_of(b"\x01\x02id")),
            (Some(0x0102), &b"id"[..])
        );
        assert_eq!((scope_of(b"\x01\x02"), scope_of(b"\x01")), (None, None));
    }

    #[test]
    fn what_is_cut_or_impossible_is_refused() {
        let bytes = row().encode();
        for cut in 0..bytes.len() - row().extras.len() {
            assert!(ClaimRow::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        for (at, wrong) in [(0, 2), (1, 3), (22, 5)] {
            let mut bytes = bytes.clone();
            bytes[at] = wrong;
            assert!(ClaimRow::decode(&bytes).is_err(), "{wrong} at {at}");
        }
    }
}
