//! What is kept of ids that are taken for long work, and of those that were given up.
//!
//! A claim is a row of the family `claims` and an entry of a table in memory, never a record of
//! the log: it changes often, lives shortly, and there are few of them. The row goes into the
//! one write batch of the commit that changes it, as all rows do.
//!
//! | file | what |
//! | --- | --- |
//! | `row` | a claim as it is stored |
//! | `table` | all claims in memory, asked before the index |
//! | `census` | how many there are in which state |
//! | `dead` | a dead letter as it is stored |

mod census;
mod dead;
mod row;
mod table;

pub(crate) use census::Group;
pub(crate) use dead::DeadRow;
pub(crate) use row::{ClaimRow, Nonce, Phase, claim_key, id_of, scope_of};
pub(crate) use table::{Change, Claims, Entry, Standing};

/// A claim's row, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn claim_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let row = ClaimRow::decode(bytes).ok()?;
    Some((format!("{row:?}"), row.encode()))
}

/// A dead letter's row, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn dead_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let row = DeadRow::decode(bytes).ok()?;
    Some((format!("{row:?}"), row.encode()))
}
