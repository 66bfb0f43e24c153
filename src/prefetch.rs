//! Cache hints: ask for a line now that is read some hundred instructions later.
//!
//! Invariants
//! 1. A hint never changes what the program computes, and never faults.
//!
//! Batches hash all their ids first and prefetch slot and filter lines for all of them, so that
//! the misses overlap; that is worth a factor of three. Where the target has no stable
//! intrinsic the hint is nothing, and the code is right, only slower.
//!
//! Concurrency: none. Failure: none. Why not a crate: it is one instruction.

/// Asks for the cache line where `place` begins.
#[inline(always)]
pub(crate) fn read<T>(place: &T) {
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
pub(crate) fn index<T>(all: &[T], index: usize) {
    if let Some(place) = all.get(index) {
        read(place);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn hints_change_nothing_and_accept_any_index() {
        let all = [1u64, 2, 3];
        super::read(&all);
        for i in [0, 2, 3, usize::MAX] {
            super::index(&all, i);
        }
        assert_eq!(all, [1, 2, 3]);
    }
}
