//! What the index remembers about an id, the same in the active set, the log and the pages.
//!
//! Invariants
//! 1. [`Slice`] orders by (end, class): the one total order in which generations are probed and
//!    in which a record that supersedes another is placed.
//! 2. The first hit is the record, even if it has expired or is a tombstone.
//! 3. A record is a duplicate's witness iff its state is seen and the time is below its expiry.
//!
//! Concurrency: plain values. Failure: none.
//!
//! Why first sight isn't stored: it is the expiry less the retention of the policy version in
//! the stamp, and the expiry is what every lookup needs.

/// The expiry, or the slice end, of what never expires.
pub(crate) const FOR_EVER_MS: u64 = u64::MAX;

/// The class of what is never forgotten.
pub(crate) const FOR_EVER_CLASS: u8 = 31;

/// Scope number and the version of its policy in force when the record was written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub(crate) struct Stamp {
    pub(crate) scope: u16,
    pub(crate) version: u8,
}

/// What a record says of its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// The id was seen, and is a duplicate until its expiry.
    Seen,
    /// The id was forgotten on request: a tombstone that hides older records.
    Forgotten,
}

/// The generation a record belongs to. An end of [`FOR_EVER_MS`] never comes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Slice {
    pub(crate) end_ms: u64,
    pub(crate) class: u8,
}

impl Slice {
    /// Whether a slice with these numbers can be: of a class there may be, and without an end
    /// only in the class of what is never forgotten. What is stored is asked before it is used.
    pub(crate) fn is_possible(self) -> bool {
        let is_for_ever = self.class == FOR_EVER_CLASS;
        self.class <= FOR_EVER_CLASS && is_for_ever == (self.end_ms == FOR_EVER_MS)
    }
}

/// What every record carries beside its id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub(crate) stamp: Stamp,
    pub(crate) state: State,
    /// Written over an older record of the id: leaves only with its generation.
    pub(crate) over: bool,
    /// Effective time from which the id is new again; [`FOR_EVER_MS`]: never.
    pub(crate) expiry_ms: u64,
}

impl Meta {
    /// Whether the id of this record is a duplicate at `now_ms`.
    #[inline]
    pub(crate) fn is_duplicate_at(&self, now_ms: u64) -> bool {
        self.state == State::Seen && now_ms < self.expiry_ms
    }
}

/// What a lookup found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Hit {
    pub(crate) meta: Meta,
    pub(crate) placement: Slice,
    /// Opaque bytes of a rich record (explicit first sight, source, result, fingerprint).
    pub(crate) extras: Option<Box<[u8]>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_order_by_end_then_class_and_for_ever_is_last() {
        let slice = |end_ms, class| Slice { end_ms, class };
        assert!(slice(10, 9) < slice(11, 0));
        assert!(slice(10, 1) < slice(10, 2));
        assert!(slice(u64::MAX - 1, 255) < slice(FOR_EVER_MS, 0));
    }

    #[test]
    fn only_the_last_class_has_no_end() {
        let slice = |end_ms, class| Slice { end_ms, class };
        assert!(slice(0, 0).is_possible() && slice(FOR_EVER_MS - 1, 30).is_possible());
        assert!(slice(FOR_EVER_MS, FOR_EVER_CLASS).is_possible());
        assert!(!slice(FOR_EVER_MS, 30).is_possible());
        assert!(!slice(5, FOR_EVER_CLASS).is_possible() && !slice(5, 32).is_possible());
    }

    #[test]
    fn only_a_seen_record_before_its_expiry_makes_a_duplicate() {
        let stamp = Stamp {
            scope: 1,
            version: 0,
        };
        let mut meta = Meta {
            stamp,
            state: State::Seen,
            over: false,
            expiry_ms: 100,
        };
        assert!(meta.is_duplicate_at(99));
        assert!(!meta.is_duplicate_at(100));
        meta.state = State::Forgotten;
        assert!(!meta.is_duplicate_at(99));
    }
}
