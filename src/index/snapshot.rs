//! Filters: within the memory budget, and as snapshots on disk for a fast open.
//!
//! A snapshot only saves time. It is used only if it names every run of its generation by the
//! run's random id; else the filter is built from the pages again. A run without a filter is
//! asked on disk: a missing filter never means "new" (F1 of the field cases).
//!
//! ```text
//! filters/<family>:  magic "FSs1" | runs u32 | run* | checksum u64    (little-endian)
//! run:               order u64 | serial u32 | run id 16 | bytes u64 | filter
//! ```

use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::engine::failpoint;
use crate::error::Result;
use crate::front::Filter;
use crate::sync::atomic::Ordering;

use super::record::Slice;
use super::run::{Run, RunInfo, RunKey, filter_for};
use super::stream::{Source, Stream};
use super::view::Generation;
use super::{Index, names};

const MAGIC: &[u8; 4] = b"FSs1";
pub(super) const FOLDER: &str = "filters";

pub(super) fn name(slice: Slice) -> String {
    format!("{FOLDER}/{}", names::generation(slice))
}

fn encode(runs: &[(RunInfo, Arc<Filter>)]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
    for (info, filter) in runs {
        out.extend_from_slice(&info.key.order.to_le_bytes());
        out.extend_from_slice(&info.key.serial.to_le_bytes());
        out.extend_from_slice(&info.id);
        let bytes = filter.encode();
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(&bytes);
    }
    let checksum = xxh3_64(&out);
    out.extend_from_slice(&checksum.to_le_bytes());
    out
}

pub(super) type NamedFilter = (RunKey, [u8; 16], Filter);

/// `None` if anything is off.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<NamedFilter>> {
    let (body, checksum) = bytes.split_last_chunk::<8>()?;
    if u64::from_le_bytes(*checksum) != xxh3_64(body) {
        return None;
    }
    let (magic, rest) = body.split_first_chunk::<4>()?;
    let (count, mut rest) = rest.split_first_chunk::<4>()?;
    if magic != MAGIC {
        return None;
    }
    let mut runs = Vec::new();
    for _ in 0..u32::from_le_bytes(*count) {
        let (order, r) = rest.split_first_chunk::<8>()?;
        let (serial, r) = r.split_first_chunk::<4>()?;
        let (id, r) = r.split_first_chunk::<16>()?;
        let (len, r) = r.split_first_chunk::<8>()?;
        let len = usize::try_from(u64::from_le_bytes(*len)).ok()?;
        let (filter, r) = r.split_at_checked(len)?;
        let key = RunKey {
            order: u64::from_le_bytes(*order),
            serial: u32::from_le_bytes(*serial),
        };
        runs.push((key, *id, Filter::decode(filter)?));
        rest = r;
    }
    rest.is_empty().then_some(runs)
}

/// What a snapshot says, and it written again.
#[cfg(feature = "testing")]
pub(super) fn recoded(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let named = decode(bytes)?.into_iter().map(|(key, id, filter)| {
        let info = RunInfo {
            key,
            id,
            ids: filter.ids() as u64,
            pages: 1,
            first_order: key.order,
            extras_bytes: 0,
        };
        (info, Arc::new(filter))
    });
    let runs: Vec<(RunInfo, Arc<Filter>)> = named.collect();
    let shown = runs.iter().map(|(info, _)| format!("{info:?}\n"));
    Some((shown.collect(), encode(&runs)))
}

impl Index {
    /// Writes the snapshot of a generation that no longer grows and is merged no more (Sealing 11).
    pub(super) fn snapshot_filters(&self, generation: &Generation, now: u64) -> Result<()> {
        let closed = now >= self.classes.closes_ms(generation.slice);
        let is_written = |run: &Arc<Run>| run.has_snapshot.load(Ordering::Acquire);
        if !closed || generation.runs.iter().all(is_written) {
            return Ok(());
        }
        let named = generation.runs.iter();
        let named = named.map(|run| Some((run.info, run.filter().clone()?)));
        let Some(named) = named.collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        failpoint!("snapshot::before_write");
        self.engine
            .home()
            .replace(&name(generation.slice), &encode(&named))?;
        for run in &generation.runs {
            run.has_snapshot.store(true, Ordering::Release);
        }
        Ok(())
    }

    /// Whether runs wait for their filters (after an open).
    pub(super) fn filters_are_due(&self, generation: &Generation) -> bool {
        self.limits.filter_bits != Some(0) && generation.runs.iter().any(|r| awaits_filter(r))
    }

