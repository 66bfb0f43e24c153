//! A store's counters and sizes as one picture.

use std::time::{Duration, UNIX_EPOCH};

use crate::claims::Group;
use crate::clock::ClockState;
use crate::error::Result;
use crate::index::FOR_EVER_MS;
use crate::stats::{
    BackgroundStats, ClaimGroup, ClaimStates, ClaimStats, FilterStats, GenerationStats, Health,
    ScopeStats, SequenceStats, Stats, SurgeStats, TierStats, TimeStats, VerdictStats,
};
use crate::sync::atomic::{AtomicU64, Ordering};

use super::Committer;

impl Committer {
    /// What this store alone knows; the caller adds what stores share.
    pub(crate) fn stats(&self, now_ms: u64, clock: ClockState) -> Result<Stats> {
        let effective_time = UNIX_EPOCH + Duration::from_millis(now_ms);
        let c = &self.counters;
        let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let index = &self.index;
        let view = index.view();
        let generations = self.generations()?;
        let sealed: u64 = generations.iter().map(|g| g.ids_estimate).sum();
        let (verdicts, scopes) = self.scope_stats(now_ms);
        let unsealed: u64 = view.segments.iter().map(|s| s.set().len() as u64).sum();
        Ok(Stats {
            verdicts,
            scopes,
            sequences: SequenceStats {
                producers: self.catalog.producers() as u64,
                evicted: n(&c.producers_evicted),
                verdicts: VerdictStats::from_counts(self.sequence_tally.read()),
            },
            prepared: self.prepared_stats(now_ms),
            claims: ClaimStats {
                now: self.claims.len() as u64,
                taken: n(&c.claims_taken),
                completed: n(&c.claims_completed),
                failed: n(&c.claims_failed),
                retried: n(&c.claims_retried),
                renewed: n(&c.claims_renewed),
                lost: n(&c.leases_lost),
                repeated: n(&c.claims_repeated),
                redriven: n(&c.claims_redriven),
                purged: n(&c.claims_purged),
                decided: n(&c.claims_decided),
            },
            outboxes: self.outbox_stats()?,
            unkeyed: n(&c.unkeyed),
            forgotten: n(&c.forgotten),
            tiers: TierStats {
                active_set: n(&c.from_active),
                filters: n(&c.from_filters),
                generations: n(&c.from_disk),
                generations_missed: n(&c.disk_missed),
            },
            times: self.time_stats(),
            top: None,
            surges: SurgeStats::default(),
            filters: self.filter_stats(),
            generations,
            live_ids_estimate: sealed + unsealed,
            unsealed_ids: unsealed,
            unsealed_segments: view.unsealed() as u64,
            active_set_bytes: index.set_bytes() as u64,
            ids_in_flight: self.in_flight() as u64,
            commits: n(&c.commits),
            ids_recorded: n(&c.ids_written),
            undecided: n(&c.undecided),
            refused_for_space: n(&index.space.refusals),
            written: index.written(),
            durable: index.durable(),
            disk_bytes: index.engine.disk_bytes()?,
            cache_bytes: 0,
            memtable_bytes: 0,
            writes_stopped: index.engine.writes_stopped(),
            write_rate_limit: index.engine.write_rate_limit(),
            background: BackgroundStats {
                seals: n(&index.counts.seals),
                merges: n(&index.counts.merges),
                drops: n(&index.counts.drops),
                replayed_ids: n(&index.counts.replayed),
                filters_loaded: n(&index.counts.filters_loaded),
                filters_rebuilt: n(&index.counts.filters_rebuilt),
                stalls: n(&index.counts.stalls),
                stalled: Duration::from_micros(n(&index.counts.stalled_us)),
                threads: 0,
                failures: n(&index.counts.failures),
                errors: index.engine.background_errors(),
            },
            effective_time,
            clock,
            clock_freezes: index.time.freezes(),
            health: Health::Ready,
            recovered_short: None,
            approximate_bytes: 0,
        })
    }

    /// Verdicts over all scopes, and each scope that is not dropped.
    fn scope_stats(&self, now_ms: u64) -> (VerdictStats, Vec<ScopeStats>) {
        let mut all = self.sequence_tally.read();
        let mut scopes = Vec::new();
        for scope in self.catalog.scopes_ever() {
            let counts = scope.tally.read();
            all.iter_mut().zip(counts).for_each(|(sum, n)| *sum += n);
            if !scope.is_dropped() {
                let switched = scope.switches.now();
                scopes.push(ScopeStats {
                    name: scope.name.clone(),
                    verdicts: VerdictStats::from_counts(counts),
                    mode: switched.mode,
                    observed: VerdictStats::from_counts(scope.switches.observed()),
                    on_store_error: switched.on_store_error,
                    failed_open: scope.switches.failed_open(),
                    claims: scope
                        .has_claims()
                        .then(|| self.claim_states(scope.number, now_ms)),
                    dead_letters: self.dead.of(scope.number),
                });
            }
        }
        (VerdictStats::from_counts(all), scopes)
    }

    fn claim_states(&self, scope: u16, now_ms: u64) -> ClaimStates {
        let counted = self.claims.count(scope, self.index.time.mono_ms());
        let group = |of: Group| ClaimGroup {
            count: of.claims,
            oldest: Duration::from_millis(of.oldest_ms.map_or(0, |ms| now_ms.saturating_sub(ms))),
        };
        ClaimStates {
            held: group(counted.held),
            lapsed: group(counted.lapsed),
            waiting: group(counted.free),
            unknown: group(counted.unknown),
        }
    }

    fn time_stats(&self) -> TimeStats {
        let counts = &self.index.counts;
        TimeStats {
            syncs: self.index.sync_times(),
            seals: counts.seal_times.read(),
            merges: counts.merge_times.read(),
            drops: counts.drop_times.read(),
            ..self.times.read()
        }
    }

    fn generations(&self) -> Result<Vec<GenerationStats>> {
        let view = self.index.view();
        let each = view.generations.iter().map(|g| {
            let ends = Some(g.slice.end_ms).filter(|end| *end != FOR_EVER_MS);
            Ok(GenerationStats {
                ends_at: ends.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
                class: g.slice.class,
                runs: g.runs.len() as u64,
                ids_estimate: g.ids(),
                disk_bytes: g.family.disk_bytes()?,
            })
        });
        each.collect()
    }

    fn filter_stats(&self) -> FilterStats {
        let n = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let c = &self.counters;
        let mut stats = FilterStats {
            probes: n(&c.filter_probes),
            false_positives: n(&c.false_positives),
            unfiltered: n(&c.unfiltered),
            ..FilterStats::default()
        };
        let view = self.index.view();
        for run in view.generations.iter().flat_map(|g| &g.runs) {
            match run.filter().as_ref() {
                Some(filter) => {
                    stats.count += 1;
                    stats.bytes += filter.bytes() as u64;
                }
                None => stats.missing += 1,
            }
        }
        stats.bytes += view.sieve_bytes();
        stats
    }
}
