//! The top sources of duplicates as a row of the store, so that who only looks sees them too.
//!
//! The live counters are in memory of the process that counts. Every so often, and when it closes,
//! it writes what they say, cut to the first [`ENTRIES_MAX`] of each list, with the time; a look
//! reads that row. So a look is at most [`TOP_EVERY`] behind, and says by how much.
//!
//! ```text
//! meta  "top"   1 (format) | at u64 | window u64 | duplicates u64 | with source u64
//!               | sources | scopes | sources by scope
//!       list    entries u32 | each: name len u16, UTF-8 | count u64 | error u64
//! ```
//! Integers little-endian, times in milliseconds. A name by scope is the scope's, its length u8
//! before it, and the source's.
//!
//! Why not from what ids carry: a duplicate writes nothing, so the store does not know of it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::clock::{millis, since_epoch};
use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::LogBuilder;
use crate::options::Durability;
use crate::stats::{Top, TopEntry, TopSource};
use crate::sync::Mutex;

use super::Committer;

const KEY: &[u8] = b"top";
const FORMAT: u8 = 1;
/// The most entries of a list that are written.
const ENTRIES_MAX: usize = 100;
/// How often it is written, if anything changed.
pub(crate) const TOP_EVERY: Duration = Duration::from_secs(10);

/// What was written last.
#[derive(Default)]
pub(super) struct KeptTop(Mutex<Option<Top>>);

impl Committer {
    /// Writes the top sources, if they are counted and differ from what was written last.
    pub(crate) fn keep_top(&self) -> Result<()> {
        let Some(duplicates) = &self.duplicates else {
            return Ok(());
        };
        let mut top = duplicates.top(self.index.time.now_ms());
        top.sources.truncate(ENTRIES_MAX);
        top.scopes.truncate(ENTRIES_MAX);
        top.sources_by_scope.truncate(ENTRIES_MAX);
        let mut last = self.kept_top.0.lock();
        let was = last.clone().unwrap_or_else(|| Top::none(&top));
        if (Top {
            at: was.at,
            ..top.clone()
        }) == was
        {
            return Ok(());
        }
        let mut rows = Rep::default();
        rows.put(self.index.meta.number(), KEY, &encode(&top));
        let level = Durability::Written;
        self.append(&mut LogBuilder::default(), &mut rows, level)?;
        *last = Some(top);
        Ok(())
    }

    /// The top sources as they were written last, by whoever counts them.
    pub(crate) fn kept_top(&self) -> Result<Option<Top>> {
        let stored = self.index.meta.get(KEY)?;
        stored.map(|bytes| decode(&bytes)).transpose()
    }
}

fn encode(top: &Top) -> Vec<u8> {
    let mut out = vec![FORMAT];
    let numbers = [
        since_epoch(top.at),
        millis(top.window),
        top.duplicates,
        top.with_source,
    ];
    out.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
    for entries in [&top.sources, &top.scopes] {
        out.extend((entries.len() as u32).to_le_bytes());
        for entry in entries {
            put(
                &mut out,
                &[entry.name.as_bytes()],
                (entry.count, entry.error),
            );
        }
    }
    out.extend((top.sources_by_scope.len() as u32).to_le_bytes());
    for entry in &top.sources_by_scope {
        let scope = entry.scope.as_bytes();
        let name = [&[scope.len() as u8], scope, entry.source.as_bytes()];
        put(&mut out, &name, (entry.count, entry.error));
    }
    out
}

fn put(out: &mut Vec<u8>, name: &[&[u8]], (count, error): (u64, u64)) {
    let len: usize = name.iter().map(|part| part.len()).sum();
    out.extend((len as u16).to_le_bytes());
    name.iter().for_each(|part| out.extend_from_slice(part));
    out.extend([count, error].iter().flat_map(|n| n.to_le_bytes()));
}

fn decode(bytes: &[u8]) -> Result<Top> {
    read(bytes).ok_or_else(|| Error::damaged("the kept top sources are of an unknown form"))
}

