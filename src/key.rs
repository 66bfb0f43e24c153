//! Composing ids: a business key with its scene, event and sequence, or a broker position.
//!
//! An id is bytes, and joining parts by a separator makes two different messages one id. Here
//! every part says what it is and how long it is.
//!
//! ```text
//! key      = 0xF8 head tail          0xF8 starts no UTF-8 text, so no text id equals a key
//! head     = plain+ | business | cluster topic partition offset
//! tail     = [scene] [event] [sequence]
//! part     = tag length bytes | tag number
//! ```
//!
//! Lengths and numbers are LEB128, always in their shortest form.
//!
//! Invariants:
//!
//! 1. Injective: two keys with different parts have different bytes.
//! 2. Canonical: bytes that parse are exactly the bytes that the parsed key encodes to. The order
//!    of the calls that name parts does not show in the bytes.
//! 3. A key that identifies nothing is the empty id, which a scope refuses; it is never an id that
//!    all messages without a business key would share.
//!
//! Everything here is a pure function of its input: no locks, no time. Unreadable bytes are a
//! [`KeyError`], never a panic.
//!
//! Why not a separator with escapes: the escape is forgotten by one producer in one language, and
//! the collision shows as a lost message months later.

pub mod header;
mod part;
#[cfg(test)]
mod tests;

use std::fmt;

use part::{FORMAT, Reader, check};
pub use part::{KeyError, Part, Parts};

/// An id composed of parts that can't run into each other.
///
/// Give a reference to it wherever an id is taken. The parts are length-prefixed and tagged, so
/// `("a", "b-c")` and `("a-b", "c")` are two ids, and a key without a scene differs from one whose
/// scene is empty. The same parts give the same bytes in every release that writes format 1.
///
/// Naming a part twice keeps the last; the order of the calls makes no difference.
///
/// A key that identifies nothing ([`Key::new`] with an empty business key, [`Key::parts`] without
/// parts) has no bytes: it is the empty id, which scopes refuse like a missing one.
///
/// Building costs one small buffer. The bytes are the parts' own plus two each (more for parts
/// over 127 bytes) plus one.
///
/// # Examples
///
/// ```
/// use firstseen::Key;
///
/// let key = Key::new("order-17").scene("payments").event("charged").sequence(3);
/// assert_eq!(
///     key.to_string(),
///     r#"business "order-17" scene "payments" event "charged" sequence 3"#
/// );
/// assert_eq!(Key::parse(key.as_ref())?, key);
///
/// // What a separator would confuse stays apart.
/// assert_ne!(Key::parts(["a", "b-c"]), Key::parts(["a-b", "c"]));
/// // Without the header there is no id, and not one id for everybody.
/// assert!(Key::new("").scene("payments").as_ref().is_empty());
/// # Ok::<(), firstseen::KeyError>(())
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    bytes: Vec<u8>,
    /// Identifies nothing, and so reads as the empty id (invariant 3).
    blank: bool,
}

impl Key {
    /// A key for one thing of the business: an order, a payment, a user's notification.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let charged = Key::new("order-17").event("charged");
    /// let refunded = Key::new("order-17").event("refunded");
    /// assert_ne!(charged, refunded);
    /// ```
    #[must_use]
    pub fn new(business: impl AsRef<[u8]>) -> Self {
        let business = business.as_ref();
        Self::with_head([Part::Business(business)], business.is_empty())
    }

