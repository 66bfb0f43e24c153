//! The files of a store as of one moment, also while another process writes it.
//!
//! All of them are opened at once; what is open can be read, whatever becomes of its name. If
//! MANIFEST and logs are the same before and after, then nothing was flushed, made or dropped
//! meanwhile, and what is open is the store after one commit: the MANIFEST as long as it was, all
//! tables it may name, and the logs as far as they reached. A log's last record may be cut; an
//! open leaves it out, as after a crash.

use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

use crate::approx::FOLDER;
use crate::clock;
use crate::engine::{Footprint, Home};
use crate::error::{Error, ErrorKind, Result};
use crate::index;

use super::files;

/// How often it is tried, and the pause between.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(20);

/// A file as of that moment.
pub(crate) struct PinnedFile {
    /// In the folder of data, or with its own folder before it.
    pub(crate) name: String,
    pub(crate) file: File,
    /// As many bytes of it count.
    pub(crate) bytes: u64,
    /// Whether it never changes.
    pub(crate) is_table: bool,
}

/// A store as of one moment.
pub(crate) struct Pinned {
    /// The last commit that was durable before.
    pub(crate) durable: u64,
    pub(crate) unsynced: bool,
    pub(crate) incarnation: [u8; 16],
    pub(crate) files: Vec<PinnedFile>,
    /// Name and content of the MANIFEST.
    pub(crate) manifest: (String, Vec<u8>),
}

impl Pinned {
    /// Bytes of all files.
    pub(crate) fn bytes(&self) -> u64 {
        let files: u64 = self.files.iter().map(|f| f.bytes).sum();
        files + self.manifest.1.len() as u64
    }

    /// The files that are small and written anew: CURRENT and the MANIFEST.
    pub(crate) fn small(&self) -> [(&str, Vec<u8>); 2] {
        let (name, content) = &self.manifest;
        let current = format!("{name}\n").into_bytes();
        [("CURRENT", current), (name, content.clone())]
    }
}

/// Pins the files of the store in a directory.
///
/// # Errors
/// `Invalid` if there is no store; `Busy` if it changes too fast, or descriptors are wanting.
pub(crate) fn pin(dir: &Path) -> Result<Pinned> {
    let home = Home::at(dir);
    if !home.holds_data() {
        return Err(Error::invalid("there is no store here"));
    }
    let mut last = None;
    for _ in 0..TRIES {
        let before = Footprint::of(&home)?;
        let pinned = try_pin(&home, &before);
        let is_still = Footprint::of(&home)? == before;
        match pinned {
            Ok(pinned) if is_still => return Ok(pinned),
            Err(error) if is_still => return Err(error),
            Ok(_) => {}
            Err(error) => last = Some(error),
        }
        clock::pause(PAUSE);
    }
    let error = Error::new(
        ErrorKind::Busy,
        "the store changes too fast to be copied; try again",
    );
    Err(match last {
        Some(last) => error.with_source(last),
        None => error,
    })
}

fn try_pin(home: &Home, seen: &Footprint) -> Result<Pinned> {
    let durability = index::durability_of(home)?;
    let data = home.data_path();
    let (name, bytes) = &seen.manifest;
    let manifest = files::read(&File::open(data.join(name))?, *bytes)?;
    if name.is_empty() || manifest.len() as u64 != *bytes {
        return Err(Error::damaged("the store has no whole MANIFEST"));
    }
    let mut pinned = Vec::new();
    for entry in fs::read_dir(&data)? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.ends_with(".sst") {
            continue;
        }
        match File::open(data.join(&name)) {
            Ok(file) => pinned.push(of(name, file, true)?),
            // Nothing needs it, or the MANIFEST has changed.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from(e).context(name)),
        }
    }
    for log in &seen.logs {
        let file = File::open(data.join(log)).map_err(|e| Error::from(e).context(log))?;
        pinned.push(of(log.clone(), file, false)?);
    }
    pin_approximate(home, &mut pinned)?;
    Ok(Pinned {
        durable: durability.n,
        unsynced: durability.unsynced,
        incarnation: durability.incarnation,
        files: pinned,
        manifest: (name.clone(), manifest),
    })
}

/// The files of approximate scopes, as a crash would leave them: the mark that says "open" first,
/// so that a snapshot is never taken for one of a scope that was closed.
fn pin_approximate(home: &Home, pinned: &mut Vec<PinnedFile>) -> Result<()> {
    let Some(dir) = home.directory().filter(|dir| dir.join(FOLDER).is_dir()) else {
        return Ok(());
    };
    let mut names = home.list(FOLDER)?;
    // What is being replaced has another name.
    names.retain(|name| !name.ends_with(".new"));
    names.sort_unstable();
    for name in names {
        match File::open(dir.join(&name)) {
            Ok(file) => pinned.push(of(name, file, false)?),
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::from(e).context(name)),
        }
    }
    Ok(())
}

fn of(name: String, file: File, is_table: bool) -> Result<PinnedFile> {
    let bytes = file.metadata()?.len();
    Ok(PinnedFile {
        name,
        file,
        bytes,
        is_table,
    })
}
