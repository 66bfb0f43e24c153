//! Which scopes and tables a store has, and under which rules their ids were written.
//!
//! Rows in the `meta` family, each written with sync before it is used:
//! ```text
//! scope/<u16 BE>   flags u8 (1: dropped) | classes u32 | versions u8 | version* | name
//! version          form u8 (0 fixed, 1 sliding, 2 for ever) | ms u64 | cap u64
//! table/<u32 BE>   flags u8 (1: dropped, 2: guarded) | name
//! ```
//! - K1: numbers are never used again, not even after a drop: ids of a dropped scope that still
//!   lie in a generation can't come back under another name.
//! - K2: a scope's class bit is durable before the first id is placed in that class, so that
//!   only the classes it ever used need be asked.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};

use crate::engine::{Family, Kind, Rep};
use crate::error::{Error, ErrorKind, Result};
use crate::index::{self, Class, FOR_EVER_CLASS, Index};
use crate::policy::{Policy, Retention};

const SCOPE_PREFIX: &[u8] = b"scope/";
const TABLE_PREFIX: &[u8] = b"table/";
const DROPPED: u8 = 1;
const GUARDED: u8 = 2;
/// Policy versions a scope may have: its retention may change so often, less one.
const VERSIONS_MAX: usize = 255;
/// The longest name of a scope or table, in bytes.
const NAME_BYTES_MAX: usize = 255;

/// A scope as all its handles share it.
pub(crate) struct ScopeState {
    pub(crate) number: u16,
    pub(crate) name: String,
    versions: RwLock<Arc<[Retention]>>,
    classes: AtomicU32,
    dropped: AtomicBool,
}

impl ScopeState {
    /// The retentions it ever had; the last one is in force.
    pub(crate) fn versions(&self) -> Arc<[Retention]> {
        Arc::clone(&self.versions.read())
    }

    /// The retention classes its ids may be in, one bit each.
    pub(crate) fn classes(&self) -> u32 {
        self.classes.load(Ordering::Acquire)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    fn row(&self, versions: &[Retention], classes: u32, dropped: bool) -> (Vec<u8>, Vec<u8>) {
        let key = [SCOPE_PREFIX, &self.number.to_be_bytes()].concat();
        let mut value = vec![if dropped { DROPPED } else { 0 }];
        value.extend_from_slice(&classes.to_le_bytes());
        value.push(u8::try_from(versions.len()).unwrap_or(u8::MAX));
        for version in versions {
            let (form, ms, cap_ms) = match *version {
                Retention::Fixed { ms } => (0, ms, 0),
                Retention::Sliding { ms, cap_ms } => (1, ms, cap_ms),
                Retention::Forever => (2, 0, 0),
            };
            value.push(form);
            value.extend_from_slice(&u64::to_le_bytes(ms));
            value.extend_from_slice(&u64::to_le_bytes(cap_ms));
        }
        value.extend_from_slice(self.name.as_bytes());
        (key, value)
    }

    fn decode(number: u16, value: &[u8]) -> Option<ScopeState> {
        let (&flags, rest) = value.split_first()?;
        let (classes, rest) = rest.split_first_chunk::<4>()?;
        let (&count, mut rest) = rest.split_first()?;
        let mut versions = Vec::with_capacity(count.into());
        for _ in 0..count {
            let (&form, r) = rest.split_first()?;
            let (ms, r) = r.split_first_chunk::<8>()?;
            let (cap, r) = r.split_first_chunk::<8>()?;
            let (ms, cap_ms) = (u64::from_le_bytes(*ms), u64::from_le_bytes(*cap));
            versions.push(match form {
                0 => Retention::Fixed { ms },
                1 => Retention::Sliding { ms, cap_ms },
                2 => Retention::Forever,
                _ => return None,
            });
            rest = r;
        }
        Some(ScopeState {
            number,
            name: String::from_utf8(rest.to_vec()).ok()?,
            versions: RwLock::new(versions.into()),
            classes: AtomicU32::new(u32::from_le_bytes(*classes)),
            dropped: AtomicBool::new(flags & DROPPED != 0),
        })
    }
}

/// A table as all its handles share it.
pub(crate) struct TableState {
    pub(crate) number: u32,
    pub(crate) name: String,
    pub(crate) guarded: bool,
    /// The number that write batches name its family by.
    pub(crate) family_number: u32,
    /// The catalog keeps it alive: a handle that outlives the store must not keep it open.
    family: Weak<Family>,
    dropped: AtomicBool,
}

impl TableState {
    fn new(number: u32, name: String, guarded: bool, family: &Arc<Family>) -> Arc<TableState> {
        Arc::new(TableState {
            number,
            name,
            guarded,
            family_number: family.number(),
            family: Arc::downgrade(family),
            dropped: AtomicBool::new(false),
        })
    }

