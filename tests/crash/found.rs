//! What a look found, by kind.
//!
//! - *lost*: acknowledged, and not there: an id, its row, a resume point, a synced commit.
//! - *doubled*: one id that was first twice within its retention, or was refused because its
//!   row was there though it was first.
//! - *torn*: parts of one commit there and others not: ids without rows, rows without ids,
//!   counters that count other than the rows, batches behind their resume point. Also a commit
//!   that is there though one is gone that returned before it began.

/// What a look found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) torn: u64,
    /// The first few, in words.
    notes: Vec<String>,
}

impl Found {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.torn == 0
    }

    pub(crate) fn add(&mut self, more: Found) {
        self.lost += more.lost;
        self.doubled += more.doubled;
        self.torn += more.torn;
        more.notes.into_iter().for_each(|note| self.note(note));
    }

    pub(crate) fn text(&self) -> String {
        self.notes.join("\n")
    }

    fn note(&mut self, what: String) {
        if self.notes.len() < 8 {
            self.notes.push(what);
        }
    }

    pub(crate) fn lost(&mut self, what: String) {
        self.lost += 1;
        self.note(format!("lost: {what}"));
    }

    pub(crate) fn doubled(&mut self, what: String) {
        self.doubled += 1;
        self.note(format!("doubled: {what}"));
    }

    pub(crate) fn torn(&mut self, what: String) {
        self.torn += 1;
        self.note(format!("torn: {what}"));
    }
}
