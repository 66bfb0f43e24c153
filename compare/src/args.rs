//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::steady::Pace;
use crate::systems::Kind;
use crate::workload::{Size, Workload};

/// Enough ids to ask where the footprint is the question.
const FOOTPRINT_ASKED: u64 = 100_000;

/// Runs the same seeded workload on firstseen and on what one would otherwise pick.
///
/// Rounds are interleaved: each round runs every system once, each in a process of its own and in
/// an empty directory. Ratios inside a round are the result; absolute figures wander with the
/// machine.
///
/// Redis and PostgreSQL run if their programs are found: on the search path, where packages put
/// them, or in the folders that COMPARE_SERVER_PATH names instead. Each gets a server of its own
/// in the run's directory, which is stopped with the run.
#[derive(Parser, Debug)]
#[command(version)]
pub struct Args {
    /// Print one line of JSON per system and workload instead of tables (settings go to stderr).
    #[arg(long)]
    pub json: bool,

    /// Ids in the timed part of a run: 300000, 20_000_000, 300k, 20m.
    #[arg(long, default_value = "300k", value_parser = some)]
    pub ids: u64,

    /// Ids inserted before the timed part, spread over the generations [default: as many as
    /// --ids; 0 starts from empty]. dup_recent_batch1000 starts from empty unless this is given,
    /// dup_old_batch1000 never does.
    #[arg(long, value_parser = count)]
    pub preload: Option<u64>,

    /// Workloads to run [default: all but live_10m, live_100m and input].
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    workload: Vec<Workload>,

    /// Systems to run [default: all; firstseen_buffered only in new_batch1].
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    systems: Vec<Kind>,

    /// Your own ids, one a line, instead of random ones; implies --workload input.
    #[arg(long, value_name = "FILE")]
    input: Option<PathBuf>,

    /// Ids of a batch of --input.
    #[arg(long, default_value_t = 1000, requires = "input", value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=65_536))]
    batch: u32,

    /// Measure new ids, reopening and expiry with so many live ids, one size after another
    /// [default systems: firstseen, rocksdb_blind, rocksdb_get_put].
    #[arg(long, value_delimiter = ',', value_name = "IDS[,IDS]", value_parser = some,
        conflicts_with_all = ["workload", "input", "steady"])]
    pub grow: Vec<u64>,

    /// Run for so many seconds at half of the top rate, with ids expiring, instead of as fast as
    /// possible [default: new_batch1000, firstseen].
    #[arg(long, value_name = "SECS", conflicts_with = "input",
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    steady: Option<u64>,

    /// Ids a second of --steady, instead of half of the top rate.
    #[arg(long, value_name = "IDS", requires = "steady", value_parser = some)]
    rate: Option<u64>,

    /// Draw the results, too.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,

    /// Rounds; medians over them are printed, with the lowest and the highest.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: u32,

    /// Seed of the ids; round r uses seed + r.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,

    /// Directory for the systems' files, emptied after each run [default: a temporary one].
    #[arg(long)]
    pub dir: Option<PathBuf>,

    /// Live generations that firstseen's ids are spread over.
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=8))]
    pub generations: u32,

    /// Give the slow systems as many ids as the others.
    #[arg(long)]
    pub uncapped: bool,

    /// Do one run in this process and print its sample; how the program calls itself.
    #[arg(long, hide = true)]
    pub one: bool,

    /// What of the one run.
    #[arg(long, hide = true, default_value = "whole")]
    pub phase: Phase,
}

/// What a process of a run does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Phase {
    /// All of it.
    Whole,
    /// Fills a system, and waits to be killed.
    Fill,
    /// Opens what was filled.
    Open,
    /// A long run.
    Steady,
}

impl Args {
    /// Refuses what the single arguments allow but not together.
    ///
    /// # Errors
    ///
    /// Says what is missing.
    pub fn check(&self) -> Result<(), String> {
        let wants_input = self.workloads().contains(&Workload::Input);
        match (&self.input, wants_input) {
            (None, true) => Err("--workload input takes a file: --input FILE".to_owned()),
            (Some(_), false) => Err("--input is for --workload input alone".to_owned()),
            _ => Ok(()),
        }
    }

