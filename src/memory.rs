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

use std::sync::atomic::AtomicU64;

/// A type for which all zero bits are a value.
///
/// # Safety
/// The implementor vouches for that.
pub(crate) unsafe trait Zeroable {}

// SAFETY: an atomic has the layout of its integer, and 0 is an integer.
unsafe impl Zeroable for AtomicU64 {}

/// So many zeroes, on huge pages where the system has them.
pub(crate) fn zeroed<T: Zeroable>(count: usize) -> Box<[T]> {
    let memory = Box::<[T]>::new_zeroed_slice(count);
    // SAFETY: all bits are zero, which is a value of a `Zeroable` type.
    let mut memory = unsafe { memory.assume_init() };
    huge_pages(&mut memory);
    memory
}

#[cfg(target_os = "linux")]
fn huge_pages<T>(memory: &mut [T]) {
    const PAGE: usize = 4096;
    const HUGE: usize = 2 << 20;
    let bytes = size_of_val(memory);
    let start = memory.as_mut_ptr().cast::<u8>();
    let skipped = start.align_offset(PAGE);
    if bytes < 2 * HUGE || skipped >= bytes {
        return;
    }
    let len = (bytes - skipped) & !(PAGE - 1);
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
                    .all(|w| w.load(std::sync::atomic::Ordering::Relaxed) == 0)
            );
        }
    }
}
