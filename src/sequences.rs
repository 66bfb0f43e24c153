//! Sequences: producers that number their messages.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::batch::{Batch, Writes};
use crate::commit::{Draft, SequencesUse, When};
use crate::error::{Error, Result};
use crate::producer::{Producer, SequencePolicy};
use crate::store::{Core, Shared, Store};
use crate::sync::thread_local;
use crate::verdict::{Verdict, Verdicts};

thread_local! {
    /// Buffers of calls, used again by the next one on the thread.
    static DRAFT: RefCell<Draft> = RefCell::default();
}

/// A handle of a space of sequences. Cheap to clone; `Send + Sync`; may outlive the store, whose
/// calls then answer `Closed`.
///
/// Where producers number their messages, no id need be kept: a producer is one row, however
/// many messages it sends. It has an epoch, the highest number recorded, and a bit for each of
/// the last numbers, so that they may come out of order within that window.
///
/// | number | verdict |
/// | --- | --- |
/// | of a later epoch | `First`; what was known of the earlier epoch goes |
/// | of an earlier epoch | `Fenced` |
/// | above the highest, or not recorded within the window | `First` |
/// | recorded within the window | `Duplicate` |
/// | below the window, and since it none left the window unseen | `Duplicate` |
/// | below the window otherwise | as the policy says: `Late` or `Duplicate` |
/// | of an unknown producer | as the policy says: `First` or `UnknownProducer` |
///
/// A producer's numbers are decided by one commit at a time: concurrent calls for one producer
/// wait for each other. What refuses or declines an item leaves its number unrecorded, as it
/// leaves an id.
#[derive(Clone)]
pub struct Sequences {
    pub(crate) shared: Arc<Shared>,
    pub(crate) used: SequencesUse,
}

impl std::fmt::Debug for Sequences {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sequences")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}

/// What is known of a producer.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProducerState {
    /// Its name.
    pub name: String,
    /// Its latest epoch.
    pub epoch: u64,
    /// The highest number recorded; `None`: it was let in, and recorded nothing yet.
    pub high: Option<u64>,
    /// Numbers within the window that are missing, above the lowest recorded one.
    pub gaps: u64,
    /// When it last recorded a number, or was let in, by the store's clock.
    pub last_at: SystemTime,
}

impl Sequences {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.used.state.name
    }

    /// Records one number of a producer if it is new. Durable at the store's level when it
    /// returns, but never `Buffered`: what would be is `Written`. Costs one write for a new
    /// number, none for a duplicate.
    ///
    /// # Errors
    /// `Busy` if another call kept the producer for longer than `wait_max`; `Full`, `Degraded`,
    /// `Damaged`, `Closed`; whether anything was recorded is in [`Error::recorded`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{Options, Producer, SequencePolicy, Store, Verdict};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let events = store.sequences("events", SequencePolicy::new())?;
    /// let producer = Producer { name: "till-7", epoch: 1 };
    /// assert!(events.accept(producer, 0)?.is_first());
    /// assert!(events.accept(producer, 0)?.is_duplicate());
    /// let after_restart = Producer { epoch: 2, ..producer };
    /// assert!(events.accept(after_restart, 0)?.is_first());
    /// assert_eq!(events.accept(producer, 1)?, Verdict::Fenced);
    /// # Ok(()) }
    /// ```
    pub fn accept(&self, producer: Producer<'_>, n: u64) -> Result<Verdict> {
        let verdicts = self.accept_all(producer, [n])?;
        verdicts.into_iter().next().ok_or_else(Error::closed)
    }

    /// Records many numbers of a producer in one commit: a verdict for each, in their order.
    /// Writes one row, however many they are.
    ///
    /// # Errors
    /// As [`Sequences::accept`]; all of them are recorded or none.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{Options, Producer, SequencePolicy, Store};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// # let events = store.sequences("events", SequencePolicy::new())?;
    /// let producer = Producer { name: "till-7", epoch: 1 };
    /// let verdicts = events.accept_all(producer, 0..1000)?;
    /// assert!(verdicts.iter().all(|v| v.is_first()));
    /// # Ok(()) }
    /// ```
    pub fn accept_all(
        &self,
        producer: Producer<'_>,
        numbers: impl IntoIterator<Item = u64>,
    ) -> Result<Verdicts> {
        self.with_draft(|core, draft| {
            for n in numbers {
                draft.add_sequence(&self.used, producer, n, core.caps);
            }
            core.committer.commit(draft, &mut None, core.durability)
        })
    }

    fn with_draft<T>(&self, run: impl FnOnce(&Core, &mut Draft) -> Result<T>) -> Result<T> {
        let core = self.shared.core()?;
        let mut draft = DRAFT.with_borrow_mut(std::mem::take);
        draft.clear();
        let result = run(&core, &mut draft);
        draft.clear();
        DRAFT.set(draft);
        result
    }

    /// Lets in a producer, whose first message will be number `next`: those below count as seen.
    /// False, and nothing changes, if it is known under this epoch or a later one. Needed where
    /// the policy refuses unknown producers. Durable as [`Sequences::accept`].
    ///
    /// # Errors
    /// `Invalid` for a name of a wrong length; otherwise as [`Sequences::accept`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{OnUnknownProducer, Options, Producer, SequencePolicy, Store, Verdict};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let policy = SequencePolicy::new().on_unknown(OnUnknownProducer::Refuse);
    /// let events = store.sequences("events", policy)?;
    /// let producer = Producer { name: "till-7", epoch: 1 };
    /// assert_eq!(events.accept(producer, 5)?, Verdict::UnknownProducer);
    /// assert!(events.admit(producer, 5)?);
    /// assert!(events.accept(producer, 5)?.is_first());
    /// # Ok(()) }
    /// ```
    pub fn admit(&self, producer: Producer<'_>, next: u64) -> Result<bool> {
        let core = self.shared.core()?;
        let committer = &core.committer;
        committer.admit(&self.used, producer, next, core.durability)
    }

    /// What is known of a producer now. Decides nothing.
    ///
    /// # Errors
    /// `Closed`.
    pub fn producer(&self, name: &str) -> Result<Option<ProducerState>> {
        let _open = self.shared.core()?;
        let known = self.used.state.producers.get(name.as_bytes());
        Ok(known.map(|known| state(name.as_bytes(), &known)))
    }

    /// All producers that are known, by name: a copy of the moment, of up to `producers_max`.
    ///
    /// # Errors
    /// `Closed`.
    pub fn producers(&self) -> Result<Vec<ProducerState>> {
        let _open = self.shared.core()?;
        let all = self.used.state.producers.all();
        Ok(all.iter().map(|(name, known)| state(name, known)).collect())
    }
}

