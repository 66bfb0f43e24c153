//! A table of the caller's rows, committed with verdicts.

use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

use crate::catalog::TableState;
use crate::engine::Rows;
use crate::error::Result;
use crate::store::Shared;

/// A handle of a table. Cheap to clone; `Send + Sync`.
///
/// A *plain* table takes puts and deletes. In a *guarded* one every write takes its row's lock,
/// so that conditions and closures never lose an update.
#[derive(Clone)]
pub struct Table {
    pub(crate) shared: Arc<Shared>,
    pub(crate) state: Arc<TableState>,
}

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Table")
            .field("name", &self.name())
            .field("guarded", &self.is_guarded())
            .finish_non_exhaustive()
    }
}

impl Table {
    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.state.name
    }

    /// Whether writes take row locks, so that conditions may be used.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.state.guarded
    }

    /// A row's value as the last commit left it. Buffered commits are written first.
    ///
    /// # Errors
    /// `Damaged` if its block fails its checksum; `Invalid` if the table was dropped; `Closed`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{Options, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let rows = store.table("rows")?;
    /// let mut batch = store.batch();
    /// batch.always().put(&rows, "a", "1");
    /// let _ = batch.commit()?;
    /// assert_eq!(rows.get("a")?.as_deref(), Some(&b"1"[..]));
    /// # Ok(()) }
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        let core = self.shared.core()?;
        Ok(core
            .committer
            .row(&self.state, key.as_ref())?
            .map(Value::from))
    }

    /// The rows whose keys begin with a prefix, ascending, as of now.
    ///
    /// # Errors
    /// As [`Table::get`]; later ones come as items.
    pub fn range(&self, prefix: impl AsRef<[u8]>) -> Result<TableScan> {
        let core = self.shared.core()?;
        let family = self.state.family()?;
        core.committer.flush_buffer()?;
        let prefix = prefix.as_ref();
        Ok(TableScan {
            rows: family.rows(prefix),
            prefix: prefix.into(),
        })
    }
}

/// A row's value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Value(Bytes);

impl Value {
    /// The value's bytes, shared.
    #[must_use]
    pub fn into_bytes(self) -> Bytes {
        self.0
    }

    /// The number, if it is a counter.
    #[must_use]
    pub fn as_counter(&self) -> Option<i64> {
        <[u8; 8]>::try_from(&self.0[..])
            .ok()
            .map(i64::from_le_bytes)
    }

    /// The version and the value behind it, if it has one; see
    /// [`Writes::compare_version`](crate::Writes::compare_version).
    #[must_use]
    pub fn versioned(&self) -> Option<(u64, &[u8])> {
        let (version, value) = self.0.split_first_chunk::<8>()?;
        Some((u64::from_le_bytes(*version), value))
    }
}

impl From<Vec<u8>> for Value {
    fn from(bytes: Vec<u8>) -> Value {
        Value(Bytes::from(bytes))
    }
}

impl Deref for Value {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Value {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Rows of a table; see [`Table::range`].
pub struct TableScan {
    rows: Rows,
    prefix: Box<[u8]>,
}

impl Iterator for TableScan {
    type Item = Result<(Bytes, Value)>;

    fn next(&mut self) -> Option<Self::Item> {
        match self.rows.next()? {
            Ok((key, _)) if !key.starts_with(&self.prefix) => None,
            Ok((key, value)) => Some(Ok((Bytes::from(key), Value(Bytes::from(value))))),
            Err(error) => Some(Err(error)),
        }
    }
}
