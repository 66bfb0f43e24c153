//! Dropping generations whose slice of time has passed.
//!
//! The mark is persisted first, so that after any crash the store knows that this time was
//! reached (T3); then the view goes on without the generation; then its family is dropped whole.
//! Only the earliest slice goes first. Files and memory go with the last view that holds it. A
//! family that could not be dropped is in no view any more and is dropped first next time.

use std::sync::Arc;

use crate::clock::Stopwatch;
use crate::engine::failpoint;
use crate::error::Result;
use crate::trace::span;

use super::maintain::Maintenance;
use super::seal::has_ended;
use super::{Index, snapshot};

impl Index {
    pub(super) fn drop_expired(&self, m: &mut Maintenance) -> Result<()> {
        let now = self.time.now_ms();
        while let Some(generation) = self.view().generations.last().cloned() {
            if !has_ended(generation.slice, now) {
                break;
            }
            let watch = Stopwatch::start();
            let (end_ms, ids) = (generation.slice.end_ms, generation.ids());
            let _span = span!(INFO, "drop", {slice_end_ms = end_ms, ids = ids}, []);
            if !has_ended(generation.slice, self.time.persisted_ms()) {
                self.persist_mark()?;
            }
            failpoint!("drop::marked");
            {
                let _swap = self.swap.lock();
                let view = self.view.load().without_generation(generation.slice);
                self.view.store(Arc::new(view));
            }
            failpoint!("drop::published");
            m.condemned.push(Arc::clone(&generation.family));
            self.drop_condemned(m)?;
            failpoint!("drop::dropped");
            self.engine
                .home()
                .remove(&snapshot::name(generation.slice))?;
            Index::count(&self.counts.drops);
            self.counts.drop_times.record(watch.elapsed());
        }
        Ok(())
    }
}
