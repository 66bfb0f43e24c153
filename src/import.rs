//! Ids that were seen elsewhere before: an import gives a migration a warm window.

use std::time::SystemTime;

use crate::clock::since_epoch;
use crate::commit::{Amended, Amendment, Carried, PastOutcome, Telling};
use crate::error::Result;
use crate::explain::Record;
use crate::id::{Id, PayloadKey};
use crate::index::Ended;
use crate::scope::Scope;
use crate::verdict::IdState;
use crate::why::Why;

/// An id as it was recorded elsewhere: its first sight, and what was kept with it. An id and a
/// time convert, and so does a [`Record`] of another store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past<'a> {
    id: Id<'a>,
    at: SystemTime,
    key: Option<PayloadKey>,
    carried: Carried<'a>,
}

impl<'a> Past<'a> {
    /// An id that was first seen then.
    pub fn new(id: impl Into<Id<'a>>, at: SystemTime) -> Past<'a> {
        Past {
            id: id.into(),
            at,
            key: None,
            carried: Carried::default(),
        }
    }

    /// The result that its duplicates are answered with; up to 16,384 bytes, whatever the policy.
    #[must_use]
    pub fn result(mut self, bytes: &'a [u8]) -> Past<'a> {
        self.carried.result = Some(bytes);
        self
    }

    /// Its payload's fingerprint, and the key that it was made with. It is kept only in a scope of
    /// that key ([`Policy::payload_key`](crate::Policy::payload_key)).
    #[must_use]
    pub fn fingerprint(mut self, bytes: [u8; 16], key: PayloadKey) -> Past<'a> {
        self.carried.fingerprint = Some(bytes);
        self.key = Some(key);
        self
    }

    /// It was refused by a condition.
    #[must_use]
    pub fn refused(mut self) -> Past<'a> {
        self.carried.outcome.refused = true;
        self
    }

    /// It failed for good.
    #[must_use]
    pub fn failed(mut self) -> Past<'a> {
        self.carried.outcome.ended = Ended::Failed;
        self
    }

    /// It was given up. The dead letter itself is not made.
    #[must_use]
    pub fn dead_lettered(mut self) -> Past<'a> {
        self.carried.outcome.ended = Ended::Dead;
        self
    }

    /// The attempt of the claim that it was ended by, from 1.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Past<'a> {
        self.carried.outcome.attempt = attempt;
        self
    }
}

impl<'a, I: Into<Id<'a>>> From<(I, SystemTime)> for Past<'a> {
    fn from((id, at): (I, SystemTime)) -> Past<'a> {
        Past::new(id, at)
    }
}

impl<'a> From<&'a Record> for Past<'a> {
    fn from(record: &'a Record) -> Past<'a> {
        let (seen, at) = (&record.seen, record.seen.first_seen_at());
        let mut id = Id::new(&record.id);
        id.source = seen.source();
        let left = record
            .expires_at
            .and_then(|end| end.duration_since(at).ok());
        id.remember = left;
        let outcome = PastOutcome {
            refused: seen.was_refused(),
            ended: match seen.state() {
                IdState::Failed => Ended::Failed,
                IdState::DeadLettered => Ended::Dead,
                _ => Ended::Done,
            },
            attempt: seen.attempt().unwrap_or(0),
        };
        let carried = Carried {
            source: None,
            result: seen.result(),
            fingerprint: record.fingerprint.map(|(print, _)| print),
            outcome,
        };
        let key = record.fingerprint.map(|(_, key)| key);
        Past {
            id,
            at,
            key,
            carried,
        }
    }
}

/// What became of ids that were imported.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Imported {
    /// Recorded, and duplicates from now on.
    pub recorded: u64,
    /// Known already: their records stay as they are.
    pub known: u64,
    /// Left out, since they would have expired by now.
    pub expired: u64,
    /// Left out, since another caller holds them: import them again.
    pub in_progress: u64,
    /// Missing, empty or too long; without the time that ids of the scope carry, or too far ahead.
    pub bad: u64,
    /// Fingerprints left out, since they were made with another key than the scope's. Their ids
    /// are compared with no payload.
    pub fingerprints_left_out: u64,
}

