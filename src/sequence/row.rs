//! A producer as it is stored, one row each.
//!
//! ```text
//! key      space u16 BE | name (1..=512 bytes)
//! value    form u8 (1) | epoch u64 | high u64 | complete_from u64 | last_ms u64 | ring
//! ring     64 to 4,096 bits, a power of two: bit n mod size is that of number n
//! ```
//! Numbers are little-endian but for the space, so that a space's rows lie together.

use crate::error::{Error, Result};
use crate::producer::{NAME_BYTES_MAX, is_window};

use super::known::Known;
use super::window::Window;

const FORM: u8 = 1;

/// What the keys of a space's producers begin with.
pub(crate) fn key_prefix(space: u16) -> [u8; 2] {
    space.to_be_bytes()
}

pub(crate) fn key(space: u16, name: &[u8]) -> Vec<u8> {
    [&key_prefix(space)[..], name].concat()
}

/// A key's space and name.
pub(crate) fn split_key(key: &[u8]) -> Result<(u16, &[u8])> {
    match key.split_first_chunk::<2>() {
        Some((space, name)) if (1..=NAME_BYTES_MAX).contains(&name.len()) => {
            Ok((u16::from_be_bytes(*space), name))
        }
        _ => Err(Error::damaged("the key of a producer has a wrong length")),
    }
}

pub(crate) fn encode(producer: &Known) -> Vec<u8> {
    let window = &producer.window;
    let mut value = Vec::with_capacity(33 + window.ring.len() * 8);
    value.push(FORM);
    for number in [
        window.epoch,
        window.high,
        window.complete_from,
        producer.last_ms,
    ] {
        value.extend_from_slice(&number.to_le_bytes());
    }
    for word in &window.ring {
        value.extend_from_slice(&word.to_le_bytes());
    }
    value
}

/// # Errors
/// `Damaged` if it is not what [`encode`] makes.
pub(crate) fn decode(value: &[u8]) -> Result<Known> {
    read(value).ok_or_else(|| Error::damaged("a stored producer is of an unknown form"))
}

fn read(value: &[u8]) -> Option<Known> {
    let (&FORM, rest) = value.split_first()? else {
        return None;
    };
    let (numbers, ring) = rest.split_at_checked(32)?;
    let (numbers, _) = numbers.as_chunks::<8>();
    let (words, odd) = ring.as_chunks::<8>();
    if !odd.is_empty() || !is_window(words.len() * 64) {
        return None;
    }
    let number = |i: usize| numbers.get(i).map(|b| u64::from_le_bytes(*b));
    let window = Window {
        epoch: number(0)?,
        high: number(1)?,
        complete_from: number(2)?,
        ring: words.iter().map(|w| u64::from_le_bytes(*w)).collect(),
    };
    let is_empty =
        window.high == 0 && window.complete_from == 0 && window.ring.iter().all(|word| *word == 0);
    // Bits of numbers below 0 are never set.
    let below_0 = (window.high.saturating_add(1)..window.bits()).any(|n| window.has(n));
    let is_sound = window.has(window.high) && window.complete_from <= window.low() && !below_0;
    (is_empty || is_sound).then_some(Known {
        window,
        last_ms: number(3)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_golden_and_reads_back() {
        let mut window = Window::new(64, 0x0102);
        for n in [70, 72, 71, 200] {
            window.record(0x0102, n);
        }
        let known = Known { window, last_ms: 3 };
        let value = encode(&known);
        let number = |low: u8, high: u8| [low, high, 0, 0, 0, 0, 0, 0];
        let ring = number(0, 1);
        let expected = [
            &[1][..],
            &number(2, 1),
            &number(200, 0),
            &number(137, 0),
            &number(3, 0),
            &ring,
        ]
        .concat();
        assert_eq!(value, expected);
        assert_eq!(decode(&value).unwrap(), known);
        assert_eq!(key(0x0102, b"p"), b"\x01\x02p");
        assert_eq!(split_key(b"\x01\x02p").unwrap(), (0x0102, &b"p"[..]));
        assert!(split_key(b"\x01\x02").is_err());
        for cut in 0..value.len() {
            assert!(decode(&value[..cut]).is_err(), "{cut}");
        }
        for (at, byte) in [(0, 2), (17, 138), (9, 201), (34, 0)] {
            let mut wrong = value.clone();
            wrong[at] = byte;
            assert!(decode(&wrong).is_err(), "{byte} at {at}");
        }
        let three = [&value[..], &[0; 16]].concat();
        assert!(decode(&three).is_err(), "no power of two");
    }

    #[test]
    fn one_that_recorded_nothing_reads_back() {
        let known = Known {
            window: Window::new(128, 9),
            last_ms: 0,
        };
        assert_eq!(decode(&encode(&known)).unwrap(), known);
        let mut wrong = encode(&known);
        wrong[9] = 1;
        assert!(decode(&wrong).is_err(), "a mark without its bit");
    }
}
