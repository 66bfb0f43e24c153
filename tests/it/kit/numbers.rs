//! The model's producers: the numbers of each as a plain set, and nothing of windows kept.
//!
//! Rules, as the library's documentation states them:
//! - a number is a duplicate if it was recorded in the producer's epoch; a later epoch forgets
//!   the earlier one, whose numbers are fenced from then on;
//! - of a number below the window that was not recorded nobody knows, nor of one that was while
//!   some number after it left the window unseen;
//! - beyond the cap the producer goes that recorded something longest ago, the first by name if
//!   there are several; never one that the batch names or that is locked.

use std::collections::{BTreeMap, BTreeSet};

use super::op::{Item, Name, Number, PRODUCERS, PRODUCERS_MAX, WINDOW};
use super::said::{FULL, Kind, Said, Sight};

/// A producer: its epoch, the numbers recorded in it, and when it recorded the last.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) epoch: u64,
    /// Numbers below this count as recorded.
    from: u64,
    seen: BTreeSet<u64>,
    pub(super) last_ms: u64,
}

impl Producer {
    fn has(&self, n: u64) -> bool {
        n < self.from || self.seen.contains(&n)
    }

    pub(super) fn high(&self) -> Option<u64> {
        self.seen.last().copied().max(self.from.checked_sub(1))
    }

    fn low(&self) -> u64 {
        self.high()
            .map_or(0, |high| high.saturating_sub(WINDOW - 1))
    }

    /// Numbers missing in the window, above the lowest recorded.
    pub(super) fn gaps(&self) -> u64 {
        let Some(high) = self.high() else { return 0 };
        let window = (self.low()..=high).skip_while(|n| !self.has(*n));
        window.filter(|n| !self.has(*n)).count() as u64
    }

    /// Whether each number from one up to the window was recorded.
    fn is_whole_from(&self, n: u64) -> bool {
        // Few are recorded, so one is missing soon.
        (n.max(self.from)..self.low()).all(|n| self.has(n))
    }
}

/// All producers, by space and producer.
#[derive(Clone, Debug, Default)]
pub(super) struct Numbers(pub(super) BTreeMap<(usize, u8), Producer>);

impl Numbers {
    /// The verdict on a number, unless it is new.
    pub(super) fn judge(&self, number: Number) -> Option<Said> {
        let is_strict = number.space == 1;
        let Some(producer) = self.0.get(&(number.space, number.producer)) else {
            return is_strict.then_some(Said::UnknownProducer);
        };
        let sight = Sight {
            first_ms: producer.last_ms,
            refused: false,
            source: None,
            result: None,
            state: "",
            attempt: 0,
        };
        if number.epoch != producer.epoch {
            return (number.epoch < producer.epoch).then_some(Said::Fenced);
        }
        if number.n >= producer.low() {
            return producer.has(number.n).then_some(Said::Duplicate(sight));
        }
        if producer.is_whole_from(number.n) || is_strict {
            return Some(Said::Duplicate(sight));
        }
        Some(Said::Late(sight))
    }

    pub(super) fn record(&mut self, number: Number, now_ms: u64) {
        let key = (number.space, number.producer);
        let producer = self.0.entry(key).or_insert(Producer {
            epoch: number.epoch,
            from: 0,
            seen: BTreeSet::new(),
            last_ms: 0,
        });
        if producer.epoch != number.epoch {
            producer.epoch = number.epoch;
            producer.from = 0;
            producer.seen.clear();
        }
        producer.seen.insert(number.n);
        producer.last_ms = now_ms;
    }

    /// Lets a producer in; false if it is known.
    pub(super) fn admit(&mut self, number: Number, now_ms: u64) -> bool {
        let key = (number.space, number.producer);
        if self.0.get(&key).is_some_and(|p| p.epoch >= number.epoch) {
            return false;
        }
        let producer = Producer {
            epoch: number.epoch,
            from: number.n,
            seen: BTreeSet::new(),
            last_ms: now_ms,
        };
        self.0.insert(key, producer);
        true
    }

    /// Removes what is too many after a commit; how many went.
    pub(super) fn evict(
        &mut self,
        before: &Numbers,
        items: &[(usize, Item)],
        locked: &BTreeSet<(usize, u8)>,
    ) -> Result<u64, Kind> {
        let named = |item: &Item| match item.name {
            Name::Sequence(n) if n.producer < PRODUCERS => Some((n.space, n.producer)),
            _ => None,
        };
        let named: BTreeSet<_> = items.iter().filter_map(|i| named(&i.1)).collect();
        let mut gone = 0;
        for (space, max) in PRODUCERS_MAX.into_iter().enumerate() {
            if named.iter().filter(|n| n.0 == space).count() > max {
                return Err(FULL);
            }
            let of_space = |all: &Numbers| all.0.keys().filter(|k| k.0 == space).count();
            if of_space(self) == of_space(before) {
                continue;
            }
            let mut idle: Vec<_> = self.0.iter().filter(|(k, _)| k.0 == space).collect();
            idle.sort_by_key(|((_, producer), p)| (p.last_ms, *producer));
            let idle = idle.iter().map(|(key, _)| **key);
            let too_many = of_space(self).saturating_sub(max);
            let goes: Vec<_> = idle
                .filter(|key| !named.contains(key) && !locked.contains(key))
                .take(too_many)
                .collect();
            gone += goes.len() as u64;
            goes.iter().for_each(|key| drop(self.0.remove(key)));
        }
        Ok(gone)
    }
}
