//! What counts, measures and notices, apart from what is counted.
//!
//! | file | what |
//! | --- | --- |
//! | `tally` | verdicts of a scope, by kind, without threads sharing a cache line |
//! | `histogram` | durations, in buckets of a quarter of an octave |
//! | `heavy` | the most frequent names of a stream, in bounded memory |
//! | `window` | the same over the last minutes, for sources and scopes |
//! | `band` | the usual band of a rate, and when it is left |
//!
//! Nothing here is exact in order: a reader may see one counter of a call and not yet another.

mod band;
mod heavy;
mod histogram;
mod tally;
mod window;

pub(crate) use band::{Band, Move};
pub(crate) use heavy::SpaceSaving;
pub(crate) use histogram::Histogram;
pub(crate) use tally::{Counts, DUPLICATE, FIRST, KINDS, OBSERVED, Tally, kind_of};
pub(crate) use window::{Duplicates, TopLimits};
