//! The business side in the order of the store's ids, in bounded memory.
//!
//! Rows are gathered up to a bound, sorted and spilled as a run. [`WIDTH`] runs of a size become
//! one of the next, so that open files and a row's rewrites grow with the logarithm of the whole;
//! what is left at the end is merged while it is read.
//!
//! Why not a crate: the order is the store's keyed hash, the files must be nameless, checked and
//! keep a reserve free, and the library's users get no dependency for a merge of 100 lines.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use crate::error::{Error, Result};
use crate::index::Fingerprint;

use super::spill::{Place, Spill, SpillReader, SpillWriter};

const TIME: u8 = 1;
const PRINT: u8 = 2;
/// Runs that become one.
const WIDTH: usize = 16;
/// What a row takes beside its id: itself and its allocation.
const ROW_BYTES: usize = size_of::<Row>() + 16;

/// A row of the business side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) hash: u64,
    pub(super) id: Box<[u8]>,
    pub(super) at_ms: Option<u64>,
    /// Of the message's payload, if the business side has it.
    pub(super) print: Option<Fingerprint>,
}

impl Row {
    /// hash u64 LE | flags u8: 1 a time, 2 a fingerprint | time u64 LE | fingerprint | id.
    fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        out.extend_from_slice(&self.hash.to_le_bytes());
        let flags = [(self.at_ms.is_some(), TIME), (self.print.is_some(), PRINT)];
        out.push(flags.iter().map(|(is, flag)| u8::from(*is) * flag).sum());
        if let Some(ms) = self.at_ms {
            out.extend_from_slice(&ms.to_le_bytes());
        }
        out.extend_from_slice(self.print.as_ref().map_or(&[], |print| &print[..]));
        out.extend_from_slice(&self.id);
    }

    fn decode(bytes: &[u8]) -> Option<Row> {
        let (hash, rest) = bytes.split_first_chunk::<8>()?;
        let (flags, mut rest) = rest.split_first()?;
        let (mut at_ms, mut print) = (None, None);
        if flags & TIME != 0 {
            let (ms, after) = rest.split_first_chunk::<8>()?;
            (at_ms, rest) = (Some(u64::from_le_bytes(*ms)), after);
        }
        if flags & PRINT != 0 {
            let (bytes, after) = rest.split_first_chunk::<16>()?;
            (print, rest) = (Some(*bytes), after);
        }
        Some(Row {
            hash: u64::from_le_bytes(*hash),
            id: rest.into(),
            at_ms,
            print,
        })
    }
}

impl Ord for Row {
    fn cmp(&self, other: &Row) -> Ordering {
        let key = |row: &Row| (row.hash, row.at_ms, row.print);
        let id = || self.id.cmp(&other.id);
        let (mine, others) = (key(self), key(other));
        mine.0
            .cmp(&others.0)
            .then_with(id)
            .then_with(|| mine.cmp(&others))
    }
}

impl PartialOrd for Row {
    fn partial_cmp(&self, other: &Row) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Rows on their way into order.
pub(super) struct Sorter {
    place: Place,
    bytes_max: usize,
    rows: Vec<Row>,
    bytes: usize,
    /// Runs by size: each of level n holds about `WIDTH`^n times what memory may.
    levels: Vec<Vec<Spill>>,
    spilled: u64,
}

impl Sorter {
    pub(super) fn new(place: Place, bytes_max: usize) -> Sorter {
        Sorter {
            place,
            bytes_max,
            rows: Vec::new(),
            bytes: 0,
            levels: Vec::new(),
            spilled: 0,
        }
    }

    pub(super) fn push(&mut self, row: Row) -> Result<()> {
        let bytes = ROW_BYTES + row.id.len();
        if self.bytes + bytes > self.bytes_max && !self.rows.is_empty() {
            self.spill()?;
        }
        self.bytes += bytes;
        self.rows.push(row);
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        self.rows.sort_unstable();
        let mut writer = SpillWriter::new(&self.place)?;
        let mut record = Vec::new();
        for row in self.rows.drain(..) {
            row.encode(&mut record);
            writer.put(&record)?;
        }
        self.bytes = 0;
        self.spilled += 1;
        self.add_run(0, writer.finish()?)
    }

    fn add_run(&mut self, level: usize, run: Spill) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(run);
        if self.levels[level].len() < WIDTH {
            return Ok(());
        }
        let runs = std::mem::take(&mut self.levels[level]);
        let mut merged = Sorted::new(runs, Vec::new(), 0)?;
        let mut writer = SpillWriter::new(&self.place)?;
        let mut record = Vec::new();
        while let Some(row) = merged.next()? {
            row.encode(&mut record);
            writer.put(&record)?;
        }
        self.add_run(level + 1, writer.finish()?)
    }

