//! The command line: verbs, options and their help.
//!
//! Only what can be told from the arguments alone is checked here (exit code 2); whether a key
//! fits its input is found when the input is read.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Parser, Subcommand, ValueEnum};

use crate::failure::{EXIT_CODES, VERIFY_EXIT_CODES};
pub(crate) use crate::sides::{Audit, Export, Import, Only, Reconcile, ResumePoints, RowArgs};
use crate::time::{self, Retention, Time};

pub(crate) use crate::by_hand::{
    ByHand, Claims, Dead, DeadAct, Decide, EndInDoubt, InDoubt, InDoubtAct, Outcome, Sequences,
};
pub(crate) use crate::upkeep::{
    Backup, BackupAct, Bench, Checkpoint, Completions, Folder, Look, Man, Plan, Report, Restore,
    Stat, TopArgs,
};

/// Makes repeated rows and messages take effect once.
#[derive(Debug, Parser)]
#[command(name = "firstseen", version, after_help = EXIT_CODES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    Dedup(Dedup),
    Stat(Stat),
    Peek(Peek),
    Scan(Scan),
    Forget(Forget),
    Export(Export),
    Import(Import),
    Reconcile(Reconcile),
    Audit(Audit),
    ResumePoints(ResumePoints),
    Claims(Claims),
    Dead(Dead),
    Decide(Decide),
    Sequences(Sequences),
    InDoubt(InDoubt),
    Top(TopArgs),
    Verify(Verify),
    /// The store's generations: when each ends, its ids, runs and bytes.
    Generations(Look),
    Checkpoint(Checkpoint),
    Backup(Backup),
    Restore(Restore),
    Plan(Plan),
    Bench(Bench),
    Report(Report),
    Completions(Completions),
    Man(Man),
}

const DEDUP_HELP: &str = "\
Files are exactly-once: rows are written before the commit that carries the input's position and
the output's length. A job is the same --input, --output, --key, --scope and --format. After a
crash or Ctrl-C, run the same command again: an unfinished job is resumed, and what was written
but not committed is cut off first. A finished job starts anew, writes its output anew, and then
finds only duplicates. To add to a file instead, write to standard output and use >>. After a loss
of power only `--durability synced` promises this.

A pipe as input (standard input or a named pipe) does not resume: send it again from the start.
Rows that were committed are duplicates then, and an unfinished output file is gone on with.
With standard output as output, a row written shortly before a crash may be written again.

Rows that come through a pipe are committed as soon as the pipe pauses, else --batch at a time.
A row may have 16 MiB; a longer one (in CSV usually a stray quote) always stops the run. Blank
lines are passed over. In CSV the id is the list of the key columns' values, so that no two lists
are confused; in JSONL it is the list of the values' JSON, where \"1\" and 1 differ. A row whose
key columns are all empty is a bad row.";

/// Write each first-seen row once, byte for byte as it came.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{DEDUP_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Dedup {
    /// The store's directory; made if there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Column names (CSV) or dotted paths (JSONL, `user.id`, `items.0.sku`; `\.` is a dot in a
    /// name), separated by commas and quoted as in CSV; `*` is the whole row.
    #[arg(long, value_name = "COL[,COL…]")]
    pub(crate) key: OsString,
    /// The named space of ids to look in.
    #[arg(long, value_name = "S", default_value = DEFAULT_SCOPE)]
    pub(crate) scope: String,
    /// How long an id is remembered: `7d`, `36h`, `1h30m`, `250ms`, or `forever`. Without it an
    /// existing scope keeps its own, and a new one gets 7d.
    #[arg(long, value_name = "TIME", value_parser = time::parse_retention)]
    pub(crate) retention: Option<Retention>,
    #[arg(long, value_enum, default_value_t = Format::Csv)]
    pub(crate) format: Format,
    /// The CSV has no header line; key columns are then numbers, from 1.
    #[arg(long)]
    pub(crate) no_header: bool,
    /// Where rows come from; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) input: PathBuf,
    /// Where first-seen rows go; `-` is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// What a commit survives: the loss of power, the end of the process, or the end of the
    /// process but for its last moments.
    #[arg(long, value_enum, default_value_t = Durability::Written)]
    pub(crate) durability: Durability,
    /// Rows a commit.
    #[arg(long, value_name = "N", default_value_t = 1000,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// What to do at a row without a usable id (a missing column, invalid JSON, an id over 4,096
    /// bytes): stop there, or count it and go on. Default: stop, with --rejects skip.
    #[arg(long, value_enum)]
    pub(crate) on_error: Option<OnError>,
    /// Where bad rows go, as they came.
    #[arg(long, value_name = "FILE")]
    pub(crate) rejects: Option<PathBuf>,
    /// Give up an unfinished job and start anew. Rows that it committed are duplicates.
    #[arg(long)]
    pub(crate) restart: bool,
    /// The summary on standard error is one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

