//! `import`: ids that another system, or another store, has seen before.
//!
//! Rows are recorded a batch at a time, each batch in one commit. What is known already stays as
//! it is, so whatever ends an import, the same command goes on with it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use firstseen::{Id, Imported, Options, Past, PayloadKey, Scope, Store, Why};
use serde_json::{Value, json};

use crate::args::{Format, Import};
use crate::failure::{Ending, Failure};
use crate::id_rows::{IdRows, advance, bad_line, parse_json};
use crate::input::Input;
use crate::place;
use crate::progress;
use crate::rows::Rows;
use crate::show::Lines;
use crate::sides::From;
use crate::stop;
use crate::time;

/// The longest result that a record may have.
const RESULT_BYTES_MAX: usize = 16_384;

/// An id on its way in.
struct Seen {
    id: Vec<u8>,
    at: SystemTime,
    remember: Option<Duration>,
    source: Option<String>,
    result: Option<Vec<u8>>,
    fingerprint: Option<([u8; 16], PayloadKey)>,
    outcome: Outcome,
}

/// How it ended there.
#[derive(Default)]
struct Outcome {
    refused: bool,
    ended: Option<Ended>,
    attempt: u32,
}

enum Ended {
    Failed,
    Dead,
}

impl Seen {
    fn new(id: Vec<u8>, at: SystemTime) -> Seen {
        Seen {
            id,
            at,
            remember: None,
            source: None,
            result: None,
            fingerprint: None,
            outcome: Outcome::default(),
        }
    }

    fn past(&self) -> Past<'_> {
        let mut id = Id::new(&self.id);
        if let Some(remember) = self.remember {
            id = id.remember(remember);
        }
        if let Some(source) = &self.source {
            id = id.source(source);
        }
        let mut past = Past::new(id, self.at).attempt(self.outcome.attempt);
        if let Some(result) = &self.result {
            past = past.result(result);
        }
        if let Some((fingerprint, key)) = self.fingerprint {
            past = past.fingerprint(fingerprint, key);
        }
        if self.outcome.refused {
            past = past.refused();
        }
        match self.outcome.ended {
            Some(Ended::Failed) => past.failed(),
            Some(Ended::Dead) => past.dead_lettered(),
            None => past,
        }
    }
}

/// Where rows come from.
enum Reader {
    /// An empty input.
    Empty,
    Ids(IdRows),
    Export(Rows),
    Redis(Rows),
}

pub(crate) fn run(args: &Import) -> Result<Ending, Failure> {
    stop::catch()?;
    let as_of = args.as_of.or_else(|| time::parse_time("0s").ok());
    let as_of = as_of.unwrap_or(UNIX_EPOCH);
    let mut reader = open(args)?;
    let store = Store::open(&args.store, Options::new())?;
    let (mut first, mut rows, mut passed) = (Vec::new(), 0, 0);
    let mut read = fill(&mut reader, args, as_of, &mut first, &mut passed);
    // A scope that this import makes gets the key that its fingerprints were made with.
    let key = first.iter().find_map(|seen| Some(seen.fingerprint?.1));
    let scope = place::scope_for_import(&store, &args.scope, args.retention, key)?;
    let actor = place::actor(&args.actor);
    let why = Why::new(&args.why).by(&actor);
    let bar = progress::ids(None, false);
    let mut done = Imported::default();
    let mut batch = first;
    let ended = loop {
        rows += batch.len() as u64;
        bar.set_position(rows);
        done += commit(&scope, &batch, why)?;
        match read {
            Ok(true) => {
                batch.clear();
                read = fill(&mut reader, args, as_of, &mut batch, &mut passed);
            }
            Ok(false) if stop::requested() => break Ok(Ending::Interrupted),
            Ok(false) => break Ok(Ending::Done),
            Err(failure) => break Err(failure),
        }
    };
    bar.finish_and_clear();
    drop(scope);
    store.close()?;
    report(args.json, rows, passed, &done)?;
    if matches!(ended, Err(Failure::BadLine { .. })) {
        eprintln!("firstseen: the {rows} ids before the bad row are in; mend it and run it again");
    }
    ended
}

fn open(args: &Import) -> Result<Reader, Failure> {
    let lines = || -> Result<Rows, Failure> {
        let input = Input::open(&args.input)?;
        Ok(Rows::new(input, args.input.clone(), Format::Jsonl))
    };
    let ids = |format| -> Result<Reader, Failure> {
        let rows = IdRows::open(&args.input, format, &args.rows)?;
        Ok(rows.map_or(Reader::Empty, Reader::Ids))
    };
    match args.format {
        From::Export => lines().map(Reader::Export),
        From::Redis => lines().map(Reader::Redis),
        From::Csv => ids(Format::Csv),
        From::Jsonl => ids(Format::Jsonl),
    }
}

/// Fills a batch; false at the end. What is in the batch counts also after a failure.
fn fill(
    reader: &mut Reader,
    args: &Import,
    as_of: SystemTime,
    batch: &mut Vec<Seen>,
    passed: &mut u64,
) -> Result<bool, Failure> {
    while batch.len() < args.batch as usize {
        match reader {
            Reader::Empty => return Ok(false),
            Reader::Ids(rows) => {
                let Some(row) = rows.next_row()? else {
                    return Ok(false);
                };
                batch.push(Seen::new(row.id, row.at.unwrap_or(as_of)));
            }
            Reader::Export(rows) => {
                if !advance(rows)? {
                    return Ok(false);
                }
                batch.push(exported(rows)?);
            }
            Reader::Redis(rows) => {
                if !advance(rows)? {
                    return Ok(false);
                }
                match redis(rows, args.prefix.as_deref().unwrap_or_default(), as_of)? {
                    Some(seen) => batch.push(seen),
                    None => *passed += 1,
                }
            }
        }
    }
    Ok(true)
}