    /// A key of a list of parts that need no names. Lists of different lengths are different keys.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let key = Key::parts(["tenant-4", "invoice", "2024-11"]);
    /// assert_eq!(key.to_string(), r#""tenant-4" "invoice" "2024-11""#);
    /// assert_ne!(Key::parts(["a", ""]), Key::parts(["a"]));
    /// ```
    #[must_use]
    pub fn parts<I>(parts: I) -> Self
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let mut key = Self::with_head([], true);
        for part in parts {
            Part::Plain(part.as_ref()).encode(&mut key.bytes);
            key.blank = false;
        }
        key
    }

    /// The place of a message in a broker's log, for sources whose messages have no id of their
    /// own. It tells redeliveries apart from new messages, but not a producer's second send of the
    /// same message: that has another offset, and needs a business key.
    ///
    /// An offset alone repeats in every partition, and a topic in every cluster, so all four are
    /// asked for. Where there is only one cluster, any constant will do, also an empty one.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let key = Key::position("eu-1", "orders", 3, 1_044);
    /// let (cluster, topic, partition, offset) = key.as_position().ok_or("not a position")?;
    /// assert_eq!((cluster, topic), (&b"eu-1"[..], &b"orders"[..]));
    /// assert_eq!((partition, offset), (3, 1_044));
    /// assert_ne!(key, Key::position("eu-1", "orders", 4, 1_044));
    /// # Ok::<(), &'static str>(())
    /// ```
    #[must_use]
    pub fn position(
        cluster: impl AsRef<[u8]>,
        topic: impl AsRef<[u8]>,
        partition: u32,
        offset: u64,
    ) -> Self {
        let head = [
            Part::Cluster(cluster.as_ref()),
            Part::Topic(topic.as_ref()),
            Part::Partition(partition),
            Part::Offset(offset),
        ];
        Self::with_head(head, false)
    }

    /// Names the business scene the key belongs to, where one business key serves several.
    #[must_use]
    pub fn scene(self, scene: impl AsRef<[u8]>) -> Self {
        self.with(Part::Scene(scene.as_ref()))
    }

    /// Names what happened, where one thing has several events.
    #[must_use]
    pub fn event(self, event: impl AsRef<[u8]>) -> Self {
        self.with(Part::Event(event.as_ref()))
    }

    /// Numbers the event, where the same event may rightly happen again (the third reminder).
    #[must_use]
    pub fn sequence(self, sequence: u64) -> Self {
        self.with(Part::Sequence(sequence))
    }

    /// Reads a key back from its bytes.
    ///
    /// Accepts exactly what keys encode to: the bytes of the key returned are `bytes`.
    ///
    /// # Errors
    ///
    /// When `bytes` is not a whole key in its one canonical form, or a key that identifies nothing.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let stored = Key::new("order-17").as_ref().to_vec();
    /// assert_eq!(Key::parse(&stored)?, Key::new("order-17"));
    /// assert!(Key::parse(b"order-17").is_err());
    /// # Ok::<(), firstseen::KeyError>(())
    /// ```
    pub fn parse(bytes: &[u8]) -> Result<Self, KeyError> {
        check(bytes)?;
        Ok(Self {
            bytes: bytes.to_vec(),
            blank: false,
        })
    }

    /// The key as lowercase hexadecimal digits, for headers that carry only text. Two digits a
    /// byte: brokers that allow 128 characters take keys of up to 64 bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let key = Key::new("order-17").event("charged");
    /// assert_eq!(key.to_hex(), "f801086f726465722d3137070763686172676564");
    /// assert_eq!(Key::parse_hex(&key.to_hex())?, key);
    /// # Ok::<(), firstseen::KeyError>(())
    /// ```
    #[must_use]
    pub fn to_hex(&self) -> String {
        let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble & 15)]);
        self.as_ref()
            .iter()
            .flat_map(|&byte| [digit(byte >> 4), digit(byte)])
            .collect()
    }

    /// Reads a key back from [`Key::to_hex`].
    ///
    /// # Errors
    ///
    /// When `text` is not lowercase hexadecimal digits, or what they say is not a key.
    pub fn parse_hex(text: &str) -> Result<Self, KeyError> {
        let digits = text.as_bytes();
        let mut bytes = Vec::with_capacity(digits.len() / 2);
        for (at, pair) in digits.chunks(2).enumerate() {
            let error = || KeyError {
                at,
                why: "not two lowercase hexadecimal digits",
            };
            let [high, low] = pair else {
                return Err(error());
            };
            let (high, low) = (
                nibble(*high).ok_or_else(error)?,
                nibble(*low).ok_or_else(error)?,
            );
            bytes.push(high << 4 | low);
        }
        check(&bytes)?;
        Ok(Self {
            bytes,
            blank: false,
        })
    }

    /// The parts in the order of the encoding: what identifies, then scene, event and sequence.
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::{Key, Part};
    ///
    /// let key = Key::new("order-17").sequence(3).event("charged");
    /// let parts: Vec<Part> = key.iter().collect();
    /// assert_eq!(
    ///     parts,
    ///     [Part::Business(b"order-17"), Part::Event(b"charged"), Part::Sequence(3)]
    /// );
    /// ```
    pub fn iter(&self) -> Parts<'_> {
        Parts {
            reader: Reader {
                bytes: &self.bytes,
                at: 1,
            },
        }
    }

    /// The business key, for keys made by [`Key::new`].
    ///
    /// # Examples
    ///
    /// ```
    /// use firstseen::Key;
    ///
    /// let key = Key::new("order-17").scene("payments").sequence(3);
    /// assert_eq!(key.business_key(), Some(&b"order-17"[..]));
    /// assert_eq!(key.scene_name(), Some(&b"payments"[..]));
    /// assert_eq!(key.event_name(), None);
    /// assert_eq!(key.sequence_number(), Some(3));
    /// ```
    #[must_use]
    pub fn business_key(&self) -> Option<&[u8]> {
        self.iter().find_map(|part| {
            if let Part::Business(b) = part {
                Some(b)
            } else {
                None
            }
        })
    }

    /// The scene's name, if one was given.
    #[must_use]
    pub fn scene_name(&self) -> Option<&[u8]> {
        self.iter().find_map(|part| {
            if let Part::Scene(b) = part {
                Some(b)
            } else {
                None
            }
        })
    }

    /// The event's name, if one was given.
    #[must_use]
    pub fn event_name(&self) -> Option<&[u8]> {
        self.iter().find_map(|part| {
            if let Part::Event(b) = part {
                Some(b)
            } else {
                None
            }
        })
    }

    /// The sequence number, if one was given.
    #[must_use]
    pub fn sequence_number(&self) -> Option<u64> {
        self.iter().find_map(|part| {
            if let Part::Sequence(n) = part {
                Some(n)
            } else {
                None
            }
        })
    }

    /// Cluster, topic, partition and offset, for keys made by [`Key::position`].
    #[must_use]
    pub fn as_position(&self) -> Option<(&[u8], &[u8], u32, u64)> {
        let mut parts = self.iter();
        match (parts.next()?, parts.next()?, parts.next()?, parts.next()?) {
            (Part::Cluster(c), Part::Topic(t), Part::Partition(p), Part::Offset(o)) => {
                Some((c, t, p, o))
            }
            _ => None,
        }
    }

    /// The key's bytes, owned.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        if self.blank { Vec::new() } else { self.bytes }
    }

    fn with_head<'a>(head: impl IntoIterator<Item = Part<'a>>, blank: bool) -> Self {
        let mut bytes = vec![FORMAT];
        for part in head {
            part.encode(&mut bytes);
        }
        Self { bytes, blank }
    }

    /// Puts a named part at its place by tag, instead of one with the same tag.
    fn with(mut self, part: Part<'_>) -> Self {
        let mut place = self.bytes.len()..self.bytes.len();
        let mut parts = self.iter();
        let mut start = parts.reader.at;
        while let Some(there) = parts.next() {
            if there.tag() >= part.tag() {
                let end = if there.tag() == part.tag() {
                    parts.reader.at
                } else {
                    start
                };
                place = start..end;
                break;
            }
            start = parts.reader.at;
        }
        let mut encoded = Vec::new();
        part.encode(&mut encoded);
        self.bytes.splice(place, encoded);
        self
    }
}

/// The id's bytes; empty for a key that identifies nothing.
impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        if self.blank { &[] } else { &self.bytes }
    }
}

impl From<Key> for Vec<u8> {
    fn from(key: Key) -> Self {
        key.into_bytes()
    }
}

impl<'a> IntoIterator for &'a Key {
    type Item = Part<'a>;
    type IntoIter = Parts<'a>;

    fn into_iter(self) -> Parts<'a> {
        self.iter()
    }
}

/// The parts in words and quotes, for logs and people; not to be parsed.
impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, part) in self.iter().enumerate() {
            let space = if i == 0 { "" } else { " " };
            write!(f, "{space}{part}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

fn nibble(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}
