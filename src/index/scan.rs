//! All ids of a scope, streaming.
//!
//! They come in *id order*, which is the order of their keyed hashes: the order in which pages
//! are stored, so that a scan of any size needs one page a run and an index of the unsealed
//! segments in memory. It sees the view as it was when it began.

use crate::error::Result;

use super::Index;
use super::stream::{Source, Stream, Streamed};

/// A scan in progress.
pub(crate) struct IdScan {
    stream: Stream,
    scope: u16,
}

impl Index {
    pub(crate) fn scan(&self, scope: u16, classes: u32) -> Result<IdScan> {
        let view = self.view.load_full();
        let mut sources: Vec<Source> = view
            .segments
            .iter()
            .map(|s| Source::segment(s, &self.ids))
            .collect();
        let asked = view
            .generations
            .iter()
            .filter(|g| classes & (1 << g.slice.class) != 0);
        for generation in asked {
            for run in &generation.runs {
                sources.push(Source::run(&generation.family, generation.slice, &run.info));
            }
        }
        // The runs stay readable: their generations' files go only when no view holds them.
        let stream = Stream::new(self.ids, sources)?.keeping(view);
        Ok(IdScan { stream, scope })
    }
}

impl IdScan {
    /// The next id's record that stands.
    pub(crate) fn next(&mut self) -> Result<Option<Streamed>> {
        while let Some(record) = self.stream.next()? {
            if record.meta.stamp.scope == self.scope {
                return Ok(Some(record.clone()));
            }
        }
        Ok(None)
    }
}
