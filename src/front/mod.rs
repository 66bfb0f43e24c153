//! The front tier: what answers from memory before any page is read.

mod ask;
mod filter;
mod sieve;

pub(crate) use ask::Ask;
pub(crate) use filter::{Filter, Lines, Mask};
pub(crate) use sieve::{Mark, Sieve};
