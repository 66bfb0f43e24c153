//! The index's own rows in the `meta` family: format, hash seed, marks, retention classes.
//!
//! ```text
//! format        u32 LE
//! seed          u64 LE                     drawn once; pages and filters depend on it
//! mark          u64 LE                     high-water mark of accepted time, milliseconds
//! marker        u64 LE                     the last commit whose segment is sealed
//! class/<u8>    span u64 | width u64 LE
//! ```
//! Other rows of the family are the catalog's, and the audit's tally.

use std::sync::Arc;

use crate::engine::Family;
use crate::error::{Error, Result};

use super::classes::Class;
use super::record::FOR_EVER_CLASS;

/// The on-disk format this release writes and reads.
pub(crate) const FORMAT: u32 = 1;

pub(crate) const FORMAT_KEY: &[u8] = b"format";
pub(crate) const SEED_KEY: &[u8] = b"seed";
pub(crate) const MARK_KEY: &[u8] = b"mark";
pub(crate) const MARKER_KEY: &[u8] = b"marker";
/// Far more slices than a class is ever cut in.
const SLICES_MAX: u64 = 1 << 20;
const CLASS_PREFIX: &[u8] = b"class/";

/// The row of a class.
pub(crate) fn class_row(class: &Class) -> (Vec<u8>, Vec<u8>) {
    let key = [CLASS_PREFIX, &[class.number]].concat();
    let value = [class.span_ms.to_le_bytes(), class.width_ms.to_le_bytes()].concat();
    (key, value)
}

/// All stored classes.
pub(crate) fn classes(meta: &Arc<Family>) -> Result<Vec<Class>> {
    let mut all = Vec::new();
    for row in meta.rows(CLASS_PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(CLASS_PREFIX) else {
            break;
        };
        let read = match number {
            [number] => class(*number, &value),
            _ => None,
        };
        let class =
            read.ok_or_else(|| Error::damaged("a stored retention class is of an unknown form"))?;
        if usize::from(class.number) != all.len() {
            return Err(Error::damaged(format!("class {} is missing", all.len())));
        }
        all.push(class);
    }
    Ok(all)
}

/// The class of a row.
pub(super) fn class(number: u8, value: &[u8]) -> Option<Class> {
    let (span, width) = value.split_first_chunk::<8>()?;
    let (span_ms, width_ms) = (
        u64::from_le_bytes(*span),
        u64::from_le_bytes(width.try_into().ok()?),
    );
    let is_cut = width_ms > 0 && width_ms <= span_ms && span_ms / width_ms <= SLICES_MAX;
    (number < FOR_EVER_CLASS && is_cut).then_some(Class {
        number,
        span_ms,
        width_ms,
    })
}

/// A stored number; `None` if the row is absent.
pub(crate) fn number(meta: &Family, key: &[u8]) -> Result<Option<u64>> {
    let Some(value) = meta.get(key)? else {
        return Ok(None);
    };
    let value: [u8; 8] = value.as_ref().try_into().map_err(|_| {
        Error::damaged(format!(
            "the stored {} is not 8 bytes",
            String::from_utf8_lossy(key)
        ))
    })?;
    Ok(Some(u64::from_le_bytes(value)))
}

/// The stored format; `None` for a new store.
///
/// # Errors
/// `Damaged` if it is not one this release reads.
pub(crate) fn format(meta: &Family) -> Result<Option<u32>> {
    let Some(value) = meta.get(FORMAT_KEY)? else {
        return Ok(None);
    };
    match value.as_ref().try_into().map(u32::from_le_bytes) {
        Ok(FORMAT) => Ok(Some(FORMAT)),
        Ok(other) => Err(Error::damaged(format!(
            "the store is of format {other}; this release reads format {FORMAT}"
        ))),
        Err(_) => Err(Error::damaged("the stored format is not 4 bytes")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_row_is_golden() {
        let (key, value) = class_row(&Class {
            number: 3,
            span_ms: 0x0102,
            width_ms: 4,
        });
        assert_eq!(key, b"class/\x03");
        assert_eq!(value, [2, 1, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0]);
        assert!(class(3, &value).is_some());
    }

    #[test]
    fn a_class_that_cannot_be_is_none() {
        let row = |span: u64, width: u64| [span.to_le_bytes(), width.to_le_bytes()].concat();
        assert!(class(0, &row(1024, 128)).is_some());
        assert!(class(FOR_EVER_CLASS, &row(1024, 128)).is_none());
        for (span, width) in [(0, 0), (1024, 0), (128, 1024), (u64::MAX, 1)] {
            assert!(class(0, &row(span, width)).is_none(), "{span} {width}");
        }
        assert!(class(0, &row(1024, 128)[1..]).is_none());
    }
}
