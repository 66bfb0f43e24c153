//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::systems::Kind;
use crate::workload::{Size, Workload};

/// Runs the same seeded workload on firstseen and on what one would otherwise pick.
///
/// Rounds are interleaved: each round runs every system once, each in a process of its own and in
/// an empty directory. Ratios inside a round are the result; absolute figures wander with the
/// machine.
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

    /// Workloads to run [default: all].
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    workload: Vec<Workload>,

    /// Systems to run [default: all but firstseen_buffered].
    #[arg(long, value_delimiter = ',', value_name = "NAME[,NAME]")]
    systems: Vec<Kind>,

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
}

impl Args {
    pub fn workloads(&self) -> Vec<Workload> {
        if self.workload.is_empty() {
            return Workload::value_variants().to_vec();
        }
        self.workload.clone()
    }

    pub fn systems(&self) -> Vec<Kind> {
        if self.systems.is_empty() {
            return Kind::usual();
        }
        let mut systems = Vec::new();
        for system in &self.systems {
            if !systems.contains(system) {
                systems.push(*system);
            }
        }
        systems
    }

    /// How large a run of this system is.
    pub fn size(&self, system: Kind, workload: Workload) -> Size {
        let cap = system
            .cap(workload.batch())
            .filter(|_| !self.uncapped)
            .unwrap_or(u64::MAX);
        let usual = if workload.preloads() { self.ids } else { 0 };
        let least = if workload.warms() { 1 } else { 0 };
        let preload = self.preload.unwrap_or(usual).max(least);
        Size {
            ids: self.ids.min(cap),
            preload: preload.min(cap),
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
        assert_eq!(args.systems(), [Kind::Sqlite, Kind::Redb]);
        assert!(parse("compare --workload new_batch2").is_err());
        assert!(parse("compare --systems postgresql").is_err());
        assert!(parse("compare --rounds 0").is_err());
        assert!(parse("compare --ids 0").is_err());
        Ok(())
    }

    #[test]
    fn everything_runs_by_default() -> Result<(), clap::Error> {
        let args = parse("compare")?;
        assert_eq!(args.workloads().len(), 7);
        assert_eq!(args.systems().len(), 9);
        assert_eq!((args.generations, args.rounds, args.json), (8, 3, false));
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
