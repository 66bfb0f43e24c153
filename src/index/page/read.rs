//! Reading pages: checked once when parsed, then searched in place.
//!
//! Invariants
//! 1. After `parse` every column has its length, ids' ends rise and end with the ids, stamps'
//!    numbers are known, and the lists of special and rich records rise: no access can fail.
//! 2. `parse` costs O(1) for pages of one id length and one stamp, and a sweep that compiles to
//!    wide instructions for each column the others have.
//!
//! The search interpolates, since hashes are uniform: some five hashes instead of ten.
//!
//! Concurrency: a view of borrowed bytes. Failure: [`PageDamage`], from `parse` only.

use super::*;
use crate::index::hash::IdHash;
use crate::index::record::{Hit, State};
use std::ops::Range;

/// Probes by interpolation before the search falls back to halving, which always ends soon.
const INTERPOLATIONS: u32 = 8;

/// A parsed page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Page<'a> {
    slice: Slice,
    count: usize,
    /// Length of every id; unused where the ids have ends.
    id_len: usize,
    time_bytes: usize,
    stamps: &'a [[u8; STAMP_BYTES]],
    ends: Column<'a>,
    ids: &'a [u8],
    times: &'a [u8],
    numbers: Column<'a>,
    special: &'a [[u8; SPECIAL_BYTES]],
    rich: &'a [[u8; RICH_BYTES]],
    extras: &'a [u8],
}

impl<'a> Page<'a> {
    /// Checks the bytes of a page of `slice`.
    pub(crate) fn parse(bytes: &'a [u8], slice: Slice) -> Result<Page<'a>, PageDamage> {
        let (head, rest) = bytes
            .split_first_chunk::<HEAD_BYTES>()
            .ok_or(PageDamage("short"))?;
        if head[0] != FORMAT {
            return Err(PageDamage("unknown format"));
        }
        let number = |at: usize| u64::from(le_u32(head, at));
        let (end_bytes, number_bytes, time_bytes) = (head[1], head[2], head[3]);
        let (count, length) = (number(4), number(8));
        if time_bytes > 8 {
            return Err(PageDamage("time width"));
        }
        let mut rest = Rest(rest);
        let stamps = rest.take(number(12), STAMP_BYTES as u64)?;
        let ends = Column::new(end_bytes, rest.take(count, end_bytes.into())?)?;
        let ids = rest.take(if end_bytes == 0 { count } else { 1 }, length)?;
        let times = rest.take(count, time_bytes.into())?;
        let numbers = Column::new(number_bytes, rest.take(count, number_bytes.into())?)?;
        let special = rest.take(number(16), SPECIAL_BYTES as u64)?;
        let rich = rest.take(number(20), RICH_BYTES as u64)?;
        let page = Page {
            slice,
            count: count as usize,
            id_len: length as usize,
            time_bytes: time_bytes.into(),
            stamps: stamps.as_chunks().0,
            ends,
            ids,
            times,
            numbers,
            special: special.as_chunks().0,
            rich: rich.as_chunks().0,
            extras: rest.0,
        };
        page.check()?;
        Ok(page)
    }

    /// Records in the page.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Record `i` of the page. Panics if there is none.
    pub(crate) fn get(&self, i: usize) -> PageRecord<'a> {
        assert!(i < self.count, "record {i} of {}", self.count);
        PageRecord {
            meta: self.meta(i),
            id: self.id(i),
            extras: self.extras(i),
        }
    }

    /// The record of (`scope`, `id`), whose hash is `hash`.
    pub(crate) fn find(&self, ids: &IdHash, hash: u64, scope: u16, id: &[u8]) -> Option<Hit> {
        let near = self.position(ids, hash)?;
        let same_hash = |i: &usize| self.hash(ids, *i) == hash;
        let before = (0..near).rev().take_while(same_hash);
        let after = (near + 1..self.count).take_while(same_hash);
        let i = std::iter::once(near)
            .chain(before)
            .chain(after)
            .find(|i| self.id(*i) == id && self.stamp(*i).scope == scope)?;
        let extras = self.extras(i).map(Box::from);
        Some(Hit {
            meta: self.meta(i),
            placement: self.slice,
            extras,
        })
    }

