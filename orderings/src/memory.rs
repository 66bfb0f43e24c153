//! Tables in ordinary memory, whose words are the checker's. A hint asks for nothing.

use crate::error::Result;
use crate::sync::atomic::AtomicU64;

/// A table of words.
pub(crate) type Table<T> = Box<[T]>;

#[expect(clippy::unnecessary_wraps, reason = "what it stands in for may fail")]
pub(crate) fn zeroed(count: usize) -> Result<Table<AtomicU64>> {
    let words = std::iter::repeat_with(|| AtomicU64::new(0));
    Ok(words.take(count).collect())
}

pub(crate) fn prefetch_at<T>(_: &[T], _: usize) {}
