//! Splits the input into rows, each byte for byte as it came.
//!
//! 1. A row's raw bytes run from the end of the row before to its own end, with its line
//!    terminator, its quotes and the line breaks inside them. A last row without a terminator has
//!    none. A byte-order mark belongs to the first row's raw bytes, never to its content; so do
//!    blank lines between the mark and the row.
//! 2. Blank lines between rows are no rows: they are passed over.
//! 3. Between two rows the input can be taken up again at exactly `next_offset`.
//!
//! A row may have [`ROW_BYTES_MAX`] bytes. In CSV, a longer one is nearly always a stray quote
//! that swallows the rest of the input; no row after it could be trusted, so it always stops the
//! run.

use std::path::{Path, PathBuf};

use crate::args::Format;
use crate::csv::{Parsed, Record};
use crate::failure::Failure;
use crate::input::{Fed, Input};

/// The longest row in bytes.
pub(crate) const ROW_BYTES_MAX: usize = 16 << 20;

const BUFFER_BYTES: usize = 256 << 10;
const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

/// What asking for the next row led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Row,
    /// The input pauses; rows may still come.
    Pause,
    End,
    /// The row is longer than [`ROW_BYTES_MAX`]; there is no way past it.
    TooLong,
}

/// Whether the buffer holds a row.
enum Scan {
    Row,
    More,
    End,
}

/// The rows of an input.
pub(crate) struct Rows {
    input: Input,
    path: PathBuf,
    format: Format,
    buf: Vec<u8>,
    /// The current row begins here in `buf`.
    start: usize,
    /// So much of `buf` is filled.
    end: usize,
    /// So much of the current row was looked at: all of it, once it is complete.
    seen: usize,
    /// The length of the byte-order mark before the current row, with blank lines behind it.
    mark: usize,
    /// The CSV record is over; if it ended with a CR, a LF may still belong to the row.
    parsed: bool,
    complete: bool,
    /// The row ended with the input, not with a terminator.
    unterminated: bool,
    /// The input is at its end.
    ended: bool,
    /// Where the current row begins in the input, and how many lines are before it.
    offset: u64,
    lines: u64,
    record: Record,
}

impl Rows {
    pub(crate) fn new(input: Input, path: PathBuf, format: Format) -> Rows {
        Rows::with_buffer(input, path, format, BUFFER_BYTES)
    }

    /// With a buffer that begins with so many bytes: tests cross the ends of a small one.
    pub(crate) fn with_buffer(input: Input, path: PathBuf, format: Format, bytes: usize) -> Rows {
        Rows {
            input,
            path,
            format,
            buf: vec![0; bytes],
            start: 0,
            end: 0,
            seen: 0,
            mark: 0,
            parsed: false,
            complete: false,
            unterminated: false,
            ended: false,
            offset: 0,
            lines: 0,
            record: Record::new(),
        }
    }

