//! One shard of the in-flight table: its held hashes and the line of those who wait.
//!
//! All of it is used under the shard's mutex. A waiter is in line exactly as long as its wish is
//! open: whoever grants it takes it out and wakes it, so "not in line any more" means served, also
//! when the deadline passed meanwhile.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::Owner;
use super::table::{Slot, Table};
use crate::sync::{Condvar, MutexGuard};

struct Waiting {
    hash: u64,
    /// Who will hold it, and as which position.
    becomes: (Owner, u32),
    seat: Arc<Condvar>,
    /// The hold became one that nobody waits for.
    is_turned_away: bool,
}

/// How a wait ended.
pub(super) enum Waited {
    Served,
    TimedOut,
    Poisoned,
}

/// Sleeps until whoever releases takes us out of the line (then the wish is granted already).
pub(super) fn wait_in_line(
    shard: &mut MutexGuard<'_, Shard>,
    hash: u64,
    becomes: (Owner, u32),
    deadline: Instant,
) -> Waited {
    let seat = Arc::new(Condvar::new());
    shard.line.push(Waiting {
        hash,
        becomes,
        seat: Arc::clone(&seat),
        is_turned_away: false,
    });
    loop {
        let timed_out = seat.wait_until(shard, deadline).timed_out();
        if shard.poisoned {
            return Waited::Poisoned;
        }
        let place = shard
            .line
            .iter()
            .position(|waiting| Arc::ptr_eq(&waiting.seat, &seat));
        let Some(place) = place else {
            return Waited::Served;
        };
        if timed_out || shard.line[place].is_turned_away {
            shard.line.remove(place);
            return Waited::TimedOut;
        }
    }
}

/// What became of one wish to hold.
pub(super) enum Take {
    Taken,
    /// Held by the same owner, as this position.
    Mine(u32),
    Foreign(Owner),
    Poisoned,
}

/// Held hashes and who waits for them.
pub(super) struct Shard {
    table: Table,
    /// Oldest first.
    line: Vec<Waiting>,
    /// Hashes that stay held for as long as another system likes (H6).
    standing: HashSet<u64>,
    poisoned: bool,
}

impl Shard {
    pub(super) fn new() -> Shard {
        Shard {
            table: Table::new(),
            line: Vec::new(),
            standing: HashSet::new(),
            poisoned: false,
        }
    }

    pub(super) fn held(&self) -> usize {
        self.table.held()
    }

    pub(super) fn holder(&self, hash: u64) -> Option<Owner> {
        self.table
            .find(hash)
            .ok()
            .map(|place| Owner(self.table.slot(place).owner))
    }

    #[cfg(test)]
    pub(super) fn someone_waits(&self) -> bool {
        !self.line.is_empty()
    }

    pub(super) fn is_standing(&self, hash: u64) -> bool {
        !self.standing.is_empty() && self.standing.contains(&hash)
    }

    /// H6: from now on nobody waits for the hash, nor do those who did.
    pub(super) fn stand(&mut self, hash: u64) {
        self.standing.insert(hash);
        for waiting in self.line.iter_mut().filter(|w| w.hash == hash) {
            waiting.is_turned_away = true;
            waiting.seat.notify_one();
        }
    }

    pub(super) fn poison(&mut self) {
        self.poisoned = true;
        for waiting in self.line.drain(..) {
            waiting.seat.notify_one();
        }
    }

    pub(super) fn take(&mut self, hash: u64, owner: Owner, at: usize) -> Take {
        if self.poisoned {
            return Take::Poisoned;
        }
        self.table.make_room();
        match self.table.find(hash) {
            Err(place) => {
                self.table.fill(
                    place,
                    Slot {
                        hash,
                        owner: owner.0,
                        at: at as u32,
                    },
                );
                Take::Taken
            }
            Ok(place) => match self.table.slot(place) {
                slot if slot.owner == owner.0 => Take::Mine(slot.at),
                slot => Take::Foreign(Owner(slot.owner)),
            },
        }
    }

    pub(super) fn give_up(&mut self, hash: u64, owner: Owner) {
        if self.poisoned {
            return;
        }
        match self.table.find(hash) {
            Ok(place) if self.table.slot(place).owner == owner.0 => {
                if !self.standing.is_empty() {
                    self.standing.remove(&hash);
                }
                if self.line.is_empty() {
                    self.table.clear(place);
                } else {
                    self.pass_on(place, hash);
                }
            }
            _ => {}
        }
    }

    /// H4: the first in line for the hash gets it.
    fn pass_on(&mut self, place: usize, hash: u64) {
        let next = self.line.iter().position(|waiting| waiting.hash == hash);
        let Some(next) = next else {
            self.table.clear(place);
            return;
        };
        let Waiting { becomes, seat, .. } = self.line.remove(next);
        let (Owner(owner), at) = becomes;
        self.table.replace(place, Slot { hash, owner, at });
        seat.notify_one();
    }
}