fn state(name: &[u8], known: &crate::sequence::Known) -> ProducerState {
    ProducerState {
        name: String::from_utf8_lossy(name).into_owned(),
        epoch: known.window.epoch(),
        high: known.window.high(),
        gaps: known.window.gaps(),
        last_at: UNIX_EPOCH + Duration::from_millis(known.last_ms),
    }
}

impl Store {
    /// Makes a space of sequences, or finds the one of that name. Safe to call at every start.
    /// The first call reads the space's producers: some microseconds each.
    ///
    /// # Errors
    /// `Invalid` with all violations of the policy, or if the stored space has another window;
    /// `Full` beyond `scopes_max`, which counts spaces of their own; `Damaged`.
    pub fn sequences(&self, name: &str, policy: SequencePolicy) -> Result<Sequences> {
        let core = self.shared.core()?;
        let state = core.committer.catalog.sequences(name, &policy)?;
        let policy = Arc::new(policy);
        Ok(Sequences {
            shared: Arc::clone(&self.shared),
            used: SequencesUse { state, policy },
        })
    }

    /// The names of the spaces of sequences it has.
    ///
    /// # Errors
    /// `Closed`.
    pub fn sequences_names(&self) -> Result<Vec<String>> {
        Ok(self.shared.core()?.committer.catalog.sequences_names())
    }

    /// A space of sequences as it is stored, for tools that look at a store; `None` if there is
    /// no such.
    ///
    /// # Errors
    /// `Closed`, `Damaged`.
    pub fn existing_sequences(&self, name: &str) -> Result<Option<Sequences>> {
        let core = self.shared.core()?;
        let window = core.committer.catalog.sequences_window(name);
        window
            .map(|bits| self.sequences(name, SequencePolicy::new().window_bits(bits)))
            .transpose()
    }

    /// Drops a space of sequences with its producers; false if there is none. Waits for commits
    /// under way. Its handles get `Invalid` from then on; a new space of the name starts empty.
    ///
    /// # Errors
    /// `Degraded`, `Closed`.
    pub fn drop_sequences(&self, name: &str) -> Result<bool> {
        self.shared.core()?.committer.drop_sequences(name)
    }
}

impl Batch {
    /// Adds a sequence number of a producer. What is written through the returned [`Writes`] is
    /// committed only if the number is new, as with [`Batch::once`]. A batch may mix both, but
    /// one with sequences can't be held ([`Batch::hold`]), and is never `Buffered`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{Options, Producer, SequencePolicy, Store};
    /// # let store = Store::open(dir.path(), Options::new())?;
    /// let events = store.sequences("events", SequencePolicy::new())?;
    /// let clicks = store.guarded_table("clicks")?;
    /// let producer = Producer { name: "web-3", epoch: 1 };
    /// let mut batch = store.batch();
    /// for n in [7, 8, 7] {
    ///     batch.sequence(&events, producer, n).add(&clicks, "page", 1, ..);
    /// }
    /// let verdicts = batch.commit()?;
    /// assert!(verdicts[2].is_duplicate());
    /// # Ok(()) }
    /// ```
    pub fn sequence(&mut self, space: &Sequences, producer: Producer<'_>, n: u64) -> Writes<'_> {
        let caps = self.shared.caps;
        if self.held.is_some() {
            self.draft
                .fail(Error::invalid("a held batch takes no more items"));
        }
        if !Arc::ptr_eq(&space.shared, &self.shared) {
            self.draft.fail(Error::foreign("the space of sequences"));
        }
        let item = self.draft.add_sequence(&space.used, producer, n, caps);
        Writes::new(&self.shared, &mut self.draft, caps, (item, When::First))
    }

    /// Adds many sequence numbers of a producer, an item each, without writes of their own.
    pub fn sequences(
        &mut self,
        space: &Sequences,
        producer: Producer<'_>,
        numbers: impl IntoIterator<Item = u64>,
    ) -> &mut Batch {
        for n in numbers {
            self.sequence(space, producer, n);
        }
        self
    }
}
