//! Looking into a store that another process may have open.
//!
//! The files of a store that is being written come and go. A look reads them as an open does,
//! without writing, and then makes sure of three things; if one fails, it looks again:
//! - O1: no write-ahead log went away meanwhile (`engine::Footprint`), so no commit fell between
//!   what was flushed and what was replayed;
//! - O2: no commit can be in a family that was made meanwhile;
//! - O3: commit numbers are whole, and reach the floor as it was before.
//!
//! What it gives is then the store after some commit, rows and ids together. An error counts only
//! if nothing changed while it came about.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::clock;
use crate::core::Core;
use crate::engine::{Footprint, Home};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Options;
use crate::stats::AsOf;
use crate::store::Store;

/// How often a store is looked at again that changes meanwhile, and the pause between.
const LOOKS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(20);

impl Store {
    /// Opens a store only to be read, also while another process (or this one) has it open.
    ///
    /// Nothing in its directory is written or locked. The result is the store as it was after one
    /// commit, ids, rows and resume points together: everything that `Written` and `Synced` calls
    /// had returned before this call, or later; `Buffered` ones once they were written
    /// ([`Store::as_of`] says how far). It does not follow: open it again to see what came later.
    /// Whatever writes is refused with `Invalid`, also the check-and-insert of a known id.
    ///
    /// Costs an open: the write-ahead log is read and kept in memory, and all files of the store
    /// stay open, which keeps their room on the disk taken. Filters are not loaded, so a lookup
    /// reads a page a run.
    ///
    /// # Errors
    /// `Invalid` if there is no store; `Busy` if it changed too fast to be looked at, again and
    /// again; `Damaged`, `RecoveredShort` and I/O errors as [`Store::open`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let orders = store.scope("orders", Policy::remember(days(7)))?;
    /// let _ = orders.insert("order-17")?;
    ///
    /// let look = Store::open_read_only(dir.path(), Options::new())?;
    /// let seen = look.existing_scope("orders")?.expect("it was made");
    /// assert!(seen.peek("order-17")?.is_some());
    /// assert!(seen.insert("order-18").is_err());
    /// assert_eq!(look.as_of().expect("read only").commit, 1);
    /// # Ok(()) }
    /// ```
    pub fn open_read_only(dir: impl AsRef<Path>, options: Options) -> Result<Store> {
        let dir = dir.as_ref();
        let context = |e: Error| e.context(format_args!("store {}", dir.display()));
        let home = Home::at(dir);
        let opener = home.opener().map_err(context)?;
        let core = look(&home, &options).map_err(context)?;
        Ok(Store::of_core(core, home, options, Some(opener)))
    }

    /// How far a store reaches that was opened to be read only; `None` of another one.
    #[must_use]
    pub fn as_of(&self) -> Option<AsOf> {
        let opener = self.shared.opener.clone()?;
        let core = self.shared.core().ok()?;
        let index = core.index();
        Some(AsOf {
            commit: index.written(),
            durable: index.floor_n(),
            at: self.shared.opened_at,
            open_by: opener,
        })
    }
}

/// Looks until what was seen is whole.
fn look(home: &Home, options: &Options) -> Result<Arc<Core>> {
    let mut last = None;
    for _ in 0..LOOKS {
        let before = Footprint::of(home).map_err(|_| no_store())?;
        let seen = Core::open_to_read(home.clone(), options).and_then(|core| {
            let names = core.index().engine.families_now()?;
            Ok((core.index().has_all_of(&names)).then_some(core))
        });
        let after = Footprint::of(home)?;
        match seen {
            Ok(Some(core)) if before.kept_logs(&after) => return Ok(core),
            Ok(_) => {}
            Err(error) if before == after => return Err(error),
            Err(error) => last = Some(error),
        }
        clock::pause(PAUSE);
    }
    let error = Error::new(
        ErrorKind::Busy,
        "the store changes too fast to be looked at; try again",
    );
    Err(match last {
        Some(last) => error.with_source(last),
        None => error,
    })
}

fn no_store() -> Error {
    Error::invalid("there is no store here")
}
