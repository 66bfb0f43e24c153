//! `stat` and `generations`: what is in a store, looked at from outside.
//!
//! The store is opened to be read only, so another process may go on with it. Its counters of
//! verdicts are in that process; what is here is what is stored, as of the commit that is told.

use std::thread;
use std::time::Duration;

use firstseen::{
    AsOf, ClaimGroup, GenerationStats, Mode, OnStoreError, OutboxStats, PreparedStats, ScopeStats,
    Stats, Store,
};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use serde_json::{Map, Value, json};

use crate::args::{Look, Stat};
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::Lines;
use crate::stop;
use crate::table::{self, span};
use crate::time::rfc3339;

/// What one look found.
pub(crate) struct Found {
    pub(crate) as_of: AsOf,
    pub(crate) scopes: Vec<String>,
    pub(crate) stats: Stats,
    pub(crate) producers: u64,
}

/// Looks at a store.
pub(crate) fn look(store: &Store) -> Result<Found, Failure> {
    let as_of = store
        .as_of()
        .ok_or_else(|| Failure::File("not a look".to_string()))?;
    let mut producers = 0;
    for name in store.sequences_names()? {
        if let Some(space) = store.existing_sequences(&name)? {
            producers += space.producers()?.len() as u64;
        }
    }
    Ok(Found {
        as_of,
        producers,
        scopes: store.scopes()?,
        stats: store.stats()?,
    })
}

