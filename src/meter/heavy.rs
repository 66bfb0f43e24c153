//! The most frequent names of a stream in bounded memory: the Space-Saving algorithm of
//! A. Metwally, D. Agrawal and A. El Abbadi, "Efficient Computation of Frequent and Top-k
//! Elements in Data Streams" (ICDT 2005).
//!
//! A name that finds no place takes that of the least frequent one, with its count, which may be
//! that much too high from then on: that is the entry's *error*. So, of `n` occurrences and with
//! `capacity` places:
//!
//! - W1: `count - error <= true count <= count` for each entry;
//! - W2: no error is above `n / capacity`, and every name with more than that has a place.
//!
//! Cost: a hash look-up and a path in a heap; memory is `capacity` names and places.

use std::collections::HashMap;
use std::sync::Arc;

/// A name's place.
pub(crate) struct Slot {
    pub(crate) name: Arc<str>,
    pub(crate) count: u64,
    pub(crate) error: u64,
    /// Where it is in the heap.
    at: usize,
}

/// The counters of a stream.
pub(crate) struct SpaceSaving {
    capacity: usize,
    total: u64,
    slots: Vec<Slot>,
    /// Slots by count, the smallest first.
    heap: Vec<usize>,
    places: HashMap<Arc<str>, usize>,
}

impl SpaceSaving {
    pub(crate) fn new(capacity: usize) -> SpaceSaving {
        SpaceSaving {
            capacity: capacity.max(1),
            total: 0,
            slots: Vec::new(),
            heap: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// Counts `n` occurrences of a name.
    pub(crate) fn add(&mut self, name: &str, n: u64) {
        self.total += n;
        if let Some(&slot) = self.places.get(name) {
            self.slots[slot].count += n;
            self.sink(self.slots[slot].at);
        } else if self.slots.len() < self.capacity {
            self.push(name, n);
        } else {
            self.replace(name, n);
        }
    }

    fn push(&mut self, name: &str, n: u64) {
        let (slot, name): (usize, Arc<str>) = (self.slots.len(), name.into());
        self.places.insert(Arc::clone(&name), slot);
        self.slots.push(Slot {
            name,
            count: n,
            error: 0,
            at: slot,
        });
        self.heap.push(slot);
        self.rise(slot);
    }

    fn replace(&mut self, name: &str, n: u64) {
        let slot = self.heap[0];
        let name: Arc<str> = name.into();
        let least = self.slots[slot].count;
        let old = std::mem::replace(&mut self.slots[slot].name, Arc::clone(&name));
        self.places.remove(&old);
        self.places.insert(name, slot);
        self.slots[slot].error = least;
        self.slots[slot].count = least + n;
        self.sink(0);
    }

    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// How many occurrences there were in all.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// What a name without a place may have had at most.
    pub(crate) fn unlisted(&self) -> u64 {
        if self.slots.len() < self.capacity {
            return 0;
        }
        self.heap.first().map_or(0, |slot| self.slots[*slot].count)
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Slot> {
        self.places.get(name).map(|slot| &self.slots[*slot])
    }

    pub(crate) fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn count_at(&self, at: usize) -> u64 {
        self.slots[self.heap[at]].count
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        self.slots[self.heap[a]].at = a;
        self.slots[self.heap[b]].at = b;
    }

    fn rise(&mut self, mut at: usize) {
        while at > 0 && self.count_at(at) < self.count_at((at - 1) / 2) {
            self.swap(at, (at - 1) / 2);
            at = (at - 1) / 2;
        }
    }

    fn sink(&mut self, mut at: usize) {
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter();
            let least = children
                .filter(|child| *child < self.heap.len())
                .min_by_key(|child| self.count_at(*child));
            match least {
                Some(child) if self.count_at(child) < self.count_at(at) => {
                    self.swap(at, child);
                    at = child;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Skewed, as sources are: name i comes about 1/i as often.
    fn skewed(rng: &mut fastrand::Rng) -> String {
        let n = 1.0 / rng.f64().max(1e-4);
        format!("source-{}", n as u64)
    }

    #[test]
    fn counts_errors_and_who_is_listed_are_within_the_bounds() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let capacity = rng.usize(1..60);
            let (mut sketch, mut truth) = (SpaceSaving::new(capacity), BTreeMap::new());
            for _ in 0..5000 {
                let (name, n) = (skewed(&mut rng), rng.u64(1..4));
                sketch.add(&name, n);
                *truth.entry(name).or_insert(0) += n;
            }
            let n: u64 = truth.values().sum();
            let bound = n / capacity as u64;
            assert_eq!(sketch.total(), n);
            assert!(sketch.slots().len() <= capacity && sketch.unlisted() <= bound);
            for slot in sketch.slots() {
                let real = truth.get(&*slot.name).copied().unwrap_or(0);
                assert!(slot.error <= bound, "seed {seed}: {}", slot.name);
                let low = slot.count - slot.error;
                assert!(
                    low <= real && real <= slot.count,
                    "seed {seed}: {}",
                    slot.name
                );
            }
            for (name, real) in truth.iter().filter(|(_, real)| **real > bound) {
                let slot = sketch.find(name);
                assert!(
                    slot.is_some_and(|s| s.count >= *real),
                    "seed {seed}: {name}"
                );
            }
        }
    }

    #[test]
    fn with_a_place_for_each_it_is_exact() {
        let mut sketch = SpaceSaving::new(3);
        for (name, n) in [("a", 5), ("b", 1), ("a", 2), ("c", 4)] {
            sketch.add(name, n);
        }
        let found = |name: &str| sketch.find(name).map(|s| (s.count, s.error));
        assert_eq!(found("a"), Some((7, 0)));
        assert_eq!(found("b"), Some((1, 0)));
        assert_eq!((found("d"), sketch.unlisted()), (None, 1));
    }
}
