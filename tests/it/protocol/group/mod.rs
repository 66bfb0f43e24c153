//! The model of group commit: one queue, one leader, `written` and `durable`, levels, failures.
//!
//! Ids only ever become seen here: no segment, no expiry. What counts is who is told what, when,
//! and whether it survives. A `Synced` answer, first or duplicate, is a promise through a power
//! failure; any answer is one through a kill.
//!
//! `written` and `durable` are commit numbers. A flush starts with what is written at that moment
//! and makes at least that durable; more may be written while it runs, and may not survive.

mod leader;
mod state;
mod workload;

pub(super) use state::State;
pub(super) use workload::{ALL, FAILURE, POWER, Workload};
