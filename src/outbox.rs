//! An outbox: messages to another system, committed with verdicts and drained in order.
//!
//! The atomicity of a commit ends at the store's tables. What another system must learn of goes
//! into an outbox in the same commit, and from there to the other system as often as it takes, in
//! the order of the commits, each time under the same id, so that the other side can dedup it.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;

use crate::catalog::{TableKind, TableState};
use crate::commit::{RowId, Waiting};
use crate::error::{Error, Result};
use crate::store::{Shared, Store};
use crate::why::Why;

/// A handle of an outbox. Cheap to clone; `Send + Sync`. Its name is one of the store's tables'.
///
/// Messages go in by [`Writes::send`](crate::Writes::send) and [`Tx::send`](crate::Tx::send), and
/// are numbered from 1 in the order of their commits, without a gap; senders don't wait for each
/// other. They come out by [`Outbox::drain`] in that order, at least once: until
/// [`Outbox::ack`] has passed them.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// use firstseen::{days, Options, Policy, Store};
/// let store = Store::open(dir.path(), Options::new())?;
/// let orders = store.scope("orders", Policy::remember(days(7)))?;
/// let mails = store.outbox("mails")?;
///
/// let mut batch = store.batch();
/// for order in ["a", "b", "a"] {
///     batch.once(&orders, order).send(&mails, order); // only if first seen
/// }
/// let _ = batch.commit()?;
///
/// let drained = mails.drain(100)?;
/// assert_eq!(drained.len(), 2);
/// for mail in &drained {
///     // The other system gets the payload, and this id to dedup it by.
///     assert_eq!(mail.id.to_string().len(), 32);
/// }
/// mails.ack(drained[1].id)?; // and all before it
/// assert!(mails.drain(100)?.is_empty());
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Outbox {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<TableState>,
    keep: u64,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("name", &self.name())
            .field("keep", &self.keep)
            .finish_non_exhaustive()
    }
}

impl Store {
    /// Makes an outbox, or finds the one of that name; also while the store is in use.
    /// [`Store::drop_table`] drops it with all its messages; one that is made later under the name
    /// begins anew.
    ///
    /// # Errors
    /// `Invalid` if there is a table of that name; `Full` beyond `tables_max`.
    pub fn outbox(&self, name: &str) -> Result<Outbox> {
        let core = self.shared.core()?;
        let state = core.committer.catalog.table(name, TableKind::Outbox)?;
        Ok(Outbox {
            shared: Arc::clone(&self.shared),
            state,
            keep: 0,
        })
    }
}

impl Outbox {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// A handle whose [`Outbox::ack`] keeps the last `messages` of those that are acknowledged,
    /// so that [`Outbox::rewind`] can send them again. 0 by default; not persisted.
    #[must_use]
    pub fn keeping(mut self, messages: u64) -> Outbox {
        self.keep = messages;
        self
    }

    /// Up to `limit` messages that are not acknowledged, from the first one on, in the order of
    /// their numbers. The same ones again until they are acknowledged, so at least once, and
    /// never past one that comes later.
    ///
    /// What it hands out is synced first if need be, at any level: else a power failure could take
    /// a message that the other system has, and its effect would come again under another id.
    /// Let one thread drain an outbox: the order of what two send on is nobody's.
    ///
    /// It costs a seek and a step a message, however many were acknowledged before.
    ///
    /// # Errors
    /// `Degraded`, `Damaged` (also if a message is missing), `Full` (the disk, before the sync),
    /// `Closed`; `Invalid` if it was dropped or the store is only read. Nothing changed.
    pub fn drain(&self, limit: usize) -> Result<Vec<Outgoing>> {
        self.drained(limit, true)
    }

    /// [`Outbox::drain`] without a sync: what survives a crash of the process, though perhaps not
    /// a power failure. After one, the source sends the same work again, and its messages come
    /// under *other* ids: for effects that are harmless twice, or that the other system dedups by
    /// what is in the payload.
    ///
    /// # Errors
    /// As [`Outbox::drain`].
    pub fn drain_unsynced(&self, limit: usize) -> Result<Vec<Outgoing>> {
        self.drained(limit, false)
    }

