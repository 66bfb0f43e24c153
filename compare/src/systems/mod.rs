//! The systems that are compared, behind one small trait.
//!
//! Every system stores ids without a value (the cheapest there is for it), and promises what the
//! workload's [`Level`] asks, unless its settings say otherwise. None but firstseen forgets
//! anything within a run, so at the end they hold more ids than it does; none but firstseen has
//! work left at the end charged to it.
//!
//! A [`System`] is shared by threads; what one thread needs of its own, a connection or a
//! buffer, is its [`Worker`].

mod firstseen;
mod fjall;
mod hashset;
mod kind;
mod postgres;
mod redb;
mod redis;
mod rocksdb_best;
mod rocksdb_blind;
mod rocksdb_get_put;
mod rocksdb_optimistic;
mod rocksdb_settings;
mod sorted;
mod sqlite;

use std::error::Error;

pub use kind::Kind;

use crate::ids::{Id, Rows};

/// Any error: a run that meets one gives no figures.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// One opened system, shared by the threads of a run.
pub trait System: Sync {
    /// What a thread works with.
    ///
    /// # Errors
    ///
    /// A server took no further connection.
    fn worker(&self) -> Result<Box<dyn Worker + '_>>;

    /// Reads a business row back.
    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>>;

    /// Tells how many different ids were inserted so far, where that is the time.
    fn at(&self, _inserted: u64) {}

    /// After the preload, untimed: brings everything into its resting form.
    fn settle(&self) -> Result<()>;

    /// At the end of the timed part, timed: work that was only put off.
    fn drain(&self) -> Result<()> {
        Ok(())
    }

    /// Whether what an open put off is done.
    fn is_ready(&self) -> Result<bool> {
        Ok(true)
    }

    /// Figures that only it can tell, by the names that the output uses.
    fn figures(&self) -> Result<Vec<(&'static str, f64)>> {
        Ok(Vec::new())
    }

    /// The process of its server, if it has one.
    fn server(&self) -> Option<u32> {
        None
    }

    /// At the very end, untimed: flushes and closes, so that the disk can be measured.
    fn close(self: Box<Self>) -> Result<()>;
}

/// One thread's way to a system.
pub trait Worker {
    /// Inserts a batch; says how many were first seen, or `None` if it can't tell.
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>>;

    /// As `insert`, for ids of any length.
    fn insert_any(&mut self, ids: &[&[u8]]) -> Result<Option<u64>>;

    /// Inserts a batch with one business row for each first-seen id, atomically. A blind system
    /// writes the rows alone.
    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>>;
}

/// An id of either kind; what adapters are generic over.
pub trait Key: AsRef<[u8]> + Copy + Ord {}

impl Key for Id {}
impl Key for &[u8] {}

/// The three methods of a worker whose `write` takes any ids, and rows or none.
macro_rules! writes_any {
    () => {
        fn insert(&mut self, ids: &[$crate::ids::Id]) -> $crate::systems::Result<Option<u64>> {
            self.write(ids, None)
        }

        fn insert_any(&mut self, ids: &[&[u8]]) -> $crate::systems::Result<Option<u64>> {
            self.write(ids, None)
        }

        fn commit(
            &mut self,
            ids: &[$crate::ids::Id],
            rows: &$crate::ids::Rows,
        ) -> $crate::systems::Result<Option<u64>> {
            self.write(ids, Some(rows))
        }
    };
}

use writes_any;

/// When a call may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The commit outlives the process, but perhaps not the machine.
    Written,
    /// It is on the disk.
    Synced,
}

/// What a system must know when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// So many new ids later an id expires, where ids expire.
    pub window: u64,
    /// The window's ids are spread over so many generations.
    pub generations: u32,
    pub level: Level,
    /// Memory for what is read from files; `None`: as its settings say.
    pub cache_bytes: Option<u64>,
    /// Ids carry their time, as UUIDs of version 7.
    pub own_time: bool,
    /// So many ids must not have come to rest when the process is killed; 0: as it happens.
    pub unsealed: u64,
    /// Whether it settles by merging all there is.
    pub compacted: bool,
    /// The ids inserted before it is opened, by a process that ended somehow; 0: it is new.
    pub inserted: u64,
}

impl Setup {
    /// The cache of a peer: 1 GiB unless the workload is about less.
    pub fn peer_cache(&self) -> u64 {
        self.cache_bytes.unwrap_or(1 << 30)
    }

    pub fn synced(&self) -> bool {
        self.level == Level::Synced
    }
}
