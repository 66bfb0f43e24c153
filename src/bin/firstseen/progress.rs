//! What a run says on standard error: progress on a terminal, and the summary at its end.
//!
//! The bar also keeps the run's time: it is the one thing here that has a clock, so this program
//! reads none itself.

use std::io::{self, IsTerminal};

use indicatif::{HumanCount, ProgressBar, ProgressStyle};

use crate::job::Counts;

/// The progress of one run.
pub(crate) struct Progress {
    bar: ProgressBar,
    /// Rows that an earlier process of the same run counted.
    before: u64,
}

impl Progress {
    /// `bytes`: the input's length, if it has one. `quiet`: rows themselves go to the terminal.
    pub(crate) fn new(bytes: Option<u64>, before: u64, quiet: bool) -> Progress {
        let bar = match bytes {
            _ if quiet || !io::stderr().is_terminal() => ProgressBar::hidden(),
            Some(bytes) => ProgressBar::new(bytes).with_style(style(
                "{bar:30} {bytes}/{total_bytes}, {msg}, {elapsed} (about {eta} left)",
            )),
            None => {
                ProgressBar::new_spinner().with_style(style("{spinner} {bytes}, {msg}, {elapsed}"))
            }
        };
        Progress { bar, before }
    }

    /// Shows how far the run is.
    pub(crate) fn show(&self, offset: u64, counts: &Counts) {
        if self.bar.is_hidden() {
            return;
        }
        let Counts {
            rows, duplicates, ..
        } = *counts;
        self.bar.set_message(format!(
            "{} rows, {} duplicates",
            HumanCount(rows),
            HumanCount(duplicates)
        ));
        self.bar.set_position(offset);
    }

    /// A line that stays, above the bar.
    pub(crate) fn say(&self, line: &str) {
        self.bar.suspend(|| eprintln!("firstseen: {line}"));
    }

    /// Takes the bar away and prints the summary.
    pub(crate) fn finish(&self, counts: &Counts, json: bool) {
        let seconds = self.bar.elapsed().as_secs_f64();
        self.bar.finish_and_clear();
        let rows_here = counts.rows.saturating_sub(self.before) as f64;
        let rows_per_s = if seconds > 0.0 {
            (rows_here / seconds).round()
        } else {
            0.0
        };
        let rows_per_s = rows_per_s as u64;
        let Counts {
            rows,
            first_seen,
            duplicates,
            rejected,
        } = *counts;
        if json {
            eprintln!(
                "{{\"rows\":{rows},\"first_seen\":{first_seen},\"duplicates\":{duplicates},\
                 \"rejected\":{rejected},\"rows_per_s\":{rows_per_s}}}"
            );
        } else {
            eprintln!(
                "{} rows: {} first seen, {} duplicates, {} rejected ({} rows/s)",
                HumanCount(rows),
                HumanCount(first_seen),
                HumanCount(duplicates),
                HumanCount(rejected),
                HumanCount(rows_per_s)
            );
        }
    }
}

/// A bar of bytes for work whose length is told as it goes on.
pub(crate) fn bytes() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    ProgressBar::new(0).with_style(style(
        "{bar:30} {bytes}/{total_bytes}, {msg}, {elapsed} (about {eta} left)",
    ))
}

/// A count of ids on a terminal, of about so many if that is known. `quiet`: they themselves go to
/// the terminal.
pub(crate) fn ids(about: Option<u64>, quiet: bool) -> ProgressBar {
    if quiet || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    match about {
        Some(about) => ProgressBar::new(about).with_style(style(
            "{bar:30} {human_pos} of about {human_len} ids, {elapsed}",
        )),
        None => {
            ProgressBar::new_spinner().with_style(style("{spinner} {human_pos} ids, {elapsed}"))
        }
    }
}

/// The same of what is printed.
pub(crate) fn printed_ids(about: u64) -> ProgressBar {
    ids(Some(about), io::stdout().is_terminal())
}

fn style(template: &str) -> ProgressStyle {
    // A wrong template is a fault of ours, and not worth failing a run for.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
