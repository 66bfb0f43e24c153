//! The model of the index: holds, views, the gate, sealing, generations, expiry, crashes.
//!
//! Two ids, up to three callers with a fixed program each, one leader, one maintenance job. What
//! it leaves out is modelled next door: group commit and durability levels, the floor, row locks,
//! copies of a store. A commit here has one member, and a call is either `Written` or `Synced`
//! for the whole workload.
//!
//! The truth of an id is what the surviving write-ahead log says last about it, and is kept
//! apart from everything the index does. Each state is held against it: a caller that came now
//! must get the right answer (an *audit*), and so must the callers that are on their way.

mod caller;
mod crash;
mod leader;
mod record;
mod state;
mod upkeep;
mod workload;

pub(super) use state::State;
pub(super) use workload::{
    ALL, CLAIM, CLOCK, DROP, FORGET, LEVELS, MERGE, RACE, READ, STRAY, TAKEOVER, Workload,
};
