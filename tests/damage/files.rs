//! The kinds of files that a store's directory holds, and which file is of which kind.

use std::fs;
use std::path::{Path, PathBuf};

/// A kind of file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Wal,
    Ids,
    Log,
    Catalog,
    Points,
    Audit,
    Rows,
    Manifest,
    Current,
    Settings,
    Identity,
    RocksLock,
    Report,
    Floor,
    Lock,
    Filter,
}

impl Kind {
    pub(crate) const COUNT: usize = Kind::Filter as usize + 1;
}

/// All files of a store with their kinds, in an order that is always the same.
pub(crate) fn files(dir: &Path) -> Vec<(Kind, PathBuf)> {
    let mut found = Vec::new();
    for folder in ["", "data", "filters"] {
        for entry in fs::read_dir(dir.join(folder)).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                found.push((kind(folder, &path), path));
            }
        }
    }
    found.sort();
    found
}

fn kind(folder: &str, path: &Path) -> Kind {
    let name = path.file_name().unwrap().to_str().unwrap();
    match (folder, name) {
        ("", "FLOOR") => Kind::Floor,
        ("", "LOCK") => Kind::Lock,
        ("filters", _) => Kind::Filter,
        ("data", "LOCK") => Kind::RocksLock,
        ("data", "CURRENT") => Kind::Current,
        ("data", "IDENTITY") => Kind::Identity,
        ("data", _) if name.starts_with("LOG") => Kind::Report,
        ("data", _) if name.starts_with("MANIFEST-") => Kind::Manifest,
        ("data", _) if name.starts_with("OPTIONS-") => Kind::Settings,
        ("data", _) if name.ends_with(".log") => Kind::Wal,
        ("data", _) if name.ends_with(".sst") => table_kind(path),
        _ => panic!("an unknown file: {}", path.display()),
    }
}

/// A table file names its family among its properties, whose keys leave out what they share with
/// the one before; an ingested one, of ids, names none.
fn table_kind(path: &Path) -> Kind {
    let bytes = fs::read(path).unwrap();
    // Behind `rocksdb.column.family.id`: 22 bytes shared, 4 more, the value's length.
    let is_name = |w: &[u8]| w.starts_with(&[22, 4]) && w.ends_with(b"name");
    let at = bytes.windows(7).position(is_name);
    let family = at.map_or(&[][..], |at| &bytes[at + 7..][..usize::from(bytes[at + 2])]);
    match family {
        b"meta" => Kind::Catalog,
        b"points" => Kind::Points,
        b"audit" => Kind::Audit,
        _ if family.starts_with(b"table.") => Kind::Rows,
        _ if family.starts_with(b"log1.") => Kind::Log,
        _ => Kind::Ids,
    }
}
