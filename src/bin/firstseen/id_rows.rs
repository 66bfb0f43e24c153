//! Rows of a file that bring an id each, and perhaps times: what `import` and `reconcile` read.
//!
//! A bad row is told by line and column; it is never passed over.

use std::borrow::Cow;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::Value;

use crate::args::{Format, RowArgs};
use crate::failure::Failure;
use crate::input::Input;
use crate::json;
use crate::keys::{self, Keys};
use crate::rows::{Next, ROW_BYTES_MAX, Rows};
use crate::stop;
use crate::time::{self, Time};

/// The longest id a scope may take.
const ID_BYTES_MAX: usize = 16_384;

/// A row's id and time.
pub(crate) struct IdRow {
    pub(crate) id: Vec<u8>,
    pub(crate) at: Option<Time>,
}

/// Which of a row's values is meant.
enum At {
    Column(keys::Column),
    Path(json::Path),
}

enum IdFrom {
    /// The bytes as they stand.
    Whole(At),
    /// As `dedup` makes it.
    Key(Keys),
}

/// A file being read.
pub(crate) struct IdRows {
    rows: Rows,
    format: Format,
    id: IdFrom,
    time: Option<At>,
}

impl IdRows {
    /// Opens a file and resolves columns; `None` if it is empty, or Ctrl-C came first.
    pub(crate) fn open(
        path: &Path,
        format: Format,
        args: &RowArgs,
    ) -> Result<Option<IdRows>, Failure> {
        let mut rows = Rows::new(Input::open(path)?, path.to_path_buf(), format);
        let has_header = format == Format::Csv && !args.no_header;
        if has_header && !advance(&mut rows)? {
            return Ok(None);
        }
        let header = has_header.then(|| rows.record());
        let at = |name: &OsStr| match format {
            Format::Csv => keys::column(name.as_bytes(), header).map(At::Column),
            Format::Jsonl => keys::path(name.as_bytes()).map(At::Path),
        };
        let id = match (&args.id, &args.key) {
            (Some(id), _) => IdFrom::Whole(at(id)?),
            (None, Some(key)) => IdFrom::Key(Keys::new(key, format, header)?),
            (None, None) => {
                let text = "say where the ids are: --id or --key";
                return Err(Failure::Usage(text.to_string()));
            }
        };
        let time = args.time.as_deref().map(at).transpose()?;
        Ok(Some(IdRows {
            rows,
            format,
            id,
            time,
        }))
    }

    /// The next row; `None` at the end, or after Ctrl-C.
    pub(crate) fn next_row(&mut self) -> Result<Option<IdRow>, Failure> {
        if !advance(&mut self.rows)? {
            return Ok(None);
        }
        let parsed = match self.format {
            Format::Jsonl => Some(self.parse()?),
            Format::Csv => None,
        };
        let id = match &self.id {
            IdFrom::Whole(at) => self.value(at, parsed.as_ref())?.into_owned(),
            IdFrom::Key(keys) => match keys.id(&self.rows, self.format) {
                Ok(id) => id.as_ref().to_vec(),
                Err(why) => return Err(bad_line(&self.rows, "of the key", why)),
            },
        };
        if !(1..=ID_BYTES_MAX).contains(&id.len()) {
            let name = match &self.id {
                IdFrom::Whole(at) => at.name(),
                IdFrom::Key(_) => "of the key".to_string(),
            };
            return Err(bad_line(
                &self.rows,
                &name,
                format!("an id of {} bytes", id.len()),
            ));
        }
        let at = match &self.time {
            None => None,
            Some(at) => {
                let text = self.value(at, parsed.as_ref())?;
                let time = std::str::from_utf8(&text).ok().and_then(time::parse_moment);
                let wrong = || {
                    let text = String::from_utf8_lossy(&text);
                    let form = "2024-11-30, 2024-11-30T12:00:00Z, @ and seconds since 1970";
                    bad_line(
                        &self.rows,
                        &at.name(),
                        format!("{text:?} is no time ({form})"),
                    )
                };
                Some(time.ok_or_else(wrong)?)
            }
        };
        Ok(Some(IdRow { id, at }))
    }

    fn parse(&self) -> Result<Value, Failure> {
        parse_json(&self.rows)
    }

    fn value<'a>(&'a self, at: &At, row: Option<&'a Value>) -> Result<Cow<'a, [u8]>, Failure> {
        let bad = |why: String| bad_line(&self.rows, &at.name(), why);
        match at {
            At::Column(column) => self
                .rows
                .record()
                .field(column.index())
                .map(Cow::Borrowed)
                .ok_or_else(|| bad("it is missing".to_string())),
            At::Path(path) => match row.and_then(|row| path.find(row)) {
                None | Some(Value::Null) => Err(bad("it is missing".to_string())),
                Some(Value::String(text)) => Ok(Cow::Borrowed(text.as_bytes())),
                Some(other) => json::canonical(other)
                    .map(|text| Cow::Owned(text.into_bytes()))
                    .map_err(bad),
            },
        }
    }
}

impl At {
    fn name(&self) -> String {
        match self {
            At::Column(column) => column.shown(),
            At::Path(path) => path.as_str().to_string(),
        }
    }
}

/// The current row as JSON.
pub(crate) fn parse_json(rows: &Rows) -> Result<Value, Failure> {
    serde_json::from_slice(rows.body()).map_err(|error| {
        let column = error.column().to_string();
        bad_line(rows, &column, format!("invalid JSON: {error}"))
    })
}

/// Goes to the next row; false at the end, or after Ctrl-C.
pub(crate) fn advance(rows: &mut Rows) -> Result<bool, Failure> {
    loop {
        if stop::requested() {
            return Ok(false);
        }
        match rows.advance()? {
            Next::Row => return Ok(true),
            Next::End => return Ok(false),
            Next::Pause => {}
            Next::TooLong => {
                let why = format!("the row has more than {ROW_BYTES_MAX} bytes");
                return Err(bad_line(rows, "1", why));
            }
        }
    }
}

pub(crate) fn bad_line(rows: &Rows, column: &str, why: String) -> Failure {
    Failure::BadLine {
        line: rows.line(),
        column: column.to_string(),
        why,
    }
}