impl Dedup {
    /// What to do at a bad row.
    pub(crate) fn on_error(&self) -> OnError {
        match self.on_error {
            Some(chosen) => chosen,
            None if self.rejects.is_some() => OnError::Skip,
            None => OnError::Stop,
        }
    }
}

/// Check a store that nobody has open: files, log, ids, filters, floor. Changes nothing.
#[derive(Debug, ClapArgs)]
#[command(after_help = VERIFY_EXIT_CODES)]
pub(crate) struct Verify {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Tell all that is known of ids. Decides nothing: another process may record them a moment
/// later.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Peek {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) ids: Ids,
}

/// List the ids of a scope that are still remembered.
#[derive(Debug, ClapArgs)]
pub(crate) struct Scan {
    #[command(flatten)]
    pub(crate) place: Place,
    /// Only ids first seen at or after this time: `2024-11-30`, `2024-11-30T12:00:00Z`, `@` and
    /// seconds since 1970, or `2h` for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    pub(crate) since: Option<Time>,
    /// Only ids first seen before this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    pub(crate) until: Option<Time>,
}

/// Make ids unknown again, so that their next sight is the first. Audited.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Forget {
    #[command(flatten)]
    pub(crate) place: Place,
    /// The reason, kept with the act.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) actor: Actor,
    #[command(flatten)]
    pub(crate) ids: Ids,
}

/// Who acts.
#[derive(Debug, ClapArgs)]
pub(crate) struct Actor {
    /// Who does it, for the audit. Default: the user who is logged in.
    #[arg(long = "actor", visible_alias = "by", value_name = "NAME")]
    pub(crate) name: Option<String>,
}

/// A scope in a store, both existing.
#[derive(Debug, ClapArgs)]
pub(crate) struct Place {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The named space of ids.
    #[arg(long, value_name = "S", default_value = DEFAULT_SCOPE)]
    pub(crate) scope: String,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Ids as arguments.
#[derive(Debug, ClapArgs)]
pub(crate) struct Ids {
    /// The ids; by default each is its bytes as they stand.
    #[arg(value_name = "ID", required = true)]
    pub(crate) ids: Vec<OsString>,
    /// Each id is in hexadecimal digits, as `scan --json` prints it.
    #[arg(long, group = "form")]
    pub(crate) hex: bool,
    /// Each id is the list of a CSV row's key columns, written as a CSV row.
    #[arg(long, group = "form")]
    pub(crate) columns: bool,
    /// Each id is the list of a JSONL row's key values, written as a JSON array.
    #[arg(long, group = "form")]
    pub(crate) values: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Csv,
    Jsonl,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Durability {
    Synced,
    Written,
    Buffered,
}

impl From<Durability> for firstseen::Durability {
    fn from(level: Durability) -> firstseen::Durability {
        match level {
            Durability::Synced => firstseen::Durability::Synced,
            Durability::Written => firstseen::Durability::Written,
            Durability::Buffered => firstseen::Durability::Buffered,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OnError {
    Stop,
    Skip,
}

pub(crate) const DEFAULT_SCOPE: &str = "default";

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn rejects_imply_skip_unless_told() {
        let parse = |more: &[&str]| {
            let base = ["firstseen", "dedup", "--store", "d", "--key", "*"];
            match Args::try_parse_from(base.iter().chain(more)).unwrap().verb {
                Verb::Dedup(args) => args.on_error(),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(parse(&[]), OnError::Stop);
        assert_eq!(parse(&["--rejects", "r"]), OnError::Skip);
        assert_eq!(parse(&["--on-error", "skip"]), OnError::Skip);
        assert_eq!(
            parse(&["--on-error", "stop", "--rejects", "r"]),
            OnError::Stop
        );
    }
}
