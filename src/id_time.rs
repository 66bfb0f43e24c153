//! Ids that carry a time of their own, and what is done about those that come too late.
//!
//! In a scope of such ids an id is remembered until *its own* time plus the retention. So what is
//! older than the window can be told by the id alone, also after its record is gone: it is late,
//! and never taken for new by accident.
//!
//! Invariants:
//! - I1: an id's own time is a function of its bytes, but for [`IdTime::Given`]: so its record has
//!   one place for life, and only that place is asked.
//! - I2: the form, its epoch and the skew are stored with the scope and never change.
//!
//! Failure: bytes that carry no time are `BadId`; nothing is guessed.

use std::time::Duration;

use crate::clock::millis;
use crate::policy::{DURATION_MS_MAX, Policy, Retention};

/// Where ids have their own time from.
///
/// ```
/// use firstseen::{days, IdTime, OnLate, Policy};
/// let policy = Policy::remember(days(7)).id_time(IdTime::UuidV7).on_late(OnLate::Drop);
/// # let _ = policy;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum IdTime {
    /// A snowflake: a number whose upper bits are milliseconds since an epoch. As 8 bytes, big
    /// endian, or as decimal text of any other length. Numbers above `i64::MAX` carry no time.
    Snowflake {
        /// The epoch in milliseconds since 1970, as 1,288,834,974,657 for Twitter's.
        epoch_ms: u64,
        /// How many bits stand below the milliseconds, 0 to 62; mostly 22.
        low_bits: u8,
    },
    /// A UUID of version 7: 16 bytes, or text of 36 characters, or of 32 without hyphens.
    UuidV7,
    /// A ULID: 16 bytes, or text of 26 characters.
    Ulid,
    /// The time that the message brings, [`Id::event_time`](crate::Id::event_time). It should be
    /// the same each time the id comes; if it is not, the id is found all the same while its
    /// record is remembered.
    Given,
}

/// What becomes of an id that is older than its scope's window. Nobody can tell any more whether
/// it was seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum OnLate {
    /// Its verdict is [`Late`](crate::Verdict::Late), to be set aside
    /// ([`Action::DeadLetter`](crate::Action::DeadLetter)).
    #[default]
    Refuse,
    /// Its verdict is [`Late`](crate::Verdict::Late), to be acknowledged
    /// ([`Action::Ack`](crate::Action::Ack)): for data that is worth nothing by then.
    Drop,
    /// It is first seen each time it comes: its writes are committed, no id is recorded, and
    /// [`Stats::unkeyed`](crate::Stats::unkeyed) counts it. For effects that may happen twice.
    Process,
}

/// How a scope's ids carry their time, as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OwnTime {
    pub(crate) form: IdTime,
    /// How far an id's time may be ahead of the store's.
    pub(crate) ahead_ms: u64,
    /// The retention class that all its records are in.
    pub(crate) class: u8,
}

/// The length of a stored [`OwnTime`].
const STORED_BYTES: usize = 19;

impl OwnTime {
    /// Form u8, low bits u8, class u8, epoch u64 LE, skew u64 LE.
    pub(crate) fn encode(&self) -> [u8; STORED_BYTES] {
        let (form, low_bits, epoch_ms) = match self.form {
            IdTime::Snowflake { epoch_ms, low_bits } => (0, low_bits, epoch_ms),
            IdTime::UuidV7 => (1, 0, 0),
            IdTime::Ulid => (2, 0, 0),
            IdTime::Given => (3, 0, 0),
        };
        let mut bytes = [0; STORED_BYTES];
        bytes[..3].copy_from_slice(&[form, low_bits, self.class]);
        bytes[3..11].copy_from_slice(&epoch_ms.to_le_bytes());
        bytes[11..].copy_from_slice(&self.ahead_ms.to_le_bytes());
        bytes
    }

    /// Reads one from the front; also what is left.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(OwnTime, &[u8])> {
        let (&[form, low_bits, class], rest) = bytes.split_first_chunk::<3>()?;
        let (epoch, rest) = rest.split_first_chunk::<8>()?;
        let (ahead, rest) = rest.split_first_chunk::<8>()?;
        let epoch_ms = u64::from_le_bytes(*epoch);
        let form = match (form, low_bits, epoch_ms) {
            (0, 0..=LOW_BITS_MAX, 0..=DURATION_MS_MAX) => IdTime::Snowflake { epoch_ms, low_bits },
            (1, 0, 0) => IdTime::UuidV7,
            (2, 0, 0) => IdTime::Ulid,
            (3, 0, 0) => IdTime::Given,
            _ => return None,
        };
        let own = OwnTime {
            form,
            ahead_ms: u64::from_le_bytes(*ahead),
            class,
        };
        // The class of what is never forgotten has no slices.
        (own.ahead_ms <= DURATION_MS_MAX && class < 31).then_some((own, rest))
    }
}

