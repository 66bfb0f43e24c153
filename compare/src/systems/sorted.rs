//! A batch in key order, each id once.
//!
//! Trees and log-structured engines take sorted batches better than shuffled ones, and their
//! documentation says so; the sort is part of the measured time, as it would be in a program.

/// The batch's ids in order, without repeats.
pub fn sorted<K: Copy + Ord>(ids: &[K]) -> Vec<K> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Id;

    #[test]
    fn sorts_and_drops_repeats() {
        assert_eq!(sorted(&[[3; 16], [1; 16], [3; 16]]), [[1; 16], [3; 16]]);
        assert_eq!(sorted::<Id>(&[]), [] as [Id; 0]);
        assert_eq!(sorted(&[&b"b"[..], b"a", b"b"]), [&b"a"[..], b"b"]);
    }
}
