//! What the killed children do, as a function of seed, thread and number, so that the parent
//! knows each batch without being told.
//!
//! Three threads send batches with resume points. Ids of the long scopes are shared: all threads
//! send much the same ones at much the same time, so who is first is a race. Ids of the short
//! scopes are a thread's own, and sent twice, a batch apart.

use std::time::Duration;

use firstseen::{Durability, Options, Policy, Resources, days};

/// Threads that send batches.
pub(crate) const SENDERS: usize = 3;
/// Rows of counters a scope has.
pub(crate) const BUCKETS: u64 = 4;
/// The retention of the short scopes.
pub(crate) const SHORT: Duration = Duration::from_millis(150);

/// The scopes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum In {
    Week,
    Forever,
    Short,
    Sliding,
    /// Buffered commits only.
    Buffered,
}

pub(crate) const SCOPES: [In; 5] = [In::Week, In::Forever, In::Short, In::Sliding, In::Buffered];

impl In {
    pub(crate) fn name(self) -> &'static str {
        match self {
            In::Week => "week",
            In::Forever => "forever",
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
}

/// The n-th batch of a thread.
pub(crate) fn plan(seed: u64, thread: usize, n: u64) -> Plan {
    let mut rng = fastrand::Rng::with_seed(seed ^ (n << 8 | thread as u64));
    let by_closure = thread == 2 && n.is_multiple_of(3);
    let count = if by_closure { 1 } else { rng.u64(1..12) };
    let messages = (0..count).map(|i| match rng.u8(0..8) {
        0 => Message {
            scope: In::Short,
            id: format!("{thread}-{}-{i}", n / 2),
        },
        1 => Message {
            scope: In::Sliding,
            id: format!("{thread}-{}-{i}", n / 2),
        },
        k => {
            let scope = if k % 2 == 0 { In::Week } else { In::Forever };
            Message {
                scope,
                id: format!("{}", n * 5 + rng.u64(0..60)),
            }
        }
    });
    let messages = messages.collect();
    let level = match thread {
        1 if n.is_multiple_of(4) => Durability::Synced,
        _ => Durability::Written,
    };
    Plan {
        messages,
        level,
        by_closure,
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
