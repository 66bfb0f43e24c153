//! One producer's numbers: the highest one recorded, and a bit for each of the last `W`.
//!
//! The bit of number `n` is bit `n mod W` of a ring, so recording a number moves nothing. When
//! the ring comes round, the bit that is written over tells whether the number that leaves the
//! window was recorded; `complete_from` keeps what follows from that: all numbers from it up to
//! the window were. So a producer that leaves no gap behind has every old number told for sure,
//! however far back it began to be followed; and what left the window unseen is never taken
//! for seen (S1).

/// What a number is to a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It was not recorded.
    New,
    /// It was.
    Seen,
    /// It is older than the window, and nobody knows.
    Lost,
    /// A later epoch has begun.
    Fenced,
}

/// The numbers of a producer that were recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(super) epoch: u64,
    /// The highest number recorded; 0 before the first, whose bit is then not set.
    pub(super) high: u64,
    /// Every number from here to the window's beginning was recorded. Never within the window.
    pub(super) complete_from: u64,
    /// A power of two of bits.
    pub(super) ring: Box<[u64]>,
}

impl Window {
    /// A producer that recorded nothing yet.
    pub(crate) fn new(bits: usize, epoch: u64) -> Window {
        Window {
            epoch,
            high: 0,
            complete_from: 0,
            ring: vec![0; bits / 64].into(),
        }
    }

    /// A producer whose numbers below `next` all count as recorded.
    pub(crate) fn beginning_at(bits: usize, epoch: u64, next: u64) -> Window {
        let mut window = Window::new(bits, epoch);
        if let Some(high) = next.checked_sub(1) {
            window.high = high;
            (window.low()..=high).for_each(|n| window.set(n));
        }
        window
    }

    /// How many numbers it tells apart.
    pub(crate) fn bits(&self) -> u64 {
        self.ring.len() as u64 * 64
    }

    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The highest number recorded.
    pub(crate) fn high(&self) -> Option<u64> {
        self.has(self.high).then_some(self.high)
    }

    /// The lowest number of the window.
    pub(super) fn low(&self) -> u64 {
        low(self.high, self.bits())
    }

    /// Numbers within the window that were not recorded, above the lowest that was.
    pub(crate) fn gaps(&self) -> u64 {
        let recorded: u64 = self.ring.iter().map(|w| u64::from(w.count_ones())).sum();
        let lowest = (self.low()..=self.high).find(|n| self.has(*n));
        lowest.map_or(0, |lowest| self.high - lowest + 1 - recorded)
    }

    /// What a number of an epoch is.
    pub(crate) fn place(&self, epoch: u64, n: u64) -> Place {
        if epoch != self.epoch {
            return if epoch < self.epoch {
                Place::Fenced
            } else {
                Place::New
            };
        }
        if n > self.high {
            return Place::New;
        }
        // `high` is recorded unless nothing is, and then no bit is set.
        match n >= self.low() {
            true if self.has(n) => Place::Seen,
            true => Place::New,
            false if n >= self.complete_from => Place::Seen,
            false => Place::Lost,
        }
    }

    /// Records a number that is new. A later epoch begins anew with it.
    pub(crate) fn record(&mut self, epoch: u64, n: u64) {
        if epoch != self.epoch {
            *self = Window::new(self.bits() as usize, epoch);
        }
        let bits = self.bits();
        if !self.has(self.high) || (n > self.high && n - self.high > bits) {
            // Nothing of the window is left, and a number left it unseen.
            self.ring.fill(0);
            self.complete_from = low(n, bits);
            self.high = n;
        } else if n > self.high {
            for next in self.high + 1..=n {
                if next >= bits && !self.has(next) {
                    // Its bit is still that of the number that leaves.
                    self.complete_from = low(next, bits);
                }
                self.unset(next);
            }
            self.high = n;
        }
        self.set(n);
    }

