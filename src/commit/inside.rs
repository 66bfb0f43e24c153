//! Which closures run on this thread: one that calls for what it holds itself would wait for ever.

use std::cell::RefCell;
use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::thread_local;

use super::Committer;
use super::decide::Held;
use super::holds::{Foreign, Owner};

thread_local! {
    /// Owners whose closures run on this thread; meeting one of them is no wait but an error.
    static INSIDE: RefCell<Vec<Holder>> = const { RefCell::new(Vec::new()) };
}

/// An owner: of which store (by its committer's address), of rows or of ids, and its number.
type Holder = (usize, bool, Owner);

/// Marks a closure as running on this thread, which holds its id and its rows.
pub(super) struct Inside;

impl Inside {
    pub(super) fn enter(id: &Held, rows: Owner) -> Inside {
        INSIDE.with_borrow_mut(|inside| {
            let store = Arc::as_ptr(&id.committer) as usize;
            inside.extend([(store, false, id.owner()), (store, true, rows)]);
        });
        Inside
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        INSIDE.with_borrow_mut(|inside| inside.truncate(inside.len() - 2));
    }
}

impl Committer {
    /// A closure that waits for itself would wait for ever.
    pub(super) fn check_reentrant(&self, foreign: Foreign, is_rows: bool) -> Result<()> {
        let owner = (std::ptr::from_ref(self) as usize, is_rows, foreign.owner);
        if INSIDE.with_borrow(|inside| inside.contains(&owner)) {
            return Err(Error::new(
                ErrorKind::Reentrant,
                "the closure called for an id or a row that it holds itself",
            ));
        }
        Ok(())
    }
}
