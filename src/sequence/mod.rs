//! Producer sequences: what is known of each producer's numbers, in constant space.
//!
//! | file | what |
//! | --- | --- |
//! | `window` | one producer: epoch, high-water mark, and a bit for each of the last numbers |
//! | `row` | a producer as it is stored |
//! | `known` | the producers of one space in memory, bounded; which one goes first |
//!
//! # Invariants
//! - S1. A number is told to be a duplicate only if it was recorded. What slid out of the window
//!   unseen is unknown for ever after, and is said to be so.
//! - S2. Memory and store agree: both change under the producer's lock, memory after the write.
//! - S3. The producer that goes first is the one that recorded something longest ago, by the time
//!   in its row; so a reopening changes nothing about who goes next.

mod known;
mod row;
mod window;

pub(crate) use known::{Known, Space};
pub(crate) use row::{decode, encode, key, key_prefix, split_key};
pub(crate) use window::{Place, Window};
