//! How large tables get their memory, and hints about what is read soon.
//!
//! A table that is probed at random pays for a miss twice: for the line and for the page walk
//! (in a virtual machine the walk is most of it). So its memory is asked for as huge pages,
//! zeroed by the system as it is touched, and batches ask for their lines ahead, so that the
//! misses overlap.
//!
//! Invariants
//! 1. A hint never changes what the program computes, and never faults.
//!
//! Concurrency: none. Failure: memory that is not to be had is an error, not the end of the
//! process; where the target lacks a hint, the code is right, only slower.

use std::alloc::{Layout, alloc_zeroed};
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::atomic::AtomicU64;

use crate::error::{Error, ErrorKind, Result};

/// A type for which all zero bits are a value.
///
/// # Safety
/// The implementor vouches for that.
pub(crate) unsafe trait Zeroable {}

// SAFETY: an atomic has the layout of its integer, and 0 is an integer.
unsafe impl Zeroable for AtomicU64 {}

const PAGE: usize = 4096;
const HUGE: usize = 2 << 20;
/// Smaller tables stay within reach of ordinary pages.
const HUGE_BYTES_MIN: usize = HUGE / 2;

/// A table of values that begins on a huge page, if it is large.
#[derive(Debug)]
pub(crate) struct Table<T> {
    memory: Box<[T]>,
    range: Range<usize>,
}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        &self.memory[self.range.clone()]
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.range.clone()]
    }
}

impl<T: PartialEq> PartialEq for Table<T> {
    fn eq(&self, other: &Table<T>) -> bool {
        **self == **other
    }
}

impl<T: Eq> Eq for Table<T> {}

/// So many zeroes, on huge pages where the system has them.
///
/// # Errors
/// `Busy` if the system has not so much memory for this process now.
pub(crate) fn zeroed<T: Zeroable>(count: usize) -> Result<Table<T>> {
    let is_large = count * size_of::<T>() >= HUGE_BYTES_MIN;
    // Untouched memory costs nothing: room to begin and to end on a huge page.
    let spare = if is_large {
        2 * HUGE / size_of::<T>()
    } else {
        0
    };
    let mut memory = allocate::<T>(count + spare)?;
    let start = memory.as_ptr().align_offset(HUGE).min(spare / 2);
    if is_large {
        huge_pages(&mut memory[start..]);
    }
    Ok(Table {
        memory,
        range: start..start + count,
    })
}

/// Zeroes from the system, without the abort of the usual ways when there are none.
fn allocate<T: Zeroable>(count: usize) -> Result<Box<[T]>> {
    let none = || {
        let bytes = count.saturating_mul(size_of::<T>());
        let text = format!("the system has no {bytes} bytes of memory for a table");
        Error::new(ErrorKind::Busy, text)
    };
    let layout = Layout::array::<T>(count).map_err(|_| none())?;
    if layout.size() == 0 {
        return Ok(Box::default());
    }
    // SAFETY: the layout is not empty. The memory is that of `count` values whose bits are all
    // zero, which is a value of a `Zeroable` type, and the box frees it by the same layout.
    unsafe {
        let start = NonNull::new(alloc_zeroed(layout).cast::<T>()).ok_or_else(none)?;
        let all = std::ptr::slice_from_raw_parts_mut(start.as_ptr(), count);
        Ok(Box::from_raw(all))
    }
}

/// Makes room in a list for so many values in all.
///
/// # Errors
/// As [`zeroed`].
pub(crate) fn reserve<T>(list: &mut Vec<T>, count: usize) -> Result<()> {
    let more = count.saturating_sub(list.len());
    list.try_reserve_exact(more)
        .map_err(|e| Error::new(ErrorKind::Busy, format!("no memory for a list: {e}")))
}

#[cfg(target_os = "linux")]
fn huge_pages<T>(memory: &mut [T]) {
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    let len = size_of_val(memory).saturating_sub(skipped) & !(PAGE - 1);
    if len == 0 {
        return;
    }
    // SAFETY: the range lies within `memory`, starts at a page and is whole pages long; the
    // advice changes neither the contents nor the mapping.
    let advised = unsafe {
        let from = start.add(skipped).cast();
        rustix::mm::madvise(from, len, rustix::mm::Advice::LinuxHugepage)
    };
    // A system without them is only slower.
    let _ = advised;
}

#[cfg(not(target_os = "linux"))]
fn huge_pages<T>(_: &mut [T]) {}

/// Asks for the cache line where `place` begins.
#[inline(always)]
pub(crate) fn prefetch<T>(place: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the instruction is in the base set of x86_64 (SSE), reads no memory as far as
        // the program can see, and faults for no address; this one comes from a live reference.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(place).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = place;
}

/// Asks for the line of `all[index]`; an index out of range asks for nothing.
#[inline(always)]
pub(crate) fn prefetch_at<T>(all: &[T], index: usize) {
    if let Some(place) = all.get(index) {
        prefetch(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_change_nothing_and_accept_any_index() {
        let all = [1u64, 2, 3];
        prefetch(&all);
        for i in [0, 2, 3, usize::MAX] {
            prefetch_at(&all, i);
        }
        assert_eq!(all, [1, 2, 3]);
    }

    #[test]
    fn memory_that_is_not_to_be_had_is_an_error() {
        for count in [usize::MAX / 64, usize::MAX / 2] {
            let error = zeroed::<AtomicU64>(count).expect_err("nobody has so much");
            assert_eq!(error.kind(), ErrorKind::Busy);
            assert!(error.to_string().contains("memory"), "{error}");
        }
        let mut list: Vec<u64> = vec![1];
        assert!(reserve(&mut list, usize::MAX / 16).is_err());
        assert!(reserve(&mut list, 100).is_ok() && list == [1]);
    }

    #[test]
    fn small_and_large_memory_is_zero() {
        for count in [0, 1, 1 << 20] {
            let memory = zeroed::<AtomicU64>(count).expect("there is memory");
            assert_eq!(memory.len(), count);
            assert!(
                memory
                    .iter()
                    .all(|w| w.load(std::sync::atomic::Ordering::Relaxed) == 0)
            );
        }
    }
}
