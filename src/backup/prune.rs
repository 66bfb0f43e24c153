//! Removing old backups.
//!
//! Manifests go first, durably, then what no remaining one lists: a crash between leaves files
//! that the next pruning removes.

use std::collections::HashSet;
use std::fs;

use crate::engine::{failpoint, sync_directory};
use crate::error::{Error, Result};

use super::{Backups, FILES, Pruned, TMP, files};

pub(super) fn prune(backups: &Backups, keep: usize) -> Result<Pruned> {
    if keep == 0 {
        return Err(Error::invalid("at least one backup must be kept"));
    }
    let ids = backups.ids()?;
    let (old, kept) = ids.split_at(ids.len().saturating_sub(keep));
    let mut needed = HashSet::new();
    for id in kept {
        let manifest = backups.manifest(*id)?;
        needed.extend(manifest.files.iter().map(|f| f.content.name()));
    }
    let mut pruned = Pruned::default();
    for id in old {
        fs::remove_file(backups.manifest_path(*id))?;
        pruned.backups += 1;
    }
    sync_directory(&backups.dir)?;
    failpoint!("prune::manifests_removed");
    files::empty(&backups.dir.join(TMP))?;
    for entry in fs::read_dir(backups.dir.join(FILES))? {
        let entry = entry?;
        if !needed.contains(&*entry.file_name().to_string_lossy()) {
            pruned.files += 1;
            pruned.bytes += entry.metadata()?.len();
            fs::remove_file(entry.path())?;
        }
    }
    Ok(pruned)
}
