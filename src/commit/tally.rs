//! The audit's tally: how many rows it has, how many went, and so its bound.
//!
//! - A1: the tally is written in the commit that writes the rows it counts, so it is exact, also
//!   after a crash.
//! - A2: the audit never has more than `audit_rows_max` rows: what a commit adds beyond that
//!   takes the oldest out, in the same commit. A few go at once, so that not every commit pays.
//! - A4: rows older than `audit_age_max` go too, with the next audited act or within an hour. As
//!   whatever removes a row, that goes by the persisted mark of time.
//! - A3: serials only rise, so no row takes another's key, however many share a millisecond.
//!
//! Concurrency: who writes audit rows holds the tally ([`Entries`]) until its commit is written.
//! It holds ids or rows already, and waits for nobody but the leader, who needs no tally.
//!
//! Failure: what was not written leaves the stored tally as it was, and the next one reads that.

use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::LogBuilder;
use crate::options::Durability;
use crate::sync::MutexGuard;
use crate::why::{Grounds, Why};

use super::Committer;
use super::audit::{Audit, Event};

/// The tally's key in the family `meta`.
const KEY: &[u8] = b"audit";
/// The most rows that go beyond what must.
const SPARE_MAX: u64 = 1000;
/// The most rows that go for their age in one commit.
const AGED_MAX: u64 = 1000;
/// The most audit rows a commit may add: what is the least the audit may hold.
pub(crate) const AUDIT_ROWS_A_COMMIT: usize = 1000;

/// What bounds the audit, and who writes into it unless told otherwise.
#[derive(Clone, Debug)]
pub(crate) struct AuditRules {
    pub(crate) rows_max: u64,
    pub(crate) age_max_ms: u64,
    pub(crate) actor: Option<String>,
}

/// How much the audit holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) rows: u64,
    /// Rows that went for others.
    pub(crate) gone: u64,
    /// The time of the latest of them.
    pub(crate) gone_ms: u64,
    /// The serial that no row has yet.
    next: u64,
}

impl Tally {
    /// Four u64 LE: rows, gone, time of the latest gone, next serial.
    fn encode(&self) -> Vec<u8> {
        let numbers = [self.rows, self.gone, self.gone_ms, self.next];
        numbers.iter().flat_map(|n| n.to_le_bytes()).collect()
    }

    fn decode(bytes: &[u8]) -> Result<Tally> {
        let (numbers, rest) = bytes.as_chunks::<8>();
        match (numbers, rest) {
            ([rows, gone, gone_ms, next], []) => Ok(Tally {
                rows: u64::from_le_bytes(*rows),
                gone: u64::from_le_bytes(*gone),
                gone_ms: u64::from_le_bytes(*gone_ms),
                next: u64::from_le_bytes(*next),
            }),
            _ => Err(Error::damaged("the audit's tally is of an unknown form")),
        }
    }
}

/// Audit rows being written. Kept until their commit is.
#[must_use = "the tally must be held until the commit is written"]
pub(super) struct Entries<'a> {
    committer: &'a Committer,
    tally: Tally,
    now_ms: u64,
    _turn: MutexGuard<'a, ()>,
}

impl Committer {
    /// The tally as it is stored; counted if it never was.
    pub(crate) fn audit_tally(&self) -> Result<Tally> {
        if let Some(stored) = self.index.meta.get(KEY)? {
            return Tally::decode(&stored);
        }
        let mut rows = 0;
        for row in self.index.audit.rows_once(&[]) {
            row?;
            rows += 1;
        }
        Ok(Tally {
            rows,
            // Each row came with a commit of its own then.
            next: self.audits_from,
            ..Tally::default()
        })
    }

