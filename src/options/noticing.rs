//! Options of what a store notices about duplicates: where they come from, and when they surge.

use std::time::Duration;

use crate::surge::{Surge, SurgeHook};

use super::Options;

impl Options {
    /// Counts duplicates by source and by scope over the last minutes
    /// ([`Stats::top`](crate::Stats::top), [`Store::top`](crate::Store::top)), with this many
    /// places a pane of the window; of `n` duplicates no count is then wrong by more than
    /// `n / capacity`. Sources are those that ids bring ([`Id::source`](crate::Id::source)), also
    /// in scopes that don't keep them. Costs a lock for each batch with duplicates, and at most
    /// some 2 KB a place (names have up to 255 bytes). Up to 100,000; default 0: nothing is
    /// counted.
    pub fn top_sources(mut self, capacity: usize) -> Options {
        self.top.capacity = capacity;
        self
    }

    /// The time that [`Options::top_sources`] looks back, 1 s to 1 day. Default: 10 min.
    pub fn top_window(mut self, window: Duration) -> Options {
        self.top.window = window;
        self
    }

    /// Calls `hook` (and logs a warning) when the duplicates of a scope leave their usual band,
    /// and when they are back; with [`Options::top_sources`] also those of a source. Default:
    /// nobody looks.
    ///
    /// Every [`Options::surge_interval`] of effective time a scope's rate `x` is its duplicates
    /// among the ids decided in the interval (with fewer than 20 of these it is passed over), a
    /// source's is its duplicates a second. The band is `mean ± 4 deviations`, both exponentially
    /// weighted: `d = x - mean; mean += a d; variance = (1 - a)(variance + a d²)`, with
    /// `a = 1/n` for the n-th value, at least 1/16, an eighth of that for values outside. A
    /// deviation counts as at least 0.01 for a scope, and as at least 1 a second and a tenth of the
    /// mean for a source. Eight values warm it up; two in a row outside, on one side, leave it;
    /// two in a row within 2 deviations are back.
    ///
    /// The hook runs on a thread of its own: it may take its time, and call the store. When 64
    /// news wait for it, more are only logged. A panic in it is caught and logged. As many sources
    /// are followed as `top_sources` has places; while they suffice, a source that appears later
    /// counts as one that had no duplicates before.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{Options, Store, SurgeChange};
    /// let options = Options::new().top_sources(1000).on_surge(|surge| {
    ///     if surge.change == SurgeChange::Above {
    ///         eprintln!("page somebody: {surge}");
    ///     }
    /// });
    /// let store = Store::open(dir.path(), options)?;
    /// # let _ = store;
    /// # Ok(()) }
    /// ```
    pub fn on_surge(mut self, hook: impl Fn(&Surge) + Send + Sync + 'static) -> Options {
        self.surge = Some(SurgeHook::new(hook));
        self
    }

    /// How often [`Options::on_surge`] looks, 10 ms to 1 day of effective time. Default: 10 s.
    pub fn surge_interval(mut self, interval: Duration) -> Options {
        self.surge_interval = interval;
        self
    }

    pub(super) fn check_noticing(&self, check: &mut impl FnMut(bool, &str)) {
        check(
            self.top.capacity <= 100_000,
            "top_sources must be at most 100,000",
        );
        let day = Duration::from_secs(86_400);
        check(
            (Duration::from_secs(1)..=day).contains(&self.top.window),
            "top_window must be 1 s to 1 day",
        );
        check(
            (Duration::from_millis(10)..=day).contains(&self.surge_interval),
            "surge_interval must be 10 ms to 1 day",
        );
    }
}
