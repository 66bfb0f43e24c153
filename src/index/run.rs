//! A run: ids sealed together, in hash order, as pages in a generation's family.
//!
//! ```text
//! key:    order u64 | serial u32 | page u32          (big-endian)
//! value:  a page (`page.rs`); page 0xffffffff is the footer
//! footer: format u8 = 1 | run id 16 bytes | ids u64 | pages u32 | first order u64
//!         and, if it is not 0, the bytes of all extras u64  (LE)
//! ```
//!
//! - R1: within a generation a run that is greater in (order, serial) is the later write. Order
//!   is the segment's number; a merged run takes the highest of its inputs' and a higher serial.
//! - R2: keys of different runs never collide and runs don't overlap, so RocksDB moves files and
//!   merges nothing.
//! - R3: a run whose orders lie within those a greater run covers (first order ..= order) was
//!   merged into it, or sealed anew after a crash: it is a stray and goes at open.
//! - R4: the run id is random, so a filter snapshot that names it belongs to this run and no
//!   other, whatever numbers a restored copy uses again.

use std::sync::Arc;

use crate::engine::{Engine, FinishedRun, RunFile};
use crate::error::{Error, Result};
use crate::front::Filter;
use crate::resources::Resources;
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::sync::{ArcSwapOption, Guard};

use super::page::{PageBuilder, page_of, pages_for};
use super::random;
use super::record::{Meta, Slice};

/// Which run, in the order of writing (R1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunKey {
    pub(crate) order: u64,
    pub(crate) serial: u32,
}

/// The most ids a page of a run has on average, in any release.
const PAGE_IDS_MAX: u64 = 1024;
/// The page number of the footer.
const FOOTER: u32 = u32::MAX;
const FOOTER_BYTES: usize = 1 + 16 + 8 + 4 + 8;
/// A footer that says how large the extras are.
const RICH_FOOTER_BYTES: usize = FOOTER_BYTES + 8;

impl RunKey {
    pub(crate) fn page(self, page: u32) -> [u8; 16] {
        let mut key = [0; 16];
        key[..8].copy_from_slice(&self.order.to_be_bytes());
        key[8..12].copy_from_slice(&self.serial.to_be_bytes());
        key[12..].copy_from_slice(&page.to_be_bytes());
        key
    }

    pub(crate) fn footer(self) -> [u8; 16] {
        self.page(FOOTER)
    }

    /// The run that a key belongs to.
    pub(crate) fn of(key: &[u8]) -> Result<RunKey> {
        let wrong = || Error::damaged("a run's key is not 16 bytes");
        let (order, rest) = key.split_first_chunk::<8>().ok_or_else(wrong)?;
        let (serial, page) = rest.split_first_chunk::<4>().ok_or_else(wrong)?;
        if page.len() != 4 {
            return Err(wrong());
        }
        Ok(RunKey {
            order: u64::from_be_bytes(*order),
            serial: u32::from_be_bytes(*serial),
        })
    }
}

/// What is known of a run without reading its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RunInfo {
    pub(crate) key: RunKey,
    pub(crate) id: [u8; 16],
    pub(crate) ids: u64,
    pub(crate) pages: u32,
    pub(crate) first_order: u64,
    /// Of all its records, for planning the pages of what it is merged into.
    pub(crate) extras_bytes: u64,
}

impl RunInfo {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(RICH_FOOTER_BYTES);
        out.push(1);
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.ids.to_le_bytes());
        out.extend_from_slice(&self.pages.to_le_bytes());
        out.extend_from_slice(&self.first_order.to_le_bytes());
        if self.extras_bytes > 0 {
            out.extend_from_slice(&self.extras_bytes.to_le_bytes());
        }
        out
    }

    pub(crate) fn decode(key: RunKey, bytes: &[u8]) -> Result<RunInfo> {
        let is_rich = bytes.len() == RICH_FOOTER_BYTES;
        if !is_rich && bytes.len() != FOOTER_BYTES || bytes[0] != 1 {
            return Err(Error::damaged("a run's footer is of an unknown format"));
        }
        let mut id = [0; 16];
        id.copy_from_slice(&bytes[1..17]);
        let u64_at = |at: usize| {
            let mut raw = [0; 8];
            raw.copy_from_slice(&bytes[at..at + 8]);
            u64::from_le_bytes(raw)
        };
        let pages = u32::from_le_bytes([bytes[25], bytes[26], bytes[27], bytes[28]]);
        let info = RunInfo {
            key,
            id,
            ids: u64_at(17),
            pages,
            first_order: u64_at(29),
            extras_bytes: if is_rich { u64_at(37) } else { 0 },
        };
        // There is always a next order and a next serial.
        let is_last = key.order == u64::MAX || key.serial == u32::MAX;
        let is_full = info.ids.div_ceil(PAGE_IDS_MAX) > info.pages.into();
        if info.pages == 0
            || info.first_order > key.order
            || is_last
            || is_full
            || is_rich && info.extras_bytes == 0
        {
            return Err(Error::damaged("a run's footer makes no sense"));
        }
        Ok(info)
    }

    /// Whether this run took the other one in (R3).
    pub(crate) fn covers(&self, other: &RunInfo) -> bool {
        self.key > other.key && self.first_order <= other.first_order
    }
}

