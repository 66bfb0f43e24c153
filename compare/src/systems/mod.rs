//! The systems that are compared, behind one small trait.
//!
//! Every system stores ids without a value (the cheapest there is for it), and promises what
//! firstseen's `Written` promises, a commit outlives the process but perhaps not the machine,
//! unless its settings say otherwise. None but firstseen forgets anything, so at the end they
//! hold more ids than it does; none but firstseen has work left at the end charged to it.

mod firstseen;
mod fjall;
mod hashset;
mod redb;
mod rocksdb_best;
mod rocksdb_blind;
mod rocksdb_get_put;
mod rocksdb_optimistic;
mod rocksdb_settings;
mod sorted;
mod sqlite;

use std::error::Error;
use std::path::Path;

use clap::ValueEnum;

use crate::ids::{Id, Rows};

/// Any error: a run that meets one gives no figures.
pub type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// One opened system. Used by one thread.
pub trait System {
    /// Inserts a batch; says how many were first seen, or `None` if it can't tell.
    fn insert(&mut self, ids: &[Id]) -> Result<Option<u64>>;

    /// Inserts a batch with one business row for each first-seen id, atomically. A blind system
    /// writes the rows alone.
    fn commit(&mut self, ids: &[Id], rows: &Rows) -> Result<Option<u64>>;

    /// Reads a business row back.
    fn row(&self, id: &Id) -> Result<Option<Vec<u8>>>;

    /// Tells how many different ids were inserted so far, where that is the time.
    fn at(&mut self, _inserted: u64) {}

    /// After the preload, untimed: brings everything into its resting form.
    fn settle(&mut self) -> Result<()>;

    /// At the end of the timed part, timed: work that was only put off.
    fn drain(&mut self) -> Result<()> {
        Ok(())
    }

    /// At the very end, untimed: flushes and closes, so that the disk can be measured.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What a system must know when it is opened.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// So many new ids later an id expires, where ids expire.
    pub window: u64,
    /// The window's ids are spread over so many generations.
    pub generations: u32,
}

/// The systems, under the names that the command line and the output use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Kind {
    Firstseen,
    FirstseenBuffered,
    RocksdbBlind,
    RocksdbGetPut,
    RocksdbOptimistic,
    RocksdbBest,
    Sqlite,
    Fjall,
    Redb,
    Hashset,
}

impl Kind {
    pub fn usual() -> Vec<Kind> {
        let all = Kind::value_variants().iter().copied();
        all.filter(|k| *k != Kind::FirstseenBuffered).collect()
    }

    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Whether ids leave it after their retention.
    pub fn forgets(self) -> bool {
        matches!(self, Kind::Firstseen | Kind::FirstseenBuffered)
    }

    /// Whether it can be the best peer: another system, and one whose data outlives the process.
    pub fn is_peer(self) -> bool {
        !self.forgets() && self != Kind::Hashset
    }

    /// At most so many ids for a slow system, so that a default run ends in minutes. Fewer ids
    /// only make it look faster.
    pub fn cap(self, batch: u64) -> Option<u64> {
        match (self, batch) {
            (Kind::Sqlite, 1) => Some(50_000),
            (Kind::Redb, 1) => Some(20_000),
            (Kind::Sqlite | Kind::Redb, _) => Some(200_000),
            (Kind::Fjall | Kind::RocksdbOptimistic, _) => Some(2_000_000),
            _ => None,
        }
    }

    /// The settings that matter, for people.
    pub fn settings(self) -> &'static str {
        match self {
            Kind::Firstseen => firstseen::SETTINGS,
            Kind::FirstseenBuffered => firstseen::SETTINGS_BUFFERED,
            Kind::RocksdbBlind => rocksdb_blind::SETTINGS,
            Kind::RocksdbGetPut => rocksdb_get_put::SETTINGS,
            Kind::RocksdbOptimistic => rocksdb_optimistic::SETTINGS,
            Kind::RocksdbBest => rocksdb_best::SETTINGS,
            Kind::Sqlite => sqlite::SETTINGS,
            Kind::Fjall => fjall::SETTINGS,
            Kind::Redb => redb::SETTINGS,
            Kind::Hashset => hashset::SETTINGS,
        }
    }

    /// Opens the system in an empty directory.
    ///
    /// # Errors
    ///
    /// The engine's own.
    pub fn open(self, dir: &Path, setup: Setup) -> Result<Box<dyn System>> {
        Ok(match self {
            Kind::Firstseen => Box::new(firstseen::Firstseen::written(dir, setup)?),
            Kind::FirstseenBuffered => Box::new(firstseen::Firstseen::buffered(dir, setup)?),
            Kind::RocksdbBlind => Box::new(rocksdb_blind::RocksdbBlind::open(dir)?),
            Kind::RocksdbGetPut => Box::new(rocksdb_get_put::RocksdbGetPut::open(dir)?),
            Kind::RocksdbOptimistic => Box::new(rocksdb_optimistic::RocksdbOptimistic::open(dir)?),
            Kind::RocksdbBest => Box::new(rocksdb_best::RocksdbBest::open(dir)?),
            Kind::Sqlite => Box::new(sqlite::Sqlite::open(dir)?),
            Kind::Fjall => Box::new(fjall::Fjall::open(dir)?),
            Kind::Redb => Box::new(redb::Redb::open(dir)?),
            Kind::Hashset => Box::new(hashset::Hashset::default()),
        })
    }
}
