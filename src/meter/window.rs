//! The top sources and scopes of duplicates over the last minutes.
//!
//! The window is cut into panes (J. Li et al., "No pane, no gain", SIGMOD Record 2005): each
//! counts by itself, an old one goes whole, and a question adds them up. Space-Saving counters
//! can be added so (P. Agarwal et al., "Mergeable Summaries", PODS 2012): a name that a full
//! pane does not list may have had that pane's least count, which is added to count and error.
//! The bounds of one counter hold for the sum: no error is above n / capacity.
//!
//! Time is effective time; a call that comes late counts in the latest pane.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crate::clock::millis;
use crate::stats::{Top, TopEntry, TopSource};
use crate::sync::Mutex;

use super::SpaceSaving;

/// Panes of a window: the oldest one goes whole, so the window covers 5/6 to all of its time.
const PANES: u64 = 6;
/// The longest part of a name that is kept, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// What stands between a scope and a source: no scope's name has it.
const SEPARATOR: &str = "\0";

/// How much is remembered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TopLimits {
    pub(crate) capacity: usize,
    pub(crate) window: Duration,
}

struct Pane {
    number: u64,
    sources: SpaceSaving,
    scopes: SpaceSaving,
    /// Sources within scopes.
    pairs: SpaceSaving,
}

/// Duplicates by where they came from.
pub(crate) struct Duplicates {
    limits: TopLimits,
    state: Mutex<State>,
}

struct State {
    panes: VecDeque<Pane>,
    /// Sources since someone last took them.
    taken: SpaceSaving,
}

/// A name as it is kept.
fn shortened(name: &str) -> &str {
    let end = name.floor_char_boundary(NAME_BYTES_MAX);
    &name[..end]
}

impl Duplicates {
    pub(crate) fn new(limits: TopLimits) -> Duplicates {
        let taken = SpaceSaving::new(limits.capacity);
        let panes = VecDeque::new();
        Duplicates {
            limits,
            state: Mutex::new(State { panes, taken }),
        }
    }

    fn pane_ms(&self) -> u64 {
        (millis(self.limits.window) / PANES).max(1)
    }

    /// Counts a batch's duplicates: how many in which scope, and scope and source of those that
    /// have one.
    pub(crate) fn add<'a>(
        &self,
        now_ms: u64,
        scopes: impl Iterator<Item = (&'a str, u64)>,
        sources: impl Iterator<Item = (&'a str, &'a str)>,
    ) {
        let mut state = self.state.lock();
        let State { panes, taken } = &mut *state;
        let pane = pane_at(panes, now_ms / self.pane_ms(), self.limits.capacity);
        scopes.for_each(|(scope, n)| pane.scopes.add(shortened(scope), n));
        let mut pair = String::new();
        for (scope, source) in sources {
            let (scope, source) = (shortened(scope), shortened(source));
            pair.clear();
            pair.extend([scope, SEPARATOR, source]);
            pane.pairs.add(&pair, 1);
            pane.sources.add(source, 1);
            taken.add(source, 1);
        }
    }

    /// The sources since the last time.
    pub(crate) fn take(&self) -> SpaceSaving {
        let fresh = SpaceSaving::new(self.limits.capacity);
        std::mem::replace(&mut self.state.lock().taken, fresh)
    }

    pub(crate) fn top(&self, now_ms: u64) -> Top {
        let mut state = self.state.lock();
        drop_old(&mut state.panes, now_ms / self.pane_ms());
        let merged = |of: fn(&Pane) -> &SpaceSaving| {
            let counters: Vec<&SpaceSaving> = state.panes.iter().map(of).collect();
            merge(&counters)
        };
        let pairs = merged(|pane| &pane.pairs).into_iter().filter_map(|pair| {
            let (scope, source) = pair.name.split_once(SEPARATOR)?;
            Some(TopSource {
                scope: scope.to_string(),
                source: source.to_string(),
                count: pair.count,
                error: pair.error,
            })
        });
        Top {
            at: UNIX_EPOCH + Duration::from_millis(now_ms),
            sources_by_scope: pairs.collect(),
            window: self.limits.window,
            duplicates: state.panes.iter().map(|p| p.scopes.total()).sum(),
            with_source: state.panes.iter().map(|p| p.sources.total()).sum(),
            sources: merged(|pane| &pane.sources),
            scopes: merged(|pane| &pane.scopes),
        }
    }
}

