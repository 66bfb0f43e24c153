//! Input of any kind, read again and again: what the row reader promises of its rows, for the
//! fuzz target and its seeds.
//!
//! 1. Every byte is in exactly one row, or in a blank line (or mark) between rows.
//! 2. The rows are the same with a buffer of any size.
//! 3. From each offset that is reported the rest follows, as if nothing had been read before.
//! 4. A row's id depends on nothing but the row.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::args::Format;
use crate::input::Input;
use crate::keys::Keys;
use crate::rows::{Next, Rows};

/// A row as all readings must give it.
#[derive(Debug, PartialEq, Eq)]
struct Row {
    offset: u64,
    next_offset: u64,
    raw: Vec<u8>,
    body: Vec<u8>,
    fields: Vec<Vec<u8>>,
    id: Result<Vec<u8>, String>,
}

/// Rows after which reading is taken up again; more would only take time.
const RESUMED_MAX: usize = 10;

thread_local! {
    /// One file for all inputs of a thread, as making one takes longer than reading it; and where
    /// there is no disk, which would wait for what is written over and over.
    static FILE: RefCell<tempfile::NamedTempFile> =
        RefCell::new(in_memory().or_else(|_| tempfile::NamedTempFile::new()).expect("a file"));
}

fn in_memory() -> std::io::Result<tempfile::NamedTempFile> {
    tempfile::NamedTempFile::new_in("/dev/shm")
}

/// The first byte says format and buffer, the second how many of the next bytes are `--key`.
pub(crate) fn run(data: &[u8]) {
    let [how, key_bytes, rest @ ..] = data else {
        return;
    };
    let (key, text) = rest.split_at(rest.len().min(usize::from(*key_bytes % 32)));
    let format = [Format::Csv, Format::Jsonl][usize::from(how & 1)];
    let buffer = 1 + usize::from(how >> 2);
    let Ok(keys) = Keys::new(OsStr::from_bytes(key), format, None) else {
        return;
    };
    FILE.with_borrow_mut(|file| {
        file.as_file_mut().set_len(0).expect("an empty file");
        file.seek(SeekFrom::Start(0)).expect("its start");
        file.write_all(text).expect("a written file");
        let open = |buffer: usize| {
            let (path, input) = (file.path(), Input::open(file.path()));
            let input = input.expect("an open file");
            Rows::with_buffer(input, Path::to_path_buf(path), format, buffer)
        };
        check(text, format, &keys, &|| open(4096), &|| open(buffer));
    });
}

fn check(
    text: &[u8],
    format: Format,
    keys: &Keys,
    ample: &dyn Fn() -> Rows,
    tight: &dyn Fn() -> Rows,
) {
    let all = rest(ample(), format, keys);
    whole(text, format, &all);
    assert_eq!(rest(tight(), format, keys), all, "by the buffer");
    for i in 0..all.len().min(RESUMED_MAX) {
        for reader in [ample, tight] {
            let mut rows = reader();
            rows.seek(all[i].next_offset).expect("a file can be sought");
            assert_eq!(rest(rows, format, keys), all[i + 1..], "after row {i}");
        }
    }
}

fn rest(mut rows: Rows, format: Format, keys: &Keys) -> Vec<Row> {
    let mut all = Vec::new();
    loop {
        match rows.advance().expect("a file can be read") {
            Next::Row => {}
            Next::End => return all,
            // A file never pauses but for a signal, and no input here is that long.
            next => panic!("{next:?} at {}", rows.offset()),
        }
        let record = rows.record();
        let fields = (0..record.len()).filter_map(|i| record.field(i));
        all.push(Row {
            offset: rows.offset(),
            next_offset: rows.next_offset(),
            raw: rows.raw().to_vec(),
            body: rows.body().to_vec(),
            fields: fields.map(<[u8]>::to_vec).collect(),
            id: keys.id(&rows, format).map(|id| id.as_ref().to_vec()),
        });
    }
}

/// Promise 1, and that a body is what a line has between its ends.
fn whole(text: &[u8], format: Format, rows: &[Row]) {
    let mut end = 0;
    for row in rows {
        let (from, to) = (row.offset as usize, row.next_offset as usize);
        assert!(end <= from && from < to, "{row:?} after {end}");
        assert!(is_blank(end, &text[end..from]), "before {row:?}");
        assert_eq!(row.raw, text[from..to]);
        assert!(!row.body.is_empty() || !row.fields.is_empty(), "{row:?}");
        let first = row.body.first();
        match format {
            Format::Csv => assert!(!matches!(first, Some(b'\r' | b'\n')), "{row:?}"),
            Format::Jsonl => assert!(!row.body.contains(&b'\n'), "{row:?}"),
        }
        end = to;
    }
    assert!(is_blank(end, &text[end..]), "bytes from {end} on are lost");
}

/// Whether there is no row in these bytes.
fn is_blank(at: usize, bytes: &[u8]) -> bool {
    let bytes = match bytes.strip_prefix(b"\xEF\xBB\xBF") {
        Some(bytes) if at == 0 => bytes,
        _ => bytes,
    };
    bytes.trim_ascii().is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_of_the_fuzz_target_reads_again() {
        let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/cli_rows");
        let mut replayed = 0;
        for seed in seeds.read_dir().unwrap() {
            let path = seed.unwrap().path();
            run(&std::fs::read(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display())));
            replayed += 1;
        }
        assert!(replayed > 10, "{replayed} seeds");
    }

    #[test]
    #[should_panic(expected = "are lost")]
    fn lost_bytes_are_seen() {
        whole(b"a\nb\n", Format::Csv, &[]);
    }

    #[test]
    #[should_panic(expected = "after 2")]
    fn a_row_that_comes_twice_is_seen() {
        let row = || Row {
            offset: 0,
            next_offset: 2,
            raw: b"a\n".to_vec(),
            body: b"a".to_vec(),
            fields: Vec::new(),
            id: Err(String::new()),
        };
        whole(b"a\n", Format::Jsonl, &[row(), row()]);
    }
}
