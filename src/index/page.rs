//! The sealed form of ids: a page is some 256 records of one run in hash order.
//!
//! A run of N ids is cut in P = max(1, ceil(N / 256)) pages of equal hash range, so the page of
//! a hash is `(hash * P) >> 64`: no search, no index. If the ids carry more than 64 KiB a page
//! (stored results), there are as many more pages: who asks for one id reads a whole page. Within a
//! page each property is a column of its own that vanishes when all records agree, and what few
//! records have stands in a short list beside. Little-endian throughout:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | format: 1 |
//! | 1 | 1 | E, bytes of an id's end: 0 (all ids have one length), 1, 2 or 4 |
//! | 2 | 1 | S, bytes of a stamp's number: 0 (one stamp), 1, 2 or 4 |
//! | 3 | 1 | T, bytes of a time: 0 (all expire at the slice's end) to 8 |
//! | 4 | 4 | C, count of records |
//! | 8 | 4 | E = 0: L, the length of each id, and I = C * L; else I, the bytes of all ids |
//! | 12 | 4 | M, count of stamps |
//! | 16 | 4 | X, count of special records |
//! | 20 | 4 | R, count of rich records |
//! | 24 | 3 M | stamps: scope u16, version u8 |
//! | | E C | end of each id within the ids |
//! | | I | ids, none of them empty |
//! | | T C | how long before the slice's end each record expires, in ms |
//! | | S C | number of each record's stamp |
//! | | 13 X | special: record u32, flags u8 (1 forgotten, 2 over), expiry u64 |
//! | | 8 R | rich: record u32, end u32 of its extras within the extras |
//! | | rest | extras |
//!
//! So a 16-byte id with its time costs 19 bytes in slices up to 4.6 hours, 20 in those up to
//! 49 days, and a page 27 more. Special is what doesn't expire within its slice or isn't plainly
//! seen: it costs 13 bytes and leaves the layout of the others alone.
//!
//! Invariants
//! 1. What [`Page::parse`] accepts can be searched and read without a panic, whatever bytes it
//!    was. It checks no order of hashes and no checksum: the engine's blocks have one.
//! 2. Equal hashes stand side by side, and the lookup compares scope and id with all of them.
//! 3. A page reads the same in every release that knows its format byte.
//!
//! Concurrency: a builder has one owner; a page is a view of borrowed bytes. Failure: damage is
//! an error of `parse`, never an absent id.
//!
//! Why not one key an id: 31 bytes, 80 ns to write and 2–6 µs to find. Why not a row per record
//! in mixed pages: one overwritten id in a page would cost all its neighbours a third more.

use super::record::{Meta, Slice, Stamp};
use std::fmt;

pub(crate) use build::PageBuilder;
pub(crate) use read::Page;

mod build;
mod read;
#[cfg(test)]
mod tests;

const IDS_PER_PAGE: u64 = 256;
/// Bytes of extras a page has on average, at most.
const EXTRAS_PER_PAGE: u64 = 64 << 10;
const FORMAT: u8 = 1;
const HEAD_BYTES: usize = 24;
const STAMP_BYTES: usize = 3;
const SPECIAL_BYTES: usize = 13;
const RICH_BYTES: usize = 8;
const FORGOTTEN: u8 = 1;
const OVER: u8 = 2;

/// Why bytes are no page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageDamage(&'static str);

impl fmt::Display for PageDamage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "damaged page: {}", self.0)
    }
}

impl std::error::Error for PageDamage {}

/// One record of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageRecord<'a> {
    pub(crate) meta: Meta,
    pub(crate) id: &'a [u8],
    pub(crate) extras: Option<&'a [u8]>,
}

/// Pages of a run of `ids` ids with so many bytes of extras.
#[inline]
pub(crate) fn pages_for(ids: u64, extras_bytes: u64) -> u32 {
    let pages = ids.div_ceil(IDS_PER_PAGE);
    u32::try_from(pages.max(extras_bytes.div_ceil(EXTRAS_PER_PAGE)))
        .unwrap_or(u32::MAX)
        .max(1)
}

/// The page of a hash in a run of `pages` pages.
#[inline]
pub(crate) fn page_of(hash: u64, pages: u32) -> u32 {
    ((u128::from(hash) * u128::from(pages)) >> 64) as u32
}

/// Fewest bytes that hold `value`.
fn bytes_for(value: u64) -> usize {
    (u64::BITS - value.leading_zeros()).div_ceil(8) as usize
}
