//! Looking closely: everything that is known of one id, and whole records in a scan.

use std::ops::RangeBounds;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::claim::ClaimEntry;
use crate::claims::{DeadRow, claim_key};
use crate::commit::check_id;
use crate::dead::{DeadLetter, letter};
use crate::error::{Error, Result};
use crate::id::{Id, PayloadKey};
use crate::index::{Book, FOR_EVER_MS, State};
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
    /// Its record, also one that has expired or was forgotten, as long as it is there.
    pub record: Option<RecordFound>,
    /// Its claim: somebody works on it, it waits for an attempt, or its outcome is unknown. It
    /// outranks the record.
    pub claim: Option<ClaimEntry>,
    /// Its dead letter.
    pub dead_letter: Option<DeadLetter>,
}

impl Explanation {
    /// Whether a repeat is not first seen: it has a record that is remembered, or a claim.
    #[must_use]
    pub fn is_known(&self) -> bool {
        self.claim.is_some() || self.remembered().is_some()
    }

    /// Its record, if it is remembered.
    #[must_use]
    pub fn remembered(&self) -> Option<&RecordFound> {
        let record = self.record.as_ref();
        record.filter(|record| record.state == RecordState::Remembered)
    }
}

/// The record that stands for an id.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordFound {
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
    /// Everything that is known of an id now: its record, also one that has expired or was
    /// forgotten but is still there, its claim, and its dead letter. Like
    /// [`peek`](Scope::peek) it decides nothing. The three are read one after another: of an id
    /// that is being worked on they may be of two moments.
    ///
    /// # Errors
    /// `Invalid` for a missing, empty or oversize id; `Damaged`, `Closed`.
    pub fn explain<'a>(&self, id: impl Into<Id<'a>>) -> Result<Explanation> {
        let core = self.shared.core()?;
        let id = id.into();
        if let Some(bad) = check_id(&id, &self.used.policy) {
            return Err(Error::invalid(bad.to_string()));
        }
        self.check_not_dropped()?;
        let bytes = id.bytes.unwrap_or_default();
        let found = core.committer.explain(&self.used.state, bytes)?;
        let record = found.map(|found| {
            let meta = &found.hit.meta;
            RecordFound {
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
        });
        let number = self.used.state.number;
        let key = claim_key(number, bytes);
        let (now_ms, mono_ms) = (core.index().time.now_ms(), core.index().time.mono_ms());
        let claim = core.committer.claims.get(&key);
        let claim = claim
            .filter(|claim| claim.row.expiry_ms > now_ms)
            .map(|claim| {
                let is_of_dead_run = !core.committer.claims.is_of_this_run(claim.row.nonce);
                ClaimEntry::new(bytes.to_vec(), &claim, mono_ms, is_of_dead_run)
            });
        let dead = match core.index().book(Book::Dead) {
            Some(family) => {
                let row = family.get(&key)?;
                row.map(|row| DeadRow::decode(&row)).transpose()?
            }
            None => None,
        };
        Ok(Explanation {
            record,
            claim,
            dead_letter: dead.map(|row| letter(bytes, row)),
        })
    }

    /// As [`Scope::scan`], with each id's expiry: what an export needs.
    ///
    /// # Errors
    /// As [`Scope::scan`].
    pub fn records(&self, range: impl RangeBounds<SystemTime>) -> Result<Records> {
        let key = self.payload_key()?;
        Ok(Records(self.scan(range)?, key))
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
    /// The fingerprint of its payload ([`Id::payload`]) and the key it was made with, if it has
    /// one.
    ///
    /// [`Id::payload`]: crate::Id::payload
    pub fingerprint: Option<([u8; 16], PayloadKey)>,
}

/// Remembered ids with all that is known of them; see [`Scope::records`].
pub struct Records(Scan, PayloadKey);

impl Iterator for Records {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.0.step_whole().transpose()?;
        let key = self.1;
        Some(step.map(|whole| Record {
            id: whole.id,
            seen: whole.seen,
            expires_at: moment(whole.expiry_ms),
            fingerprint: whole.fingerprint.map(|print| (print, key)),
        }))
    }
}
