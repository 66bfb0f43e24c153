//! One family: reads, and its rows in order.

use std::sync::Arc;

use super::disk::{Shared, with_content};
use crate::error::Result;
use crate::sync::point;

/// A value that was read.
pub(crate) struct Found(Vec<u8>);

impl std::ops::Deref for Found {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Found {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// One family.
pub(crate) struct Family {
    pub(super) content: Shared,
    name: String,
    number: u32,
    _open: Arc<()>,
}

/// What becomes of a read's blocks in the cache; there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocks {
    Keep,
    Pass,
}

impl Family {
    pub(super) fn new(content: Shared, name: &str, number: u32, open: &Arc<()>) -> Arc<Family> {
        Arc::new(Family {
            content,
            name: name.to_string(),
            number,
            _open: Arc::clone(open),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<Found>> {
        point();
        Ok(with_content(&self.content, |c| c.get(key)).map(Found))
    }

    pub(crate) fn get_with(&self, key: &[u8], _: Blocks) -> Result<Option<Found>> {
        self.get(key)
    }

    pub(crate) fn get_sorted<'a, K: AsRef<[u8]> + 'a + ?Sized>(
        &self,
        keys: impl IntoIterator<Item = &'a K>,
        _: Blocks,
    ) -> Result<Vec<Option<Found>>> {
        keys.into_iter().map(|key| self.get(key.as_ref())).collect()
    }

    pub(crate) fn rows(self: &Arc<Self>, from: &[u8]) -> Rows {
        point();
        let all = with_content(&self.content, |c| c.all().into_iter().collect());
        let mut rows = Rows { all, at: 0 };
        rows.seek(from);
        rows
    }

    pub(crate) fn rows_once(self: &Arc<Self>, from: &[u8]) -> Rows {
        self.rows(from)
    }

    pub(crate) fn last_before(&self, key: &[u8]) -> Result<Option<Box<[u8]>>> {
        point();
        let below = with_content(&self.content, |c| {
            let mut keys = c.all().into_keys();
            keys.rfind(|k| &k[..] < key)
        });
        Ok(below.map(|k| k[..].into()))
    }

    pub(crate) fn disk_bytes(&self) -> Result<u64> {
        Ok(0)
    }
}

type Row = (Box<[u8]>, Box<[u8]>);

/// Rows of a family, ascending, as they were when the iteration began.
pub(crate) struct Rows {
    all: Vec<(Vec<u8>, Vec<u8>)>,
    at: usize,
}

impl Rows {
    pub(crate) fn here(&self) -> Option<(&[u8], &[u8])> {
        self.all
            .get(self.at)
            .map(|(key, value)| (&key[..], &value[..]))
    }

    pub(crate) fn seek(&mut self, key: &[u8]) {
        self.at = self.all.partition_point(|(k, _)| &k[..] < key);
    }

    pub(crate) fn step(&mut self) {
        self.at += 1;
    }

    pub(crate) fn status(&self) -> Result<()> {
        Ok(())
    }
}

impl Iterator for Rows {
    type Item = Result<Row>;

    fn next(&mut self) -> Option<Result<Row>> {
        let row = self.here().map(|(key, value)| (key.into(), value.into()))?;
        self.step();
        Some(Ok(row))
    }
}
