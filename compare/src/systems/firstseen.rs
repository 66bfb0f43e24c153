//! firstseen itself, through its public interface only.
//!
//! The clock is a manual one that the number of inserted ids moves: a window of ids takes one
//! retention, so at any moment the window's ids are live, spread evenly over the generations.
//! Sealing is charged: `drain` seals what is left at the end of the timed part.

use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use firstseen::{Batch, Clock, Durability, ManualClock, Options, Policy, Scope, Store, Table};

use super::{Result, Setup, System};
use crate::ids::{Id, Rows};

pub const SETTINGS: &str = "insert_all, or a batch of once().put() with rows; Written, defaults; \
    retention of one window of ids, sealed at the end";
pub const SETTINGS_BUFFERED: &str = "as firstseen, with Durability::Buffered";

/// The retention, 4.7 hours: a power of four milliseconds, because those fill the generations
/// that the store cuts them into evenly.
const RETENTION_MS: u64 = 1 << 24;

pub struct Firstseen {
    store: Store,
    scope: Scope,
    rows: Table,
    batch: Batch,
    clock: ManualClock,
    shown_ms: u64,
    setup: Setup,
}

impl Firstseen {
    pub fn written(dir: &Path, setup: Setup) -> Result<Firstseen> {
        Firstseen::open(dir, setup, Durability::Written)
    }

    pub fn buffered(dir: &Path, setup: Setup) -> Result<Firstseen> {
        Firstseen::open(dir, setup, Durability::Buffered)
    }

    fn open(dir: &Path, setup: Setup, durability: Durability) -> Result<Firstseen> {
        let clock = ManualClock::new();
        start_of_a_generation(&clock, RETENTION_MS / u64::from(setup.generations));
        let options = Options::new()
            .durability(durability)
            .clock(Clock::Manual(clock.clone()))
            .slices_per_class(setup.generations);
        let store = Store::open(dir, options)?;
        let retention = Duration::from_millis(RETENTION_MS);
        let scope = store.scope("ids", Policy::remember(retention))?;
        let rows = store.table("rows")?;
        let batch = store.batch();
        Ok(Firstseen {
            store,
            scope,
            rows,
            batch,
            clock,
            shown_ms: 0,
            setup,
        })
    }
}

/// Moves a clock on to where a new slice of time begins.
fn start_of_a_generation(clock: &ManualClock, width_ms: u64) {
    let now = clock
        .now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis() as u64;
    clock.advance(Duration::from_millis(width_ms - now % width_ms));
}

impl System for Firstseen {
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>> {
        if let [id] = ids {
            return Ok(Some(u64::from(self.scope.insert(id)?.is_first())));
        }
        let verdicts = self.scope.insert_all(ids)?;
        Ok(Some(verdicts.iter().filter(|v| v.is_first()).count() as u64))
    }

    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>> {
        for id in ids {
            self.batch
                .once(&self.scope, id)
                .put(&self.rows, id, rows.of(id));
        }
        let verdicts = self.batch.commit()?;
        Ok(Some(verdicts.iter().filter(|v| v.is_first()).count() as u64))
    }

    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>> {
        Ok(self.rows.get(id)?.map(|value| value.to_vec()))
    }

    fn at(&mut self, inserted: u64) {
        let now = u128::from(inserted) * u128::from(RETENTION_MS) / u128::from(self.setup.window);
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        self.clock
            .advance(Duration::from_millis(now.saturating_sub(self.shown_ms)));
        self.shown_ms = self.shown_ms.max(now);
    }

    fn settle(&mut self) -> Result<()> {
        self.store.seal()?;
        Ok(())
    }

    fn drain(&mut self) -> Result<()> {
        self.store.seal()?;
        Ok(())
    }

    fn close(self: Box<Self>) -> Result<()> {
        let Firstseen { store, .. } = *self;
        store.close()?;
        Ok(())
    }
}
