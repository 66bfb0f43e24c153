//! Records of many runs and segments as one stream in hash order, the newest of each id.
//!
//! Sources are given in the order of precedence (newest first); of the records of one id only
//! the first source's comes out. Memory: one page a run, one index a segment.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::ops::Range;
use std::sync::Arc;

use crate::engine::{Blocks, Family};
use crate::error::{Error, Result};

use super::active::EntryAt;
use super::hash::IdHash;
use super::page::Page;
use super::record::{Meta, Slice, Stamp, State};
use super::run::{RunInfo, RunKey};
use super::segment::Segment;
use super::view::View;

/// Where records come from.
pub(super) enum Source {
    Segment(SegmentCursor),
    Run(RunCursor),
}

pub(super) struct SegmentCursor {
    segment: Arc<Segment>,
    order: Vec<(u64, EntryAt)>,
    at: usize,
}

pub(super) struct RunCursor {
    family: Arc<Family>,
    slice: Slice,
    key: RunKey,
    pages: u32,
    /// The next page to load.
    page: u32,
    entries: Vec<PageEntry>,
    bytes: Vec<u8>,
    at: usize,
}

struct PageEntry {
    hash: u64,
    meta: Meta,
    id: Range<u32>,
    extras: Option<Range<u32>>,
}

/// One record of the stream.
#[derive(Clone, Debug)]
pub(crate) struct Streamed {
    pub(crate) hash: u64,
    pub(crate) meta: Meta,
    pub(crate) id: Vec<u8>,
    pub(crate) extras: Vec<u8>,
    pub(crate) is_rich: bool,
}

impl Streamed {
    pub(crate) fn extras(&self) -> Option<&[u8]> {
        self.is_rich.then_some(&self.extras[..])
    }
}

impl Source {
    /// The ids of a segment as they are now; later ones may or may not appear.
    pub(super) fn segment(segment: &Arc<Segment>, ids: &IdHash) -> Source {
        let order = segment.set().sorted(ids);
        Source::Segment(SegmentCursor {
            segment: Arc::clone(segment),
            order,
            at: 0,
        })
    }

    pub(super) fn run(family: &Arc<Family>, slice: Slice, run: &RunInfo) -> Source {
        Source::Run(RunCursor {
            family: Arc::clone(family),
            slice,
            key: run.key,
            pages: run.pages,
            page: 0,
            entries: Vec::new(),
            bytes: Vec::new(),
            at: 0,
        })
    }

    /// The hash it stands on; `None` at its end.
    fn hash(&mut self, ids: &IdHash) -> Result<Option<u64>> {
        match self {
            Source::Segment(s) => Ok(s.order.get(s.at).map(|e| e.0)),
            Source::Run(r) => {
                while r.at == r.entries.len() && r.page < r.pages {
                    r.load(ids)?;
                }
                Ok(r.entries.get(r.at).map(|e| e.hash))
            }
        }
    }

    /// Takes the record it stands on.
    fn take(&mut self, into: &mut Streamed) {
        match self {
            Source::Segment(s) => {
                let (hash, at) = s.order[s.at];
                if let Some((_, ahead)) = s.order.get(s.at + 8) {
                    s.segment.set().prefetch_entry(*ahead);
                }
                let (meta, _, rich) = s.segment.set().entry(at, &mut into.id, &mut into.extras);
                (into.hash, into.meta, into.is_rich) = (hash, meta, rich);
                s.at += 1;
            }
            Source::Run(r) => {
                let entry = &r.entries[r.at];
                let bytes = |range: &Range<u32>| &r.bytes[range.start as usize..range.end as usize];
                into.id.clear();
                into.id.extend_from_slice(bytes(&entry.id));
                into.extras.clear();
                if let Some(extras) = &entry.extras {
                    into.extras.extend_from_slice(bytes(extras));
                }
                (into.hash, into.meta) = (entry.hash, entry.meta);
                into.is_rich = entry.extras.is_some();
                r.at += 1;
            }
        }
    }
}

