//! What a backup consists of: text, one thing a line, the last line a checksum of all before.
//!
//! ```text
//! firstseen backup 1                      the format of this file
//! id 3
//! at 1767225600000                        effective time, ms since 1970
//! store 1                                 the store's format
//! commit 120
//! unsynced 1                              whether a commit may ever have been unsynced
//! incarnation <32 digits>                 of the store it is of
//! ids 4711
//! added 1048576                           bytes that were new to the folder
//! point <source, hex> <position, hex>     each resume point, as it is stored
//! file <name in data/, or approx/name> <bytes> <sum> <sum of both ends>
//! end <xxh3-128 of all lines before>
//! ```

use std::fmt::Write;
use std::time::{Duration, UNIX_EPOCH};

use xxhash_rust::xxh3::xxh3_128;

use crate::approx::FOLDER;
use crate::clock::since_epoch;
use crate::position::Position;

use super::Backup;
use super::files::Content;

const FIRST: &str = "firstseen backup 1";

/// A manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) backup: Backup,
    /// The store's format.
    pub(super) store: u32,
    pub(super) unsynced: bool,
    pub(super) incarnation: [u8; 16],
    pub(super) files: Vec<Entry>,
}

/// One file of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) content: Content,
    /// The sum of both ends, by which a table file is known again.
    pub(super) probe: u128,
}

impl Manifest {
    pub(super) fn encode(&self) -> Vec<u8> {
        let b = &self.backup;
        let mut text = format!(
            "{FIRST}\nid {}\nat {}\nstore {}\ncommit {}\nunsynced {}\nincarnation {}\nids {}\n\
             added {}\n",
            b.id,
            since_epoch(b.at),
            self.store,
            b.commit,
            u8::from(self.unsynced),
            hex(&self.incarnation),
            b.ids_estimate,
            b.bytes_added,
        );
        for (source, position) in &b.resume_points {
            let (source, position) = (hex(source.as_bytes()), hex(&position.encode()));
            let _ = writeln!(text, "point {source} {position}");
        }
        for Entry {
            name,
            content: Content { sum, bytes },
            probe,
        } in &self.files
        {
            let _ = writeln!(text, "file {name} {bytes} {sum:032x} {probe:032x}");
        }
        let sum = xxh3_128(text.as_bytes());
        let _ = writeln!(text, "end {sum:032x}");
        text.into_bytes()
    }

    /// `None` if anything is off.
    pub(super) fn decode(bytes: &[u8]) -> Option<Manifest> {
        let text = std::str::from_utf8(bytes).ok()?;
        let at = text.strip_suffix('\n')?.rfind('\n')? + 1;
        let (body, end) = text.split_at(at);
        let sum = end.strip_prefix("end ")?.strip_suffix('\n')?;
        if u128::from_str_radix(sum, 16).ok()? != xxh3_128(body.as_bytes()) {
            return None;
        }
        let mut lines = body.lines().peekable();
        if lines.next()? != FIRST {
            return None;
        }
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let id = field("id")?.parse().ok()?;
        let at = UNIX_EPOCH.checked_add(Duration::from_millis(field("at")?.parse().ok()?))?;
        let store = field("store")?.parse().ok()?;
        let commit = field("commit")?.parse().ok()?;
        let unsynced = field("unsynced")? == "1";
        let incarnation = unhex(field("incarnation")?)?.try_into().ok()?;
        let ids_estimate = field("ids")?.parse().ok()?;
        let bytes_added = field("added")?.parse().ok()?;
        let mut resume_points = Vec::new();
        while let Some(line) = lines.next_if(|line| line.starts_with("point ")) {
            resume_points.push(point(line)?);
        }
        let files = lines.map(entry).collect::<Option<Vec<Entry>>>()?;
        Some(Manifest {
            backup: Backup {
                id,
                at,
                commit,
                ids_estimate,
                files: files.len() as u64,
                bytes: files.iter().map(|f| f.content.bytes).sum(),
                bytes_added,
                resume_points,
            },
            store,
            unsynced,
            incarnation,
            files,
        })
    }
}

fn point(line: &str) -> Option<(String, Position)> {
    let (source, position) = line.strip_prefix("point ")?.split_once(' ')?;
    let source = String::from_utf8(unhex(source)?).ok()?;
    Some((source, Position::decode(&unhex(position)?).ok()?))
}

fn entry(line: &str) -> Option<Entry> {
    let mut words = line.strip_prefix("file ")?.split(' ');
    let name = words.next()?;
    // It is put into a folder: nothing may lead out of it.
    let own = name.strip_prefix(FOLDER).and_then(|n| n.strip_prefix('/'));
    let file = own.unwrap_or(name);
    if file.is_empty() || file.contains('/') || file.starts_with('.') {
        return None;
    }
    let bytes = words.next()?.parse().ok()?;
    let mut sum = || u128::from_str_radix(words.next()?, 16).ok();
    let content = Content { sum: sum()?, bytes };
    let probe = sum()?;
    words.next().is_none().then(|| Entry {
        name: name.to_string(),
        content,
        probe,
    })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn unhex(digits: &str) -> Option<Vec<u8>> {
    let (pairs, rest) = digits.as_bytes().as_chunks::<2>();
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let byte = |[a, b]: &[u8; 2]| u8::try_from(digit(*a)? << 4 | digit(*b)?).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest() -> Manifest {
        let entry = |name: &str, bytes| Entry {
            name: name.to_string(),
            content: Content { sum: 0xab, bytes },
            probe: 1,
        };
        Manifest {
            backup: Backup {
                id: 3,
                at: UNIX_EPOCH + Duration::from_millis(7),
                commit: 120,
                ids_estimate: 4711,
                files: 2,
                bytes: 30,
                bytes_added: 10,
                resume_points: vec![("a b\n".to_string(), Position::from(258))],
            },
            store: 1,
            unsynced: true,
            incarnation: [9; 16],
            files: vec![entry("000012.sst", 10), entry("CURRENT", 20)],
        }
    }

    #[test]
    fn a_manifest_is_golden_and_damage_is_noticed() {
        let bytes = manifest().encode();
        let text = std::str::from_utf8(&bytes).unwrap();
        let (body, end) = text.split_at(text.rfind("end ").unwrap());
        let expected = "firstseen backup 1\nid 3\nat 7\nstore 1\ncommit 120\nunsynced 1\n\
            incarnation 09090909090909090909090909090909\nids 4711\nadded 10\n\
            point 6120620a 000000000000000102\n\
            file 000012.sst 10 000000000000000000000000000000ab 00000000000000000000000000000001\n\
            file CURRENT 20 000000000000000000000000000000ab 00000000000000000000000000000001\n";
        assert_eq!(body, expected);
        assert_eq!(end, format!("end {:032x}\n", xxh3_128(body.as_bytes())));
        assert_eq!(Manifest::decode(&bytes), Some(manifest()));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            assert_eq!(Manifest::decode(&damaged), None, "byte {at}");
            assert_eq!(Manifest::decode(&bytes[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_name_that_leads_elsewhere_is_refused() {
        for name in [
            "../x",
            "a/b",
            ".",
            "..",
            "approx/../x",
            "approx/",
            "approx/a/b",
        ] {
            let mut wrong = manifest();
            wrong.files[0].name = name.to_string();
            assert_eq!(Manifest::decode(&wrong.encode()), None, "{name}");
        }
    }
}
