//! Retention classes: which slices of time ids expire in.
//!
//! A retention belongs to a class; a class cuts time in slices of one width, and an id goes to
//! the slice in which it *expires*. So any mix of retentions works, and ids that expire
//! together are dropped together.
//!
//! A class spans a power of 4 milliseconds and is cut in `slices` slices (8 by default), so a
//! retention between a quarter of the span and the span keeps 3 to 9 of its slices alive.
//! Invariants:
//! - C1: a class never changes once stored: its number, span and width are in the catalog.
//! - C2: all classes together need at most `generations_max` families; a retention that would
//!   need more is cut coarser, then shares a longer class, then is refused.

use crate::error::{Error, Result};
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::record::{FOR_EVER_CLASS, FOR_EVER_MS, Slice};

/// The slice of what is never forgotten: the latest of all.
pub(crate) const FOR_EVER: Slice = Slice {
    end_ms: FOR_EVER_MS,
    class: FOR_EVER_CLASS,
};

/// A class as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Class {
    pub(crate) number: u8,
    pub(crate) span_ms: u64,
    pub(crate) width_ms: u64,
}

impl Class {
    /// Families that live at once, at most: a new one is begun while the oldest still lives.
    fn families(&self) -> u64 {
        self.span_ms.div_ceil(self.width_ms) + 2
    }

    /// The slice in which a record that expires at `expiry_ms` lives.
    pub(crate) fn slice(&self, expiry_ms: u64) -> Slice {
        let end_ms = (expiry_ms / self.width_ms + 1).saturating_mul(self.width_ms);
        // Not even a saturated end may pass for "for ever".
        Slice {
            end_ms: end_ms.min(FOR_EVER_MS - 1),
            class: self.number,
        }
    }
}

/// The classes of a store.
pub(crate) struct Classes {
    all: RwLock<Vec<Class>>,
    /// The shortest retention in force in each class since the store was opened.
    shortest_ms: [AtomicU64; 32],
    slices: u64,
    families_max: u64,
}

/// The shortest span: 4^5 ms. Shorter retentions share it.
const SPAN_MS_MIN: u64 = 1024;
/// A longer class is shared if its span is at most this many times the retention.
const SHARED_SPAN_MAX: u64 = 4;

impl Classes {
    pub(crate) fn new(all: Vec<Class>, slices: u32, families_max: u32) -> Classes {
        let (slices, families_max) = (slices.into(), families_max.into());
        let shortest_ms = std::array::from_fn(|_| AtomicU64::new(u64::MAX));
        Classes {
            all: RwLock::new(all),
            shortest_ms,
            slices,
            families_max,
        }
    }

    pub(crate) fn get(&self, number: u8) -> Option<Class> {
        self.all.read().iter().find(|c| c.number == number).copied()
    }

    /// The width of a slice's class; 0 for the one that never ends.
    pub(crate) fn width_ms(&self, slice: Slice) -> u64 {
        self.get(slice.class).map_or(0, |c| c.width_ms)
    }

    /// Says that ids of this retention go to the class from now on.
    pub(crate) fn note(&self, class: Class, retention_ms: u64) {
        if let Some(shortest) = self.shortest_ms.get(usize::from(class.number)) {
            shortest.fetch_min(retention_ms, Ordering::Relaxed);
        }
    }

    /// From when on ids hardly fall into a slice any more, so that its runs are worth merging.
    /// A later one is still placed right.
    pub(crate) fn closes_ms(&self, slice: Slice) -> u64 {
        let (Some(class), Some(shortest)) = (
            self.get(slice.class),
            self.shortest_ms.get(usize::from(slice.class)),
        ) else {
            return FOR_EVER_MS;
        };
        let retention_ms = shortest.load(Ordering::Relaxed).min(class.span_ms);
        slice.end_ms.saturating_sub(retention_ms)
    }

