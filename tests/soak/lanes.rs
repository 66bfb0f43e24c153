//! The lanes: what each thread sends, at which level, and how long it is remembered.
//!
//! A lane has a scope, a source and ids of its own, so that it knows every answer. Its batches
//! are numbered from 0 without a gap; ids follow from seed, lane, batch and place by a keyed
//! hash, and nothing about them is kept but a slot a batch.

use std::time::{Duration, SystemTime};

use firstseen::{Durability, Error, Options, Policy, Resources, Scope, Store, Table, Writes, days};
use xxhash_rust::xxh3::xxh3_128_with_seed;

use super::book::Slot;

/// How a lane sends.
#[derive(Debug)]
pub(crate) struct Lane {
    pub(crate) name: &'static str,
    /// How long its ids are remembered; none: for ever.
    pub(crate) retention_ms: Option<u64>,
    /// For a sliding retention, the longest time from first sight.
    pub(crate) cap_ms: Option<u64>,
    /// Ids of a batch, and how many of them write a row.
    pub(crate) ids: usize,
    pub(crate) rows: usize,
    pub(crate) level: Durability,
    /// Batches submitted at once; 1: committed by a call.
    pub(crate) depth: usize,
    /// Whether each id adds to counters and moves money between accounts.
    pub(crate) is_guarded: bool,
    /// Where nothing expires during a run: the most batches a second, to bound the disk.
    pub(crate) per_second: Option<u64>,
}

const LANE: Lane = Lane {
    name: "",
    retention_ms: None,
    cap_ms: None,
    ids: 50,
    rows: 4,
    level: Durability::Written,
    depth: 1,
    is_guarded: false,
    per_second: None,
};

/// All lanes. The first two retentions get classes with all their slices.
pub(crate) const LANES: [Lane; 7] = [
    Lane {
        name: "flash",
        retention_ms: Some(5_000),
        ids: 500,
        ..LANE
    },
    Lane {
        name: "short",
        retention_ms: Some(20_000),
        ids: 100,
        rows: 20,
        is_guarded: true,
        ..LANE
    },
    Lane {
        name: "piped",
        retention_ms: Some(40_000),
        level: Durability::Synced,
        depth: 8,
        is_guarded: true,
        ..LANE
    },
    Lane {
        name: "buffered",
        retention_ms: Some(10_000),
        ids: 20,
        level: Durability::Buffered,
        ..LANE
    },
    Lane {
        name: "sliding",
        retention_ms: Some(4_000),
        cap_ms: Some(10_000),
        ..LANE
    },
    Lane {
        name: "week",
        retention_ms: Some(7 * 86_400_000),
        ids: 10,
        level: Durability::Synced,
        is_guarded: true,
        per_second: Some(20),
        ..LANE
    },
    Lane {
        name: "forever",
        ids: 1,
        rows: 1,
        per_second: Some(100),
        ..LANE
    },
];

/// How far the store's time may be from what this process reads around a call.
pub(crate) const SLACK_MS: u64 = 100;
/// Rows that a lane writes in turn.
const ROWS: u64 = 512;
pub(crate) const COUNTERS: usize = 4;
pub(crate) const ACCOUNTS: usize = 8;
pub(crate) const MONEY: i64 = 1_000;

impl Lane {
    fn policy(&self) -> Policy {
        match (self.retention_ms, self.cap_ms) {
            (None, _) => Policy::forever(),
            (Some(ms), None) => Policy::remember(Duration::from_millis(ms)),
            (Some(ms), Some(cap)) => {
                Policy::sliding(Duration::from_millis(ms), Duration::from_millis(cap))
            }
        }
    }

    /// Until when a slot's ids are certainly remembered, and from when certainly not.
    pub(crate) fn window(&self, slot: &Slot) -> (u64, u64) {
        let Some(ms) = self.retention_ms else {
            return (u64::MAX, u64::MAX);
        };
        let end = |first: u64, last: u64| match self.cap_ms {
            Some(cap) => last.saturating_add(ms).min(first.saturating_add(cap)),
            None => first.saturating_add(ms),
        };
        let lives = end(slot.from_ms, slot.last_from_ms).saturating_sub(SLACK_MS);
        let gone = end(slot.to_ms, slot.last_to_ms).saturating_add(SLACK_MS);
        (lives, gone)
    }

    /// Whether its batches have resume points; with one a commit is never buffered.
    pub(crate) fn has_points(&self) -> bool {
        self.level != Durability::Buffered
    }

