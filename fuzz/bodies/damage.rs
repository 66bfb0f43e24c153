//! Damage to a store's rows and files, below its face, as bytes say.

use arbitrary::{Result, Unstructured};
use firstseen::Store;
use firstseen::fuzzing::{self, Row, log_ids};
use xxhash_rust::xxh3::xxh3_64;

use super::Known;

/// Does one damage, and notes whose answer it may have changed.
pub(super) fn damage(u: &mut Unstructured<'_>, store: &Store, known: &mut Known) -> Result<()> {
    let kind = u.int_in_range(0..=7_u8)?;
    match kind {
        0..=2 => log(u, store, known, kind)?,
        3 => {
            let floor = fuzzing::file(store, "FLOOR").expect("it can be read");
            let mut floor = edited(u, &floor.expect("every store has one"))?;
            for at in [0, 4096] {
                let slot = floor.get_mut(at..at + 45);
                if let Some(slot) = slot.filter(|_| u.arbitrary().unwrap_or(false)) {
                    sum(slot);
                }
            }
            fuzzing::put_file(store, "FLOOR", Some(&floor)).expect("it can be written");
        }
        4 => {
            let names = fuzzing::snapshots(store).expect("they can be listed");
            let name = u.choose(&names)?;
            let bytes = fuzzing::file(store, name).expect("it can be read");
            let mut bytes = edited(u, &bytes.expect("it was listed"))?;
            if u.arbitrary()? && bytes.len() >= 8 {
                // It says what no store would, and is believed.
                sum(&mut bytes);
                known.any = true;
            }
            fuzzing::put_file(store, name, Some(&bytes)).expect("it can be written");
        }
        5 => rows(u, store, known, &["meta", "points", "audit"])?,
        _ => rows(u, store, known, &["gen1."])?,
    }
    Ok(())
}

/// A log record changed, added or removed.
fn log(u: &mut Unstructured<'_>, store: &Store, known: &mut Known, kind: u8) -> Result<()> {
    let (family, rows) = family(u, store, &["log1."])?;
    let touch = |known: &mut Known, value: &[u8]| {
        known.touched.extend(log_ids(value).unwrap_or_default());
    };
    let (key, value) = if kind == 1 || rows.is_empty() {
        let after = rows.last().map_or(0, |(key, _)| number(key));
        let n = after.wrapping_add(u.int_in_range(0..=2)?);
        let key = if u.ratio(1, 8)? {
            bytes(u)?
        } else {
            n.to_be_bytes().to_vec()
        };
        (key, Some(bytes(u)?))
    } else {
        let (key, old) = u.choose(&rows)?;
        touch(known, old);
        let new = if kind == 0 {
            Some(edited(u, old)?)
        } else {
            None
        };
        (key.to_vec(), new)
    };
    // One that is replaced is named too.
    let replaced = rows.iter().filter(|(k, _)| **k == key[..]);
    replaced.for_each(|(_, old)| touch(known, old));
    touch(known, value.as_deref().unwrap_or_default());
    fuzzing::put(store, &family, &key, value.as_deref()).expect("it can be written");
    Ok(())
}

/// A row of another family changed, added or removed.
fn rows(
    u: &mut Unstructured<'_>,
    store: &Store,
    known: &mut Known,
    prefixes: &[&str],
) -> Result<()> {
    known.any = true;
    let (family, rows) = family(u, store, prefixes)?;
    let (key, value) = match u.choose(&rows) {
        Ok((key, value)) => (key.to_vec(), value.to_vec()),
        Err(_) => (bytes(u)?, Vec::new()),
    };
    let key = if u.ratio(1, 4)? {
        edited(u, &key)?
    } else {
        key
    };
    let value = if u.ratio(1, 8)? {
        None
    } else {
        Some(edited(u, &value)?)
    };
    fuzzing::put(store, &family, &key, value.as_deref()).expect("it can be written");
    Ok(())
}

fn family(
    u: &mut Unstructured<'_>,
    store: &Store,
    prefixes: &[&str],
) -> Result<(String, Vec<Row>)> {
    let mut names = fuzzing::families(store).expect("they can be listed");
    names.retain(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)));
    names.sort();
    let name = u.choose(&names)?;
    let rows = fuzzing::rows(store, name).expect("they can be read");
    Ok((name.clone(), rows))
}

fn number(key: &[u8]) -> u64 {
    key.try_into().map_or(0, u64::from_be_bytes)
}

fn bytes(u: &mut Unstructured<'_>) -> Result<Vec<u8>> {
    let len = u.int_in_range(0..=120)?;
    Ok(u.bytes(len.min(u.len()))?.to_vec())
}

/// Bytes with something else in some place, cut, longer, or other ones.
fn edited(u: &mut Unstructured<'_>, old: &[u8]) -> Result<Vec<u8>> {
    let mut new = old.to_vec();
    let at = u.int_in_range(0..=old.len())?;
    match u.int_in_range(0..=3)? {
        0 => new.truncate(at),
        1 => {
            let other = bytes(u)?;
            let end = (at + other.len()).min(new.len());
            new.splice(at..end, other);
        }
        2 => new.splice(at..at, bytes(u)?).for_each(drop),
        _ => new = bytes(u)?,
    }
    Ok(new)
}

/// Makes the last 8 bytes the checksum of those before.
fn sum(bytes: &mut [u8]) {
    if let Some((body, sum)) = bytes.split_last_chunk_mut::<8>() {
        *sum = xxh3_64(body).to_le_bytes();
    }
}
