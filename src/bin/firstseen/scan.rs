//! `scan`: the ids of a scope that are still remembered, in the order of the ids.
use crate::{args::Scan, failure::*};
pub(crate) fn run(_: &Scan) -> Result<Ending, Failure> {
    Ok(Ending::Done)
}
