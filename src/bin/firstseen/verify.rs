//! `verify`: checks a store that nobody has open, and changes nothing in it.

use firstseen::{Checked, Fault, Options, Progress, Report};
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use serde_json::{Value, json};

use crate::args::Verify;
use crate::failure::{Ending, Failure};
use crate::progress;
use crate::show::Lines;

/// The bar is moved so often, in bytes.
const SHOWN_EVERY: u64 = 4 << 20;

pub(crate) fn run(args: &Verify) -> Result<Ending, Failure> {
    let bar = progress::bytes();
    let mut shown = 0;
    let checked = firstseen::verify(&args.store, &Options::new(), |progress| {
        if progress.bytes - shown >= SHOWN_EVERY {
            shown = progress.bytes;
            show(&bar, &progress);
        }
    });
    bar.finish_and_clear();
    let report = checked.map_err(Failure::NotChecked)?;
    let mut lines = Lines::new();
    if args.json {
        lines.print(&json(&report).to_string())?;
    } else {
        for line in text(&report) {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    Ok(if report.is_sound() {
        Ending::Done
    } else {
        Ending::Damaged
    })
}

fn show(bar: &ProgressBar, progress: &Progress<'_>) {
    bar.set_length(progress.bytes_total.max(progress.bytes));
    bar.set_message(progress.place.to_string());
    bar.set_position(progress.bytes);
}

fn json(report: &Report) -> Value {
    let fault = |fault: &Fault| {
        json!({
            "area": fault.area.to_string(),
            "place": fault.place,
            "what": fault.what,
            "remedy": fault.remedy.to_string(),
        })
    };
    let Checked {
        table_files,
        bytes,
        commits,
        unsealed_ids,
        runs,
        sealed_ids,
        filtered_ids,
        rows,
        ..
    } = report.checked;
    json!({
        "sound": report.is_sound(),
        "faults": report.faults.iter().map(fault).collect::<Vec<_>>(),
        "notes": report.notes,
        "checked": {
            "table_files": table_files,
            "bytes": bytes,
            "commits": commits,
            "unsealed_ids": unsealed_ids,
            "runs": runs,
            "sealed_ids": sealed_ids,
            "filtered_ids": filtered_ids,
            "rows": rows,
        },
    })
}

fn text(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for fault in &report.faults {
        lines.push(format!("fault   {fault}"));
        lines.push(format!("        {}", fault.remedy));
    }
    lines.extend(report.notes.iter().map(|note| format!("note    {note}")));
    let checked = &report.checked;
    let count = HumanCount;
    lines.push(format!(
        "checked {} table files ({}), {} commits, {} ids, {} rows",
        count(checked.table_files),
        HumanBytes(checked.bytes),
        count(checked.commits),
        count(checked.unsealed_ids + checked.sealed_ids),
        count(checked.rows),
    ));
    lines.push(match report.faults.len() {
        0 => "sound".to_string(),
        1 => "1 fault".to_string(),
        faults => format!("{faults} faults"),
    });
    lines
}