    /// Loads or rebuilds the filters that are missing, newest generation first.
    pub(super) fn load_filters(&self) -> Result<()> {
        if self.limits.filter_bits == Some(0) {
            return Ok(());
        }
        let generations = self.view().generations.clone();
        for generation in generations.iter().filter(|g| self.filters_are_due(g)) {
            self.load_snapshot(generation)?;
            for run in generation.runs.iter().filter(|r| awaits_filter(r)) {
                let filter = Arc::new(self.rebuild(generation, run)?);
                Index::count(&self.counts.filters_rebuilt);
                self.place_filter(generation.slice, run, &filter);
            }
        }
        Ok(())
    }

    fn load_snapshot(&self, generation: &Generation) -> Result<()> {
        let file = name(generation.slice);
        let Some(bytes) = self.engine.home().read(&file)? else {
            return Ok(());
        };
        let Some(named) = decode(&bytes) else {
            log::warn!("{file} is damaged; its filter is built again");
            return self.engine.home().remove(&file);
        };
        let bound = |run: &Arc<Run>| {
            named
                .iter()
                .position(|(key, id, _)| *key == run.info.key && *id == run.info.id)
        };
        let found: Option<Vec<usize>> = generation.runs.iter().map(bound).collect();
        let Some(found) = found else { return Ok(()) };
        let mut filters: Vec<Option<Filter>> = named.into_iter().map(|n| Some(n.2)).collect();
        for (run, at) in generation.runs.iter().zip(found) {
            let Some(filter) = filters[at].take() else {
                continue;
            };
            if filter.ids() as u64 != run.info.ids {
                continue;
            }
            self.place_filter(generation.slice, run, &Arc::new(filter));
            run.has_snapshot.store(true, Ordering::Release);
            Index::count(&self.counts.filters_loaded);
        }
        Ok(())
    }

    /// A run's filter from its pages. Every record stands in it, tombstones too.
    fn rebuild(&self, generation: &Generation, run: &Run) -> Result<Filter> {
        let mut filter = filter_for(run.info.ids, self.limits.filter_bits, &self.resources)?;
        let source = Source::run(&generation.family, generation.slice, &run.info);
        let mut stream = Stream::new(self.ids, vec![source])?;
        while let Some(record) = stream.next()? {
            filter.add(record.hash);
        }
        Ok(filter)
    }

    /// Puts a filter in place within the budget. The runs that a merged one replaces give theirs
    /// up for it, then the oldest generations.
    pub(super) fn place_filter(&self, slice: Slice, run: &Run, filter: &Arc<Filter>) {
        let view = self.view();
        let replaced = view.generation(slice).into_iter().flat_map(|g| &g.runs);
        let mut replaced = replaced.filter(|r| run.info.covers(&r.info));
        let oldest = view.generations.iter().rev().filter(|g| g.slice < slice);
        let mut oldest = oldest.flat_map(|g| &g.runs);
        while !run.set_filter(filter) {
            let Some(other) = replaced.next().or_else(|| oldest.next()) else {
                run.gave_up.store(true, Ordering::Release);
                return;
            };
            other.drop_filter();
        }
    }

    /// Runs that still wait for their filter, and all runs.
    pub(crate) fn filters_waiting(&self) -> (usize, usize) {
        let view = self.view();
        let runs = view.generations.iter().flat_map(|g| &g.runs);
        let waiting = runs.clone().filter(|r| awaits_filter(r)).count();
        (
            if self.limits.filter_bits == Some(0) {
                0
            } else {
                waiting
            },
            runs.count(),
        )
    }
}

fn awaits_filter(run: &Run) -> bool {
    run.filter().is_none() && !run.gave_up.load(Ordering::Acquire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_snapshot_reads_back_and_damage_is_noticed() {
        let key = RunKey {
            order: 2,
            serial: 1,
        };
        let info = RunInfo {
            key,
            id: [5; 16],
            ids: 2,
            pages: 1,
            first_order: 1,
            extras_bytes: 0,
        };
        let mut filter = Filter::with_capacity(2, 16).unwrap();
        filter.add(1 << 60);
        filter.add(2 << 60);
        let bytes = encode(&[(info, Arc::new(filter))]);
        assert_eq!(bytes[..8], *b"FSs1\x01\0\0\0");
        let back = decode(&bytes).unwrap();
        assert_eq!((back[0].0, back[0].1, back[0].2.ids()), (key, [5; 16], 2));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert!(decode(&damaged).is_none(), "byte {at}");
            assert!(decode(&bytes[..at]).is_none(), "cut at {at}");
        }
    }
}
