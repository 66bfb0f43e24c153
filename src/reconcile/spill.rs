//! Records written once to a temporary file and read back in their order.
//!
//! ```text
//! file:  blocks: len u32 LE | xxh3_64 u64 LE of the payload | payload
//! block: records: len u32 LE | bytes
//! ```
//! The file has no name any more once it is open, so nothing is left behind by an end of any
//! kind. Each block is checked before it is used: what a repair is built on must not be what a
//! disk made of it. Memory: one block a writer or reader.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind as IoKind, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use xxhash_rust::xxh3::xxh3_64;

use crate::error::{Error, ErrorKind, Result};
use crate::sync::atomic::{AtomicU64, Ordering};

/// Records are gathered to blocks of about so many bytes.
const BLOCK_BYTES: usize = 64 << 10;
/// No record of ours is near that.
const BLOCK_BYTES_MAX: usize = 1 << 20;
const HEADER_BYTES: usize = 12;

/// Where temporary files go.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) dir: PathBuf,
    /// So many bytes stay free there.
    pub(super) reserve: u64,
}

impl Place {
    /// A new file without a name.
    fn file(&self) -> Result<File> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let n = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = self.dir.join(format!("sort-{}-{n}", std::process::id()));
            let mut options = OpenOptions::new();
            match options.read(true).write(true).create_new(true).open(&path) {
                Ok(file) => {
                    fs::remove_file(&path)?;
                    return Ok(file);
                }
                Err(e) if e.kind() == IoKind::AlreadyExists => {}
                Err(e) => return Err(Error::from(e).context(self.dir.display())),
            }
        }
    }

    /// # Errors
    /// `Full` if the file system would have less than the reserve after so many bytes.
    fn check_room(&self, bytes: u64) -> Result<()> {
        let stat = rustix::fs::statvfs(&self.dir).map_err(std::io::Error::from)?;
        let free = stat.f_bavail.saturating_mul(stat.f_frsize);
        if free >= self.reserve.saturating_add(bytes) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::Full,
            format!(
                "sorting needs {bytes} bytes more in {}, which has {free}; name another directory",
                self.dir.display()
            ),
        ))
    }
}

/// Records being written.
pub(super) struct SpillWriter {
    place: Place,
    file: File,
    block: Vec<u8>,
    bytes: u64,
}

impl SpillWriter {
    pub(super) fn new(place: &Place) -> Result<SpillWriter> {
        Ok(SpillWriter {
            place: place.clone(),
            file: place.file()?,
            block: Vec::with_capacity(BLOCK_BYTES),
            bytes: 0,
        })
    }

    pub(super) fn put(&mut self, record: &[u8]) -> Result<()> {
        let len = u32::try_from(record.len()).expect("records are bounded far below 4 GiB");
        self.block.extend_from_slice(&len.to_le_bytes());
        self.block.extend_from_slice(record);
        if self.block.len() >= BLOCK_BYTES {
            self.write_block()?;
        }
        Ok(())
    }

    fn write_block(&mut self) -> Result<()> {
        let len = self.block.len();
        self.place.check_room((HEADER_BYTES + len) as u64)?;
        let mut header = [0; HEADER_BYTES];
        let short = u32::try_from(len).expect("a block is bounded far below 4 GiB");
        header[..4].copy_from_slice(&short.to_le_bytes());
        header[4..].copy_from_slice(&xxh3_64(&self.block).to_le_bytes());
        self.file.write_all(&header)?;
        self.file.write_all(&self.block)?;
        self.bytes += (HEADER_BYTES + len) as u64;
        self.block.clear();
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Spill> {
        if !self.block.is_empty() {
            self.write_block()?;
        }
        let SpillWriter { file, bytes, .. } = self;
        Ok(Spill { file, bytes })
    }
}

/// Records that were written.
#[derive(Debug)]
pub(super) struct Spill {
    file: File,
    bytes: u64,
}

impl Spill {
    /// Reads from the first record on.
    pub(super) fn read(&self) -> Result<SpillReader> {
        Ok(SpillReader {
            file: self.file.try_clone()?,
            at: 0,
            end: self.bytes,
            block: Vec::new(),
            next: 0,
        })
    }
}

/// Records being read.
pub(super) struct SpillReader {
    file: File,
    at: u64,
    end: u64,
    block: Vec<u8>,
    next: usize,
}

impl SpillReader {
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>> {
        if self.next == self.block.len() {
            if self.at == self.end {
                return Ok(None);
            }
            self.read_block()?;
        }
        let rest = &self.block[self.next..];
        let (len, rest) = rest.split_first_chunk::<4>().ok_or_else(damaged)?;
        let len = u32::from_le_bytes(*len) as usize;
        let record = rest.get(..len).ok_or_else(damaged)?;
        self.next += 4 + len;
        Ok(Some(record))
    }

    fn read_block(&mut self) -> Result<()> {
        let mut header = [0; HEADER_BYTES];
        self.file.read_exact_at(&mut header, self.at)?;
        let (len, sum) = header.split_first_chunk::<4>().ok_or_else(damaged)?;
        let len = u32::from_le_bytes(*len) as usize;
        if len > BLOCK_BYTES_MAX {
            return Err(damaged());
        }
        self.block.resize(len, 0);
        self.next = 0;
        let at = self.at + HEADER_BYTES as u64;
        self.file.read_exact_at(&mut self.block, at)?;
        if xxh3_64(&self.block).to_le_bytes()[..] != *sum {
            return Err(damaged());
        }
        self.at = at + len as u64;
        Ok(())
    }
}

fn damaged() -> Error {
    Error::damaged("a temporary file of a sort came back damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(dir: &tempfile::TempDir) -> Place {
        Place {
            dir: dir.path().to_path_buf(),
            reserve: 0,
        }
    }

    fn spilled(place: &Place, records: &[Vec<u8>]) -> Spill {
        let mut writer = SpillWriter::new(place).unwrap();
        records.iter().for_each(|r| writer.put(r).unwrap());
        writer.finish().unwrap()
    }

    #[test]
    fn records_come_back_in_order_and_no_name_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let records: Vec<Vec<u8>> = (0..3000_u32)
            .map(|i| vec![i as u8; i as usize % 97])
            .collect();
        let spill = spilled(&place(&dir), &records);
        assert!(spill.bytes > 2 * BLOCK_BYTES as u64, "more than one block");
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
        for _ in 0..2 {
            let mut reader = spill.read().unwrap();
            for record in &records {
                assert_eq!(reader.next().unwrap(), Some(&record[..]));
            }
            assert_eq!(reader.next().unwrap(), None);
        }
        let none = spilled(&place(&dir), &[]);
        assert_eq!(none.read().unwrap().next().unwrap(), None);
    }

    #[test]
    fn a_changed_byte_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let spill = spilled(&place(&dir), &[b"one".to_vec(), b"two".to_vec()]);
        for at in 0..spill.bytes {
            let mut byte = [0];
            spill.file.read_exact_at(&mut byte, at).unwrap();
            spill.file.write_all_at(&[byte[0] ^ 1], at).unwrap();
            assert!(spill.read().unwrap().next().is_err(), "byte {at}");
            spill.file.write_all_at(&byte, at).unwrap();
        }
        assert!(spill.read().unwrap().next().is_ok());
    }

    #[test]
    fn the_reserve_stays_free() {
        let dir = tempfile::tempdir().unwrap();
        let place = Place {
            reserve: u64::MAX / 2,
            ..place(&dir)
        };
        let mut writer = SpillWriter::new(&place).unwrap();
        writer.put(b"x").unwrap();
        let error = writer.finish().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Full);
    }
}
