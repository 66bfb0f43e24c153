//! `stat`: what is in a store, and what opening it took.
//!
//! A store's counters begin when it is opened, and this program has just opened it; so the
//! verdicts of other processes are not here, only what is stored.

use firstseen::{Health, Stats};
use indicatif::{HumanBytes, HumanCount};
use serde_json::{Value, json};

use crate::args::Stat;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::Lines;
use crate::time::rfc3339;

pub(crate) fn run(args: &Stat) -> Result<Ending, Failure> {
    let store = place::store(&args.store)?;
    let scopes = store.scopes()?;
    let stats = store.stats()?;
    let health = health(&store.health());
    let mut lines = Lines::new();
    if args.json {
        lines.print(&json(&scopes, &stats, &health).to_string())?;
    } else {
        for line in text(&scopes, &stats, &health) {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    store.close()?;
    Ok(Ending::Done)
}

fn health(health: &Health) -> String {
    match health {
        Health::Ready => "ready".to_string(),
        Health::Warming {
            filters_ready,
            filters,
        } => {
            format!("warming: {filters_ready} of {filters} filters are loaded")
        }
        Health::Degraded(why) => format!("degraded: {why}"),
        other => format!("{other:?}"),
    }
}

fn json(scopes: &[String], stats: &Stats, health: &str) -> Value {
    let generations: Vec<_> = stats
        .generations
        .iter()
        .map(|generation| {
            json!({
                "ends_at": generation.ends_at.map(rfc3339),
                "class": generation.class,
                "runs": generation.runs,
                "ids_estimate": generation.ids_estimate,
                "disk_bytes": generation.disk_bytes,
            })
        })
        .collect();
    json!({
        "health": health,
        "scopes": scopes,
        "live_ids_estimate": stats.live_ids_estimate,
        "unsealed_ids": stats.unsealed_ids,
        "unsealed_segments": stats.unsealed_segments,
        "disk_bytes": stats.disk_bytes,
        "generations": generations,
        "filters": {
            "count": stats.filters.count,
            "missing": stats.filters.missing,
            "bytes": stats.filters.bytes,
        },
        "memory": {
            "active_set_bytes": stats.active_set_bytes,
            "memtable_bytes": stats.memtable_bytes,
            "cache_bytes": stats.cache_bytes,
        },
        "last_commit": stats.written,
        "replayed_ids": stats.background.replayed_ids,
        "effective_time": rfc3339(stats.effective_time),
        "recovered_short": stats.recovered_short.map(|(expected, found)| {
            json!({ "expected": expected, "found": found })
        }),
    })
}

fn text(scopes: &[String], stats: &Stats, health: &str) -> Vec<String> {
    let count = |number| HumanCount(number).to_string();
    let bytes = |number| HumanBytes(number).to_string();
    let filters = &stats.filters;
    let mut lines: Vec<String> = [
        ("health", health.to_string()),
        (
            "scopes",
            if scopes.is_empty() {
                "none".to_string()
            } else {
                scopes.join(", ")
            },
        ),
        ("ids (estimate)", count(stats.live_ids_estimate)),
        ("not sealed", count(stats.unsealed_ids)),
        ("on disk", bytes(stats.disk_bytes)),
        (
            "filters",
            format!("{} ({})", count(filters.count), bytes(filters.bytes)),
        ),
        ("effective time", rfc3339(stats.effective_time)),
    ]
    .into_iter()
    .map(|(name, value)| format!("{name:16}{value}"))
    .collect();
    for generation in &stats.generations {
        lines.push(format!(
            "generation      ends {}: {} ids, {}, runs: {}",
            generation
                .ends_at
                .map_or_else(|| "never".to_string(), rfc3339),
            count(generation.ids_estimate),
            bytes(generation.disk_bytes),
            count(generation.runs)
        ));
    }
    if let Some((expected, found)) = stats.recovered_short {
        lines.push(format!(
            "recovered short: expected commit {expected}, found {found}"
        ));
    }
    lines
}
