//! Making a backup, and a copy of a store from outside.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::approx::FOLDER;
use crate::copy::Copy;
use crate::core::Core;
use crate::engine::{Home, failpoint, sync_directory};
use crate::error::{Error, Result};
use crate::index::{self, give_floor};
use crate::options::Options;
use crate::position::Position;
use crate::report::{Progress, Told};
use crate::store::Store;

use super::files::{self, Content};
use super::manifest::{Entry, Manifest};
use super::pin::{Pinned, pin};
use super::{Backup, Backups, FILES, TMP};

/// What the folder has of table files: by name, size and the sum of both ends.
type Known = HashMap<(String, u64, u128), Content>;

pub(super) fn create(
    backups: &Backups,
    store: &Path,
    options: &Options,
    told: Told<'_>,
) -> Result<Backup> {
    options.validate()?;
    let tmp = backups.dir.join(TMP);
    files::empty(&tmp)?;
    let pinned = pin(store)?;
    let known = known(backups, pinned.incarnation)?;
    let total = pinned.bytes();
    let (mut entries, mut added, mut done) = (Vec::new(), 0, 0);
    for pinned in &pinned.files {
        let (entry, is_new) = keep(backups, pinned, &known)?;
        done += entry.content.bytes;
        added += if is_new { entry.content.bytes } else { 0 };
        told(Progress {
            bytes: done,
            bytes_total: total,
            place: &entry.name,
        });
        entries.push(entry);
        failpoint!("backup::file_kept");
    }
    for (name, bytes) in pinned.small() {
        let to = tmp.join("small");
        files::write(&to, &bytes)?;
        let content = Content::of(&bytes);
        added += if put(backups, &to, &content)? {
            content.bytes
        } else {
            0
        };
        entries.push(Entry {
            name: name.to_string(),
            content,
            probe: 0,
        });
    }
    sync_directory(&backups.dir.join(FILES))?;
    failpoint!("backup::files_synced");
    let id = backups.ids()?.last().map_or(1, |last| last + 1);
    let manifest = describe(backups, id, &pinned, entries, added, options)?;
    failpoint!("backup::before_manifest");
    let to = tmp.join("manifest");
    files::write(&to, &manifest.encode())?;
    fs::rename(&to, backups.manifest_path(id))?;
    sync_directory(&backups.dir)?;
    Ok(manifest.backup)
}

fn known(backups: &Backups, incarnation: [u8; 16]) -> Result<Known> {
    let mut known = Known::new();
    for id in backups.ids()? {
        // What can't be read is of no use here; `list` and `prune` say so.
        let Ok(manifest) = backups.manifest(id) else {
            continue;
        };
        if manifest.incarnation == incarnation {
            let entries = manifest.files.into_iter().filter(|e| e.probe != 0);
            known.extend(entries.map(|e| ((e.name, e.content.bytes, e.probe), e.content)));
        }
    }
    Ok(known)
}

/// Has a file in the folder; whether it was not there before.
fn keep(
    backups: &Backups,
    pinned: &super::pin::PinnedFile,
    known: &Known,
) -> Result<(Entry, bool)> {
    let name = pinned.name.clone();
    let context = |e: Error| e.context(&pinned.name);
    let probe = match pinned.is_table {
        // 0 says that it may change.
        true => files::probe(&pinned.file, pinned.bytes)
            .map_err(context)?
            .max(1),
        false => 0,
    };
    if let Some(content) = known.get(&(name.clone(), pinned.bytes, probe))
        && has(backups, content)
    {
        let content = *content;
        let entry = Entry {
            name,
            content,
            probe,
        };
        return Ok((entry, false));
    }
    let to = backups.dir.join(TMP).join("copy");
    let content = files::copy(&pinned.file, pinned.bytes, &to).map_err(context)?;
    if content.bytes != pinned.bytes {
        return Err(Error::damaged(format!("{name} became shorter")));
    }
    let is_new = put(backups, &to, &content)?;
    let entry = Entry {
        name,
        content,
        probe,
    };
    Ok((entry, is_new))
}

fn has(backups: &Backups, content: &Content) -> bool {
    let there = fs::metadata(backups.content_path(content));
    there.is_ok_and(|meta| meta.len() == content.bytes)
}

/// Puts a written file in its place; whether it was not there before.
fn put(backups: &Backups, from: &Path, content: &Content) -> Result<bool> {
    let is_new = !has(backups, content);
    // Also over one that is there: what was just written is what it should be.
    fs::rename(from, backups.content_path(content))?;
    Ok(is_new)
}

