//! Settings of a store and what the stores of one process share.
//!
//! Nothing here is stored: two opens of one store may use different options. What *is* stored
//! belongs to scopes and tables. Setters consume and never fail; [`Options::validate`] reports
//! every violation at once when the store is opened.

mod noticing;
mod prepared;

use std::time::Duration;

use crate::clock::Clock;
use crate::error::{Error, Result};
use crate::meter::TopLimits;
use crate::resources::Resources;
use crate::surge::SurgeHook;

pub(crate) use prepared::DoubtLimits;

/// When a commit returns, and what a crash may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub enum Durability {
    /// Queued in memory and written a few milliseconds later, many commits as one. A killed
    /// process loses the last moments: ids and mutations together.
    Buffered,
    /// Handed to the operating system. A killed process loses nothing; a power failure may take
    /// the last moments, ids and mutations together.
    #[default]
    Written,
    /// On the disk. Nothing is lost.
    Synced,
}

/// Settings of a store.
///
/// ```
/// use firstseen::{Durability, Options};
/// use std::time::Duration;
/// let options = Options::new()
///     .durability(Durability::Synced)
///     .wait_max(Duration::from_secs(2));
/// # let _ = options;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Options {
    pub(crate) durability: Durability,
    pub(crate) clock: Clock,
    pub(crate) wait_max: Duration,
    pub(crate) resources: Option<Resources>,
    pub(crate) segment_age_max: Duration,
    pub(crate) clock_jump_max: Duration,
    pub(crate) accept_recovered_short: bool,
    pub(crate) free_bytes_min: u64,
    pub(crate) audit_rows_max: u64,
    pub(crate) audit_age_max: Duration,
    pub(crate) actor: Option<String>,
    pub(crate) batch_items_max: usize,
    pub(crate) batch_bytes_max: usize,
    pub(crate) buffer_interval: Duration,
    pub(crate) wal_bytes_max: u64,
    /// None: as the budget of filters allows.
    pub(crate) filter_bits_per_id: Option<u32>,
    pub(crate) slices_per_class: u32,
    pub(crate) generations_max: u32,
    pub(crate) scopes_max: u16,
    pub(crate) tables_max: u32,
    pub(crate) claims_max: usize,
    pub(crate) claims_durability: Durability,
    pub(crate) doubts: DoubtLimits,
    pub(crate) segment_ids_max: Option<usize>,
    pub(crate) top: TopLimits,
    pub(crate) surge: Option<SurgeHook>,
    pub(crate) surge_interval: Duration,
    pub(crate) background: bool,
    pub(crate) closures_twice: bool,
    pub(crate) tuning: crate::engine::FamilyTuning,
    #[cfg(all(feature = "testing", feature = "raw"))]
    pub(crate) env: Option<crate::raw::RocksEnv>,
}

impl Default for Options {
    fn default() -> Options {
        Options::new()
    }
}

impl Options {
    /// The defaults, each stated at its setter.
    pub fn new() -> Options {
        Options {
            durability: Durability::default(),
            clock: Clock::default(),
            wait_max: Duration::from_secs(5),
            resources: None,
            segment_age_max: Duration::from_secs(60),
            clock_jump_max: Duration::from_secs(86_400),
            accept_recovered_short: false,
            free_bytes_min: 64 << 20,
            audit_rows_max: 1_000_000,
            audit_age_max: crate::policy::days(731),
            actor: None,
            batch_items_max: 100_000,
            batch_bytes_max: 64 << 20,
            buffer_interval: Duration::from_millis(2),
            wal_bytes_max: 1 << 30,
            filter_bits_per_id: None,
            slices_per_class: 8,
            generations_max: 32,
            scopes_max: 1024,
            tables_max: 1024,
            claims_max: 100_000,
            claims_durability: Durability::Synced,
            doubts: DoubtLimits::default(),
            segment_ids_max: None,
            top: TopLimits {
                capacity: 0,
                window: Duration::from_secs(600),
            },
            surge: None,
            surge_interval: Duration::from_secs(10),
            background: true,
            closures_twice: false,
            tuning: crate::engine::FamilyTuning::default(),
            #[cfg(all(feature = "testing", feature = "raw"))]
            env: None,
        }
    }

    // --- What changes behaviour ---

    /// The level of commits that don't choose their own. Default: [`Durability::Written`].
    pub fn durability(mut self, level: Durability) -> Options {
        self.durability = level;
        self
    }

    /// Where time comes from. Default: the system's clocks.
    pub fn clock(mut self, clock: Clock) -> Options {
        self.clock = clock;
        self
    }

    /// The longest a call waits: for an id or a row that another caller holds, for room when
    /// sealing falls behind. Then it answers `InProgress`, `Undecided` or `Busy`, and nothing
    /// was recorded. Default: 5 s.
    pub fn wait_max(mut self, wait: Duration) -> Options {
        self.wait_max = wait;
        self
    }

