//! Sealing: an immutable segment becomes runs of its generations.
//!
//! The order is the protocol's; each *crash here* is a failpoint. What makes it safe:
//! - the WAL is synced, mark and marker persisted and the floor raised before anything is
//!   ingested (steps 4 and 9), since ingestion is durable at once and the log is not;
//! - until the log family is dropped (step 10) the segment is replayed at open, answers first,
//!   and is sealed again; the extra records are the same ones, so they do no harm;
//! - segments are sealed strictly one after another, oldest first: a later run is a later
//!   write.
//!
//! A seal that failed goes on in the next round: generations that have their run keep it (writing
//! it again would mix the pages of two runs under one key), the others get theirs, and families
//! that were made are used. A log that could not be dropped is dropped before anything else.

use std::sync::Arc;

use crate::clock::Stopwatch;
use crate::engine::{Family, Kind, Rep, failpoint};
use crate::error::Result;
use crate::memory;
use crate::trace::span;

use super::active::EntryAt;
use super::maintain::{Ingested, Maintenance};
use super::record::{FOR_EVER_MS, Meta, Slice, State};
use super::run::{Run, RunKey, RunPlan, RunWriter, WrittenRun};
use super::segment::Segment;
use super::space::WORK_SHARE;
use super::view::Generation;
use super::{Index, meta, names};

/// How often writing a run looks for room, and about what it has written between.
pub(super) const RECORDS_PER_LOOK: usize = 1 << 14;
pub(super) const LOOK_BYTES: usize = 1 << 20;

/// The runs of one seal while they are written: one per generation.
struct Runs<'a> {
    writers: Vec<(Arc<Generation>, RunWriter<'a>)>,
    last: usize,
}

impl<'a> Runs<'a> {
    fn writer(&mut self, slice: Slice) -> Option<&mut RunWriter<'a>> {
        // Neighbours in hash order mostly share a slice only by chance, but there are few.
        if self
            .writers
            .get(self.last)
            .is_none_or(|(g, _)| g.slice != slice)
        {
            self.last = self.writers.iter().position(|(g, _)| g.slice == slice)?;
        }
        self.writers.get_mut(self.last).map(|(_, w)| w)
    }
}

impl Index {
    /// Seals the oldest immutable segment (protocol: Sealing 3 to 12).
    pub(super) fn seal_oldest(&self, m: &mut Maintenance) -> Result<()> {
        let view = self.view.load_full();
        let Some(segment) = view.segments.last().filter(|_| view.unsealed() > 0) else {
            return Ok(());
        };
        let watch = Stopwatch::start();
        let ids = segment.set().len();
        let _span = span!(INFO, "seal", {segment = segment.number, ids = ids}, []);
        self.wait_for_gate();
        failpoint!("seal::gate_passed");
        self.mark_sealing(segment.last_n())?;
        failpoint!("seal::marked");
        let written = self.write_runs(m, segment)?;
        failpoint!("seal::runs_written");
        self.ingest_runs(m, segment, written)?;
        self.publish(m, segment);
        Index::count(&self.counts.seals);
        failpoint!("seal::published");
        m.condemned.push(Arc::clone(&segment.family));
        failpoint!("seal::before_drop");
        self.drop_condemned(m)?;
        self.counts.seal_times.record(watch.elapsed());
        failpoint!("seal::dropped");
        self.room_may_have_changed();
        self.flush_rows(m)
    }

    /// Step 5: partition by placement, in hash order, as files beside the store.
    fn write_runs(
        &self,
        m: &mut Maintenance,
        segment: &Segment,
    ) -> Result<Vec<(Arc<Generation>, WrittenRun)>> {
        let mark = self.time.persisted_ms();
        let mut runs = Runs {
            writers: Vec::new(),
            last: 0,
        };
        for (slice, placed) in segment.placed() {
            if has_ended(slice, mark) || m.ingested.iter().any(|i| i.slice == slice) {
                continue;
            }
            let generation = self.generation_for(m, slice)?;
            let serial = generation.next_serial();
            let plan = RunPlan {
                slice,
                width_ms: generation.width_ms,
                key: RunKey {
                    order: segment.number,
                    serial,
                },
                first_order: segment.number,
                ids: placed.ids,
                extras_bytes: placed.extras_bytes,
                filter_bits: self.limits.filter_bits,
            };
            runs.writers.push((
                generation,
                RunWriter::new(&self.engine, &plan, &self.resources)?,
            ));
        }
        let set = segment.set();
        memory::reserve(&mut m.order, set.len())?;
        memory::reserve(&mut m.spare, set.len())?;
        set.sorted_into(&self.ids, &mut m.order, &mut m.spare);
        self.fill_runs(segment, &m.order, mark, &mut runs)?;
        let mut written = Vec::new();
        for (generation, writer) in runs.writers {
            written.push((generation, writer.finish()?));
        }
        Ok(written)
    }

