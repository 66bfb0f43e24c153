//! Verbs about work that is under way or was given up: claims, dead letters, sequences,
//! transactions in doubt.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, Subcommand, ValueEnum};

use crate::failure::EXIT_CODES;

use crate::args::{Actor, Ids, Place};

/// List a scope's claims: who waits, who works, whose outcome is unknown. Also while the store
/// is in use.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Claims {
    #[command(flatten)]
    pub(crate) place: Place,
}

/// Look through a scope's dead letters, and end them.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Dead {
    #[command(subcommand)]
    pub(crate) act: DeadAct,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DeadAct {
    /// List them, with the reasons. Also while the store is in use.
    List {
        #[command(flatten)]
        place: Place,
    },
    /// Everything about some, their payloads included.
    Show {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        ids: Ids,
    },
    /// Let their messages be worked on again. Audited.
    Redrive(ByHand),
    /// Remove them; their ids stay known until their time is over. Audited.
    Purge(ByHand),
}

/// What is done to ids by request.
#[derive(Debug, ClapArgs)]
pub(crate) struct ByHand {
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

/// Say what became of ids whose outcome is unknown, after asking the other side. Audited.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Decide {
    /// What became of them: the effect took place; it did not and never will; it did not, and may
    /// be tried again.
    #[arg(long, value_enum)]
    pub(crate) outcome: Outcome,
    #[command(flatten)]
    pub(crate) by_hand: ByHand,
}

/// What became of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Outcome {
    Done,
    Failed,
    Retry,
}

/// List the producers of the spaces of sequences: epoch, highest number, gaps. Also while the
/// store is in use.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Sequences {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// Only this space.
    #[arg(long, value_name = "S")]
    pub(crate) space: Option<String>,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Look at prepared transactions whose end is not known, and end them by hand. Ask their
/// coordinator first.
#[derive(Debug, ClapArgs)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct InDoubt {
    #[command(subcommand)]
    pub(crate) act: InDoubtAct,
}

#[derive(Debug, Subcommand)]
pub(crate) enum InDoubtAct {
    /// List them, the oldest first. Also while the store is in use.
    List {
        /// The store's directory.
        #[arg(long, value_name = "DIR")]
        store: PathBuf,
        /// One JSON object a line.
        #[arg(long)]
        json: bool,
    },
    /// Commit them: their ids are recorded and their rows written. Audited.
    Commit(EndInDoubt),
    /// Abort them, as if they had never been prepared. Audited.
    Abort(EndInDoubt),
}

/// Transactions to be ended by request.
#[derive(Debug, ClapArgs)]
pub(crate) struct EndInDoubt {
    /// The store's directory.
    #[arg(long, value_name = "DIR")]
    pub(crate) store: PathBuf,
    /// The reason, kept with the act.
    #[arg(long, value_name = "TEXT")]
    pub(crate) why: String,
    #[command(flatten)]
    pub(crate) actor: Actor,
    /// One JSON object a line.
    #[arg(long)]
    pub(crate) json: bool,
    /// Each name is in hexadecimal digits, as `in-doubt list --json` prints it.
    #[arg(long)]
    pub(crate) hex: bool,
    /// The transactions' names.
    #[arg(value_name = "TXN", required = true)]
    pub(crate) txns: Vec<OsString>,
}
