//! The writes of a batch, as they are asked for and as a draft keeps them.

use std::ops::{Bound, Range, RangeBounds};

/// A piece of `Draft::bytes`.
pub(crate) type Bytes = Range<u32>;

/// When a write is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// If its item is first seen and no condition refuses it.
    First,
    /// If its item is refused, instead of the others.
    Refused,
    /// Whatever the verdicts; before the item at its position.
    Always,
}

/// A write, and the position of the item it belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) item: u32,
    pub(crate) when: When,
    pub(crate) what: What,
}

#[derive(Clone, Debug)]
pub(crate) enum What {
    /// Records in RocksDB's form, within `Draft::plain`.
    Plain { body: Range<usize>, count: u32 },
    /// A message into an outbox.
    Send { table: u32, payload: Bytes },
    /// A write that takes its row's lock.
    Guarded {
        table: u32,
        key: Bytes,
        op: StoredOp,
    },
}

/// A guarded write with its operands in `Draft::bytes`.
#[derive(Clone, Debug)]
pub(crate) enum StoredOp {
    Put {
        value: Bytes,
    },
    Delete,
    Add {
        by: i64,
        low: i64,
        high: i64,
    },
    Transition {
        from: Bytes,
        to: Bytes,
    },
    CompareAndSet {
        expected: Option<Bytes>,
        value: Bytes,
    },
    CompareVersion {
        expected: Option<u64>,
        value: Bytes,
    },
}

/// A guarded write with its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    Put {
        value: &'a [u8],
    },
    Delete,
    Add {
        by: i64,
        low: i64,
        high: i64,
    },
    Transition {
        from: &'a [u8],
        to: &'a [u8],
    },
    CompareAndSet {
        expected: Option<&'a [u8]>,
        value: &'a [u8],
    },
    CompareVersion {
        expected: Option<u64>,
        value: &'a [u8],
    },
}

impl Op<'_> {
    /// Whether it depends on the row's value, so that a plain table can't take it.
    pub(crate) fn is_conditional(&self) -> bool {
        !matches!(self, Op::Put { .. } | Op::Delete)
    }
}

/// The bounds of a counter, both inclusive.
pub(crate) fn counter_bounds(within: &impl RangeBounds<i64>) -> (i64, i64) {
    let low = match within.start_bound() {
        Bound::Included(n) => *n,
        Bound::Excluded(n) => n.saturating_add(1),
        Bound::Unbounded => i64::MIN,
    };
    let high = match within.end_bound() {
        Bound::Included(n) => *n,
        Bound::Excluded(n) => n.saturating_sub(1),
        Bound::Unbounded => i64::MAX,
    };
    (low, high)
}
