//! Which systems there are: names, settings, what each can't do and how slow it is.

use std::path::Path;

use clap::ValueEnum;

use super::{Result, Setup, System};
use super::{
    firstseen, fjall, hashset, postgres, redb, redis, rocksdb_best, rocksdb_blind, rocksdb_get_put,
    rocksdb_optimistic, sqlite,
};
use crate::workload::Workload;

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
    Redis,
    Postgres,
    Hashset,
}

impl Kind {
    /// What runs if nobody says: `firstseen_buffered` only where the level is the question.
    pub fn usual(workload: Workload) -> Vec<Kind> {
        let buffered = workload == Workload::NewBatch1;
        let all = Kind::value_variants().iter().copied();
        all.filter(|k| *k != Kind::FirstseenBuffered || buffered)
            .collect()
    }

    pub fn name(self) -> String {
        self.to_possible_value()
            .map_or_else(String::new, |v| v.get_name().to_owned())
    }

    /// Whether ids leave it after their retention, within a run.
    pub fn forgets(self) -> bool {
        matches!(self, Kind::Firstseen | Kind::FirstseenBuffered)
    }

    /// Whether it can be the best peer: another system, and one whose data outlives the process.
    pub fn is_peer(self) -> bool {
        !self.forgets() && self != Kind::Hashset
    }

    /// Whether it writes without looking.
    pub fn is_blind(self) -> bool {
        matches!(self, Kind::RocksdbBlind | Kind::RocksdbBest)
    }

    /// Whether a commit that returned outlives a kill of its process, as it is set up here.
    pub fn keeps_written(self) -> bool {
        !matches!(
            self,
            Kind::FirstseenBuffered | Kind::Redb | Kind::Postgres | Kind::Hashset
        )
    }

    /// Why it can't do a workload, or can't run here; `None` if it can.
    pub fn lacks(self, workload: Workload) -> Option<String> {
        let missing = match self {
            Kind::Redis => redis::missing(),
            Kind::Postgres => postgres::missing(),
            _ => None,
        };
        missing.or_else(|| self.unable(workload).map(str::to_owned))
    }

    fn unable(self, workload: Workload) -> Option<&'static str> {
        let in_memory = self == Kind::Hashset || self == Kind::Redis;
        if self == Kind::Hashset && (workload.synced() || workload.reopens()) {
            return Some("nothing of it is durable");
        }
        if self == Kind::FirstseenBuffered && workload.synced() {
            return Some("it returns before the write");
        }
        if self.is_blind() && (workload.warms() || workload.reopens() || workload.is_cold()) {
            return Some("it can't tell a duplicate");
        }
        if in_memory && workload.is_cold() {
            return Some("it keeps everything in memory");
        }
        if workload == Workload::Expiry && !self.forgets() {
            return Some(match self {
                Kind::Redis => "its ids expire one by one, by the machine's clock",
                _ => "it forgets nothing by itself",
            });
        }
        None
    }

    /// At most so many ids for a slow system, so that a default run ends in minutes. Fewer ids
    /// only make it look faster.
    pub fn cap(self, workload: Workload) -> Option<u64> {
        let serial = matches!(
            self,
            Kind::RocksdbGetPut | Kind::Sqlite | Kind::Fjall | Kind::Redb
        );
        match (self, workload.batch()) {
            // One fsync after another, whoever waits.
            (_, 1) if workload.synced() && serial => Some(2_000),
            (_, 1) if workload.synced() => Some(50_000),
            (Kind::Sqlite | Kind::Postgres | Kind::Redis, 1) => Some(50_000),
            (Kind::Redb, 1) => Some(20_000),
            (Kind::Sqlite | Kind::Redb | Kind::Postgres, _) => Some(200_000),
            (Kind::Fjall | Kind::RocksdbOptimistic | Kind::Redis, _) => Some(2_000_000),
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
            Kind::Redis => redis::SETTINGS,
            Kind::Postgres => postgres::SETTINGS,
            Kind::Hashset => hashset::SETTINGS,
        }
    }

    /// Opens the system: in an empty directory, or where it was before if the setup says so.
    ///
    /// # Errors
    ///
    /// The engine's own; a server that doesn't start.
    pub fn open(self, dir: &Path, setup: Setup) -> Result<Box<dyn System>> {
        Ok(match self {
            Kind::Firstseen => Box::new(firstseen::Firstseen::written(dir, setup)?),
            Kind::FirstseenBuffered => Box::new(firstseen::Firstseen::buffered(dir, setup)?),
            Kind::RocksdbBlind => Box::new(rocksdb_blind::RocksdbBlind::open(dir, setup)?),
            Kind::RocksdbGetPut => Box::new(rocksdb_get_put::RocksdbGetPut::open(dir, setup)?),
            Kind::RocksdbOptimistic => {
                Box::new(rocksdb_optimistic::RocksdbOptimistic::open(dir, setup)?)
            }
            Kind::RocksdbBest => Box::new(rocksdb_best::RocksdbBest::open(dir, setup)?),
            Kind::Sqlite => Box::new(sqlite::Sqlite::open(dir, setup)?),
            Kind::Fjall => Box::new(fjall::Fjall::open(dir, setup)?),
            Kind::Redb => Box::new(redb::Redb::open(dir, setup)?),
            Kind::Redis => Box::new(redis::Redis::open(dir, setup)?),
            Kind::Postgres => Box::new(postgres::Postgres::open(dir, setup)?),
            Kind::Hashset => Box::new(hashset::Hashset::default()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_system_cannot_do_is_said() {
        let why = |kind: Kind, workload| kind.unable(workload).unwrap_or("");
        assert!(why(Kind::Hashset, Workload::SyncedBatch1000).contains("durable"));
        assert!(why(Kind::Hashset, Workload::Reopen).contains("durable"));
        assert!(why(Kind::RocksdbBlind, Workload::DupOldBatch1000).contains("duplicate"));
        assert!(why(Kind::Redis, Workload::LargerThanMemoryBatch1000).contains("memory"));
        assert!(why(Kind::Sqlite, Workload::Expiry).contains("forgets nothing"));
        assert!(why(Kind::FirstseenBuffered, Workload::SyncedBatch1000).contains("before"));
        for workload in Workload::value_variants() {
            assert_eq!(why(Kind::Firstseen, *workload), "", "{workload:?}");
        }
        assert_eq!(why(Kind::Postgres, Workload::SyncedSingleThreads64), "");
    }

    #[test]
    fn buffered_runs_where_the_level_is_the_question() {
        assert!(Kind::usual(Workload::NewBatch1).contains(&Kind::FirstseenBuffered));
        assert!(!Kind::usual(Workload::NewBatch100).contains(&Kind::FirstseenBuffered));
        assert_eq!(Kind::usual(Workload::NewBatch100).len(), 11);
    }
}
