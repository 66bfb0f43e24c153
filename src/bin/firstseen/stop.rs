//! Ctrl-C: the first asks the run to finish its batch, the second ends the process at once.
//!
//! Ending at once is safe, as every crash is: what was not committed is done again.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::Failure;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Catches Ctrl-C from now on.
pub(crate) fn catch() -> Result<(), Failure> {
    ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    })
    .map_err(|error| Failure::File(format!("Ctrl-C can't be caught: {error}")))
}

/// Whether the run was asked to end.
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