/// A run that lookups probe.
pub(crate) struct Run {
    pub(crate) info: RunInfo,
    /// Absent: not loaded yet, or given up for memory; then the pages are asked.
    filter: ArcSwapOption<Filter>,
    resources: Resources,
    /// Whether a snapshot of its filter is on disk.
    pub(crate) has_snapshot: AtomicBool,
    /// Set when memory was short, so that nobody builds it again.
    pub(crate) gave_up: AtomicBool,
}

impl Run {
    /// A run without its filter: until one is placed, its pages are asked.
    pub(crate) fn new(info: RunInfo, resources: &Resources) -> Arc<Run> {
        Arc::new(Run {
            info,
            filter: ArcSwapOption::empty(),
            resources: resources.clone(),
            has_snapshot: AtomicBool::new(false),
            gave_up: AtomicBool::new(false),
        })
    }

    pub(crate) fn filter(&self) -> Guard<Option<Arc<Filter>>> {
        self.filter.load()
    }

    /// Puts a filter in place if the budget has room; false if not.
    pub(crate) fn set_filter(&self, filter: &Arc<Filter>) -> bool {
        if !self.resources.shared().filters.take(filter.bytes()) {
            return false;
        }
        let old = self.filter.swap(Some(Arc::clone(filter)));
        self.give_back(old);
        true
    }

    /// Gives its filter up; returns the bytes that came free.
    pub(crate) fn drop_filter(&self) -> usize {
        self.gave_up.store(true, Ordering::Release);
        let old = self.filter.swap(None);
        let bytes = old.as_ref().map_or(0, |f| f.bytes());
        self.give_back(old);
        bytes
    }

    fn give_back(&self, filter: Option<Arc<Filter>>) {
        if let Some(filter) = filter {
            self.resources.shared().filters.give(filter.bytes());
        }
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let filter = self.filter.swap(None);
        self.give_back(filter);
    }
}

/// Bits an id for filters, unless the options say.
const BITS: u32 = 17;

/// An empty filter for so many ids, as a footer or a plan says. A damaged footer may say any
/// number: it is at most a little larger than the whole budget, which is too large to be placed.
pub(super) fn filter_for(
    ids: u64,
    bits_per_id: Option<u32>,
    resources: &Resources,
) -> Result<Filter> {
    let bits_per_id = bits_per_id.unwrap_or(BITS);
    let bits = (resources.shared().filters.limit() as u64).saturating_mul(8);
    let most = (bits / u64::from(bits_per_id.max(1))).saturating_add(1024);
    let ids = usize::try_from(ids.min(most)).unwrap_or(usize::MAX);
    Filter::with_capacity(ids.max(1), bits_per_id)
}

/// Writes one run: records come in hash order, pages go out.
pub(crate) struct RunWriter<'a> {
    file: RunFile<'a>,
    info: RunInfo,
    filter: Option<Filter>,
    page: u32,
    builder: PageBuilder,
    buffer: Vec<u8>,
}

/// A run that was written and can be ingested.
pub(crate) struct WrittenRun {
    pub(crate) info: RunInfo,
    pub(crate) filter: Option<Filter>,
    pub(crate) file: FinishedRun,
}

