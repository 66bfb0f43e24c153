//! Which scopes and tables a store has, and under which rules their ids were written.
//!
//! - K1: numbers are never used again, not even after a drop: ids of a dropped scope that still
//!   lie in a generation can't come back under another name.
//! - K2: a scope's class bit is durable before the first id is placed in that class, so that
//!   only the classes it ever used need be asked.

mod at_rest;
pub(crate) mod outbox;
mod own_time;
mod payload_key;
mod rows;
mod sequences;
mod state;
mod switches;

#[cfg(feature = "testing")]
pub(crate) use rows::{scope_again, table_again};

use std::sync::Arc;

use crate::engine::{Family, Kind, Rep};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{self, Class, FOR_EVER_CLASS, Index};
use crate::meter::Tally;
use crate::mode::Switches;
use crate::policy::{Policy, Retention};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Mutex, RwLock};

#[cfg(feature = "testing")]
pub(crate) use sequences::sequences_again;

pub(crate) use at_rest::{check_at_rest, outboxes_at_rest};
pub(crate) use outbox::{Point, Sends};
pub(crate) use rows::TableKind;
pub(crate) use sequences::SequencesState;
pub(crate) use state::{ScopeState, TableState};

use own_time::other_time;
use rows::{read_scopes, read_tables, table_row};
use sequences::Spaces;
use switches::show_switches;

/// Policy versions a scope may have: its retention may change so often, less one.
const VERSIONS_MAX: usize = 255;
/// The longest name of a scope or table, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// Limits on what a store may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Caps {
    pub(crate) scopes: usize,
    pub(crate) tables: usize,
}

/// The catalog of an open store.
pub(crate) struct Catalog {
    index: Arc<Index>,
    caps: Caps,
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// All, also the dropped ones.
    scopes: Vec<Arc<ScopeState>>,
    tables: Vec<(Arc<TableState>, Arc<Family>)>,
    next_table: u32,
    spaces: Spaces,
}

impl Catalog {
    /// Reads the catalog; drops the families of tables whose drop or creation was cut short.
    pub(crate) fn load(
        index: Arc<Index>,
        families: Vec<(u32, Arc<Family>)>,
        caps: Caps,
    ) -> Result<Catalog> {
        let scopes = read_scopes(&index.meta)?;
        let is_reader = index.poison.is_reader();
        show_switches(&index, &scopes)?;
        let dropped: Vec<u16> = scopes
            .iter()
            .filter(|s| s.is_dropped())
            .map(|s| s.number)
            .collect();
        index.set_dropped_scopes(dropped);
        let mut tables = Vec::new();
        let mut next_table = 0;
        for (number, name, kind, dropped) in read_tables(&index.meta)? {
            next_table = next_table.max(number + 1);
            let family = families.iter().find(|f| f.0 == number);
            match (family, dropped) {
                (Some((_, family)), false) => {
                    let table = TableState::new(number, name, kind, family)?;
                    tables.push((table, Arc::clone(family)));
                }
                (Some(_), true) if is_reader => {}
                (Some((_, family)), true) => index.engine.drop_family(family)?,
                (None, true) => {}
                (None, false) => {
                    return Err(Error::damaged(format!(
                        "the rows of table {name:?} are gone"
                    )));
                }
            }
        }
        for (number, family) in &families {
            next_table = next_table.max(number + 1);
            if !is_reader && tables.iter().all(|(t, _)| t.number != *number) {
                let _ = index.engine.drop_family(family);
            }
        }
        let inner = Mutex::new(Inner {
            scopes,
            tables,
            next_table,
            spaces: Spaces::load(&index)?,
        });
        Ok(Catalog { index, caps, inner })
    }

    /// Makes a scope, or finds the one of that name and the same semantics.
    pub(crate) fn scope(&self, name: &str, policy: &Policy) -> Result<Arc<ScopeState>> {
        policy.validate(name)?;
        check_name(name, "scope")?;
        let mut inner = self.inner.lock();
        let found = inner
            .scopes
            .iter()
            .find(|s| s.name == name && !s.is_dropped());
        if let Some(scope) = found {
            let in_force = scope.versions().last().copied();
            scope.check_payload_key(policy, &self.index.ids)?;
            if in_force == Some(policy.retention) && scope.has_time_of(policy) {
                self.note(scope, &policy.retention);
                self.switch_by(scope, policy);
                return Ok(Arc::clone(scope));
            }
            if in_force == Some(policy.retention) {
                return Err(other_time(name));
            }
            return Err(Error::invalid(format!(
                "scope {name:?} remembers {}, not {}; `alter_scope` changes the retention",
                in_force.map_or_else(|| "nothing".to_string(), |r| describe(&r)),
                describe(&policy.retention),
            )));
        }
        let live = inner.scopes.iter().filter(|s| !s.is_dropped()).count();
        if live >= self.caps.scopes || inner.scopes.len() >= usize::from(u16::MAX) {
            return Err(Error::new(
                ErrorKind::Full,
                format!("the store may have {} scopes", self.caps.scopes),
            ));
        }
        let (class, own_time) = self.own_class(policy)?;
        let scope = ScopeState {
            number: u16::try_from(inner.scopes.len()).unwrap_or(u16::MAX),
            name: name.to_string(),
            versions: RwLock::new([policy.retention].into()),
            classes: AtomicU32::new(0),
            own_time,
            payload_key: policy.payload_key,
            dropped: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            tally: Tally::default(),
            switches: Switches::default(),
        };
        let classes = 1 << class;
        self.put(scope.row(&[policy.retention], classes, false))?;
        scope.classes.store(classes, Ordering::Release);
        let scope = Arc::new(scope);
        inner.scopes.push(Arc::clone(&scope));
        self.switch_by(&scope, policy);
        Ok(scope)
    }

