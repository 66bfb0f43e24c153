//! The rule of commit numbers: contiguous above the marker, and none missing below the floor.
//!
//! An open and a check of a store at rest apply the same one.

/// Commit numbers as the log families show them, oldest first.
pub(super) struct Numbers {
    marker: u64,
    begun: bool,
    /// The highest one so far.
    pub(super) last_n: u64,
    /// The first hole: expected and found.
    hole: Option<(u64, u64)>,
}

impl Numbers {
    /// `marker`: the last commit of the last segment whose sealing began.
    pub(super) fn new(marker: u64) -> Numbers {
        Numbers {
            marker,
            begun: false,
            last_n: marker,
            hole: None,
        }
    }

    pub(super) fn take(&mut self, n: u64) {
        if !self.begun {
            // What came before the first one is sealed, and at most the marker.
            self.begun = true;
            self.last_n = self.marker.min(n.saturating_sub(1));
        }
        if n != self.last_n + 1 {
            self.hole.get_or_insert((self.last_n + 1, n));
        }
        self.last_n = self.last_n.max(n);
    }

    /// After the last one: what began to be sealed must be there whole, if any of it is.
    pub(super) fn end(&mut self) {
        if self.last_n < self.marker {
            self.hole.get_or_insert((self.last_n + 1, self.marker));
        }
    }

    /// Expected and found, if less came back than was durable.
    pub(super) fn short_of(&self, floor: u64) -> Option<(u64, u64)> {
        let found = match self.hole {
            Some((expected, _)) => expected - 1,
            None => self.last_n,
        };
        let is_whole = found >= floor && self.hole.is_none();
        (!is_whole).then(|| (floor.max(self.last_n), found))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn expect(marker: u64, log: &[u64], floor: u64, short: Option<(u64, u64)>) {
        let mut numbers = Numbers::new(marker);
        log.iter().for_each(|n| numbers.take(*n));
        numbers.end();
        assert_eq!(numbers.short_of(floor), short);
    }

    #[test]
    fn holes_and_ends_below_the_floor_are_short() {
        expect(0, &[], 0, None);
        expect(0, &[1, 2, 3], 3, None);
        expect(5, &[], 5, None);
        // The segment of the marker is still there, its drop was cut short.
        expect(5, &[4, 5, 6], 6, None);
        expect(5, &[6, 7], 6, None);
        expect(0, &[1, 2, 3], 4, Some((4, 3)));
        expect(5, &[], 7, Some((7, 5)));
        expect(5, &[6, 8], 6, Some((8, 6)));
        expect(5, &[7], 0, Some((7, 5)));
        expect(5, &[3], 0, Some((3, 3)));
    }
}
