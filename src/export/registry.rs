//! Each metric that leaves the library: name, help, kind, labels, and how it is read.
//!
//! To add one, add a row here and to docs/metrics.md; a test compares the two, and checks names
//! and labels in dashboard and alerts. Names begin with `firstseen_`, counters end with `_total`,
//! units are seconds and bytes.

use std::time::{SystemTime, UNIX_EPOCH};

use crate::clock::ClockState;
use crate::mode::{Mode, OnStoreError};
use crate::stats::{ClaimStates, Health, Stats, TopEntry};

use super::metric::{Metric, MetricKind, Value, metrics};

/// Sources that are exported, as each is a time series.
const TOP_EXPORTED: usize = 10;

fn top_ten(stats: &Stats) -> impl Iterator<Item = &TopEntry> {
    let sources = stats.top.iter().flat_map(|top| &top.sources);
    sources.take(TOP_EXPORTED)
}

fn claim_states(stats: &Stats) -> impl Iterator<Item = (&str, &ClaimStates)> {
    let scopes = stats.scopes.iter();
    scopes.filter_map(|scope| Some((&*scope.name, scope.claims.as_ref()?)))
}

fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0.0, |d| d.as_secs_f64())
}

metrics! {
    Counter "verdicts_total" ["scope" "verdict"]
    "Verdicts by scope and kind.",
    |s, put| {
        for scope in &s.scopes {
            for (kind, n) in scope.verdicts.named() {
                put(&[&scope.name, kind], Value::Count(n));
            }
        }
    }
    Gauge "duplicate_share" ["scope"]
    "Duplicates among the ids decided since the open (interception rate), 0 to 1.",
    |s, put| {
        for scope in &s.scopes {
            put(&[&scope.name], Value::Number(scope.verdicts.duplicate_share()));
        }
    }
    Counter "observed_total" ["scope" "verdict"]
    "Messages let through by a scope that only observes, by the verdict that would have been.",
    |s, put| {
        for scope in &s.scopes {
            for (kind, n) in scope.observed.named() {
                if kind != "first" && kind != "observed" {
                    put(&[&scope.name, kind], Value::Count(n));
                }
            }
        }
    }
    Gauge "observe_only" ["scope"]
    "1 while the scope only observes: duplicates are let through.",
    |s, put| {
        for scope in &s.scopes {
            put(&[&scope.name], Value::Count(u64::from(scope.mode == Mode::ObserveOnly)));
        }
    }
    Counter "failed_open_total" ["scope"]
    "Effects that a handler made without a claim, since the store had failed.",
    |s, put| {
        for scope in &s.scopes {
            put(&[&scope.name], Value::Count(scope.failed_open));
        }
    }
    Gauge "fail_open" ["scope"]
    "1 while handlers of the scope go on without a store that fails.",
    |s, put| {
        for scope in &s.scopes {
            let is_open = scope.on_store_error == OnStoreError::Open;
            put(&[&scope.name], Value::Count(u64::from(is_open)));
        }
    }
    Counter "sequence_verdicts_total" ["verdict"]
    "Verdicts on numbers of producers.",
    |s, put| {
        for (kind, n) in s.sequences.verdicts.named() {
            put(&[kind], Value::Count(n));
        }
    }
    Gauge "producers" []
    "Producers in memory.",
    |s, put| {
        put(&[], Value::Count(s.sequences.producers));
    }
    Counter "producers_evicted_total" []
    "Producers that went because there were too many.",
    |s, put| {
        put(&[], Value::Count(s.sequences.evicted));
    }
    Counter "unkeyed_total" []
    "Items that a policy let through without recording an id: they have none, or it is late.",
    |s, put| {
        put(&[], Value::Count(s.unkeyed));
    }
    Counter "forgotten_total" []
    "Ids forgotten by request.",
    |s, put| {
        put(&[], Value::Count(s.forgotten));
    }
    Counter "undecided_total" []
    "Batches refused because an item stayed undecided.",
    |s, put| {
        put(&[], Value::Count(s.undecided));
    }
    Counter "answers_total" ["tier"]
    "Answers by the tier that gave them; generations_missed: asked on disk and not there.",
    |s, put| {
        put(&["active_set"], Value::Count(s.tiers.active_set));
        put(&["filters"], Value::Count(s.tiers.filters));
        put(&["generations"], Value::Count(s.tiers.generations));
        put(&["generations_missed"], Value::Count(s.tiers.generations_missed));
    }
    Counter "commits_total" []
    "Commits written.",
    |s, put| {
        put(&[], Value::Count(s.commits));
    }
    Counter "ids_recorded_total" []
    "Ids recorded.",
    |s, put| {
        put(&[], Value::Count(s.ids_recorded));
    }
    Histogram "commit_seconds" ["level"]
    "Time of a commit from call to answer, by level.",
    |s, put| {
        put(&["buffered"], Value::Times(&s.times.buffered));
        put(&["written"], Value::Times(&s.times.written));
        put(&["synced"], Value::Times(&s.times.synced));
    }
    Histogram "sync_seconds" []
    "Time of a sync of the write-ahead log.",
    |s, put| {
        put(&[], Value::Times(&s.times.syncs));
    }
    Histogram "seal_seconds" []
    "Time to seal a segment.",
    |s, put| {
        put(&[], Value::Times(&s.times.seals));
    }
    Histogram "merge_seconds" []
    "Time to merge runs of a generation.",
    |s, put| {
        put(&[], Value::Times(&s.times.merges));
    }
    Histogram "drop_seconds" []
    "Time to drop a generation.",
    |s, put| {
        put(&[], Value::Times(&s.times.drops));
    }
    Gauge "filters" []
    "Runs with a filter in memory.",
    |s, put| {
        put(&[], Value::Count(s.filters.count));
    }
    Gauge "filters_missing" []
    "Runs without a filter: not loaded yet, or given up for memory.",
    |s, put| {
        put(&[], Value::Count(s.filters.missing));
    }
    Gauge "filter_bytes" []
    "Memory of filters.",
    |s, put| {
        put(&[], Value::Count(s.filters.bytes));
    }
    Counter "filter_probes_total" []
    "Filter probes.",
    |s, put| {
        put(&[], Value::Count(s.filters.probes));
    }
    Counter "filter_false_positives_total" []
    "Filter probes that said maybe of an id that was not there.",
    |s, put| {
        put(&[], Value::Count(s.filters.false_positives));
    }
    Counter "filter_unfiltered_total" []
    "Pages asked because a run had no filter.",
    |s, put| {
        put(&[], Value::Count(s.filters.unfiltered));
    }
    Counter "filters_loaded_total" []
    "Filters loaded from snapshots.",
    |s, put| {
        put(&[], Value::Count(s.background.filters_loaded));
    }
    Counter "filters_rebuilt_total" []
    "Filters built again from pages.",
    |s, put| {
        put(&[], Value::Count(s.background.filters_rebuilt));
    }
    Counter "outbox_sent_total" ["outbox"]
    "Messages sent through the outbox in its life.",
    |s, put| {
        for outbox in &s.outboxes {
            put(&[&outbox.name], Value::Count(outbox.sent));
        }
    }
    Gauge "outbox_waiting" ["outbox"]
    "Messages of the outbox that are not acknowledged: its depth.",
    |s, put| {
        for outbox in &s.outboxes {
            put(&[&outbox.name], Value::Count(outbox.waiting));
        }
    }
    Gauge "outbox_oldest_age_seconds" ["outbox"]
    "Since when the first message that waits was sent; 0 if none waits.",
    |s, put| {
        for outbox in &s.outboxes {
            let age = outbox.oldest_at.map(|at| s.effective_time.duration_since(at));
            let age = age.and_then(Result::ok).unwrap_or_default();
            put(&[&outbox.name], Value::Number(age.as_secs_f64()));
        }
    }
    Gauge "generations" []
    "Generations.",
    |s, put| {
        put(&[], Value::Count(s.generations.len() as u64));
    }
    Gauge "runs" []
    "Runs over all generations.",
    |s, put| {
        put(&[], Value::Count(s.generations.iter().map(|g| g.runs).sum()));
    }
    Gauge "live_ids_estimate" []
    "Ids remembered, an estimate: expired and superseded ones in a generation count.",
    |s, put| {
        put(&[], Value::Count(s.live_ids_estimate));
    }
    Gauge "unsealed_ids" []
    "Ids not sealed yet.",
    |s, put| {
        put(&[], Value::Count(s.unsealed_ids));
    }
    Gauge "unsealed_segments" []
    "Segments that wait to be sealed; at 2 callers wait.",
    |s, put| {
        put(&[], Value::Count(s.unsealed_segments));
    }
    Gauge "active_set_bytes" []
    "Memory of active sets.",
    |s, put| {
        put(&[], Value::Count(s.active_set_bytes));
    }
    Gauge "ids_in_flight" []
    "Ids held by calls under way.",
    |s, put| {
        put(&[], Value::Count(s.ids_in_flight));
    }
    Gauge "written_commit" []
    "Number of the last commit written.",
    |s, put| {
        put(&[], Value::Count(s.written));
    }
    Gauge "durable_commit" []
    "Number of the last commit known durable.",
    |s, put| {
        put(&[], Value::Count(s.durable));
    }
    Gauge "claims" []
    "Claims there are now, those included that wait for an attempt or a decision.",
    |s, put| {
        put(&[], Value::Count(s.claims.now));
    }
    Counter "claim_events_total" ["event"]
    "What was done with claims; retried: an attempt had no outcome; repeated: the next one began.",
    |s, put| {
        let c = &s.claims;
        put(&["taken"], Value::Count(c.taken));
        put(&["completed"], Value::Count(c.completed));
        put(&["failed"], Value::Count(c.failed));
        put(&["retried"], Value::Count(c.retried));
        put(&["renewed"], Value::Count(c.renewed));
        put(&["lost"], Value::Count(c.lost));
        put(&["repeated"], Value::Count(c.repeated));
        put(&["redriven"], Value::Count(c.redriven));
        put(&["purged"], Value::Count(c.purged));
        put(&["decided"], Value::Count(c.decided));
    }
    Gauge "claims_by_state" ["scope" "state"]
    "Claims by state; lapsed: their lease ran out; unknown: somebody must decide.",
    |s, put| {
        for (scope, states) in claim_states(s) {
            for (state, group) in states.named() {
                put(&[scope, state], Value::Count(group.count));
            }
        }
    }
    Gauge "claim_oldest_seconds" ["scope" "state"]
    "How long ago the oldest of them was first claimed; 0: there are none.",
    |s, put| {
        for (scope, states) in claim_states(s) {
            for (state, group) in states.named() {
                put(&[scope, state], Value::Number(group.oldest.as_secs_f64()));
            }
        }
    }
    Gauge "dead_letters" ["scope"]
    "Messages that were given up and wait to be redriven or purged.",
    |s, put| {
        for scope in &s.scopes {
            put(&[&scope.name], Value::Count(scope.dead_letters));
        }
    }
    Gauge "prepared" []
    "Transactions that are prepared and in doubt.",
    |s, put| {
        put(&[], Value::Count(s.prepared.now));
    }
    Gauge "prepared_bytes" []
    "Bytes that transactions in doubt take.",
    |s, put| {
        put(&[], Value::Count(s.prepared.bytes));
    }
    Gauge "prepared_oldest_seconds" []
    "Time since the oldest transaction in doubt was prepared; 0: there is none.",
    |s, put| {
        let oldest = s.prepared.oldest.unwrap_or_default();
        put(&[], Value::Number(oldest.as_secs_f64()));
    }
    Counter "prepared_ended_total" ["how"]
    "Prepared transactions that ended, committed or aborted.",
    |s, put| {
        put(&["committed"], Value::Count(s.prepared.committed));
        put(&["aborted"], Value::Count(s.prepared.aborted));
    }
    Gauge "approximate_bytes" []
    "Memory of approximate scopes.",
    |s, put| {
        put(&[], Value::Count(s.approximate_bytes));
    }
    Gauge "disk_bytes" []
    "Bytes of table files, without the write-ahead log.",
    |s, put| {
        put(&[], Value::Count(s.disk_bytes));
    }
    Gauge "cache_bytes" []
    "Bytes in the block cache, over all stores that share it.",
    |s, put| {
        put(&[], Value::Count(s.cache_bytes));
    }
    Gauge "memtable_bytes" []
    "Bytes in memtables, over all stores that share the bound.",
    |s, put| {
        put(&[], Value::Count(s.memtable_bytes));
    }
    Counter "stalls_total" []
    "Calls that waited for room.",
    |s, put| {
        put(&[], Value::Count(s.background.stalls));
    }
    Counter "stalled_seconds_total" []
    "Time that calls waited for room.",
    |s, put| {
        put(&[], Value::Number(s.background.stalled.as_secs_f64()));
    }
    Gauge "writes_stopped" []
    "1 while RocksDB has stopped writes.",
    |s, put| {
        put(&[], Value::Count(u64::from(s.writes_stopped)));
    }
    Gauge "write_rate_limit_bytes" []
    "Bytes a second that RocksDB holds writes back to; 0: it does not.",
    |s, put| {
        put(&[], Value::Count(s.write_rate_limit));
    }
    Counter "refused_for_space_total" []
    "Writes refused because the disk was full or nearly so.",
    |s, put| {
        put(&[], Value::Count(s.refused_for_space));
    }
    Counter "background_failures_total" []
    "Rounds of background work that failed.",
    |s, put| {
        put(&[], Value::Count(s.background.failures));
    }
    Counter "background_errors_total" []
    "Failures of RocksDB's own flushes and compactions.",
    |s, put| {
        put(&[], Value::Count(s.background.errors));
    }
    Gauge "background_threads" []
    "Threads that the stores of these resources share.",
    |s, put| {
        put(&[], Value::Count(s.background.threads));
    }
    Counter "replayed_ids_total" []
    "Ids replayed from the log at open.",
    |s, put| {
        put(&[], Value::Count(s.background.replayed_ids));
    }
    Gauge "recovered_short" []
    "1 if this open accepted that less came back than was durable.",
    |s, put| {
        put(&[], Value::Count(u64::from(s.recovered_short.is_some())));
    }
    Gauge "health" ["state"]
    "1 for the state the store is in, 0 for the others.",
    |s, put| {
        let state = match s.health {
            Health::Ready => "ready",
            Health::Warming { .. } => "warming",
            Health::Degraded(_) => "degraded",
        };
        for each in ["ready", "warming", "degraded"] {
            put(&[each], Value::Count(u64::from(each == state)));
        }
    }
    Gauge "effective_time_seconds" []
    "Effective time, in seconds since 1970.",
    |s, put| {
        put(&[], Value::Number(seconds(s.effective_time)));
    }
    Gauge "clock_ahead_seconds" []
    "The system's clock minus effective time; above 0: expiry is frozen, below: set back.",
    |s, put| {
        let ahead = match s.clock {
            ClockState::Following => 0.0,
            ClockState::Frozen { by } => by.as_secs_f64(),
            ClockState::Behind { by } => -by.as_secs_f64(),
        };
        put(&[], Value::Number(ahead));
    }
    Counter "clock_freezes_total" []
    "How often expiry froze because the system's clock jumped ahead.",
    |s, put| {
        put(&[], Value::Count(s.clock_freezes));
    }
    Counter "surges_total" []
    "How often a rate of duplicates left its usual band.",
    |s, put| {
        put(&[], Value::Count(s.surges.begun));
    }
    Gauge "surges" []
    "Rates of duplicates that are outside their usual band.",
    |s, put| {
        put(&[], Value::Count(s.surges.now));
    }
    Gauge "top_source_duplicates" ["source"]
    "Duplicates of the top ten sources in the window, at most so many; only with top_sources.",
    |s, put| {
        for entry in top_ten(s) {
            put(&[&entry.name], Value::Count(entry.count));
        }
    }
    Gauge "top_source_error" ["source"]
    "By how much top_source_duplicates may be too high.",
    |s, put| {
        for entry in top_ten(s) {
            put(&[&entry.name], Value::Count(entry.error));
        }
    }
}
