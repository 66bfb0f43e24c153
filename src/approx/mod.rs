//! Approximate scopes: filters of slices of a window, in memory fixed by configuration, with no
//! record on disk beyond snapshots.
//!
//! | file | what |
//! | --- | --- |
//! | here | the open scopes of a store, and the check of those of a store at rest |
//! | `options` | what a scope is made for |
//! | `size` | error rates and sizes |
//! | `ring` | the filters, asked and filled by many threads |
//! | `sketch` | the distinct count of a slice |
//! | `snapshot` | the file of a scope |
//! | `state` | an open scope, and what of it is on disk |
//! | `told` | what callers are told |
//!
//! Concurrency: `opening` orders who makes and drops scopes; `open` is held for moments.
//! Failure: a scope whose files can't be read is an error, never an empty scope.

mod options;
mod ring;
mod size;
mod sketch;
mod snapshot;
mod state;
mod told;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use crate::engine::Home;
use crate::error::{Error, Result};
use crate::report::{Area, Findings, Remedy};
use crate::sync::Mutex;

pub use options::Approximate;
pub(crate) use state::State;
pub use told::{ApproximateStats, Distinct, Recovery, Sight};

/// The folder of their files.
pub(crate) const FOLDER: &str = "approx";
const SNAPSHOT: &str = "seen";
const MARK: &str = "open";
/// As many bytes as a file's name may have, each of them escaped.
const NAME_BYTES_MAX: usize = 80;

/// The open approximate scopes of a store.
#[derive(Default)]
pub(crate) struct Approximates {
    open: Mutex<BTreeMap<String, Arc<State>>>,
    opening: Mutex<()>,
}

impl Approximates {
    /// Makes a scope, brings it back, or finds the open one.
    pub(crate) fn open(
        &self,
        home: &Home,
        name: &str,
        made_for: &Approximate,
        seed: u64,
        now_ms: u64,
    ) -> Result<Arc<State>> {
        check_name(name)?;
        let _opening = self.opening.lock();
        if let Some(state) = self.open.lock().get(name) {
            state.check_made_for(made_for)?;
            return Ok(Arc::clone(state));
        }
        let state = Arc::new(State::open(home, name, made_for, seed, now_ms)?);
        let mut open = self.open.lock();
        open.insert(name.to_string(), Arc::clone(&state));
        Ok(state)
    }

    /// Drops a scope, open or on disk; false if there is none.
    pub(crate) fn drop(&self, home: &Home, name: &str) -> Result<bool> {
        check_name(name)?;
        let _opening = self.opening.lock();
        let open = self.open.lock().remove(name);
        if let Some(state) = open {
            return state.remove(home).map(|()| true);
        }
        let there = [snapshot_file(name), mark_file(name)];
        if !there.iter().any(|file| home.has_file(file)) {
            return Ok(false);
        }
        remove_files(home, name).map(|()| true)
    }

    fn all(&self) -> Vec<Arc<State>> {
        self.open.lock().values().cloned().collect()
    }

    /// Bytes of memory of all of them.
    pub(crate) fn bytes(&self) -> u64 {
        self.open.lock().values().map(|state| state.bytes()).sum()
    }

    /// Whether background work is due.
    pub(crate) fn is_due(&self) -> bool {
        self.open.lock().values().any(|state| state.is_due())
    }

    /// Cleans slices and writes snapshots that are due. What fails is tried again later.
    pub(crate) fn maintain(&self, home: &Home, now_ms: impl Fn() -> u64) {
        for state in self.all() {
            if let Err(error) = state.maintain(home, now_ms()) {
                log::error!("approximate scope {:?} was not saved: {error}", state.name);
            }
        }
    }

    /// Closes all, each with a snapshot of all that was answered; the first failure.
    pub(crate) fn close(&self, home: &Home, now_ms: u64) -> Result<()> {
        let closed = self.all().into_iter().map(|state| {
            let context = format!("approximate scope {:?}", state.name);
            state.close(home, now_ms).map_err(|e| e.context(context))
        });
        closed.fold(Ok(()), Result::and)
    }

    /// Ends all as a killed process would.
    #[cfg(feature = "testing")]
    pub(crate) fn abandon(&self) {
        self.all().iter().for_each(|state| state.abandon());
    }

