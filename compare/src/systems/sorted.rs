//! A batch in key order, each id once.
//!
//! Trees and log-structured engines take sorted batches better than shuffled ones, and their
//! documentation says so; the sort is part of the measured time, as it would be in a program.

use crate::ids::Id;

/// A reused buffer of sorted ids.
#[derive(Default)]
pub struct Sorted {
    ids: Vec<Id>,
}

impl Sorted {
    /// The batch's ids in order, without repeats.
    pub fn of(&mut self, ids: &[Id]) -> &[Id] {
        self.ids.clear();
        self.ids.extend_from_slice(ids);
        self.ids.sort_unstable();
        self.ids.dedup();
        &self.ids
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sorts_and_drops_repeats() {
        let mut sorted = Sorted::default();
        assert_eq!(sorted.of(&[[3; 16], [1; 16], [3; 16]]), [[1; 16], [3; 16]]);
        assert_eq!(sorted.of(&[]), [] as [Id; 0]);
    }
}
