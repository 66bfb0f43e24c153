//! What an approximate scope is made for.

use std::time::Duration;

use crate::clock::millis;
use crate::error::{Error, Result};

use super::ring::Shape;
use super::size::blocks_for;

const SLICES_MAX: u32 = 64;
const EXPECTED_MAX: u64 = 1 << 40;
const ERROR_RATES: std::ops::RangeInclusive<f64> = 1e-6..=0.5;
const PRECISIONS: std::ops::RangeInclusive<u8> = 4..=18;

/// What an approximate scope is made for; see [`Store::approximate`](crate::Store::approximate).
///
/// `window`, `slices`, `expected`, `error_rate` and `distinct_precision` are stored with the
/// scope and can't change; `snapshot_every` may differ at each opening.
///
/// ```
/// use firstseen::Approximate;
/// use std::time::Duration;
/// let hour = Duration::from_secs(3600);
/// let clicks = Approximate::window(hour).expected(1_000_000).error_rate(0.01);
/// // Known before anything is made, and the same whatever comes: about 20 bits an id.
/// assert!(clicks.bytes()? < 3_000_000);
/// # Ok::<(), firstseen::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[must_use]
pub struct Approximate {
    pub(super) window_ms: u64,
    pub(super) slices: u32,
    pub(super) expected: u64,
    pub(super) error_rate: f64,
    pub(super) precision: u8,
    pub(super) snapshot_every: Duration,
}

impl Approximate {
    /// Ids are remembered for `window` at least, from when they were first, and for
    /// `window × (1 + 1 / slices)` at most. In whole milliseconds, at least one a slice.
    pub fn window(window: Duration) -> Approximate {
        Approximate {
            window_ms: millis(window),
            slices: 8,
            expected: 1_000_000,
            error_rate: 0.01,
            precision: 14,
            snapshot_every: Duration::from_secs(60),
        }
    }

    /// Ids that are first in one window, which memory is made for: at most an even share of
    /// them in any slice. If they come unevenly, the slices times those of the busiest
    /// slice. More are right too, with more false positives. Default: a million; 1 to 2^40.
    pub fn expected(mut self, ids: u64) -> Approximate {
        self.expected = ids;
        self
    }

    /// The greatest chance that a new id is taken for a seen one, over all slices together,
    /// with no more than the expected ids. Default: 0.01; 0.000001 to 0.5.
    pub fn error_rate(mut self, rate: f64) -> Approximate {
        self.error_rate = rate;
        self
    }

    /// In how many slices a window is cut. More make the window more exact, and new ids dearer:
    /// each of them is asked of `slices + 1` filters. Default: 8; 1 to 64.
    pub fn slices(mut self, slices: u32) -> Approximate {
        self.slices = slices;
        self
    }

    /// The distinct count uses `2^precision` bytes a slice and has a standard error of
    /// `1.04 / sqrt(2^precision)`. Default: 14, for 0.8 %; 4 to 18.
    pub fn distinct_precision(mut self, precision: u8) -> Approximate {
        self.precision = precision;
        self
    }

    /// How often what changed is written to disk by the background: what a crash may lose. A
    /// snapshot writes the filters of all slices that have ids, [`bytes`](Approximate::bytes)
    /// at most, on the thread that also seals. Default: a minute; at least 1 ms.
    pub fn snapshot_every(mut self, interval: Duration) -> Approximate {
        self.snapshot_every = interval;
        self
    }

    /// The bytes of memory it takes, from its making on and whatever comes.
    ///
    /// # Errors
    /// `Invalid` with all violations.
    pub fn bytes(&self) -> Result<u64> {
        self.validate()?;
        let blocks = self.blocks();
        self.shape(blocks).bytes().ok_or_else(|| {
            Error::invalid(format!("no machine has memory for {} ids", self.expected))
        })
    }

    /// Every violation in one error.
    pub(super) fn validate(&self) -> Result<()> {
        let mut wrong = Vec::new();
        let mut check = |is_right: bool, what: String| {
            if !is_right {
                wrong.push(what);
            }
        };
        let slices = self.slices;
        check(
            (1..=SLICES_MAX).contains(&slices),
            format!("slices must be 1 to {SLICES_MAX}, not {slices}"),
        );
        let window_ms = self.window_ms;
        check(
            (u64::from(slices)..=1 << 50).contains(&window_ms),
            format!("a window of {window_ms} ms can't be cut in {slices} slices"),
        );
        check(
            (1..=EXPECTED_MAX).contains(&self.expected),
            format!(
                "expected must be 1 to {EXPECTED_MAX}, not {}",
                self.expected
            ),
        );
        let (low, high) = (ERROR_RATES.start(), ERROR_RATES.end());
        check(
            ERROR_RATES.contains(&self.error_rate),
            format!(
                "error_rate must be {low} to {high}, not {}",
                self.error_rate
            ),
        );
        let (low, high) = (PRECISIONS.start(), PRECISIONS.end());
        check(
            PRECISIONS.contains(&self.precision),
            format!(
                "distinct_precision must be {low} to {high}, not {}",
                self.precision
            ),
        );
        check(
            self.snapshot_every >= Duration::from_millis(1),
            "snapshot_every must be 1 ms or more".to_string(),
        );
        match wrong.is_empty() {
            true => Ok(()),
            false => Err(Error::invalid(wrong.join("; "))),
        }
    }

    /// Blocks that each filter needs.
    pub(super) fn blocks(&self) -> u64 {
        blocks_for(self.slice_ids(), self.slices + 1, self.error_rate)
    }

    fn slice_ids(&self) -> u64 {
        self.expected.div_ceil(u64::from(self.slices))
    }

    pub(super) fn shape(&self, blocks: u64) -> Shape {
        Shape {
            slice_ms: self.window_ms.div_ceil(u64::from(self.slices)),
            slices: self.slices,
            blocks,
            precision: self.precision,
            slice_ids: self.slice_ids(),
        }
    }

    /// Whether the other one is made for the same.
    pub(super) fn is_like(&self, other: &Approximate) -> bool {
        let stored = |of: &Approximate| Approximate {
            snapshot_every: Duration::ZERO,
            ..of.clone()
        };
        stored(self) == stored(other)
    }

    /// In words, for an error.
    pub(super) fn described(&self) -> String {
        format!(
            "a window of {} ms in {} slices, {} ids, an error rate of {} and a precision of {}",
            self.window_ms, self.slices, self.expected, self.error_rate, self.precision
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_violations_are_in_one_error() {
        let wrong = Approximate::window(Duration::from_millis(2))
            .expected(0)
            .error_rate(f64::NAN)
            .distinct_precision(3)
            .snapshot_every(Duration::ZERO);
        let said = wrong.validate().unwrap_err().to_string();
        for word in ["window", "expected", "error_rate", "precision", "snapshot"] {
            assert!(said.contains(word), "{word}: {said}");
        }
        assert!(
            Approximate::window(Duration::from_millis(8))
                .validate()
                .is_ok()
        );
    }

    #[test]
    fn too_many_bytes_are_an_error() {
        let huge = Approximate::window(Duration::from_secs(60)).expected(EXPECTED_MAX);
        assert!(
            huge.error_rate(1e-6)
                .slices(64)
                .bytes()
                .is_ok_and(|bytes| bytes > 1 << 40)
        );
    }
}
