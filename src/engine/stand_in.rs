//! Opening a database whose MANIFEST names a run that RocksDB took back.
//!
//! An ingestion fails when the record of it in the MANIFEST can't be written or synced. RocksDB
//! then deletes its link to the run; but the record may be on the disk all the same, and the
//! next open would be refused for a missing file. So a run whose ingestion failed is kept aside
//! (our link to it is still there), and stands in for the missing file at the next open. What
//! follows is as after a crash between ingestion and the next step: its ids are in the log too.

use std::path::PathBuf;

use super::Home;
use crate::error::{Error, ErrorKind, Result};

/// Opens by `open`, with the help of runs that were kept aside. RocksDB refuses to open if it
/// meets a missing file, but doesn't look for all of them: `tables` tells which it relies on.
pub(super) fn open_with_stand_ins<T>(
    home: &Home,
    open: impl Fn() -> std::result::Result<T, rocksdb::Error>,
    tables: impl Fn(&T) -> std::result::Result<Vec<String>, rocksdb::Error>,
    map: impl Fn(rocksdb::Error) -> Error,
) -> Result<T> {
    let kept = home.kept_aside()?;
    let mut placed: Option<PathBuf> = None;
    let mut missing: Option<String> = None;
    // One is kept, as a rule. Of more each is tried, and none stays that did not fit.
    for run in std::iter::once(None).chain(kept.iter().map(Some)) {
        if let (Some(run), Some(table)) = (run, &missing) {
            placed = Some(home.stand_in(run, table.as_str())?);
        }
        let error = match open() {
            Ok(opened) if kept.is_empty() => return Ok(opened),
            Ok(opened) => match home.missing_table(&tables(&opened).map_err(&map)?) {
                None => {
                    home.forget_kept_aside()?;
                    return Ok(opened);
                }
                Some(table) => {
                    missing = Some(table);
                    continue;
                }
            },
            Err(error) => error,
        };
        if let Some(wrong) = placed.take() {
            std::fs::remove_file(wrong)?;
        }
        let named = missing_in(error.as_ref());
        let error = map(error);
        // A failing disk says nothing of whether the run fits.
        if error.kind() != ErrorKind::Damaged && named.is_none() {
            return Err(error);
        }
        match missing.clone().or(named) {
            Some(table) if !kept.is_empty() => missing = Some(table),
            _ => return Err(error),
        }
    }
    let table = missing.unwrap_or_default();
    Err(Error::damaged(format!("the table file {table} is missing")))
}

/// The name of the table file that an open missed, from its error.
fn missing_in(text: &str) -> Option<String> {
    let before = &text[..text.find(".sst: No such file")?];
    let name = &before[before.rfind('/')? + 1..];
    let is_number = !name.is_empty() && name.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| format!("{name}.sst"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A failing disk, in RocksDB's words: a database below a file.
    fn fails() -> rocksdb::Error {
        let file = tempfile::NamedTempFile::new().unwrap();
        rocksdb::DB::open_default(file.path().join("x")).unwrap_err()
    }

    #[test]
    fn a_disk_that_fails_while_a_run_is_tried_is_not_taken_for_a_missing_table() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        for folder in ["data", "tmp"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let run = dir.path().join("tmp").join("run.sst");
        std::fs::write(&run, b"a run").unwrap();
        home.keep_aside(&run).unwrap();
        let opens = std::cell::Cell::new(0);
        let open = || {
            opens.set(opens.get() + 1);
            if opens.get() == 1 {
                Ok(())
            } else {
                Err(fails())
            }
        };
        let tables = |_: &()| Ok(vec!["/000001.sst".to_string()]);
        let error = open_with_stand_ins(&home, open, tables, super::super::fault::map);
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Degraded, "{error}");
        assert_eq!(
            home.kept_aside().unwrap().len(),
            1,
            "the next open tries it again"
        );
        assert!(!dir.path().join("data").join("000001.sst").exists());
    }

    #[test]
    fn a_missing_table_is_named() {
        let text = "Corruption: Corruption: IO error: No such file or directory: While open a file \
            for random read: /a b/data/000085.sst: No such file or directory  The file \
            /a b/data/MANIFEST-000071 may be corrupted.";
        assert_eq!(missing_in(text), Some("000085.sst".to_string()));
        assert_eq!(missing_in("IO error: /x/000012.log: No such file"), None);
        assert_eq!(missing_in("/x/one.sst: No such file"), None);
    }
}