    /// All rows, in order.
    pub(super) fn finish(mut self) -> Result<Sorted> {
        self.rows.sort_unstable();
        let runs = self.levels.into_iter().flatten().collect();
        Sorted::new(runs, self.rows, self.spilled)
    }
}

enum Source {
    Memory(std::vec::IntoIter<Row>),
    Run(SpillReader),
}

impl Source {
    fn next(&mut self) -> Result<Option<Row>> {
        match self {
            Source::Memory(rows) => Ok(rows.next()),
            Source::Run(run) => match run.next()? {
                None => Ok(None),
                Some(bytes) => Row::decode(bytes)
                    .map(Some)
                    .ok_or_else(|| Error::damaged("a spilled row is of an unknown form")),
            },
        }
    }
}

/// Rows in order.
pub(super) struct Sorted {
    sources: Vec<Source>,
    heap: BinaryHeap<Reverse<(Row, usize)>>,
    /// Runs that memory was spilled to.
    pub(super) spilled: u64,
}

impl Sorted {
    fn new(runs: Vec<Spill>, rows: Vec<Row>, spilled: u64) -> Result<Sorted> {
        let mut sources = vec![Source::Memory(rows.into_iter())];
        for run in &runs {
            sources.push(Source::Run(run.read()?));
        }
        let mut heap = BinaryHeap::with_capacity(sources.len());
        for (i, source) in sources.iter_mut().enumerate() {
            if let Some(row) = source.next()? {
                heap.push(Reverse((row, i)));
            }
        }
        Ok(Sorted {
            sources,
            heap,
            spilled,
        })
    }

    /// The hash of the next row.
    pub(super) fn hash(&self) -> Option<u64> {
        self.peek().map(|row| row.hash)
    }

    pub(super) fn peek(&self) -> Option<&Row> {
        self.heap.peek().map(|Reverse((row, _))| row)
    }

    pub(super) fn next(&mut self) -> Result<Option<Row>> {
        let Some(mut top) = self.heap.peek_mut() else {
            return Ok(None);
        };
        let source = top.0.1;
        match self.sources[source].next()? {
            Some(next) => Ok(Some(std::mem::replace(&mut top.0.0, next))),
            None => Ok(Some(PeekMut::pop(top).0.0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sorted(rows: &[Row], bytes_max: usize) -> (Vec<Row>, u64) {
        let dir = tempfile::tempdir().unwrap();
        let place = Place {
            dir: dir.path().to_path_buf(),
            reserve: 0,
        };
        let mut sorter = Sorter::new(place, bytes_max);
        rows.iter().for_each(|r| sorter.push(r.clone()).unwrap());
        let mut sorted = sorter.finish().unwrap();
        let mut all = Vec::new();
        while let Some(hash) = sorted.hash() {
            let row = sorted.next().unwrap().unwrap();
            assert_eq!(row.hash, hash);
            all.push(row);
        }
        assert_eq!(sorted.next().unwrap(), None);
        (all, sorted.spilled)
    }

    #[test]
    fn any_bound_of_memory_gives_the_same_order() {
        let mut random = fastrand::Rng::with_seed(7);
        let rows: Vec<Row> = (0..3000)
            .map(|_| Row {
                hash: random.u64(0..500),
                id: vec![random.u8(0..3); random.usize(1..40)].into(),
                at_ms: random.bool().then(|| random.u64(..)),
                print: random.bool().then(|| [random.u8(..); 16]),
            })
            .collect();
        let mut expected = rows.clone();
        expected.sort();
        let (all, spilled) = sorted(&rows, usize::MAX);
        assert_eq!((all, spilled), (expected.clone(), 0));
        for rows_in_memory in [1, 5, 100, 2999] {
            let (all, spilled) = sorted(&rows, rows_in_memory * (ROW_BYTES + 20));
            assert_eq!(all, expected, "{rows_in_memory} rows in memory");
            // 3,000 rows need so many runs at least, and no more than half as full ones.
            let least = 3000 / (rows_in_memory as u64 * 2) / 2;
            let range = least..=6000 / rows_in_memory as u64;
            assert!(range.contains(&spilled), "{spilled} not in {range:?}");
        }
        assert_eq!(sorted(&[], 1).0, []);
    }
}