pub(crate) fn run(args: &Stat) -> Result<Ending, Failure> {
    if let Some(pause) = args.watch {
        return watch(args, pause);
    }
    let store = place::look(&args.look.store)?;
    let found = look(&store)?;
    let mut lines = Lines::new();
    if args.look.json {
        lines.print(&json(&found).to_string())?;
    } else {
        for line in text(&found) {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    store.close()?;
    Ok(Ending::Done)
}

pub(crate) fn run_generations(args: &Look) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let found = look(&store)?;
    let mut lines = Lines::new();
    if args.json {
        lines.print(&json(&found)["generations"].to_string())?;
    } else {
        for line in generations(&found.stats.generations) {
            lines.print(&line)?;
        }
        lines.print(&freshness(&found.as_of))?;
    }
    lines.finish()?;
    store.close()?;
    Ok(Ending::Done)
}

/// One line a look, with what changed since the one before.
fn watch(args: &Stat, pause: Duration) -> Result<Ending, Failure> {
    stop::catch()?;
    let mut before: Option<(u64, u64)> = None;
    let mut lines = Lines::new();
    let mut looks = 0;
    if !args.look.json {
        lines.print(&table::bold(
            "time                       commit      ids     +ids   unsealed       disk  \
             generations",
        ))?;
    }
    loop {
        let store = match place::look(&args.look.store) {
            // It changes too fast just now.
            Err(Failure::Store(error)) if error.is_retryable() => {
                if !wait(pause) {
                    return Ok(Ending::Interrupted);
                }
                continue;
            }
            store => store?,
        };
        let found = look(&store)?;
        store.close()?;
        let stats = &found.stats;
        let ids = stats.live_ids_estimate;
        if args.look.json {
            lines.print(&json(&found).to_string())?;
        } else {
            let more = before.map_or_else(String::new, |(_, b)| {
                format!("{:+}", i128::from(ids) - i128::from(b))
            });
            lines.print(&format!(
                "{}  {:>7}  {:>7}  {more:>7}  {:>9}  {:>9}  {:>11}",
                rfc3339(found.as_of.at),
                found.as_of.commit,
                ids,
                stats.unsealed_ids,
                HumanBytes(stats.disk_bytes).to_string(),
                stats.generations.len(),
            ))?;
        }
        lines.flush()?;
        before = Some((found.as_of.commit, ids));
        looks += 1;
        if args.count.is_some_and(|count| looks >= count) {
            return Ok(Ending::Done);
        }
        if !wait(pause) {
            return Ok(Ending::Interrupted);
        }
    }
}

/// False if Ctrl-C came.
fn wait(mut pause: Duration) -> bool {
    const STEP: Duration = Duration::from_millis(50);
    while !stop::requested() && !pause.is_zero() {
        let step = pause.min(STEP);
        #[expect(clippy::disallowed_methods, reason = "a person asked for this pause")]
        thread::sleep(step);
        pause -= step;
    }
    !stop::requested()
}

/// How fresh a look is, in one line.
pub(crate) fn freshness(as_of: &AsOf) -> String {
    let by = match &as_of.open_by {
        Some(process) => format!("open by process {process}"),
        None => "open by nobody".to_string(),
    };
    format!("as of commit {}, {}; {by}", as_of.commit, rfc3339(as_of.at))
}

/// A look as one JSON object.
pub(crate) fn json(found: &Found) -> Value {
    let stats = &found.stats;
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
    let outboxes: Vec<_> = stats
        .outboxes
        .iter()
        .map(|outbox| {
            json!({
                "name": outbox.name,
                "sent": outbox.sent,
                "acknowledged": outbox.acknowledged,
                "waiting": outbox.waiting,
                "oldest_at": outbox.oldest_at.map(rfc3339),
            })
        })
        .collect();
    let letters = stats.scopes.iter();
    let dead_letters: Map<_, _> = letters
        .map(|scope| (scope.name.clone(), json!(scope.dead_letters)))
        .collect();
    json!({
        "as_of": {
            "commit": found.as_of.commit,
            "durable": found.as_of.durable,
            "at": rfc3339(found.as_of.at),
            "open_by": found.as_of.open_by,
        },
        "scopes": found.scopes,
        "switches": switched(found).map(|(scope, what)| json!([scope, what])).collect::<Vec<_>>(),
        "live_ids_estimate": stats.live_ids_estimate,
        "unsealed_ids": stats.unsealed_ids,
        "unsealed_segments": stats.unsealed_segments,
        "in_doubt": stats.prepared.now,
        "in_doubt_oldest_seconds": stats.prepared.oldest.map(|age| age.as_secs()),
        "disk_bytes": stats.disk_bytes,
        "outboxes": outboxes,
        "generations": generations,
        "producers": found.producers,
        "claims": claims_json(stats),
        "dead_letters": dead_letters,
    })
}

/// The scopes that are not as by default, as they were last switched.
fn switched(found: &Found) -> impl Iterator<Item = (&str, &'static str)> {
    found.stats.scopes.iter().filter_map(|scope| {
        let what = match (scope.mode, scope.on_store_error) {
            (Mode::Enforce, OnStoreError::Closed) => return None,
            (Mode::ObserveOnly, OnStoreError::Closed) => "only observes",
            (Mode::Enforce, OnStoreError::Open) => "fails open",
            (Mode::ObserveOnly, OnStoreError::Open) => "only observes, fails open",
        };
        Some((scope.name.as_str(), what))
    })
}

fn claims_json(stats: &Stats) -> Value {
    let group = |group: &ClaimGroup| {
        json!({
            "count": group.count,
            "oldest_s": group.oldest.as_secs_f64(),
        })
    };
    let scopes = stats.scopes.iter();
    let scopes = scopes.filter_map(|scope| Some((scope.name.clone(), scope.claims.as_ref()?)));
    let scopes: Map<_, _> = scopes
        .map(|(name, claims)| {
            let states = json!({
                "held": group(&claims.held),
                "lapsed": group(&claims.lapsed),
                "waiting": group(&claims.waiting),
                "unknown": group(&claims.unknown),
            });
            (name, states)
        })
        .collect();
    Value::Object(scopes)
}

/// A line for each scope that has claims or dead letters.
fn work(stats: &Stats) -> Vec<String> {
    let cell = |group: ClaimGroup| match group.count {
        0 => "0".to_string(),
        n => format!("{n}, oldest {}", span(group.oldest)),
    };
    let has_work = |s: &&ScopeStats| s.dead_letters > 0 || s.claims.is_some();
    let rows: Vec<_> = stats
        .scopes
        .iter()
        .filter(has_work)
        .map(|scope| {
            let claims = scope.claims.unwrap_or_default();
            vec![
                scope.name.clone(),
                cell(claims.held),
                cell(claims.lapsed),
                cell(claims.waiting),
                cell(claims.unknown),
                scope.dead_letters.to_string(),
            ]
        })
        .collect();
    let columns = [
        ("claims of", false),
        ("held", true),
        ("lapsed", true),
        ("waiting", true),
        ("unknown", true),
        ("dead letters", true),
    ];
    match rows[..] {
        [] => Vec::new(),
        _ => table::lines(&columns, &rows),
    }
}

fn text(found: &Found) -> Vec<String> {
    let stats = &found.stats;
    let scopes = match &found.scopes[..] {
        [] => "none".to_string(),
        scopes => scopes.join(", "),
    };
    let switches: Vec<String> = switched(found)
        .map(|(scope, what)| format!("{scope}: {what}"))
        .collect();
    let rows = [
        ("scopes", scopes),
        (
            "ids (estimate)",
            HumanCount(stats.live_ids_estimate).to_string(),
        ),
        ("not sealed", HumanCount(stats.unsealed_ids).to_string()),
        ("on disk", HumanBytes(stats.disk_bytes).to_string()),
        ("generations", stats.generations.len().to_string()),
        ("in doubt", in_doubt(&stats.prepared)),
        ("producers", HumanCount(found.producers).to_string()),
    ];
    let switches = (!switches.is_empty()).then(|| ("switches", switches.join(", ")));
    let rows = rows
        .into_iter()
        .chain(switches)
        .map(|(name, value)| format!("{name:16}{value}"));
    let outboxes = stats.outboxes.iter().map(outbox);
    rows.chain(outboxes)
        .chain(work(stats))
        .chain([freshness(&found.as_of)])
        .collect()
}

/// What waits in an outbox, in one line.
fn outbox(outbox: &OutboxStats) -> String {
    let waiting = HumanCount(outbox.waiting);
    let since = outbox.oldest_at.map(rfc3339);
    let since = since.map_or_else(String::new, |at| format!(", the first since {at}"));
    format!("{:16}{}: {waiting} waiting{since}", "outbox", outbox.name)
}

/// How many transactions are in doubt, and for how long.
fn in_doubt(prepared: &PreparedStats) -> String {
    match prepared.oldest {
        None => "none".to_string(),
        Some(age) => format!("{}, the oldest for {}", prepared.now, HumanDuration(age)),
    }
}

fn generations(generations: &[GenerationStats]) -> Vec<String> {
    let rows: Vec<Vec<String>> = generations
        .iter()
        .map(|g| {
            vec![
                g.ends_at.map_or_else(|| "never".to_string(), rfc3339),
                g.class.to_string(),
                g.runs.to_string(),
                HumanCount(g.ids_estimate).to_string(),
                HumanBytes(g.disk_bytes).to_string(),
            ]
        })
        .collect();
    let columns = [
        ("ends at", false),
        ("class", true),
        ("runs", true),
        ("ids", true),
        ("on disk", true),
    ];
    table::lines(&columns, &rows)
}
