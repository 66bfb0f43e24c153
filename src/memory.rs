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
//! Concurrency: none. Failure: none; where the target lacks a hint, the code is right, only
//! slower.

use std::ops::{Deref, DerefMut, Range};

use crate::sync::atomic::AtomicU64;

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
pub(crate) fn zeroed<T: Zeroable>(count: usize) -> Table<T> {
    let is_large = count * size_of::<T>() >= HUGE_BYTES_MIN;
    // Untouched memory costs nothing: room to begin and to end on a huge page.
    let spare = if is_large {
        2 * HUGE / size_of::<T>()
    } else {
        0
    };
    let memory = Box::<[T]>::new_zeroed_slice(count + spare);
    // SAFETY: all bits are zero, which is a value of a `Zeroable` type.
    let mut memory = unsafe { memory.assume_init() };
    let start = memory.as_ptr().align_offset(HUGE).min(spare / 2);
    if is_large {
        huge_pages(&mut memory[start..]);
    }
    Table {
        memory,
        range: start..start + count,
    }
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
    fn small_and_large_memory_is_zero() {
        for count in [0, 1, 1 << 20] {
            let memory = zeroed::<AtomicU64>(count);
            assert_eq!(memory.len(), count);
            assert!(
                memory
                    .iter()
                    .all(|w| w.load(crate::sync::atomic::Ordering::Relaxed) == 0)
            );
        }
    }
}
