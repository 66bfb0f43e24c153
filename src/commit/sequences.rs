//! Sequences in a commit: judged in order on copies of their producers, which become a row each.
//!
//! A producer is locked as a row is, so its numbers are decided by one commit at a time, and
//! nobody sees a mark that is not written. A duplicate waits for its original (I5): the lock is
//! free as soon as the original is written, but whoever then answers "duplicate" first waits
//! until what any commit recorded that promised a sync is durable (`sequences_synced`).

use std::collections::HashMap;
use std::sync::Arc;

use crate::catalog::SequencesState;
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Result};
use crate::index::LogBuilder;
use crate::options::Durability;
use crate::producer::{BelowWindow, NAME_BYTES_MAX, OnUnknownProducer, Producer, SequencePolicy};
use crate::sequence::{Known, Place, Window, encode, key};
use crate::sync::atomic::Ordering;
use crate::verdict::{BadId, Refusal, Sighting, Verdict};

use super::decide::Held;
use super::draft::{Draft, DraftCaps};
use super::item::Item;
use super::settle::{Outcome, Settling, in_progress};
use super::write::{Bytes, Write};
use super::{Committer, Unsynced, keep_if_unknown};

/// A space of sequences as one handle of it sees it.
#[derive(Clone)]
pub(crate) struct SequencesUse {
    pub(crate) state: Arc<SequencesState>,
    pub(crate) policy: Arc<SequencePolicy>,
}

/// Items of one producer and epoch, one after another.
pub(super) struct Run {
    /// Position in `Draft::spaces`.
    space: u32,
    name: Bytes,
    epoch: u64,
    /// What the producer is locked by.
    pub(super) hash: u64,
}

/// What a producer is locked by.
pub(super) fn producer_hash(space: u16, name: &[u8]) -> u64 {
    // Tables count from 1 up and points have the highest seed.
    xxhash_rust::xxh3::xxh3_64_with_seed(name, u64::MAX - 1 - u64::from(space))
}

/// A sequence item's number.
fn number(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b))
}

impl Draft {
    pub(crate) fn has_sequences(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Adds a sequence number; returns its position.
    pub(crate) fn add_sequence(
        &mut self,
        space: &SequencesUse,
        producer: Producer<'_>,
        n: u64,
        caps: DraftCaps,
    ) -> u32 {
        if self.items.len() >= caps.items {
            let text = format!("the batch has more than {} items", caps.items);
            self.fail(Error::new(ErrorKind::Full, text));
        }
        self.is_mixed = true;
        let bad = bad_name(producer.name);
        let scope = if bad.is_none() {
            self.run_of(space, producer, caps)
        } else {
            0
        };
        let id = self.push(&n.to_le_bytes(), caps);
        self.items.push(Item {
            scope,
            id,
            bad,
            is_sequence: true,
            ..Item::default()
        });
        (self.items.len() - 1) as u32
    }

    fn run_of(&mut self, space: &SequencesUse, producer: Producer<'_>, caps: DraftCaps) -> u32 {
        let name = producer.name.as_bytes();
        let at = self.space_at(space);
        // Mostly it is the last one's.
        if let Some(last) = self.runs.last()
            && last.space == at
            && last.epoch == producer.epoch
            && self.get(&last.name) == name
        {
            return (self.runs.len() - 1) as u32;
        }
        let run = Run {
            space: at,
            name: self.push(name, caps),
            epoch: producer.epoch,
            hash: producer_hash(space.state.number, name),
        };
        self.runs.push(run);
        (self.runs.len() - 1) as u32
    }

    fn space_at(&mut self, space: &SequencesUse) -> u32 {
        let same = |s: &SequencesUse| {
            Arc::ptr_eq(&s.state, &space.state) && Arc::ptr_eq(&s.policy, &space.policy)
        };
        if let Some(at) = self.spaces.iter().rposition(same) {
            return at as u32;
        }
        self.spaces.push(space.clone());
        (self.spaces.len() - 1) as u32
    }
}

fn bad_name(name: &str) -> Option<BadId> {
    let bytes = u32::try_from(name.len()).unwrap_or(u32::MAX);
    match name.len() {
        0 => Some(BadId::Empty),
        1..=NAME_BYTES_MAX => None,
        _ => Some(BadId::TooLong {
            bytes,
            bytes_max: NAME_BYTES_MAX as u32,
        }),
    }
}

/// A producer as the commit would leave it.
struct Staged<'a> {
    space: &'a SequencesUse,
    name: &'a [u8],
    /// `None`: not known.
    known: Option<Known>,
    was_known: bool,
    changed: bool,
}

/// The producers of a batch.
#[derive(Default)]
pub(super) struct Producers<'a> {
    staged: Vec<Staged<'a>>,
    /// For each run, its producer among them, and its epoch.
    of_run: Vec<(u32, u64)>,
}

