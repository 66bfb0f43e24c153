//! A handle of an approximate scope.

use std::sync::Arc;

use crate::approx::{ApproximateStats, Distinct, Recovery, Sight, State};
use crate::error::Result;
use crate::store::Shared;
use crate::verdict::BadId;

/// Ids of a call whose memory is asked for before the first of them is looked up.
const AHEAD: usize = 32;

/// A handle of an approximate scope: it answers from filters in memory, with false positives at a
/// stated rate and no false negatives within its window; see
/// [`Store::approximate`](crate::Store::approximate). Cheap to clone; `Send + Sync`; may outlive
/// the store, whose calls then answer `Closed`.
#[derive(Clone)]
pub struct ApproximateScope {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<State>,
}

impl std::fmt::Debug for ApproximateScope {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ApproximateScope")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

impl ApproximateScope {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// The atomic check-and-insert of one id of any length.
    ///
    /// Of concurrent calls with one id, while it is remembered, exactly one is first, and no
    /// call waits for another one's work: there is none to wait for. An id that was first is
    /// probably seen for the window from then, sights in between don't prolong that. Nothing is
    /// written; a snapshot is, now and then. Costs a few cache lines and no system call.
    ///
    /// # Errors
    /// `Closed`; `Invalid` once the scope was dropped. Nothing was recorded then.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{Approximate, Options, Sight, Store};
    /// use std::time::Duration;
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let hour = Approximate::window(Duration::from_secs(3600)).expected(1_000_000);
    /// let clicks = store.approximate("clicks", hour)?;
    /// assert_eq!(clicks.insert("click-17")?, Sight::First);
    /// match clicks.insert("click-17")? {
    ///     Sight::Probably { error_rate } => assert!(error_rate <= 0.01),
    ///     other => panic!("{other:?}"),
    /// }
    /// assert_eq!(clicks.distinct()?.estimate, 1);
    /// # Ok(()) }
    /// ```
    pub fn insert(&self, id: impl AsRef<[u8]>) -> Result<Sight> {
        let core = self.shared.core()?;
        self.sight(self.hash(id.as_ref()), core.index().time.now_ms())
    }

    /// The check-and-insert of many ids, one after the other: what was answered before an error
    /// is recorded.
    ///
    /// # Errors
    /// As [`ApproximateScope::insert`].
    pub fn insert_all<I>(&self, ids: I) -> Result<Vec<Sight>>
    where
        I: IntoIterator,
        I::Item: AsRef<[u8]>,
    {
        let core = self.shared.core()?;
        let now_ms = core.index().time.now_ms();
        let mut ids = ids.into_iter().map(|id| self.hash(id.as_ref()));
        let (mut sights, mut ahead) = (Vec::new(), Vec::with_capacity(AHEAD));
        loop {
            ahead.clear();
            ahead.extend(ids.by_ref().take(AHEAD));
            if ahead.is_empty() {
                return Ok(sights);
            }
            ahead
                .iter()
                .flatten()
                .for_each(|hash| self.state.prefetch(*hash));
            for hash in &ahead {
                sights.push(self.sight(*hash, now_ms)?);
            }
        }
    }

    /// None for what is no id.
    fn hash(&self, id: &[u8]) -> Option<u64> {
        (!id.is_empty()).then(|| self.state.hash(id))
    }

    fn sight(&self, hash: Option<u64>, now_ms: u64) -> Result<Sight> {
        let Some(hash) = hash else {
            return Ok(Sight::BadId(BadId::Empty));
        };
        Ok(match self.state.insert(hash, now_ms)? {
            true => Sight::First,
            false => Sight::Probably {
                error_rate: self.state.error_rate(),
            },
        })
    }

    /// About how many distinct ids were asked for within the window, first and seen ones alike.
    /// Merges the slices' counts: about a millisecond.
    ///
    /// # Errors
    /// `Closed`.
    pub fn distinct(&self) -> Result<Distinct> {
        let core = self.shared.core()?;
        Ok(self.state.distinct(core.index().time.now_ms()))
    }

    /// Counters and sizes.
    ///
    /// # Errors
    /// `Closed`.
    pub fn stats(&self) -> Result<ApproximateStats> {
        let core = self.shared.core()?;
        Ok(self.state.stats(core.index().time.now_ms()))
    }

    /// Whether all that was first within the window is known, or a crash took some of it. Ask
    /// it after each opening.
    ///
    /// # Errors
    /// `Closed`.
    pub fn recovery(&self) -> Result<Recovery> {
        let core = self.shared.core()?;
        Ok(self.state.recovery(core.index().time.now_ms()))
    }

    /// Writes a snapshot now: what was answered before is there after a crash, too. Durable when
    /// it returns; ids are answered meanwhile. Does nothing for a store in memory.
    ///
    /// # Errors
    /// `Full`, `Closed`; I/O errors: the last snapshot is still there.
    pub fn snapshot(&self) -> Result<()> {
        let core = self.shared.core()?;
        let now_ms = core.index().time.now_ms();
        self.state.save(core.index().engine.home(), now_ms)
    }
}
