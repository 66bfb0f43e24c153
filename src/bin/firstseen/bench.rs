//! `bench`: a quick self-test of the machine: new ids a second, and how long a sync takes.
//!
//! It measures a store of its own in a directory of the disk in question, and removes it. Ids are
//! pseudo-random; what counts is how they lie, not who could guess them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use firstseen::{Durability, Options, Policy, Scope, Store, days};
use indicatif::HumanCount;
use serde_json::json;

use crate::args::Bench;
use crate::failure::{Ending, Failure};
use crate::show::Lines;
use crate::stop;

/// Ids of a large batch.
const BATCH: usize = 1000;
/// Above this a sync for each message can't keep up with anything.
const SLOW_SYNC: Duration = Duration::from_millis(5);
/// Below this a disk most likely doesn't sync at all.
const UNLIKELY_SYNC: Duration = Duration::from_micros(15);

/// A directory that goes with this value.
struct Scratch(PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Ids that follow from a counter.
struct Ids(u64);

impl Ids {
    fn next(&mut self) -> [u8; 16] {
        let mut id = [0; 16];
        for half in id.chunks_exact_mut(8) {
            self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            half.copy_from_slice(&(mixed ^ (mixed >> 27)).to_le_bytes());
        }
        id
    }
}

/// How long each call took, and how many ids they were.
struct Measured {
    ids: u64,
    in_all: Duration,
    calls: Vec<Duration>,
}

impl Measured {
    fn per_second(&self) -> u64 {
        (self.ids as f64 / self.in_all.as_secs_f64().max(1e-9)) as u64
    }

    fn quantile(&self, part: f64) -> Duration {
        let at = (self.calls.len() as f64 * part) as usize;
        self.calls
            .get(at.min(self.calls.len().saturating_sub(1)))
            .copied()
            .unwrap_or_default()
    }
}

pub(crate) fn run(args: &Bench) -> Result<Ending, Failure> {
    stop::catch()?;
    let dir = args
        .dir
        .join(format!("firstseen-bench-{}", std::process::id()));
    std::fs::create_dir(&dir).map_err(|error| Failure::file(&dir, &error))?;
    let scratch = Scratch(dir);
    let mut ids = Ids(u64::from(std::process::id()));
    let at = |name: &str| scratch.0.join(name);
    let batches = measure(&at("batches"), Durability::Written, args.time, |scope| {
        let batch: Vec<[u8; 16]> = (0..BATCH).map(|_| ids.next()).collect();
        scope.insert_all(&batch).map(|_| BATCH as u64)
    })?;
    let singles = measure(&at("singles"), Durability::Written, args.time, |scope| {
        scope.insert(&ids.next()).map(|_| 1)
    })?;
    let synced = measure(&at("synced"), Durability::Synced, args.time, |scope| {
        scope.insert(&ids.next()).map(|_| 1)
    })?;
    let advice = advice(&synced);
    let mut lines = Lines::new();
    let us = |d: Duration| d.as_secs_f64() * 1e6;
    if args.json {
        let object = json!({
            "ids_per_s_batch1000": batches.per_second(),
            "batch1000_us": { "p50": us(batches.quantile(0.5)), "p99": us(batches.quantile(0.99)) },
            "ids_per_s_single": singles.per_second(),
            "sync_us": { "p50": us(synced.quantile(0.5)), "p99": us(synced.quantile(0.99)) },
            "advice": advice,
        });
        lines.print(&object.to_string())?;
    } else {
        let rows = [
            ("batches of 1000", &batches),
            ("single", &singles),
            ("single, synced", &synced),
        ];
        for (name, m) in rows {
            lines.print(&format!(
                "{name:16}{:>11} ids/s, a call {:.0} µs (p99 {:.0} µs)",
                HumanCount(m.per_second()).to_string(),
                us(m.quantile(0.5)),
                us(m.quantile(0.99)),
            ))?;
        }
        for line in advice {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    Ok(match stop::requested() {
        true => Ending::Interrupted,
        false => Ending::Done,
    })
}

#[expect(clippy::disallowed_methods, reason = "what is measured is real time")]
fn measure(
    dir: &Path,
    level: Durability,
    time: Duration,
    mut call: impl FnMut(&Scope) -> firstseen::Result<u64>,
) -> Result<Measured, Failure> {
    let store = Store::open(dir, Options::new().durability(level))?;
    let scope = store.scope("bench", Policy::remember(days(7)))?;
    let mut measured = Measured {
        ids: 0,
        in_all: Duration::ZERO,
        calls: Vec::new(),
    };
    let begun = Instant::now();
    while begun.elapsed() < time && !stop::requested() {
        let at = Instant::now();
        measured.ids += call(&scope)?;
        measured.calls.push(at.elapsed());
    }
    measured.in_all = begun.elapsed();
    measured.calls.sort_unstable();
    drop(scope);
    store.close()?;
    Ok(measured)
}

fn advice(synced: &Measured) -> Vec<String> {
    let sync = synced.quantile(0.5);
    let mut advice = Vec::new();
    if sync < UNLIKELY_SYNC {
        advice.push(
            "a sync takes next to no time: a memory file system, or a disk that does not sync; \
             then nothing here survives a loss of power"
                .to_string(),
        );
    }
    if sync > SLOW_SYNC {
        advice.push(format!(
            "a sync takes {:.1} ms: use `Written` and one `sync()` before each acknowledgement of \
             a batch, or large `Synced` batches",
            sync.as_secs_f64() * 1e3
        ));
    }
    advice
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_do_not_repeat() {
        let mut ids = Ids(1);
        let mut seen: Vec<_> = (0..10_000).map(|_| ids.next()).collect();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), 10_000);
    }
}
