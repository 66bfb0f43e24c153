//! `checkpoint`, `backup` and `restore`.

use firstseen::{Backup, Backups, Options, Progress, copy_store};
use indicatif::{HumanBytes, HumanCount, ProgressBar};
use serde_json::{Value, json};

use crate::args::{self, BackupAct, Checkpoint, Folder, Restore};
use crate::failure::{Ending, Failure};
use crate::progress;
use crate::show::Lines;
use crate::table;
use crate::time::rfc3339;

pub(crate) fn checkpoint(args: &Checkpoint) -> Result<Ending, Failure> {
    let bar = progress::bytes();
    copy_store(&args.store, &args.to, &Options::new(), |at| show(&bar, &at))?;
    bar.finish_and_clear();
    Ok(Ending::Done)
}

pub(crate) fn backup(args: &args::Backup) -> Result<Ending, Failure> {
    match &args.act {
        BackupAct::Create { store, folder } => {
            let backups = Backups::open(&folder.backups)?;
            let bar = progress::bytes();
            let made = backups.create(store, &Options::new(), |at| show(&bar, &at));
            bar.finish_and_clear();
            print(&[made?], folder.json)?;
            Ok(Ending::Done)
        }
        BackupAct::List { folder } => list(folder),
        BackupAct::Verify { folder, id } => verify(folder, *id),
        BackupAct::Prune { folder, keep } => {
            let keep = usize::try_from(*keep).unwrap_or(usize::MAX);
            let pruned = existing(folder)?.prune(keep)?;
            let mut lines = Lines::new();
            lines.print(&if folder.json {
                json!({
                    "backups": pruned.backups, "files": pruned.files, "bytes": pruned.bytes,
                })
                .to_string()
            } else {
                let (backups, files) = (HumanCount(pruned.backups), HumanCount(pruned.files));
                let bytes = HumanBytes(pruned.bytes);
                format!("removed {backups} backups, {files} files, {bytes}")
            })?;
            lines.finish()?;
            Ok(Ending::Done)
        }
    }
}

/// A folder that must be there: only `create` makes one.
fn existing(folder: &Folder) -> Result<Backups, Failure> {
    open(&folder.backups)
}

fn open(dir: &std::path::Path) -> Result<Backups, Failure> {
    if !dir.is_dir() {
        let what = format!("{}: there is no folder of backups here", dir.display());
        return Err(Failure::File(what));
    }
    Ok(Backups::open(dir)?)
}

fn list(folder: &Folder) -> Result<Ending, Failure> {
    let (mut whole, mut damaged) = (Vec::new(), Vec::new());
    for (_, backup) in existing(folder)?.list()? {
        match backup {
            Ok(backup) => whole.push(backup),
            Err(error) => damaged.push(error),
        }
    }
    print(&whole, folder.json)?;
    for error in &damaged {
        eprintln!("firstseen: {error}");
    }
    Ok(match damaged.is_empty() {
        true => Ending::Done,
        false => Ending::Damaged,
    })
}

fn verify(folder: &Folder, only: Option<u64>) -> Result<Ending, Failure> {
    let backups = existing(folder)?;
    let ids: Vec<u64> = match only {
        Some(id) => vec![id],
        None => backups.list()?.into_iter().map(|(id, _)| id).collect(),
    };
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for id in ids {
        let bar = progress::bytes();
        let faults = match backups.verify(id, |at| show(&bar, &at)) {
            Err(error) if error.kind() == firstseen::ErrorKind::Damaged => {
                vec![error.to_string()]
            }
            faults => faults?,
        };
        bar.finish_and_clear();
        if folder.json {
            lines.print(&json!({ "id": id, "faults": faults }).to_string())?;
        } else if faults.is_empty() {
            lines.print(&format!("backup {id} is whole"))?;
        } else {
            for fault in &faults {
                lines.print(&table::alarming(&format!("backup {id}: {fault}")))?;
            }
        }
        if !faults.is_empty() {
            ending = Ending::Damaged;
        }
    }
    lines.finish()?;
    Ok(ending)
}

pub(crate) fn restore(args: &Restore) -> Result<Ending, Failure> {
    let backups = open(&args.from)?;
    let last = || Ok::<_, Failure>(backups.list()?.last().map(|(id, _)| *id));
    let id = match args.id {
        Some(id) => id,
        None => last()?.ok_or_else(|| Failure::File("there is no backup".to_string()))?,
    };
    let bar = progress::bytes();
    let restored = backups.restore(id, &args.to, &Options::new(), |at| show(&bar, &at));
    bar.finish_and_clear();
    print(&[restored?], args.json)?;
    Ok(Ending::Done)
}

fn show(bar: &ProgressBar, at: &Progress<'_>) {
    bar.set_length(at.bytes_total.max(at.bytes));
    bar.set_message(at.place.to_string());
    bar.set_position(at.bytes);
}

fn print(backups: &[Backup], as_json: bool) -> Result<(), Failure> {
    let mut lines = Lines::new();
    if as_json {
        for backup in backups {
            lines.print(&json(backup).to_string())?;
        }
        return lines.finish();
    }
    let columns = [
        ("backup", true),
        ("as of", false),
        ("commit", true),
        ("ids", true),
        ("size", true),
        ("added", true),
        ("replay from", false),
    ];
    let rows: Vec<Vec<String>> = backups
        .iter()
        .map(|b| {
            vec![
                b.id.to_string(),
                rfc3339(b.at),
                HumanCount(b.commit).to_string(),
                HumanCount(b.ids_estimate).to_string(),
                HumanBytes(b.bytes).to_string(),
                HumanBytes(b.bytes_added).to_string(),
                points(b),
            ]
        })
        .collect();
    for line in table::lines(&columns, &rows) {
        lines.print(&line)?;
    }
    lines.finish()
}

/// The first few resume points.
fn points(backup: &Backup) -> String {
    const SHOWN: usize = 3;
    let shown = backup.resume_points.iter().take(SHOWN);
    let mut shown: Vec<String> = shown
        .map(|(source, at)| match (at.as_u64(), at.as_bytes()) {
            (Some(n), _) => format!("{source}={n}"),
            (None, bytes) => format!("{source}={}", bytes.unwrap_or_default().escape_ascii()),
        })
        .map(|point| point.chars().take(60).collect())
        .collect();
    if backup.resume_points.len() > SHOWN {
        shown.push(format!("and {} more", backup.resume_points.len() - SHOWN));
    }
    shown.join(", ")
}

fn json(backup: &Backup) -> Value {
    let points: Vec<Value> = backup
        .resume_points
        .iter()
        .map(|(source, at)| {
            let bytes = at.as_bytes().map(crate::show::hex);
            json!({ "source": source, "number": at.as_u64(), "bytes": bytes })
        })
        .collect();
    json!({
        "id": backup.id,
        "at": rfc3339(backup.at),
        "commit": backup.commit,
        "ids_estimate": backup.ids_estimate,
        "files": backup.files,
        "bytes": backup.bytes,
        "bytes_added": backup.bytes_added,
        "resume_points": points,
    })
}
