//! The in-flight table: which attempt holds which hash while its outcome is being decided.
//!
//! One instance holds ids, another the rows of guarded tables. An entry is a 64-bit keyed hash,
//! not the id: two ids whose hashes collide only wait for each other needlessly, or meet in
//! `met`, where the caller compares the bytes. The table knows no segments, so a hold survives
//! every rotation.
//!
//! # Invariants
//! - H1. A hash has at most one owner.
//! - H2. No deadlock. Pass 1 (`try_hold`) never waits. Pass 2 (`hold_sorted`) waits only for a
//!   hash larger than all it holds: whoever holds that one either runs, or waits for a still
//!   larger one, so a chain of waits rises strictly and cannot close. Callers keep to it: an owner
//!   enters pass 2 holding nothing in this table, and takes ids before rows.
//! - H3. A failed call holds nothing that it took itself.
//! - H4. No lost wake-up, no crowd: a release hands the hash to the first in line for it and wakes
//!   that one. Nobody else is woken, and a caller in pass 1 cannot overtake the line.
//! - H5. Once poisoned, nothing is granted, every waiter is told, and holds stay for ever: what
//!   may stand in the log must not look free.
//! - H6. A hold that *stands* is not waited for: its owner keeps it for as long as another system
//!   likes. Whoever is in line for it is turned away when it begins to stand. Both are under the
//!   shard's mutex, so nobody gets in line for it any more.
//!
//! # Concurrency
//! The top bits of a hash choose one of 64 shards; one shard mutex is taken at a time, for a few
//! nanoseconds an entry, and never across a wait. A waiter sleeps on a condition variable of its
//! own. Everything it needs to know is "am I still in line?", read under the shard's mutex, so a
//! timeout that races with a hand-over is simply a success.
//!
//! # Why not
//! Stripe locks would let unrelated ids wait for each other through a whole fsync. One condition
//! variable a shard would wake everybody for everything. A general hash map costs more than this
//! table of 24-byte slots, which stays in the second-level cache and allocates only to grow.

mod grouped;
mod shard;
mod table;

use std::ops::ControlFlow;
use std::time::Instant;

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{CachePadded, Mutex};
use grouped::{CHUNK, Grouped};
use shard::{Shard, Take, Waited, wait_in_line};
use table::FREE;

/// In `met`: the hash was already held by an earlier call of the same owner.
pub(crate) const EARLIER_CALL: u32 = u32::MAX;

const SHARD_BITS: u32 = 6;
const SHARDS: usize = 1 << SHARD_BITS;
/// Up to here, one lock an entry is cheaper than grouping by shard (measured).
const FEW: usize = 128;

/// One attempt: a call that decides, and each of its retries, has its own or releases in between.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Owner(pub(crate) u64);

/// Who was in the way, and where.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Foreign {
    /// Position in `wanted`.
    pub(crate) at: usize,
    /// Who held that hash.
    pub(crate) owner: Owner,
}

/// Why nothing was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HoldError {
    /// Another owner holds one of the hashes (pass 2: still did at the deadline).
    Foreign(Foreign),
    /// The table is poisoned; the outcome of what it holds is unknown until reopening.
    Poisoned,
}

/// The table of held hashes.
pub(crate) struct Holds {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    owners: CachePadded<AtomicU64>,
}

impl Holds {
    pub(crate) fn new() -> Holds {
        Holds {
            shards: (0..SHARDS)
                .map(|_| CachePadded::new(Mutex::new(Shard::new())))
                .collect(),
            owners: CachePadded::new(AtomicU64::new(FREE + 1)),
        }
    }

    /// A fresh owner, unique in this table.
    pub(crate) fn owner(&self) -> Owner {
        Owner(self.owners.fetch_add(1, Ordering::Relaxed))
    }