const LOW_BITS_MAX: u8 = 62;

impl IdTime {
    /// The time in an id's bytes, in milliseconds since 1970; `None`: there is none.
    pub(crate) fn read(&self, id: &[u8]) -> Option<u64> {
        match *self {
            IdTime::Snowflake { epoch_ms, low_bits } => {
                let number = snowflake(id).filter(|n| i64::try_from(*n).is_ok())?;
                Some((number >> low_bits).saturating_add(epoch_ms))
            }
            IdTime::UuidV7 => {
                let bytes = uuid(id)?;
                let is_v7 = bytes[6] >> 4 == 7 && bytes[8] >> 6 == 0b10;
                is_v7.then(|| upper_48(&bytes))
            }
            IdTime::Ulid => match <[u8; 16]>::try_from(id) {
                Ok(bytes) => Some(upper_48(&bytes)),
                Err(_) => ulid_text(id),
            },
            IdTime::Given => None,
        }
    }
}

fn snowflake(id: &[u8]) -> Option<u64> {
    if let Ok(bytes) = <[u8; 8]>::try_from(id) {
        return Some(u64::from_be_bytes(bytes));
    }
    // `parse` alone would take a sign.
    let is_text = !id.is_empty() && id.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(id).ok().filter(|_| is_text)?;
    text.parse().ok()
}

fn upper_48(bytes: &[u8; 16]) -> u64 {
    bytes[..6].iter().fold(0, |ms, b| ms << 8 | u64::from(*b))
}

fn uuid(id: &[u8]) -> Option<[u8; 16]> {
    if let Ok(bytes) = <[u8; 16]>::try_from(id) {
        return Some(bytes);
    }
    let has_hyphens = match id.len() {
        36 => true,
        32 => false,
        _ => return None,
    };
    let mut number = 0_u128;
    for (at, byte) in id.iter().enumerate() {
        if has_hyphens && matches!(at, 8 | 13 | 18 | 23) {
            if *byte != b'-' {
                return None;
            }
            continue;
        }
        let digit = char::from(*byte).to_digit(16)?;
        number = number << 4 | u128::from(digit);
    }
    Some(number.to_be_bytes())
}

/// Crockford's digits.
const ULID_DIGITS: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

fn ulid_text(id: &[u8]) -> Option<u64> {
    if id.len() != 26 {
        return None;
    }
    let mut ms = 0_u64;
    for (at, byte) in id.iter().enumerate() {
        let upper = byte.to_ascii_uppercase();
        let digit = ULID_DIGITS.iter().position(|d| *d == upper)?;
        // Ten digits have 50 bits, of which the time takes 48.
        if at == 0 && digit > 7 {
            return None;
        }
        if at < 10 {
            ms = ms << 5 | digit as u64;
        }
    }
    Some(ms)
}

impl Policy {
    /// The scope's ids carry their own time, and are remembered for the retention from *that*
    /// time on. Older ones are late ([`Policy::on_late`]); what carries no time, or one too far
    /// ahead ([`Policy::ahead_max`]), is `BadId`. Only with a fixed retention; such a scope's
    /// retention can't be altered, and its ids can't bring one of their own
    /// ([`Id::remember`](crate::Id::remember)). Stored with the scope; a reopen must name the
    /// same. Costs 11 bytes an id, for its first sight.
    ///
    /// The window has to cover how late a message may come first, and how late it may come again.
    pub fn id_time(mut self, form: IdTime) -> Policy {
        self.id_time = Some(form);
        self
    }

    /// What becomes of ids that are older than the window, in a scope of ids with their own time.
    /// Default: `Refuse`. Not stored.
    pub fn on_late(mut self, rule: OnLate) -> Policy {
        self.on_late = rule;
        self
    }

    /// How far an id's own time may be ahead of the store's, in whole milliseconds; up to 200
    /// years, default one minute. What is further ahead is
    /// [`BadId::TooFarAhead`](crate::BadId::TooFarAhead). Stored with a scope of such ids.
    pub fn ahead_max(mut self, skew: Duration) -> Policy {
        self.ahead_max = skew;
        self
    }

