//! The audit against the business side: {id known, unknown} × {effect there, missing}.
//!
//! - Q1: what is called a fault is one: nothing near an edge of the range (the present is one
//!   too), nothing that may be forgotten by its retention, nothing that was refused.
//! - Q2: memory is bounded whatever the sides hold: the business side is sorted on disk into the
//!   order in which the store keeps its ids, and both are read once.
//! - Q3: nothing is repaired that was not planned, and nothing planned is repaired if it has
//!   changed since ([`RepairPlan::apply`]).
//!
//! The business side is read first and the ids after it: an id is recorded with its effect or
//! before it, so every effect that was read has had its chance to be known.

mod compare;
mod plan;
mod sort;
mod spill;

use std::ops::{Bound, RangeBounds};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use bytes::Bytes;

use crate::clock::{millis, since_epoch};
use crate::error::Error;
use crate::policy::ID_BYTES_MAX;
use crate::scope::Scope;
use crate::verdict::Sighting;

pub use compare::Reconciliation;
pub use plan::{Repair, RepairPlan, Repaired};

use compare::{Rules, bounds, forgotten_to_ms};
use sort::{Row, Sorter};
use spill::Place;

fn ms(time: SystemTime) -> u64 {
    since_epoch(time)
}

/// One row of the business side: an effect that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    id: Box<[u8]>,
    at: Option<SystemTime>,
    payload: Option<Box<[u8]>>,
}

impl Effect {
    /// The effect of the message with this id.
    pub fn new(id: impl AsRef<[u8]>) -> Effect {
        Effect {
            id: id.as_ref().into(),
            at: None,
            payload: None,
        }
    }

    /// When it happened, by the business side's clock. Without it an effect is taken to belong
    /// to the range, and an unknown id is a fault however old it is.
    #[must_use]
    pub fn at(mut self, time: SystemTime) -> Effect {
        self.at = Some(time);
        self
    }

    /// The payload that its message had, compared with the one that the id was recorded with, if
    /// the scope keeps fingerprints ([`Policy::payloads`](crate::Policy::payloads)).
    #[must_use]
    pub fn payload(mut self, body: impl AsRef<[u8]>) -> Effect {
        self.payload = Some(body.as_ref().into());
        self
    }
}

/// How to compare; see [`Scope::reconcile`].
#[derive(Clone, Debug)]
#[must_use]
pub struct Reconcile {
    range: (Bound<SystemTime>, Bound<SystemTime>),
    grace: Duration,
    one_effect: bool,
    sort_bytes: usize,
    sort_dir: Option<PathBuf>,
}

impl Default for Reconcile {
    fn default() -> Reconcile {
        Reconcile::new()
    }
}

impl Reconcile {
    /// Everything up to now, with a grace of one minute.
    pub fn new() -> Reconcile {
        Reconcile {
            range: (Bound::Unbounded, Bound::Unbounded),
            grace: Duration::from_secs(60),
            one_effect: false,
            sort_bytes: 64 << 20,
            sort_dir: None,
        }
    }

    /// Which ids and effects are compared: ids by their first sight, effects by their own time.
    /// Default: all up to the moment it begins, which is the latest end of any range.
    pub fn between(mut self, range: impl RangeBounds<SystemTime>) -> Reconcile {
        self.range = (range.start_bound().cloned(), range.end_bound().cloned());
        self
    }

    /// How far the times of an id and of its effect may lie apart. What has only one of the two
    /// so near an edge of the range, or the present, is counted
    /// ([`Counts::near_edge`]) and is no fault. Default: 60 s.
    pub fn grace(mut self, grace: Duration) -> Reconcile {
        self.grace = grace;
        self
    }

    /// An id has one effect, and one that has more is a fault. Default: no; a business side may
    /// have several rows an id.
    pub fn one_effect(mut self) -> Reconcile {
        self.one_effect = true;
        self
    }

    /// The memory that the business side is sorted in, in bytes. Beyond it, it is sorted in
    /// temporary files of about its size. Default: 64 MiB.
    pub fn sort_bytes(mut self, bytes: usize) -> Reconcile {
        self.sort_bytes = bytes;
        self
    }

    /// Where those files are made; they have no names and leave nothing behind. Default: the
    /// store's `tmp`. They never take the last free space
    /// ([`Options::free_bytes_min`](crate::Options::free_bytes_min)).
    pub fn sort_dir(mut self, dir: impl Into<PathBuf>) -> Reconcile {
        self.sort_dir = Some(dir.into());
        self
    }
}

/// What is wrong with an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FindingClass {
    /// The id is known and the effect is missing: the message will never take effect, since its
    /// redelivery is a duplicate. Repaired by forgetting the id.
    EffectMissing,
    /// The effect is there and the id unknown: a redelivery would take effect again. Repaired
    /// by recording the id.
    IdUnknown,
    /// Both are there, and the effect's payload is not the one that the id was recorded with.
    /// Nothing here repairs it.
    PayloadDiffers,
    /// The effect is there more than once ([`Reconcile::one_effect`]). Nothing here repairs it.
    EffectRepeated,
}

/// A fault.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Finding {
    /// The id.
    pub id: Bytes,
    /// What is wrong with it.
    pub class: FindingClass,
    /// What is known of it, if it is known.
    pub seen: Option<Sighting>,
    /// When its effect happened, where the business side says so; the earliest of several.
    pub effect_at: Option<SystemTime>,
    /// How many rows the business side has of it.
    pub effects: u64,
}

