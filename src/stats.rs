//! What a store tells about itself.

use std::time::{Duration, SystemTime};

use crate::clock::ClockState;
use crate::meter::{Counts, KINDS};
use crate::mode::{Mode, OnStoreError};

mod measured;

pub use measured::{DurationStats, SurgeStats, TimeStats, Top, TopEntry, TopSource};

/// A store's counters and sizes, since it was opened unless said otherwise.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Verdicts by kind, over all scopes, also those dropped since.
    pub verdicts: VerdictStats,
    /// The same for each scope that the store has, in the order in which they were made.
    pub scopes: Vec<ScopeStats>,
    /// Claims.
    pub claims: ClaimStats,
    /// Producer sequences.
    pub sequences: SequenceStats,
    /// Outboxes, in the order in which they were made.
    pub outboxes: Vec<OutboxStats>,
    /// Prepared transactions.
    pub prepared: PreparedStats,
    /// Items that a policy let through without recording an id: they have none, or it is late.
    pub unkeyed: u64,
    /// Ids forgotten by request.
    pub forgotten: u64,
    /// Which tier gave the answers.
    pub tiers: TierStats,
    /// How long things took.
    pub times: TimeStats,
    /// Where duplicates come from; `None` unless
    /// [`Options::top_sources`](crate::Options::top_sources) was set.
    pub top: Option<Top>,
    /// Rates that left their usual band; see [`Options::on_surge`](crate::Options::on_surge).
    pub surges: SurgeStats,
    /// Front filters.
    pub filters: FilterStats,
    /// Generations, the latest first.
    pub generations: Vec<GenerationStats>,
    /// Ids that are remembered, an *estimate*: expired ones that still lie in a generation, and
    /// records that supersede others, are counted too.
    pub live_ids_estimate: u64,
    /// Ids not sealed yet, exact in memory.
    pub unsealed_ids: u64,
    /// Segments that wait to be sealed.
    pub unsealed_segments: u64,
    /// Memory of the active sets, in bytes.
    pub active_set_bytes: u64,
    /// Ids held by calls under way.
    pub ids_in_flight: u64,
    /// Commits written, and the ids they recorded.
    pub commits: u64,
    /// Ids recorded.
    pub ids_recorded: u64,
    /// Batches refused because an item stayed undecided.
    pub undecided: u64,
    /// Writes refused because the disk was full or had less than `free_bytes_min` left.
    pub refused_for_space: u64,
    /// The last commit written and the last one known durable, by number.
    pub written: u64,
    /// See `written`.
    pub durable: u64,
    /// Bytes of table files on disk.
    pub disk_bytes: u64,
    /// Bytes in the shared block cache, over all stores that share it.
    pub cache_bytes: u64,
    /// Bytes in memtables, over all stores that share the bound.
    pub memtable_bytes: u64,
    /// Memory of this store's approximate scopes, in bytes.
    pub approximate_bytes: u64,
    /// Whether RocksDB has stopped writes until its own background work has caught up.
    pub writes_stopped: bool,
    /// The rate RocksDB holds writes back to, in bytes a second; 0: it does not.
    pub write_rate_limit: u64,
    /// Background work.
    pub background: BackgroundStats,
    /// Effective time, which all verdicts use.
    pub effective_time: SystemTime,
    /// How it relates to the system's time.
    pub clock: ClockState,
    /// How often expiry froze because the system's clock jumped ahead.
    pub clock_freezes: u64,
    /// Whether it serves.
    pub health: Health,
    /// Expected and found commit number, if this open accepted a short recovery.
    pub recovered_short: Option<(u64, u64)>,
}

/// How far a store reaches that was opened to be read only.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct AsOf {
    /// The last commit that was seen, by number.
    pub commit: u64,
    /// The last one that was known to be safe from a power failure.
    pub durable: u64,
    /// The store's effective time when it was looked at.
    pub at: SystemTime,
    /// The number of the process that had it open then, as text; `None`: none had.
    pub open_by: Option<String>,
}

