//! The front tier: what answers from memory before any page is read.

mod filter;

pub(crate) use filter::{Filter, Lines, Mask};
