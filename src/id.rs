//! An id and what one message says about it.

use std::time::Duration;

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
}

impl<'a> Id<'a> {
    /// The id with these bytes, whole and exact.
    pub fn new<T: AsRef<[u8]> + ?Sized>(bytes: &'a T) -> Id<'a> {
        Id {
            bytes: Some(bytes.as_ref()),
            source: None,
            remember: None,
            also: None,
        }
    }

    /// Whether there is no more to it than its bytes.
    pub(crate) fn is_plain(&self) -> bool {
        self.source.is_none() && self.remember.is_none() && self.also.is_none()
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
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<&'a T> for Id<'a> {
    fn from(bytes: &'a T) -> Id<'a> {
        Id::new(bytes)
    }
}

impl<'a, T: AsRef<[u8]> + ?Sized> From<Option<&'a T>> for Id<'a> {
    fn from(bytes: Option<&'a T>) -> Id<'a> {
        let bytes = bytes.map(AsRef::as_ref);
        Id {
            bytes,
            source: None,
            remember: None,
            also: None,
        }
    }
}
