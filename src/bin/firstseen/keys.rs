//! From a row to its id: `--key` resolved once, then applied to each row.
//!
//! 1. Two rows with different key values never share an id: the values are composed by
//!    `firstseen::Key`, which prefixes lengths. `*` is the row itself.
//! 2. A row without a usable id is told from the others here and says why; it never gets an id
//!    that it would share with all such rows. So a row whose key values are all empty is bad too.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use firstseen::Key;
use serde_json::Value;

use crate::args::Format;
use crate::csv::{self, Record};
use crate::failure::Failure;
use crate::json;
use crate::rows::Rows;

/// The longest id in bytes: the limit of a scope that states no other.
const ID_BYTES_MAX: usize = 4096;

/// What of a row makes its id.
#[derive(Debug)]
pub(crate) enum Keys {
    WholeRow,
    Columns(Vec<Column>),
    Paths(Vec<json::Path>),
}

/// A CSV column, from 0, with the name it is reported under.
#[derive(Debug)]
pub(crate) struct Column {
    index: usize,
    name: String,
}

impl Column {
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Its number, and its name if it has one.
    pub(crate) fn shown(&self) -> String {
        let number = (self.index + 1).to_string();
        if self.name == number {
            return number;
        }
        format!("{number} ({})", self.name)
    }
}

/// A row's id.
#[derive(Debug)]
pub(crate) enum RowId<'a> {
    Bytes(&'a [u8]),
    Key(Key),
}

impl AsRef<[u8]> for RowId<'_> {
    fn as_ref(&self) -> &[u8] {
        match self {
            RowId::Bytes(bytes) => bytes,
            RowId::Key(key) => key.as_ref(),
        }
    }
}

impl Keys {
    /// Resolves `--key`. Without a header, CSV columns are numbers from 1.
    pub(crate) fn new(
        key: &OsStr,
        format: Format,
        header: Option<&Record>,
    ) -> Result<Keys, Failure> {
        let key = key.as_bytes();
        if key == b"*" {
            return Ok(Keys::WholeRow);
        }
        let names = csv::split(key);
        if names.is_empty() {
            return Err(Failure::Usage("--key names no column".to_string()));
        }
        match format {
            Format::Jsonl => names
                .iter()
                .map(|name| path(name))
                .collect::<Result<_, _>>()
                .map(Keys::Paths),
            Format::Csv => names
                .iter()
                .map(|name| column(name, header))
                .collect::<Result<_, _>>()
                .map(Keys::Columns),
        }
    }

    /// The id of the current row; why it is a bad row, if it has none.
    pub(crate) fn id<'a>(&self, rows: &'a Rows, format: Format) -> Result<RowId<'a>, String> {
        let json = match format {
            Format::Jsonl => Some(parse(rows.body())?),
            Format::Csv => None,
        };
        let id = match (self, &json) {
            (Keys::Columns(columns), _) => id_of_columns(columns, rows.record())?,
            (Keys::Paths(paths), Some(row)) => id_of_values(paths, row)?,
            _ => RowId::Bytes(rows.body()),
        };
        match id.as_ref().len() {
            n if n > ID_BYTES_MAX => Err(format!("the id has {n} bytes, more than {ID_BYTES_MAX}")),
            _ => Ok(id),
        }
    }
}

pub(crate) fn path(name: &[u8]) -> Result<json::Path, Failure> {
    std::str::from_utf8(name)
        .ok()
        .and_then(json::Path::parse)
        .ok_or_else(|| {
            Failure::Usage(format!(
                "--key: {:?} is no dotted path",
                name.escape_ascii().to_string()
            ))
        })
}

pub(crate) fn column(name: &[u8], header: Option<&Record>) -> Result<Column, Failure> {
    let shown = String::from_utf8_lossy(name).into_owned();
    let Some(header) = header else {
        let number = shown
            .parse::<usize>()
            .ok()
            .filter(|n| *n > 0)
            .ok_or_else(|| {
                Failure::Usage(format!(
                    "--key: without a header, {shown:?} must be a column number"
                ))
            })?;
        return Ok(Column {
            index: number - 1,
            name: shown,
        });
    };
    let mut found = (0..header.len()).filter(|i| header.field(*i) == Some(name));
    match (found.next(), found.next()) {
        (Some(index), None) => Ok(Column { index, name: shown }),
        (Some(_), Some(_)) => Err(Failure::Usage(format!(
            "--key: the header has column {shown:?} twice"
        ))),
        (None, _) => {
            let names: Vec<_> = (0..header.len())
                .filter_map(|i| header.field(i))
                .map(String::from_utf8_lossy)
                .collect();
            Err(Failure::Usage(format!(
                "--key: there is no column {shown:?}; the header has {}",
                names.join(", ")
            )))
        }
    }
}

fn id_of_columns(columns: &[Column], record: &Record) -> Result<RowId<'static>, String> {
    if let Some(missing) = columns.iter().find(|column| column.index >= record.len()) {
        let fields = record.len();
        return Err(format!(
            "column {:?} is missing (the row has {fields})",
            missing.name
        ));
    }
    let values = columns
        .iter()
        .filter_map(|column| record.field(column.index));
    if values.clone().all(<[u8]>::is_empty) {
        return Err("the key columns are empty".to_string());
    }
    Ok(RowId::Key(Key::parts(values)))
}

fn id_of_values(paths: &[json::Path], row: &Value) -> Result<RowId<'static>, String> {
    let mut parts = Vec::with_capacity(paths.len());
    let mut empty = true;
    for path in paths {
        match path.find(row) {
            None | Some(Value::Null) => return Err(format!("{:?} is missing", path.as_str())),
            Some(value) => {
                empty &= value.as_str() == Some("");
                parts.push(json::canonical(value)?);
            }
        }
    }
    if empty {
        return Err("the key values are empty".to_string());
    }
    Ok(RowId::Key(Key::parts(parts)))
}

