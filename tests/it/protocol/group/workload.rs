//! Workloads of group commit.

use super::super::rules::Rules;

/// One call: an id, and whether the caller asked for `Synced`.
#[derive(Clone, Copy)]
pub(crate) struct Call {
    pub(super) id: u8,
    pub(super) synced: bool,
}

/// Programs and bounds.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    pub(crate) name: &'static str,
    pub(super) programs: &'static [&'static [Call]],
    pub(super) crashes: u8,
    pub(super) errors: u8,
    pub(crate) rules: Rules,
}

impl Workload {
    /// The same workload under other rules.
    pub(crate) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

const A: Call = Call {
    id: 0,
    synced: false,
};
const A_SYNCED: Call = Call {
    id: 0,
    synced: true,
};
const B: Call = Call {
    id: 1,
    synced: false,
};
const B_SYNCED: Call = Call {
    id: 1,
    synced: true,
};

/// Originals and duplicates at both levels, power failures.
pub(crate) const POWER: Workload = Workload {
    name: "power",
    programs: &[&[A, B_SYNCED], &[A_SYNCED], &[B, A_SYNCED]],
    crashes: 2,
    errors: 0,
    rules: Rules::ALL,
};

/// Writes that fail, with their record in the log or not.
pub(crate) const FAILURE: Workload = Workload {
    name: "failure",
    programs: &[&[A], &[B_SYNCED, A], &[A_SYNCED]],
    crashes: 2,
    errors: 1,
    rules: Rules::ALL,
};

/// Both.
pub(crate) const ALL: &[Workload] = &[POWER, FAILURE];
