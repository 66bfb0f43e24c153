//! Tables in ordinary memory, whose words are the scheduler's. A hint asks for nothing.

use crate::error::Result;
use crate::sync::atomic::AtomicU64;

/// A type that begins as zero.
///
/// # Safety
/// An implementor that keeps `zero` vouches that all zero bits are a value.
pub(crate) unsafe trait Zeroable: Sized {
    fn zero() -> Self {
        // SAFETY: all bits are zero, which the implementor vouches for.
        unsafe { std::mem::zeroed() }
    }
}

// SAFETY: `zero` is made as any other value.
unsafe impl Zeroable for AtomicU64 {
    fn zero() -> AtomicU64 {
        AtomicU64::new(0)
    }
}

/// A table of values.
pub(crate) type Table<T> = Box<[T]>;

#[expect(clippy::unnecessary_wraps, reason = "what it stands in for may fail")]
pub(crate) fn zeroed<T: Zeroable>(count: usize) -> Result<Table<T>> {
    Ok(std::iter::repeat_with(T::zero).take(count).collect())
}

#[expect(clippy::unnecessary_wraps, reason = "what it stands in for may fail")]
pub(crate) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<()> {
    list.reserve(count.saturating_sub(list.len()));
    Ok(())
}

pub(crate) fn prefetch_at<T>(_: &[T], _: usize) {}