/// A line of an export.
fn exported(rows: &Rows) -> Result<Seen, Failure> {
    let row = parse_json(rows)?;
    let text = |name: &str| row.get(name).and_then(Value::as_str);
    let bad = |name: &str, why: &str| bad_line(rows, name, why.to_string());
    let moment = |name: &str| -> Result<Option<SystemTime>, Failure> {
        let Some(value) = text(name) else {
            return Ok(None);
        };
        let time = time::parse_moment(value);
        time.map(Some).ok_or_else(|| bad(name, "it is no time"))
    };
    let digits = text("hex").ok_or_else(|| bad("hex", "it is missing"))?;
    let id = place::unhex(digits.as_bytes()).filter(|id| !id.is_empty());
    let id = id.ok_or_else(|| bad("hex", "it is no id in hexadecimal digits"))?;
    let at = moment("first_seen_at")?.ok_or_else(|| bad("first_seen_at", "it is missing"))?;
    let remember = match moment("expires_at")? {
        None => None,
        Some(end) => {
            let time = end.duration_since(at).ok().filter(|time| !time.is_zero());
            Some(time.ok_or_else(|| bad("expires_at", "it is not after the first sight"))?)
        }
    };
    let outcome = Outcome {
        refused: row.get("refused").and_then(Value::as_bool).unwrap_or(false),
        ended: match text("outcome") {
            None | Some("done") => None,
            Some("failed") => Some(Ended::Failed),
            Some("dead") => Some(Ended::Dead),
            Some(_) => return Err(bad("outcome", "it is none of done, failed, dead")),
        },
        attempt: match row.get("attempt") {
            None | Some(Value::Null) => 0,
            Some(n) => n
                .as_u64()
                .and_then(|n| u32::try_from(n).ok())
                .ok_or_else(|| bad("attempt", "it is no number of an attempt"))?,
        },
    };
    let bytes = |name: &str| -> Result<Option<Vec<u8>>, Failure> {
        let Some(digits) = text(name) else {
            return Ok(None);
        };
        let bytes = place::unhex(digits.as_bytes());
        bytes
            .map(Some)
            .ok_or_else(|| bad(name, "it is not in hexadecimal digits"))
    };
    let result = bytes("result_hex")?;
    if result.as_ref().is_some_and(|r| r.len() > RESULT_BYTES_MAX) {
        return Err(bad("result_hex", "it has more than 16,384 bytes"));
    }
    let fingerprint = match (bytes("fingerprint")?, bytes("payload_key")?) {
        (None, _) => None,
        (Some(print), Some(key)) => {
            let print = print
                .try_into()
                .map_err(|_| bad("fingerprint", "it is not 16 bytes"))?;
            let key = key
                .try_into()
                .map_err(|_| bad("payload_key", "it is not 8 bytes"))?;
            Some((print, PayloadKey::from_bytes(key)))
        }
        (Some(_), None) => return Err(bad("payload_key", "it is missing")),
    };
    Ok(Seen {
        remember,
        source: text("source").map(str::to_string),
        result,
        fingerprint,
        outcome,
        ..Seen::new(id, at)
    })
}

/// A key, and its remaining time behind a tab if it has one. `None`: none of ours, or gone.
fn redis(rows: &Rows, prefix: &str, as_of: SystemTime) -> Result<Option<Seen>, Failure> {
    let line = rows.body();
    let tab = line.iter().rposition(|byte| *byte == b'\t');
    let (key, ttl) = tab.map_or((line, None), |at| (&line[..at], Some(&line[at + 1..])));
    let remember = match ttl {
        None => None,
        Some(ttl) => {
            let number = std::str::from_utf8(ttl)
                .ok()
                .and_then(|t| t.trim().parse::<i64>().ok());
            let column = (key.len() + 2).to_string();
            let wrong = || bad_line(rows, &column, "the remaining time is no number".to_string());
            match number.ok_or_else(wrong)? {
                -1 => None,
                seconds if seconds <= 0 => return Ok(None),
                seconds => Some(Duration::from_secs(seconds.unsigned_abs())),
            }
        }
    };
    let Some(id) = key.strip_prefix(prefix.as_bytes()) else {
        return Ok(None);
    };
    if id.is_empty() {
        return Err(bad_line(rows, "1", "the key is empty".to_string()));
    }
    Ok(Some(Seen {
        remember,
        ..Seen::new(id.to_vec(), as_of)
    }))
}

fn commit(scope: &Scope, batch: &[Seen], why: Why<'_>) -> Result<Imported, Failure> {
    if batch.is_empty() {
        return Ok(Imported::default());
    }
    Ok(scope.import(batch.iter().map(Seen::past), why)?)
}

fn report(json: bool, rows: u64, passed: u64, done: &Imported) -> Result<(), Failure> {
    let Imported {
        recorded,
        known,
        expired,
        in_progress,
        bad,
        fingerprints_left_out,
        ..
    } = *done;
    let mut lines = Lines::new();
    lines.print(&if json {
        json!({
            "rows": rows,
            "recorded": recorded,
            "known": known,
            "expired": expired,
            "in_progress": in_progress,
            "bad": bad,
            "fingerprints_left_out": fingerprints_left_out,
            "passed_over": passed,
        })
        .to_string()
    } else {
        format!(
            "{rows} ids: {recorded} recorded, {known} known, {expired} expired, {bad} bad; \
             {passed} lines passed over"
        )
    })?;
    lines.finish()?;
    if fingerprints_left_out > 0 {
        eprintln!(
            "firstseen: {fingerprints_left_out} fingerprints were made with another key than the \
             scope's and left out; import into a new scope to keep them"
        );
    }
    Ok(())
}
