//! Writing pages. One builder serves a whole run and keeps its buffers.
//!
//! Invariants
//! 1. Any records make a page that reads back the same; the layout follows from the records and
//!    the slice alone, so a re-seal writes the same bytes.
//!
//! Concurrency: one owner. Failure: none; the caller keeps a page's ids and extras below 4 GiB
//! each, which the limits on ids and extras do by far.

use super::*;
use crate::index::record::State;

/// Collects the records of one page after another.
pub(crate) struct PageBuilder {
    slice: Slice,
    width_ms: u64,
    ids: Vec<u8>,
    ends: Vec<u32>,
    /// Milliseconds before the slice's end.
    times: Vec<u64>,
    stamps: Vec<Stamp>,
    numbers: Vec<u32>,
    special: Vec<u8>,
    rich: Vec<u8>,
    extras: Vec<u8>,
    same_length: bool,
    /// Number of the last record's stamp: the next one's is mostly the same.
    last: u32,
}

impl PageBuilder {
    /// For pages of this slice, which is `width_ms` wide. What expires outside of the slice is
    /// stored with its whole expiry.
    pub(crate) fn new(slice: Slice, width_ms: u64) -> PageBuilder {
        PageBuilder {
            slice,
            width_ms,
            ids: Vec::new(),
            ends: Vec::new(),
            times: Vec::new(),
            stamps: Vec::new(),
            numbers: Vec::new(),
            special: Vec::new(),
            rich: Vec::new(),
            extras: Vec::new(),
            same_length: true,
            last: 0,
        }
    }

    /// Adds a record. The caller pushes in the order of hashes, and no empty id.
    #[inline]
    pub(crate) fn push(&mut self, meta: &Meta, id: &[u8], extras: Option<&[u8]>) {
        debug_assert!(!id.is_empty(), "an empty id");
        self.ids.extend_from_slice(id);
        let end = self.ids.len() as u32;
        if let [first, ..] = self.ends[..] {
            self.same_length &= id.len() == first as usize;
        }
        self.push_stamp(meta.stamp);
        let early = self.slice.end_ms.wrapping_sub(meta.expiry_ms);
        let inside = early == 0 || meta.expiry_ms < self.slice.end_ms && early < self.width_ms;
        if inside && meta.state == State::Seen && !meta.over {
            self.times.push(early);
        } else {
            self.times.push(0);
            self.push_special(meta);
        }
        if let Some(extras) = extras {
            self.push_extras(extras);
        }
        self.ends.push(end);
    }

    /// Records since the last page.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Appends the page to `out` and starts the next one.
    pub(crate) fn finish(&mut self, out: &mut Vec<u8>) {
        let count = self.ends.len();
        let end_bytes = if self.same_length {
            0
        } else {
            column_bytes(self.ids.len())
        };
        let highest = self.stamps.len().saturating_sub(1);
        let number_bytes = if highest == 0 {
            0
        } else {
            column_bytes(highest)
        };
        let time_bytes = bytes_for(self.times.iter().fold(0, |all, time| all | time));
        out.extend_from_slice(&[FORMAT, end_bytes, number_bytes, time_bytes as u8]);
        let length = if self.same_length {
            self.ids.len() / count.max(1)
        } else {
            self.ids.len()
        };
        let special = self.special.len() / SPECIAL_BYTES;
        let rich = self.rich.len() / RICH_BYTES;
        for number in [count, length, self.stamps.len(), special, rich] {
            out.extend_from_slice(&(number as u32).to_le_bytes());
        }
        for stamp in &self.stamps {
            out.extend_from_slice(&stamp.scope.to_le_bytes());
            out.push(stamp.version);
        }
        put_column(
            out,
            self.ends.iter().map(|end| u64::from(*end)),
            end_bytes.into(),
        );
        out.extend_from_slice(&self.ids);
        put_column(out, self.times.iter().copied(), time_bytes);
        put_column(
            out,
            self.numbers.iter().map(|n| u64::from(*n)),
            number_bytes.into(),
        );
        out.extend_from_slice(&self.special);
        out.extend_from_slice(&self.rich);
        out.extend_from_slice(&self.extras);
        self.clear();
    }

    #[inline]
    fn push_stamp(&mut self, stamp: Stamp) {
        if self.stamps.get(self.last as usize) != Some(&stamp) {
            let known = self.stamps.iter().position(|known| *known == stamp);
            self.last = known.unwrap_or(self.stamps.len()) as u32;
            if known.is_none() {
                self.stamps.push(stamp);
            }
        }
        self.numbers.push(self.last);
    }

    #[cold]
    fn push_special(&mut self, meta: &Meta) {
        let mut flags = if meta.state == State::Forgotten {
            FORGOTTEN
        } else {
            0
        };
        flags |= if meta.over { OVER } else { 0 };
        self.special
            .extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        self.special.push(flags);
        self.special
            .extend_from_slice(&meta.expiry_ms.to_le_bytes());
    }

    fn push_extras(&mut self, extras: &[u8]) {
        self.extras.extend_from_slice(extras);
        self.rich
            .extend_from_slice(&(self.ends.len() as u32).to_le_bytes());
        self.rich
            .extend_from_slice(&(self.extras.len() as u32).to_le_bytes());
    }

    fn clear(&mut self) {
        self.ids.clear();
        self.ends.clear();
        self.times.clear();
        self.stamps.clear();
        self.numbers.clear();
        self.special.clear();
        self.rich.clear();
        self.extras.clear();
        self.same_length = true;
        self.last = 0;
    }
}

/// Width of a column of numbers up to `highest`.
fn column_bytes(highest: usize) -> u8 {
    match highest {
        0..=0xFF => 1,
        0x100..=0xFFFF => 2,
        _ => 4,
    }
}

/// Appends the low `width` bytes of each value.
fn put_column(out: &mut Vec<u8>, values: impl ExactSizeIterator<Item = u64>, width: usize) {
    if width == 0 {
        return;
    }
    let (mut at, end) = (out.len(), out.len() + values.len() * width);
    // Whole words that overlap are faster than copies of a length the compiler doesn't know.
    out.resize(end + 8, 0);
    for value in values {
        out[at..at + 8].copy_from_slice(&value.to_le_bytes());
        at += width;
    }
    out.truncate(end);
}
