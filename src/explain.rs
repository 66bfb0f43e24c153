//! Looking closely: everything that is known of one id, and whole records in a scan.

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::commit::check_id;
use crate::error::{Error, Result};
use crate::id::Id;
use crate::index::{FOR_EVER_MS, State};
use crate::scope::{Scan, Scope};
use crate::verdict::Sighting;

/// What an id's record is worth now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecordState {
    /// Remembered: a repeat is a duplicate.
    Remembered,
    /// Its retention is over: the next sight is the first. The record leaves with its generation.
    Expired,
    /// Forgotten by request: the next sight is the first.
    Forgotten,
}

/// Where an id's record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Tier {
    /// In the active set, in memory, and in the packed log; not sealed yet.
    ActiveSet,
    /// In a page of its generation, on disk.
    Generation,
}

/// Everything that is known of an id; see [`Scope::explain`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explanation {
    /// Whether it is remembered.
    pub state: RecordState,
    /// When it was first seen, from where, and whether it was refused then.
    pub seen: Sighting,
    /// When its retention is over; `None`: never.
    pub expires_at: Option<SystemTime>,
    /// Where the record is.
    pub tier: Tier,
    /// The retention class of its generation.
    pub class: u8,
    /// When its generation ends, and with it the record leaves; `None`: never.
    pub generation_ends_at: Option<SystemTime>,
    /// Which of the scope's retentions it was recorded under, from 0.
    pub retention_version: u8,
    /// Whether it supersedes an older record of the id.
    pub supersedes: bool,
}

/// Milliseconds since 1970 as a time; `None`: never.
pub(crate) fn moment(ms: u64) -> Option<SystemTime> {
    let since = Duration::from_millis(ms);
    UNIX_EPOCH.checked_add(since).filter(|_| ms != FOR_EVER_MS)
}

impl Scope {
    /// Everything that is known of an id now, also of one whose record has expired or was
    /// forgotten but is still there. `None`: there is no record. Like
    /// [`peek`](Scope::peek) it decides nothing.
    ///
    /// # Errors
    /// `Invalid` for a missing, empty or oversize id; `Damaged`, `Closed`.
    pub fn explain<'a>(&self, id: impl Into<Id<'a>>) -> Result<Option<Explanation>> {
        let core = self.shared.core()?;
        let id = id.into();
        if let Some(bad) = check_id(&id, &self.used.policy) {
            return Err(Error::invalid(bad.to_string()));
        }
        self.check_not_dropped()?;
        let bytes = id.bytes.unwrap_or_default();
        let found = core.committer.explain(&self.used.state, bytes)?;
        Ok(found.map(|found| {
            let meta = &found.hit.meta;
            Explanation {
                state: match meta.state {
                    State::Seen if meta.is_duplicate_at(found.now_ms) => RecordState::Remembered,
                    State::Seen => RecordState::Expired,
                    State::Forgotten => RecordState::Forgotten,
                },
                seen: found.sighting,
                expires_at: moment(meta.expiry_ms),
                tier: if found.is_sealed {
                    Tier::Generation
                } else {
                    Tier::ActiveSet
                },
                class: found.hit.placement.class,
                generation_ends_at: moment(found.hit.placement.end_ms),
                retention_version: meta.stamp.version,
                supersedes: meta.over,
            }
        }))
    }

    /// As [`Scope::scan`], with each id's expiry: what an export needs.
    ///
    /// # Errors
    /// As [`Scope::scan`].
    pub fn records(&self, range: impl RangeBounds<SystemTime>) -> Result<Records> {
        Ok(Records(self.scan(range)?))
    }
}

/// A remembered id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Record {
    /// The id.
    pub id: Bytes,
    /// When it was first seen, from where, and whether it was refused then.
    pub seen: Sighting,
    /// When its retention is over; `None`: never.
    pub expires_at: Option<SystemTime>,
}

/// Remembered ids with all that is known of them; see [`Scope::records`].
pub struct Records(Scan);

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.0.step_whole().transpose()?;
        Some(step.map(|(id, seen, expiry_ms)| Record {
            id,
            seen,
            expires_at: moment(expiry_ms),
        }))
    }
}
