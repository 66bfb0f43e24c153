//! The database itself: families of rows, and the history of what was written and synced.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use super::Kind;
use crate::error::{Error, ErrorKind, Result};
use crate::sync::point;

pub(crate) type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// What a family holds; its handles keep it when it is dropped.
#[derive(Default)]
pub(crate) struct Content {
    /// What was written through the log and is lost with its unsynced end.
    rows: Map,
    /// What was ingested: durable at once.
    runs: Map,
}

pub(crate) type Shared = Arc<Mutex<Content>>;

/// One write of a batch.
#[derive(Clone)]
pub(crate) struct Record {
    pub(crate) family: u32,
    pub(crate) key: Vec<u8>,
    pub(crate) value: Option<Vec<u8>>,
}

#[derive(Default)]
struct State {
    families: BTreeMap<String, (u32, Shared)>,
    /// Of every family that ever was.
    kinds: BTreeMap<u32, Kind>,
    /// Every batch ever written, and how many of them are synced.
    wal: Vec<Vec<Record>>,
    synced: usize,
    /// Whether the log ends in a record that the disk had no room for.
    is_torn: bool,
    /// Run files that are finished and not ingested.
    files: BTreeMap<PathBuf, Map>,
}

/// The disk of one database.
#[derive(Default)]
pub(crate) struct Disk(Mutex<State>);

impl Disk {
    fn with<T>(&self, run: impl FnOnce(&mut State) -> T) -> T {
        run(&mut self.0.lock().expect("nothing here panics"))
    }

    pub(super) fn names(&self) -> Vec<String> {
        self.with(|s| s.families.keys().cloned().collect())
    }

    pub(super) fn family(&self, name: &str) -> Option<(u32, Shared)> {
        self.with(|s| s.families.get(name).cloned())
    }

    pub(super) fn create(&self, name: &str, kind: Kind) -> Result<(u32, Shared)> {
        point();
        self.with(|s| {
            let number = s.kinds.len() as u32 + 1;
            let made = (number, Shared::default());
            let old = s.families.insert(name.to_string(), made.clone());
            if old.is_some() {
                return Err(Error::invalid(format!("family {name} exists")));
            }
            s.kinds.insert(number, kind);
            Ok(made)
        })
    }

    pub(super) fn drop_family(&self, name: &str) -> Result<()> {
        point();
        let dropped = self.with(|s| s.families.remove(name));
        let what = || Error::invalid(format!("family {name} is dropped already"));
        dropped.map(|_| ()).ok_or_else(what)
    }

    /// Writes a batch, whole or not at all. A family that is gone refuses it.
    pub(super) fn write(&self, batch: Vec<Record>) -> Result<()> {
        point();
        self.with(|s| {
            let alive: BTreeMap<u32, Shared> = s.families.values().cloned().collect();
            if let Some(lost) = batch.iter().find(|r| !alive.contains_key(&r.family)) {
                let text = format!("no family {} to write into", lost.family);
                return Err(Error::new(ErrorKind::Degraded, text));
            }
            if std::mem::take(&mut s.is_torn) {
                // RocksDB goes on in a new log, once all before it is in table files.
                s.synced = s.wal.len();
            }
            batch.iter().for_each(|r| apply(&alive[&r.family], r));
            s.wal.push(batch);
            Ok(())
        })
    }

    /// A write met the end of the disk: nothing of it is recorded, and the log ends torn.
    pub(super) fn tear(&self) {
        self.with(|s| s.is_torn = true);
    }

    /// Syncs what was written before it began. A torn log can't be synced.
    pub(super) fn sync(&self) -> Result<()> {
        let written = self.with(|s| s.wal.len());
        point();
        self.with(|s| {
            if s.is_torn {
                return Err(Error::new(ErrorKind::Degraded, "the log ends torn"));
            }
            s.synced = s.synced.max(written);
            Ok(())
        })
    }

    pub(super) fn add_file(&self, path: &Path, rows: Map) {
        point();
        self.with(|s| s.files.insert(path.to_path_buf(), rows));
    }

    pub(super) fn remove_file(&self, path: &Path) {
        self.with(|s| s.files.remove(path));
    }

    pub(super) fn ingest(&self, into: &Shared, path: &Path) -> Result<()> {
        point();
        let rows = self.with(|s| s.files.remove(path));
        let rows = rows.ok_or_else(|| Error::damaged(format!("no file {}", path.display())))?;
        with_content(into, |c| c.runs.extend(rows));
        Ok(())
    }

    /// What a power failure would leave now: what is synced or was ingested.
    pub(super) fn after_power_failure(&self) -> Disk {
        self.with(|s| {
            let mut left = State {
                kinds: s.kinds.clone(),
                ..State::default()
            };
            for (name, (number, content)) in &s.families {
                let runs = with_content(content, |c| c.runs.clone());
                let rows = Map::new();
                let content = Arc::new(Mutex::new(Content { rows, runs }));
                left.families.insert(name.clone(), (*number, content));
            }
            let alive: BTreeMap<u32, Shared> = left.families.values().cloned().collect();
            for record in s.wal[..s.synced].iter().flatten() {
                if let Some(content) = alive.get(&record.family) {
                    apply(content, record);
                }
            }
            Disk(Mutex::new(left))
        })
    }

    /// Each commit's log record, in the order of writing: number, value, and whether it is synced.
    pub(crate) fn commits(&self) -> Vec<(u64, Vec<u8>, bool)> {
        self.with(|s| {
            let mut commits = Vec::new();
            for (at, batch) in s.wal.iter().enumerate() {
                for record in batch {
                    if s.kinds.get(&record.family) == Some(&Kind::Log) {
                        let n = record
                            .key
                            .as_slice()
                            .try_into()
                            .map_or(0, u64::from_be_bytes);
                        let value = record.value.clone().unwrap_or_default();
                        commits.push((n, value, at < s.synced));
                    }
                }
            }
            commits
        })
    }

    /// How many batches were written that hold a commit.
    pub(crate) fn groups(&self) -> usize {
        self.with(|s| {
            let is_log = |r: &Record| s.kinds.get(&r.family) == Some(&Kind::Log);
            s.wal
                .iter()
                .filter(|batch| batch.iter().any(is_log))
                .count()
        })
    }
}

fn apply(content: &Shared, record: &Record) {
    with_content(content, |c| match &record.value {
        Some(value) => c.rows.insert(record.key.clone(), value.clone()),
        None => c.rows.remove(&record.key),
    });
}

pub(super) fn with_content<T>(content: &Shared, run: impl FnOnce(&mut Content) -> T) -> T {
    run(&mut content.lock().expect("nothing here panics"))
}

impl Content {
    pub(super) fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.rows.get(key).or_else(|| self.runs.get(key)).cloned()
    }

    pub(super) fn all(&self) -> Map {
        let mut all = self.runs.clone();
        all.extend(self.rows.clone());
        all
    }

    pub(super) fn remove_runs(&mut self, from: &[u8], to: &[u8]) {
        self.runs.retain(|key, _| !(from..=to).contains(&&key[..]));
    }
}