    /// A record with this hash.
    fn position(&self, ids: &IdHash, hash: u64) -> Option<usize> {
        let (mut low, mut high) = (0, self.count.checked_sub(1)?);
        let (mut low_hash, mut high_hash) = (self.hash(ids, low), self.hash(ids, high));
        let mut interpolations = 0..INTERPOLATIONS;
        loop {
            if hash <= low_hash || hash >= high_hash {
                let edge = if hash == low_hash { low } else { high };
                return (hash == low_hash || hash == high_hash).then_some(edge);
            }
            // Both edges are known and differ: what is sought lies strictly between.
            if high - low < 2 {
                return None;
            }
            let span = (high - low) as u64;
            let guess = if interpolations.next().is_some() {
                let part = u128::from(hash - low_hash) * u128::from(span);
                (part / u128::from(high_hash - low_hash)) as u64
            } else {
                span / 2
            };
            let middle = low + guess.clamp(1, span - 1) as usize;
            let middle_hash = self.hash(ids, middle);
            if middle_hash <= hash {
                (low, low_hash) = (middle, middle_hash);
            } else {
                (high, high_hash) = (middle, middle_hash);
            }
        }
    }

    #[inline]
    fn hash(&self, ids: &IdHash, i: usize) -> u64 {
        ids.of(self.stamp(i).scope, self.id(i))
    }

    #[inline]
    fn id(&self, i: usize) -> &'a [u8] {
        &self.ids[self.id_range(i)]
    }

    #[inline]
    fn id_range(&self, i: usize) -> Range<usize> {
        if let Column::None = self.ends {
            return i * self.id_len..(i + 1) * self.id_len;
        }
        let start = if i == 0 { 0 } else { self.ends.value(i - 1) };
        start as usize..self.ends.value(i) as usize
    }

    #[inline]
    fn stamp(&self, i: usize) -> Stamp {
        let [low, high, version] = self.stamps[self.numbers.value(i) as usize];
        Stamp {
            scope: u16::from_le_bytes([low, high]),
            version,
        }
    }

    fn meta(&self, i: usize) -> Meta {
        let stamp = self.stamp(i);
        if let Ok(at) = self
            .special
            .binary_search_by_key(&(i as u32), |row| le_u32(row, 0))
        {
            let [_, _, _, _, flags, expiry @ ..] = self.special[at];
            let state = if flags & FORGOTTEN == 0 {
                State::Seen
            } else {
                State::Forgotten
            };
            let expiry_ms = u64::from_le_bytes(expiry);
            return Meta {
                stamp,
                state,
                over: flags & OVER != 0,
                expiry_ms,
            };
        }
        let mut early = [0; 8];
        let at = i * self.time_bytes;
        early[..self.time_bytes].copy_from_slice(&self.times[at..at + self.time_bytes]);
        let expiry_ms = self.slice.end_ms.saturating_sub(u64::from_le_bytes(early));
        Meta {
            stamp,
            state: State::Seen,
            over: false,
            expiry_ms,
        }
    }

    fn extras(&self, i: usize) -> Option<&'a [u8]> {
        let at = self
            .rich
            .binary_search_by_key(&(i as u32), |row| le_u32(row, 0))
            .ok()?;
        let start = if at == 0 {
            0
        } else {
            le_u32(&self.rich[at - 1], 4)
        };
        Some(&self.extras[start as usize..le_u32(&self.rich[at], 4) as usize])
    }

    fn check(&self) -> Result<(), PageDamage> {
        let ensure = |holds: bool, what| if holds { Ok(()) } else { Err(PageDamage(what)) };
        if self.count > 0 {
            // Also keeps a damaged count from making a search endless.
            ensure(self.count <= self.ids.len(), "empty ids")?;
            ensure(self.ends.rises_to(self.ids.len()), "ends of ids")?;
            ensure(self.numbers.all_below(self.stamps.len()), "stamps")?;
        }
        ensure(rows_rise(self.special, self.count), "special records")?;
        ensure(
            self.special.iter().all(|row| row[4] <= FORGOTTEN | OVER),
            "special flags",
        )?;
        ensure(rows_rise(self.rich, self.count), "rich records")?;
        ensure(
            self.rich.is_sorted_by_key(|row| le_u32(row, 4)),
            "ends of extras",
        )?;
        let extras_end = self.rich.last().map_or(0, |row| le_u32(row, 4));
        ensure(extras_end as usize == self.extras.len(), "length")
    }
}