    pub(crate) fn input(&self) -> &Input {
        &self.input
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Goes on at an offset between two rows.
    pub(crate) fn seek(&mut self, offset: u64) -> Result<(), Failure> {
        self.input
            .seek(offset)
            .map_err(|error| Failure::file(&self.path, &error))?;
        self.pass();
        self.start = 0;
        self.end = 0;
        self.ended = false;
        self.offset = offset;
        Ok(())
    }

    /// Goes to the next row; the one before is gone.
    pub(crate) fn advance(&mut self) -> Result<Next, Failure> {
        if self.complete {
            self.pass();
        }
        loop {
            match self.scan() {
                Scan::Row => {
                    self.complete = true;
                    return Ok(Next::Row);
                }
                Scan::End => return Ok(Next::End),
                Scan::More => {}
            }
            if self.end == self.buf.len() && !self.make_room() {
                return Ok(Next::TooLong);
            }
            match self.input.feed(&mut self.buf[self.end..]) {
                Ok(Fed::Bytes(n)) => self.end += n,
                Ok(Fed::Pause) => return Ok(Next::Pause),
                Ok(Fed::End) => self.ended = true,
                Err(error) => return Err(Failure::file(&self.path, &error)),
            }
        }
    }

    /// The current row as it came.
    pub(crate) fn raw(&self) -> &[u8] {
        &self.buf[self.start..self.start + self.seen]
    }

    /// The current row without byte-order mark and line terminator.
    pub(crate) fn body(&self) -> &[u8] {
        let body = &self.raw()[self.mark..];
        if self.unterminated {
            return body;
        }
        let body = body.strip_suffix(b"\n").unwrap_or(body);
        body.strip_suffix(b"\r").unwrap_or(body)
    }

    /// The current row's fields, if it is CSV.
    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Where the current row begins in the input.
    pub(crate) fn offset(&self) -> u64 {
        self.offset
    }

    /// The line, from 1, in which the current row begins, if nothing was sought.
    pub(crate) fn line(&self) -> u64 {
        self.lines + 1 + newlines(&self.raw()[..self.mark])
    }

    /// Where to go on: after the current row, if it is complete.
    pub(crate) fn next_offset(&self) -> u64 {
        self.offset + if self.complete { self.seen as u64 } else { 0 }
    }

    /// Puts the current row behind us.
    fn pass(&mut self) {
        self.lines += newlines(self.raw());
        self.start += self.seen;
        self.offset += self.seen as u64;
        self.seen = 0;
        self.mark = 0;
        self.parsed = false;
        self.complete = false;
        self.unterminated = false;
        self.record.clear();
    }

    /// Looks for the current row's end. `More` never comes once the input has ended.
    fn scan(&mut self) -> Scan {
        if self.offset == 0 && self.seen == 0 {
            let head = &self.buf[self.start..self.end];
            if head.len() < BYTE_ORDER_MARK.len() && !self.ended {
                return Scan::More;
            }
            if head.starts_with(BYTE_ORDER_MARK) {
                self.mark = BYTE_ORDER_MARK.len();
                self.seen = self.mark;
            }
        }
        match self.format {
            Format::Csv => self.scan_csv(),
            Format::Jsonl => self.scan_line(),
        }
    }

    fn scan_csv(&mut self) -> Scan {
        if self.seen == self.mark {
            self.skip_line_ends();
        }
        while !self.parsed {
            let piece = &self.buf[self.start + self.seen..self.end];
            if piece.is_empty() && !self.ended {
                return Scan::More;
            }
            let (parsed, used) = self.record.feed(piece);
            self.seen += used;
            match parsed {
                Parsed::Record => self.parsed = true,
                Parsed::More => {}
                Parsed::End => return Scan::End,
            }
            self.unterminated = used == 0;
        }
        if !self.unterminated && self.buf[self.start + self.seen - 1] == b'\r' {
            match self.buf[..self.end].get(self.start + self.seen) {
                Some(b'\n') => self.seen += 1,
                None if !self.ended => return Scan::More,
                _ => {}
            }
        }
        Scan::Row
    }

    fn scan_line(&mut self) -> Scan {
        loop {
            let fresh = &self.buf[self.start + self.seen..self.end];
            match fresh.iter().position(|&byte| byte == b'\n') {
                Some(at) => self.seen += at + 1,
                None => {
                    self.seen += fresh.len();
                    if !self.ended {
                        return Scan::More;
                    }
                    if self.seen == self.mark {
                        return Scan::End;
                    }
                    self.unterminated = true;
                }
            }
            if !self.raw()[self.mark..].trim_ascii().is_empty() {
                return Scan::Row;
            }
            if self.mark > 0 {
                self.mark = self.seen;
            } else {
                self.pass();
            }
        }
    }

    fn skip_line_ends(&mut self) {
        let fresh = &self.buf[self.start + self.seen..self.end];
        let n = fresh
            .iter()
            .take_while(|&&byte| byte == b'\n' || byte == b'\r')
            .count();
        if self.mark > 0 {
            self.mark += n;
            self.seen += n;
        } else {
            self.lines += newlines(&self.buf[self.start..self.start + n]);
            self.start += n;
            self.offset += n as u64;
        }
    }

    /// Makes room behind the filled part. False if the row is too long for that.
    fn make_room(&mut self) -> bool {
        if self.start > 0 {
            self.buf.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        } else if self.buf.len() < ROW_BYTES_MAX {
            self.buf.resize(self.buf.len() * 2, 0);
        }
        self.end < self.buf.len()
    }
}

fn newlines(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Writes a file and reads it as rows: (raw, body) of each.
    fn rows(format: Format, text: &[u8]) -> Vec<(Vec<u8>, Vec<u8>)> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let mut rows = open(format, file.path());
        let mut all = Vec::new();
        while rows.advance().unwrap() == Next::Row {
            let at = rows.offset() as usize;
            assert_eq!(rows.raw(), &text[at..rows.next_offset() as usize]);
            all.push((rows.raw().to_vec(), rows.body().to_vec()));
        }
        all
    }

