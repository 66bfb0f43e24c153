//! One counter that only rises: reads between what was acknowledged and what was begun.

/// What is known of a counter.
#[derive(Default)]
pub(super) struct Counter {
    /// Additions begun, and those that were acknowledged.
    begun: u64,
    acknowledged: u64,
    /// The most that a read has said.
    read: u64,
}

impl Counter {
    pub(super) fn begin(&mut self) {
        self.begun += 1;
    }

    pub(super) fn end(&mut self) {
        self.acknowledged += 1;
    }

    /// The least that a read that begins now may say.
    pub(super) fn least(&self) -> u64 {
        self.acknowledged.max(self.read)
    }

    /// Whether a read that ends now may say this, with what was the least when it began.
    pub(super) fn read(&mut self, value: u64, least: u64) -> bool {
        self.read = self.read.max(value);
        (least..=self.begun).contains(&value)
    }
}