impl Scope {
    /// The key that this scope's payload fingerprints are made with: whoever takes its ids to
    /// another store makes the scope there with it ([`Policy::payload_key`]). It lets its holder
    /// make two payloads of one fingerprint, so keep it as you keep the data.
    ///
    /// [`Policy::payload_key`]: crate::Policy::payload_key
    ///
    /// # Errors
    /// `Closed`.
    pub fn payload_key(&self) -> Result<PayloadKey> {
        let core = self.shared.core()?;
        Ok(PayloadKey(self.used.state.payload_key(&core.index().ids)))
    }

    /// Records ids as first seen at times of the past, all in one commit: a repeat is a
    /// duplicate from then on, until its retention from *that* time is over. Later times than
    /// now count as now; an id's own [`Id::remember`] counts from its time too. What is known
    /// already stays as it is, so an import that was cut short can be made again.
    ///
    /// Sources, results, fingerprints and outcomes that come with an id ([`Past`]) are kept with
    /// it, whatever the policy; claims and dead letters are not imported.
    ///
    /// The audit gets one entry a call. Durable at the store's level, `Written` for `Buffered`.
    ///
    /// # Errors
    /// `Invalid` without a reason; as [`Scope::insert_all`]: all are recorded or none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store};
    /// use std::time::{Duration, SystemTime};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let orders = store.scope("orders", Policy::remember(days(7)))?;
    /// # #[allow(clippy::disallowed_methods)]
    /// let yesterday = SystemTime::now() - Duration::from_secs(86_400);
    /// let imported = orders.import([("order-17", yesterday)], "from the old table")?;
    /// assert_eq!(imported.recorded, 1);
    /// assert!(orders.insert("order-17")?.is_duplicate());
    /// # Ok(()) }
    /// ```
    pub fn import<'a, 'w, P>(
        &self,
        seen: impl IntoIterator<Item = P>,
        why: impl Into<Why<'w>>,
    ) -> Result<Imported>
    where
        P: Into<Past<'a>>,
    {
        let why = why.into();
        why.check("an import")?;
        let (mut how, mut left_out) = (Vec::new(), 0);
        let fates = self.with_draft(|core, draft| {
            let key = Some(PayloadKey(self.used.state.payload_key(&core.index().ids)));
            for past in seen {
                let mut past: Past<'a> = past.into();
                if past.carried.fingerprint.is_some() && past.key != key {
                    past.carried.fingerprint = None;
                    left_out += 1;
                }
                past.carried.source = past.id.source;
                let at = draft.add_item(&self.used, &past.id, core.caps);
                draft.carry(at, &past.carried, core.caps);
                how.push(record_at(past.at));
            }
            let told = (&why, Telling::Together);
            core.committer.amend(draft, &how, told, core.durability)
        })?;
        let count = |fate| fates.iter().filter(|f| **f == fate).count() as u64;
        Ok(Imported {
            recorded: count(Amended::Done),
            known: count(Amended::Differs),
            expired: count(Amended::Expired),
            in_progress: count(Amended::Held),
            bad: count(Amended::Bad),
            fingerprints_left_out: left_out,
        })
    }
}

fn record_at(at: SystemTime) -> Amendment {
    Amendment::Record {
        first_ms: since_epoch(at),
    }
}

impl std::ops::AddAssign for Imported {
    fn add_assign(&mut self, more: Imported) {
        self.recorded += more.recorded;
        self.known += more.known;
        self.expired += more.expired;
        self.in_progress += more.in_progress;
        self.bad += more.bad;
        self.fingerprints_left_out += more.fingerprints_left_out;
    }
}
