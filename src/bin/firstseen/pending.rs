//! The rows between two commits: their bytes, and which of them were bad.
//!
//! Ids are not kept here: they go straight into the store's batch, in the same order.

/// A batch is committed early when its rows have this many bytes.
const BYTES_MAX: usize = 8 << 20;

/// Rows read but not committed, in order.
#[derive(Default)]
pub(crate) struct Pending {
    bytes: Vec<u8>,
    rows: Vec<PendingRow>,
    good: usize,
}

struct PendingRow {
    end: usize,
    good: bool,
}

impl Pending {
    /// Adds a row as it came; `good` if its id is in the batch.
    pub(crate) fn push(&mut self, row: &[u8], good: bool) {
        self.bytes.extend_from_slice(row);
        self.rows.push(PendingRow {
            end: self.bytes.len(),
            good,
        });
        self.good += usize::from(good);
    }

    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Whether it is time to commit.
    pub(crate) fn is_full(&self, rows_max: usize) -> bool {
        self.rows.len() >= rows_max || self.bytes.len() >= BYTES_MAX
    }

    /// How many rows have an id in the batch.
    pub(crate) fn good(&self) -> usize {
        self.good
    }

    /// Each row and whether it is good.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&[u8], bool)> {
        let mut start = 0;
        self.rows.iter().map(move |row| {
            let bytes = &self.bytes[start..row.end];
            start = row.end;
            (bytes, row.good)
        })
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
        self.good = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_in_order() {
        let mut pending = Pending::default();
        pending.push(b"a\n", true);
        pending.push(b"bad\n", false);
        pending.push(b"c", true);
        let rows: Vec<_> = pending.iter().collect();
        assert_eq!(rows, [(&b"a\n"[..], true), (b"bad\n", false), (b"c", true)]);
        assert_eq!((pending.len(), pending.good()), (3, 2));
        assert!(pending.is_full(3) && !pending.is_full(4));
        pending.clear();
        assert!(pending.is_empty() && pending.good() == 0);
        pending.push(&vec![b'x'; BYTES_MAX], true);
        assert!(pending.is_full(1000));
    }
}