    /// Puts a snapshot of each into a copy of the store: as closed at this moment those that are
    /// open, as they lie those that are not.
    pub(crate) fn copy_to(&self, home: &Home, copy: &Home, now_ms: u64) -> Result<()> {
        let (Some(from), Some(to)) = (home.directory(), copy.directory()) else {
            return Ok(());
        };
        let _opening = self.opening.lock();
        if !from.join(FOLDER).is_dir() {
            return Ok(());
        }
        copy.make_folder(FOLDER)?;
        let open = self.all();
        for state in &open {
            state.write(copy, now_ms)?;
        }
        let of_open = |file: &str| {
            let is = |of: &State| file == snapshot_file(&of.name) || file == mark_file(&of.name);
            open.iter().any(|state| is(state))
        };
        for file in home.list(FOLDER)? {
            if kind(&file).is_some() && !of_open(&file) {
                std::fs::copy(from.join(&file), to.join(&file))?;
            }
        }
        Ok(())
    }
}

/// Checks the snapshots of a store that nobody has open. Files of other kinds are left alone.
pub(crate) fn check_at_rest(home: &Home, found: &mut Findings<'_>) -> Result<()> {
    let is_there = home
        .directory()
        .is_some_and(|dir| dir.join(FOLDER).is_dir());
    if !is_there {
        return Ok(());
    }
    let mut files = home.list(FOLDER)?;
    files.sort();
    for file in &files {
        match kind(file) {
            Some(SNAPSHOT) => check_snapshot(home, file, found),
            Some(_) => {
                let snapshot = Path::new(file).with_extension(SNAPSHOT);
                let snapshot = snapshot.to_string_lossy().into_owned();
                let what = "an approximate scope was not closed: ids may be first again";
                found.note(format_args!("{file}: {what}"));
                if !files.contains(&snapshot) {
                    fault(found, &snapshot, "it is missing");
                }
            }
            None => found.note(format_args!("{file} is no file of the store's")),
        }
    }
    Ok(())
}

fn check_snapshot(home: &Home, file: &str, found: &mut Findings<'_>) {
    let checked = home.open_file(file).and_then(|opened| match opened {
        None => Ok(0),
        Some(opened) => {
            let bytes = opened.metadata()?.len();
            let reader = state::reader(opened)?;
            let name = reader.head.name.clone();
            if snapshot_file(&name) != file {
                return Err(Error::damaged(format!("it is of scope {name:?}")));
            }
            reader.slices(None).map(|()| bytes)
        }
    });
    match checked {
        Ok(bytes) => found.read(bytes as usize, file),
        Err(error) => fault(found, file, &error.to_string()),
    }
}

fn fault(found: &mut Findings<'_>, file: &str, what: &str) {
    found.fault(Area::Approximate, file, what, Remedy::DropApproximate);
}

/// Whether a file is a snapshot or a mark.
fn kind(file: &str) -> Option<&'static str> {
    let ending = Path::new(file).extension()?;
    [SNAPSHOT, MARK].into_iter().find(|kind| ending == *kind)
}

fn snapshot_file(name: &str) -> String {
    format!("{FOLDER}/{}.{SNAPSHOT}", escaped(name))
}

fn mark_file(name: &str) -> String {
    format!("{FOLDER}/{}.{MARK}", escaped(name))
}

/// Letters, digits, `-` and `_` as they are, other bytes as `%xx`. Capitals are escaped too: not
/// every file system tells them apart.
fn escaped(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        let plain = byte.is_ascii_lowercase() || byte.is_ascii_digit();
        match plain || byte == b'-' || byte == b'_' {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02x}")),
        }
    }
    out
}

/// The snapshot first: a mark without one is an error at the next opening, never an empty scope.
fn remove_files(home: &Home, name: &str) -> Result<()> {
    if home.directory().is_none() {
        return Ok(());
    }
    home.remove_durably(&snapshot_file(name))?;
    home.remove_durably(&mark_file(name))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(Error::invalid(format!(
            "an approximate scope's name must have 1 to {NAME_BYTES_MAX} bytes, none of them 0"
        )));
    }
    Ok(())
}
