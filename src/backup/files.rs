//! Bytes: copied with their checksum, and made durable.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use xxhash_rust::xxh3::{Xxh3, xxh3_128};

use crate::error::Result;

/// Contents, by which a file of the folder is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Content {
    pub(super) sum: u128,
    pub(super) bytes: u64,
}

impl Content {
    pub(super) fn name(&self) -> String {
        format!("{:032x}-{}", self.sum, self.bytes)
    }

    pub(super) fn of(bytes: &[u8]) -> Content {
        Content {
            sum: xxh3_128(bytes),
            bytes: bytes.len() as u64,
        }
    }
}

/// How much is copied at a time.
const BUFFER_BYTES: usize = 1 << 20;
/// How much of each end tells a table file.
const END_BYTES: u64 = 64 << 10;

/// Copies up to `bytes` bytes, from the beginning, into a new file that is durable but for its
/// name.
pub(super) fn copy(from: &File, bytes: u64, to: &Path) -> Result<Content> {
    let mut out = File::create(to)?;
    let content = pass(from, bytes, |part| out.write_all(part))?;
    out.sync_all()?;
    Ok(content)
}

/// The sum of up to `bytes` bytes of a file.
pub(super) fn sum(from: &File, bytes: u64) -> Result<Content> {
    pass(from, bytes, |_| Ok(()))
}

fn pass(
    from: &File,
    bytes: u64,
    mut each: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> Result<Content> {
    let mut hasher = Xxh3::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut at = 0;
    while at < bytes {
        let most = buffer
            .len()
            .min(usize::try_from(bytes - at).unwrap_or(usize::MAX));
        let read = from.read_at(&mut buffer[..most], at)?;
        if read == 0 {
            break;
        }
        hasher.update(&buffer[..read]);
        each(&buffer[..read])?;
        at += read as u64;
    }
    Ok(Content {
        sum: hasher.digest128(),
        bytes: at,
    })
}

/// A sum of both ends of a file of known length: RocksDB's tables never change, and their end
/// holds what only they have (when and in which process they were made).
pub(super) fn probe(file: &File, bytes: u64) -> Result<u128> {
    let mut hasher = Xxh3::new();
    let mut end = vec![0; usize::try_from(END_BYTES.min(bytes)).unwrap_or(0)];
    for at in [0, bytes.saturating_sub(END_BYTES)] {
        file.read_exact_at(&mut end, at)?;
        hasher.update(&end);
    }
    Ok(hasher.digest128())
}

/// Writes a whole file, durable but for its name.
pub(super) fn write(to: &Path, bytes: &[u8]) -> Result<()> {
    let mut file = File::create(to)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    Ok(())
}

/// Reads a file of which only so many bytes count.
pub(super) fn read(file: &File, bytes: u64) -> Result<Vec<u8>> {
    let mut read = Vec::new();
    file.take(bytes).read_to_end(&mut read)?;
    Ok(read)
}

/// Removes everything in a folder.
pub(super) fn empty(folder: &Path) -> Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            fs::remove_dir_all(entry.path())?;
        } else {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_has_the_sum_of_its_bytes_and_the_length_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n >> 3) as u8).collect();
        let (from, to) = (dir.path().join("from"), dir.path().join("to"));
        write(&from, &bytes).unwrap();
        let file = File::open(&from).unwrap();
        for length in [0, 1, 70_000, 2_999_999, 3_000_000] {
            let content = copy(&file, length, &to).unwrap();
            let part = &bytes[..length as usize];
            assert_eq!(content, Content::of(part));
            assert_eq!(fs::read(&to).unwrap(), part);
            assert_eq!(sum(&file, length).unwrap(), content);
        }
        let more = sum(&file, 4_000_000).unwrap();
        assert_eq!(more, Content::of(&bytes), "there are no more");
        let whole = probe(&file, 3_000_000).unwrap();
        assert_ne!(probe(&file, 2_999_999).unwrap(), whole);
        assert_eq!(read(&file, 10).unwrap(), bytes[..10]);
    }
}