    fn at(&self, n: u64) -> (usize, u64) {
        let bit = n & (self.bits() - 1);
        ((bit / 64) as usize, 1 << (bit % 64))
    }

    pub(super) fn has(&self, n: u64) -> bool {
        let (word, bit) = self.at(n);
        self.ring[word] & bit != 0
    }

    fn set(&mut self, n: u64) {
        let (word, bit) = self.at(n);
        self.ring[word] |= bit;
    }

    fn unset(&mut self, n: u64) {
        let (word, bit) = self.at(n);
        self.ring[word] &= !bit;
    }
}

/// The lowest number of a window of so many bits below a mark.
fn low(high: u64, bits: u64) -> u64 {
    high.saturating_sub(bits - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The same said with a set of all numbers.
    struct Plain {
        seen: BTreeSet<u64>,
        bits: u64,
    }

    impl Plain {
        fn place(&self, n: u64) -> Place {
            if self.seen.contains(&n) {
                return Place::Seen;
            }
            let high = self.seen.last().copied().unwrap_or(0);
            if n >= low(high, self.bits) {
                Place::New
            } else {
                Place::Lost
            }
        }
    }

    #[test]
    fn it_never_says_seen_of_what_was_not_and_loses_only_what_is_behind_a_gap() {
        let mut random = fastrand::Rng::with_seed(7);
        let mut lost = 0;
        for round in 0..400_u64 {
            let mut window = Window::new(64, 1);
            let mut plain = Plain {
                seen: BTreeSet::new(),
                bits: 64,
            };
            let mut next = [0, 63, 64, 1000, u64::MAX - 400][round as usize % 5];
            for _ in 0..200 {
                let n = match random.u32(0..20) {
                    0 => next.saturating_sub(random.u64(0..200)),
                    1 => next.saturating_add(random.u64(0..70)),
                    2 => next.saturating_sub(random.u64(0..64)),
                    _ => next,
                };
                match (window.place(1, n), plain.place(n)) {
                    (Place::Lost, Place::Seen) => {
                        lost += 1;
                        let gap = (n..window.low()).any(|n| !plain.seen.contains(&n));
                        assert!(gap, "{n} was lost without a gap");
                    }
                    (said, right) => assert_eq!(said, right, "{n} of {:?}", plain.seen),
                }
                if window.place(1, n) == Place::New {
                    window.record(1, n);
                    plain.seen.insert(n);
                    next = next.max(n.saturating_add(1));
                    assert_eq!(window.high(), plain.seen.last().copied());
                    assert!(window.complete_from <= window.low());
                }
            }
        }
        assert!(lost > 0, "no number was ever lost");
    }

    #[test]
    fn a_later_epoch_begins_anew_and_an_earlier_one_is_fenced() {
        let mut window = Window::new(64, 3);
        window.record(3, 500);
        assert_eq!(window.place(2, 501), Place::Fenced);
        assert_eq!(window.place(4, 500), Place::New);
        window.record(4, 7);
        assert_eq!(window.place(3, 501), Place::Fenced);
        assert_eq!((window.epoch(), window.high()), (4, Some(7)));
        assert_eq!(window.place(4, 7), Place::Seen);
        assert_eq!(window.place(4, 6), Place::New);
    }

    #[test]
    fn where_it_begins_counts_as_recorded() {
        for (next, high) in [(0, None), (1, Some(0)), (64, Some(63)), (500, Some(499))] {
            let window = Window::beginning_at(64, 1, next);
            assert_eq!((window.high(), window.gaps()), (high, 0));
            assert_eq!(window.place(1, next), Place::New);
            (0..next).for_each(|n| assert_eq!(window.place(1, n), Place::Seen, "{n}"));
        }
    }

    #[test]
    fn gaps_are_counted_from_the_lowest_recorded() {
        let mut window = Window::new(64, 1);
        assert_eq!(window.gaps(), 0);
        for n in [100, 101, 104] {
            window.record(1, n);
        }
        assert_eq!(window.gaps(), 2);
    }
}
