//! Workloads of the index model: who calls what, and how much may happen meanwhile.
//!
//! Each is the smallest found in which certain rules matter; all of them are explored to the end.

use super::super::rules::Rules;
use super::record::Class;

/// One call.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Check and insert, with a mutation.
    See(usize, Class),
    /// Take for long work.
    Claim(usize),
    /// Finish a claim: seen from now on.
    Complete(usize, Class),
    /// Make first seen again.
    Forget(usize),
}

impl Op {
    /// The id it is about.
    pub(super) fn id(self) -> usize {
        match self {
            Op::See(id, _) | Op::Claim(id) | Op::Complete(id, _) | Op::Forget(id) => id,
        }
    }
}

/// Programs and bounds.
#[derive(Clone, Copy)]
pub(crate) struct Workload {
    /// For the report.
    pub(crate) name: &'static str,
    /// What each caller does, one call after another.
    pub(super) programs: &'static [&'static [Op]],
    /// Every call is `Synced`, else `Written`.
    pub(super) synced: bool,
    /// How often the current segment may rotate.
    pub(super) rotations: u8,
    /// How often the store may crash.
    pub(super) crashes: u8,
    /// A crash is a power failure, else a kill.
    pub(super) power: bool,
    /// The last tick of the clock.
    pub(super) time_max: u8,
    /// How many merges there may be.
    pub(super) merges: u8,
    /// The mark may be renewed at any time, beside seals and drops.
    pub(super) renews: bool,
    /// Reads of generations may fail.
    pub(super) read_errors: bool,
    /// The rules in force.
    pub(crate) rules: Rules,
}

const A: usize = 0;
const B: usize = 1;

impl Workload {
    /// The same workload under other rules.
    pub(crate) fn under(self, rules: Rules) -> Self {
        Self { rules, ..self }
    }
}

const QUIET: Workload = Workload {
    name: "",
    programs: &[],
    synced: false,
    rotations: 1,
    crashes: 0,
    power: false,
    time_max: 0,
    merges: 0,
    renews: false,
    read_errors: false,
    rules: Rules::ALL,
};

/// Two callers with one id, rotations and seals between them, one kill.
pub(crate) const RACE: Workload = Workload {
    name: "race",
    programs: &[
        &[Op::See(A, Class::Long)],
        &[Op::See(A, Class::Long), Op::See(B, Class::Short)],
    ],
    rotations: 2,
    crashes: 1,
    time_max: 1,
    ..QUIET
};

/// Forgetting, by one caller, what another sees, in one segment or several.
pub(crate) const FORGET: Workload = Workload {
    name: "forget",
    programs: &[
        &[Op::See(A, Class::Long), Op::Forget(A)],
        &[Op::See(A, Class::Short)],
    ],
    rotations: 2,
    crashes: 1,
    time_max: 1,
    ..QUIET
};

/// A power failure among commits and seals.
pub(crate) const LEVELS: Workload = Workload {
    name: "levels",
    programs: &[&[Op::See(A, Class::Long)], &[Op::See(B, Class::Long)]],
    rotations: 2,
    crashes: 1,
    power: true,
    time_max: 0,
    ..QUIET
};

/// An id that expires and is first seen again, with retentions that place it lower.
pub(crate) const TAKEOVER: Workload = Workload {
    name: "takeover",
    programs: &[&[
        Op::See(A, Class::Long),
        Op::See(A, Class::Short),
        Op::Forget(A),
    ]],
    rotations: 2,
    crashes: 2,
    time_max: 3,
    ..QUIET
};

/// A claim taken over an expired record, and somebody else who asks.
pub(crate) const CLAIM: Workload = Workload {
    name: "claim",
    programs: &[
        &[
            Op::See(A, Class::Long),
            Op::Claim(A),
            Op::Complete(A, Class::Short),
        ],
        &[Op::See(A, Class::Short)],
    ],
    rotations: 2,
    crashes: 1,
    time_max: 3,
    ..QUIET
};

/// Removal by time, a power failure, and a clock that comes back lower.
pub(crate) const CLOCK: Workload = Workload {
    name: "clock",
    programs: &[&[Op::See(A, Class::Long), Op::See(A, Class::Short)]],
    rotations: 2,
    crashes: 1,
    power: true,
    time_max: 3,
    renews: true,
    ..QUIET
};

/// Chains of forgetting that leave one record on top of several, and merges.
pub(crate) const MERGE: Workload = Workload {
    name: "merge",
    programs: &[&[
        Op::See(A, Class::Long),
        Op::Forget(A),
        Op::See(A, Class::Ever),
        Op::Forget(A),
        Op::See(A, Class::Short),
    ]],
    rotations: 2,
    time_max: 2,
    merges: 1,
    ..QUIET
};

/// Generations that end and go, with records for them still unsealed.
pub(crate) const DROP: Workload = Workload {
    name: "drop",
    programs: &[&[
        Op::See(A, Class::Short),
        Op::Forget(A),
        Op::See(A, Class::Long),
    ]],
    rotations: 2,
    crashes: 1,
    time_max: 3,
    ..QUIET
};

/// A merge that removes what has expired, and a crash before its inputs are gone.
pub(crate) const STRAY: Workload = Workload {
    name: "stray",
    programs: &[&[
        Op::See(B, Class::Long),
        Op::See(A, Class::Long),
        Op::See(A, Class::Short),
    ]],
    rotations: 2,
    crashes: 1,
    time_max: 2,
    merges: 1,
    renews: true,
    ..QUIET
};

/// Reads that fail, before and after an id is sealed.
pub(crate) const READ: Workload = Workload {
    name: "read",
    programs: &[
        &[Op::See(A, Class::Long)],
        &[Op::See(A, Class::Short), Op::Forget(A)],
    ],
    time_max: 1,
    read_errors: true,
    ..QUIET
};

/// All of them.
pub(crate) const ALL: &[Workload] = &[
    RACE, FORGET, LEVELS, TAKEOVER, CLAIM, CLOCK, MERGE, DROP, STRAY, READ,
];