impl<'a> Producers<'a> {
    /// Copies of those that a draft names; their locks are held, unless it is a preview.
    pub(super) fn of(draft: &'a Draft) -> Producers<'a> {
        let mut producers = Producers::default();
        let mut places = HashMap::new();
        for run in &draft.runs {
            let space = &draft.spaces[run.space as usize];
            let name = draft.get(&run.name);
            let next = producers.staged.len() as u32;
            let at = *places.entry((space.state.number, name)).or_insert(next);
            if at == next {
                let known = space.state.producers.get(name);
                producers.staged.push(Staged {
                    space,
                    name,
                    was_known: known.is_some(),
                    known,
                    changed: false,
                });
            }
            producers.of_run.push((at, run.epoch));
        }
        producers
    }

    /// The verdict on a number, unless it is new.
    pub(super) fn judge(&self, run: u32, n: u64) -> Option<Verdict> {
        let (at, epoch) = self.of_run[run as usize];
        let staged = &self.staged[at as usize];
        let policy = &staged.space.policy;
        let Some(known) = &staged.known else {
            return match policy.on_unknown {
                OnUnknownProducer::Accept => None,
                OnUnknownProducer::Refuse => Some(Verdict::UnknownProducer),
            };
        };
        let sighting = || Sighting::new(known.last_ms, None);
        match known.window.place(epoch, n) {
            Place::New => None,
            Place::Seen => Some(Verdict::Duplicate(sighting())),
            Place::Fenced => Some(Verdict::Fenced),
            Place::Lost => Some(match policy.below_window {
                BelowWindow::Refuse => Verdict::Late(sighting()),
                BelowWindow::Duplicate => Verdict::Duplicate(sighting()),
            }),
        }
    }

    /// Records a number that is new.
    pub(super) fn record(&mut self, run: u32, n: u64, now_ms: u64) {
        let (at, epoch) = self.of_run[run as usize];
        let staged = &mut self.staged[at as usize];
        let bits = staged.space.state.window_bits;
        let known = staged.known.get_or_insert_with(|| Known {
            window: Window::new(bits, epoch),
            last_ms: now_ms,
        });
        known.window.record(epoch, n);
        known.last_ms = known.last_ms.max(now_ms);
        staged.changed = true;
    }

    /// A batch's own producers stay, so they must fit.
    fn check_caps(&self) -> Result<()> {
        for staged in &self.staged {
            let (state, cap) = (&staged.space.state, staged.space.policy.producers_max);
            if self.staged.len() <= cap {
                continue;
            }
            let of_space = |s: &&Staged<'_>| s.space.state.number == state.number;
            if self.staged.iter().filter(of_space).count() > cap {
                let name = &state.name;
                let text = format!("the batch has more producers than {cap} of {name:?}");
                return Err(Error::new(ErrorKind::Full, text));
            }
        }
        Ok(())
    }

    fn changed(&self) -> impl Iterator<Item = (&Staged<'a>, &Known)> {
        let changed = self.staged.iter().filter(|s| s.changed);
        changed.filter_map(|s| Some((s, s.known.as_ref()?)))
    }
}

impl Settling<'_, '_> {
    /// A sequence number; what it writes and whether it is recorded goes as with an id.
    pub(super) fn sequence(&mut self, item: &Item, writes: Option<&[Write]>) -> Result<Verdict> {
        let Some(writes) = writes else {
            // Its producer is not held yet.
            return Ok(in_progress());
        };
        let n = number(self.draft.get(&item.id));
        if let Some(verdict) = self.producers.judge(item.scope, n) {
            return Ok(verdict);
        }
        if item.is_declined {
            return Ok(Verdict::Declined(()));
        }
        let now_ms = self.decision.now_ms;
        match self.write(item, writes)? {
            Outcome::Done => {
                self.producers.record(item.scope, n, now_ms);
                Ok(Verdict::First(()))
            }
            Outcome::Refused { write, settled } => {
                if settled {
                    self.producers.record(item.scope, n, now_ms);
                }
                Ok(Verdict::Refused(Refusal::new(write, settled)))
            }
        }
    }
}

/// Producers that a commit removes, with their spaces.
#[derive(Default)]
pub(super) struct Evicted(Vec<(SequencesUse, Arc<[u8]>)>);

impl Committer {
    /// The rows of the producers that a batch changes. For each that is new beyond the cap, the
    /// one goes that was idle longest and is not in use: its lock is taken without waiting.
    pub(super) fn put_producers(
        &self,
        producers: &Producers<'_>,
        held: &mut Held,
        rows: &mut Rep,
    ) -> Result<Evicted> {
        producers.check_caps()?;
        let mut coming: Vec<(&SequencesUse, usize)> = Vec::new();
        for (staged, known) in producers.changed() {
            let state = &staged.space.state;
            rows.put(
                state.family_number,
                &key(state.number, staged.name),
                &encode(known),
            );
            if !staged.was_known {
                match coming
                    .iter_mut()
                    .find(|(s, _)| s.state.number == state.number)
                {
                    Some((_, count)) => *count += 1,
                    None => coming.push((staged.space, 1)),
                }
            }
        }
        let mut evicted = Evicted::default();
        for (space, count) in coming {
            let state = &space.state;
            let cap = space.policy.producers_max;
            let names = state.producers.beyond(cap, count, |name| {
                let hash = producer_hash(state.number, name);
                let mut met = Vec::new();
                let taken = self.rows.try_hold(held.owner(), &[hash], &mut met);
                // What the batch itself holds stays.
                let is_free = taken.is_ok() && met.is_empty();
                if is_free {
                    held.add([hash]);
                }
                is_free
            });
            for name in names {
                rows.delete(state.family_number, &key(state.number, &name));
                evicted.0.push((space.clone(), name));
            }
        }
        Ok(evicted)
    }

