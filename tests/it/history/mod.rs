//! Histories of concurrent calls, and what they must not show.
//!
//! Threads record each call with a stamp when it is made and one when it returns, of one shared
//! counter, and the store's time at both moments. [`check`] then asks of every id whether the
//! answers can be put in one order: each call somewhere between its two stamps, each span
//! (from a first sight to its expiry, to a forget, or to a crash that may take it) begun by
//! exactly one first seen, each duplicate within a span and telling its first sight. If there is
//! no such order, somebody was first twice, an acknowledged id was lost, or a duplicate came from
//! nowhere. Counters must lie between what was acknowledged before they were read and what was
//! begun by then.
//!
//! The check takes one pass over the stamps; for a given number of threads its time is linear in
//! the number of calls.

mod calls;
mod check;
mod counter;
mod machine;
mod record;

pub(crate) use calls::{Kinds, Target};
pub(crate) use check::{Passed, Wrong, check};
pub(crate) use record::{Answer, Call, History, Log, Read, Recorder, Span};