    pub fn workloads(&self) -> Vec<Workload> {
        match (&self.workload[..], &self.input, self.steady) {
            ([], Some(_), _) => vec![Workload::Input],
            ([], None, Some(_)) => vec![Workload::NewBatch1000],
            ([], None, None) => Workload::usual(),
            (asked, ..) => asked.to_vec(),
        }
    }

    pub fn systems(&self, workload: Workload) -> Vec<Kind> {
        let usual = match self.steady {
            Some(_) => vec![Kind::Firstseen],
            None => Kind::usual(workload),
        };
        self.asked_or(usual)
    }

    /// The systems of `--grow`.
    pub fn grow_systems(&self) -> Vec<Kind> {
        self.asked_or(vec![
            Kind::Firstseen,
            Kind::RocksdbBlind,
            Kind::RocksdbGetPut,
        ])
    }

    fn asked_or(&self, usual: Vec<Kind>) -> Vec<Kind> {
        if self.systems.is_empty() {
            return usual;
        }
        let mut systems = Vec::new();
        for system in &self.systems {
            if !systems.contains(system) {
                systems.push(*system);
            }
        }
        systems
    }

    /// All systems that are run at all, in the order of the first workload that has them.
    pub fn all_systems(&self) -> Vec<Kind> {
        if !self.grow.is_empty() {
            return self.grow_systems();
        }
        let workloads = self.workloads();
        let asked: Vec<Kind> = workloads.iter().flat_map(|w| self.systems(*w)).collect();
        let all = Kind::value_variants().iter().copied();
        all.filter(|k| asked.contains(k)).collect()
    }

    /// The file of ids, and the size of its batches.
    pub fn input(&self) -> Option<(PathBuf, usize)> {
        Some((self.input.clone()?, self.batch as usize))
    }

    pub fn pace(&self) -> Option<Pace> {
        Some(Pace {
            seconds: self.steady?,
            rate: self.rate,
        })
    }

    /// How large a run of this system is. The ids of a file are counted by who reads it.
    pub fn size(&self, system: Kind, workload: Workload) -> Size {
        let cap = system
            .cap(workload)
            .filter(|_| !self.uncapped)
            .unwrap_or(u64::MAX);
        let usual = if workload.preloads() { self.ids } else { 0 };
        let least = if workload.asks_old() { 1 } else { 0 };
        let preload = self.preload.unwrap_or(usual).max(least);
        let preload = workload.live().unwrap_or(preload.min(cap));
        let ids = match workload {
            Workload::Footprint => self.ids.min(FOOTPRINT_ASKED),
            _ => self.ids,
        };
        Size {
            ids: ids.min(cap),
            preload,
        }
    }
}

/// A count of ids that isn't zero.
fn some(text: &str) -> Result<u64, String> {
    match count(text)? {
        0 => Err("at least one id is needed".to_owned()),
        n => Ok(n),
    }
}

