//! Options of prepared transactions: how many there may be, and how long their ends are known.

use std::time::Duration;

use crate::clock::millis;

use super::Options;

/// What bounds prepared transactions, and the memory of ended ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DoubtLimits {
    pub(crate) count_max: usize,
    pub(crate) bytes_max: u64,
    pub(crate) txn_bytes_max: usize,
    pub(crate) ended_max: usize,
    pub(crate) ended_ms: u64,
}

impl Default for DoubtLimits {
    fn default() -> DoubtLimits {
        DoubtLimits {
            count_max: 1_000,
            bytes_max: 256 << 20,
            txn_bytes_max: 256,
            ended_max: 10_000,
            ended_ms: millis(Duration::from_secs(7 * 86_400)),
        }
    }
}

impl Options {
    /// The most transactions that may be prepared ([`Batch::prepare`](crate::Batch::prepare)) at a
    /// time; beyond it a prepare is `Full`. Those that an open finds are kept in any case.
    /// Default: 1,000.
    pub fn prepared_max(mut self, transactions: usize) -> Options {
        self.doubts.count_max = transactions;
        self
    }

    /// The most bytes that prepared transactions may take on disk, all together: their names, ids
    /// and writes. Beyond it a prepare is `Full`. In memory one takes 8 bytes for each id and each
    /// guarded row. Default: 256 MiB.
    pub fn prepared_bytes_max(mut self, bytes: u64) -> Options {
        self.doubts.bytes_max = bytes;
        self
    }

    /// The longest name of a transaction, in bytes; 1 to 4,096, default 256.
    pub fn txn_bytes_max(mut self, bytes: usize) -> Options {
        self.doubts.txn_bytes_max = bytes;
        self
    }

    /// Of how many transactions it is remembered that they ended, and how, so that
    /// [`Store::commit_prepared`](crate::Store::commit_prepared) may be called again; the oldest
    /// go first. Each takes some 100 bytes of memory and disk. 1 or more, default 10,000.
    pub fn outcomes_max(mut self, transactions: usize) -> Options {
        self.doubts.ended_max = transactions;
        self
    }

    /// How long at most the end of a transaction is remembered. Longer than its coordinator may
    /// take to ask again. Default: 7 days.
    pub fn outcomes_for(mut self, time: Duration) -> Options {
        self.doubts.ended_ms = millis(time);
        self
    }

    pub(super) fn check_doubts(&self, check: &mut impl FnMut(bool, &str)) {
        let limits = &self.doubts;
        check(limits.count_max >= 1, "prepared_max must be 1 or more");
        check(
            limits.bytes_max >= 1024,
            "prepared_bytes_max must be 1,024 or more",
        );
        check(
            (1..=4096).contains(&limits.txn_bytes_max),
            "txn_bytes_max must be 1 to 4,096",
        );
        check(limits.ended_max >= 1, "outcomes_max must be 1 or more");
        check(limits.ended_ms >= 1, "outcomes_for must be 1 ms or more");
    }
}
