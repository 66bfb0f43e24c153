//! The open database: families, writes, reads, runs.
//!
//! Concurrency: everything here may be called from any thread; ordering of writes is the
//! caller's (one leader writes at a time). A family's handle is kept, not looked up: RocksDB's
//! lookup takes a lock.
//!
//! Failure: a family that RocksDB failed to drop is forgotten by the crate all the same; the
//! caller stops sealing then and the next open finds it again.

#[cfg(feature = "testing")]
mod by_name;

use std::path::PathBuf;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    BoundColumnFamily, ColumnFamilyDescriptor, DBPinnableSlice, DBWithThreadMode, FlushOptions,
    IngestExternalFileOptions, MultiThreaded, Options, ReadOptions, WriteBatch, WriteOptions,
};

use crate::error::{Error, ErrorKind, Result};

use super::fault::{map, map_open};
use super::{Caches, FamilyTuning, Home, RunFile, options, rep};

type Db = DBWithThreadMode<MultiThreaded>;

/// What a family holds; decides its options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rows,
    Table,
    Log,
    Generation,
}

/// How much of a damaged WAL is acceptable at open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    /// Every commit was synced: damage anywhere but in a torn tail refuses to open.
    Synced,
    /// Unsynced commits existed: the WAL is replayed up to the first damage; the floor decides
    /// whether that was enough.
    Unsynced,
    /// Any damage refuses to open, a torn tail too: only to look.
    Exact,
    /// Whatever can be read is replayed, past any damage: only to look.
    Anything,
}

/// Whether a database is opened to be used, or only to be read: then nothing in its directory
/// changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
}

/// What the engine needs to know to open.
#[derive(Clone)]
pub(crate) struct Settings {
    pub(crate) home: Home,
    pub(crate) caches: Caches,
    pub(crate) tuning: FamilyTuning,
    pub(crate) log_buffer_bytes: usize,
    pub(crate) wal_bytes_max: u64,
    pub(crate) open_files_max: i32,
}