/// What a run writer starts from.
pub(crate) struct RunPlan {
    pub(crate) slice: Slice,
    pub(crate) width_ms: u64,
    pub(crate) key: RunKey,
    pub(crate) first_order: u64,
    /// At least as many as will be written.
    pub(crate) ids: u64,
    pub(crate) extras_bytes: u64,
    pub(crate) filter_bits: Option<u32>,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn new(
        engine: &'a Engine,
        plan: &RunPlan,
        resources: &Resources,
    ) -> Result<RunWriter<'a>> {
        let id = random()?;
        let name = format!(
            "{:02x}{:016x}.sst",
            plan.slice.class,
            u128::from_le_bytes(id)
        );
        let file = engine.run_file(&name)?;
        let info = RunInfo {
            key: plan.key,
            id,
            ids: 0,
            pages: pages_for(plan.ids, plan.extras_bytes),
            first_order: plan.first_order,
            extras_bytes: 0,
        };
        let filter = (plan.filter_bits != Some(0))
            .then(|| filter_for(plan.ids, plan.filter_bits, resources))
            .transpose()?;
        let builder = PageBuilder::new(plan.slice, plan.width_ms);
        Ok(RunWriter {
            file,
            info,
            filter,
            page: 0,
            builder,
            buffer: Vec::new(),
        })
    }

    /// Adds a record; its hash is no smaller than the last one's.
    pub(crate) fn push(
        &mut self,
        hash: u64,
        meta: &Meta,
        id: &[u8],
        extras: Option<&[u8]>,
    ) -> Result<()> {
        let page = page_of(hash, self.info.pages);
        if page != self.page {
            self.end_page()?;
            self.page = page;
        }
        self.builder.push(meta, id, extras);
        if let Some(filter) = &mut self.filter {
            filter.add(hash);
        }
        self.info.ids += 1;
        self.info.extras_bytes += extras.map_or(0, <[u8]>::len) as u64;
        Ok(())
    }

    fn end_page(&mut self) -> Result<()> {
        if self.builder.len() == 0 {
            return Ok(());
        }
        self.buffer.clear();
        self.builder.finish(&mut self.buffer);
        self.file.put(&self.info.key.page(self.page), &self.buffer)
    }

    /// Ends the file.
    pub(crate) fn finish(mut self) -> Result<WrittenRun> {
        self.end_page()?;
        self.file
            .put(&self.info.key.footer(), &self.info.encode())?;
        let file = self.file.finish()?;
        Ok(WrittenRun {
            info: self.info,
            filter: self.filter,
            file,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_footers_are_golden() {
        let key = RunKey {
            order: 0x0102,
            serial: 3,
        };
        assert_eq!(
            key.page(4),
            [0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4]
        );
        assert_eq!(RunKey::of(&key.footer()).unwrap(), key);
        let info = RunInfo {
            key,
            id: [7; 16],
            ids: 5,
            pages: 1,
            first_order: 2,
            extras_bytes: 0,
        };
        let mut expected = vec![1];
        expected.extend([7; 16]);
        expected.extend([5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(info.encode(), expected);
        assert_eq!(RunInfo::decode(key, &expected).unwrap(), info);
        assert!(RunInfo::decode(key, &expected[1..]).is_err());
        let rich = RunInfo {
            extras_bytes: 0x0102,
            ..info
        };
        let longer = [&expected[..], &[2, 1, 0, 0, 0, 0, 0, 0]].concat();
        assert_eq!(rich.encode(), longer);
        assert_eq!(RunInfo::decode(key, &longer).unwrap(), rich);
        let none = [&expected[..], &[0; 8]].concat();
        assert!(RunInfo::decode(key, &none).is_err(), "one form for one run");
        let crowded = RunInfo { ids: 1025, ..info }.encode();
        assert!(
            RunInfo::decode(key, &crowded).is_err(),
            "more than its pages hold"
        );
        let (order, serial) = (u64::MAX, u32::MAX);
        assert!(RunInfo::decode(RunKey { order, ..key }, &expected).is_err());
        assert!(RunInfo::decode(RunKey { serial, ..key }, &expected).is_err());
        for len in [0, 12, 15, 17] {
            assert!(RunKey::of(&vec![0; len]).is_err(), "{len}");
        }
    }

    #[test]
    fn a_merged_run_covers_its_inputs_and_no_later_one() {
        let run = |first_order, order, serial| RunInfo {
            key: RunKey { order, serial },
            id: [0; 16],
            ids: 1,
            pages: 1,
            first_order,
            extras_bytes: 0,
        };
        let merged = run(2, 4, 1);
        assert!(merged.covers(&run(2, 2, 0)));
        assert!(merged.covers(&run(4, 4, 0)));
        assert!(!merged.covers(&run(1, 1, 0)));
        assert!(!merged.covers(&run(5, 5, 0)));
        assert!(!run(4, 4, 0).covers(&merged));
    }
}
