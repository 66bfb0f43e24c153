//! Copies in a crash: checkpoints, backups, restored ones, pruned folders.
//!
//! Whatever a killed process left: what has a copy's name is a sound store, what has not is no
//! empty one, each backup that is listed is whole, and the next ones can be made.

use std::fs;
use std::path::Path;

use firstseen::{Backups, Options, Store, copy_store};

use super::check_at_rest;

/// Makes one of each, numbered.
pub(crate) fn make(store: &Store, dir: &Path, options: &Options, number: usize) {
    let to = |what: &str| dir.join(format!("{what}-{number}"));
    let copied = store.checkpoint(to("copy"));
    copied.expect("a store can be copied");
    copy_store(dir.join("store"), to("copy-outside"), options, |_| {}).expect("also from outside");
    let backups = Backups::open(dir.join("backups")).expect("a folder of backups");
    let made = store.backup(&backups).expect("a store can be backed up");
    let restored = backups.restore(made.id, to("copy-restored"), options, |_| {});
    assert_eq!(restored.expect("it can be restored"), made);
    if number > 0 {
        let pruned = backups.prune(1).expect("old ones can be pruned");
        assert!(pruned.backups > 0);
    }
}

/// Looks at what there is, and makes the next one.
pub(crate) fn check(dir: &Path, options: &Options) -> Result<(), String> {
    for entry in fs::read_dir(dir).map_err(|e| e.to_string())? {
        let path = entry.map_err(|e| e.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !name.starts_with("copy-") {
            continue;
        }
        let checked = check_at_rest(&path, options);
        if !name.ends_with(".partial") {
            checked.map_err(|e| format!("{name}: {e}"))?;
        } else if checked.is_err() && Store::open(&path, options.clone()).is_ok() {
            return Err(format!("{name} opens"));
        }
    }
    let Ok(backups) = Backups::open(dir.join("backups")) else {
        return Err("the folder of backups is none".to_string());
    };
    for (id, backup) in backups.list().map_err(|e| e.to_string())? {
        backup.map_err(|e| format!("backup {id}: {e}"))?;
        let faults = backups.verify(id, |_| {}).map_err(|e| e.to_string())?;
        if !faults.is_empty() {
            return Err(format!("backup {id}: {faults:?}"));
        }
    }
    let made = match backups.create(dir.join("store"), options, |_| {}) {
        // The crash came before the store was one.
        Err(e) if e.to_string().contains("never made whole") => return Ok(()),
        Err(e) if e.to_string().contains("no store here") => return Ok(()),
        made => made.map_err(|e| format!("the next backup: {e}"))?,
    };
    let next = || {
        backups.restore(made.id, dir.join("copy-next"), options, |_| {})?;
        backups.prune(1)
    };
    next().map_err(|e| format!("the next backup: {e}"))?;
    check_at_rest(&dir.join("copy-next"), options)
}
