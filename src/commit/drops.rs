//! Dropping what commits use: a table here, scopes and sequences where theirs is.
//!
//! What a prepared transaction uses stays until that has ended: it must be able to commit.

use crate::error::Result;

use super::Committer;

impl Committer {
    /// Drops a table. Commits under way end first, and new ones see that it is dropped: a
    /// write into a family that is gone would poison the store.
    pub(crate) fn drop_table(&self, name: &str) -> Result<bool> {
        let Some(number) = self.catalog.existing_table(name).map(|table| table.number) else {
            return Ok(false);
        };
        let retired = self.doubts.unless_used(
            &format!("table {name:?}"),
            |uses| uses.tables.contains(&number),
            || self.catalog.retire_table(name),
        );
        let Some(rows) = retired? else {
            return Ok(false);
        };
        let _no_commits = self.tables.write();
        self.flush_buffer()?;
        self.catalog.remove_table(&rows)?;
        Ok(true)
    }

    /// Marks a scope as dropped, unless it is used.
    pub(super) fn retire_scope(&self, name: &str) -> Result<Option<u16>> {
        let Some(number) = self.catalog.existing_scope(name).map(|scope| scope.number) else {
            return Ok(None);
        };
        self.doubts.unless_used(
            &format!("scope {name:?}"),
            |uses| uses.scopes.contains(&number),
            || self.catalog.drop_scope(name),
        )
    }

    /// Marks a space of sequences as dropped, unless it is used.
    pub(super) fn retire_sequences(&self, name: &str) -> Result<Option<u16>> {
        let Some(number) = self.catalog.sequences_number(name) else {
            return Ok(None);
        };
        self.doubts.unless_used(
            &format!("the sequences {name:?}"),
            |uses| uses.spaces.contains(&number),
            || self.catalog.retire_sequences(name),
        )
    }
}