/// How a comparison came out. Each id is counted once, in one of the first ten, or as a
/// repeated one that is a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counts {
    /// Known, and its effect is there.
    pub agreed: u64,
    /// Known, effect missing: a fault.
    pub effect_missing: u64,
    /// Unknown, effect there: a fault.
    pub id_unknown: u64,
    /// Both there, with different payloads: a fault.
    pub payload_differs: u64,
    /// Recorded by an `if_refused`, failed for good or dead-lettered, and no effect: as it
    /// should be.
    pub refused: u64,
    /// Effects of ids that are claimed, or whose outcome nobody has decided.
    pub in_progress: u64,
    /// One of the two is missing, so near an edge that it may lie beyond.
    pub near_edge: u64,
    /// Effects so old that their ids may be forgotten by their retention, or are.
    pub expired: u64,
    /// Not of the range.
    pub outside: u64,
    /// Effects that are there more than once; counted in `agreed` too unless that is a fault.
    pub effect_repeated: u64,
    /// Findings: effects missing, ids unknown, payloads that differ, and with
    /// [`Reconcile::one_effect`] the repeated.
    pub faults: u64,
    /// Ids of the scope that were remembered.
    pub ids_read: u64,
    /// Rows of the business side.
    pub effects_read: u64,
    /// Times that the memory for sorting was full.
    pub sorted_runs: u64,
}

impl Scope {
    /// Compares the scope's ids with the business side, in any order: each fault is a
    /// [`Finding`], all else is counted. The business side is any iterator: rows of a
    /// [`Table`](crate::Table::range), of a file, of another database. It is read first, then
    /// the ids; the findings stream. Changes nothing; [`Reconciliation::plan`] leads to a repair.
    ///
    /// Costs a scan of the scope, whatever the range, and a sort of the business side; memory is
    /// [`Reconcile::sort_bytes`] and what [`Scope::scan`] takes.
    ///
    /// # Errors
    /// The iterator's own; `Invalid` for an empty or oversize id; `Full` if there is no room to
    /// sort; `Damaged`, `Closed`, I/O errors; later ones come as items, and end it.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Effect, FindingClass, Options, Policy, Reconcile, Repair, Store};
    /// use std::time::Duration;
    /// let store = Store::open(dir.path(), Options::new().actor("audit"))?;
    /// let ids = store.scope("orders", Policy::remember(days(7)))?;
    /// let rows = store.table("orders")?;
    /// let _ = ids.insert_all(["order-1", "order-2"])?; // and a bug: no rows
    ///
    /// # std::thread::sleep(Duration::from_millis(5));
    /// let how = Reconcile::new().grace(Duration::ZERO);
    /// let effects = rows.range("")?.map(|row| row.map(|(key, _)| Effect::new(key)));
    /// let found = ids.reconcile(&how, effects)?;
    /// let plan = found.plan(10)?; // the dry run: nothing has changed
    /// assert_eq!(plan.counts().effect_missing, 2);
    /// assert_eq!(plan.sample()[0].class, FindingClass::EffectMissing);
    ///
    /// let repaired = plan.apply(&Repair::all("rollout 7 lost its rows"))?;
    /// assert_eq!(repaired.forgotten, 2);
    /// assert!(ids.insert("order-1")?.is_first());
    /// # Ok(()) }
    /// ```
    pub fn reconcile<E: From<Error>>(
        &self,
        how: &Reconcile,
        effects: impl IntoIterator<Item = Result<Effect, E>>,
    ) -> Result<Reconciliation, E> {
        let core = self.shared.core()?;
        self.check_not_dropped()?;
        let began_ms = core.committer.index.time.now_ms();
        let place = self.place(how);
        let mut sorter = Sorter::new(place.clone(), how.sort_bytes);
        let mut effects_read = 0;
        for effect in effects {
            effects_read += 1;
            sorter.push(self.row(effect?, effects_read)?)?;
        }
        let sorted = sorter.finish()?;
        core.committer.flush_buffer()?;
        let state = &self.used.state;
        let ids = core.committer.index.scan(state.number, state.classes())?;
        let versions = state.versions();
        let (from_ms, to_ms) = bounds(&how.range);
        let grace_ms = millis(how.grace);
        let now_ms = core.committer.index.time.now_ms();
        let rules = Rules {
            from_ms,
            to_ms: to_ms.unwrap_or(u64::MAX).min(began_ms),
            grace_ms,
            one_effect: how.one_effect,
            forgotten_to_ms: forgotten_to_ms(&versions, now_ms, grace_ms),
            now_ms,
        };
        let sides = (self.clone(), place);
        let found = Reconciliation::new(sides, ids, versions, sorted, (rules, effects_read));
        Ok(found?)
    }

    fn place(&self, how: &Reconcile) -> Place {
        let home = self.shared.home.directory().map(|dir| dir.join("tmp"));
        let dir = how.sort_dir.clone().or(home);
        Place {
            dir: dir.unwrap_or_else(std::env::temp_dir),
            reserve: self.shared.free_bytes_min(),
        }
    }

    /// A row to sort; it has the hash that the store sorts its ids by.
    fn row(&self, effect: Effect, number: u64) -> Result<Row, Error> {
        let core = self.shared.core()?;
        let len = effect.id.len();
        if !(1..=ID_BYTES_MAX).contains(&len) {
            let text = format!("effect {number} has an id of {len} bytes");
            return Err(Error::invalid(text));
        }
        let hash = core
            .committer
            .index
            .ids
            .of(self.used.state.number, &effect.id);
        let print = effect.payload.map(|body| {
            let ids = &core.committer.index.ids;
            self.used.state.fingerprint(ids, &body)
        });
        Ok(Row {
            hash,
            id: effect.id,
            at_ms: effect.at.map(ms),
            print,
        })
    }
}