    /// Pass 1: takes all of `wanted` or nothing, and never waits.
    ///
    /// A position whose hash this owner already holds is no hold of its own; it is added to `met`
    /// with the earliest position of that hash, or with [`EARLIER_CALL`]. An error leaves `met`
    /// as it was.
    pub(crate) fn try_hold(
        &self,
        owner: Owner,
        wanted: &[u64],
        met: &mut Vec<(u32, u32)>,
    ) -> Result<(), HoldError> {
        let first_met = met.len();
        let visited = self.visit(wanted, |shard, at| {
            let in_the_way = match shard.take(wanted[at], owner, at) {
                Take::Taken => return ControlFlow::Continue(()),
                Take::Mine(holder) => {
                    met.push((at as u32, earlier(wanted, holder, at)));
                    return ControlFlow::Continue(());
                }
                Take::Foreign(owner) => HoldError::Foreign(Foreign { at, owner }),
                Take::Poisoned => HoldError::Poisoned,
            };
            ControlFlow::Break((at, in_the_way))
        });
        let ControlFlow::Break((stopped_at, error)) = visited else {
            return Ok(());
        };
        self.undo(owner, wanted, stopped_at, &met[first_met..]);
        met.truncate(first_met);
        Err(error)
    }

    /// Pass 2: takes all of `wanted` in hash order, waiting in line until `deadline`.
    ///
    /// The owner must hold nothing in this table (H2). `met` as in [`Holds::try_hold`]. On a
    /// timeout nothing is held.
    pub(crate) fn hold_sorted(
        &self,
        owner: Owner,
        wanted: &[u64],
        met: &mut Vec<(u32, u32)>,
        deadline: Instant,
    ) -> Result<(), HoldError> {
        let first_met = met.len();
        let mut sorted: Vec<(u64, usize)> = wanted.iter().copied().zip(0..).collect();
        sorted.sort_unstable();
        let mut taken = Vec::with_capacity(sorted.len());
        for (hash, at) in sorted {
            match self.take_or_wait(hash, owner, at, deadline) {
                Ok(None) => taken.push(hash),
                Ok(Some(holder)) => met.push((at as u32, earlier(wanted, holder, at))),
                Err(error) => {
                    self.release(owner, &taken);
                    met.truncate(first_met);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Gives up every hash of `wanted` that `owner` holds, and serves those in line for it.
    pub(crate) fn release(&self, owner: Owner, wanted: &[u64]) {
        let _always_through: ControlFlow<()> = self.visit(wanted, |shard, at| {
            shard.give_up(wanted[at], owner);
            ControlFlow::Continue(())
        });
    }

    /// Wakes every waiter, now and later, with [`HoldError::Poisoned`]; what is held stays held.
    pub(crate) fn poison(&self) {
        for shard in &self.shards {
            shard.lock().poison();
        }
    }

    /// What is held of `wanted` stands from now on (H6), until it is released.
    pub(crate) fn stand(&self, wanted: &[u64]) {
        let _always_through: ControlFlow<()> = self.visit(wanted, |shard, at| {
            shard.stand(wanted[at]);
            ControlFlow::Continue(())
        });
    }

    /// How many hashes are held; shards are counted one after another, so it is approximate.
    pub(crate) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().held()).sum()
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        &self.shards[shard_of(hash)]
    }

    /// `Ok(None)`: taken. `Ok(Some(at))`: already ours, taken by position `at`.
    fn take_or_wait(
        &self,
        hash: u64,
        owner: Owner,
        at: usize,
        deadline: Instant,
    ) -> Result<Option<u32>, HoldError> {
        let mut shard = self.shard(hash).lock();
        let foreign = match shard.take(hash, owner, at) {
            Take::Taken => return Ok(None),
            Take::Mine(holder) => return Ok(Some(holder)),
            Take::Foreign(foreign) => foreign,
            Take::Poisoned => return Err(HoldError::Poisoned),
        };
        if shard.is_standing(hash) {
            let owner = foreign;
            return Err(HoldError::Foreign(Foreign { at, owner }));
        }
        match wait_in_line(&mut shard, hash, (owner, at as u32), deadline) {
            Waited::Served => Ok(None),
            Waited::Poisoned => Err(HoldError::Poisoned),
            Waited::TimedOut => {
                let owner = shard.holder(hash).unwrap_or(foreign);
                Err(HoldError::Foreign(Foreign { at, owner }))
            }
        }
    }

    /// Gives up what a pass 1 took before it stopped. `visit` goes the same way again, and `met`
    /// is in that order, so what was not taken by this call is skipped by one cursor.
    fn undo(&self, owner: Owner, wanted: &[u64], stopped_at: usize, met: &[(u32, u32)]) {
        let mut not_taken = met.iter().map(|&(at, _)| at as usize).peekable();
        let _stopped: ControlFlow<()> = self.visit(wanted, |shard, at| {
            if at == stopped_at {
                return ControlFlow::Break(());
            }
            if not_taken.next_if_eq(&at).is_none() {
                shard.give_up(wanted[at], owner);
            }
            ControlFlow::Continue(())
        });
    }

    /// Calls `each` for every position, under its shard's mutex. Positions of one shard, so also
    /// those of one hash, come in ascending order.
    fn visit<B>(
        &self,
        wanted: &[u64],
        mut each: impl FnMut(&mut Shard, usize) -> ControlFlow<B>,
    ) -> ControlFlow<B> {
        if wanted.len() <= FEW {
            for (at, &hash) in wanted.iter().enumerate() {
                each(&mut self.shard(hash).lock(), at)?;
            }
            return ControlFlow::Continue(());
        }
        let mut base = 0;
        for chunk in wanted.chunks(CHUNK) {
            let grouped = Grouped::new(chunk);
            for (number, shard) in self.shards.iter().enumerate() {
                let group = grouped.of(number);
                if !group.is_empty() {
                    let mut shard = shard.lock();
                    for &at in group {
                        each(&mut shard, base + usize::from(at))?;
                    }
                }
            }
            base += chunk.len();
        }
        ControlFlow::Continue(())
    }
}

fn shard_of(hash: u64) -> usize {
    (hash >> (u64::BITS - SHARD_BITS)) as usize
}

/// What to report for position `at` when its hash was taken as position `holder`.
fn earlier(wanted: &[u64], holder: u32, at: usize) -> u32 {
    let by_this_call = (holder as usize) < at && wanted[holder as usize] == wanted[at];
    if by_this_call { holder } else { EARLIER_CALL }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::{far, near};

    /// Hashes spread over the shards; the last one repeats the first.
    fn hashes(count: u64) -> Vec<u64> {
        let mut hashes: Vec<u64> = (1..count)
            .map(|i| i.wrapping_mul(0x9E37_79B9_7F4A_7C15))
            .collect();
        hashes.push(hashes[0]);
        hashes
    }

    fn foreign(at: usize, owner: Owner) -> Result<(), HoldError> {
        Err(HoldError::Foreign(Foreign { at, owner }))
    }

    /// Waits until another thread stands in line for `hash`.
    fn until_someone_waits(holds: &Holds, hash: u64) {
        while !holds.shard(hash).lock().someone_waits() {
            std::thread::yield_now();
        }
    }

    #[test]
    fn both_passes_take_each_hash_once_and_report_repeats() {
        // Below and above the size where positions are grouped, and over a chunk's end.
        for count in [5, FEW as u64 + 1, 1000, 3 * CHUNK as u64] {
            let holds = Holds::new();
            let (wanted, last) = (hashes(count), count as u32 - 1);
            let (one, two, mut met) = (holds.owner(), holds.owner(), vec![]);
            assert_eq!(holds.try_hold(one, &wanted, &mut met), Ok(()));
            assert_eq!(
                (met.as_slice(), holds.len()),
                (&[(last, 0)][..], last as usize)
            );
            holds.release(two, &wanted);
            assert_eq!(holds.len(), last as usize, "released by somebody else");
            holds.release(one, &wanted);
            assert_eq!(holds.len(), 0);
            met.clear();
            assert_eq!(holds.hold_sorted(two, &wanted, &mut met, far()), Ok(()));
            assert_eq!(
                (met.as_slice(), holds.len()),
                (&[(last, 0)][..], last as usize)
            );
        }
    }

    #[test]
    fn a_failed_call_undoes_itself_and_nothing_else() {
        for count in [6, 1000] {
            let holds = Holds::new();
            let wanted = hashes(count);
            let (one, two, mut met) = (holds.owner(), holds.owner(), vec![(9, 9)]);
            assert_eq!(holds.try_hold(one, &wanted[3..4], &mut met), Ok(()));
            // An earlier call's hold, under a position that a later call uses for another hash.
            assert_eq!(holds.try_hold(two, &wanted[1..2], &mut met), Ok(()));
            assert_eq!(holds.try_hold(two, &wanted, &mut met), foreign(3, one));
            assert_eq!(
                holds.hold_sorted(two, &wanted, &mut met, near()),
                foreign(3, one)
            );
            assert_eq!((met.as_slice(), holds.len()), (&[(9, 9)][..], 2));
            holds.release(one, &wanted);
            assert_eq!(holds.try_hold(two, &wanted, &mut met), Ok(()));
            met.sort_unstable();
            let mut expected = [(1, EARLIER_CALL), (9, 9), (count as u32 - 1, 0)];
            expected.sort_unstable();
            assert_eq!(met, expected);
        }
    }

    #[test]
    fn nobody_waits_for_what_stands() {
        let holds = Holds::new();
        let (one, two, mut met) = (holds.owner(), holds.owner(), vec![]);
        assert_eq!(holds.try_hold(one, &[7, 9], &mut met), Ok(()));
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| holds.hold_sorted(two, &[7], &mut vec![], far()));
            until_someone_waits(&holds, 7);
            holds.stand(&[7]);
            assert_eq!(waiter.join().expect("no panic"), foreign(0, one));
        });
        let again = holds.hold_sorted(two, &[7], &mut met, far());
        assert_eq!((again, holds.len()), (foreign(0, one), 2));
        holds.release(one, &[7]);
        assert_eq!(holds.hold_sorted(two, &[7], &mut met, far()), Ok(()));
        // Its next owner's hold is an ordinary one.
        assert_eq!(
            holds.hold_sorted(one, &[7], &mut met, near()),
            foreign(0, two)
        );
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| holds.hold_sorted(one, &[7], &mut vec![], far()));
            until_someone_waits(&holds, 7);
            holds.release(two, &[7]);
            assert_eq!(waiter.join().expect("no panic"), Ok(()));
        });
    }

    #[test]
    fn a_release_hands_over_and_pass_one_cannot_overtake() {
        let holds = Holds::new();
        let (one, two, three, mut met) = (holds.owner(), holds.owner(), holds.owner(), vec![]);
        assert_eq!(holds.try_hold(one, &[7], &mut met), Ok(()));
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| holds.hold_sorted(two, &[7], &mut vec![], far()));
            until_someone_waits(&holds, 7);
            holds.release(one, &[7]);
            assert_eq!(holds.try_hold(three, &[7], &mut met), foreign(0, two));
            assert_eq!(waiter.join().expect("no panic"), Ok(()));
        });
        assert_eq!(holds.len(), 1);
    }

    #[test]
    fn poison_wakes_the_waiters_and_keeps_the_holds() {
        let holds = Holds::new();
        let (one, two, mut met) = (holds.owner(), holds.owner(), vec![]);
        assert_eq!(holds.try_hold(one, &[7], &mut met), Ok(()));
        std::thread::scope(|threads| {
            let waiter = threads.spawn(|| holds.hold_sorted(two, &[5, 7], &mut vec![], far()));
            until_someone_waits(&holds, 7);
            holds.poison();
            assert_eq!(waiter.join().expect("no panic"), Err(HoldError::Poisoned));
        });
        holds.release(one, &[7]);
        assert_eq!(
            holds.try_hold(two, &[9], &mut met),
            Err(HoldError::Poisoned)
        );
        assert_eq!(
            holds.hold_sorted(two, &[9], &mut met, far()),
            Err(HoldError::Poisoned)
        );
    }
}