    fn fill_runs(
        &self,
        segment: &Segment,
        order: &[(u64, EntryAt)],
        mark: u64,
        runs: &mut Runs<'_>,
    ) -> Result<()> {
        const AHEAD: usize = 24;
        let set = segment.set();
        let (mut id, mut extras) = (Vec::new(), Vec::new());
        for (i, (hash, at)) in order.iter().enumerate() {
            if i.is_multiple_of(RECORDS_PER_LOOK) {
                self.check_room_for(LOOK_BYTES, WORK_SHARE)?;
            }
            if let Some((_, ahead)) = order.get(i + AHEAD) {
                set.prefetch_entry(*ahead);
            }
            let (meta, slice, rich) = set.entry(*at, &mut id, &mut extras);
            if is_skipped(&meta, slice, mark) {
                continue;
            }
            if let Some(writer) = runs.writer(slice) {
                writer.push(*hash, &meta, &id, rich.then_some(&extras[..]))?;
            }
        }
        Ok(())
    }

    /// The generation of a slice as it is now, its family made if need be. Not in the view yet
    /// if it is new.
    fn generation_for(&self, m: &mut Maintenance, slice: Slice) -> Result<Arc<Generation>> {
        if let Some(generation) = self.view().generation(slice) {
            return Ok(Arc::clone(generation));
        }
        let made = m.made.iter().find(|(s, _)| *s == slice);
        let family = match made {
            Some((_, family)) => Arc::clone(family),
            None => {
                let name = names::generation(slice);
                let family = self.engine.create(&name, Kind::Generation, "")?;
                m.made.push((slice, Arc::clone(&family)));
                family
            }
        };
        Ok(self.empty_generation(slice, family))
    }

    fn empty_generation(&self, slice: Slice, family: Arc<Family>) -> Arc<Generation> {
        Arc::new(Generation {
            slice,
            width_ms: self.classes.width_ms(slice),
            family,
            runs: Vec::new(),
        })
    }

    /// Steps 6 and 7: ingest one generation after another; filters.
    fn ingest_runs(
        &self,
        m: &mut Maintenance,
        segment: &Segment,
        written: Vec<(Arc<Generation>, WrittenRun)>,
    ) -> Result<()> {
        for (generation, run) in written {
            debug_assert_eq!(run.info.key.order, segment.number);
            let run = self.ingest(&generation, run)?;
            failpoint!("seal::ingested");
            m.ingested.push(Ingested {
                slice: generation.slice,
                family: Arc::clone(&generation.family),
                run,
            });
        }
        Ok(())
    }

    /// Moves a written run into its family and places its filter.
    pub(super) fn ingest(&self, generation: &Generation, run: WrittenRun) -> Result<Arc<Run>> {
        self.poison.check()?;
        self.engine.ingest(&generation.family, &run.file)?;
        let placed = Run::new(run.info, &self.resources);
        if let Some(filter) = run.filter {
            self.place_filter(generation.slice, &placed, &Arc::new(filter));
        }
        Ok(placed)
    }

    /// Step 8: one swap moves the segment's ids from the set to the runs. A slice that ended
    /// since its run was ingested, and was dropped from the view, does not come back; if it was
    /// never in one, its family goes too.
    fn publish(&self, m: &mut Maintenance, segment: &Segment) {
        let mark = self.time.persisted_ms();
        let _swap = self.swap.lock();
        let view = self.view.load();
        let mut generations = Vec::with_capacity(m.ingested.len());
        for Ingested { slice, family, run } in m.ingested.drain(..) {
            let generation = match view.generation(slice) {
                Some(generation) => Arc::clone(generation),
                None if has_ended(slice, mark) => continue,
                None => self.empty_generation(slice, family),
            };
            let mut runs = generation.runs.clone();
            runs.push(run);
            generations.push(generation.with_runs(runs));
        }
        let next = view
            .with_generations(generations)
            .without_segment(segment.number);
        let unused = m.made.drain(..);
        let unused = unused.filter(|(slice, _)| next.generation(*slice).is_none());
        m.condemned.extend(unused.map(|(_, family)| family));
        self.view.store(Arc::new(next));
    }

    /// Steps 4 and 9 in one: everything so far durable, with the mark of accepted time and the
    /// marker of this segment; then the floor. All of it before the first ingest, since a run
    /// is durable at once: whatever damage the log takes after that, the floor notices.
    fn mark_sealing(&self, n: u64) -> Result<()> {
        let now = self.time.now_ms();
        let mut rows = Rep::default();
        rows.put(self.meta.number(), meta::MARK_KEY, &now.to_le_bytes());
        if n > 0 {
            rows.put(self.meta.number(), meta::MARKER_KEY, &n.to_le_bytes());
        }
        self.write_marks(&rows)?;
        self.time.set_persisted(now);
        failpoint!("seal::synced");
        self.raise_floor(n)
    }
}

/// Whether a slice is over by the persisted mark, so that its generation may be gone.
pub(super) fn has_ended(slice: Slice, mark: u64) -> bool {
    slice.end_ms != FOR_EVER_MS && slice.end_ms <= mark
}

/// Whether a record must not be sealed (any more): its slice has ended, or it is expired by the
/// persisted mark and supersedes nothing. Else a seal repeated after a crash could bring back
/// an id that was first again meanwhile.
fn is_skipped(meta: &Meta, slice: Slice, mark: u64) -> bool {
    has_ended(slice, mark) || is_worthless(meta, mark)
}

/// Whether a record says nothing any more: expired by the persisted mark, and no record that
/// supersedes another (those leave only with their generation).
pub(super) fn is_worthless(meta: &Meta, mark: u64) -> bool {
    !meta.over && meta.state == State::Seen && meta.expiry_ms <= mark
}