    /// Opens the tally to write audit rows.
    pub(super) fn audit_entries(&self) -> Result<Entries<'_>> {
        let turn = self.auditing.lock();
        Ok(Entries {
            committer: self,
            tally: self.audit_tally()?,
            now_ms: self.index.time.now_ms(),
            _turn: turn,
        })
    }

    /// Adds one audit row to a commit. The tally is held until what is returned goes.
    pub(super) fn put_audit(
        &self,
        rows: &mut Rep,
        audit: &Audit<'_>,
        why: &Why<'_>,
    ) -> Result<Entries<'_>> {
        let mut entries = self.audit_entries()?;
        entries.put(rows, audit, why);
        entries.close(rows)?;
        Ok(entries)
    }
}

impl Committer {
    /// Removes audit rows that are too old.
    pub(crate) fn expire_audit(&self) -> Result<()> {
        loop {
            let mut rows = Rep::default();
            let mut entries = self.audit_entries()?;
            if entries.tally.rows == 0 || !entries.trim(&mut rows)? {
                return Ok(());
            }
            entries.count(&mut rows);
            let level = Durability::Written;
            self.append(&mut LogBuilder::default(), &mut rows, level)?;
        }
    }

    /// Adds what a settled batch has for the audit, if anything.
    pub(super) fn put_audits(
        &self,
        rows: &mut Rep,
        audits: &[(Event, Grounds)],
    ) -> Result<Option<Entries<'_>>> {
        if audits.is_empty() {
            return Ok(None);
        }
        let mut entries = self.audit_entries()?;
        for (event, why) in audits {
            entries.put(rows, &event.as_audit(), &why.why());
        }
        entries.close(rows)?;
        Ok(Some(entries))
    }
}

impl Entries<'_> {
    /// Adds a row.
    pub(super) fn put(&mut self, rows: &mut Rep, audit: &Audit<'_>, why: &Why<'_>) {
        let who = why.who.or(self.committer.audit_rules.actor.as_deref());
        let why = Why { who, ..*why };
        let (key, value) = audit.row(self.now_ms, self.tally.next, &why);
        rows.put(self.committer.index.audit.number(), &key, &value);
        self.tally.next += 1;
        self.tally.rows += 1;
    }

    /// Takes out the oldest rows if there are too many, and writes the tally.
    pub(super) fn close(&mut self, rows: &mut Rep) -> Result<()> {
        self.trim(rows)?;
        self.count(rows);
        Ok(())
    }

    /// Writes the tally.
    fn count(&self, rows: &mut Rep) {
        let meta = self.committer.index.meta.number();
        rows.put(meta, KEY, &self.tally.encode());
    }

    /// Takes out rows that are too many or too old; whether there were any.
    fn trim(&mut self, rows: &mut Rep) -> Result<bool> {
        let index = &self.committer.index;
        let AuditRules {
            rows_max,
            age_max_ms,
            ..
        } = self.committer.audit_rules;
        let go = match self.tally.rows.checked_sub(rows_max) {
            None | Some(0) => 0,
            Some(over) => over + (rows_max / 16).min(SPARE_MAX),
        };
        let too_old_ms = index.time.persisted_ms().saturating_sub(age_max_ms);
        let mut gone = 0;
        for row in index.audit.rows_once(&[]) {
            let (key, _) = row?;
            let at_ms = key.first_chunk().map_or(0, |ms| u64::from_be_bytes(*ms));
            if gone >= go && (at_ms >= too_old_ms || gone >= go + AGED_MAX) {
                break;
            }
            rows.delete(index.audit.number(), &key);
            self.tally.rows = self.tally.rows.saturating_sub(1);
            self.tally.gone += 1;
            self.tally.gone_ms = at_ms;
            gone += 1;
        }
        Ok(gone > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_book_is_golden_and_reads_back() {
        let tally = Tally {
            rows: 0x0102,
            gone: 3,
            gone_ms: 4,
            next: 5,
        };
        let bytes = tally.encode();
        let mut expected = [0; 32];
        (expected[0], expected[1]) = (2, 1);
        (expected[8], expected[16], expected[24]) = (3, 4, 5);
        assert_eq!(bytes, expected);
        assert_eq!(Tally::decode(&bytes).unwrap(), tally);
        for cut in 0..bytes.len() {
            assert!(Tally::decode(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Tally::decode(&[0; 40]).is_err());
    }
}
