//! The usual band of a rate, and when it is left.
//!
//! Mean and variance are exponentially weighted (T. Finch, "Incremental calculation of weighted
//! mean and variance", 2009). Of the n-th value x, with weight `a = max(1/n, 1/16)`:
//!
//! ```text
//! d = x - mean;  mean += a d;  variance = (1 - a) (variance + a d²)
//! deviation = max(√variance, least)          band = mean ± 4 deviation
//! ```
//!
//! - B1: nothing is said during the first 8 values, nor after fewer than 2 values in a row on the
//!   same side outside.
//! - B2: it is left once; it is back after 2 values in a row within mean ± 2 deviations. What lies
//!   between changes nothing.
//! - B3: a value outside weighs an eighth of others, so that a surge does not soon become the
//!   usual; one that stays becomes it.

/// What a value changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Move {
    Above,
    Below,
    Back,
}

/// The band of one rate.
#[derive(Clone, Debug, Default)]
pub(crate) struct Band {
    mean: f64,
    variance: f64,
    seen: u32,
    /// Values in a row: above (positive) or below, while within; calm ones, while outside.
    row: i32,
    is_outside: bool,
}

/// A value's least weight: the band remembers some 16 values.
const WEIGHT_MIN: f64 = 1.0 / 16.0;
/// The part of it that a value outside has.
const OUTSIDE: f64 = 1.0 / 8.0;
/// Deviations to leave the band, and to be back.
const LEAVE: f64 = 4.0;
const BACK: f64 = 2.0;
/// Values in a row that it takes.
const IN_A_ROW: i32 = 2;

impl Band {
    /// Values before anything is said.
    pub(crate) const WARM_UP: u32 = 8;

    /// The band of a rate that was 0 for long.
    pub(crate) fn silent() -> Band {
        Band {
            seen: 16,
            ..Band::default()
        }
    }

    pub(crate) fn mean(&self) -> f64 {
        self.mean
    }

    /// The lowest and the highest usual value, if deviations below `least` are no news.
    pub(crate) fn limits(&self, least: f64) -> (f64, f64) {
        let width = LEAVE * self.deviation(least);
        ((self.mean - width).max(0.0), self.mean + width)
    }

    fn deviation(&self, least: f64) -> f64 {
        self.variance.sqrt().max(least)
    }

    pub(crate) fn is_outside(&self) -> bool {
        self.is_outside
    }

    /// Takes a value, of which deviations below `least` are no news.
    pub(crate) fn observe(&mut self, x: f64, least: f64) -> Option<Move> {
        let distance = (x - self.mean) / self.deviation(least);
        let is_warm = self.seen >= Band::WARM_UP;
        let moved = if is_warm { self.judge(distance) } else { None };
        let is_odd = is_warm && (distance.abs() > LEAVE || self.is_outside);
        self.learn(x, if is_odd { OUTSIDE } else { 1.0 });
        moved
    }

    fn judge(&mut self, distance: f64) -> Option<Move> {
        if self.is_outside {
            self.row = if distance.abs() <= BACK {
                self.row + 1
            } else {
                0
            };
            if self.row < IN_A_ROW {
                return None;
            }
            (self.row, self.is_outside) = (0, false);
            return Some(Move::Back);
        }
        self.row = if distance > LEAVE {
            self.row.max(0) + 1
        } else if distance < -LEAVE {
            self.row.min(0) - 1
        } else {
            0
        };
        if self.row.abs() < IN_A_ROW {
            return None;
        }
        let moved = if self.row > 0 {
            Move::Above
        } else {
            Move::Below
        };
        (self.row, self.is_outside) = (0, true);
        Some(moved)
    }

    fn learn(&mut self, x: f64, part: f64) {
        self.seen = self.seen.saturating_add(1);
        let a = part * (1.0 / f64::from(self.seen)).max(WEIGHT_MIN);
        let d = x - self.mean;
        self.mean += a * d;
        self.variance = (1.0 - a) * (self.variance + a * d * d);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds values; the moves with the position of the value that made them.
    fn moves(values: impl IntoIterator<Item = f64>) -> Vec<(usize, Move)> {
        let mut band = Band::default();
        let values = values.into_iter().enumerate();
        values
            .filter_map(|(i, x)| band.observe(x, 0.01).map(|moved| (i, moved)))
            .collect()
    }

    #[test]
    fn nothing_is_said_while_it_warms_up_or_of_one_value() {
        let wild = [0.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 1.0];
        assert_eq!(moves(wild), []);
        let mut one = vec![0.1; 20];
        one[12] = 0.9;
        one[15] = 0.0;
        assert_eq!(moves(one), []);
    }

    #[test]
    fn it_is_left_once_and_back_once() {
        let mut values = vec![0.1; 30];
        values[12..18].fill(0.8);
        assert_eq!(moves(values), [(13, Move::Above), (19, Move::Back)]);
        let mut values = vec![0.5; 30];
        values[12..18].fill(0.0);
        assert_eq!(moves(values), [(13, Move::Below), (19, Move::Back)]);
    }

    #[test]
    fn what_lies_between_the_two_bounds_changes_nothing() {
        // Deviation is the least, 0.01, at first: 0.13 is 3 of them away, neither out nor back.
        let mut values = vec![0.1; 12];
        values.extend([0.13, 0.13, 0.13]);
        assert_eq!(moves(values), []);
    }

    #[test]
    fn a_new_level_becomes_the_usual() {
        let mut values = vec![0.1; 12];
        values.extend(vec![0.6; 400]);
        let moves = moves(values);
        assert_eq!(moves[0], (13, Move::Above));
        assert!(matches!(moves[1..], [(_, Move::Back)]), "{moves:?}");
    }

    #[test]
    fn noise_of_its_own_size_is_no_news() {
        for seed in 0..50 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let noise = (0..2000).map(|_| 0.3 + 0.1 * (rng.f64() - 0.5));
            assert_eq!(moves(noise), [], "seed {seed}");
        }
    }
}
