//! Source positions: where to go on reading.
//!
//! A stored position is one tag byte and the position: tag 0, a `u64` big-endian; tag 1, bytes.
//! Big-endian, so that both kinds compare as their stored bytes do.

use crate::error::{Error, Result};

/// The next position of a source to read: a number, or bytes that compare as the source orders
/// them.
///
/// ```
/// use firstseen::Position;
/// assert!(Position::from(9) < Position::from(10));
/// assert_eq!(Position::from(7).as_u64(), Some(7));
/// assert_eq!(Position::from(&b"0001:f"[..]).as_bytes(), Some(&b"0001:f"[..]));
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Position(Stored);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stored {
    Number(u64),
    Bytes(Box<[u8]>),
}

/// The longest position in bytes.
pub(crate) const POSITION_BYTES_MAX: usize = 4096;

impl Position {
    /// The number, if it is one.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        match self.0 {
            Stored::Number(n) => Some(n),
            Stored::Bytes(_) => None,
        }
    }

    /// The bytes, if it is bytes.
    #[must_use]
    pub fn as_bytes(&self) -> Option<&[u8]> {
        match &self.0 {
            Stored::Number(_) => None,
            Stored::Bytes(b) => Some(b),
        }
    }

    /// Whether going from `self` to `next` is no step back. Kinds don't mix.
    pub(crate) fn allows(&self, next: &Position) -> bool {
        match (&self.0, &next.0) {
            (Stored::Number(a), Stored::Number(b)) => a <= b,
            (Stored::Bytes(a), Stored::Bytes(b)) => a <= b,
            _ => false,
        }
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match &self.0 {
            Stored::Number(n) => [&[0][..], &n.to_be_bytes()].concat(),
            Stored::Bytes(b) => [&[1][..], b].concat(),
        }
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Position> {
        match bytes.split_first() {
            Some((0, rest)) => match rest.try_into() {
                Ok(n) => Ok(Position(Stored::Number(u64::from_be_bytes(n)))),
                Err(_) => Err(Error::damaged("a stored resume point has a wrong length")),
            },
            Some((1, rest)) => Ok(Position(Stored::Bytes(rest.into()))),
            _ => Err(Error::damaged("a stored resume point has an unknown form")),
        }
    }
}

impl From<u64> for Position {
    fn from(n: u64) -> Position {
        Position(Stored::Number(n))
    }
}

impl From<&[u8]> for Position {
    fn from(bytes: &[u8]) -> Position {
        Position(Stored::Bytes(bytes.into()))
    }
}

impl From<Vec<u8>> for Position {
    fn from(bytes: Vec<u8>) -> Position {
        Position(Stored::Bytes(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_bytes_are_golden_and_ordered() {
        assert_eq!(Position::from(258).encode(), [0, 0, 0, 0, 0, 0, 0, 1, 2]);
        assert_eq!(Position::from(&b"ab"[..]).encode(), [1, b'a', b'b']);
        for p in [Position::from(u64::MAX), Position::from(&b""[..])] {
            assert_eq!(Position::decode(&p.encode()).unwrap(), p);
        }
        assert!(Position::decode(&[]).is_err());
        assert!(Position::decode(&[0, 1]).is_err());
        assert!(Position::decode(&[2]).is_err());
    }

    #[test]
    fn kinds_do_not_mix() {
        assert!(Position::from(1).allows(&Position::from(1)));
        assert!(!Position::from(2).allows(&Position::from(1)));
        assert!(!Position::from(2).allows(&Position::from(&b"x"[..])));
    }
}