/// A count of ids: digits, `_` anywhere between them, and `k` or `m` at the end.
fn count(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.char_indices().last() {
        Some((at, 'k' | 'K')) => (&text[..at], 1_000),
        Some((at, 'm' | 'M')) => (&text[..at], 1_000_000),
        _ => (text, 1),
    };
    let number: Option<u64> = digits.replace('_', "").parse().ok();
    number
        .and_then(|n| n.checked_mul(unit))
        .filter(|n| *n <= 10_000_000_000)
        .ok_or_else(|| format!("{text:?} is not a count of at most 10,000m ids"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, clap::Error> {
        Args::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn counts_take_underscores_and_units() {
        assert_eq!(count("2000"), Ok(2000));
        assert_eq!(count("20_000_000"), Ok(20_000_000));
        assert_eq!(count("300k"), Ok(300_000));
        assert_eq!(count("20M"), Ok(20_000_000));
        assert!(count("k").is_err() && count("").is_err() && count("1.5m").is_err());
        assert!(count("-1").is_err() && count("99999999999999m").is_err());
    }

    #[test]
    fn lists_are_split_by_commas_and_names_are_exact() -> Result<(), clap::Error> {
        let args = parse("compare --workload new_batch1,dup_old_batch1000 --systems sqlite,redb")?;
        assert_eq!(
            args.workloads(),
            [Workload::NewBatch1, Workload::DupOldBatch1000]
        );
        assert_eq!(args.all_systems(), [Kind::Sqlite, Kind::Redb]);
        assert!(parse("compare --workload new_batch2").is_err());
        assert!(parse("compare --systems postgresql").is_err());
        assert!(parse("compare --grow 1m,0").is_err());
        assert!(parse("compare --grow 1m --workload new_batch1").is_err());
        assert!(parse("compare --batch 10").is_err());
        assert!(parse("compare --rate 10").is_err());
        assert!(parse("compare --steady 0").is_err());
        assert!(parse("compare --rounds 0").is_err());
        assert!(parse("compare --ids 0").is_err());
        Ok(())
    }

    #[test]
    fn everything_runs_by_default() -> Result<(), clap::Error> {
        let args = parse("compare")?;
        assert_eq!(args.workloads().len(), 17);
        assert_eq!(args.systems(Workload::NewBatch1).len(), 12);
        assert_eq!(args.systems(Workload::NewBatch100).len(), 11);
        assert_eq!((args.generations, args.rounds, args.json), (8, 3, false));
        Ok(())
    }

    #[test]
    fn a_file_and_its_workload_go_together() -> Result<(), clap::Error> {
        let args = parse("compare --input ids.txt --batch 50")?;
        assert_eq!(args.workloads(), [Workload::Input]);
        assert_eq!(args.input(), Some(("ids.txt".into(), 50)));
        assert_eq!(args.check(), Ok(()));
        let args = parse("compare --workload input")?;
        assert!(args.check().is_err_and(|e| e.contains("--input FILE")));
        let args = parse("compare --input ids.txt --workload new_batch1")?;
        assert!(args.check().is_err_and(|e| e.contains("alone")));
        Ok(())
    }

    #[test]
    fn long_runs_have_their_own_defaults() -> Result<(), clap::Error> {
        let args = parse("compare --steady 60 --rate 1m")?;
        assert_eq!(args.workloads(), [Workload::NewBatch1000]);
        assert_eq!(args.systems(Workload::NewBatch1000), [Kind::Firstseen]);
        let pace = args.pace().map(|p| (p.seconds, p.rate));
        assert_eq!(pace, Some((60, Some(1_000_000))));
        let args = parse("compare --grow 1m,10m")?;
        assert_eq!(args.grow, [1_000_000, 10_000_000]);
        assert_eq!(args.all_systems().len(), 3);
        Ok(())
    }

    #[test]
    fn live_ids_are_never_fewer_than_their_name_says() -> Result<(), clap::Error> {
        let args = parse("compare --preload 5")?;
        assert_eq!(
            args.size(Kind::Sqlite, Workload::Live10m).preload,
            10_000_000
        );
        assert_eq!(args.size(Kind::Firstseen, Workload::Footprint).ids, 100_000);
        Ok(())
    }

    #[test]
    fn slow_systems_are_capped_unless_asked() -> Result<(), clap::Error> {
        let args = parse("compare --ids 20m")?;
        assert_eq!(
            args.size(Kind::Firstseen, Workload::NewBatch1).ids,
            20_000_000
        );
        let sqlite = args.size(Kind::Sqlite, Workload::NewBatch1);
        assert!(sqlite.ids < 1_000_000 && sqlite.preload == sqlite.ids);
        assert_eq!(
            args.size(Kind::Firstseen, Workload::DupRecentBatch1000)
                .preload,
            0
        );
        let args = parse("compare --ids 20m --uncapped --preload 0")?;
        assert_eq!(args.size(Kind::Sqlite, Workload::NewBatch1).ids, 20_000_000);
        assert_eq!(args.size(Kind::Sqlite, Workload::NewBatch1).preload, 0);
        Ok(())
    }
}