    /// The existing scope of a name.
    pub(crate) fn existing_scope(&self, name: &str) -> Option<Arc<ScopeState>> {
        let inner = self.inner.lock();
        inner
            .scopes
            .iter()
            .find(|s| s.name == name && !s.is_dropped())
            .cloned()
    }

    /// The scope of a number, dropped ones included.
    pub(crate) fn scope_of(&self, number: u16) -> Option<Arc<ScopeState>> {
        self.inner.lock().scopes.get(usize::from(number)).cloned()
    }

    pub(crate) fn scope_names(&self) -> Vec<String> {
        let inner = self.inner.lock();
        inner
            .scopes
            .iter()
            .filter(|s| !s.is_dropped())
            .map(|s| s.name.clone())
            .collect()
    }

    /// All scopes, also the dropped ones.
    pub(crate) fn scopes_ever(&self) -> Vec<Arc<ScopeState>> {
        self.inner.lock().scopes.clone()
    }

    /// Changes a scope's retention for new ids; its form stays.
    pub(crate) fn alter_scope(&self, name: &str, policy: &Policy) -> Result<Arc<ScopeState>> {
        policy.validate(name)?;
        let inner = self.inner.lock();
        let found = inner
            .scopes
            .iter()
            .find(|s| s.name == name && !s.is_dropped());
        let scope =
            Arc::clone(found.ok_or_else(|| Error::invalid(format!("there is no scope {name:?}")))?);
        let mut versions = scope.versions().to_vec();
        let in_force = *versions
            .last()
            .ok_or_else(|| Error::damaged(format!("scope {name:?} has no retention")))?;
        if !scope.has_time_of(policy) {
            return Err(other_time(name));
        }
        if in_force == policy.retention {
            return Ok(scope);
        }
        if scope.own_time.is_some() {
            // The place of a record follows from its id's time and the retention.
            return Err(Error::invalid(format!(
                "scope {name:?}: the retention of ids with their own time can't change; make a \
                 new scope"
            )));
        }
        if !in_force.same_form(&policy.retention) {
            return Err(Error::invalid(format!(
                "scope {name:?}: {} can't become {}; make a new scope",
                describe(&in_force),
                describe(&policy.retention),
            )));
        }
        if versions.len() >= VERSIONS_MAX {
            return Err(Error::new(
                ErrorKind::Full,
                format!("scope {name:?} changed its retention {VERSIONS_MAX} times"),
            ));
        }
        versions.push(policy.retention);
        let classes = scope.classes() | 1 << self.class_of(&policy.retention)?;
        self.put(scope.row(&versions, classes, false))?;
        scope.classes.store(classes, Ordering::Release);
        *scope.versions.write() = versions.into();
        Ok(scope)
    }

    /// Drops a scope: its ids are never asked again, and leave with their generations.
    pub(crate) fn drop_scope(&self, name: &str) -> Result<Option<u16>> {
        let inner = self.inner.lock();
        let found = inner
            .scopes
            .iter()
            .find(|s| s.name == name && !s.is_dropped());
        let Some(scope) = found else { return Ok(None) };
        self.put(scope.row(&scope.versions(), scope.classes(), true))?;
        scope.dropped.store(true, Ordering::Release);
        let dropped = inner
            .scopes
            .iter()
            .filter(|s| s.is_dropped())
            .map(|s| s.number);
        self.index.set_dropped_scopes(dropped.collect());
        Ok(Some(scope.number))
    }

