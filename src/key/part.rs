//! The parts of a key and their bytes: one table of tags, one writer, one reader.
//!
//! The grammar and the invariants are in the parent module. The reader never looks past its bytes
//! and takes nothing that the writer would not have written.

use std::fmt;

/// The first byte of format 1. Later formats take 0xF9 to 0xFF.
pub(super) const FORMAT: u8 = 0xF8;

const PLAIN: u8 = 0;
const BUSINESS: u8 = 1;
const CLUSTER: u8 = 2;
const TOPIC: u8 = 3;
const PARTITION: u8 = 4;
const OFFSET: u8 = 5;
pub(super) const SCENE: u8 = 6;
pub(super) const EVENT: u8 = 7;
pub(super) const SEQUENCE: u8 = 8;

/// The bits of the tags that identify a message, and the three sets of them that a key may have.
const HEAD_BITS: u16 = 0b11_1111;
const POSITION_BITS: u16 = 1 << CLUSTER | 1 << TOPIC | 1 << PARTITION | 1 << OFFSET;
const HEADS: [u16; 3] = [1 << PLAIN, 1 << BUSINESS, POSITION_BITS];

/// One part of a [`Key`](super::Key).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Part<'a> {
    /// A part without a name.
    Plain(&'a [u8]),
    /// The business key.
    Business(&'a [u8]),
    /// The cluster of a position.
    Cluster(&'a [u8]),
    /// The topic of a position.
    Topic(&'a [u8]),
    /// The partition of a position.
    Partition(u32),
    /// The offset of a position.
    Offset(u64),
    /// The business scene.
    Scene(&'a [u8]),
    /// What happened.
    Event(&'a [u8]),
    /// Which time it happened.
    Sequence(u64),
}

/// What a part holds, once its tag is set aside.
enum Body<'a> {
    Bytes(&'a [u8]),
    Number(u64),
}

impl<'a> Part<'a> {
    /// The tag, the word for people and the body: one table for encoding and printing.
    fn split(self) -> (u8, &'static str, Body<'a>) {
        match self {
            Self::Plain(b) => (PLAIN, "", Body::Bytes(b)),
            Self::Business(b) => (BUSINESS, "business ", Body::Bytes(b)),
            Self::Cluster(b) => (CLUSTER, "cluster ", Body::Bytes(b)),
            Self::Topic(b) => (TOPIC, "topic ", Body::Bytes(b)),
            Self::Partition(n) => (PARTITION, "partition ", Body::Number(n.into())),
            Self::Offset(n) => (OFFSET, "offset ", Body::Number(n)),
            Self::Scene(b) => (SCENE, "scene ", Body::Bytes(b)),
            Self::Event(b) => (EVENT, "event ", Body::Bytes(b)),
            Self::Sequence(n) => (SEQUENCE, "sequence ", Body::Number(n)),
        }
    }

    pub(super) fn tag(self) -> u8 {
        self.split().0
    }

    pub(super) fn encode(self, out: &mut Vec<u8>) {
        let (tag, _, body) = self.split();
        out.push(tag);
        match body {
            Body::Bytes(bytes) => {
                // A usize has at most 64 bits on every target.
                put_number(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Body::Number(number) => put_number(number, out),
        }
    }
}

/// Text in quotes, other bytes as `b"\x00"`, numbers as they are.
impl fmt::Display for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (_, word, body) = self.split();
        f.write_str(word)?;
        match body {
            Body::Number(number) => write!(f, "{number}"),
            Body::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => write!(f, "{text:?}"),
                Err(_) => write!(f, "b\"{}\"", bytes.escape_ascii()),
            },
        }
    }
}

/// The parts of a [`Key`](super::Key), from [`Key::iter`](super::Key::iter).
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    pub(super) reader: Reader<'a>,
}

impl<'a> Iterator for Parts<'a> {
    type Item = Part<'a>;

    fn next(&mut self) -> Option<Part<'a>> {
        // A key's bytes were built or checked here, so reading fails only at the end.
        self.reader.part().ok()
    }
}

/// Why bytes are not a key: what is wrong, and at which byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyError {
    pub(super) at: usize,
    pub(super) why: &'static str,
}

impl KeyError {
    /// How many of the key's bytes were read before the fault.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not a key: {} at byte {}", self.why, self.at)
    }
}

impl std::error::Error for KeyError {}

/// Whether `bytes` is a key, whole, canonical and identifying something.
pub(super) fn check(bytes: &[u8]) -> Result<(), KeyError> {
    let mut reader = Reader { bytes, at: 0 };
    if reader.byte()? != FORMAT {
        return Err(KeyError {
            at: 0,
            why: "unknown format",
        });
    }
    let (mut last, mut seen) = (PLAIN, 0_u16);
    while reader.at < bytes.len() {
        let at = reader.at;
        let part = reader.part()?;
        let tag = part.tag();
        if tag < last || (tag == last && tag != PLAIN) {
            return Err(KeyError {
                at,
                why: "part out of order",
            });
        }
        if part == Part::Business(b"") {
            return Err(KeyError {
                at,
                why: "empty business key",
            });
        }
        last = tag;
        seen |= 1 << tag;
    }
    if !HEADS.contains(&(seen & HEAD_BITS)) {
        return Err(KeyError {
            at: bytes.len(),
            why: "no parts, one business key or one position",
        });
    }
    Ok(())
}

/// Reads parts one after another, never past the end.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Reader<'a> {
    fn error(&self, why: &'static str) -> KeyError {
        KeyError { at: self.at, why }
    }

    fn byte(&mut self) -> Result<u8, KeyError> {
        let byte = *self
            .bytes
            .get(self.at)
            .ok_or_else(|| self.error("cut short"))?;
        self.at += 1;
        Ok(byte)
    }

    fn part(&mut self) -> Result<Part<'a>, KeyError> {
        let tag = self.byte()?;
        Ok(match tag {
            PLAIN => Part::Plain(self.slice()?),
            BUSINESS => Part::Business(self.slice()?),
            CLUSTER => Part::Cluster(self.slice()?),
            TOPIC => Part::Topic(self.slice()?),
            PARTITION => Part::Partition(
                u32::try_from(self.number()?).map_err(|_| self.error("partition over 32 bits"))?,
            ),
            OFFSET => Part::Offset(self.number()?),
            SCENE => Part::Scene(self.slice()?),
            EVENT => Part::Event(self.slice()?),
            SEQUENCE => Part::Sequence(self.number()?),
            _ => return Err(self.error("unknown part")),
        })
    }

    fn slice(&mut self) -> Result<&'a [u8], KeyError> {
        let length = self.number()?;
        let rest = &self.bytes[self.at..];
        let length = usize::try_from(length).ok().filter(|&n| n <= rest.len());
        let length = length.ok_or_else(|| self.error("part cut short"))?;
        self.at += length;
        Ok(&rest[..length])
    }

    /// One LEB128 number, refused unless it is the shortest form (invariant 2).
    fn number(&mut self) -> Result<u64, KeyError> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7F);
            if (shift == 63 && bits > 1) || (shift > 0 && byte == 0) {
                return Err(self.error("number not in its shortest form"));
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(number);
            }
        }
        Err(self.error("number over 64 bits"))
    }
}

fn put_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number.to_le_bytes()[0] | 0x80);
        number >>= 7;
    }
    out.push(number.to_le_bytes()[0]);
}
