//! The metrics that leave the library: one list of them, and the forms in which they leave.
//!
//! | file | what |
//! | --- | --- |
//! | `metric` | what one is: name, help, kind, labels, and how it is read from [`Stats`] |
//! | `registry` | the list of them |
//! | `text` | Prometheus's text format |
//! | `facade` | the crate `metrics` |
//!
//! The text, the facade, docs/metrics.md and the check of dashboard and alerts all follow from the
//! list, so that a name can't be in one and not in another.

#[cfg(feature = "metrics")]
mod facade;
mod metric;
mod registry;
mod text;

#[cfg(feature = "metrics")]
pub(crate) use facade::publish;
pub use metric::{Metric, MetricKind};
pub use registry::METRICS;
pub use text::prometheus;
