//! Restoring a backup, and checking one where it lies.

use std::fs::File;
use std::path::Path;

use crate::copy::Copy;
use crate::engine::failpoint;
use crate::error::{Error, Result};
use crate::index;
use crate::options::Options;
use crate::report::{Progress, Told};

use super::create::{finish, folders, place};
use super::manifest::{Entry, Manifest};
use super::{Backup, Backups, files};

pub(super) fn restore(
    backups: &Backups,
    id: u64,
    to: &Path,
    options: &Options,
    told: Told<'_>,
) -> Result<Backup> {
    options.validate()?;
    let manifest = backups.manifest(id)?;
    if manifest.store != index::FORMAT {
        return Err(Error::damaged(format!(
            "backup {id} is of a store of format {}; this release reads format {}",
            manifest.store,
            index::FORMAT
        )));
    }
    let copy = Copy::begin(to)?;
    folders(&copy)?;
    each(&manifest, told, |entry| {
        let from = open(backups, entry)?;
        let content = files::copy(&from, u64::MAX, &place(&copy, &entry.name))?;
        failpoint!("restore::file_copied");
        if content == entry.content {
            Ok(())
        } else {
            Err(Error::damaged(not_as_it_was(backups, entry)))
        }
    })?;
    let Manifest {
        backup, unsynced, ..
    } = manifest;
    finish(copy, backup.commit, unsynced, options)?;
    Ok(backup)
}

pub(super) fn verify(backups: &Backups, id: u64, told: Told<'_>) -> Result<Vec<String>> {
    let manifest = backups.manifest(id)?;
    let mut faults = Vec::new();
    each(&manifest, told, |entry| {
        match open(backups, entry).and_then(|file| files::sum(&file, u64::MAX)) {
            Ok(content) if content == entry.content => {}
            Ok(_) => faults.push(not_as_it_was(backups, entry)),
            Err(error) => faults.push(error.to_string()),
        }
        Ok(())
    })?;
    Ok(faults)
}

fn each(
    manifest: &Manifest,
    told: Told<'_>,
    mut act: impl FnMut(&Entry) -> Result<()>,
) -> Result<()> {
    let mut bytes = 0;
    for entry in &manifest.files {
        act(entry)?;
        bytes += entry.content.bytes;
        told(Progress {
            bytes,
            bytes_total: manifest.backup.bytes,
            place: &entry.name,
        });
    }
    Ok(())
}

fn open(backups: &Backups, entry: &Entry) -> Result<File> {
    File::open(backups.content_path(&entry.content)).map_err(|e| {
        let what = format!("{} of the backup", entry.name);
        match e.kind() {
            std::io::ErrorKind::NotFound => Error::damaged(format!("{what} is gone")),
            _ => Error::from(e).context(what),
        }
    })
}

fn not_as_it_was(backups: &Backups, entry: &Entry) -> String {
    let path = backups.content_path(&entry.content);
    let path = path.display();
    format!("{path} ({}) is not as it was backed up", entry.name)
}
