//! The rows of the catalog.
//!
//! They are in the `meta` family, each written with sync before it is used:
//! ```text
//! scope/<u16 BE>   flags u8 (1: dropped, 2: own time, 4: payload key) | classes u32
//!                  | versions u8 | version*
//!                  | own time, 19 bytes, if flagged | payload key u64, if flagged | name
//! version          form u8 (0 fixed, 1 sliding, 2 for ever) | ms u64 | cap u64
//! table/<u32 BE>   flags u8 (1: dropped, 2: guarded, 4: outbox) | name
//! ```

use std::sync::Arc;

use crate::engine::Family;
use crate::error::{Error, Result};
use crate::id_time::OwnTime;
use crate::meter::Tally;
use crate::mode::Switches;
use crate::policy::{DURATION_MS_MAX, Retention};
use crate::sync::RwLock;
use crate::sync::atomic::{AtomicBool, AtomicU32};

use super::ScopeState;

const SCOPE_PREFIX: &[u8] = b"scope/";
const TABLE_PREFIX: &[u8] = b"table/";
const DROPPED: u8 = 1;
const OWN_TIME: u8 = 2;
const PAYLOAD_KEY: u8 = 4;
const GUARDED: u8 = 2;
const OUTBOX: u8 = 4;

/// What a table is for, and so how it may be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TableKind {
    /// Puts and deletes by the caller.
    Plain,
    /// The same and conditions, under row locks.
    Guarded,
    /// Messages to another system, keyed by their commits.
    Outbox,
}

impl TableKind {
    pub(super) fn name(self) -> &'static str {
        match self {
            TableKind::Plain => "plain",
            TableKind::Guarded => "guarded",
            TableKind::Outbox => "an outbox",
        }
    }

    fn flags(self) -> u8 {
        match self {
            TableKind::Plain => 0,
            TableKind::Guarded => GUARDED,
            TableKind::Outbox => OUTBOX,
        }
    }

    fn from_flags(flags: u8) -> Option<TableKind> {
        let kinds = [TableKind::Plain, TableKind::Guarded, TableKind::Outbox];
        kinds.into_iter().find(|kind| kind.flags() == flags)
    }
}

impl ScopeState {
    pub(super) fn row(
        &self,
        versions: &[Retention],
        classes: u32,
        dropped: bool,
    ) -> (Vec<u8>, Vec<u8>) {
        let key = [SCOPE_PREFIX, &self.number.to_be_bytes()].concat();
        let own_time = self.own_time.map_or(0, |_| OWN_TIME);
        let key_flag = self.payload_key.map_or(0, |_| PAYLOAD_KEY);
        let mut value = vec![own_time | key_flag | if dropped { DROPPED } else { 0 }];
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
        if let Some(own) = &self.own_time {
            value.extend_from_slice(&own.encode());
        }
        if let Some(payload_key) = self.payload_key {
            value.extend_from_slice(&payload_key.to_le_bytes());
        }
        value.extend_from_slice(self.name.as_bytes());
        (key, value)
    }

    fn decode(number: u16, value: &[u8]) -> Option<ScopeState> {
        let (&flags, rest) = value.split_first()?;
        let (classes, rest) = rest.split_first_chunk::<4>()?;
        let (&count, mut rest) = rest.split_first()?;
        if flags & !(DROPPED | OWN_TIME | PAYLOAD_KEY) != 0 || count == 0 {
            return None;
        }
        let mut versions = Vec::with_capacity(count.into());
        for _ in 0..count {
            let (&form, r) = rest.split_first()?;
            let (ms, r) = r.split_first_chunk::<8>()?;
            let (cap, r) = r.split_first_chunk::<8>()?;
            let (ms, cap_ms) = (u64::from_le_bytes(*ms), u64::from_le_bytes(*cap));
            let is_possible = |ms: u64| (1..=DURATION_MS_MAX).contains(&ms);
            versions.push(match (form, ms, cap_ms) {
                (0, ms, 0) if is_possible(ms) => Retention::Fixed { ms },
                (1, ms, cap_ms) if is_possible(ms) && is_possible(cap_ms) => {
                    Retention::Sliding { ms, cap_ms }
                }
                (2, 0, 0) => Retention::Forever,
                _ => return None,
            });
            rest = r;
        }
        let mut own_time = None;
        if flags & OWN_TIME != 0 {
            let (own, r) = OwnTime::decode(rest)?;
            // Its one retention never changes.
            if count != 1 || !versions.iter().all(Retention::is_fixed) {
                return None;
            }
            own_time = Some(own);
            rest = r;
        }
        let mut payload_key = None;
        if flags & PAYLOAD_KEY != 0 {
            let (key, r) = rest.split_first_chunk::<8>()?;
            payload_key = Some(u64::from_le_bytes(*key));
            rest = r;
        }
        Some(ScopeState {
            number,
            name: String::from_utf8(rest.to_vec()).ok()?,
            versions: RwLock::new(versions.into()),
            classes: AtomicU32::new(u32::from_le_bytes(*classes)),
            own_time,
            payload_key,
            dropped: AtomicBool::new(flags & DROPPED != 0),
            claimed: AtomicBool::new(false),
            tally: Tally::default(),
            switches: Switches::default(),
        })
    }
}