    /// Memory follows what was written; the producers' locks are still held.
    pub(super) fn take_over(&self, producers: Producers<'_>, evicted: Evicted) {
        let count = evicted.0.len() as u64;
        for (space, name) in evicted.0 {
            space.state.producers.remove(&name);
        }
        for staged in producers.staged.into_iter().filter(|s| s.changed) {
            if let Some(known) = staged.known {
                staged.space.state.producers.insert(staged.name, known);
            }
        }
        self.counters
            .producers_evicted
            .fetch_add(count, Ordering::Relaxed);
    }

    /// The commit that duplicates of sequences wait for, whatever their own level.
    pub(super) fn unsynced_original(&self, draft: &Draft, verdicts: &[Verdict]) -> Option<u64> {
        if !draft.has_sequences() {
            return None;
        }
        let n = self.sequences_synced.load(Ordering::Acquire);
        let waits = n > self.index.durable() && verdicts.iter().any(Verdict::is_duplicate);
        waits.then_some(n)
    }

    /// Lets a producer in, from a number on; false if it is known, by this or a later epoch.
    pub(crate) fn admit(
        self: &Arc<Self>,
        space: &SequencesUse,
        producer: Producer<'_>,
        next: u64,
        level: Durability,
    ) -> Result<bool> {
        let _tables = self.tables.read_recursive();
        self.index.poison.check()?;
        if bad_name(producer.name).is_some() {
            let text = format!("a producer's name must have 1 to {NAME_BYTES_MAX} bytes");
            return Err(Error::invalid(text));
        }
        let caps = DraftCaps {
            items: 1,
            sources: false,
            bytes: usize::MAX,
        };
        let mut draft = Draft::default();
        draft.add_sequence(space, producer, next, caps);
        draft.check_handles()?;
        let Some(mut held) = self.lock_rows(&draft)? else {
            return Ok(false);
        };
        let mut producers = Producers::of(&draft);
        let staged = &mut producers.staged[0];
        let is_known = |known: &Known| known.window.epoch() >= producer.epoch;
        if staged.known.as_ref().is_some_and(is_known) {
            return Ok(false);
        }
        let bits = space.state.window_bits;
        staged.known = Some(Known {
            window: Window::beginning_at(bits, producer.epoch, next),
            last_ms: self.index.time.now_ms(),
        });
        staged.changed = true;
        let mut rows = Rep::default();
        let evicted = self.put_producers(&producers, &mut held, &mut rows)?;
        let level = if level == Durability::Buffered {
            Durability::Written
        } else {
            level
        };
        let n = match self.append(&mut LogBuilder::default(), &mut rows, level) {
            Ok(n) => n,
            Err(error) => {
                keep_if_unknown(&error, [Some(held)]);
                return Err(error);
            }
        };
        self.take_over(producers, evicted);
        if level == Durability::Synced {
            self.sequences_synced.fetch_max(n, Ordering::AcqRel);
        }
        drop(held);
        if level == Durability::Synced {
            self.wait_synced(Unsynced {
                n,
                held: Vec::new(),
            })?;
        }
        Ok(true)
    }

    /// Drops a space of sequences. Commits under way end first, and new ones see it.
    pub(crate) fn drop_sequences(&self, name: &str) -> Result<bool> {
        let Some(number) = self.retire_sequences(name)? else {
            return Ok(false);
        };
        let _no_commits = self.tables.write();
        self.flush_buffer()?;
        self.catalog.remove_producers(number)?;
        Ok(true)
    }
}
