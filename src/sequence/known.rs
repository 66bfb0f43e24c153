//! The producers of one space, in memory: all that the store has, and never more than the cap.
//!
//! One mutex, for moments only. A producer's entry changes under that producer's row lock, by a
//! commit that is written (S2); so whoever holds the lock may decide on a copy.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::sync::Mutex;

use super::window::Window;

/// A producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub(crate) window: Window,
    /// When it last recorded a number, in effective time.
    pub(crate) last_ms: u64,
}

/// The producers of one space.
#[derive(Default)]
pub(crate) struct Space(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    by_name: HashMap<Arc<[u8]>, Known>,
    /// The same, those first that recorded something longest ago.
    idle: BTreeSet<(u64, Arc<[u8]>)>,
}

impl Inner {
    fn remove(&mut self, name: &[u8]) {
        if let Some((name, known)) = self.by_name.remove_entry(name) {
            self.idle.remove(&(known.last_ms, name));
        }
    }

    fn insert(&mut self, name: &[u8], known: Known) {
        if let Some(before) = self.by_name.get_mut(name) {
            let last_ms = std::mem::replace(before, known.clone()).last_ms;
            if last_ms != known.last_ms {
                let entry = (last_ms, Arc::from(name));
                self.idle.remove(&entry);
                self.idle.insert((known.last_ms, entry.1));
            }
            return;
        }
        let name: Arc<[u8]> = name.into();
        self.idle.insert((known.last_ms, Arc::clone(&name)));
        self.by_name.insert(name, known);
    }
}

impl Space {
    pub(crate) fn get(&self, name: &[u8]) -> Option<Known> {
        self.0.lock().by_name.get(name).cloned()
    }

    pub(crate) fn insert(&self, name: &[u8], known: Known) {
        self.0.lock().insert(name, known);
    }

    pub(crate) fn remove(&self, name: &[u8]) {
        self.0.lock().remove(name);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.lock().by_name.len()
    }

    /// Those that must go so that `coming` more fit under the cap, as many as `take` can have.
    pub(crate) fn beyond(
        &self,
        cap: usize,
        coming: usize,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Vec<Arc<[u8]>> {
        let inner = self.0.lock();
        let too_many = (inner.by_name.len() + coming).saturating_sub(cap);
        let idle = inner.idle.iter().map(|(_, name)| name);
        idle.filter(|name| take(name))
            .take(too_many)
            .cloned()
            .collect()
    }

    /// All, by name.
    pub(crate) fn all(&self) -> Vec<(Arc<[u8]>, Known)> {
        let inner = self.0.lock();
        let all = inner.by_name.iter();
        let mut all: Vec<_> = all.map(|(n, k)| (Arc::clone(n), k.clone())).collect();
        drop(inner);
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(last_ms: u64) -> Known {
        Known {
            window: Window::new(64, 1),
            last_ms,
        }
    }

    #[test]
    fn those_idle_longest_go_first() {
        let space = Space::default();
        for (name, last_ms) in [(b"a", 5), (b"b", 3), (b"c", 3), (b"d", 9)] {
            space.insert(name, known(last_ms));
        }
        space.insert(b"b", known(7));
        assert_eq!(space.len(), 4);
        let beyond = |cap, coming, not: &[u8]| {
            let names = space.beyond(cap, coming, |name| name != not);
            names.iter().map(|n| n[0]).collect::<Vec<u8>>()
        };
        assert_eq!(beyond(4, 0, b""), b"");
        assert_eq!(beyond(4, 1, b""), b"c");
        assert_eq!(beyond(3, 1, b""), b"ca");
        assert_eq!(beyond(3, 1, b"c"), b"ab");
        space.remove(b"c");
        assert_eq!(beyond(3, 1, b""), b"a");
        assert_eq!(beyond(0, 0, b""), b"abd");
    }
}
