//! `plan`: the library's sizing model, for people and programs.

use firstseen::Load;
use indicatif::HumanCount;
use serde_json::json;

use crate::args::Plan;
use crate::failure::{Ending, Failure};
use crate::show::Lines;
use crate::sizes::text as size;
use crate::table;

pub(crate) fn run(args: &Plan) -> Result<Ending, Failure> {
    let mut load = Load::new(args.rate, args.id_bytes, args.retention);
    load = load.extra_bytes(args.extra_bytes);
    load = args.horizon.map_or(load, |horizon| load.horizon(horizon));
    load = args.disk.map_or(load, |bytes| load.disk(bytes));
    load = args.memory.map_or(load, |bytes| load.memory(bytes));
    let plan = load.plan()?;
    let mut lines = Lines::new();
    if args.json {
        lines.print(&as_json(&plan).to_string())?;
    } else {
        for line in text(&plan) {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    Ok(match plan.findings.is_empty() {
        true => Ending::Done,
        false => Ending::DoesNotFit,
    })
}

fn as_json(plan: &firstseen::Plan) -> serde_json::Value {
    json!({
        "ids": plan.ids,
        "slice_s": plan.slice.as_secs_f64(),
        "generations": plan.generations,
        "ids_on_disk": plan.ids_on_disk,
        "ids_on_disk_most": plan.ids_on_disk_most,
        "disk_bytes": plan.disk_bytes,
        "disk_bytes_most": plan.disk_bytes_most,
        "merge_bytes": plan.merge_bytes,
        "wal_bytes": plan.wal_bytes,
        "disk_bytes_needed": plan.disk_bytes_needed,
        "filter_bytes": plan.filter_bytes,
        "index_bytes": plan.index_bytes,
        "other_memory_bytes": plan.other_memory_bytes,
        "memory_bytes_needed": plan.memory_bytes_needed,
        "generations_unfiltered": plan.generations_unfiltered,
        "findings": plan.findings,
    })
}

fn text(plan: &firstseen::Plan) -> Vec<String> {
    let range = |average, most| format!("{average}, at most {most}");
    let rows = [
        ("ids remembered", HumanCount(plan.ids).to_string()),
        (
            "ids on disk",
            range(
                HumanCount(plan.ids_on_disk).to_string(),
                HumanCount(plan.ids_on_disk_most).to_string(),
            ),
        ),
        (
            "disk for ids",
            range(size(plan.disk_bytes), size(plan.disk_bytes_most)),
        ),
        ("largest merge", format!("{} more", size(plan.merge_bytes))),
        (
            "write-ahead log",
            format!("{} at most", size(plan.wal_bytes)),
        ),
        ("disk to provide", size(plan.disk_bytes_needed)),
        ("filters for all", size(plan.filter_bytes)),
        ("page index", size(plan.index_bytes)),
        (
            "other memory",
            format!(
                "{} (block cache, unsealed ids)",
                size(plan.other_memory_bytes)
            ),
        ),
        ("memory for all", size(plan.memory_bytes_needed)),
        (
            "generations",
            format!(
                "{}, each {:.1} h wide",
                plan.generations,
                plan.slice.as_secs_f64() / 3600.0
            ),
        ),
    ];
    let rows = rows
        .into_iter()
        .map(|(name, value)| format!("{name:17}{value}"));
    let findings = plan.findings.iter();
    let findings = findings.map(|finding| table::alarming(&format!("! {finding}")));
    rows.chain(findings).collect()
}
