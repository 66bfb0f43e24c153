//! How large tables get their memory, and hints about what is read soon.
//!
//! A table that is probed at random pays for a miss twice: for the line and for the page walk
//! (in a virtual machine the walk is most of it). So its memory is asked for as huge pages,
//! zeroed by the system as it is touched, and batches ask for their lines ahead, so that the
//! misses overlap.
//!
//! Why not from the allocator: it hands out again what was freed, and zeroes it by hand on the
//! small pages that it has; measured, probing a filter there takes
//! half as long again.
//!
//! Invariants
//! 1. A hint never changes what the program computes, and never faults.
//!
//! Concurrency: none. Failure: memory that is not to be had is an error, not the end of the
//! process; where the target lacks a hint, the code is right, only slower.

use std::alloc::{Layout, alloc_zeroed};
use std::ffi::c_void;
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::slice;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::AtomicU64;

/// A type for which all zero bits are a value.
///
/// # Safety
/// The implementor vouches for that, and that its values need no drop.
pub(crate) unsafe trait Zeroable {}

// SAFETY: an atomic has the layout of its integer, and 0 is an integer.
unsafe impl Zeroable for AtomicU64 {}

const HUGE: usize = 2 << 20;
/// Smaller tables stay within reach of ordinary pages.
const HUGE_BYTES_MIN: usize = HUGE / 2;

/// A table of values that begins on a huge page, if it is large.
pub(crate) struct Table<T> {
    start: NonNull<T>,
    count: usize,
    home: Home,
}

/// Where a table's values lie.
enum Home {
    /// In a box of their own.
    Boxed,
    /// In pages of their own: where they begin, and how many bytes they have.
    Mapped(NonNull<c_void>, usize),
}

// SAFETY: it owns its values like a box, and hands them out by its own borrows only.
unsafe impl<T: Send> Send for Table<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Table<T> {}

impl<T> Deref for Table<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: `zeroed` made `count` values at `start`, which this table owns.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Table<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`, and `self` is borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

impl<T> Drop for Table<T> {
    fn drop(&mut self) {
        match self.home {
            Home::Boxed => {
                let values = std::ptr::slice_from_raw_parts_mut(self.start.as_ptr(), self.count);
                // SAFETY: `zeroed` took it from a box of that length, and nobody else does.
                drop(unsafe { Box::from_raw(values) });
            }
            // The values need no drop: they are plain words.
            Home::Mapped(start, len) => unmap(start, len),
        }
    }
}

impl<T: fmt::Debug> fmt::Debug for Table<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
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
    let bytes = count.saturating_mul(size_of::<T>());
    if bytes >= HUGE_BYTES_MIN
        && let Some((start, home)) = mapped(bytes)
    {
        let start = start.cast();
        return Ok(Table { start, count, home });
    }
    Ok(Table {
        // A box gives its pointer away only once; from here on the table owns it.
        start: NonNull::from(Box::leak(allocate::<T>(count)?)).cast(),
        count,
        home: Home::Boxed,
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

/// Fresh zero bytes that begin on a huge page. None if the system has none to give: the
/// allocator then says so in its own way.
#[cfg(unix)]
fn mapped(bytes: usize) -> Option<(NonNull<c_void>, Home)> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    // Untouched memory costs nothing: room to begin and to end on a huge page.
    let len = bytes.checked_next_multiple_of(HUGE)?.checked_add(HUGE)?;
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new private mapping at a place of the system's choice overlaps nothing.
    let whole = unsafe { mmap_anonymous(std::ptr::null_mut(), len, access, MapFlags::PRIVATE) };
    let whole = NonNull::new(whole.ok()?)?;
    let skipped = whole.cast::<u8>().align_offset(HUGE);
    // SAFETY: less than one huge page is skipped, and the mapping has one to spare.
    let start = unsafe { whole.byte_add(skipped) };
    huge_pages(start, len - HUGE);
    Some((start, Home::Mapped(whole, len)))
}

#[cfg(not(unix))]
fn mapped(_: usize) -> Option<(NonNull<c_void>, Home)> {
    None
}

#[cfg(unix)]
fn unmap(start: NonNull<c_void>, len: usize) {
    // SAFETY: `mapped` made it, its table is the only owner, and it is being dropped.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr(), len) };
    debug_assert!(unmapped.is_ok(), "a mapping of our own can be unmapped");
}

#[cfg(not(unix))]
fn unmap(_: NonNull<c_void>, _: usize) {}

/// Before the first touch: what is touched already stays on small pages.
#[cfg(target_os = "linux")]
fn huge_pages(start: NonNull<c_void>, len: usize) {
    // SAFETY: the range is whole pages of a mapping of our own; the advice changes neither the
    // contents nor the mapping.
    let advised =
        unsafe { rustix::mm::madvise(start.as_ptr(), len, rustix::mm::Advice::LinuxHugepage) };
    // A system without them is only slower.
    let _ = advised;
}

#[cfg(all(unix, not(target_os = "linux")))]
fn huge_pages(_: NonNull<c_void>, _: usize) {}

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
                    .all(|w| w.load(crate::sync::atomic::Ordering::Relaxed) == 0)
            );
        }
    }
}
