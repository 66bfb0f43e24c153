//! The verbs for who operates a store: sizes, copies, backups, planning.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args as ClapArgs, Subcommand};

use crate::failure::EXIT_CODES;
use crate::sizes;
use crate::time;

const PLAN_EXIT_CODES: &str = "\
Exit codes:
  0    nothing speaks against it
  1    the load is beyond what there can be
  2    wrong usage
  5    it does not fit, or the retention is below the horizon: each finding is listed";

const BACKUP_EXIT_CODES: &str = "\
Exit codes:
  0    done; with verify: every file is as it was backed up
  1    a file or the store failed; with verify and list: a backup is damaged
  2    wrong usage";

/// A store that is looked at, whoever has it open.
#[derive(Debug, ClapArgs)]
pub(crate) struct Look {
    /// The store's directory; another process may have it open.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What is in the store, as of now, whoever has it open. Changes nothing.
#[derive(Debug, ClapArgs)]
pub(crate) struct Stat {
    #[command(flatten)]
    pub(crate) look: Look,
    /// Look again and again, one line each (with --json one object), this long apart.
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "2s",
        value_parser = time::parse_duration)]
    pub(crate) watch: Option<Duration>,
    /// With --watch: end after so many looks.
    #[arg(long, value_name = "N", requires = "watch")]
    pub(crate) count: Option<u64>,
}

/// Where duplicates come from: the scopes and sources that have the most, each with bounds. It is
/// what the service that counts them (`top_sources`) wrote last, every ten seconds and when it
/// closed; the last line says when.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct TopArgs {
    #[command(flatten)]
    pub(crate) look: Look,
    /// So many of each list; up to 100 are there.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub(crate) show: usize,
}

/// Copy a store to a new directory, whoever has it open: a store of its own, as of one commit.
/// Table files are linked where that can be.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Checkpoint {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Where the copy will be; missing or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
}

/// Keep backups of stores in a folder, each file once.
#[derive(Debug, ClapArgs)]
#[command(after_help = BACKUP_EXIT_CODES)]
pub(crate) struct Backup {
    #[command(subcommand)]
    pub(crate) act: BackupAct,
}

#[derive(Debug, Subcommand)]
pub(crate) enum BackupAct {
    /// Back a store up, whoever has it open; only what is new is copied.
    Create {
        /// The store's directory.
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
        #[command(flatten)]
        folder: Folder,
    },
    /// List the backups, with the resume points to replay from.
    List {
        #[command(flatten)]
        folder: Folder,
    },
    /// Read a backup's files, or those of all, and compare their checksums.
    Verify {
        #[command(flatten)]
        folder: Folder,
        /// Only this one.
        #[arg(long, value_name = "N")]
        id: Option<u64>,
    },
    /// Remove all but the last ones.
    Prune {
        #[command(flatten)]
        folder: Folder,
        /// How many stay.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
        keep: u64,
    },
}

/// A folder of backups.
#[derive(Debug, ClapArgs)]
pub(crate) struct Folder {
    /// The folder of backups; `create` makes it.
    #[arg(long, value_name = "DIR")]
    pub(crate) backups: PathBuf,
    /// JSON, one object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Put a backup in a new directory. All of it is checked before the directory gets its name.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Restore {
    /// The folder of backups.
    #[arg(long, value_name = "DIR")]
    pub(crate) from: PathBuf,
    /// The backup's number; without it the last one.
    #[arg(long, value_name = "N")]
    pub(crate) id: Option<u64>,
    /// Where the store will be; missing or empty.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: PathBuf,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// What a load takes of disk and memory, and whether that fits.
#[derive(Debug, ClapArgs)]
#[command(after_help = PLAN_EXIT_CODES)]
pub(crate) struct Plan {
    /// New ids a second.
    #[arg(long, value_name = "N")]
    pub(crate) rate: u64,
    /// How long each is remembered.
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    pub(crate) retention: Duration,
    /// Bytes of an id.
    #[arg(long, value_name = "N", default_value_t = 16)]
    pub(crate) id_bytes: u32,
    /// Bytes that are kept with an id: sources, sliding scopes, retentions of an id's own.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) extra_bytes: u32,
    /// The longest time after which a message may come again.
    #[arg(long, value_name = "TIME", value_parser = time::parse_duration)]
    pub(crate) horizon: Option<Duration>,
    /// The disk there is: 500GB, 2TiB.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(crate) disk: Option<u64>,
    /// The memory there is for the store.
    #[arg(long, value_name = "SIZE", value_parser = sizes::parse)]
    pub(crate) memory: Option<u64>,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Measure this machine: new ids a second, and how long a sync takes. Some ten seconds.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Bench {
    /// A directory on the disk that the store will be on; what is made there is removed again.
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How long each of the three parts takes.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = time::parse_duration)]
    pub(crate) time: Duration,
    /// One JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

/// A page about the store, with plots, as one HTML file that needs nothing else.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Report {
    /// The store's directory; another process may have it open.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Where the page goes; `-` is standard output.
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// What `stat --watch --json` wrote, and what the service itself wrote of its statistics in
    /// the same form: sizes and verdicts over time.
    #[arg(long, value_name = "FILE")]
    pub(crate) samples: Option<PathBuf>,
}

/// Completions for a shell, on standard output.
#[derive(Debug, ClapArgs)]
pub(crate) struct Completions {
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// Manual pages of the program and its verbs.
#[derive(Debug, ClapArgs)]
pub(crate) struct Man {
    /// Where a page for each verb goes; without it the program's own goes to standard output.
    #[arg(long, value_name = "DIR")]
    pub(crate) to: Option<PathBuf>,
}