    fn open(format: Format, path: &Path) -> Rows {
        // Small enough that every test crosses its ends.
        Rows::with_buffer(Input::open(path).unwrap(), path.to_path_buf(), format, 4)
    }

    fn raws(format: Format, text: &[u8]) -> Vec<Vec<u8>> {
        rows(format, text).into_iter().map(|(raw, _)| raw).collect()
    }

    fn bodies(format: Format, text: &[u8]) -> Vec<Vec<u8>> {
        rows(format, text)
            .into_iter()
            .map(|(_, body)| body)
            .collect()
    }

    #[test]
    fn csv_rows_keep_their_bytes() {
        let text = b"\xEF\xBB\xBFa,b\r\n\"x\ny\",\"q\"\"q\"\nplain,\xE9\rlast,one";
        let expected: [&[u8]; 4] = [
            b"\xEF\xBB\xBFa,b\r\n",
            b"\"x\ny\",\"q\"\"q\"\n",
            b"plain,\xE9\r",
            b"last,one",
        ];
        assert_eq!(raws(Format::Csv, text), expected);
        let expected: [&[u8]; 4] = [b"a,b", b"\"x\ny\",\"q\"\"q\"", b"plain,\xE9", b"last,one"];
        assert_eq!(bodies(Format::Csv, text), expected);
    }

    #[test]
    fn blank_lines_are_no_rows() {
        assert_eq!(
            raws(Format::Csv, b"\n\r\na\r\n\r\n\nb\n\n"),
            [&b"a\r\n"[..], b"b\n"]
        );
        assert_eq!(
            raws(Format::Jsonl, b"\n  \r\n1\r\n\t\n2\n \n  "),
            [&b"1\r\n"[..], b"2\n"]
        );
        for format in [Format::Csv, Format::Jsonl] {
            let text = b"\xEF\xBB\xBF\n\r\n1\n2\n";
            assert_eq!(raws(format, text), [&text[..8], b"2\n"]);
            assert_eq!(bodies(format, text), [b"1", b"2"], "a mark and blank lines");
        }
        assert!(raws(Format::Csv, b"").is_empty());
        assert!(raws(Format::Jsonl, b"\xEF\xBB\xBF").is_empty());
    }

    #[test]
    fn a_last_row_without_terminator_keeps_its_bytes() {
        assert_eq!(bodies(Format::Csv, b"a\n\"b\r"), [&b"a"[..], b"\"b\r"]);
        assert_eq!(bodies(Format::Jsonl, b"1\n2\r"), [&b"1"[..], b"2\r"]);
    }

    #[test]
    fn every_row_end_is_a_place_to_go_on() {
        let text = b"a,b\r\n\xEF\xBB\xBFc,d\re,\"\n\"\n\n\nlong row,x";
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let all = raws(Format::Csv, text);
        assert_eq!(all.len(), 4);
        let mut whole = open(Format::Csv, file.path());
        for i in 0..all.len() {
            assert_eq!(whole.advance().unwrap(), Next::Row);
            let mut part = open(Format::Csv, file.path());
            part.seek(whole.next_offset()).unwrap();
            for raw in &all[i + 1..] {
                assert_eq!(part.advance().unwrap(), Next::Row);
                assert_eq!(part.raw(), raw);
            }
            assert_eq!(part.advance().unwrap(), Next::End);
        }
    }

    #[test]
    fn a_stray_quote_does_not_swallow_a_huge_input() {
        let mut text = b"a\n\"".to_vec();
        text.resize(ROW_BYTES_MAX + 100, b'x');
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(&text).unwrap();
        let mut rows = open(Format::Csv, file.path());
        assert_eq!(rows.advance().unwrap(), Next::Row);
        assert_eq!(rows.advance().unwrap(), Next::TooLong);
        assert_eq!(rows.offset(), 2);
    }
}