fn drop_old(panes: &mut VecDeque<Pane>, number: u64) {
    while panes.front().is_some_and(|p| p.number + PANES <= number) {
        panes.pop_front();
    }
}

fn pane_at(panes: &mut VecDeque<Pane>, number: u64, capacity: usize) -> &mut Pane {
    drop_old(panes, number);
    if panes.back().is_none_or(|latest| latest.number < number) {
        panes.push_back(Pane {
            number,
            sources: SpaceSaving::new(capacity),
            scopes: SpaceSaving::new(capacity),
            pairs: SpaceSaving::new(capacity),
        });
    }
    let latest = panes.len() - 1;
    &mut panes[latest]
}

/// Not cut to the capacity: a name with more than its share could then go for one whose count is
/// mostly error.
fn merge(counters: &[&SpaceSaving]) -> Vec<TopEntry> {
    let slots = counters.iter().flat_map(|c| c.slots());
    let names: BTreeSet<&Arc<str>> = slots.map(|slot| &slot.name).collect();
    let entry = |name: &Arc<str>| {
        let (mut count, mut error) = (0, 0);
        for counter in counters {
            let (c, e) = match counter.find(name) {
                Some(slot) => (slot.count, slot.error),
                None => (counter.unlisted(), counter.unlisted()),
            };
            count += c;
            error += e;
        }
        TopEntry {
            name: name.to_string(),
            count,
            error,
        }
    };
    let mut entries: Vec<TopEntry> = names.into_iter().map(entry).collect();
    entries.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.name.cmp(&b.name)));
    entries
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    const LIMITS: TopLimits = TopLimits {
        capacity: 8,
        window: Duration::from_millis(600),
    };

    fn add(duplicates: &Duplicates, now_ms: u64, source: &str, n: usize) {
        let sources = std::iter::repeat_n(("s", source), n);
        duplicates.add(now_ms, [("s", n as u64)].into_iter(), sources);
    }

    #[test]
    fn what_is_older_than_the_window_is_gone() {
        let duplicates = Duplicates::new(LIMITS);
        add(&duplicates, 1000, "old", 5);
        add(&duplicates, 1100, "new", 2);
        add(&duplicates, 1050, "late", 1);
        let top = duplicates.top(1599);
        assert_eq!((top.duplicates, top.with_source), (8, 8));
        let names: Vec<&str> = top.sources.iter().map(|e| &*e.name).collect();
        assert_eq!(names, ["old", "new", "late"]);
        let top = duplicates.top(1600);
        let left: Vec<(&str, u64)> = top.sources.iter().map(|e| (&*e.name, e.count)).collect();
        assert_eq!(left, [("new", 2), ("late", 1)]);
        assert_eq!(top.scopes[0].count, 3);
        let pairs = top.sources_by_scope.iter();
        let pairs: Vec<_> = pairs.map(|p| (&*p.scope, &*p.source, p.count)).collect();
        assert_eq!(pairs, [("s", "new", 2), ("s", "late", 1)]);
        assert_eq!(duplicates.top(1700).sources, []);
        // Those taken are since the last time, whatever the window.
        assert_eq!(duplicates.take().total(), 8);
        assert_eq!(duplicates.take().total(), 0);
    }

    #[test]
    fn the_bounds_hold_over_panes() {
        for seed in 0..20 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let duplicates = Duplicates::new(LIMITS);
            let mut truth = BTreeMap::new();
            for i in 0..3000_u64 {
                let source = format!("{}", (1.0 / rng.f64().max(1e-3)) as u64);
                add(&duplicates, 1200 + i / 5, &source, 1);
                *truth.entry(source).or_insert(0) += 1;
            }
            let top = duplicates.top(1799);
            assert_eq!(top.with_source, 3000);
            let bound = 3000 / LIMITS.capacity as u64;
            for entry in &top.sources {
                let real = truth.get(&entry.name).copied().unwrap_or(0);
                assert!(entry.error <= bound, "seed {seed}: {entry:?}");
                assert!(
                    entry.at_least() <= real && real <= entry.count,
                    "{entry:?}, {real}"
                );
            }
            for (name, _) in truth.iter().filter(|(_, real)| **real > bound) {
                assert!(
                    top.sources.iter().any(|e| e.name == *name),
                    "seed {seed}: {name}"
                );
            }
        }
    }

    #[test]
    fn a_long_name_is_cut_between_characters() {
        let long = "ä".repeat(200);
        assert_eq!(shortened(&long).len(), 254);
        assert_eq!(shortened("short"), "short");
    }
}