impl RunCursor {
    fn load(&mut self, ids: &IdHash) -> Result<()> {
        self.entries.clear();
        self.bytes.clear();
        self.at = 0;
        let page = self.page;
        self.page += 1;
        // A run is read once, and often dropped then.
        let Some(value) = self.family.get_with(&self.key.page(page), Blocks::Pass)? else {
            return self.pass_absent();
        };
        let page = Page::parse(&value, self.slice).map_err(|damage| {
            Error::damaged(format!("a page of {}: {damage}", self.family.name()))
        })?;
        for i in 0..page.len() {
            let record = page.get(i);
            let hash = ids.of(record.meta.stamp.scope, record.id);
            let id = push(&mut self.bytes, record.id);
            let extras = record.extras.map(|e| push(&mut self.bytes, e));
            self.entries.push(PageEntry {
                hash,
                meta: record.meta,
                id,
                extras,
            });
        }
        Ok(())
    }
}

impl RunCursor {
    /// Goes to the next page that is stored: one without ids is not, and a footer may promise
    /// any number of them.
    fn pass_absent(&mut self) -> Result<()> {
        let rows = self.family.rows(&self.key.page(self.page));
        let next = rows.here().and_then(|(key, _)| {
            let page = u32::from_be_bytes(*key.last_chunk()?);
            (RunKey::of(key).ok()? == self.key).then_some(page)
        });
        rows.status()?;
        self.page = next.map_or(self.pages, |page| page.min(self.pages));
        Ok(())
    }
}

fn push(bytes: &mut Vec<u8>, part: &[u8]) -> Range<u32> {
    let start = bytes.len() as u32;
    bytes.extend_from_slice(part);
    start..bytes.len() as u32
}

/// The merged stream.
pub(crate) struct Stream {
    ids: IdHash,
    sources: Vec<Source>,
    heap: BinaryHeap<Reverse<(u64, usize)>>,
    current: Streamed,
    /// What came out under the current hash; more than one only if ids collide.
    group: Vec<(u16, Vec<u8>)>,
    group_hash: Option<u64>,
    /// Kept so that merged-away runs stay readable.
    _view: Option<Arc<View>>,
}

impl Stream {
    pub(super) fn new(ids: IdHash, mut sources: Vec<Source>) -> Result<Stream> {
        let mut heap = BinaryHeap::with_capacity(sources.len());
        for (i, source) in sources.iter_mut().enumerate() {
            if let Some(hash) = source.hash(&ids)? {
                heap.push(Reverse((hash, i)));
            }
        }
        let current = Streamed {
            hash: 0,
            meta: Meta {
                stamp: Stamp {
                    scope: 0,
                    version: 0,
                },
                state: State::Seen,
                over: false,
                expiry_ms: 0,
            },
            id: Vec::new(),
            extras: Vec::new(),
            is_rich: false,
        };
        let group = Vec::new();
        Ok(Stream {
            ids,
            sources,
            heap,
            current,
            group,
            group_hash: None,
            _view: None,
        })
    }

    /// The same stream, holding the view its sources are of.
    pub(super) fn keeping(mut self, view: Arc<View>) -> Stream {
        self._view = Some(view);
        self
    }

    /// The next id's newest record. After an error it has ended: a source may stand nowhere.
    pub(crate) fn next(&mut self) -> Result<Option<&Streamed>> {
        while let Some(hash) = self.take_lowest().inspect_err(|_| self.heap.clear())? {
            if self.is_newest(hash) {
                return Ok(Some(&self.current));
            }
        }
        Ok(None)
    }

    /// Takes the record with the lowest hash, of the newest source that has it.
    fn take_lowest(&mut self) -> Result<Option<u64>> {
        let Some(mut top) = self.heap.peek_mut() else {
            return Ok(None);
        };
        let Reverse((hash, source)) = *top;
        self.sources[source].take(&mut self.current);
        match self.sources[source].hash(&self.ids)? {
            Some(next) => *top = Reverse((next, source)),
            None => {
                PeekMut::pop(top);
            }
        }
        Ok(Some(hash))
    }

    /// Whether no newer source had this id; remembers it if so.
    fn is_newest(&mut self, hash: u64) -> bool {
        let scope = self.current.meta.stamp.scope;
        if self.group_hash != Some(hash) {
            self.group_hash = Some(hash);
            self.group.truncate(1);
            match self.group.first_mut() {
                Some((s, id)) => {
                    *s = scope;
                    id.clear();
                    id.extend_from_slice(&self.current.id);
                }
                None => self.group.push((scope, self.current.id.clone())),
            }
            return true;
        }
        if self
            .group
            .iter()
            .any(|(s, id)| *s == scope && *id == self.current.id)
        {
            return false;
        }
        self.group.push((scope, self.current.id.clone()));
        true
    }
}
