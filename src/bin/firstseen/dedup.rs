//! The main job: writes each first-seen row once, byte for byte, through crashes.
//!
//! One batch, in this order (*crash here* as the next run finds it):
//!
//! 1. Read rows; a good row's id goes into the batch. *Crash: nothing happened.*
//! 2. `hold`: the verdicts are known, new ids are ours in memory only. *Crash: nothing happened.*
//! 3. Write the first-seen rows, flush, and sync if commits are synced. *Crash: the output is
//!    longer than committed; the next run cuts it and reads the same rows again.*
//! 4. One commit: the ids, the input position, the output's length. *Crash: both or neither.*
//!
//! Invariant: a row of an output file up to its committed length was written exactly once, and the
//! rows' ids are recorded exactly when the rows are within that length. The other order (commit,
//! then write) would lose rows.
//!
//! Any failure ends the process with the batch dropped; nothing is undone here, because the next
//! run does exactly that.

mod commit;
mod start;

use firstseen::{Batch, Scope, Store};

use crate::args::{Dedup, OnError};
use crate::failure::{Ending, Failure};
use crate::job::State;
use crate::keys::Keys;
use crate::output::Output;
use crate::pending::Pending;
use crate::progress::Progress;
use crate::rows::{Next, ROW_BYTES_MAX, Rows};
use crate::stop;

/// So many bad rows are reported one by one.
const BAD_ROWS_SHOWN: u64 = 10;

/// A run of the job.
struct Run<'a> {
    args: &'a Dedup,
    rows: Rows,
    /// The CSV header as it came; empty if there is none.
    header: Vec<u8>,
    keys: Keys,
    store: Store,
    scope: Scope,
    batch: Batch,
    output: Output,
    rejects: Option<Output>,
    /// The job's resume point, if its output is a file.
    source: Option<String>,
    /// As committed.
    state: State,
    pending: Pending,
    progress: Progress,
}

pub(crate) fn run(args: &Dedup) -> Result<Ending, Failure> {
    stop::catch()?;
    let Some(mut run) = start::start(args)? else {
        return Ok(Ending::Interrupted);
    };
    let ended = run.all_rows();
    if let Ok(Ending::Interrupted) = ended {
        run.progress.say(&format!(
            "interrupted after row {}; {}",
            run.state.counts.rows,
            run.how_to_go_on()
        ));
    }
    run.progress.finish(&run.state.counts, args.json);
    let ended = ended?;
    let Run {
        store,
        scope,
        batch,
        ..
    } = run;
    drop((batch, scope));
    store.close()?;
    Ok(ended)
}

impl Run<'_> {
    fn all_rows(&mut self) -> Result<Ending, Failure> {
        loop {
            if stop::requested() {
                self.commit(self.rows.next_offset())?;
                return Ok(Ending::Interrupted);
            }
            match self.rows.advance()? {
                Next::Row => self.take()?,
                Next::Pause => self.commit(self.rows.next_offset())?,
                Next::End => {
                    self.finish()?;
                    return Ok(Ending::Done);
                }
                Next::TooLong => {
                    return Err(self.stop_here(format!("it has more than {ROW_BYTES_MAX} bytes")));
                }
            }
            if self.pending.is_full(self.args.batch as usize) {
                self.commit(self.rows.next_offset())?;
            }
        }
    }

    /// Takes the current row into the batch.
    fn take(&mut self) -> Result<(), Failure> {
        let why = match self.keys.id(&self.rows, self.args.format) {
            Ok(id) => {
                self.batch.once(&self.scope, &id);
                self.pending.push(self.rows.raw(), true);
                return Ok(());
            }
            Err(why) => why,
        };
        match self.args.on_error() {
            OnError::Stop => return Err(self.stop_here(why)),
            OnError::Skip => self.report(&why),
        }
        self.pending.push(self.rows.raw(), false);
        Ok(())
    }

    /// Commits the rows before the current one and makes the failure that stops the run there.
    fn stop_here(&mut self, why: String) -> Failure {
        let (row, offset) = (self.row_number(), self.rows.offset());
        match self.commit(offset) {
            Ok(()) => Failure::BadRow { row, offset, why },
            Err(failure) => failure,
        }
    }

    /// Says that a row is bad, unless there were many before it.
    fn report(&self, why: &str) {
        let before = self.state.counts.rejected + (self.pending.len() - self.pending.good()) as u64;
        if before < BAD_ROWS_SHOWN {
            self.progress
                .say(&format!("row {}: {why}", self.row_number()));
        } else if before == BAD_ROWS_SHOWN {
            self.progress
                .say("more bad rows are counted, but not reported");
        }
    }

    /// The number of the row that is being taken, from 1; the header is none.
    fn row_number(&self) -> u64 {
        self.state.counts.rows + self.pending.len() as u64 + 1
    }

    fn how_to_go_on(&self) -> &'static str {
        match (&self.source, self.rows.input().as_file()) {
            (Some(_), Some(_)) => "run the same command again to go on from there",
            (Some(_), None) => "send the input again from its start to go on behind these rows",
            (None, _) => "without an output file there is nothing to resume",
        }
    }
}
