//! A rate of duplicates that left its usual band, and who is told.
//!
//! The hook runs on a thread of its own, so that whatever it does holds up neither commits nor
//! background work. What it is told waits in a bounded queue; when that is full, news are only
//! logged. A hook that panics is told the next news all the same.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crossbeam::channel::{Receiver, Sender, bounded};

use crate::error::Result;

/// News of a rate of duplicates; see [`Options::on_surge`](crate::Options::on_surge).
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Surge {
    /// Whose rate.
    pub subject: SurgeSubject,
    /// What became of it.
    pub change: SurgeChange,
    /// The rate in the interval that decided it. Of a scope: duplicates among the ids decided,
    /// 0 to 1. Of a source: duplicates a second.
    pub rate: f64,
    /// The usual rate.
    pub usual: f64,
    /// The band around it: the lowest and the highest that is usual.
    pub band: (f64, f64),
    /// The length of the interval.
    pub interval: Duration,
    /// Effective time.
    pub at: SystemTime,
}

/// Whose rate a [`Surge`] is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SurgeSubject {
    /// A scope, by name.
    Scope(String),
    /// A source, as ids name it; needs [`Options::top_sources`](crate::Options::top_sources).
    Source(String),
}

/// What became of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SurgeChange {
    /// It rose above its band: a producer or broker repeats.
    Above,
    /// It fell below its band: what usually repeats no longer does, or no longer arrives.
    Below,
    /// It is back within its band.
    Back,
}

impl fmt::Display for Surge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (who, unit) = match &self.subject {
            SurgeSubject::Scope(name) => (format!("scope {name:?}"), "of its ids"),
            SurgeSubject::Source(name) => (format!("source {name:?}"), "a second"),
        };
        let change = match self.change {
            SurgeChange::Above => "above",
            SurgeChange::Below => "below",
            SurgeChange::Back => "back within",
        };
        let (low, high) = self.band;
        write!(
            f,
            "duplicates of {who} are {change} their usual band: {:.3} {unit}, usual are {low:.3} \
             to {high:.3}",
            self.rate
        )
    }
}

/// A caller's hook.
#[derive(Clone)]
pub(crate) struct SurgeHook(Arc<dyn Fn(&Surge) + Send + Sync>);

/// News that may wait for the hook.
const WAITING_MAX: usize = 64;

impl SurgeHook {
    pub(crate) fn new(hook: impl Fn(&Surge) + Send + Sync + 'static) -> SurgeHook {
        SurgeHook(Arc::new(hook))
    }

    /// A thread that tells it; it ends when the sender goes. Nobody waits for it: a hook may
    /// itself wait for the store.
    ///
    /// # Errors
    /// If no thread could be started.
    pub(crate) fn start(&self) -> Result<Sender<Surge>> {
        let (news, told) = bounded(WAITING_MAX);
        let hook = self.clone();
        std::thread::Builder::new()
            .name("firstseen-surge".to_string())
            .spawn(move || hook.tell_all(&told))?;
        Ok(news)
    }

    fn tell_all(&self, told: &Receiver<Surge>) {
        for surge in told {
            if catch_unwind(AssertUnwindSafe(|| (self.0)(&surge))).is_err() {
                log::error!("the surge hook panicked");
            }
        }
    }
}