/// Opens what was kept as a store, to be read, and says what is in it (B1).
fn describe(
    backups: &Backups,
    id: u64,
    pinned: &Pinned,
    files: Vec<Entry>,
    bytes_added: u64,
    options: &Options,
) -> Result<Manifest> {
    let view = backups.dir.join(TMP).join("view");
    let data = view.join("data");
    fs::create_dir_all(&data)?;
    for entry in files.iter().filter(|entry| !entry.name.contains('/')) {
        let content = fs::canonicalize(backups.content_path(&entry.content))?;
        symlink(content, data.join(&entry.name))?;
    }
    let home = Home::at(&view);
    give_floor(&home, pinned.durable, pinned.unsynced)?;
    let store = opened(home, options)?;
    let stats = store.stats()?;
    let backup = Backup {
        id,
        at: stats.effective_time,
        commit: stats.written,
        ids_estimate: stats.live_ids_estimate,
        files: files.len() as u64,
        bytes: files.iter().map(|f| f.content.bytes).sum(),
        bytes_added,
        resume_points: points(&store)?,
    };
    store.close()?;
    fs::remove_dir_all(&view)?;
    Ok(Manifest {
        backup,
        store: index::FORMAT,
        unsynced: pinned.unsynced,
        incarnation: pinned.incarnation,
        files,
    })
}

/// A copy, opened to be read: what it holds is whole, and reaches its floor.
pub(super) fn opened(home: Home, options: &Options) -> Result<Store> {
    let core = Core::open_to_read(home.clone(), options)?;
    Ok(Store::of_core(core, home, options.clone(), Some(None)))
}

fn points(store: &Store) -> Result<Vec<(String, Position)>> {
    let core = store.shared.core()?;
    let rows = core.index().points.rows(&[]);
    let points = rows.map(|row| {
        let (source, position) = row?;
        let source = String::from_utf8_lossy(&source).into_owned();
        Ok((source, Position::decode(&position)?))
    });
    points.collect()
}

/// Copies the store in a directory to another, whoever has it open: what
/// [`Store::checkpoint`] does, from outside. Table files are linked where the file system can,
/// else copied; the write-ahead log is copied. `told` is called after each file.
///
/// The copy is a store of its own as of one commit, and there whole or not at all.
///
/// # Errors
/// `Invalid` if there is no store, or something at `to`; `Busy` if the store changed too fast;
/// `Damaged`, `RecoveredShort`, I/O errors.
pub fn copy_store(
    from: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: &Options,
    mut told: impl FnMut(Progress<'_>),
) -> Result<()> {
    let from = from.as_ref();
    options.validate()?;
    let context = |e: Error| e.context(format_args!("store {}", from.display()));
    let pinned = pin(from).map_err(context)?;
    let copy = Copy::begin(to.as_ref())?;
    let data = folders(&copy)?;
    let mut progress = Progress {
        bytes: 0,
        bytes_total: pinned.bytes(),
        place: "",
    };
    for pinned in &pinned.files {
        let to = place(&copy, &pinned.name);
        let there: PathBuf = from.join("data").join(&pinned.name);
        // Numbers of tables are not used again, so the name is still this file's, or nobody's.
        if !(pinned.is_table && fs::hard_link(there, &to).is_ok()) {
            files::copy(&pinned.file, pinned.bytes, &to)?;
        }
        progress.bytes += pinned.bytes;
        told(Progress {
            place: &pinned.name,
            ..progress
        });
        failpoint!("copy::file_copied");
    }
    for (name, bytes) in pinned.small() {
        files::write(&data.join(name), &bytes)?;
    }
    finish(copy, pinned.durable, pinned.unsynced, options).map(drop)
}

/// Makes the folders of a copy; the one of data.
pub(super) fn folders(copy: &Copy) -> Result<PathBuf> {
    let data = copy.dir().join("data");
    fs::create_dir(&data)?;
    fs::create_dir(copy.dir().join(FOLDER))?;
    Ok(data)
}

/// Where a file of a backup is in a copy.
pub(super) fn place(copy: &Copy, name: &str) -> PathBuf {
    match name.contains('/') {
        true => copy.dir().join(name),
        false => copy.dir().join("data").join(name),
    }
}

/// Gives a copy its floor, looks whether it opens, and puts it in its place; its last commit.
pub(super) fn finish(copy: Copy, floor: u64, unsynced: bool, options: &Options) -> Result<u64> {
    sync_directory(&copy.dir().join("data"))?;
    sync_directory(&copy.dir().join(FOLDER))?;
    failpoint!("copy::before_floor");
    fs::create_dir_all(copy.dir().join("filters"))?;
    give_floor(&copy.home(), floor, unsynced)?;
    let looked = opened(copy.home(), options).and_then(|store| {
        let commit = store.stats()?.written;
        store.close()?;
        Ok(commit)
    });
    let commit = looked.inspect_err(|_| drop(copy.spoil()))?;
    copy.finish()?;
    Ok(commit)
}