    /// What all counters of the lane add up to after so many batches.
    pub(crate) fn counted(&self, batches: u64) -> i64 {
        i64::try_from(batches * self.ids as u64).expect("a sum within bounds")
    }
}

/// The ids of a batch.
pub(crate) fn ids(seed: u64, lane: usize, batch: u64, count: usize) -> Vec<[u8; 16]> {
    (0..count).map(|i| id(seed, lane, batch, i)).collect()
}

/// One id.
pub(crate) fn id(seed: u64, lane: usize, batch: u64, place: usize) -> [u8; 16] {
    let mut text = [0; 24];
    text[..8].copy_from_slice(&(lane as u64).to_le_bytes());
    text[8..16].copy_from_slice(&batch.to_le_bytes());
    text[16..].copy_from_slice(&(place as u64).to_le_bytes());
    xxh3_128_with_seed(&text, seed).to_be_bytes()
}

pub(crate) fn row(lane: usize, batch: u64, place: usize) -> String {
    format!("{lane} {} {place}", batch % ROWS)
}

pub(crate) fn counter(lane: usize, place: usize) -> String {
    format!("{lane} {}", place % COUNTERS)
}

/// The accounts that an id moves a coin between.
pub(crate) fn accounts(id: &[u8; 16]) -> (String, String) {
    let from = usize::from(id[0]) % ACCOUNTS;
    let to = (from + 1 + usize::from(id[1]) % (ACCOUNTS - 1)) % ACCOUNTS;
    (from.to_string(), to.to_string())
}

/// What a first sight of the id writes.
pub(crate) fn effects(
    open: &Open,
    writes: &mut Writes<'_>,
    at: (usize, u64, usize),
    id: &[u8; 16],
) {
    let (lane, batch, place) = at;
    if place < LANES[lane].rows {
        writes.put(&open.rows, row(lane, batch, place), batch.to_le_bytes());
    }
    if LANES[lane].is_guarded {
        let (from, to) = accounts(id);
        writes
            .add(&open.counters, counter(lane, place), 1, 0..)
            .add(&open.accounts, from, -1, ..)
            .add(&open.accounts, to, 1, ..);
    }
}

/// An open store with all handles.
pub(crate) struct Open {
    pub(crate) store: Store,
    pub(crate) scopes: Vec<Scope>,
    pub(crate) hot: Scope,
    pub(crate) rows: Table,
    pub(crate) counters: Table,
    pub(crate) accounts: Table,
    pub(crate) hot_counters: Table,
}

impl Open {
    pub(crate) fn new(dir: &std::path::Path, options: Options) -> Result<Open, Error> {
        let store = Store::open(dir, options)?;
        let scopes = LANES
            .iter()
            .map(|lane| store.scope(lane.name, lane.policy()));
        let open = Open {
            scopes: scopes.collect::<Result<_, _>>()?,
            hot: store.scope("hot", Policy::remember(Duration::from_secs(40)))?,
            rows: store.table("rows")?,
            counters: store.guarded_table("counters")?,
            accounts: store.guarded_table("accounts")?,
            hot_counters: store.guarded_table("hot")?,
            store,
        };
        let once = open.store.scope("once", Policy::remember(days(7)))?;
        let mut batch = open.store.batch();
        let mut writes = batch.once(&once, "accounts");
        for account in 0..ACCOUNTS {
            writes.put(&open.accounts, account.to_string(), MONEY.to_le_bytes());
        }
        let _ = batch.commit()?;
        Ok(open)
    }
}

pub(crate) const SEGMENT_BYTES: usize = 64 << 20;
pub(crate) const CACHE_BYTES: usize = 32 << 20;
pub(crate) const FILTER_BYTES: usize = 64 << 20;
pub(crate) const MEMTABLE_BYTES: usize = 64 << 20;
pub(crate) const WAL_BYTES: u64 = 64 << 20;

/// Small bounds, so that a run meets all of them.
pub(crate) fn options() -> Options {
    let resources = Resources::new()
        .segment_bytes(SEGMENT_BYTES)
        .cache_bytes(CACHE_BYTES)
        .filter_bytes(FILTER_BYTES)
        .memtable_bytes(MEMTABLE_BYTES);
    Options::new()
        .resources(&resources)
        .wal_bytes_max(WAL_BYTES)
        .segment_age_max(Duration::from_secs(5))
        .generations_max(64)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the oracle follows the wall clock"
)]
pub(crate) fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.expect("after 1970").as_millis()).expect("before the year 584,556,019")
}
