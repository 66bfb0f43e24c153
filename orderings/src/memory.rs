//! Tables in ordinary memory, whose words are the checker's. A hint asks for nothing.

use crate::sync::atomic::AtomicU64;

/// A table of words.
pub(crate) type Table<T> = Box<[T]>;

pub(crate) fn zeroed(count: usize) -> Table<AtomicU64> {
    std::iter::repeat_with(|| AtomicU64::new(0))
        .take(count)
        .collect()
}

pub(crate) fn prefetch_at<T>(_: &[T], _: usize) {}