/// Whether the rows are of different records in order, all of them among `count`.
fn rows_rise<const N: usize>(rows: &[[u8; N]], count: usize) -> bool {
    let record = |row: &[u8; N]| le_u32(row, 0);
    rows.is_sorted_by(|row, next| record(row) < record(next))
        && rows.last().is_none_or(|row| (record(row) as usize) < count)
}

/// What is left to parse.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    /// The next `count * bytes` bytes.
    fn take(&mut self, count: u64, bytes: u64) -> Result<&'a [u8], PageDamage> {
        // Both are at most 32 bits long, so this can't overflow.
        let len = usize::try_from(count * bytes).map_err(|_| PageDamage("length"))?;
        let (taken, rest) = self.0.split_at_checked(len).ok_or(PageDamage("length"))?;
        self.0 = rest;
        Ok(taken)
    }
}

/// One number for each record, or none where all agree.
#[derive(Clone, Copy, Debug)]
enum Column<'a> {
    None,
    One(&'a [u8]),
    Two(&'a [[u8; 2]]),
    Four(&'a [[u8; 4]]),
}

impl<'a> Column<'a> {
    fn new(width: u8, bytes: &'a [u8]) -> Result<Column<'a>, PageDamage> {
        match width {
            0 => Ok(Column::None),
            1 => Ok(Column::One(bytes)),
            2 => Ok(Column::Two(bytes.as_chunks().0)),
            4 => Ok(Column::Four(bytes.as_chunks().0)),
            _ => Err(PageDamage("column width")),
        }
    }

    #[inline]
    fn value(&self, i: usize) -> u32 {
        match self {
            Column::None => 0,
            Column::One(all) => u32::from(all[i]),
            Column::Two(all) => u32::from(u16::from_le_bytes(all[i])),
            Column::Four(all) => u32::from_le_bytes(all[i]),
        }
    }

    /// Whether each value is above the one before, from 0 on, and the last is `end`; none at all
    /// will do.
    fn rises_to(&self, end: usize) -> bool {
        let rises = match self {
            Column::None => return true,
            Column::One(all) => rises(all, |v| *v),
            Column::Two(all) => rises(all, |v| u16::from_le_bytes(*v)),
            Column::Four(all) => rises(all, |v| u32::from_le_bytes(*v)),
        };
        let ends =
            |count: usize| count > 0 && self.value(0) > 0 && self.value(count - 1) as usize == end;
        rises && ends(self.len())
    }

    fn len(&self) -> usize {
        match self {
            Column::None => 0,
            Column::One(all) => all.len(),
            Column::Two(all) => all.len(),
            Column::Four(all) => all.len(),
        }
    }

    fn all_below(&self, limit: usize) -> bool {
        let highest = match self {
            Column::None => 0,
            Column::One(all) => all.iter().fold(0, |top, v| top.max(*v)).into(),
            Column::Two(all) => all
                .iter()
                .fold(0, |top, v| top.max(u16::from_le_bytes(*v)))
                .into(),
            Column::Four(all) => all.iter().fold(0, |top, v| top.max(u32::from_le_bytes(*v))),
        };
        (highest as usize) < limit
    }
}

/// Whether every value is above the one before. No early exit, so that it is vectorised.
#[inline]
fn rises<V, N: PartialOrd>(all: &[V], number: impl Fn(&V) -> N) -> bool {
    let pairs = all.iter().zip(all.iter().skip(1));
    pairs.fold(true, |rises, (value, next)| {
        rises & (number(next) > number(value))
    })
}

#[inline]
fn le_u32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..]
        .first_chunk()
        .map_or(0, |four| u32::from_le_bytes(*four))
}
