//! Pointers that are swapped whole, as the library's are: a load and a swap are one step each.

use std::ops::Deref;
use std::sync::{Arc, Mutex};

use crate::sync::point;

/// A pointer that is never absent.
pub(crate) type ArcSwap<T> = Swapped<Arc<T>>;
/// A pointer that may be absent.
pub(crate) type ArcSwapOption<T> = Swapped<Option<Arc<T>>>;

/// What was loaded.
pub(crate) struct Guard<V>(V);

impl<V> Deref for Guard<V> {
    type Target = V;

    fn deref(&self) -> &V {
        &self.0
    }
}

/// A value that is replaced whole.
pub(crate) struct Swapped<V>(Mutex<V>);

impl<V: Clone> Swapped<V> {
    pub(crate) fn new(value: V) -> Swapped<V> {
        Swapped(Mutex::new(value))
    }

    pub(crate) fn load(&self) -> Guard<V> {
        Guard(self.load_full())
    }

    pub(crate) fn load_full(&self) -> V {
        point();
        self.0.lock().expect("a clone never panics").clone()
    }

    pub(crate) fn store(&self, value: V) {
        self.swap(value);
    }

    pub(crate) fn swap(&self, value: V) -> V {
        point();
        std::mem::replace(&mut *self.0.lock().expect("a clone never panics"), value)
    }
}

impl<T> Swapped<Arc<T>> {
    pub(crate) fn from_pointee(value: T) -> Swapped<Arc<T>> {
        Swapped::new(Arc::new(value))
    }
}

impl<T> Swapped<Option<Arc<T>>> {
    pub(crate) fn empty() -> Self {
        Swapped::new(None)
    }
}

impl<T> From<Option<Arc<T>>> for Swapped<Option<Arc<T>>> {
    fn from(value: Option<Arc<T>>) -> Self {
        Swapped::new(value)
    }
}
