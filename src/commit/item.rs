//! One item of a batch: an id, what its message says of it, and what is stored with it.
//!
//! Most items are an id and nothing else, and there are many of them: what few have stands
//! apart, in [`More`], so that an item stays as small as it is.

use std::sync::Arc;

use crate::catalog::ScopeState;
use crate::id::Id;
use crate::index::{Fingerprint, IdHash};
use crate::policy::Policy;
use crate::verdict::BadId;

use super::amend::Outcome;
use super::claim_op::{ClaimOp, DeadWrite};
use super::write::Bytes;

/// A scope as one handle of it sees it.
#[derive(Clone)]
pub(crate) struct ScopeUse {
    pub(crate) state: Arc<ScopeState>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) hash: IdHash,
}

/// One `once` of a batch, or one `sequence`.
#[derive(Clone, Debug, Default)]
pub(crate) struct Item {
    /// Position in `Draft::scopes`; of a sequence, in `Draft::runs`.
    pub(crate) scope: u32,
    /// The id; of a sequence, its number in 8 bytes.
    pub(crate) id: Bytes,
    pub(crate) also: Option<Bytes>,
    pub(crate) source: Option<Bytes>,
    pub(crate) time: ItemTime,
    pub(crate) bad: Option<BadId>,
    /// No id, and the policy says to process it all the same.
    pub(crate) is_unkeyed: bool,
    pub(crate) is_declined: bool,
    pub(crate) has_fallback: bool,
    pub(crate) is_sequence: bool,
    /// Position in `Draft::more`, from 1; 0: there is no more.
    pub(super) more: u32,
}

const _: () = assert!(size_of::<Item>() <= 72, "a batch has thousands of them");

/// From when on an item's id is remembered, and for how long.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ItemTime {
    /// As its scope says.
    #[default]
    Scope,
    /// For so long.
    Remember(u64),
    /// From its own time on.
    Own(u64),
}

/// What few items have.
#[derive(Clone, Debug, Default)]
pub(crate) struct More {
    /// The payload's.
    pub(crate) fingerprint: Option<Fingerprint>,
    /// Stored with the id if it is first seen.
    pub(crate) result: Option<Bytes>,
    /// Stored instead if the item is refused and has an `if_refused`.
    pub(crate) refused_result: Option<Bytes>,
    /// The item is about its id's claim.
    pub(crate) claim: Option<ClaimOp>,
    /// The source, of an item that records the past: kept whatever the policy.
    pub(crate) source: Option<Bytes>,
    /// How the id ended, of an item that records the past.
    pub(super) outcome: Outcome,
    /// Where the payload can be read again.
    pub(crate) reference: Option<Bytes>,
    /// The message is given up if it is first seen, or if it is refused.
    pub(crate) dead: Option<DeadWrite>,
    pub(crate) refused_dead: Option<DeadWrite>,
    /// It failed for good: its id is recorded as such.
    pub(crate) is_failed: bool,
}

impl More {
    pub(super) fn result(&self, refused: bool) -> Option<&Bytes> {
        if refused {
            self.refused_result.as_ref()
        } else {
            self.result.as_ref()
        }
    }

    pub(super) fn dead(&self, refused: bool) -> Option<&DeadWrite> {
        if refused {
            self.refused_dead.as_ref()
        } else {
            self.dead.as_ref()
        }
    }
}

impl Item {
    /// Whether its record needs no more than the id.
    pub(crate) fn is_plain(&self) -> bool {
        self.source.is_none() && self.time == ItemTime::Scope && self.more == 0
    }

    /// The id's retention, if it brings one.
    pub(crate) fn remember_ms(&self) -> Option<u64> {
        match self.time {
            ItemTime::Remember(ms) => Some(ms),
            _ => None,
        }
    }

    /// The id's own time, if it carries one.
    pub(crate) fn own_ms(&self) -> Option<u64> {
        match self.time {
            ItemTime::Own(ms) => Some(ms),
            _ => None,
        }
    }
}

/// What is wrong with an id, if anything.
pub(crate) fn check_id(id: &Id<'_>, policy: &Policy) -> Option<BadId> {
    let Some(bytes) = id.bytes else {
        return Some(BadId::Missing);
    };
    let too_long = |b: &[u8]| b.len() > policy.id_bytes_max;
    if bytes.is_empty() {
        return Some(BadId::Empty);
    }
    let longest = [Some(bytes), id.also]
        .into_iter()
        .flatten()
        .find(|b| too_long(b))?;
    let bytes = u32::try_from(longest.len()).unwrap_or(u32::MAX);
    let bytes_max = u32::try_from(policy.id_bytes_max).unwrap_or(u32::MAX);
    Some(BadId::TooLong { bytes, bytes_max })
}
