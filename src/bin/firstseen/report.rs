//! `report`: one HTML page about a store, that a person reads and keeps.
//!
//! A store keeps when ids were first seen, not what became of duplicates: those are counted by
//! the process that has it open. So the plots of sizes and ids come from the store; verdicts over
//! time come from samples, where somebody took them (`--samples`).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use firstseen::{Store, Top};
use indicatif::{HumanBytes, HumanCount};
use serde_json::Value;

use crate::args::Report;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::plot::{bars, escape, lines};
use crate::show::Lines;
use crate::stat::{Found, freshness, look};
use crate::table::span;
use crate::time::rfc3339;

/// Bars of the plot of first sights.
const SIGHTS: usize = 60;

/// Light and dark as the reader's system is; what is wider than the page scrolls by itself.
const STYLE: &str = "\
:root{color-scheme:light dark;--page:#fff;--text:#222;--soft:#555;--grid:#ddd;\
--c0:#0b6e99;--c1:#c23b4e;--c2:#3f7d5c;--c3:#7a5690}\
@media(prefers-color-scheme:dark){:root{--page:#16181c;--text:#e4e6ea;--soft:#a9afb9;\
--grid:#3a3f47;--c0:#5bb8e0;--c1:#f0808e;--c2:#7fc79d;--c3:#c3a0d8}}\
body{font:15px/1.5 system-ui,sans-serif;max-width:900px;margin:2em auto;padding:0 1em;\
background:var(--page);color:var(--text);overflow-wrap:anywhere}\
h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .5em}\
.wide{overflow-x:auto;overflow-wrap:normal}table{border-collapse:collapse}\
td,th{padding:.2em 1.2em .2em 0;text-align:left;vertical-align:top}\
tr+tr>*{border-top:1px solid var(--grid)}\
td.n,th.n{text-align:right;white-space:nowrap;font-variant-numeric:tabular-nums}\
svg{display:block;width:100%;min-width:620px}svg text{font-size:12px;fill:var(--soft)}\
.grid{stroke:var(--grid)}.legend,.fresh{color:var(--soft)}.legend span{margin-right:1em}";

pub(crate) fn run(args: &Report) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let found = look(&store)?;
    let samples = match &args.samples {
        Some(path) => samples(path)?,
        None => Vec::new(),
    };
    let page = page(&args.store, &store, &found, &samples)?;
    store.close()?;
    if args.output == Path::new("-") {
        let mut lines = Lines::new();
        lines.print(&page)?;
        lines.finish()?;
    } else {
        let written = fs::write(&args.output, page);
        written.map_err(|error| Failure::file(&args.output, &error))?;
    }
    Ok(Ending::Done)
}

/// The objects of a file, one a line.
fn samples(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(path).map_err(|error| Failure::file(path, &error))?;
    let read = |(number, line): (usize, &str)| {
        serde_json::from_str(line).map_err(|error| {
            Failure::File(format!("{}: line {}: {error}", path.display(), number + 1))
        })
    };
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim().is_empty())
        .map(read)
        .collect()
}

fn page(dir: &Path, store: &Store, found: &Found, samples: &[Value]) -> Result<String, Failure> {
    let name = escape(&dir.display().to_string());
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang='en'><head><meta charset='utf-8'>\
         <meta name='viewport' content='width=device-width'><title>firstseen: {name}</title>\
         <style>{STYLE}</style></head><body>\n<h1>{name}</h1>\n<p class='fresh'>{}</p>\n",
        escape(&freshness(&found.as_of))
    );
    summary(&mut page, found);
    work(&mut page, found);
    if let Some(top) = store.top()? {
        sources(&mut page, &top);
    }
    generations(&mut page, found);
    for scope in &found.scopes {
        sights(&mut page, store, scope)?;
    }
    let audited = store.audit()?.count();
    let _ = writeln!(page, "<p>Entries in the audit: {audited}</p>");
    over_time(&mut page, samples);
    page.push_str("</body></html>\n");
    Ok(page)
}

fn summary(page: &mut String, found: &Found) {
    let stats = &found.stats;
    let rows = [
        ("scopes", found.scopes.join(", ")),
        (
            "ids (estimate)",
            HumanCount(stats.live_ids_estimate).to_string(),
        ),
        ("not sealed", HumanCount(stats.unsealed_ids).to_string()),
        ("on disk", HumanBytes(stats.disk_bytes).to_string()),
        ("generations", stats.generations.len().to_string()),
        (
            "durable up to commit",
            HumanCount(found.as_of.durable).to_string(),
        ),
    ];
    page.push_str("<table>");
    for (name, value) in rows {
        let value = escape(&value);
        let _ = write!(page, "<tr><th>{name}</th><td>{value}</td></tr>");
    }
    page.push_str("</table>\n");
}