fn parse(row: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(row).map_err(|error| format!("invalid JSON: {error}"))
}

/// The id that a CSV row with these key values has, given as a CSV row.
pub(crate) fn id_from_columns(values: &[u8]) -> Key {
    Key::parts(csv::split(values))
}

/// The id that a JSONL row with these key values has, given as a JSON array.
pub(crate) fn id_from_values(values: &[u8]) -> Result<Key, String> {
    match parse(values)? {
        Value::Array(values) => {
            let parts: Result<Vec<_>, _> = values.iter().map(json::canonical).collect();
            Ok(Key::parts(parts?))
        }
        _ => Err("the values are no JSON array".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::path::Path;

    use super::*;
    use crate::input::Input;
    use crate::rows::Next;

    /// The ids of a text's rows, or why they have none.
    fn ids(format: Format, key: &str, header: bool, text: &[u8]) -> Vec<Result<Vec<u8>, String>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(text).unwrap();
        let path: &Path = file.path();
        let mut rows = Rows::new(Input::open(path).unwrap(), path.to_path_buf(), format);
        if header {
            assert_eq!(rows.advance().unwrap(), Next::Row);
        }
        let keys = Keys::new(key.as_ref(), format, header.then(|| rows.record())).unwrap();
        let mut ids = Vec::new();
        while rows.advance().unwrap() == Next::Row {
            ids.push(keys.id(&rows, format).map(|id| id.as_ref().to_vec()));
        }
        ids
    }

    #[test]
    fn columns_by_name_and_by_number_agree_and_quotes_do_not_matter() {
        let named = ids(
            Format::Csv,
            "b,a",
            true,
            b"\xEF\xBB\xBFa,b\n1,2\n\"1\",\"2\"\n",
        );
        let numbered = ids(Format::Csv, "2,1", false, b"1,2\n");
        let expected = Key::parts(["2", "1"]).as_ref().to_vec();
        assert_eq!(named, [Ok(expected.clone()), Ok(expected.clone())]);
        assert_eq!(numbered, [Ok(expected)]);
        assert_eq!(id_from_columns(b"2,1"), Key::parts(["2", "1"]));
    }

    #[test]
    fn value_lists_that_a_separator_would_confuse_are_two_ids() {
        let ids = ids(Format::Csv, "a,b", true, b"a,b\n\"x,\",y\nx,\",y\"\n");
        assert_ne!(ids[0], ids[1]);
    }

    #[test]
    fn the_whole_row_is_its_bytes_without_the_terminator() {
        let ids = ids(
            Format::Csv,
            "*",
            false,
            b"\xEF\xBB\xBFx,\xE9\r\nx,\xE9\nx,\xE9",
        );
        assert_eq!(ids, vec![Ok(b"x,\xE9".to_vec()); 3]);
    }

    #[test]
    fn bad_csv_rows_say_why() {
        let long = [b"a,b\n1,", &[b'x'; 5000][..]].concat();
        for (text, why) in [
            (&b"a,b\n1\n"[..], "missing"),
            (b"a,b\n,\n", "empty"),
            (b"a,b\n1,\n", "empty"),
            (&long, "more than 4096"),
        ] {
            let error = ids(Format::Csv, "b", true, text)[0].clone();
            assert!(
                error.as_ref().unwrap_err().contains(why),
                "{error:?} lacks {why}"
            );
        }
    }

    #[test]
    fn json_values_keep_their_type() {
        let ids = ids(
            Format::Jsonl,
            "u.id",
            false,
            b"{\"u\":{\"id\":1}}\n{\"u\":{\"id\":\"1\"}}\n",
        );
        assert_eq!(ids[0], Ok(Key::parts(["1"]).as_ref().to_vec()));
        assert_eq!(ids[1], Ok(Key::parts(["\"1\""]).as_ref().to_vec()));
        assert_eq!(id_from_values(b"[ 1 ]"), Ok(Key::parts(["1"])));
        assert!(id_from_values(b"1").is_err());
    }

    #[test]
    fn bad_json_rows_say_why() {
        let text = b"{\"a\":null}\n{}\n{\"a\":\n{\"a\":\"\"}\n{\"a\":\"\xFF\"}\n{\"a\":1} 2\n";
        let errors = ids(Format::Jsonl, "a", false, text);
        let whys = [
            "missing",
            "missing",
            "invalid JSON",
            "empty",
            "invalid JSON",
            "invalid JSON",
        ];
        assert_eq!(errors.len(), whys.len());
        for (error, why) in errors.iter().zip(whys) {
            assert!(
                error.as_ref().unwrap_err().contains(why),
                "{error:?} lacks {why}"
            );
        }
        assert!(ids(Format::Jsonl, "*", false, b"{\n")[0].is_err());
    }

    #[test]
    fn keys_that_do_not_fit_are_refused() {
        let mut header = Record::new();
        header.feed(b"a,b,a\n");
        let usage = |key: &str, header| match Keys::new(key.as_ref(), Format::Csv, header) {
            Err(Failure::Usage(why)) => why,
            other => panic!("{other:?}"),
        };
        assert!(usage("c", Some(&header)).contains("the header has a, b, a"));
        assert!(usage("a", Some(&header)).contains("twice"));
        assert!(usage("", Some(&header)).contains("names no column"));
        assert!(usage("0", None).contains("number"));
    }
}
