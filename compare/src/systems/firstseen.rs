//! firstseen itself, through its public interface only.
//!
//! The clock is a manual one that the number of inserted ids moves: a window of ids takes one
//! retention, so at any moment the window's ids are live, spread evenly over the generations.
//! Sealing is charged: `drain` seals what is left at the end of the timed part.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use firstseen::{
    Batch, Clock, Durability, Health, IdTime, ManualClock, Options, Policy, Resources, Scope,
    Store, Table,
};
use parking_lot::Mutex;

use super::{Key, Level, Result, Setup, System, Worker};
use crate::ids::{EPOCH_MS, Id, Rows, WINDOW_MS};

pub const SETTINGS: &str = "insert_all, or a batch of once().put() with rows; Written (synced \
    workloads: Synced), defaults; retention of one window of ids, sealed at the end; \
    new_time_batch1000: a scope of IdTime::UuidV7";
pub const SETTINGS_BUFFERED: &str = "as firstseen, with Durability::Buffered";

/// More than an id in memory takes, with the table it is found by.
const BYTES_PER_UNSEALED_ID: u64 = 400;

pub struct Firstseen {
    store: Store,
    scope: Scope,
    rows: Table,
    clock: ManualClock,
    shown_ms: Mutex<u64>,
    setup: Setup,
}

impl Firstseen {
    pub fn written(dir: &Path, setup: Setup) -> Result<Firstseen> {
        Firstseen::open(
            dir,
            setup,
            match setup.level {
                Level::Written => Durability::Written,
                Level::Synced => Durability::Synced,
            },
        )
    }

    pub fn buffered(dir: &Path, setup: Setup) -> Result<Firstseen> {
        Firstseen::open(dir, setup, Durability::Buffered)
    }

    fn open(dir: &Path, setup: Setup, durability: Durability) -> Result<Firstseen> {
        let clock = ManualClock::new();
        step_to(&clock, EPOCH_MS);
        // Where another process left off, so that nothing seems to come from the future.
        let shown_ms = shown_ms(setup.inserted, setup.window);
        clock.advance(Duration::from_millis(shown_ms));
        let options = options(setup)
            .durability(durability)
            .clock(Clock::Manual(clock.clone()));
        let store = Store::open(dir, options)?;
        let mut policy = Policy::remember(Duration::from_millis(WINDOW_MS));
        if setup.own_time {
            policy = policy.id_time(IdTime::UuidV7);
        }
        let scope = store.scope("ids", policy)?;
        let rows = store.table("rows")?;
        Ok(Firstseen {
            store,
            scope,
            rows,
            clock,
            shown_ms: Mutex::new(shown_ms),
            setup,
        })
    }
}

fn options(setup: Setup) -> Options {
    let mut options = Options::new().slices_per_class(setup.generations);
    let mut resources = Resources::new();
    if let Some(bytes) = setup.cache_bytes {
        resources = resources.cache_bytes(bytes as usize);
    }
    if setup.unsealed > 0 {
        let bytes = (setup.unsealed * BYTES_PER_UNSEALED_ID).max(256 << 20);
        resources = resources.segment_bytes(bytes as usize);
        options = options.segment_age_max(Duration::from_hours(1));
    }
    options.resources(&resources)
}

/// The time at which so many ids were inserted, since the epoch of a run.
fn shown_ms(inserted: u64, window: u64) -> u64 {
    let ms = u128::from(inserted) * u128::from(WINDOW_MS) / u128::from(window.max(1));
    u64::try_from(ms).unwrap_or(u64::MAX)
}

fn step_to(clock: &ManualClock, epoch_ms: u64) {
    let now = clock.now().duration_since(UNIX_EPOCH).unwrap_or_default();
    clock.advance(Duration::from_millis(epoch_ms).saturating_sub(now));
}

/// A thread's batch, reused.
struct Writer<'a> {
    of: &'a Firstseen,
    batch: Batch,
}

impl Writer<'_> {
    fn insert<K: Key>(&self, ids: &[K]) -> Result<Option<u64>> {
        if let [id] = ids {
            return Ok(Some(u64::from(self.of.scope.insert(id)?.is_first())));
        }
        let verdicts = self.of.scope.insert_all(ids)?;
        Ok(Some(verdicts.iter().filter(|v| v.is_first()).count() as u64))
    }
}

impl Worker for Writer<'_> {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        Writer::insert(self, ids)
    }

    fn insert_any(&mut self, ids: &[&[u8]]) -> Result<Option<u64>> {
        Writer::insert(self, ids)
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        for id in ids {
            self.batch
                .once(&self.of.scope, id)
                .put(&self.of.rows, id, rows.of(id));
        }
        let verdicts = self.batch.commit()?;
        Ok(Some(verdicts.iter().filter(|v| v.is_first()).count() as u64))
    }
}

impl System for Firstseen {
    fn worker(&self) -> Result<Box<dyn Worker + '_>> {
        let batch = self.store.batch();
        Ok(Box::new(Writer { of: self, batch }))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.get(id)?.map(|value| value.to_vec()))
    }

    fn at(&self, inserted: u64) {
        let now = shown_ms(inserted, self.setup.window);
        let mut shown_ms = self.shown_ms.lock();
        if now > *shown_ms {
            self.clock.advance(Duration::from_millis(now - *shown_ms));
            *shown_ms = now;
        }
    }

    fn settle(&self) -> Result<()> {
        if self.setup.compacted {
            self.store.compact()?;
        } else {
            self.store.seal()?;
        }
        Ok(())
    }

    fn drain(&self) -> Result<()> {
        self.store.seal()?;
        Ok(())
    }

    fn is_ready(&self) -> Result<bool> {
        match self.store.health() {
            Health::Ready => Ok(true),
            Health::Warming { .. } => Ok(false),
            other => Err(format!("the store is {other:?}").into()),
        }
    }

    fn figures(&self) -> Result<Vec<(&'static str, f64)>> {
        let stats = self.store.stats()?;
        let sealed: u64 = stats.generations.iter().map(|g| g.ids_estimate).sum();
        let per_id = |bytes: u64| bytes as f64 / sealed.max(1) as f64;
        Ok(vec![
            ("filter_bytes_per_id", per_id(stats.filters.bytes)),
            (
                "false_positives_percent",
                100.0 * stats.filters.false_positive_rate(),
            ),
            ("generations_dropped", stats.background.drops as f64),
            ("unsealed_ids", stats.unsealed_ids as f64),
            ("replayed_ids", stats.background.replayed_ids as f64),
        ])
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Firstseen { store, .. } = *self;
        store.close()?;
        Ok(())
    }
}