/// One column family. Dropping the last handle lets RocksDB delete a dropped family's files.
pub(crate) struct Family {
    // Declared before `db`: the handle must go first.
    handle: Arc<BoundColumnFamily<'static>>,
    db: Arc<Db>,
    name: String,
    number: u32,
    kind: Kind,
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
    fn new(db: &Arc<Db>, name: &str, kind: Kind) -> Result<Arc<Family>> {
        let handle = db
            .cf_handle(name)
            .ok_or_else(|| Error::damaged(format!("column family {name} is missing")))?;
        // SAFETY: only the lifetime changes. The handle borrows the database, which this
        // `Family` keeps alive through its `Arc`, and it is dropped before that `Arc`.
        let handle = unsafe {
            std::mem::transmute::<Arc<BoundColumnFamily<'_>>, Arc<BoundColumnFamily<'static>>>(
                handle,
            )
        };
        let mut probe = WriteBatch::default();
        probe.put_cf(&handle, b"", b"");
        let number = rep::family_of(probe.data())
            .ok_or_else(|| Error::damaged(format!("column family {name} has no number")))?;
        let name = name.to_string();
        let mut passing = ReadOptions::default();
        passing.fill_cache(false);
        Ok(Arc::new(Family {
            handle,
            db: Arc::clone(db),
            name,
            number,
            kind,
            kept: ReadOptions::default(),
            passing,
        }))
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

/// A table file.
pub(crate) struct TableFile {
    /// The family it belongs to.
    pub(crate) family: String,
    pub(crate) first_key: Vec<u8>,
    pub(crate) bytes: u64,
}

/// Whether a database is still open: an engine or a handle of a family keeps it so.
pub(crate) struct Presence(Weak<Db>);

impl Presence {
    pub(crate) fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The open database.
pub(crate) struct Engine {
    db: Arc<Db>,
    settings: Settings,
    run_options: Options,
    /// Families that rows are put into; they pin the WAL until they are flushed.
    written_to: Mutex<Vec<Weak<Family>>>,
}

/// The family every RocksDB has; we keep nothing in it.
const DEFAULT_FAMILY: &str = "default";

impl Engine {
    /// Opens or creates the database, and all its families. `kind` tells a family's kind from
    /// its name; a name it does not know refuses the store.
    pub(crate) fn open(
        settings: Settings,
        recovery: Recovery,
        access: Access,
        kind: impl Fn(&str) -> Option<Kind>,
        table_name: impl Fn(&str) -> Option<String>,
    ) -> Result<(Engine, Vec<Arc<Family>>)> {
        let path = settings.home.data_path();
        let database = options::database(&settings, recovery)?;
        let names = existing_families(&database, &path, &settings.home)?;
        let mut descriptors = Vec::with_capacity(names.len());
        let mut kinds = Vec::with_capacity(names.len());
        for name in &names {
            let kind = if name == DEFAULT_FAMILY {
                Some(Kind::Rows)
            } else {
                kind(name)
            };
            let kind = kind.ok_or_else(|| {
                Error::damaged(format!("column family {name} is none this release knows"))
            })?;
            kinds.push(kind);
            let tuned_as = table_name(name).unwrap_or_else(|| name.clone());
            let family = options::family(&settings, kind, &tuned_as);
            descriptors.push(ColumnFamilyDescriptor::new(name, family));
        }
        let db = match access {
            Access::Write => Db::open_cf_descriptors(&database, &path, descriptors),
            Access::Read => Db::open_cf_descriptors_read_only(&database, &path, descriptors, false),
        };
        let db = db.map_err(|e| map_open(e, &path))?;
        settings.home.set_has_data();
        let db = Arc::new(db);
        let ours = names
            .iter()
            .zip(kinds)
            .filter(|(n, _)| *n != DEFAULT_FAMILY);
        let families = ours
            .map(|(n, kind)| Family::new(&db, n, kind))
            .collect::<Result<Vec<_>>>()?;
        let run_options = options::family(&settings, Kind::Generation, "");
        let engine = Engine {
            db,
            settings,
            run_options,
            written_to: Mutex::default(),
        };
        families.iter().for_each(|f| engine.remember(f));
        Ok((engine, families))
    }

    pub(crate) fn home(&self) -> &Home {
        &self.settings.home
    }

    pub(crate) fn create(&self, name: &str, kind: Kind, tuned_as: &str) -> Result<Arc<Family>> {
        let family = options::family(&self.settings, kind, tuned_as);
        self.db.create_cf(name, &family).map_err(map)?;
        let family = Family::new(&self.db, name, kind)?;
        self.remember(&family);
        Ok(family)
    }

    fn remember(&self, family: &Arc<Family>) {
        if matches!(family.kind, Kind::Rows | Kind::Table) {
            self.written_to.lock().push(Arc::downgrade(family));
        }
    }

    /// Drops a family; durable on return. Its files go with the last handle.
    pub(crate) fn drop_family(&self, family: &Family) -> Result<()> {
        self.db.drop_cf(&family.name).map_err(map)
    }

    /// Writes one batch: whole or not at all, in the WAL and in memory. Not synced.
    pub(crate) fn write(&self, batch: &[u8]) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(false);
        self.db
            .write_opt(WriteBatch::from_data(batch), &options)
            .map_err(map)
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        // Files in memory can't be synced, and RocksDB says so with an error.
        let to_disk = self.settings.home.directory().is_some();
        self.db.flush_wal(to_disk).map_err(map)
    }

    /// Flushes the memtables of row and table families, so that they no longer pin the WAL.
    pub(crate) fn flush_rows_and_tables(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let families = {
            let mut known = self.written_to.lock();
            known.retain(|f| f.strong_count() > 0);
            known.clone()
        };
        for family in families.iter().filter_map(Weak::upgrade) {
            if family.integer("rocksdb.num-entries-active-mem-table")? > 0 {
                self.db
                    .flush_cf_opt(&family.handle, &options)
                    .map_err(map)?;
            }
        }
        Ok(())
    }

    /// Starts a run file that [`Engine::ingest`] will take.
    pub(crate) fn run_file(&self, name: &str) -> Result<RunFile<'_>> {
        RunFile::create(&self.run_options, self.settings.home.run_path(name))
    }

    /// Moves a finished run into a family; durable on return.
    pub(crate) fn ingest(&self, family: &Family, file: PathBuf) -> Result<()> {
        self.settings.home.warm(&file)?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_snapshot_consistency(false);
        options.set_allow_global_seqno(true);
        options.set_allow_blocking_flush(true);
        self.db
            .ingest_external_file_cf_opts(&family.handle, &options, vec![file])
            .map_err(map)
    }

    /// Removes the files that lie wholly within the keys `from..=to`.
    pub(crate) fn remove_files(&self, family: &Family, from: &[u8], to: &[u8]) -> Result<()> {
        self.db
            .delete_file_in_range_cf(&family.handle, from, to)
            .map_err(map)
    }

    /// Tells whether the database is still open, without keeping it so.
    pub(crate) fn presence(&self) -> Presence {
        Presence(Arc::downgrade(&self.db))
    }

    /// Makes a consistent copy of the database in a new directory.
    pub(crate) fn checkpoint(&self, path: &std::path::Path) -> Result<()> {
        Checkpoint::new(&*self.db)
            .and_then(|c| c.create_checkpoint(path))
            .map_err(map)
    }

    /// Background errors RocksDB has latched; writes fail until the store is reopened.
    pub(crate) fn background_errors(&self) -> u64 {
        let count = self.db.property_int_value("rocksdb.background-errors");
        count.ok().flatten().unwrap_or(0)
    }

    /// Whether RocksDB holds writes back now, and how fast it lets them through (0: it does not
    /// hold them back).
    pub(crate) fn write_rate_limit(&self) -> u64 {
        let rate = self
            .db
            .property_int_value("rocksdb.actual-delayed-write-rate");
        rate.ok().flatten().unwrap_or(0)
    }

    /// Whether RocksDB has stopped writes altogether.
    pub(crate) fn writes_stopped(&self) -> bool {
        let stopped = self.db.property_int_value("rocksdb.is-write-stopped");
        stopped.ok().flatten().unwrap_or(0) != 0
    }

    /// The live table files.
    pub(crate) fn table_files(&self) -> Result<Vec<TableFile>> {
        let files = self.db.live_files().map_err(map)?;
        let files = files.into_iter().map(|file| TableFile {
            family: file.column_family_name,
            first_key: file.start_key.unwrap_or_default(),
            bytes: file.size as u64,
        });
        Ok(files.collect())
    }

    /// Bytes of all live files on disk.
    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        let files = self.db.live_files().map_err(map)?;
        Ok(files.iter().map(|f| f.size as u64).sum())
    }
}

/// The families on disk; none for a new store. A directory that holds a damaged database is an
/// error, never a new store.
fn existing_families(
    database: &Options,
    path: &std::path::Path,
    home: &Home,
) -> Result<Vec<String>> {
    let is_new = !home.has_data()?;
    if is_new {
        return Ok(vec![DEFAULT_FAMILY.to_string()]);
    }
    if let Some(dir) = home.directory()
        && !dir.join("data").join("CURRENT").exists()
    {
        return Err(Error::new(
            ErrorKind::Damaged,
            "the store's data folder holds files but no CURRENT file",
        ));
    }
    Db::list_cf(database, path).map_err(|e| map_open(e, path))
}
