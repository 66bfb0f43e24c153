//! The second half of a batch: hold, write, commit. The order is the parent's, steps 2 to 4.

use firstseen::{ErrorKind, Verdict, Verdicts};

use super::Run;
use crate::args::Durability;
use crate::failure::Failure;
use crate::job::{Counts, State};
use crate::stop;

/// How often a call that found the store busy is made again; each waits by itself.
const BUSY_MAX: u32 = 60;

impl Run<'_> {
    /// Commits the pending rows; reading goes on at `offset`. Does nothing if there are none.
    pub(super) fn commit(&mut self, offset: u64) -> Result<(), Failure> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let held = match self.pending.good() {
            0 => Verdicts::default(),
            _ => patiently(|| self.batch.hold())?,
        };
        let counts = self.sort_rows(&held)?;
        self.flush(self.args.durability == Durability::Synced)?;
        let state = State {
            offset,
            counts,
            ..self.state
        };
        let committed = self.record(state)?;
        if !committed
            .iter()
            .map(Verdict::is_first)
            .eq(held.iter().map(Verdict::is_first))
        {
            return Err(Failure::File(
                "the commit's verdicts differ from the held ones".into(),
            ));
        }
        self.pending.clear();
        self.progress.show(offset, &self.state.counts);
        Ok(())
    }

    /// Commits what is pending, and that the input is done with.
    pub(super) fn finish(&mut self) -> Result<(), Failure> {
        let offset = self.rows.next_offset();
        self.commit(offset)?;
        // From here on nobody reads these rows again: they must outlive what follows.
        self.flush(true)?;
        let state = State {
            offset,
            finished: true,
            ..self.state
        };
        self.record(state).map(drop)
    }

    /// Sends each pending row to where its verdict says. Returns the counts with them.
    fn sort_rows(&mut self, held: &Verdicts) -> Result<Counts, Failure> {
        let mut counts = self.state.counts;
        let mut verdicts = held.iter();
        for (row, good) in self.pending.iter() {
            counts.rows += 1;
            let verdict = if good { verdicts.next() } else { None };
            match verdict {
                Some(Verdict::First(())) => {
                    counts.first_seen += 1;
                    self.output.push(row);
                }
                Some(Verdict::Duplicate(_)) => counts.duplicates += 1,
                None => {
                    counts.rejected += 1;
                    if let Some(rejects) = &mut self.rejects {
                        if rejects.is_empty() {
                            rejects.push(&self.header);
                        }
                        rejects.push(row);
                    }
                }
                Some(other) => {
                    let row = counts.rows;
                    return Err(Failure::File(format!("row {row}: no decision ({other:?})")));
                }
            }
        }
        Ok(counts)
    }

    fn flush(&mut self, sync: bool) -> Result<(), Failure> {
        self.output.flush(sync)?;
        match &mut self.rejects {
            Some(rejects) => rejects.flush(sync),
            None => Ok(()),
        }
    }

    /// The one commit: the batch's ids with the state.
    fn record(&mut self, state: State) -> Result<Verdicts, Failure> {
        let mut state = State {
            output_bytes: self.output.bytes(),
            ..state
        };
        if let Some(rejects) = &self.rejects {
            state.rejects_bytes = rejects.bytes();
        }
        if let Some(file) = self.rows.input().as_file() {
            state.fingerprint = file
                .fingerprint(state.offset)
                .map_err(|error| Failure::file(self.rows.path(), &error))?;
        }
        if let Some(source) = &self.source {
            self.batch.resume_at(source, state.encode());
        }
        let verdicts = match (&self.source, self.pending.good()) {
            (None, 0) => Verdicts::default(),
            _ => patiently(|| self.batch.commit())?,
        };
        self.state = state;
        Ok(verdicts)
    }
}

/// Makes a call again while the store is busy, until it is asked to stop or loses patience.
fn patiently<T>(mut call: impl FnMut() -> firstseen::Result<T>) -> firstseen::Result<T> {
    let mut tries = 0;
    loop {
        match call() {
            Err(error) if error.kind() == ErrorKind::Busy && tries < BUSY_MAX => {
                if stop::requested() {
                    return Err(error);
                }
                tries += 1;
            }
            done => return done,
        }
    }
}