    /// How far the wall clock may jump ahead before expiry freezes rather than follows.
    /// Default: 24 h.
    pub fn clock_jump_max(mut self, jump: Duration) -> Options {
        self.clock_jump_max = jump;
        self
    }

    /// Opens a store that came back with less than was once durable, instead of refusing it
    /// with `RecoveredShort`. Its resume points say from where to replay. Default: no.
    pub fn accept_recovered_short(mut self, accept: bool) -> Options {
        self.accept_recovered_short = accept;
        self
    }

    /// Writes are refused with `Full` while the file system has less free space than this,
    /// in bytes; nothing is recorded then, and the same call may be made again. Reads go on, and
    /// so does background work, which leaves a quarter of it. Default: 64 MiB, more than others
    /// fill between two looks (20 ms). 0 turns it off: then a write may meet the end of the
    /// disk, which mostly passes too, some seconds later.
    pub fn free_bytes_min(mut self, bytes: u64) -> Options {
        self.free_bytes_min = bytes;
        self
    }

    /// The most entries of the audit; 1,000 or more, default 1,000,000 (about 100 bytes each).
    /// Beyond it the oldest go, and are counted ([`AuditScan::gone`](crate::AuditScan::gone));
    /// whoever must keep them exports them in time.
    pub fn audit_rows_max(mut self, rows: u64) -> Options {
        self.audit_rows_max = rows;
        self
    }

    /// How old an entry of the audit gets; a day or more, default two years. Older ones go with the
    /// next audited act or within an hour, and are counted as those that are too many.
    pub fn audit_age_max(mut self, age: Duration) -> Options {
        self.audit_age_max = age;
        self
    }

    /// Who acts, for the audit: a service's or a person's name, at most 255 bytes; a
    /// [`Why`](crate::Why) may name another. Default: nobody is named.
    pub fn actor(mut self, name: impl Into<String>) -> Options {
        self.actor = Some(name.into()).filter(|name| !name.is_empty());
        self
    }

    /// The most items a batch may have. Default: 100,000.
    pub fn batch_items_max(mut self, items: usize) -> Options {
        self.batch_items_max = items;
        self
    }

    /// The most bytes of ids and writes a batch may have. Default: 64 MiB.
    pub fn batch_bytes_max(mut self, bytes: usize) -> Options {
        self.batch_bytes_max = bytes;
        self
    }

    /// How long a `Buffered` commit may stay in memory. Default: 2 ms.
    pub fn buffer_interval(mut self, interval: Duration) -> Options {
        self.buffer_interval = interval;
        self
    }

    /// The most scopes a store may have; 1 to 65,000, default 1,024.
    pub fn scopes_max(mut self, scopes: u16) -> Options {
        self.scopes_max = scopes;
        self
    }

    /// The most tables a store may have; each is a column family. Default: 1,024.
    pub fn tables_max(mut self, tables: u32) -> Options {
        self.tables_max = tables;
        self
    }

    /// The most claims ([`Scope::claim`](crate::Scope::claim)) a store may have that are not
    /// completed yet, those that wait for their next attempt included; they are kept in memory,
    /// some 300 bytes each. Beyond it a claim is `Full`. Default: 100,000.
    pub fn claims_max(mut self, claims: usize) -> Options {
        self.claims_max = claims;
        self
    }

    /// The level of what is done with claims: taking, renewing, completing, failing, releasing
    /// them. Their effects lie outside the store, so that a claim which a power failure takes may
    /// be an effect that happens twice. `Buffered` counts as `Written`. Default:
    /// [`Durability::Synced`].
    pub fn claims_durability(mut self, level: Durability) -> Options {
        self.claims_durability = level;
        self
    }

    // --- What changes performance only ---

    /// Shares cache, filter memory, segment memory and threads with other stores of this
    /// process. Default: resources of its own.
    pub fn resources(mut self, resources: &Resources) -> Options {
        self.resources = Some(resources.clone());
        self
    }

    /// A segment that holds anything is sealed after this time, also when it is not full.
    /// Default: 60 s.
    pub fn segment_age_max(mut self, age: Duration) -> Options {
        self.segment_age_max = age;
        self
    }

    /// The most ids of a segment. Default: what the share of
    /// [`Resources::segment_bytes`] allows.
    pub fn segment_ids_max(mut self, ids: usize) -> Options {
        self.segment_ids_max = Some(ids);
        self
    }

    /// The write-ahead log's size that makes RocksDB flush what pins it, in bytes. Bounds the
    /// time to reopen. Default: 1 GiB.
    pub fn wal_bytes_max(mut self, bytes: u64) -> Options {
        self.wal_bytes_max = bytes;
        self
    }

