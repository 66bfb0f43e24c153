//! Opening a store and a scope that must exist, and reading ids from arguments.
//!
//! Looking into a store must not make one: a directory or a scope that isn't there is an error
//! here, never an empty answer. Only `dedup` makes them.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use firstseen::{Options, PayloadKey, Policy, Scope, Store, days};

use crate::args::{Actor, Ids};
use crate::failure::Failure;
use crate::keys;
use crate::time::Retention;

/// The retention of a scope made without one.
const RETENTION_DAYS: u64 = 7;

/// Opens a store that exists.
pub(crate) fn store(dir: &Path) -> Result<Store, Failure> {
    open(dir, Options::new())
}

/// The same, for what is done by this person.
pub(crate) fn store_as(dir: &Path, actor: &str) -> Result<Store, Failure> {
    open(dir, Options::new().actor(actor))
}

fn open(dir: &Path, options: Options) -> Result<Store, Failure> {
    let mut entries = dir.read_dir().map_err(|error| Failure::file(dir, &error))?;
    if entries.next().is_none() {
        return Err(Failure::File(format!(
            "{}: there is no store here",
            dir.display()
        )));
    }
    Ok(Store::open(dir, options)?)
}

/// Opens a store only to be read, whoever has it open.
pub(crate) fn look(dir: &Path) -> Result<Store, Failure> {
    dir.read_dir().map_err(|error| Failure::file(dir, &error))?;
    Ok(Store::open_read_only(dir, Options::new())?)
}

/// Ends a look, and says how fresh it was: on standard error, since what it printed may go on to
/// another program.
pub(crate) fn end_look(store: Store) -> Result<(), Failure> {
    if let Some(as_of) = store.as_of() {
        eprintln!("{}", crate::stat::freshness(&as_of));
    }
    Ok(store.close()?)
}

/// Who acts: as the arguments say, else the user who is logged in.
pub(crate) fn actor(args: &Actor) -> String {
    if let Some(name) = &args.name {
        return name.clone();
    }
    let named = ["LOGNAME", "USER"].into_iter().find_map(std::env::var_os);
    if let Some(name) = named.filter(|name| !name.is_empty()) {
        return name.to_string_lossy().into_owned();
    }
    match std::fs::metadata("/proc/self") {
        Ok(me) => format!("uid {}", me.uid()),
        Err(_) => "unknown".to_string(),
    }
}

/// A scope that exists.
pub(crate) fn scope(store: &Store, name: &str) -> Result<Scope, Failure> {
    let scope = store.existing_scope(name)?;
    scope.ok_or_else(|| Failure::File(format!("the store has no scope {name:?}")))
}

/// A scope to record ids in: with this retention if one is given, else with its own, else made.
pub(crate) fn scope_for_writing(
    store: &Store,
    name: &str,
    retention: Option<Retention>,
) -> Result<Scope, Failure> {
    scope_for_import(store, name, retention, None)
}

/// The same; one that is made gets this payload key.
pub(crate) fn scope_for_import(
    store: &Store,
    name: &str,
    retention: Option<Retention>,
    key: Option<PayloadKey>,
) -> Result<Scope, Failure> {
    let policy = match retention {
        Some(Retention::Forever) => Policy::forever(),
        Some(Retention::For(time)) => Policy::remember(time),
        None => match store.existing_scope(name)? {
            Some(scope) => return Ok(scope),
            None => Policy::remember(days(RETENTION_DAYS)),
        },
    };
    let policy = match key.filter(|_| store.existing_scope(name).is_ok_and(|s| s.is_none())) {
        Some(key) => policy.payload_key(key),
        None => policy,
    };
    Ok(store.scope(name, policy)?)
}

/// The ids' bytes, in order.
pub(crate) fn ids(args: &Ids) -> Result<Vec<Vec<u8>>, Failure> {
    args.ids.iter().map(|id| id_bytes(args, id)).collect()
}

fn id_bytes(args: &Ids, id: &OsStr) -> Result<Vec<u8>, Failure> {
    let bytes = id.as_bytes();
    let wrong = |why: &str| Failure::Usage(format!("{:?}: {why}", id.to_string_lossy()));
    if args.hex {
        return unhex(bytes).ok_or_else(|| wrong("not hexadecimal digits, two a byte"));
    }
    if args.columns {
        return Ok(keys::id_from_columns(bytes).into_bytes());
    }
    if args.values {
        return keys::id_from_values(bytes)
            .map(Into::into)
            .map_err(|why| wrong(&why));
    }
    Ok(bytes.to_vec())
}

pub(crate) fn unhex(digits: &[u8]) -> Option<Vec<u8>> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs
        .iter()
        .map(|[a, b]| u8::try_from(digit(*a)? << 4 | digit(*b)?).ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_each_form() {
        let read = |form: &str, id: &str| {
            let args = Ids {
                ids: vec![id.into()],
                hex: form == "hex",
                columns: form == "columns",
                values: form == "values",
            };
            ids(&args).map(|ids| ids.concat())
        };
        assert_eq!(read("text", "00ff").unwrap(), b"00ff");
        assert_eq!(read("hex", "00fF").unwrap(), [0, 255]);
        assert!(read("hex", "0").is_err() && read("hex", "0g").is_err());
        let key = firstseen::Key::parts(["a", "b,c"]);
        assert_eq!(read("columns", "a,\"b,c\"").unwrap(), key.as_ref());
        let key = firstseen::Key::parts(["\"a\"", "1"]);
        assert_eq!(read("values", "[\"a\", 1]").unwrap(), key.as_ref());
        assert!(read("values", "a").is_err());
    }

    #[test]
    fn looking_makes_no_store() {
        let dir = tempfile::tempdir().unwrap();
        assert!(store(dir.path()).is_err());
        assert!(store(&dir.path().join("none")).is_err());
        assert_eq!(dir.path().read_dir().unwrap().count(), 0);
    }
}