/// A table, its first columns texts, the others numbers.
fn table(page: &mut String, texts: usize, names: &[&str], rows: &[Vec<String>]) {
    let class = |at: usize| if at < texts { "" } else { " class='n'" };
    page.push_str("<div class='wide'><table><tr>");
    for (at, name) in names.iter().enumerate() {
        let _ = write!(page, "<th{}>{name}</th>", class(at));
    }
    page.push_str("</tr>");
    for row in rows {
        page.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let _ = write!(page, "<td{}>{}</td>", class(at), escape(cell));
        }
        page.push_str("</tr>");
    }
    page.push_str("</table></div>\n");
}

/// Scopes with claims or dead letters.
fn work(page: &mut String, found: &Found) {
    let scopes = found.stats.scopes.iter();
    let busy = scopes.filter(|s| s.claims.is_some() || s.dead_letters > 0);
    let rows: Vec<Vec<String>> = busy
        .map(|scope| {
            let claims = scope.claims.unwrap_or_default();
            let states = [claims.held, claims.lapsed, claims.waiting, claims.unknown];
            let counts = states.map(|group| HumanCount(group.count).to_string());
            let letters = HumanCount(scope.dead_letters).to_string();
            let name = std::iter::once(scope.name.clone());
            name.chain(counts).chain([letters]).collect()
        })
        .collect();
    if !rows.is_empty() {
        page.push_str("<h2>Claims and dead letters</h2>");
        let names = [
            "scope",
            "held",
            "lapsed",
            "waiting",
            "unknown",
            "dead letters",
        ];
        table(page, 1, &names, &rows);
    }
}

/// Where duplicates come from, as it was counted last.
fn sources(page: &mut String, top: &Top) {
    let pairs = top.sources_by_scope.iter().take(20);
    let rows: Vec<Vec<String>> = pairs
        .map(|p| {
            let bounds = [p.at_least(), p.count].map(|n| HumanCount(n).to_string());
            [p.scope.clone(), p.source.clone()]
                .into_iter()
                .chain(bounds)
                .collect()
        })
        .collect();
    let _ = writeln!(
        page,
        "<h2>Top sources of duplicates</h2><p class='legend'>{} in the {} before {}</p>",
        HumanCount(top.duplicates),
        span(top.window),
        rfc3339(top.at)
    );
    if !rows.is_empty() {
        table(page, 2, &["scope", "source", "at least", "at most"], &rows);
    }
}

fn generations(page: &mut String, found: &Found) {
    // The earliest to end first, as time goes on.
    let generations: Vec<_> = found.stats.generations.iter().rev().collect();
    if generations.is_empty() {
        return;
    }
    let ends = |g: &&firstseen::GenerationStats| {
        g.ends_at
            .map_or_else(|| "never".to_string(), |at| minute(&rfc3339(at)))
    };
    let labels: Vec<String> = generations.iter().map(ends).collect();
    let ids: Vec<f64> = generations.iter().map(|g| g.ids_estimate as f64).collect();
    let bytes: Vec<f64> = generations.iter().map(|g| g.disk_bytes as f64).collect();
    page.push_str("<h2>Ids of each generation, by the time it ends</h2>");
    page.push_str(&bars(&labels, &ids, ""));
    page.push_str("<h2>Disk of each generation</h2>");
    page.push_str(&bars(&labels, &bytes, "B"));
    let rows = generations.iter().zip(&labels).map(|(g, label)| {
        vec![
            label.clone(),
            g.class.to_string(),
            g.runs.to_string(),
            HumanCount(g.ids_estimate).to_string(),
            HumanBytes(g.disk_bytes).to_string(),
        ]
    });
    let names = ["ends", "class", "runs", "ids", "on disk"];
    table(page, 1, &names, &rows.collect::<Vec<_>>());
}

/// When the ids of a scope were first seen.
fn sights(page: &mut String, store: &Store, scope: &str) -> Result<(), Failure> {
    let handle = place::scope(store, scope)?;
    let mut sights = Histogram::default();
    for sight in handle.scan(..)? {
        let at = sight?.1.first_seen_at().duration_since(UNIX_EPOCH);
        sights.add(at.map_or(0, |at| at.as_secs()));
    }
    let name = escape(scope);
    let _ = write!(page, "<h2>First sights over time: {name}</h2>");
    let (first, width_s, counts) = sights.bars();
    if counts.is_empty() {
        page.push_str("<p>none</p>");
        return Ok(());
    }
    let label = |at: usize| {
        let seconds = first + at as u64 * width_s;
        let time = rfc3339(UNIX_EPOCH + Duration::from_secs(seconds));
        if width_s < 60 {
            second(&time)
        } else {
            minute(&time)
        }
    };
    let labels: Vec<String> = (0..counts.len()).map(label).collect();
    page.push_str(&bars(&labels, &counts, ""));
    let _ = writeln!(page, "<p class='legend'>ids first seen, by {width_s} s</p>");
    Ok(())
}

