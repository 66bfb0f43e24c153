//! The operations of the library's engine over [`Disk`], under the same names.

use std::sync::{Arc, Weak};

use super::disk::{Record, Shared, with_content};
use super::{Disk, Family, FinishedRun, Home, Place, RunFile, at};
use crate::error::{Error, ErrorKind, Result};
use crate::sync::point;

/// What a family holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Rows,
    Table,
    Log,
    Generation,
}

/// How much of a damaged log is acceptable; nothing is damaged here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Recovery {
    Synced,
    Unsynced,
    Exact,
    Anything,
}

/// Whether it is opened to be used, or only to be read; here nobody only reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Write,
    Read,
    Look,
}

/// A table file; there are none.
pub(crate) struct TableFile {
    pub(crate) family: String,
    pub(crate) first_key: Vec<u8>,
    pub(crate) bytes: u64,
}

/// Caches that hold nothing.
#[derive(Clone)]
pub(crate) struct Caches;

impl Caches {
    pub(crate) fn new(_: usize, _: usize) -> Caches {
        Caches
    }

    pub(crate) fn cache_used_bytes(&self) -> usize {
        0
    }

    pub(crate) fn memtable_used_bytes(&self) -> usize {
        0
    }
}

/// Nothing to tune.
#[derive(Clone, Default)]
pub(crate) struct FamilyTuning(());

/// What an open is told.
#[derive(Clone)]
#[expect(dead_code, reason = "only the home matters here")]
pub(crate) struct Settings {
    pub(crate) home: Home,
    pub(crate) caches: Caches,
    pub(crate) tuning: FamilyTuning,
    pub(crate) log_buffer_bytes: usize,
    pub(crate) wal_bytes_max: u64,
    pub(crate) open_files_max: i32,
}

/// Whether the database is still open.
pub(crate) struct Presence(Weak<()>);

impl Presence {
    pub(crate) fn is_open(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// The open database.
pub(crate) struct Engine {
    disk: Arc<Disk>,
    home: Home,
    log_buffer_bytes: usize,
    open: Arc<()>,
}

impl Engine {
    pub(crate) fn open(
        settings: Settings,
        _: Recovery,
        _: Access,
        kind: impl Fn(&str) -> Option<Kind>,
        _: impl Fn(&str) -> Option<String>,
    ) -> Result<(Engine, Vec<Arc<Family>>)> {
        let home = settings.home;
        home.set_has_data();
        let memory = home.memory.as_ref();
        let disk = memory.map(|memory| Arc::clone(&memory.disk));
        let disk = disk.ok_or_else(|| Error::invalid("models run in memory"))?;
        let (log_buffer_bytes, open) = (settings.log_buffer_bytes, Arc::new(()));
        let engine = Engine {
            disk,
            home,
            log_buffer_bytes,
            open,
        };
        let mut families = Vec::new();
        for name in engine.disk.names() {
            let found = engine.disk.family(&name).filter(|_| kind(&name).is_some());
            let found = found.ok_or_else(|| Error::damaged(format!("unknown family {name}")))?;
            families.push(engine.handle(&name, found));
        }
        Ok((engine, families))
    }

    fn handle(&self, name: &str, (number, content): (u32, Shared)) -> Arc<Family> {
        Family::new(content, name, number, &self.open)
    }

    pub(crate) fn was_opened_with(&self, name: &str) -> bool {
        self.disk.family(name).is_some()
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn create(&self, name: &str, kind: Kind, _: &str) -> Result<Arc<Family>> {
        let made = at(&self.home, Place::Create, || self.disk.create(name, kind))?;
        Ok(self.handle(name, made))
    }

    pub(crate) fn drop_family(&self, family: &Family) -> Result<()> {
        at(&self.home, Place::Drop, || {
            self.disk.drop_family(family.name())
        })
    }

    pub(crate) fn write(&self, batch: &[u8]) -> Result<()> {
        let records = records(batch).ok_or_else(|| Error::damaged("not a batch"))?;
        let written = at(&self.home, Place::Write, || self.disk.write(records));
        if written.as_ref().is_err_and(|e| e.kind() == ErrorKind::Full) {
            self.disk.tear();
        }
        written
    }

    pub(crate) fn sync(&self) -> Result<()> {
        at(&self.home, Place::Sync, || self.disk.sync())
    }

    pub(crate) fn flush_rows_and_tables(&self) -> Result<()> {
        at(&self.home, Place::Flush, || self.disk.sync())
    }

    pub(crate) fn run_file(&self, name: &str) -> Result<RunFile<'_>> {
        RunFile::create(&self.home, name)
    }

    pub(crate) fn ingest(&self, family: &Family, file: &FinishedRun) -> Result<()> {
        self.home.warm(file.path())?;
        at(&self.home, Place::Ingest, || {
            self.disk.ingest(&family.content, file.path())
        })
    }

    pub(crate) fn remove_files(&self, family: &Family, from: &[u8], to: &[u8]) -> Result<()> {
        point();
        with_content(&family.content, |c| c.remove_runs(from, to));
        Ok(())
    }

    pub(crate) fn presence(&self) -> Presence {
        Presence(Arc::downgrade(&self.open))
    }

    pub(crate) fn checkpoint(&self, _: &std::path::Path) -> Result<()> {
        Err(Error::invalid("a store in memory has no checkpoints"))
    }

    pub(crate) fn resume_bytes(&self) -> u64 {
        self.log_buffer_bytes as u64
    }

    pub(crate) fn background_errors(&self) -> u64 {
        0
    }

    pub(crate) fn write_rate_limit(&self) -> u64 {
        0
    }

    pub(crate) fn writes_stopped(&self) -> bool {
        false
    }

    pub(crate) fn table_files(&self) -> Result<Vec<TableFile>> {
        Ok(Vec::new())
    }

    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}

/// The records of a batch in RocksDB's representation, as the library builds it.
fn records(batch: &[u8]) -> Option<Vec<Record>> {
    const PUT: u8 = 0x05;
    let mut rest = batch.get(12..)?;
    let mut records = Vec::new();
    while let Some((&kind, after)) = rest.split_first() {
        let (family, after) = varint(after)?;
        let (key, after) = sized(after)?;
        let (value, after) = if kind == PUT {
            let (value, after) = sized(after)?;
            (Some(value), after)
        } else {
            (None, after)
        };
        records.push(Record { family, key, value });
        rest = after;
    }
    Some(records)
}

fn sized(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    let (len, rest) = varint(bytes)?;
    let (taken, rest) = rest.split_at_checked(len as usize)?;
    Some((taken.to_vec(), rest))
}

fn varint(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut number = 0;
    for (i, byte) in bytes.iter().take(5).enumerate() {
        number |= u32::from(byte & 0x7f) << (7 * i);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[i + 1..]));
        }
    }
    None
}
