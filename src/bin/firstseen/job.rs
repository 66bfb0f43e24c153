//! A resumable job: what it is, and how far it got.
//!
//! A job is (input, output, key, scope, format). Its state is the store's resume point of a source
//! named after those five, so it is committed in the very batch that records the rows' ids.
//!
//! 1. A resume point never goes back. Positions compare as bytes, so a state is encoded
//!    big-endian with what only grows in front: run, input offset, finished. A job that starts
//!    anew takes the next run number and may begin at offset 0 again.
//! 2. The state says what the *committed* rows led to; all of it belongs to one moment.
//! 3. The source's name is injective: paths are escaped, and the five stand in a JSON array. A
//!    name over the store's limit keeps its beginning and ends with the 128-bit hash of the whole.
//!
//! Only a job with an output file has a state. With a pipe as input it serves the output alone:
//! each start is a new run, which goes on behind the rows an unfinished one committed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use firstseen::Position;
use serde_json::json;
use xxhash_rust::xxh3::xxh3_128;

use crate::failure::Failure;

/// The encoding's version, its first byte.
const FORMAT: u8 = 1;
const NUMBERS: usize = 9;
const STATE_BYTES: usize = 2 + NUMBERS * 8;

/// The longest name a source may have, in bytes, and the length of a 128-bit hash in it.
const SOURCE_BYTES_MAX: usize = 1024;
const HASH_DIGITS: usize = 32;

/// The name of the job's resume point. A pipe is named by no path.
pub(crate) fn source(
    input: Option<&Path>,
    output: &Path,
    key: &OsStr,
    scope: &str,
    format: &str,
) -> String {
    let escape = |text: &OsStr| text.as_bytes().escape_ascii().to_string();
    let input = input.map(|path| escape(path.as_os_str()));
    let job = json!([
        input,
        escape(output.as_os_str()),
        escape(key),
        scope,
        format
    ]);
    let name = format!("dedup {job}");
    if name.len() <= SOURCE_BYTES_MAX {
        return name;
    }
    let mut cut = SOURCE_BYTES_MAX - HASH_DIGITS;
    while !name.is_char_boundary(cut) {
        cut -= 1;
    }
    format!("{}{:032x}", &name[..cut], xxh3_128(name.as_bytes()))
}

/// How many rows came and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) rows: u64,
    pub(crate) first_seen: u64,
    pub(crate) duplicates: u64,
    pub(crate) rejected: u64,
}

/// How far a job got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// Counts the starts that did not resume, from 1.
    pub(crate) run: u64,
    /// Where to go on reading.
    pub(crate) offset: u64,
    pub(crate) finished: bool,
    /// Tells whether a file is the same input still, see `input::File::fingerprint`.
    pub(crate) fingerprint: u64,
    pub(crate) output_bytes: u64,
    pub(crate) rejects_bytes: u64,
    pub(crate) counts: Counts,
}

impl State {
    /// The first state of the run after `self`.
    pub(crate) fn next_run(&self) -> State {
        State {
            run: self.run + 1,
            ..State::default()
        }
    }

    pub(crate) fn encode(&self) -> Position {
        let mut bytes = Vec::with_capacity(STATE_BYTES);
        bytes.push(FORMAT);
        bytes.extend_from_slice(&self.run.to_be_bytes());
        bytes.extend_from_slice(&self.offset.to_be_bytes());
        bytes.push(u8::from(self.finished));
        let Counts {
            rows,
            first_seen,
            duplicates,
            rejected,
        } = self.counts;
        let rest = [self.fingerprint, self.output_bytes, self.rejects_bytes];
        for number in rest
            .into_iter()
            .chain([rows, first_seen, duplicates, rejected])
        {
            bytes.extend_from_slice(&number.to_be_bytes());
        }
        Position::from(bytes)
    }

    pub(crate) fn decode(position: &Position) -> Result<State, Failure> {
        let bytes = position.as_bytes().unwrap_or_default();
        if bytes.len() != STATE_BYTES || bytes[0] != FORMAT || bytes[17] > 1 {
            return Err(Failure::File(
                "the store holds a state of this job that this release can't read".to_string(),
            ));
        }
        let number = |at: usize| {
            bytes[at..at + 8]
                .iter()
                .fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        Ok(State {
            run: number(1),
            offset: number(9),
            finished: bytes[17] == 1,
            fingerprint: number(18),
            output_bytes: number(26),
            rejects_bytes: number(34),
            counts: Counts {
                rows: number(42),
                first_seen: number(50),
                duplicates: number(58),
                rejected: number(66),
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(run: u64, offset: u64, finished: bool) -> State {
        let counts = Counts {
            rows: 4,
            first_seen: 5,
            duplicates: 6,
            rejected: 7,
        };
        State {
            run,
            offset,
            finished,
            fingerprint: 1,
            output_bytes: 2,
            rejects_bytes: 3,
            counts,
        }
    }

    #[test]
    fn a_state_comes_back_and_its_bytes_are_golden() {
        let state = state(1, 258, true);
        let position = state.encode();
        assert_eq!(State::decode(&position).unwrap(), state);
        let bytes = position.as_bytes().unwrap();
        assert_eq!(
            bytes[..19],
            [1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2, 1, 0]
        );
        assert_eq!(bytes.len(), STATE_BYTES);
        assert!(State::decode(&Position::from(7)).is_err());
        assert!(State::decode(&Position::from(vec![2; STATE_BYTES])).is_err());
    }

    #[test]
    fn states_only_grow() {
        let order = [
            (1, 0, false),
            (1, 9, false),
            (1, 300, false),
            (1, 300, true),
            (2, 0, false),
        ];
        let positions: Vec<_> = order
            .iter()
            .map(|(run, offset, end)| state(*run, *offset, *end).encode())
            .collect();
        assert!(positions.is_sorted_by(|a, b| a < b));
        let next = state(1, 300, true).next_run();
        assert_eq!(
            (next.run, next.offset, next.counts),
            (2, 0, Counts::default())
        );
    }

    #[test]
    fn jobs_that_differ_have_two_names() {
        let name = |input: Option<&str>, output: &str, key: &[u8], scope: &str| {
            let key = OsStr::from_bytes(key);
            source(input.map(Path::new), Path::new(output), key, scope, "csv")
        };
        let mut names = vec![
            name(Some("/a"), "/b", b"*", "s"),
            name(Some("/a"), "/b", b"*", "t"),
            name(Some("/a"), "/b\",\"*", b"", "s"),
            name(None, "/b", b"*", "s"),
            name(Some("null"), "/b", b"*", "s"),
            name(Some("/a"), "/b", b"\xFF", "s"),
            name(Some("/a"), "/b", br"\xff", "s"),
        ];
        let long = "/é".repeat(400);
        for output in [format!("{long}a"), format!("{long}b")] {
            names.push(name(None, &output, b"*", "s"));
            names.push(name(None, "/b", b"*", &output));
        }
        assert!(names.iter().all(|name| name.len() <= 1024));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 11);
    }
}
