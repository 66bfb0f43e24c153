//! Looks whether duplicates surge, every so often, on the ticker.
//!
//! What is looked at: of each scope its counters, of each source what was counted since the last
//! look. The rule is `meter::band`'s, in the words of [`Options::on_surge`](crate::Options).
//! Callers pay nothing for it.
//!
//! Bounds: a band for each scope, and for as many sources as there are places; when these are
//! used up, that of the source with the lowest usual rate goes, unless it surges.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use crossbeam::channel::Sender;

use crate::clock::millis;
use crate::commit::Committer;
use crate::error::Result;
use crate::meter::{Band, Counts, DUPLICATE, FIRST, Move, OBSERVED, SpaceSaving};
use crate::stats::SurgeStats;
use crate::surge::{Surge, SurgeChange, SurgeHook, SurgeSubject};
use crate::sync::Mutex;

/// Ids decided in an interval that make a scope's rate one.
const DECIDED_MIN: u64 = 20;
/// What counts as deviation at least: of a share; of a rate a second, and as a part of it.
const LEAST_SHARE: f64 = 0.01;
const LEAST_RATE: f64 = 1.0;
const LEAST_PART: f64 = 0.1;

/// The watch of one store.
pub(crate) struct Watch {
    interval: Duration,
    news: Sender<Surge>,
    state: Mutex<State>,
}

struct State {
    looked_ms: u64,
    scopes: BTreeMap<u16, (Counts, Band)>,
    sources: BTreeMap<Arc<str>, Band>,
    /// Looks at sources so far, and whether places for them ever ran out.
    looks: u32,
    is_crowded: bool,
    begun: u64,
}

/// One look.
struct Look {
    now_ms: u64,
    passed: Duration,
}

impl Watch {
    pub(crate) fn start(
        hook: &SurgeHook,
        interval: Duration,
        committer: &Committer,
    ) -> Result<Watch> {
        let state = State {
            looked_ms: committer.index.time.now_ms(),
            scopes: BTreeMap::new(),
            sources: BTreeMap::new(),
            looks: 0,
            is_crowded: false,
            begun: 0,
        };
        Ok(Watch {
            interval,
            news: hook.start()?,
            state: Mutex::new(state),
        })
    }

    pub(crate) fn stats(&self) -> SurgeStats {
        let state = self.state.lock();
        let scopes = state.scopes.values().map(|(_, band)| band);
        let bands = scopes.chain(state.sources.values());
        SurgeStats {
            begun: state.begun,
            now: bands.filter(|band| band.is_outside()).count() as u64,
        }
    }

    /// Judges the rates since the last look, if the interval has passed.
    pub(crate) fn look(&self, committer: &Committer) {
        let now_ms = committer.index.time.now_ms();
        let mut state = self.state.lock();
        let passed_ms = now_ms.saturating_sub(state.looked_ms);
        if passed_ms < millis(self.interval) {
            return;
        }
        state.looked_ms = now_ms;
        let look = Look {
            now_ms,
            passed: Duration::from_millis(passed_ms),
        };
        let mut news = Vec::new();
        state.judge_scopes(committer, &look, &mut news);
        if let Some(duplicates) = &committer.duplicates {
            state.judge_sources(&duplicates.take(), &look, &mut news);
        }
        let begun = news.iter().filter(|s| s.change != SurgeChange::Back);
        state.begun += begun.count() as u64;
        drop(state);
        for surge in news {
            log::warn!("{surge}");
            if self.news.try_send(surge).is_err() {
                log::warn!("the surge hook is busy with earlier news and was not told");
            }
        }
    }
}

impl State {
    fn judge_scopes(&mut self, committer: &Committer, look: &Look, news: &mut Vec<Surge>) {
        for scope in committer.catalog.scopes_ever() {
            if scope.is_dropped() {
                self.scopes.remove(&scope.number);
                continue;
            }
            let counts = scope.tally.read();
            let (before, band) = self.scopes.entry(scope.number).or_default();
            let since = |kind: usize| counts[kind].saturating_sub(before[kind]);
            let (first, duplicates) = (since(FIRST), since(DUPLICATE) + since(OBSERVED));
            *before = counts;
            if first + duplicates < DECIDED_MIN {
                continue;
            }
            let share = duplicates as f64 / (first + duplicates) as f64;
            let subject = || SurgeSubject::Scope(scope.name.clone());
            news.extend(look.judge(band, share, LEAST_SHARE, subject));
        }
    }

    fn judge_sources(&mut self, taken: &SpaceSaving, look: &Look, news: &mut Vec<Surge>) {
        self.looks = self.looks.saturating_add(1);
        self.follow(taken, look);
        for (name, band) in &mut self.sources {
            let (rate, least) = (look.rate(taken, name), least_rate(band));
            let subject = || SurgeSubject::Source(name.to_string());
            news.extend(look.judge(band, rate, least, subject));
        }
    }

    /// Follows the sources that are new; if places run out, the calm ones with the lowest usual
    /// rates go, for those that now have more.
    fn follow(&mut self, taken: &SpaceSaving, look: &Look) {
        let slots = taken.slots().iter().map(|slot| &slot.name);
        let mut fresh: Vec<(f64, &Arc<str>)> = slots
            .filter(|name| !self.sources.contains_key(*name))
            .map(|name| (look.rate(taken, name), name))
            .collect();
        fresh.sort_by(|a, b| b.0.total_cmp(&a.0));
        let calm = self.sources.iter().filter(|(_, band)| !band.is_outside());
        let mut calm: Vec<(f64, Arc<str>)> =
            calm.map(|(n, band)| (band.mean(), Arc::clone(n))).collect();
        calm.sort_by(|a, b| a.0.total_cmp(&b.0));
        let mut calm = calm.into_iter();
        for (rate, name) in fresh {
            if self.sources.len() >= taken.capacity() {
                self.is_crowded = true;
                match calm.next().filter(|(mean, _)| *mean < rate) {
                    Some((_, least)) => self.sources.remove(&least),
                    None => return,
                };
            }
            // As long as all had places, one that had none had no duplicates.
            let was_silent = self.looks > Band::WARM_UP && !self.is_crowded;
            let band = if was_silent {
                Band::silent()
            } else {
                Band::default()
            };
            self.sources.insert(Arc::clone(name), band);
        }
    }
}

/// What counts as deviation of a source's rate at least.
fn least_rate(band: &Band) -> f64 {
    LEAST_RATE.max(LEAST_PART * band.mean())
}

impl Look {
    /// A source's duplicates a second, those that are certain: an error must not make a surge.
    fn rate(&self, taken: &SpaceSaving, name: &str) -> f64 {
        let certain = taken.find(name).map_or(0, |slot| slot.count - slot.error);
        certain as f64 / self.passed.as_secs_f64()
    }

    /// The news, if a rate left its band or is back.
    fn judge(
        &self,
        band: &mut Band,
        rate: f64,
        least: f64,
        subject: impl FnOnce() -> SurgeSubject,
    ) -> Option<Surge> {
        let (usual, limits) = (band.mean(), band.limits(least));
        let moved = band.observe(rate, least)?;
        Some(Surge {
            subject: subject(),
            change: match moved {
                Move::Above => SurgeChange::Above,
                Move::Below => SurgeChange::Below,
                Move::Back => SurgeChange::Back,
            },
            rate,
            usual,
            band: limits,
            interval: self.passed,
            at: UNIX_EPOCH + Duration::from_millis(self.now_ms),
        })
    }
}
