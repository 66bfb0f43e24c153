//! One CSV record after the other, fed piece by piece.
//!
//! The grammar is that of `csv-core`: comma, double quotes (doubled inside), a record ends at LF,
//! CR or CRLF outside quotes. Fields are bytes; nothing is decoded.
//!
//! 1. A record is complete at its CR; the LF of a CRLF is never fed. The caller, who keeps the
//!    raw bytes, looks for it and counts it to the row.
//! 2. `csv-core` drops a byte-order mark before its first record. It is given a blank line first,
//!    so that this never happens here: the caller decides what a mark is, and one at the start of
//!    a resumed part is data.

use csv_core::{ReadRecordResult, Reader};

/// What feeding a piece led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Parsed {
    /// The piece is used up, the record goes on.
    More,
    /// The record is complete.
    Record,
    /// The input ended before a record began.
    End,
}

/// The record being read and its fields so far.
pub(crate) struct Record {
    reader: Reader,
    fields: Vec<u8>,
    ends: Vec<usize>,
    fields_len: usize,
    ends_len: usize,
}

impl Record {
    pub(crate) fn new() -> Record {
        let mut reader = Reader::new();
        // Invariant 2.
        let _ = reader.read_record(b"\n", &mut [0; 1], &mut [0; 1]);
        Record {
            reader,
            fields: vec![0; 1024],
            ends: vec![0; 32],
            fields_len: 0,
            ends_len: 0,
        }
    }

    /// Forgets the fields; the next piece begins a record.
    pub(crate) fn clear(&mut self) {
        self.fields_len = 0;
        self.ends_len = 0;
    }

    /// Takes a piece, or the end of the input if it is empty. Returns how many bytes it used.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> (Parsed, usize) {
        let mut used = 0;
        loop {
            let (result, taken, fields, ends) = self.reader.read_record(
                &piece[used..],
                &mut self.fields[self.fields_len..],
                &mut self.ends[self.ends_len..],
            );
            used += taken;
            self.fields_len += fields;
            self.ends_len += ends;
            match result {
                ReadRecordResult::Record => return (Parsed::Record, used),
                ReadRecordResult::End => return (Parsed::End, used),
                ReadRecordResult::InputEmpty => return (Parsed::More, used),
                ReadRecordResult::OutputFull => self.fields.resize(self.fields.len() * 2, 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(self.ends.len() * 2, 0),
            }
            // An empty piece means the end of the input, which this is not.
            if used == piece.len() && !piece.is_empty() {
                return (Parsed::More, used);
            }
        }
    }

    /// The number of fields.
    pub(crate) fn len(&self) -> usize {
        self.ends_len
    }

    /// A field's value, without its quotes.
    pub(crate) fn field(&self, index: usize) -> Option<&[u8]> {
        let end = *self.ends[..self.ends_len].get(index)?;
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        Some(&self.fields[start..end])
    }
}

/// The fields of one record given whole, as an argument of the command line is.
pub(crate) fn split(record: &[u8]) -> Vec<Vec<u8>> {
    let mut parsed = Record::new();
    let (result, _) = parsed.feed(record);
    if result == Parsed::More {
        parsed.feed(b"");
    }
    (0..parsed.len())
        .filter_map(|i| parsed.field(i))
        .map(<[u8]>::to_vec)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_rows_are() {
        assert_eq!(split(b"a,b"), [b"a", b"b"]);
        assert_eq!(split(b"\"a,\"\"b\"\"\",c"), [&b"a,\"b\""[..], b"c"]);
        assert_eq!(split(b"a,"), [&b"a"[..], b""]);
        assert_eq!(split(b"\"\""), [b""]);
        assert!(split(b"").is_empty());
    }

    #[test]
    fn fields_and_ends_grow() {
        let wide = vec![b','; 500];
        assert_eq!(split(&wide).len(), 501);
        let long = vec![b'x'; 5000];
        assert_eq!(split(&long), [long]);
    }

    #[test]
    fn pieces_of_any_size_give_the_same_fields() {
        let text = b"\"a\"\"b\",\xE9,\r\n";
        for size in 1..text.len() {
            let mut record = Record::new();
            for piece in text[..text.len() - 1].chunks(size) {
                let (_, used) = record.feed(piece);
                assert_eq!(used, piece.len());
            }
            let fields: Vec<_> = (0..record.len()).filter_map(|i| record.field(i)).collect();
            assert_eq!(fields, [&b"a\"b"[..], b"\xE9", b""]);
        }
    }
}
