//! The start of a run: opens everything, and decides between a new run and a resumed one.
//!
//! Nothing is changed before all of it is known to fit: the key is resolved against the header
//! first, the output is cut last.

use std::path::Path;

use firstseen::{Options, Store};

use super::Run;
use crate::args::{Dedup, Format};
use crate::failure::Failure;
use crate::input::Input;
use crate::job::{self, State};
use crate::keys::Keys;
use crate::output::Output;
use crate::pending::Pending;
use crate::place;
use crate::progress::Progress;
use crate::rows::{Next, Rows};
use crate::stop;

/// How a run relates to the one before.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Beginning {
    Anew,
    Resumed,
    /// A pipe's: from its start again, behind the rows an unfinished run committed.
    Behind,
}

/// Opens everything. None if Ctrl-C came first.
pub(super) fn start(args: &Dedup) -> Result<Option<Run<'_>>, Failure> {
    let input = Input::open(&args.input)?;
    let mut rows = Rows::new(input, args.input.clone(), args.format);
    let Some((keys, header)) = keys(args, &mut rows)? else {
        return Ok(None);
    };

    let store = Store::open(
        &args.store,
        Options::new().durability(args.durability.into()),
    )?;
    let scope = place::scope_for_writing(&store, &args.scope, args.retention)?;
    let mut output = Output::open(&args.output)?;
    let mut rejects = args.rejects.as_deref().map(Output::open).transpose()?;
    refuse_one_file_twice(args, &rows, &output, rejects.as_ref())?;

    let source = source(args, &rows, &output);
    let (state, beginning) = state(args, &store, source.as_deref(), &rows)?;
    if beginning == Beginning::Resumed {
        rows.seek(state.offset)?;
    }
    output.start_at(state.output_bytes)?;
    if let Some(rejects) = &mut rejects {
        rejects.start_at(state.rejects_bytes)?;
        rejects.sync_name()?;
    }
    if output.is_empty() {
        output.push(&header);
    }
    output.sync_name()?;

    let bytes = rows.input().as_file().map(|file| file.bytes());
    let quiet = output.is_terminal();
    let progress = Progress::new(bytes, state.counts.rows, quiet);
    match beginning {
        Beginning::Anew => {}
        Beginning::Resumed => {
            progress.say(&format!("resuming after row {}", state.counts.rows));
        }
        Beginning::Behind => {
            progress.say("an earlier run did not finish; writing behind the rows it committed");
        }
    }
    let (batch, pending) = (store.batch(), Pending::default());
    Ok(Some(Run {
        args,
        rows,
        header,
        keys,
        store,
        scope,
        batch,
        output,
        rejects,
        source,
        state,
        pending,
        progress,
    }))
}

/// The header, if there is to be one, and the key resolved against it. None if Ctrl-C came first.
fn keys(args: &Dedup, rows: &mut Rows) -> Result<Option<(Keys, Vec<u8>)>, Failure> {
    let (key, format) = (&args.key, args.format);
    if format == Format::Jsonl || args.no_header {
        return Ok(Some((Keys::new(key, format, None)?, Vec::new())));
    }
    loop {
        match rows.advance()? {
            Next::Row => {
                let keys = Keys::new(key, format, Some(rows.record()))?;
                return Ok(Some((keys, rows.raw().to_vec())));
            }
            // An empty input has no rows that would need a key.
            Next::End => return Ok(Some((Keys::WholeRow, Vec::new()))),
            Next::Pause if stop::requested() => return Ok(None),
            Next::Pause => {}
            Next::TooLong => return Err(Failure::Usage("the header never ends".to_string())),
        }
    }
}

fn source(args: &Dedup, rows: &Rows, output: &Output) -> Option<String> {
    let format = match (args.format, args.no_header) {
        (Format::Jsonl, _) => "jsonl",
        (Format::Csv, false) => "csv",
        (Format::Csv, true) => "csv without header",
    };
    let input = match rows.input() {
        Input::File(file) => Some(file.path()),
        Input::Pipe(_) => None,
    };
    let output = output.file_path()?;
    Some(job::source(input, output, &args.key, &args.scope, format))
}

/// The state to begin with.
fn state(
    args: &Dedup,
    store: &Store,
    source: Option<&str>,
    rows: &Rows,
) -> Result<(State, Beginning), Failure> {
    let last = source
        .map(|source| store.resume_point(source))
        .transpose()?
        .flatten();
    let last = last
        .map(|position| State::decode(&position))
        .transpose()?
        .unwrap_or_default();
    if last.run == 0 || last.finished || args.restart {
        return Ok((last.next_run(), Beginning::Anew));
    }
    let Some(file) = rows.input().as_file() else {
        let State {
            output_bytes,
            rejects_bytes,
            ..
        } = last;
        let state = State {
            output_bytes,
            rejects_bytes,
            ..last.next_run()
        };
        return Ok((state, Beginning::Behind));
    };
    let same = file.bytes() >= last.offset
        && file
            .fingerprint(last.offset)
            .is_ok_and(|now| now == last.fingerprint);
    if !same {
        return Err(Failure::File(format!(
            "{} is not what this unfinished job has read {} bytes of: put it back, or give the \
             job up with --restart",
            args.input.display(),
            last.offset
        )));
    }
    Ok((last, Beginning::Resumed))
}

fn refuse_one_file_twice(
    args: &Dedup,
    rows: &Rows,
    output: &Output,
    rejects: Option<&Output>,
) -> Result<(), Failure> {
    let input = rows.input().as_file().map(|file| file.id());
    let output = output.id()?;
    let rejects = rejects.map(Output::id).transpose()?.flatten();
    let twice = |a: Option<(u64, u64)>, b| a.is_some() && a == b;
    let stdout_twice = args.output == Path::new("-") && args.rejects == Some("-".into());
    if stdout_twice || twice(input, output) || twice(input, rejects) || twice(output, rejects) {
        return Err(Failure::Usage(
            "--input, --output and --rejects must be different files".to_string(),
        ));
    }
    Ok(())
}