fn read(bytes: &[u8]) -> Option<Top> {
    let (&FORMAT, mut rest) = bytes.split_first()? else {
        return None;
    };
    let rest = &mut rest;
    let at: SystemTime = UNIX_EPOCH.checked_add(Duration::from_millis(number(rest)?))?;
    let window = Duration::from_millis(number(rest)?);
    let (duplicates, with_source) = (number(rest)?, number(rest)?);
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).ok();
    let entry = |(name, count, error): (&[u8], u64, u64)| {
        let name = text(name)?;
        Some(TopEntry { name, count, error })
    };
    let by_scope = |(name, count, error): (&[u8], u64, u64)| {
        let (&len, rest) = name.split_first()?;
        let (scope, source) = rest.split_at_checked(len.into())?;
        let (scope, source) = (text(scope)?, text(source)?);
        Some(TopSource {
            scope,
            source,
            count,
            error,
        })
    };
    let top = Top {
        at,
        window,
        duplicates,
        with_source,
        sources: list(rest)?.into_iter().map(entry).collect::<Option<_>>()?,
        scopes: list(rest)?.into_iter().map(entry).collect::<Option<_>>()?,
        sources_by_scope: list(rest)?
            .into_iter()
            .map(by_scope)
            .collect::<Option<_>>()?,
    };
    rest.is_empty().then_some(top)
}

fn number(rest: &mut &[u8]) -> Option<u64> {
    let (number, after) = rest.split_first_chunk::<8>()?;
    *rest = after;
    Some(u64::from_le_bytes(*number))
}

/// Names with counts and errors.
fn list<'a>(rest: &mut &'a [u8]) -> Option<Vec<(&'a [u8], u64, u64)>> {
    let (entries, after) = rest.split_first_chunk::<4>()?;
    *rest = after;
    let entries = u32::from_le_bytes(*entries) as usize;
    if entries > ENTRIES_MAX {
        return None;
    }
    let mut all = Vec::with_capacity(entries);
    for _ in 0..entries {
        let (len, after) = rest.split_first_chunk::<2>()?;
        let (name, after) = after.split_at_checked(u16::from_le_bytes(*len).into())?;
        *rest = after;
        let (count, error) = (number(rest)?, number(rest)?);
        // An entry's error is part of its count.
        if error > count {
            return None;
        }
        all.push((name, count, error));
    }
    Some(all)
}

/// The kept top sources, read and written again, for tests.
#[cfg(feature = "testing")]
pub(crate) fn top_again(bytes: &[u8]) -> Option<(String, Vec<u8>)> {
    let top = read(bytes)?;
    Some((format!("{top:?}"), encode(&top)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_top_is_golden_reads_back_and_cuts_are_refused() {
        let entry = |name: &str| TopEntry {
            name: name.to_string(),
            count: 5,
            error: 2,
        };
        let top = Top {
            at: UNIX_EPOCH + Duration::from_millis(7),
            window: Duration::from_millis(600),
            duplicates: 9,
            with_source: 8,
            sources: vec![entry("web")],
            scopes: vec![],
            sources_by_scope: vec![TopSource {
                scope: "s".to_string(),
                source: "web".to_string(),
                count: 5,
                error: 2,
            }],
        };
        let n = |n: u16| [&n.to_le_bytes()[..], &[0; 6]].concat();
        let expected = [
            &[1][..],
            &[n(7), n(600), n(9), n(8)].concat(),
            &[1, 0, 0, 0, 3, 0],
            b"web",
            &[n(5), n(2)].concat(),
            &[0, 0, 0, 0],
            &[1, 0, 0, 0, 5, 0, 1],
            b"sweb",
            &[n(5), n(2)].concat(),
        ]
        .concat();
        assert_eq!(encode(&top), expected);
        assert_eq!(decode(&expected).unwrap(), top);
        for cut in 0..expected.len() {
            assert!(decode(&expected[..cut]).is_err(), "{cut}");
        }
        assert!(decode(&[&expected[..], &[0]].concat()).is_err());
    }
}