    /// The class that a retention may share.
    pub(crate) fn existing(&self, retention_ms: u64) -> Option<Class> {
        let all = self.all.read();
        let fits = all.iter().filter(|c| {
            c.span_ms >= retention_ms && c.span_ms / SHARED_SPAN_MAX <= retention_ms
                || c.span_ms == SPAN_MS_MIN && retention_ms <= SPAN_MS_MIN
        });
        fits.min_by_key(|c| c.span_ms).copied()
    }

    /// A new class for a retention, which the caller stores and then [`Classes::add`]s; or the
    /// longer one it must share.
    ///
    /// # Errors
    /// `Invalid` if all classes are shorter and no families are left for another.
    pub(crate) fn propose(&self, retention_ms: u64) -> Result<Class> {
        let span_ms = span(retention_ms);
        let all = self.all.read();
        // One family is the one that never ends.
        let used: u64 = 1 + all.iter().map(Class::families).sum::<u64>();
        let number = u8::try_from(all.len()).unwrap_or(FOR_EVER_CLASS);
        // Half of what is left at most, so that there is something for later classes.
        let left = self.families_max.saturating_sub(used);
        let mut slices = self.slices;
        while slices >= 1 && number < FOR_EVER_CLASS {
            let class = Class {
                number,
                span_ms,
                width_ms: (span_ms / slices).max(1),
            };
            let share = if slices == 1 { left } else { left / 2 };
            if class.families() <= share {
                return Ok(class);
            }
            slices /= 2;
        }
        let longer = all.iter().filter(|c| c.span_ms >= retention_ms);
        longer.min_by_key(|c| c.span_ms).copied().ok_or_else(|| {
            Error::invalid(format!(
                "a retention of {retention_ms} ms needs generations of its own, and \
                 generations_max ({}) leaves none",
                self.families_max
            ))
        })
    }

    pub(crate) fn add(&self, class: Class) {
        let mut all = self.all.write();
        if all.iter().all(|c| c.number != class.number) {
            all.push(class);
        }
    }
}

/// The smallest power of 4 that is not below a retention.
fn span(retention_ms: u64) -> u64 {
    let mut span = SPAN_MS_MIN;
    while span < retention_ms {
        span = span.saturating_mul(4);
    }
    span
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_ends_after_what_is_in_it() {
        let class = Class {
            number: 2,
            span_ms: 4096,
            width_ms: 512,
        };
        assert_eq!(
            class.slice(0),
            Slice {
                end_ms: 512,
                class: 2
            }
        );
        assert_eq!(
            class.slice(511),
            Slice {
                end_ms: 512,
                class: 2
            }
        );
        assert_eq!(
            class.slice(512),
            Slice {
                end_ms: 1024,
                class: 2
            }
        );
        assert!(class.slice(u64::MAX - 2) < FOR_EVER);
    }

    #[test]
    fn families_stay_within_their_bound() {
        let classes = Classes::new(Vec::new(), 8, 32);
        let mut refused = 0;
        let mut retention = 1;
        while retention < 1 << 50 {
            if classes.existing(retention).is_none() {
                match classes.propose(retention) {
                    Ok(class) => classes.add(class),
                    Err(_) => refused += 1,
                }
            }
            retention *= 3;
        }
        let all = classes.all.read();
        let used: u64 = 1 + all.iter().map(Class::families).sum::<u64>();
        assert!(used <= 32, "{used}");
        assert!(all.len() >= 5, "{all:?}");
        assert!(refused > 0);
    }

    #[test]
    fn a_week_and_a_day_have_classes_of_their_own() {
        let classes = Classes::new(Vec::new(), 8, 32);
        let week = classes.propose(7 * 86_400_000).unwrap();
        classes.add(week);
        assert_eq!(classes.existing(5 * 86_400_000), Some(week));
        assert_eq!(classes.existing(3_600_000), None);
        assert!(week.span_ms / week.width_ms <= 8);
    }
}
