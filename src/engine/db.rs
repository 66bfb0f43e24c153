//! The open database: families, writes, reads, runs.
//!
//! Concurrency: everything here may be called from any thread; ordering of writes is the
//! caller's (one leader writes at a time). A family's handle is kept, not looked up: RocksDB's
//! lookup takes a lock.
//!
//! Failure: what fails has changed nothing that the caller can see, so it may be tried again:
//! a family that was not made can be made, one that was not dropped can be dropped.

#[cfg(feature = "testing")]
mod by_name;

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rocksdb::checkpoint::Checkpoint;
use rocksdb::{
    ColumnFamilyDescriptor, DBWithThreadMode, FlushOptions, IngestExternalFileOptions,
    MultiThreaded, Options, WriteBatch, WriteOptions,
};

use crate::error::{Error, ErrorKind, Result};

use super::family::Family;
use super::fault::{is_no_space, map, map_open};
use super::handle::Handle;
use super::inject::{Place, at};
use super::stand_in::open_with_stand_ins;
use super::{Caches, FamilyTuning, FinishedRun, Home, RunFile, options};

pub(super) type Db = DBWithThreadMode<MultiThreaded>;

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
    /// Of a store that nobody writes meanwhile.
    Read,
    /// Of one that another process may write: all its files are opened at once.
    Look,
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
    /// Those that are in use.
    families: Mutex<Vec<Weak<Family>>>,
    /// Those that it was opened with.
    opened: Vec<String>,
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
        let mut database = options::database(&settings, recovery)?;
        match access {
            Access::Write => settings.home.mark_endless_records()?,
            Access::Read => {}
            // What is open can be read whatever becomes of its name.
            Access::Look => database.set_max_open_files(-1),
        }
        let names = existing_families(&database, &path, &settings.home)?;
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
        }
        let open = || {
            let families = names.iter().zip(&kinds).map(|(name, kind)| {
                let tuned_as = table_name(name).unwrap_or_else(|| name.clone());
                ColumnFamilyDescriptor::new(name, options::family(&settings, *kind, &tuned_as))
            });
            match access {
                Access::Write => Db::open_cf_descriptors(&database, &path, families),
                Access::Read | Access::Look => {
                    Db::open_cf_descriptors_read_only(&database, &path, families, false)
                }
            }
        };
        let tables = |db: &Db| Ok(db.live_files()?.into_iter().map(|f| f.name).collect());
        let failed = |error| map_open(error, &path);
        let db = match access {
            Access::Write => open_with_stand_ins(&settings.home, open, tables, failed)?,
            Access::Read | Access::Look => open().map_err(failed)?,
        };
        settings.home.set_has_data();
        let db = Arc::new(db);
        let ours = names
            .iter()
            .zip(kinds)
            .filter(|(n, _)| *n != DEFAULT_FAMILY);
        let families = ours
            .map(|(n, kind)| Family::new(&db, Handle::opened(&db, n)?, n, kind))
            .collect::<Result<Vec<_>>>()?;
        let run_options = options::family(&settings, Kind::Generation, "");
        let engine = Engine {
            db,
            settings,
            run_options,
            families: Mutex::default(),
            opened: names,
        };
        families.iter().for_each(|f| engine.remember(f));
        Ok((engine, families))
    }

    pub(crate) fn home(&self) -> &Home {
        &self.settings.home
    }

    /// Whether it was opened with a family of that name.
    pub(crate) fn was_opened_with(&self, name: &str) -> bool {
        self.opened.iter().any(|opened| opened == name)
    }

    /// The families that are on disk now; others than those open if another process writes.
    ///
    /// # Errors
    /// As those of opening.
    pub(crate) fn families_now(&self) -> Result<Vec<String>> {
        let database = options::database(&self.settings, Recovery::Anything)?;
        let path = self.settings.home.data_path();
        Db::list_cf(&database, &path).map_err(|e| map_open(e, &path))
    }

    /// Makes a family; durable on return.
    ///
    /// # Errors
    /// It is not there then, and may be made again.
    pub(crate) fn create(&self, name: &str, kind: Kind, tuned_as: &str) -> Result<Arc<Family>> {
        let options = options::family(&self.settings, kind, tuned_as);
        let handle = at(self.home(), Place::Create, || {
            Handle::make(&self.db, name, &options)
        })?;
        let family = Family::new(&self.db, handle, name, kind)?;
        self.remember(&family);
        Ok(family)
    }

    fn remember(&self, family: &Arc<Family>) {
        let mut families = self.families.lock();
        families.retain(|f| f.strong_count() > 0);
        families.push(Arc::downgrade(family));
    }

    /// Drops a family; durable on return. Its files go with the last handle.
    ///
    /// # Errors
    /// It is still there then, and may be dropped again.
    pub(crate) fn drop_family(&self, family: &Family) -> Result<()> {
        family.condemn();
        at(self.home(), Place::Drop, || {
            family.handle.drop_family(&self.db, family.name())
        })
    }

    /// Writes one batch: whole or not at all, in the WAL and in memory. Not synced.
    ///
    /// # Errors
    /// `Full` says that nothing of it is in memory, nor whole in the WAL, since the system did
    /// not take all of its bytes; after any other error nobody knows.
    pub(crate) fn write(&self, batch: &[u8]) -> Result<()> {
        let mut options = WriteOptions::default();
        options.set_sync(false);
        at(self.home(), Place::Write, || {
            let batch = WriteBatch::from_data(batch);
            self.db.write_opt(batch, &options).map_err(map)
        })
        .map_err(only_no_space_is_full)
    }

    /// Makes everything written so far durable.
    pub(crate) fn sync(&self) -> Result<()> {
        // Files in memory can't be synced, and RocksDB says so with an error.
        let to_disk = self.settings.home.directory().is_some();
        at(self.home(), Place::Sync, || {
            self.db.flush_wal(to_disk).map_err(map)
        })
    }

    /// Flushes the memtables of row and table families, so that they no longer pin the WAL.
    pub(crate) fn flush_rows_and_tables(&self) -> Result<()> {
        let mut options = FlushOptions::default();
        options.set_wait(true);
        let families = self.families.lock().clone();
        for family in families.iter().filter_map(Weak::upgrade) {
            if !matches!(family.kind, Kind::Rows | Kind::Table) {
                continue;
            }
            match self.flush(&family, &options) {
                // Dropped meanwhile: it pins nothing any more.
                Err(_) if family.is_condemned() => {}
                flushed => flushed?,
            }
        }
        Ok(())
    }

    fn flush(&self, family: &Family, options: &FlushOptions) -> Result<()> {
        if family.integer("rocksdb.num-entries-active-mem-table")? == 0 {
            return Ok(());
        }
        at(self.home(), Place::Flush, || {
            let flushed = self.db.flush_cf_opt(&family.handle, options);
            flushed.map_err(map)
        })
    }

    /// Starts a run file that [`Engine::ingest`] will take.
    pub(crate) fn run_file(&self, name: &str) -> Result<RunFile<'_>> {
        RunFile::create(&self.run_options, &self.settings.home, name)
    }

    /// Moves a finished run into a family; durable on return.
    ///
    /// # Errors
    /// Nothing of it is in the family then.
    pub(crate) fn ingest(&self, family: &Family, file: &FinishedRun) -> Result<()> {
        self.settings.home.warm(file.path())?;
        let mut options = IngestExternalFileOptions::default();
        options.set_move_files(true);
        options.set_snapshot_consistency(false);
        options.set_allow_global_seqno(true);
        options.set_allow_blocking_flush(true);
        let home = self.home();
        let ingested = at(home, Place::Ingest, || {
            let files = vec![file.path()];
            let ingested = self
                .db
                .ingest_external_file_cf_opts(&family.handle, &options, files);
            ingested.map_err(map)
        });
        // A record in the MANIFEST that failed is gone with that MANIFEST once one succeeds.
        let kept = match &ingested {
            Ok(()) => home.forget_kept_aside(),
            Err(_) => home.keep_aside(file.path()),
        };
        if let Err(error) = kept {
            log::error!("the runs whose ingestion failed: {error}");
        }
        ingested
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

    /// Free space that RocksDB waits for after the disk was full: its largest memtable.
    pub(crate) fn resume_bytes(&self) -> u64 {
        let largest = self
            .settings
            .log_buffer_bytes
            .max(options::MEMTABLE_BYTES_MAX);
        largest as u64 + (1 << 20)
    }

    /// How often RocksDB's own flushes and compactions have failed since the open. It goes on
    /// by itself after some of these errors.
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

/// RocksDB goes on by itself after a full disk and after nothing else: other wants, as of
/// descriptors, a quota or a file's size, it takes for a broken disk.
fn only_no_space_is_full(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Full if is_no_space(error.message()) => error,
        ErrorKind::Full | ErrorKind::Busy => {
            Error::new(ErrorKind::Degraded, error.message()).with_source(error)
        }
        _ => error,
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
    home.check_frames()?;
    Db::list_cf(database, path).map_err(|e| map_open(e, path))
}
