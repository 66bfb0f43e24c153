//! How a store is observed from outside: exported metrics, top sources of duplicates.

use crate::error::Result;
use crate::stats::Top;

use super::Store;

impl Store {
    /// The counters and sizes in Prometheus's text format, without a label for the store:
    /// [`Stats::prometheus`](crate::Stats::prometheus) of [`Store::stats`]; see
    /// [`prometheus`](crate::prometheus) for several stores. Costs what `stats` does.
    ///
    /// # Errors
    /// As [`Store::stats`].
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # use firstseen::{days, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let _ = store.scope("orders", Policy::remember(days(7)))?.insert("a")?;
    /// let line = r#"firstseen_verdicts_total{scope="orders",verdict="first"} 1"#;
    /// assert!(store.prometheus()?.lines().any(|l| l == line));
    /// # Ok(()) }
    /// ```
    pub fn prometheus(&self) -> Result<String> {
        Ok(self.stats()?.prometheus())
    }

    /// Hands the counters and sizes to the recorder of the crate `metrics` that the program has
    /// installed, under the names of [`METRICS`](crate::METRICS) and with `labels` on each.
    /// Call it every few seconds, or before each scrape. Counters are absolute values: the
    /// recorder must keep them, as exporters do. Histograms come as the counters and the gauge
    /// that Prometheus makes of them (`_bucket` with `le`, `_count`, `_sum`), so that dashboards
    /// need not care which way they came.
    ///
    /// # Errors
    /// As [`Store::stats`].
    #[cfg(feature = "metrics")]
    pub fn publish_metrics(&self, labels: &[(&str, &str)]) -> Result<()> {
        crate::export::publish(&self.stats()?, labels);
        Ok(())
    }

    /// Where the duplicates of the last minutes come from; `None` unless
    /// [`Options::top_sources`](crate::Options::top_sources) was set. Costs a look at each place
    /// of the window. Of a store that was opened to be read only it is what the process that
    /// counts wrote last, every 10 s and when it closed: the first hundred of each list, as of
    /// [`Top::at`].
    ///
    /// # Errors
    /// `Closed`.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Id, Options, Policy, Store};
    /// let store = Store::open(dir.path(), Options::new().top_sources(100))?;
    /// let orders = store.scope("orders", Policy::remember(days(7)))?;
    /// for _ in 0..3 {
    ///     let _ = orders.insert(Id::new("a").source("shop-7"))?;
    /// }
    /// let top = store.top()?.expect("it is counted");
    /// assert_eq!((&*top.sources[0].name, top.sources[0].count), ("shop-7", 2));
    /// # Ok(()) }
    /// ```
    pub fn top(&self) -> Result<Option<Top>> {
        self.shared.core()?.top()
    }
}
