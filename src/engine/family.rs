//! One column family: reads, and its rows in order.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rocksdb::{DBPinnableSlice, ReadOptions, WriteBatch};

use crate::error::{Error, Result};

use super::db::{Db, Kind};
use super::fault::map;
use super::handle::Handle;
use super::rep;

/// One column family. Dropping the last handle lets RocksDB delete a dropped family's files.
pub(crate) struct Family {
    // Declared before `db`: the handle must go first.
    pub(super) handle: Handle,
    db: Arc<Db>,
    name: String,
    number: u32,
    pub(super) kind: Kind,
    /// Its drop has begun: nothing in it is worth anything any more.
    condemned: AtomicBool,
    /// Reads that keep what they read in the cache, and reads that leave the cache alone.
    kept: ReadOptions,
    passing: ReadOptions,
}

/// Whether the blocks that a read fetches stay in the cache. What is there already is used
/// either way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    /// They are likely to be read again.
    Keep,
    /// They would only push out others.
    Pass,
}

impl Family {
    pub(super) fn new(db: &Arc<Db>, handle: Handle, name: &str, kind: Kind) -> Result<Arc<Family>> {
        let mut probe = WriteBatch::default();
        probe.put_cf(&handle, b"", b"");
        let number = rep::family_of(probe.data())
            .ok_or_else(|| Error::damaged(format!("column family {name} has no number")))?;
        let mut passing = ReadOptions::default();
        passing.fill_cache(false);
        Ok(Arc::new(Family {
            handle,
            db: Arc::clone(db),
            name: name.to_string(),
            number,
            kind,
            condemned: AtomicBool::new(false),
            kept: ReadOptions::default(),
            passing,
        }))
    }

    pub(super) fn condemn(&self) {
        self.condemned.store(true, Ordering::Release);
    }

    pub(super) fn is_condemned(&self) -> bool {
        self.condemned.load(Ordering::Acquire)
    }

    fn reading(&self, blocks: Blocks) -> &ReadOptions {
        match blocks {
            Blocks::Keep => &self.kept,
            Blocks::Pass => &self.passing,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number that write batches name it by.
    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    /// One value, without a copy. A block that fails its checksum is an error, never `None`.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<DBPinnableSlice<'_>>> {
        self.get_with(key, Blocks::Keep)
    }

    /// [`Family::get`] that says what becomes of the block.
    pub(crate) fn get_with(
        &self,
        key: &[u8],
        blocks: Blocks,
    ) -> Result<Option<DBPinnableSlice<'_>>> {
        let options = self.reading(blocks);
        self.db
            .get_pinned_cf_opt(&self.handle, key, options)
            .map_err(map)
    }

    /// Many values of ascending keys.
    pub(crate) fn get_sorted<'a, K: AsRef<[u8]> + 'a + ?Sized>(
        &self,
        keys: impl IntoIterator<Item = &'a K>,
        blocks: Blocks,
    ) -> Result<Vec<Option<DBPinnableSlice<'_>>>> {
        let options = self.reading(blocks);
        let values = self
            .db
            .batched_multi_get_cf_opt(&self.handle, keys, true, options);
        values.into_iter().map(|v| v.map_err(map)).collect()
    }

    /// Rows from `from` on, ascending, as of now.
    pub(crate) fn rows(self: &Arc<Self>, from: &[u8]) -> Rows {
        self.rows_with(from, ReadOptions::default())
    }

    /// The same, read once: nothing stays in the cache.
    pub(crate) fn rows_once(self: &Arc<Self>, from: &[u8]) -> Rows {
        let mut read = ReadOptions::default();
        read.fill_cache(false);
        read.set_readahead_size(READ_AHEAD);
        self.rows_with(from, read)
    }

    /// The last key below another.
    pub(crate) fn last_before(&self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        let mut read = ReadOptions::default();
        read.set_total_order_seek(true);
        let mut iterator = self.db.raw_iterator_cf_opt(&self.handle, read);
        iterator.seek_for_prev(key);
        if iterator.key() == Some(key) {
            iterator.prev();
        }
        iterator.status().map_err(map)?;
        Ok(iterator.key().map(Into::into))
    }

    fn rows_with(self: &Arc<Self>, from: &[u8], mut read: ReadOptions) -> Rows {
        read.set_total_order_seek(true);
        let mut iterator = self.db.raw_iterator_cf_opt(&self.handle, read);
        iterator.seek(from);
        // SAFETY: only the lifetime changes. The iterator borrows the database, which `_family`
        // keeps alive, and it is declared (so dropped) first.
        let iterator = unsafe { std::mem::transmute::<RawRows<'_>, RawRows<'static>>(iterator) };
        Rows {
            iterator,
            has_failed: false,
            _family: Arc::clone(self),
        }
    }

    /// Bytes of its files on disk.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        self.integer("rocksdb.total-sst-files-size")
    }

    /// An integer property of RocksDB's; 0 if it has no such value.
    pub(crate) fn integer(&self, property: &str) -> Result<u64> {
        Ok(self
            .db
            .property_int_value_cf(&self.handle, property)
            .map_err(map)?
            .unwrap_or(0))
    }
}

/// Bytes that are read ahead where a whole family is.
const READ_AHEAD: usize = 2 << 20;

type RawRows<'a> = rocksdb::DBRawIteratorWithThreadMode<'a, Db>;

/// A row as an iterator gives it.
pub(crate) type Row = (Box<[u8]>, Box<[u8]>);

/// Rows of a family, ascending. After an error it has ended, until it is told where to go on.
pub(crate) struct Rows {
    iterator: RawRows<'static>,
    has_failed: bool,
    _family: Arc<Family>,
}

impl Rows {
    /// The row it stands on.
    pub(crate) fn here(&self) -> Option<(&[u8], &[u8])> {
        self.iterator.item()
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.has_failed = false;
        self.iterator.seek(key);
    }

    pub(crate) fn step(&mut self) {
        self.iterator.next();
    }

    /// Whether it ended because of an error.
    pub(crate) fn status(&self) -> Result<()> {
        self.iterator.status().map_err(map)
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        match self.iterator.item() {
            Some((key, value)) => {
                let row = (key.into(), value.into());
                self.iterator.next();
                Some(Ok(row))
            }
            None if self.has_failed => None,
            None => {
                let error = self.status().err()?;
                self.has_failed = true;
                Some(Err(error))
            }
        }
    }
}
