//! Scopes and tables as all their handles share them.

use std::sync::{Arc, Weak};

use crate::engine::Family;
use crate::error::{Error, Result};
use crate::id_time::OwnTime;
use crate::meter::Tally;
use crate::mode::Switches;
use crate::policy::Retention;
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::outbox::Sends;
use super::rows::TableKind;

/// A scope as all its handles share it.
pub(crate) struct ScopeState {
    pub(crate) number: u16,
    pub(crate) name: String,
    pub(super) versions: RwLock<Arc<[Retention]>>,
    pub(super) classes: AtomicU32,
    /// Its ids carry their own time.
    pub(crate) own_time: Option<OwnTime>,
    /// The key of its fingerprints, if it was made with one of its own.
    pub(super) payload_key: Option<u64>,
    pub(super) dropped: AtomicBool,
    /// Whether ids of it may have claims; set before the first one is made.
    pub(super) claimed: AtomicBool,
    /// Its verdicts since the open.
    pub(crate) tally: Tally,
    pub(crate) switches: Switches,
}

impl ScopeState {
    /// Whether its ids' claims must be asked for. Once true it stays so.
    pub(crate) fn has_claims(&self) -> bool {
        self.claimed.load(Ordering::Acquire)
    }

    pub(crate) fn expect_claims(&self) {
        self.claimed.store(true, Ordering::Release);
    }

    /// The retentions it ever had; the last one is in force.
    pub(crate) fn versions(&self) -> Arc<[Retention]> {
        Arc::clone(&self.versions.read())
    }

    /// The retention classes its ids may be in, one bit each.
    pub(crate) fn classes(&self) -> u32 {
        self.classes.load(Ordering::Acquire)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}

/// A table as all its handles share it.
pub(crate) struct TableState {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) kind: TableKind,
    /// Whether writes take row locks.
    pub(crate) guarded: bool,
    /// Who numbers its rows, if it is an outbox.
    pub(crate) sends: Option<Sends>,
    /// The number that write batches name its family by.
    pub(crate) family_number: u32,
    /// The catalog keeps it alive: a handle that outlives the store must not keep it open.
    pub(super) family: Weak<Family>,
    pub(super) dropped: AtomicBool,
}

impl TableState {
    pub(super) fn new(
        number: u32,
        name: String,
        kind: TableKind,
        family: &Arc<Family>,
    ) -> Result<Arc<TableState>> {
        let sends = match kind {
            TableKind::Outbox => {
                Some(Sends::of(family).map_err(|e| e.context(format_args!("outbox {name:?}")))?)
            }
            _ => None,
        };
        Ok(Arc::new(TableState {
            sends,
            number,
            name,
            kind,
            guarded: kind == TableKind::Guarded,
            family_number: family.number(),
            family: Arc::downgrade(family),
            dropped: AtomicBool::new(false),
        }))
    }

    /// Where its rows are.
    ///
    /// # Errors
    /// `Invalid` if it was dropped, `Closed`.
    pub(crate) fn family(&self) -> Result<Arc<Family>> {
        if self.is_dropped() {
            return Err(Error::invalid(format!("table {:?} was dropped", self.name)));
        }
        self.family.upgrade().ok_or_else(Error::closed)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}