    /// Where its rows are.
    ///
    /// # Errors
    /// `Invalid` if it was dropped, `Closed`.
    pub(crate) fn family(&self) -> Result<Arc<Family>> {
        if self.is_dropped() {
            return Err(Error::invalid(format!("table {:?} was dropped", self.name)));
        }
        self.family.upgrade().ok_or_else(Error::closed)
    }

    pub(crate) fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }
}

fn table_row(number: u32, name: &str, guarded: bool, dropped: bool) -> (Vec<u8>, Vec<u8>) {
    let key = [TABLE_PREFIX, &number.to_be_bytes()].concat();
    let flags = if guarded { GUARDED } else { 0 } | if dropped { DROPPED } else { 0 };
    (key, [&[flags], name.as_bytes()].concat())
}

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
}

impl Catalog {
    /// Reads the catalog; drops the families of tables whose drop or creation was cut short.
    pub(crate) fn load(
        index: Arc<Index>,
        families: Vec<(u32, Arc<Family>)>,
        caps: Caps,
    ) -> Result<Catalog> {
        let scopes = read_scopes(&index.meta)?;
        let dropped: Vec<u16> = scopes
            .iter()
            .filter(|s| s.is_dropped())
            .map(|s| s.number)
            .collect();
        index.set_dropped_scopes(dropped);
        let mut tables = Vec::new();
        let mut next_table = 0;
        for (number, name, guarded, dropped) in read_tables(&index.meta)? {
            next_table = next_table.max(number + 1);
            let family = families.iter().find(|f| f.0 == number);
            match (family, dropped) {
                (Some((_, family)), false) => {
                    let table = TableState::new(number, name, guarded, family);
                    tables.push((table, Arc::clone(family)));
                }
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
            if tables.iter().all(|(t, _)| t.number != *number) {
                let _ = index.engine.drop_family(family);
            }
        }
        let inner = Mutex::new(Inner {
            scopes,
            tables,
            next_table,
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
            if in_force == Some(policy.retention) {
                self.note(&policy.retention);
                return Ok(Arc::clone(scope));
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
        let scope = ScopeState {
            number: u16::try_from(inner.scopes.len()).unwrap_or(u16::MAX),
            name: name.to_string(),
            versions: RwLock::new([policy.retention].into()),
            classes: AtomicU32::new(0),
            dropped: AtomicBool::new(false),
        };
        let classes = 1 << self.class_of(&policy.retention)?;
        self.put(scope.row(&[policy.retention], classes, false))?;
        scope.classes.store(classes, Ordering::Release);
        let scope = Arc::new(scope);
        inner.scopes.push(Arc::clone(&scope));
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

    pub(crate) fn scope_names(&self) -> Vec<String> {
        let inner = self.inner.lock();
        inner
            .scopes
            .iter()
            .filter(|s| !s.is_dropped())
            .map(|s| s.name.clone())
            .collect()
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
        if in_force == policy.retention {
            return Ok(scope);
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
    pub(crate) fn drop_scope(&self, name: &str) -> Result<bool> {
        let inner = self.inner.lock();
        let found = inner
            .scopes
            .iter()
            .find(|s| s.name == name && !s.is_dropped());
        let Some(scope) = found else { return Ok(false) };
        self.put(scope.row(&scope.versions(), scope.classes(), true))?;
        scope.dropped.store(true, Ordering::Release);
        let dropped = inner
            .scopes
            .iter()
            .filter(|s| s.is_dropped())
            .map(|s| s.number);
        self.index.set_dropped_scopes(dropped.collect());
        Ok(true)
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

    fn note(&self, retention: &Retention) {
        if let Some(ms) = retention.longest_ms()
            && let Some(class) = self.index.classes.existing(ms)
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
    pub(crate) fn table(&self, name: &str, guarded: bool) -> Result<Arc<TableState>> {
        check_name(name, "table")?;
        let mut inner = self.inner.lock();
        if let Some((table, _)) = inner.tables.iter().find(|(t, _)| t.name == name) {
            if table.guarded == guarded {
                return Ok(Arc::clone(table));
            }
            let (is, asked) = if guarded {
                ("plain", "guarded")
            } else {
                ("guarded", "plain")
            };
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
        self.put(table_row(number, name, guarded, false))?;
        inner.next_table += 1;
        let table = TableState::new(number, name.to_string(), guarded, &family);
        inner.tables.push((Arc::clone(&table), family));
        Ok(table)
    }

    /// Marks a table as dropped, durably; from now on no call may use it. Returns its rows.
    pub(crate) fn retire_table(&self, name: &str) -> Result<Option<Arc<Family>>> {
        let mut inner = self.inner.lock();
        let Some(at) = inner.tables.iter().position(|(t, _)| t.name == name) else {
            return Ok(None);
        };
        let table = &inner.tables[at].0;
        self.put(table_row(table.number, name, table.guarded, true))?;
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

fn read_scopes(meta: &Arc<Family>) -> Result<Vec<Arc<ScopeState>>> {
    let mut scopes = Vec::new();
    for row in meta.rows(SCOPE_PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(SCOPE_PREFIX) else {
            break;
        };
        let wrong = || Error::damaged("a stored scope is of an unknown form");
        let number = u16::from_be_bytes(number.try_into().map_err(|_| wrong())?);
        if usize::from(number) != scopes.len() {
            return Err(Error::damaged(format!("scope {} is missing", scopes.len())));
        }
        scopes.push(Arc::new(
            ScopeState::decode(number, &value).ok_or_else(wrong)?,
        ));
    }
    Ok(scopes)
}

fn read_tables(meta: &Arc<Family>) -> Result<Vec<(u32, String, bool, bool)>> {
    let mut tables = Vec::new();
    for row in meta.rows(TABLE_PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(TABLE_PREFIX) else {
            break;
        };
        let wrong = || Error::damaged("a stored table is of an unknown form");
        let number = u32::from_be_bytes(number.try_into().map_err(|_| wrong())?);
        let (&flags, name) = value.split_first().ok_or_else(wrong)?;
        let name = String::from_utf8(name.to_vec()).map_err(|_| wrong())?;
        tables.push((number, name, flags & GUARDED != 0, flags & DROPPED != 0));
    }
    Ok(tables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_golden_and_read_back() {
        let scope = ScopeState {
            number: 0x0102,
            name: "s".to_string(),
            versions: RwLock::new([Retention::Fixed { ms: 5 }].into()),
            classes: AtomicU32::new(0),
            dropped: AtomicBool::new(false),
        };
        let versions = [
            Retention::Fixed { ms: 5 },
            Retention::Sliding { ms: 6, cap_ms: 7 },
            Retention::Forever,
        ];
        let (key, value) = scope.row(&versions, 0x8000_0001, true);
        assert_eq!(key, b"scope/\x01\x02");
        let number = |n: u8| [n, 0, 0, 0, 0, 0, 0, 0];
        let mut expected = vec![1, 1, 0, 0, 0x80, 3];
        for (form, ms, cap) in [(0, 5, 0), (1, 6, 7), (2, 0, 0)] {
            expected.push(form);
            expected.extend(number(ms));
            expected.extend(number(cap));
        }
        expected.push(b's');
        assert_eq!(value, expected);
        let back = ScopeState::decode(0x0102, &value).unwrap();
        assert_eq!((back.name.as_str(), back.classes()), ("s", 0x8000_0001));
        assert_eq!(back.versions()[..], versions);
        assert!(back.is_dropped());
        for cut in 0..value.len() - 1 {
            assert!(ScopeState::decode(1, &value[..cut]).is_none(), "{cut}");
        }
        assert_eq!(
            table_row(1, "t", true, false),
            (b"table/\0\0\0\x01".to_vec(), b"\x02t".to_vec())
        );
    }
}