    /// What is wrong with how ids carry their time.
    pub(crate) fn check_id_time(&self, wrong: &mut Vec<String>) {
        let Some(form) = self.id_time else {
            return;
        };
        if !matches!(self.retention, Retention::Fixed { .. }) {
            wrong.push("ids with their own time need a fixed retention".to_string());
        }
        if millis(self.ahead_max) > DURATION_MS_MAX {
            wrong.push("ahead_max is longer than 200 years".to_string());
        }
        if let IdTime::Snowflake { epoch_ms, low_bits } = form {
            if low_bits > LOW_BITS_MAX {
                wrong.push(format!(
                    "a snowflake's low_bits must be 0 to {LOW_BITS_MAX}"
                ));
            }
            if epoch_ms > DURATION_MS_MAX {
                wrong.push("a snowflake's epoch is later than 2170".to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWITTER: IdTime = IdTime::Snowflake {
        epoch_ms: 1_288_834_974_657,
        low_bits: 22,
    };

    #[test]
    fn published_ids_carry_the_times_that_are_published_with_them() {
        // From the text of RFC 9562, of the ULID specification, and of Wikipedia's "Snowflake ID".
        let uuid = b"017F22E2-79B0-7CC3-98C4-DC0C0C07398F";
        assert_eq!(IdTime::UuidV7.read(uuid), Some(1_645_557_742_000));
        let bare = b"017f22e279b07cc398c4dc0c0c07398f";
        assert_eq!(IdTime::UuidV7.read(bare), Some(1_645_557_742_000));
        let ulid = b"01ARZ3NDEKTSV4RRFFQ69G5FAV";
        assert_eq!(IdTime::Ulid.read(ulid), Some(1_469_922_850_259));
        let lower = ulid.to_ascii_lowercase();
        assert_eq!(IdTime::Ulid.read(&lower), Some(1_469_922_850_259));
        let snowflake = 1_541_815_603_606_036_480_u64;
        let ms = Some(1_656_432_460_105);
        assert_eq!(TWITTER.read(snowflake.to_string().as_bytes()), ms);
        assert_eq!(TWITTER.read(&snowflake.to_be_bytes()), ms);
    }

    #[test]
    fn binary_forms_have_their_time_in_front() {
        let mut bytes = [0xff; 16];
        bytes[..6].copy_from_slice(&[0, 0, 0, 0, 1, 2]);
        assert_eq!(IdTime::Ulid.read(&bytes), Some(0x0102));
        assert_eq!(IdTime::UuidV7.read(&bytes), None, "not of version 7");
        (bytes[6], bytes[8]) = (0x7f, 0xbf);
        assert_eq!(IdTime::UuidV7.read(&bytes), Some(0x0102));
    }

    #[test]
    fn what_carries_no_time_is_not_guessed() {
        let uuid_4 = &b"017F22E2-79B0-4CC3-98C4-DC0C0C07398F"[..];
        let other_variant = b"017F22E2-79B0-7CC3-D8C4-DC0C0C07398F";
        let misplaced = b"017F22E27-9B0-7CC3-98C4-DC0C0C07398F";
        for id in [uuid_4, other_variant, misplaced, b"", b"order-17"] {
            assert_eq!(IdTime::UuidV7.read(id), None, "{}", id.escape_ascii());
        }
        let beyond = &b"81ARZ3NDEKTSV4RRFFQ69G5FAV"[..];
        let letter = b"01ARZ3NDEKTSV4RRFFQ69G5FAU";
        for id in [beyond, letter, &letter[1..], b""] {
            assert_eq!(IdTime::Ulid.read(id), None, "{}", id.escape_ascii());
        }
        let above = u64::MAX.to_string();
        let more = format!("{above}0");
        for id in ["", "+17", "-17", " 17", "1x", &above, &more] {
            assert_eq!(TWITTER.read(id.as_bytes()), None, "{id}");
        }
        assert_eq!(TWITTER.read(&u64::MAX.to_be_bytes()), None);
        assert_eq!(IdTime::Given.read(b"17"), None);
    }

    #[test]
    fn stored_forms_are_golden_and_read_back() {
        let of = |form| OwnTime {
            form,
            ahead_ms: 0x0102,
            class: 4,
        };
        let snowflake = IdTime::Snowflake {
            epoch_ms: 5,
            low_bits: 22,
        };
        let expected = [0, 22, 4, 5, 0, 0, 0, 0, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0];
        assert_eq!(of(snowflake).encode(), expected);
        for form in [snowflake, IdTime::UuidV7, IdTime::Ulid, IdTime::Given] {
            let bytes = [&of(form).encode()[..], b"name"].concat();
            assert_eq!(OwnTime::decode(&bytes), Some((of(form), &b"name"[..])));
            for cut in 0..STORED_BYTES {
                assert_eq!(OwnTime::decode(&bytes[..cut]), None, "{cut}");
            }
        }
        for (at, wrong) in [(0, 4), (0, 1), (1, 63), (2, 31), (10, 1), (18, 1)] {
            let mut bytes = expected;
            bytes[at] = wrong;
            assert_eq!(OwnTime::decode(&bytes), None, "{at} is {wrong}");
        }
    }
}