    fn drained(&self, limit: usize, synced: bool) -> Result<Vec<Outgoing>> {
        let core = self.shared.core()?;
        let waiting = core.committer.drain(&self.state, limit, synced)?;
        Ok(waiting.into_iter().map(Outgoing::from).collect())
    }

    /// Acknowledges a message and all before it: the resume point moves behind it, in one commit
    /// at the store's level, but at least written. Returns how many were not acknowledged before.
    /// A crash before that commit leads to the same messages again.
    ///
    /// They are deleted with it, but for those that [`Outbox::keeping`] says; a long way is
    /// deleted in several commits of some thousand rows, and what a crash leaves of that goes with
    /// the next call.
    ///
    /// # Errors
    /// `Invalid` if the outbox has no message of this id; as
    /// [`Batch::commit`](crate::Batch::commit) otherwise.
    pub fn ack(&self, up_to: OutboxId) -> Result<u64> {
        let core = self.shared.core()?;
        let how = (self.keep, core.durability);
        core.committer.acknowledge(&self.state, up_to.0, how)
    }

    /// The number up to which messages are acknowledged; 0: none is.
    ///
    /// # Errors
    /// `Damaged`, `Closed`; `Invalid` if it was dropped.
    pub fn acknowledged(&self) -> Result<u64> {
        let core = self.shared.core()?;
        core.committer.acknowledged(&self.state)
    }

    /// The only way back: the next drain begins with this message, which was acknowledged and is
    /// kept ([`Outbox::keeping`]); for when the other system lost what it had. The messages come
    /// under the ids they had. `why` goes into the audit. Synced.
    ///
    /// # Errors
    /// `Invalid` without a reason, if the message is not acknowledged, or if it is deleted;
    /// `Degraded`, `Closed`.
    pub fn rewind<'a>(&self, first: OutboxId, why: impl Into<Why<'a>>) -> Result<()> {
        let why = why.into();
        why.check("a rewind")?;
        let core = self.shared.core()?;
        core.committer.rewind_outbox(&self.state, first.0, &why)
    }
}

/// A message of an outbox.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Outgoing {
    /// What it is known by, here and to the other system.
    pub id: OutboxId,
    /// When it was sent, by the store's clock.
    pub sent_at: SystemTime,
    /// What was sent.
    pub payload: Bytes,
}

impl From<Waiting> for Outgoing {
    fn from(waiting: Waiting) -> Outgoing {
        Outgoing {
            id: OutboxId(waiting.id),
            sent_at: UNIX_EPOCH + Duration::from_millis(waiting.sent_ms),
            payload: waiting.payload,
        }
    }
}

/// The id of a message in an outbox: the same each time the message is drained, also over
/// crashes, backups and restores, and never another message's, not even of another store.
///
/// Its number is the message's place in the outbox. Numbers that went with a power failure, or
/// that a restored copy gives again, come beside another *run*: a random number, drawn for each
/// outbox at each opening. Ids of one outbox compare as their messages are drained.
///
/// Its text is 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OutboxId(RowId);

impl OutboxId {
    /// The message's place in the outbox, from 1.
    #[must_use]
    pub fn number(self) -> u64 {
        self.0.number
    }

    /// Its 16 bytes: the run, u64, then the number, u64, both big-endian.
    #[must_use]
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0.run.to_be_bytes());
        bytes[8..].copy_from_slice(&self.0.number.to_be_bytes());
        bytes
    }

    /// An id from its bytes, as the other system gave them back.
    ///
    /// # Errors
    /// `Invalid` if they are not 16.
    pub fn from_bytes(bytes: &[u8]) -> Result<OutboxId> {
        let halves = bytes.split_first_chunk::<8>();
        let halves = halves.and_then(|(run, number)| Some((run, number.try_into().ok()?)));
        let (run, number) = halves.ok_or_else(|| Error::invalid("an outbox id has 16 bytes"))?;
        Ok(OutboxId(RowId {
            number: u64::from_be_bytes(number),
            run: u64::from_be_bytes(*run),
        }))
    }
}

impl fmt::Display for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut bytes = self.to_bytes().into_iter();
        bytes.try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl fmt::Debug for OutboxId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutboxId({self})")
    }
}

const _: fn() = || {
    fn shared<T: Send + Sync + Clone + 'static>() {}
    shared::<Outbox>();
};
