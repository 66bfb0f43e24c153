//! Ids that were seen elsewhere before: an import gives a migration a warm window.

use std::time::SystemTime;

use crate::clock::since_epoch;
use crate::commit::{Amended, Amendment, Telling};
use crate::error::Result;
use crate::id::Id;
use crate::scope::Scope;
use crate::why::Why;

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
}

impl Scope {
    /// Records ids as first seen at times of the past, all in one commit: a repeat is a
    /// duplicate from then on, until its retention from *that* time is over. Later times than
    /// now count as now; an id's own [`Id::remember`] counts from its time too. What is known
    /// already stays as it is, so an import that was cut short can be made again.
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
    pub fn import<'a, 'w, I>(
        &self,
        seen: impl IntoIterator<Item = (I, SystemTime)>,
        why: impl Into<Why<'w>>,
    ) -> Result<Imported>
    where
        I: Into<Id<'a>>,
    {
        let why = why.into();
        why.check("an import")?;
        let (ids, how): (Vec<Id<'a>>, Vec<Amendment>) = seen
            .into_iter()
            .map(|(id, at)| (id.into(), record_at(at)))
            .unzip();
        let fates = self.amend(ids, &how, (&why, Telling::Together))?;
        let count = |fate| fates.iter().filter(|f| **f == fate).count() as u64;
        Ok(Imported {
            recorded: count(Amended::Done),
            known: count(Amended::Differs),
            expired: count(Amended::Expired),
            in_progress: count(Amended::Held),
            bad: count(Amended::Bad),
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
    }
}