/// Verdicts by kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct VerdictStats {
    /// First seen.
    pub first: u64,
    /// Duplicates.
    pub duplicates: u64,
    /// In progress.
    pub in_progress: u64,
    /// Refused by a condition.
    pub refused: u64,
    /// Bad ids.
    pub bad_ids: u64,
    /// Declined.
    pub declined: u64,
    /// Seen before with another payload.
    pub payload_mismatches: u64,
    /// Failed for good.
    pub failed: u64,
    /// Dead-lettered.
    pub dead_lettered: u64,
    /// Outcome unknown.
    pub outcome_unknown: u64,
    /// Too old to tell.
    pub late: u64,
    /// Of an epoch that has ended.
    pub fenced: u64,
    /// Of a producer that is not known.
    pub unknown_producers: u64,
    /// Let through by a scope that only observes ([`Mode::ObserveOnly`](crate::Mode::ObserveOnly)).
    pub observed: u64,
}

/// Producer sequences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SequenceStats {
    /// Producers in memory, of the spaces that were asked for since the store was opened.
    pub producers: u64,
    /// Producers that went because there were too many.
    pub evicted: u64,
    /// Verdicts on numbers, over all spaces.
    pub verdicts: VerdictStats,
}

/// Prepared transactions, and how they ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PreparedStats {
    /// Transactions in doubt now, those of earlier openings included.
    pub now: u64,
    /// Bytes that they take.
    pub bytes: u64,
    /// How long ago the oldest of them was prepared, in effective time.
    pub oldest: Option<Duration>,
    /// Committed since the open.
    pub committed: u64,
    /// Aborted since the open.
    pub aborted: u64,
}

/// Claims, and what was done with them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimStats {
    /// Claims there are now, those included that wait for an attempt or a decision.
    pub now: u64,
    /// Claims taken.
    pub taken: u64,
    /// Completed.
    pub completed: u64,
    /// Failed for good.
    pub failed: u64,
    /// Attempts that ended without an outcome: failed, released, unknown.
    pub retried: u64,
    /// Renewed.
    pub renewed: u64,
    /// Calls that found their claim lost.
    pub lost: u64,
    /// Claims taken that were no first attempt.
    pub repeated: u64,
    /// Dead letters redriven.
    pub redriven: u64,
    /// Dead letters purged.
    pub purged: u64,
    /// Unknown outcomes decided.
    pub decided: u64,
}

impl VerdictStats {
    pub(crate) fn from_counts(counts: Counts) -> VerdictStats {
        let [
            first,
            duplicates,
            in_progress,
            refused,
            bad_ids,
            declined,
            payload_mismatches,
            failed,
            dead_lettered,
            outcome_unknown,
            late,
            fenced,
            unknown_producers,
            observed,
        ] = counts;
        VerdictStats {
            first,
            duplicates,
            in_progress,
            refused,
            bad_ids,
            declined,
            payload_mismatches,
            failed,
            dead_lettered,
            outcome_unknown,
            late,
            fenced,
            unknown_producers,
            observed,
        }
    }

    /// Each kind by the name it is exported under.
    pub(crate) fn named(&self) -> [(&'static str, u64); KINDS] {
        [
            ("first", self.first),
            ("duplicate", self.duplicates),
            ("in_progress", self.in_progress),
            ("refused", self.refused),
            ("bad_id", self.bad_ids),
            ("declined", self.declined),
            ("payload_mismatch", self.payload_mismatches),
            ("failed", self.failed),
            ("dead_lettered", self.dead_lettered),
            ("outcome_unknown", self.outcome_unknown),
            ("late", self.late),
            ("fenced", self.fenced),
            ("unknown_producer", self.unknown_producers),
            ("observed", self.observed),
        ]
    }

    /// Duplicates among the ids decided, 0 to 1: the interception rate.
    #[must_use]
    pub fn duplicate_share(&self) -> f64 {
        let decided = self.first + self.duplicates;
        if decided == 0 {
            0.0
        } else {
            self.duplicates as f64 / decided as f64
        }
    }
}

/// One scope.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ScopeStats {
    /// Its name.
    pub name: String,
    /// Its verdicts by kind.
    pub verdicts: VerdictStats,
    /// Whether it keeps out what was seen before.
    pub mode: Mode,
    /// What would have been kept out, had it not only observed, by the verdict that would have
    /// done it.
    pub observed: VerdictStats,
    /// What its handlers do when the store fails.
    pub on_store_error: OnStoreError,
    /// Effects that a handler made without a claim, since the store had failed.
    pub failed_open: u64,
    /// Its claims by state; `None` if it never had one since the open.
    pub claims: Option<ClaimStates>,
    /// Its dead letters.
    pub dead_letters: u64,
}

