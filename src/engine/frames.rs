//! A look at the frames of RocksDB's logs before RocksDB reads them.
//!
//! RocksDB's log reader (11.8.1, `log_reader.cc`) takes a recycled kind of record behind others
//! for a bad one and asks for the next, without passing it: it asks for the same record for
//! ever. One flipped bit in the kind of a record is enough, in a write-ahead log or a manifest,
//! and an open would never end. We never recycle logs, so no record of such a kind is ours.
//!
//! ```text
//! log:   blocks of 32 KiB, the last one shorter
//! frame: checksum u32 | length u16 LE | kind u8 | bytes; fewer than 7 bytes left end the block
//! ```
//! Checksums are left to RocksDB. Costs one read of what RocksDB reads next.
//!
//! Failure: such a record in the manifest makes the store `Damaged`. In a write-ahead log the
//! kind, which is damaged anyway, is overwritten with one that fails the record's checksum: then
//! RocksDB sees the damage, and does about it what it does about any other.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};

use super::files::Home;

const BLOCK: usize = 32 * 1024;
const HEADER: usize = 7;
/// Whole records; fragments of others.
const FULL: u8 = 1;
const LAST: u8 = 4;
/// No kind of record, so that the checksum, which covers it, fails.
const NONE: u8 = 0x7F;

/// Whether a kind is that of a record in a recycled log.
fn is_recycled(kind: u8) -> bool {
    matches!(kind, 5..=8 | 11 | 131)
}

/// Where in a log the kind of a record stands that RocksDB would read for ever.
fn endless(mut log: impl Read) -> io::Result<Option<u64>> {
    let mut block = Vec::with_capacity(BLOCK);
    let (mut start, mut has_record) = (0, false);
    loop {
        block.clear();
        log.by_ref().take(BLOCK as u64).read_to_end(&mut block)?;
        let mut rest = &block[..];
        while let [_, _, _, _, low, high, kind, ..] = *rest {
            if is_recycled(kind) {
                let at = start + (block.len() - rest.len() + HEADER - 1) as u64;
                return Ok(has_record.then_some(at));
            }
            let len = usize::from(u16::from_le_bytes([low, high]));
            // What a length of nothing, or beyond the block, makes of the rest is skipped.
            let is_void = kind == 0 && len == 0;
            let Some(next) = rest.get(HEADER + len..).filter(|_| !is_void) else {
                break;
            };
            has_record |= kind == FULL || kind == LAST;
            rest = next;
        }
        if block.len() < BLOCK {
            return Ok(None);
        }
        start += BLOCK as u64;
    }
}

impl Home {
    /// The logs that an open reads: the manifest in use first, then the write-ahead logs.
    fn logs(&self) -> Result<Vec<PathBuf>> {
        let Some(dir) = self.directory() else {
            return Ok(Vec::new());
        };
        let mut logs = Vec::new();
        if let Ok(manifest) = std::fs::read_to_string(dir.join("data/CURRENT"))
            && manifest.starts_with("MANIFEST-")
        {
            logs.push(dir.join("data").join(manifest.trim_end()));
        }
        let mut names = self.list("data")?;
        names.retain(|name| is_log(name));
        names.sort_unstable();
        logs.extend(names.iter().map(|name| dir.join(name)));
        Ok(logs)
    }

    /// # Errors
    /// `Damaged` if a log holds a record that RocksDB would read for ever.
    pub(super) fn check_frames(&self) -> Result<()> {
        for log in self.logs()? {
            if let Some(at) = endless_in(&log)? {
                let log = log.display();
                return Err(Error::damaged(format!(
                    "{log}: byte {at} is a kind of record that is never written"
                )));
            }
        }
        Ok(())
    }

    /// Makes RocksDB notice such records in write-ahead logs. The directory must be locked.
    pub(super) fn mark_endless_records(&self) -> Result<()> {
        for log in self.logs()?.iter().filter(|log| is_log(log)) {
            while let Some(at) = endless_in(log)? {
                let file = OpenOptions::new().write(true).open(log)?;
                file.write_all_at(&[NONE], at)?;
                file.sync_all()?;
                log::warn!("{}: the damaged record at {at} was marked", log.display());
            }
        }
        Ok(())
    }
}

fn is_log(path: impl AsRef<Path>) -> bool {
    path.as_ref().extension().is_some_and(|e| e == "log")
}

/// A log that is not there, or no file, is RocksDB's to report.
fn endless_in(path: &Path) -> Result<Option<u64>> {
    match File::open(path) {
        Ok(file) if file.metadata()?.is_file() => Ok(endless(file)?),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, len: usize) -> Vec<u8> {
        let [low, high] = (len as u16).to_le_bytes();
        let mut frame = vec![9, 9, 9, 9, low, high, kind];
        frame.resize(HEADER + len, 5);
        frame
    }

    fn endless_of(frames: &[Vec<u8>]) -> Option<u64> {
        endless(&frames.concat()[..]).unwrap()
    }

    #[test]
    fn a_recycled_kind_behind_a_record_is_found() {
        for kind in [5, 6, 7, 8, 11, 131] {
            let frames = [frame(FULL, 10), frame(kind, 3)];
            assert_eq!(endless_of(&frames), Some(17 + 6), "{kind}");
        }
        // In the second block too, where the first one's end is a trailer.
        let first = frame(LAST, BLOCK - HEADER - 4);
        let frames = [first, vec![0; 4], frame(FULL, 1), frame(7, 0)];
        assert_eq!(endless_of(&frames), Some(BLOCK as u64 + 8 + 6));
    }

    #[test]
    fn what_rocksdb_passes_is_no_fault() {
        let ordinary = [frame(130, 20), frame(2, 30), frame(3, 9), frame(LAST, 1)];
        assert_eq!(endless_of(&ordinary), None);
        // A recycled log begins with such a record.
        assert_eq!(endless_of(&[frame(5, 9), frame(5, 9)]), None);
        // Nothing is read behind a void, a torn frame, or fewer bytes than a header.
        assert_eq!(endless_of(&[frame(FULL, 2), vec![0; 7], frame(6, 2)]), None);
        let torn = [frame(FULL, 2), vec![9, 9, 9, 9, 0xFF, 0xFF, 1], frame(6, 2)];
        assert_eq!(endless_of(&torn), None);
        assert_eq!(
            endless_of(&[frame(FULL, 2), frame(6, 0)[..6].to_vec()]),
            None
        );
        assert_eq!(endless_of(&[]), None);
    }
}
