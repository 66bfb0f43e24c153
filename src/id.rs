//! An id and what one message says about it.

use std::time::{Duration, SystemTime};

use crate::clock::since_epoch;

/// An id as a call takes it: its bytes, and what the message adds.
///
/// Anything that is bytes converts, also an `Option` of it: `None` is a *missing* id, which the
/// scope's policy decides about, never a silent "no dedup".
///
/// ```
/// use firstseen::Id;
/// use std::time::Duration;
/// let id = Id::new("order-17").source("orders/3").remember(Duration::from_secs(60));
/// # let _ = id;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id<'a> {
    pub(crate) bytes: Option<&'a [u8]>,
    pub(crate) source: Option<&'a str>,
    pub(crate) remember: Option<Duration>,
    pub(crate) also: Option<&'a [u8]>,
    pub(crate) payload: Option<&'a [u8]>,
    pub(crate) reference: Option<&'a [u8]>,
    pub(crate) event_ms: Option<u64>,
    /// It is no message's: its own time, if it has one, is not asked for.
    pub(crate) is_timeless: bool,
}

impl<'a> Id<'a> {
    /// The id with these bytes, whole and exact.
    pub fn new<T: AsRef<[u8]> + ?Sized>(bytes: &'a T) -> Id<'a> {
        Id::of(Some(bytes.as_ref()))
    }

    fn of(bytes: Option<&'a [u8]>) -> Id<'a> {
        Id {
            bytes,
            source: None,
            remember: None,
            also: None,
            payload: None,
            reference: None,
            event_ms: None,
            is_timeless: false,
        }
    }

    /// Whether there is no more to it than its bytes.
    pub(crate) fn is_plain(&self) -> bool {
        self.source.is_none()
            && self.remember.is_none()
            && self.also.is_none()
            && self.payload.is_none()
            && self.reference.is_none()
            && self.event_ms.is_none()
    }

    /// Where the message came from. Kept if the scope keeps sources
    /// ([`Policy::sources`](crate::Policy::sources)), at most 255 bytes of it.
    #[must_use]
    pub fn source(mut self, source: &'a str) -> Id<'a> {
        self.source = Some(source);
        self
    }

    /// A retention for this id alone, instead of the scope's, in whole milliseconds.
    /// It must be 1 ms or more; a scope that remembers for ever refuses it.
    #[must_use]
    pub fn remember(mut self, retention: Duration) -> Id<'a> {
        self.remember = Some(retention);
        self
    }

    /// The same message's id in an older key format: an id seen under either is a duplicate,
    /// a new one is recorded under the new key only. For the time of a migration.
    #[must_use]
    pub fn also<T: AsRef<[u8]> + ?Sized>(mut self, old: &'a T) -> Id<'a> {
        self.also = Some(old.as_ref());
        self
    }

    /// Where the message's payload can be read again, as a topic, partition and offset or an
    /// object's name: kept with a claim of the id, and in its dead letter if it is given up. At
    /// most 1,024 bytes; more is `Invalid`. Only claims keep it.
    #[must_use]
    pub fn reference<T: AsRef<[u8]> + ?Sized>(mut self, place: &'a T) -> Id<'a> {
        self.reference = Some(place.as_ref());
        self
    }

    /// When what the message tells of happened: the id's own time, in a scope whose ids are given
    /// theirs ([`IdTime::Given`](crate::IdTime::Given)), to the millisecond; before 1970 is 1970.
    /// `Invalid` in any other scope.
    #[must_use]
    pub fn event_time(mut self, at: SystemTime) -> Id<'a> {
        self.event_ms = Some(since_epoch(at));
        self
    }

    /// The id alone, to look at it or to do something with it by hand.
    pub(crate) fn timeless(self) -> Id<'a> {
        Id {
            is_timeless: true,
            ..self
        }
    }

    /// The message's body, to find an id that comes again with another one: the verdict is then
    /// [`PayloadMismatch`](crate::Verdict::PayloadMismatch), and nothing is written for it. The
    /// scope must compare payloads ([`Policy::payloads`](crate::Policy::payloads)).
    ///
    /// Only a fingerprint of 16 bytes is kept with the id: a 128-bit hash (XXH3) under the
    /// store's random seed. Bodies that differ by mistake are found. Someone who knows the seed
    /// can make two bodies of one fingerprint: it is no signature, and no proof of origin.
    ///
    /// What is not there is not compared: a record made without a payload equals every payload,
    /// and so does an id that brings none.
    #[must_use]
    pub fn payload<T: AsRef<[u8]> + ?Sized>(mut self, body: &'a T) -> Id<'a> {
        self.payload = Some(body.as_ref());
        self
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Id<'a> {
    fn from(bytes: &'a T) -> Id<'a> {
        Id::new(bytes)
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<Option<&'a T>> for Id<'a> {
    fn from(bytes: Option<&'a T>) -> Id<'a> {
        Id::of(bytes.map(AsRef::as_ref))
    }
}

/// The key of a scope's payload fingerprints; see
/// [`Scope::payload_key`](crate::Scope::payload_key). Who knows it can make two payloads of one
/// fingerprint.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct PayloadKey(pub(crate) u64);

impl PayloadKey {
    /// The key as bytes, to be kept with fingerprints.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The key of these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 8]) -> PayloadKey {
        PayloadKey(u64::from_le_bytes(bytes))
    }
}

impl std::fmt::Debug for PayloadKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PayloadKey")
    }
}
