//! Ids and sightings as text and as JSON, and lines to standard output.
//!
//! An id is bytes. Its text is for people (a composed key in its parts, other bytes escaped where
//! they don't print); `hex` in the JSON is exact and what `--hex` takes.

use std::io::{self, BufWriter, StdoutLock, Write};

use firstseen::{IdState, Key, Sighting};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::time::rfc3339;

/// Buffered lines on standard output.
pub(crate) struct Lines(BufWriter<StdoutLock<'static>>);

impl Lines {
    pub(crate) fn new() -> Lines {
        Lines(BufWriter::new(io::stdout().lock()))
    }

    pub(crate) fn print(&mut self, line: &str) -> Result<(), Failure> {
        writeln!(self.0, "{line}").map_err(|error| Failure::stdout(&error))
    }

    /// What was printed is seen now.
    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|error| Failure::stdout(&error))
    }

    /// Must be called at the end: what is dropped unfinished may be lost without a word.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.0.flush().map_err(|error| Failure::stdout(&error))
    }
}

/// An id for people.
pub(crate) fn id_text(id: &[u8]) -> String {
    if let Ok(key) = Key::parse(id) {
        return key.to_string();
    }
    match std::str::from_utf8(id) {
        Ok(text) if !text.contains(char::is_control) => text.to_string(),
        _ => id.escape_ascii().to_string(),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// An id and what is known about it as one JSON object. `None`: not known.
pub(crate) fn sighting_json(id: &[u8], sighting: Option<&Sighting>) -> Value {
    json!({
        "id": id_text(id),
        "hex": hex(id),
        "known": sighting.is_some(),
        "first_seen_at": sighting.map(|sighting| rfc3339(sighting.first_seen_at())),
        "source": sighting.and_then(Sighting::source),
    })
}

/// How an id ended.
pub(crate) fn outcome(seen: &Sighting) -> &'static str {
    match seen.state() {
        IdState::Failed => "failed",
        IdState::DeadLettered => "dead",
        _ => "done",
    }
}

/// The same as one line: time, id, source.
pub(crate) fn sighting_text(id: &[u8], sighting: Option<&Sighting>) -> String {
    let id = id_text(id);
    let Some(sighting) = sighting else {
        return format!("{:24}  {id}", "not known");
    };
    let at = rfc3339(sighting.first_seen_at());
    match sighting.source() {
        Some(source) => format!("{at}  {id}  from {source}"),
        None => format!("{at}  {id}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_print_as_what_they_are() {
        assert_eq!(id_text(b"order-17"), "order-17");
        assert_eq!(id_text("München".as_bytes()), "München");
        assert_eq!(id_text(b"a\xFF\n"), r"a\xff\n");
        assert_eq!(id_text(Key::parts(["a", "b"]).as_ref()), r#""a" "b""#);
        assert_eq!(hex(&[0, 171]), "00ab");
    }
}