pub(super) fn table_row(
    number: u32,
    name: &str,
    kind: TableKind,
    dropped: bool,
) -> (Vec<u8>, Vec<u8>) {
    let key = [TABLE_PREFIX, &number.to_be_bytes()].concat();
    let flags = kind.flags() | if dropped { DROPPED } else { 0 };
    (key, [&[flags], name.as_bytes()].concat())
}

/// All scopes, by number.
pub(super) fn read_scopes(meta: &Arc<Family>) -> Result<Vec<Arc<ScopeState>>> {
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

/// A table's number, its name, its kind, whether it was dropped.
type TableRow = (u32, String, TableKind, bool);

/// All tables.
pub(super) fn read_tables(meta: &Arc<Family>) -> Result<Vec<TableRow>> {
    let mut tables = Vec::new();
    for row in meta.rows(TABLE_PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(TABLE_PREFIX) else {
            break;
        };
        let wrong = || Error::damaged("a stored table is of an unknown form");
        tables.push(decode_table(number, &value).ok_or_else(wrong)?);
    }
    Ok(tables)
}

fn decode_table(number: &[u8], value: &[u8]) -> Option<TableRow> {
    let number = u32::from_be_bytes(number.try_into().ok()?);
    let (&flags, name) = value.split_first()?;
    let kind = TableKind::from_flags(flags & !DROPPED)?;
    // There is always a next table.
    if number == u32::MAX {
        return None;
    }
    let name = String::from_utf8(name.to_vec()).ok()?;
    Some((number, name, kind, flags & DROPPED != 0))
}

/// Number and row of a scope, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn scope_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (number, value) = bytes.split_first_chunk::<2>()?;
    let scope = ScopeState::decode(u16::from_be_bytes(*number), value)?;
    let versions = scope.versions();
    let own = (scope.own_time, scope.payload_key);
    let shown = format!(
        "{:?} {versions:?} {:?} {own:?}",
        scope.name,
        scope.classes()
    );
    let (key, value) = scope.row(&versions, scope.classes(), scope.is_dropped());
    let number = key.strip_prefix(SCOPE_PREFIX)?;
    Some((shown, [number, &value].concat()))
}

/// Number and row of a table, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn table_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let (number, value) = bytes.split_first_chunk::<4>()?;
    let table = decode_table(number, value)?;
    let (key, value) = table_row(table.0, &table.1, table.2, table.3);
    let number = key.strip_prefix(TABLE_PREFIX)?;
    Some((format!("{table:?}"), [number, &value].concat()))
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
            own_time: None,
            payload_key: None,
            dropped: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            tally: Tally::default(),
            switches: Switches::default(),
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
        let mut none = value.clone();
        none[5] = 0;
        assert!(
            ScopeState::decode(1, &none).is_none(),
            "no retention at all"
        );
        let mut long = value.clone();
        long[14] = 0xff;
        assert!(
            ScopeState::decode(1, &long).is_none(),
            "longer than any policy"
        );
        let mut keyed = value.clone();
        keyed[0] |= 4;
        keyed.splice(value.len() - 1..value.len() - 1, number(9));
        let read = ScopeState::decode(0x0102, &keyed).unwrap();
        assert_eq!((read.name.as_str(), read.payload_key), ("s", Some(9)));
        assert_eq!(read.row(&versions, 0x8000_0001, true).1, keyed);
        let mut flags = value.clone();
        flags[0] = 8;
        assert!(ScopeState::decode(1, &flags).is_none(), "unknown flags");
        assert!(
            decode_table(&[0xff; 4], b"\x02t").is_none(),
            "no next table"
        );
        assert!(decode_table(&[0; 4], b"\x08t").is_none(), "unknown flags");
        assert!(decode_table(&[0; 4], b"\x06t").is_none(), "of two kinds");
        let kinds = [TableKind::Plain, TableKind::Guarded, TableKind::Outbox];
        for (kind, flags) in kinds.into_iter().zip([0, 2, 4]) {
            let (key, value) = table_row(1, "t", kind, true);
            assert_eq!(key, b"table/\0\0\0\x01");
            assert_eq!(value, [flags | 1, b't']);
            let back = decode_table(&[0, 0, 0, 1], &value).unwrap();
            assert_eq!(back, (1, "t".to_string(), kind, true));
        }
    }

    #[test]
    fn a_row_of_ids_with_their_own_time_is_golden_and_reads_back() {
        let own = OwnTime {
            form: crate::id_time::IdTime::Ulid,
            ahead_ms: 9,
            class: 2,
        };
        let scope = ScopeState {
            number: 1,
            name: "s".to_string(),
            versions: RwLock::new([Retention::Fixed { ms: 5 }].into()),
            classes: AtomicU32::new(4),
            own_time: Some(own),
            payload_key: None,
            dropped: AtomicBool::new(false),
            claimed: AtomicBool::new(false),
            tally: Tally::default(),
            switches: Switches::default(),
        };
        let (_, value) = scope.row(&scope.versions(), 4, false);
        let mut expected = vec![2, 4, 0, 0, 0, 1, 0, 5];
        expected.resize(23, 0);
        expected.extend(own.encode());
        expected.push(b's');
        assert_eq!(value, expected);
        let back = ScopeState::decode(1, &value).unwrap();
        assert_eq!((back.name.as_str(), back.own_time), ("s", Some(own)));
        let mut sliding = value.clone();
        (sliding[6], sliding[15]) = (1, 5);
        assert!(ScopeState::decode(1, &sliding).is_none(), "only fixed ones");
    }
}
