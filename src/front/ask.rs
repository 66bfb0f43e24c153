//! What filters of every shape are asked: by hash, with bits that are computed once an id.
//!
//! Concurrency and failure: none of its own.

/// A filter that many hashes are asked of.
pub(crate) trait Ask: Copy {
    /// The bits of one id, the same in every filter of this shape.
    type Mask;

    /// The bits of an id.
    fn mask(hash: u64) -> Self::Mask;

    /// Asks for the hash's line.
    fn prefetch(self, hash: u64);

    /// False: certainly never added. `mask` is [`Ask::mask`] of the same hash.
    fn may_contain(self, hash: u64, mask: &Self::Mask) -> bool;
}

/// Which of so many places in a table is the hash's: its high bits choose, so that in hash order
/// the table is passed from front to back.
#[inline]
pub(super) fn place(hash: u64, places: usize) -> usize {
    ((u128::from(hash) * places as u128) >> 64) as usize
}
