//! The hash table of one shard: hash to (owner, position), nothing else.
//!
//! Open addressing with linear probing from the hash's low bits (the top ones chose the shard), at
//! most a quarter full, for nearly every probe then ends at the first slot. Deletion shifts back,
//! so there are no tombstones. It allocates only to grow, and keeps the room of its largest crowd.

/// The owner number of a free slot; no owner has it.
pub(super) const FREE: u64 = 0;

const SLOTS_AT_FIRST: usize = 16;
/// Slots a held hash.
const SPARSENESS: usize = 4;

/// A held hash.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) hash: u64,
    pub(super) owner: u64,
    /// The position it was taken as.
    pub(super) at: u32,
}

/// The held hashes of a shard.
pub(super) struct Table {
    slots: Box<[Slot]>,
    held: usize,
}

impl Table {
    pub(super) fn new() -> Table {
        Table {
            slots: empty_slots(SLOTS_AT_FIRST),
            held: 0,
        }
    }

    /// The hash's place, or the free one where it would go.
    pub(super) fn find(&self, hash: u64) -> Result<usize, usize> {
        let mask = self.slots.len() - 1;
        let mut place = hash as usize & mask;
        loop {
            let slot = &self.slots[place];
            if slot.owner == FREE {
                return Err(place);
            }
            if slot.hash == hash {
                return Ok(place);
            }
            place = (place + 1) & mask;
        }
    }

    pub(super) fn held(&self) -> usize {
        self.held
    }

    pub(super) fn slot(&self, place: usize) -> Slot {
        self.slots[place]
    }

    /// Another owner for a held hash.
    pub(super) fn replace(&mut self, place: usize, slot: Slot) {
        self.slots[place] = slot;
    }

    /// Puts a hash where `find` said it would go.
    pub(super) fn fill(&mut self, place: usize, slot: Slot) {
        self.slots[place] = slot;
        self.held += 1;
    }

    /// Frees a slot and closes the gap.
    pub(super) fn clear(&mut self, place: usize) {
        let mask = self.slots.len() - 1;
        let distance = |from: usize, to: usize| to.wrapping_sub(from) & mask;
        let (mut hole, mut next) = (place, place);
        loop {
            next = (next + 1) & mask;
            let slot = self.slots[next];
            if slot.owner == FREE {
                break;
            }
            // It may fill the hole unless its probing starts behind it.
            if distance(slot.hash as usize & mask, next) >= distance(hole, next) {
                self.slots[hole] = slot;
                hole = next;
            }
        }
        self.slots[hole].owner = FREE;
        self.held -= 1;
    }

    /// Before `find` and `fill`: places change when the table grows.
    pub(super) fn make_room(&mut self) {
        if (self.held + 1) * SPARSENESS > self.slots.len() {
            self.grow();
        }
    }

    #[cold]
    fn grow(&mut self) {
        let larger = empty_slots(self.slots.len() * 2);
        let old = std::mem::replace(&mut self.slots, larger);
        for slot in old.iter().filter(|slot| slot.owner != FREE) {
            if let Err(place) = self.find(slot.hash) {
                self.slots[place] = *slot;
            }
        }
    }
}

fn empty_slots(count: usize) -> Box<[Slot]> {
    vec![
        Slot {
            hash: 0,
            owner: FREE,
            at: 0
        };
        count
    ]
    .into_boxed_slice()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn agrees_with_a_map_through_growth_and_deletion() {
        let mut table = Table::new();
        let mut map = HashMap::new();
        let mut state = 7u64;
        for round in 0..20_000u64 {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            // Few distinct low bits: long probe sequences, also across the end of the table.
            let hash = (state >> 33) % 300 * 0x0101_0101_0101_0100;
            table.make_room();
            match (table.find(hash), map.contains_key(&hash)) {
                (Err(place), false) => {
                    table.fill(
                        place,
                        Slot {
                            hash,
                            owner: round + 1,
                            at: round as u32,
                        },
                    );
                    map.insert(hash, round + 1);
                }
                (Ok(place), true) => {
                    assert_eq!(table.slot(place).owner, map[&hash]);
                    if state >> 63 == 0 || map.len() > 120 {
                        table.clear(place);
                        map.remove(&hash);
                    }
                }
                (found, known) => panic!("round {round}: found {found:?}, known {known}"),
            }
            assert_eq!(table.held(), map.len());
        }
        assert!(map.len() > 60, "the table was never filled");
        for (hash, owner) in map {
            assert_eq!(
                table.find(hash).map(|place| table.slot(place).owner),
                Ok(owner)
            );
        }
    }
}