/// The claims of a scope by state. Those that have expired count until they are swept, once a
/// minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimStates {
    /// Somebody works on them.
    pub held: ClaimGroup,
    /// Their lease ran out, and nobody has taken them over.
    pub lapsed: ClaimGroup,
    /// An attempt ended without an outcome; they wait for the next one.
    pub waiting: ClaimGroup,
    /// Their outcome is unknown, and somebody must decide
    /// ([`Scope::decide`](crate::Scope::decide)).
    pub unknown: ClaimGroup,
}

impl ClaimStates {
    /// Each by the name it is exported under.
    pub(crate) fn named(&self) -> [(&'static str, ClaimGroup); 4] {
        [
            ("held", self.held),
            ("lapsed", self.lapsed),
            ("waiting", self.waiting),
            ("unknown", self.unknown),
        ]
    }
}

/// Claims in one state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimGroup {
    /// How many.
    pub count: u64,
    /// How long ago the first of them was first claimed; zero if there are none.
    pub oldest: Duration,
}

/// One outbox. The numbers are exact, and of its whole life.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStats {
    /// Its name.
    pub name: String,
    /// Messages sent: the last number.
    pub sent: u64,
    /// Messages acknowledged: the number up to which they are.
    pub acknowledged: u64,
    /// Messages that wait: its depth. Buffered commits are not counted yet.
    pub waiting: u64,
    /// Acknowledged messages that are still there, for a rewind.
    pub kept: u64,
    /// When the first of those that wait was sent, by the store's clock.
    pub oldest_at: Option<SystemTime>,
}

/// Which tier gave the answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TierStats {
    /// Found in the active set, in memory.
    pub active_set: u64,
    /// Ruled out by memory alone: not in the active set, and every filter said no.
    pub filters: u64,
    /// Found in a generation.
    pub generations: u64,
    /// Asked in a generation and not there.
    pub generations_missed: u64,
}

/// Front filters.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct FilterStats {
    /// Runs with a filter in memory.
    pub count: u64,
    /// Runs without one: not loaded yet, or given up for memory.
    pub missing: u64,
    /// Memory of this store's filters and sieves, in bytes.
    pub bytes: u64,
    /// Probes.
    pub probes: u64,
    /// Probes that said "maybe" of an id that was not there.
    pub false_positives: u64,
    /// Pages asked because a run had no filter.
    pub unfiltered: u64,
}

impl FilterStats {
    /// False positives a probe, as observed.
    #[must_use]
    pub fn false_positive_rate(&self) -> f64 {
        if self.probes == 0 {
            0.0
        } else {
            self.false_positives as f64 / self.probes as f64
        }
    }
}

/// One generation.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct GenerationStats {
    /// When its slice ends and it is dropped; `None`: never.
    pub ends_at: Option<SystemTime>,
    /// Its retention class.
    pub class: u8,
    /// Runs it has.
    pub runs: u64,
    /// Records in it, an estimate of its ids.
    pub ids_estimate: u64,
    /// Bytes of its files.
    pub disk_bytes: u64,
}

/// Background work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct BackgroundStats {
    /// Segments sealed.
    pub seals: u64,
    /// Merges of runs.
    pub merges: u64,
    /// Generations dropped.
    pub drops: u64,
    /// Ids replayed from the log at open.
    pub replayed_ids: u64,
    /// Filters loaded from snapshots, and built again from pages.
    pub filters_loaded: u64,
    /// See `filters_loaded`.
    pub filters_rebuilt: u64,
    /// Calls that waited for room, and how long in all.
    pub stalls: u64,
    /// See `stalls`.
    pub stalled: Duration,
    /// Threads that the stores of these resources share.
    pub threads: u64,
    /// Rounds of background work that failed; most are tried again ([`Health`] tells).
    pub failures: u64,
    /// Failures of RocksDB's own flushes and compactions. After a full disk it goes on by itself.
    pub errors: u64,
}

/// Whether a store serves, for probes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Health {
    /// All is well.
    Ready,
    /// It serves, slower than usual: filters are still being loaded.
    Warming {
        /// Runs whose filter is ready.
        filters_ready: usize,
        /// All runs.
        filters: usize,
    },
    /// It does not write, or its background work failed, or time is frozen. The text says which,
    /// and whether it passes by itself (a full disk) or takes a reopening.
    Degraded(String),
}