/// How often something was at each time, in bounded memory: the times get coarser.
struct Histogram {
    width_s: u64,
    counts: BTreeMap<u64, u64>,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            width_s: 1,
            counts: BTreeMap::new(),
        }
    }
}

impl Histogram {
    const BUCKETS_MAX: usize = 4096;

    fn add(&mut self, second: u64) {
        *self.counts.entry(second / self.width_s).or_default() += 1;
        if self.counts.len() > Histogram::BUCKETS_MAX {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        self.width_s *= 2;
        let mut coarse = BTreeMap::new();
        for (at, count) in std::mem::take(&mut self.counts) {
            *coarse.entry(at / 2).or_default() += count;
        }
        self.counts = coarse;
    }

    /// The first second, the width of a bar in seconds, and the bars: `SIGHTS` at most.
    fn bars(mut self) -> (u64, u64, Vec<f64>) {
        let span = |counts: &BTreeMap<u64, u64>| {
            let (first, last) = (counts.keys().next()?, counts.keys().next_back()?);
            Some((*first, usize::try_from(last - first).unwrap_or(usize::MAX)))
        };
        while span(&self.counts).is_some_and(|(_, span)| span >= SIGHTS) {
            self.coarsen();
        }
        let Some((first, span)) = span(&self.counts) else {
            return (0, self.width_s, Vec::new());
        };
        let mut bars = vec![0.0; span + 1];
        for (at, count) in &self.counts {
            bars[usize::try_from(at - first).unwrap_or(0)] = *count as f64;
        }
        (first * self.width_s, self.width_s, bars)
    }
}

/// What samples say: sizes always, verdicts where they have them.
fn over_time(page: &mut String, samples: &[Value]) {
    let time = |s: &Value| {
        let at = s["as_of"]["at"].as_str().or_else(|| s["at"].as_str());
        at.map_or_else(String::new, |at| {
            at.get(..19).unwrap_or(at).replace('T', " ")
        })
    };
    let labels: Vec<String> = samples.iter().map(time).collect();
    let values = |at: &str| -> Vec<f64> {
        let value = |s: &Value| s.pointer(at).and_then(Value::as_f64).unwrap_or(0.0);
        samples.iter().map(value).collect()
    };
    let has = |at: &str| samples.iter().any(|s| s.pointer(at).is_some());
    let mut plot = |title: &str, names: &[(&str, &str)], unit: &str| {
        let named = names.iter().filter(|(_, at)| has(at));
        let series: Vec<_> = named.map(|(name, at)| (*name, values(at))).collect();
        if !series.is_empty() {
            let _ = write!(page, "<h2>{title}</h2>{}", lines(&labels, &series, unit));
        }
    };
    let ids = [
        ("ids", "/live_ids_estimate"),
        ("not sealed", "/unsealed_ids"),
    ];
    plot("Ids over time", &ids, "");
    plot("Disk over time", &[("table files", "/disk_bytes")], "B");
    let verdicts = [
        ("first seen", "/verdicts/first"),
        ("duplicates", "/verdicts/duplicates"),
        ("in progress", "/verdicts/in_progress"),
        ("refused", "/verdicts/refused"),
    ];
    plot("Verdicts over time", &verdicts, "");
    if has("/verdicts/duplicates") {
        let (firsts, doubles) = (values("/verdicts/first"), values("/verdicts/duplicates"));
        let rate = |(first, double): (&f64, &f64)| {
            let all = first + double;
            if all > 0.0 { 100.0 * double / all } else { 0.0 }
        };
        let rates: Vec<f64> = firsts.iter().zip(&doubles).map(rate).collect();
        let svg = lines(&labels, &[("duplicates", rates)], "%");
        let _ = write!(page, "<h2>Duplicate rate</h2>{svg}");
    }
}

/// A time to the second.
fn second(time: &str) -> String {
    time.get(..19).unwrap_or(time).replace('T', " ")
}

/// A time to the minute.
fn minute(time: &str) -> String {
    time.get(..16).unwrap_or(time).replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_get_coarser_and_none_is_lost() {
        let mut sights = Histogram::default();
        assert!(Histogram::default().bars().2.is_empty());
        for second in 0..20_000 {
            sights.add(1_000_000 + second);
        }
        assert!(sights.counts.len() <= Histogram::BUCKETS_MAX);
        let (first, width_s, bars) = sights.bars();
        assert!(
            bars.len() <= SIGHTS && bars.len() > SIGHTS / 2 - 2,
            "{}",
            bars.len()
        );
        assert!(first <= 1_000_000 && first + width_s > 1_000_000);
        assert!((bars.iter().sum::<f64>() - 20_000.0).abs() < 0.5);
    }
}