    /// Lets a scope's ids be placed in the class of another retention, its own for one id.
    pub(crate) fn allow_class(&self, scope: &ScopeState, retention_ms: u64) -> Result<Class> {
        if let Some(class) = self.index.classes.existing(retention_ms)
            && scope.classes() & (1 << class.number) != 0
        {
            return Ok(class);
        }
        let _inner = self.inner.lock();
        let class = self.class(retention_ms)?;
        let classes = scope.classes() | 1 << class.number;
        if classes != scope.classes() {
            self.put(scope.row(&scope.versions(), classes, scope.is_dropped()))?;
            scope.classes.store(classes, Ordering::Release);
        }
        Ok(class)
    }

    fn note(&self, scope: &ScopeState, retention: &Retention) {
        let classes = &self.index.classes;
        if let Some(ms) = retention.longest_ms()
            && let Some(class) = match scope.own_time {
                Some(own) => classes.get(own.class),
                None => classes.existing(ms),
            }
        {
            self.index.classes.note(class, ms);
        }
    }

    /// The class number for a retention, made if need be.
    fn class_of(&self, retention: &Retention) -> Result<u8> {
        match retention.longest_ms() {
            None => Ok(FOR_EVER_CLASS),
            Some(ms) => self.class(ms).map(|c| c.number),
        }
    }

    fn class(&self, retention_ms: u64) -> Result<Class> {
        let classes = &self.index.classes;
        let class = match classes.existing(retention_ms) {
            Some(class) => class,
            None => {
                let class = classes.propose(retention_ms)?;
                if classes.get(class.number).is_none() {
                    self.put(index::class_row(&class))?;
                    classes.add(class);
                }
                class
            }
        };
        classes.note(class, retention_ms);
        Ok(class)
    }

    /// Makes a table, or finds the one of that name and kind.
    pub(crate) fn table(&self, name: &str, kind: TableKind) -> Result<Arc<TableState>> {
        check_name(name, "table")?;
        let mut inner = self.inner.lock();
        if let Some((table, _)) = inner.tables.iter().find(|(t, _)| t.name == name) {
            if table.kind == kind {
                return Ok(Arc::clone(table));
            }
            let (is, asked) = (table.kind.name(), kind.name());
            return Err(Error::invalid(format!(
                "table {name:?} is {is}, not {asked}"
            )));
        }
        if inner.tables.len() >= self.caps.tables {
            return Err(Error::new(
                ErrorKind::Full,
                format!("the store may have {} tables", self.caps.tables),
            ));
        }
        let number = inner.next_table;
        let engine = &self.index.engine;
        let family = engine.create(&index::table_family(number, name), Kind::Table, name)?;
        self.put(table_row(number, name, kind, false))?;
        inner.next_table += 1;
        let table = TableState::new(number, name.to_string(), kind, &family)?;
        inner.tables.push((Arc::clone(&table), family));
        Ok(table)
    }

    /// The existing table of a name, or outbox.
    pub(crate) fn existing_table(&self, name: &str) -> Option<Arc<TableState>> {
        let inner = self.inner.lock();
        let found = inner.tables.iter().find(|(t, _)| t.name == name);
        found.map(|(table, _)| Arc::clone(table))
    }

    /// The existing table of a number.
    pub(crate) fn table_of(&self, number: u32) -> Option<Arc<TableState>> {
        let inner = self.inner.lock();
        let found = inner.tables.iter().find(|(t, _)| t.number == number);
        found.map(|(table, _)| Arc::clone(table))
    }

    /// Marks a table as dropped, durably; from now on no call may use it. Returns its rows.
    pub(crate) fn retire_table(&self, name: &str) -> Result<Option<Arc<Family>>> {
        let mut inner = self.inner.lock();
        let Some(at) = inner.tables.iter().position(|(t, _)| t.name == name) else {
            return Ok(None);
        };
        let table = &inner.tables[at].0;
        self.put(table_row(table.number, name, table.kind, true))?;
        table.dropped.store(true, Ordering::Release);
        Ok(Some(inner.tables.remove(at).1))
    }

    /// Drops a retired table's rows. If that fails, the next open does it.
    pub(crate) fn remove_table(&self, rows: &Family) -> Result<()> {
        self.index.engine.drop_family(rows)
    }

    fn put(&self, (key, value): (Vec<u8>, Vec<u8>)) -> Result<()> {
        let mut rows = Rep::default();
        rows.put(self.index.meta.number(), &key, &value);
        self.index.write_rows(&rows)
    }
}

fn describe(retention: &Retention) -> String {
    match retention {
        Retention::Fixed { ms } => format!("ids for {ms} ms"),
        Retention::Sliding { ms, cap_ms } => {
            format!("ids for {ms} ms from their last sight, at most {cap_ms} ms")
        }
        Retention::Forever => "ids for ever".to_string(),
    }
}

fn check_name(name: &str, what: &str) -> Result<()> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains('\0') {
        return Err(Error::invalid(format!(
            "a {what}'s name must have 1 to {NAME_BYTES_MAX} bytes, none of them 0"
        )));
    }
    Ok(())
}