    /// Filter bits an id; 0 (no filters) or 4 to 32. Default: 24 (about one false positive in
    /// 10,000 a generation) for runs whose filter finds room in the first eighth of
    /// [`Resources::filter_bytes`], 17 (one in 1,600) for the others.
    pub fn filter_bits_per_id(mut self, bits: u32) -> Options {
        self.filter_bits_per_id = Some(bits);
        self
    }

    /// Into how many generations the time of a retention class is cut; 1 to 8, default 8.
    /// Fewer generations cost fewer probes and keep expired ids longer on disk. Matters when a
    /// class is first used; stored with it.
    pub fn slices_per_class(mut self, slices: u32) -> Options {
        self.slices_per_class = slices;
        self
    }

    /// The most generations (column families) all retention classes may need together;
    /// 3 to 64, default 32. A scope whose class would need more is refused.
    pub fn generations_max(mut self, generations: u32) -> Options {
        self.generations_max = generations;
        self
    }

    /// Runs every closure twice before it takes effect, so that a test notices one that relies
    /// on running once.
    #[cfg(feature = "testing")]
    pub fn closures_twice(mut self, twice: bool) -> Options {
        self.closures_twice = twice;
        self
    }

    /// Whether sealing, merging and dropping happen by themselves; without it only
    /// [`Store::seal`](crate::Store::seal) and [`Store::compact`](crate::Store::compact) do
    /// them, so that a test is repeatable.
    #[cfg(feature = "testing")]
    pub fn background(mut self, background: bool) -> Options {
        self.background = background;
        self
    }

    /// RocksDB options of one table, instead of ours. They apply whenever the store is opened
    /// with them; the store's own families can't be tuned.
    #[cfg(feature = "raw")]
    pub fn table_options(mut self, table: &str, options: crate::raw::RocksOptions) -> Options {
        self.tuning.set(table, options);
        self
    }

    /// Sends RocksDB's files through an environment, so that a test can fail and lose them. The
    /// store's own small files (floor, filters, lock) stay with the system's.
    #[cfg(all(feature = "testing", feature = "raw"))]
    #[doc(hidden)]
    pub fn env(mut self, env: &crate::raw::RocksEnv) -> Options {
        self.env = Some(env.clone());
        self
    }

    /// Every violation at once, in one error.
    pub(crate) fn validate(&self) -> Result<()> {
        let mut wrong = Vec::new();
        let mut check = |ok: bool, text: &str| {
            if !ok {
                wrong.push(text.to_string());
            }
        };
        check(
            self.batch_items_max >= 1,
            "batch_items_max must be 1 or more",
        );
        check(
            self.batch_items_max < 1 << 31,
            "batch_items_max must be below 2^31",
        );
        check(
            self.batch_bytes_max >= 1024,
            "batch_bytes_max must be 1,024 or more",
        );
        check(
            self.batch_bytes_max <= 1 << 30,
            "batch_bytes_max must be at most 1 GiB",
        );
        check(
            self.audit_rows_max >= 1000,
            "audit_rows_max must be 1,000 or more",
        );
        check(
            self.audit_age_max >= Duration::from_secs(86_400),
            "audit_age_max must be a day or more",
        );
        check(
            self.actor
                .as_ref()
                .is_none_or(|who| who.len() <= crate::why::WHO_BYTES_MAX),
            "actor must have at most 255 bytes",
        );
        check(
            self.filter_bits_per_id
                .is_none_or(|bits| bits == 0 || (4..=32).contains(&bits)),
            "filter_bits_per_id must be 0 or 4 to 32",
        );
        check(
            (1..=8).contains(&self.slices_per_class),
            "slices_per_class must be 1 to 8",
        );
        check(
            (3..=64).contains(&self.generations_max),
            "generations_max must be 3 to 64",
        );
        check(
            (1..=65_000).contains(&self.scopes_max),
            "scopes_max must be 1 to 65,000",
        );
        self.check_noticing(&mut check);
        self.check_doubts(&mut check);
        check(self.tables_max >= 1, "tables_max must be 1 or more");
        check(self.claims_max >= 1, "claims_max must be 1 or more");
        check(
            self.segment_ids_max != Some(0),
            "segment_ids_max must be 1 or more",
        );
        check(
            self.wal_bytes_max >= 1 << 20,
            "wal_bytes_max must be 1 MiB or more",
        );
        check(
            self.buffer_interval <= Duration::from_secs(1),
            "buffer_interval must be at most 1 s",
        );
        if wrong.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(format!("options: {}", wrong.join("; "))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_violation_is_listed() {
        let error = Options::new()
            .batch_items_max(0)
            .filter_bits_per_id(99)
            .slices_per_class(0)
            .validate()
            .unwrap_err();
        for part in ["batch_items_max", "filter_bits_per_id", "slices_per_class"] {
            assert!(error.to_string().contains(part), "{error} lacks {part}");
        }
        assert!(Options::new().validate().is_ok());
    }
}
