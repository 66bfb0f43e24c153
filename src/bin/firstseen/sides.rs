//! The command line of the verbs that bring ids in and out, compare and tell: `export`,
//! `import`, `reconcile`, `audit`, `resume-points`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, ValueEnum};

use crate::args::{Actor, DEFAULT_SCOPE, Place};
use crate::failure::EXIT_CODES;
use crate::time::{self, Retention, Time};

/// Write the remembered ids of a scope as JSONL: exact ids, first sights, expiries, sources.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Export {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The named space of ids.
    #[arg(long, value_name = "S", default_value = DEFAULT_SCOPE)]
    pub(crate) scope: String,
    #[command(flatten)]
    pub(crate) times: Times,
}

/// A range of time.
#[derive(Debug, ClapArgs)]
pub(crate) struct Times {
    /// Only what was at or after this time: `2024-11-30`, `2024-11-30T12:00:00Z`, `@` and
    /// seconds since 1970, or `2h` for two hours ago.
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    pub(crate) since: Option<Time>,
    /// Only what was before this time.
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    pub(crate) until: Option<Time>,
}

const IMPORT_HELP: &str = "\
Formats: `export` is what `export` writes. In `csv` and `jsonl`, --id names the column or path
whose bytes are the id as they stand, or --key the columns that make an id as `dedup` makes it;
--time names the one with the first sight (a date and time, or @ and seconds since 1970). `redis`
is a listing of keys, one a line, as `redis-cli --scan` prints it, each with its remaining time in
seconds behind a tab if it has one (-1: none, -2: gone); such an id counts from --as-of.

What is known already stays as it is, so an import that was stopped is gone on with by the same
command. At a bad row it stops, after the rows before it were committed.";

/// Record ids that another system has seen, so that a migration starts with a warm window.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES, after_long_help = format!("{IMPORT_HELP}\n\n{EXIT_CODES}"))]
pub(crate) struct Import {
    /// The store's directory; made if there is none.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The named space of ids; made if there is none.
    #[arg(long, value_name = "S", default_value = DEFAULT_SCOPE)]
    pub(crate) scope: String,
    /// How long ids are remembered, as for `dedup`.
    #[arg(long, value_name = "TIME", value_parser = time::parse_retention)]
    pub(crate) retention: Option<Retention>,
    #[arg(long, value_enum, default_value_t = From::Export)]
    pub(crate) format: From,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// Where rows come from; `-` is standard input.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) input: PathBuf,
    /// Redis: when the listing was made. Without --time, the first sight of every row. Default:
    /// now.
    #[arg(long, value_name = "TIME", value_parser = time::parse_time)]
    pub(crate) as_of: Option<Time>,
    /// Redis: what the keys begin with, which is no part of the ids. Other keys are passed over.
    #[arg(long, value_name = "TEXT")]
    pub(crate) prefix: Option<String>,
    /// The reason, kept with the act.
    #[arg(long, value_name = "TEXT", default_value = "import")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) actor: Actor,
    /// Rows a commit.
    #[arg(long, value_name = "N", default_value_t = 10_000,
        value_parser = clap::value_parser!(u32).range(1..=100_000))]
    pub(crate) batch: u32,
    /// The summary is one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where a row's id and time are.
#[derive(Debug, ClapArgs)]
pub(crate) struct RowArgs {
    /// The column name (CSV) or dotted path (JSONL) whose bytes are the id as they stand.
    #[arg(long, value_name = "COL", group = "ids")]
    pub(crate) id: Option<OsString>,
    /// The columns or paths that make the id, as in `dedup --key`.
    #[arg(long, value_name = "COL[,COL…]", group = "ids")]
    pub(crate) key: Option<OsString>,
    /// The column or path with the row's time.
    #[arg(long, value_name = "COL")]
    pub(crate) time: Option<OsString>,
    /// The CSV has no header line; columns are then numbers, from 1.
    #[arg(long)]
    pub(crate) no_header: bool,
}

/// What a file of ids is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum From {
    Export,
    Csv,
    Jsonl,
    Redis,
}

const RECONCILE_CODES: &str = "\
Exit codes:
  0    both sides agree, or what differed was repaired
  1    the store, a file or a pipe failed
  2    wrong usage
  3    stopped at a bad row
  5    they differ
  130  interrupted by Ctrl-C";

/// Compare ids with the effects that are there, and repair what differs. A dry run unless told.
#[derive(Debug, ClapArgs)]
#[command(after_help = RECONCILE_CODES)]
pub(crate) struct Reconcile {
    #[command(flatten)]
    pub(crate) place: Place,
    #[command(flatten)]
    pub(crate) times: Times,
    /// A file with a row for each effect; `-` is standard input.
    #[arg(long, value_name = "FILE", group = "side", required = true)]
    pub(crate) effects: Option<PathBuf>,
    /// A table of the store, whose keys are ids, instead.
    #[arg(long, value_name = "NAME", group = "side")]
    pub(crate) table: Option<String>,
    #[arg(long, value_enum, default_value_t = crate::args::Format::Csv)]
    pub(crate) format: crate::args::Format,
    #[command(flatten)]
    pub(crate) rows: RowArgs,
    /// How far the times of an id and of its effect may lie apart.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = time::parse_span)]
    pub(crate) grace: Duration,
    /// An id whose effect is there more than once is a fault.
    #[arg(long)]
    pub(crate) one_effect: bool,
    /// Where temporary files go. Default: the store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) sort_dir: Option<PathBuf>,
    /// So many findings are shown; with --json and without --apply, all.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) show: usize,
    /// Repair: forget ids whose effect is missing, record unknown ids whose effect is there.
    #[arg(long, requires = "why")]
    pub(crate) apply: bool,
    /// Only one of the two.
    #[arg(long, value_enum, requires = "apply")]
    pub(crate) only: Option<Only>,
    /// The reason, kept with each act.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: Option<String>,
    #[command(flatten)]
    pub(crate) actor: Actor,
}

/// A part of a repair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Only {
    Forget,
    Record,
}

/// Tell what was done by request against the rule: when, what, by whom and why.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Audit {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    #[command(flatten)]
    pub(crate) times: Times,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// List the sources with their next positions to read.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct ResumePoints {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}
