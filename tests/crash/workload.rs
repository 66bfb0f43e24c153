//! What the killed children do, as a function of seed, thread and number, so that the parent
//! knows each batch without being told.
//!
//! Three threads send batches with resume points. Ids of the long scopes are shared: all threads
//! send much the same ones at much the same time, so who is first is a race. Ids of the short
//! scopes are a thread's own, and sent twice, a batch apart. The limited scope's counters have a
//! bound, so that its messages are refused once it is reached.

use std::time::Duration;

use firstseen::{Durability, Options, Policy, Resources, days};

/// Threads that send batches.
pub(crate) const SENDERS: usize = 3;
/// Rows of counters a scope has.
pub(crate) const BUCKETS: u64 = 4;
/// What a counter of the limited scope may come to.
pub(crate) const LIMIT: i64 = 9;
/// Batches that may be under way at once for one source.
pub(crate) const SUBMITTED: u64 = 3;
/// The retention of the short scopes.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// The scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum In {
    Week,
    Forever,
    Limited,
    Short,
    Sliding,
    /// Buffered commits only.
    Buffered,
}

pub(crate) const SCOPES: [In; 6] = [
    In::Week,
    In::Forever,
    In::Limited,
    In::Short,
    In::Sliding,
    In::Buffered,
];

impl In {
    pub(crate) fn name(self) -> &'static str {
        match self {
            In::Week => "week",
            In::Forever => "forever",
            In::Limited => "limited",
            In::Short => "short",
            In::Sliding => "sliding",
            In::Buffered => "buffered",
        }
    }

    pub(crate) fn named(name: &str) -> In {
        let found = SCOPES.into_iter().find(|s| s.name() == name);
        found.unwrap_or_else(|| panic!("no scope {name}"))
    }

    pub(crate) fn policy(self) -> Policy {
        match self {
            In::Week => Policy::remember(days(7)),
            In::Limited => Policy::remember(days(30)),
            In::Forever | In::Buffered => Policy::forever(),
            In::Short => Policy::remember(SHORT),
            In::Sliding => Policy::sliding(SHORT, 4 * SHORT),
        }
    }

    /// Whether an id may be first once only, ever, as far as a test lives.
    pub(crate) fn is_long(self) -> bool {
        !matches!(self, In::Short | In::Sliding)
    }
}

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) scope: In,
    pub(crate) id: String,
}

/// A batch.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) messages: Vec<Message>,
    pub(crate) level: Durability,
    /// One message, by a closure.
    pub(crate) by_closure: bool,
    /// Handed in together with those that follow, [`SUBMITTED`] in all.
    pub(crate) submitted: bool,
}

/// The n-th batch of a thread.
pub(crate) fn plan(seed: u64, thread: usize, n: u64) -> Plan {
    let mut rng = fastrand::Rng::with_seed(seed ^ (n << 8 | thread as u64));
    let by_closure = thread == 2 && n.is_multiple_of(3);
    let count = if by_closure { 1 } else { rng.u64(1..12) };
    let messages = (0..count).map(|i| {
        let own = format!("{thread}-{}-{i}", n / 2);
        let (kind, shared) = (rng.u8(0..9), (n * 5 + rng.u64(0..60)).to_string());
        let (scope, id) = match kind {
            0 => (In::Short, own),
            1 => (In::Sliding, own),
            2 if !by_closure => (In::Limited, shared),
            k if k % 2 == 0 => (In::Week, shared),
            _ => (In::Forever, shared),
        };
        Message { scope, id }
    });
    let messages = messages.collect();
    let submitted = thread == 0 && n % 8 < SUBMITTED;
    let level = match thread {
        1 if n.is_multiple_of(4) => Durability::Synced,
        0 if submitted && (n / 8).is_multiple_of(2) => Durability::Synced,
        _ => Durability::Written,
    };
    Plan {
        messages,
        level,
        by_closure,
        submitted: submitted && n.is_multiple_of(8),
    }
}

/// Messages of a buffered batch.
pub(crate) const BUFFERED: usize = 3;

/// The i-th message of a run's n-th buffered batch.
pub(crate) fn buffered(run: u64, n: u64, i: usize) -> Message {
    Message {
        scope: In::Buffered,
        id: format!("{run}-{n}-{i}"),
    }
}

/// The source of a thread's batches.
pub(crate) fn source(thread: usize) -> String {
    format!("source-{thread}")
}

/// The counter that a message counts in.
pub(crate) fn counter(scope: In, id: &str) -> String {
    let sum: u64 = id.bytes().map(u64::from).sum();
    format!("{} {}", scope.name(), sum % BUCKETS)
}

/// Small segments, so that sealing, merging and dropping go on all the time.
pub(crate) fn options() -> Options {
    let resources = Resources::new()
        .cache_bytes(16 << 20)
        .segment_bytes(16 << 20);
    Options::new()
        .resources(&resources)
        .segment_ids_max(60)
        .slices_per_class(2)
}
