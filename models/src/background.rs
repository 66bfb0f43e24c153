//! A pool without threads: a scenario's own thread does a store's background work, in the
//! scheduler's hands.

use std::sync::{Mutex, Weak};
use std::time::Duration;

/// What a store gives its background threads to do.
pub(crate) trait Background: Send + Sync {
    fn tick(&self) -> bool;
    fn work(&self);
}

/// The stores that it serves.
pub(crate) struct Pool(Mutex<Vec<Weak<dyn Background>>>);

impl Pool {
    pub(crate) fn new(_: usize) -> Pool {
        Pool(Mutex::default())
    }

    pub(crate) fn register(&self, store: Weak<dyn Background>) {
        self.0.lock().expect("nothing here panics").push(store);
    }

    /// Does what is due now, as the ticker and a worker would.
    pub(crate) fn serve(&self) {
        let all = self.0.lock().expect("nothing here panics").clone();
        for store in all.iter().filter_map(Weak::upgrade) {
            if store.tick() {
                store.work();
            }
        }
    }

    pub(crate) fn quicken(&self, _: Duration) {}

    pub(crate) fn stores(&self) -> usize {
        let stores = self.0.lock().expect("nothing here panics");
        stores.iter().filter(|s| s.strong_count() > 0).count()
    }

    pub(crate) fn threads(&self) -> usize {
        0
    }
}
