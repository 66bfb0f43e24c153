//! The runner's prepared transactions.

use firstseen::Outcome;

use super::op::Batch;
use super::prepared::{name, prepared, told};
use super::runner::{Called, Runner};
use super::said::list;

impl Runner<'_> {
    pub(super) fn prepare(&self, txn: u8, batch: &Batch) -> Called<String> {
        let mut real = self.fill(&prepared(batch));
        let outcome = real.prepare(name(txn));
        assert!(
            outcome.is_err() || real.is_empty(),
            "a batch that was prepared is empty"
        );
        self.told(outcome)
    }

    pub(super) fn end_prepared(&self, txn: u8, commits: bool) -> Called<String> {
        let Outcome { ids, is_repeat, .. } = match commits {
            true => self.store.commit_prepared(name(txn))?,
            false => self.store.abort_prepared(name(txn), "a test")?,
        };
        Ok(match is_repeat {
            true => "before".to_string(),
            false => format!("{ids} ids"),
        })
    }

    /// What is in doubt, by name.
    pub(super) fn doubts(&self) -> Called<String> {
        let mut all = self.store.in_doubt()?;
        all.sort_by(|a, b| a.txn.cmp(&b.txn));
        let all = all.iter().map(|doubt| {
            let txn = (0..=u8::MAX).find(|txn| name(*txn).as_bytes() == doubt.txn);
            let since = doubt.prepared_at.duration_since(self.start);
            let at_ms = since.map_or(u64::MAX, |d| d.as_millis() as u64);
            told(txn.expect("a name that was given"), doubt.ids, at_ms)
        });
        Ok(list(&all.collect::<Vec<_>>()))
    }
}
