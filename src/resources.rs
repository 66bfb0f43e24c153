//! What the stores of one process share: block cache, memtable bound, filter and segment
//! memory, threads.

use std::sync::{Arc, OnceLock};

use crate::background::Pool;
use crate::engine::Caches;
use crate::sync::atomic::{AtomicUsize, Ordering};

/// Memory and threads that several stores share. Clones share; setters make a new one.
///
/// ```
/// use firstseen::{Options, Resources};
/// let resources = Resources::new().cache_bytes(512 << 20).threads(2);
/// let one = Options::new().resources(&resources);
/// let other = Options::new().resources(&resources);
/// # let _ = (one, other);
/// ```
#[derive(Clone)]
#[must_use]
pub struct Resources {
    limits: Limits,
    shared: Arc<OnceLock<Shared>>,
}

#[derive(Clone, Copy, Debug)]
struct Limits {
    cache_bytes: usize,
    filter_bytes: usize,
    segment_bytes: usize,
    memtable_bytes: usize,
    threads: usize,
}

/// The built resources.
pub(crate) struct Shared {
    pub(crate) caches: Caches,
    pub(crate) pool: Pool,
    pub(crate) filters: Budget,
    segment_bytes: usize,
}

impl Default for Resources {
    fn default() -> Resources {
        Resources::new()
    }
}

impl Resources {
    /// The defaults, each stated at its setter.
    pub fn new() -> Resources {
        Resources::with(Limits {
            cache_bytes: 256 << 20,
            filter_bytes: 1 << 30,
            segment_bytes: 256 << 20,
            memtable_bytes: 512 << 20,
            threads: 1,
        })
    }

    fn with(limits: Limits) -> Resources {
        Resources {
            limits,
            shared: Arc::default(),
        }
    }

    /// RocksDB's block cache, in bytes. Default: 256 MiB.
    pub fn cache_bytes(self, bytes: usize) -> Resources {
        Resources::with(Limits {
            cache_bytes: bytes,
            ..self.limits
        })
    }

    /// Memory for front filters, in bytes; beyond it the oldest generations give theirs up and
    /// are asked on disk. Default: 1 GiB, enough for 500 million ids.
    pub fn filter_bytes(self, bytes: usize) -> Resources {
        Resources::with(Limits {
            filter_bytes: bytes,
            ..self.limits
        })
    }

    /// Memory for unsealed ids, in bytes, over all stores: the current segment of each and those
    /// being sealed. Default: 256 MiB, segments of a million short ids for one store.
    pub fn segment_bytes(self, bytes: usize) -> Resources {
        Resources::with(Limits {
            segment_bytes: bytes,
            ..self.limits
        })
    }

    /// The bound on all memtables together that makes RocksDB flush, in bytes. Default: 512 MiB.
    pub fn memtable_bytes(self, bytes: usize) -> Resources {
        Resources::with(Limits {
            memtable_bytes: bytes,
            ..self.limits
        })
    }

    /// Threads for sealing and merging; one more ticks. Default: 1.
    pub fn threads(self, threads: usize) -> Resources {
        Resources::with(Limits {
            threads,
            ..self.limits
        })
    }

    pub(crate) fn shared(&self) -> &Shared {
        let l = &self.limits;
        self.shared.get_or_init(|| Shared {
            caches: Caches::new(l.cache_bytes, l.memtable_bytes.max(1 << 20)),
            pool: Pool::new(l.threads),
            filters: Budget {
                used: AtomicUsize::new(0),
                limit: l.filter_bytes,
            },
            segment_bytes: l.segment_bytes,
        })
    }
}

impl Shared {
    /// The bytes a segment may use if there is only one store.
    pub(crate) fn segment_bytes_most(&self) -> usize {
        self.segment_bytes / 4
    }

    /// The bytes one store's segment may use now: a quarter of the store's share, since one
    /// fills, two are sealed and one waits to be used again.
    pub(crate) fn segment_bytes(&self) -> usize {
        self.segment_bytes / 4 / self.pool.stores().max(1)
    }
}

/// A bound on memory that several stores draw from.
pub(crate) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

impl Budget {
    /// Takes `bytes` if the bound allows it.
    pub(crate) fn take(&self, bytes: usize) -> bool {
        let limit = self.limit;
        let taken = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= limit)
            });
        taken.is_ok()
    }

    /// How much there is in all.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    pub(crate) fn used(&self) -> usize {
        self.used.load(Ordering::Acquire)
    }

    pub(crate) fn give(&self, bytes: usize) {
        self.used.fetch_sub(bytes, Ordering::AcqRel);
    }
}
