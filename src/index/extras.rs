//! What a rich record carries behind its id: a few tagged fields.
//!
//! ```text
//! field: tag u8 | len u16 LE | bytes
//! tag 1: first sight, u64 LE milliseconds (where the policy version does not give it)
//! tag 2: source, UTF-8
//! tag 3: the id was recorded by an `if_refused`, no bytes
//! tag 4: fingerprint of the message's payload, 16 bytes
//! tag 5: stored result, bytes as the caller gave them
//! tag 6: attempt of the claim that the record was made by, u32
//! tag 7: how the id ended, u8: 1 failed for good, 2 dead-lettered
//! tag 8: the id's own time, u64 LE milliseconds (of a claim whose message brought one)
//! ```
//! Unknown tags are skipped, so that a later release may add fields.

use super::hash::Fingerprint;

const FIRST_SEEN: u8 = 1;
const SOURCE: u8 = 2;
const REFUSED: u8 = 3;
const PAYLOAD: u8 = 4;
const RESULT: u8 = 5;
const ATTEMPT: u8 = 6;
const ENDED: u8 = 7;
const EVENT: u8 = 8;

/// The longest source that is kept, in bytes.
pub(crate) const SOURCE_BYTES_MAX: usize = 255;

/// The fields of a rich record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extras<'a> {
    pub(crate) first_seen_ms: Option<u64>,
    pub(crate) source: Option<&'a str>,
    pub(crate) refused: bool,
    pub(crate) payload: Option<Fingerprint>,
    pub(crate) result: Option<&'a [u8]>,
    /// 0 if it was not claimed.
    pub(crate) attempt: u32,
    pub(crate) ended: Ended,
    pub(crate) event_ms: Option<u64>,
}

/// How an id came to its record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Ended {
    /// Its effect took place.
    #[default]
    Done,
    /// A claim of it failed for good.
    Failed,
    /// It was given up.
    Dead,
}

impl<'a> Extras<'a> {
    /// Whether there is nothing to carry: a plain record.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Extras::default()
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        if let Some(ms) = self.first_seen_ms {
            field(out, FIRST_SEEN, &ms.to_le_bytes());
        }
        if let Some(source) = self.source {
            field(out, SOURCE, Extras::shortened(source).as_bytes());
        }
        if self.refused {
            field(out, REFUSED, &[]);
        }
        if let Some(payload) = &self.payload {
            field(out, PAYLOAD, payload);
        }
        if let Some(result) = self.result {
            field(out, RESULT, result);
        }
        if self.attempt > 0 {
            field(out, ATTEMPT, &self.attempt.to_le_bytes());
        }
        match self.ended {
            Ended::Done => {}
            Ended::Failed => field(out, ENDED, &[1]),
            Ended::Dead => field(out, ENDED, &[2]),
        }
        if let Some(ms) = self.event_ms {
            field(out, EVENT, &ms.to_le_bytes());
        }
    }

    /// Reads what it understands; bytes that are cut short end it.
    pub(crate) fn decode(mut bytes: &'a [u8]) -> Extras<'a> {
        let mut extras = Extras::default();
        while let [tag, low, high, rest @ ..] = bytes {
            let len = usize::from(u16::from_le_bytes([*low, *high]));
            let Some((field, rest)) = rest.split_at_checked(len) else {
                break;
            };
            match *tag {
                FIRST_SEEN => extras.first_seen_ms = field.try_into().ok().map(u64::from_le_bytes),
                SOURCE => extras.source = std::str::from_utf8(field).ok(),
                REFUSED => extras.refused = true,
                PAYLOAD => extras.payload = field.try_into().ok(),
                RESULT => extras.result = Some(field),
                ATTEMPT => extras.attempt = field.try_into().map_or(0, u32::from_le_bytes),
                ENDED if field == [1] => extras.ended = Ended::Failed,
                ENDED if field == [2] => extras.ended = Ended::Dead,
                EVENT => extras.event_ms = field.try_into().ok().map(u64::from_le_bytes),
                _ => {}
            }
            bytes = rest;
        }
        extras
    }

    /// A source cut to its limit at a character's border.
    pub(crate) fn shortened(source: &str) -> &str {
        let mut end = source.len().min(SOURCE_BYTES_MAX);
        while !source.is_char_boundary(end) {
            end -= 1;
        }
        &source[..end]
    }

    /// An upper bound of the encoded length, for reserving room.
    pub(crate) fn bytes_max(source_bytes: Option<usize>, result_bytes: Option<usize>) -> usize {
        let source = source_bytes.map_or(0, |len| 3 + len.min(SOURCE_BYTES_MAX));
        let always = 3 + 8 + 3 + 3 + size_of::<Fingerprint>() + 3 + 4 + 3 + 1 + 3 + 8;
        always + source + result_bytes.map_or(0, |len| 3 + len)
    }
}

fn field(out: &mut Vec<u8>, tag: u8, bytes: &[u8]) {
    out.push(tag);
    let len = u16::try_from(bytes.len()).expect("a field is bounded far below 64 KiB");
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_golden_and_read_back() {
        let extras = Extras {
            first_seen_ms: Some(0x0102),
            source: Some("o/3"),
            refused: true,
            payload: Some([7; 16]),
            result: Some(b"ok"),
            attempt: 9,
            ended: Ended::Dead,
            event_ms: Some(5),
        };
        let mut bytes = Vec::new();
        extras.encode(&mut bytes);
        let expected = [
            &[1, 8, 0, 2, 1, 0, 0, 0, 0, 0, 0, 2, 3, 0][..],
            b"o/3",
            &[3, 0, 0, 4, 16, 0],
            &[7; 16],
            &[5, 2, 0],
            b"ok",
            &[6, 4, 0, 9, 0, 0, 0, 7, 1, 0, 2],
            &[8, 8, 0, 5, 0, 0, 0, 0, 0, 0, 0],
        ]
        .concat();
        assert_eq!(bytes, expected);
        assert_eq!(Extras::decode(&bytes), extras);
        assert!(bytes.len() <= Extras::bytes_max(Some(3), Some(2)));
    }

    #[test]
    fn damage_is_no_panic() {
        let mut bytes = Vec::new();
        Extras {
            first_seen_ms: Some(1),
            source: Some("x"),
            payload: Some([1; 16]),
            result: Some(b""),
            ..Extras::default()
        }
        .encode(&mut bytes);
        for cut in 0..bytes.len() {
            let _ = Extras::decode(&bytes[..cut]);
        }
        let unknown = [&[9, 1, 0, 7][..], &bytes].concat();
        assert_eq!(Extras::decode(&unknown), Extras::decode(&bytes));
    }

    #[test]
    fn a_long_source_is_cut_at_a_character() {
        let long = "ä".repeat(200);
        assert_eq!(Extras::shortened(&long).len(), 254);
    }
}
