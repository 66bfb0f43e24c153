//! `in-doubt`: prepared transactions that have not ended, listed and ended by hand.
//!
//! Listing works on a store that another process has open. Ending opens the store, and leaves a
//! row in the audit.

use std::os::unix::ffi::OsStrExt;

use firstseen::{ErrorKind, InDoubt, Outcome, Store};
use serde_json::{Value, json};

use crate::args::{EndInDoubt, InDoubt as Args, InDoubtAct};
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{Lines, hex, id_text};
use crate::time::rfc3339;

pub(crate) fn run(args: &Args) -> Result<Ending, Failure> {
    match &args.act {
        InDoubtAct::List { store, json } => {
            let store = place::look(store)?;
            let mut lines = Lines::new();
            for doubt in store.in_doubt()? {
                lines.print(&match json {
                    true => line(&doubt).to_string(),
                    false => text(&doubt),
                })?;
            }
            lines.finish()?;
            store.close()?;
            Ok(Ending::Done)
        }
        InDoubtAct::Commit(args) => end(args, "committed", |store, txn, why| {
            store.commit_prepared_by_hand(txn, why)
        }),
        InDoubtAct::Abort(args) => end(args, "aborted", |store, txn, why| {
            store.abort_prepared(txn, why)
        }),
    }
}

fn line(doubt: &InDoubt) -> Value {
    json!({
        "txn": id_text(&doubt.txn),
        "hex": hex(&doubt.txn),
        "prepared_at": rfc3339(doubt.prepared_at),
        "ids": doubt.ids,
        "writes": doubt.writes,
        "bytes": doubt.bytes,
        "scopes": doubt.scopes,
        "tables": doubt.tables,
    })
}

fn text(doubt: &InDoubt) -> String {
    let (at, txn) = (rfc3339(doubt.prepared_at), id_text(&doubt.txn));
    let places = [&doubt.scopes[..], &doubt.tables[..]].concat().join(", ");
    let (ids, writes) = (doubt.ids, doubt.writes);
    format!("{at}  {txn}  {ids} ids, {writes} rows  in {places}")
}

/// Ends transactions, one audited commit each.
fn end(
    args: &EndInDoubt,
    done: &str,
    act: impl Fn(&Store, &[u8], &str) -> firstseen::Result<Outcome>,
) -> Result<Ending, Failure> {
    let names = args.txns.iter().map(|name| match args.hex {
        false => Ok(name.as_bytes().to_vec()),
        true => place::unhex(name.as_bytes()).ok_or_else(|| {
            let name = name.to_string_lossy();
            Failure::Usage(format!("{name:?}: not hexadecimal digits, two a byte"))
        }),
    });
    let names = names.collect::<Result<Vec<_>, _>>()?;
    let store = place::store_as(&args.store, &place::actor(&args.actor))?;
    let (mut lines, mut ending) = (Lines::new(), Ending::Done);
    for name in &names {
        let ended = match act(&store, name, &args.why) {
            Ok(outcome) => Some(outcome),
            Err(error) if error.kind() == ErrorKind::UnknownTransaction => None,
            Err(error) => {
                lines.finish()?;
                return Err(error.into());
            }
        };
        let txn = id_text(name);
        lines.print(&match (&ended, args.json) {
            (Some(outcome), true) => json!({
                "txn": txn,
                "hex": hex(name),
                done: true,
                "before": outcome.is_repeat,
                "ids": outcome.ids,
            })
            .to_string(),
            (None, true) => json!({ "txn": txn, "hex": hex(name), done: false }).to_string(),
            (Some(outcome), false) if outcome.is_repeat => format!("{done} before  {txn}"),
            (Some(_), false) => format!("{done}  {txn}"),
            (None, false) => format!("not known  {txn}"),
        })?;
        if ended.is_none() {
            ending = Ending::NotKnown;
        }
    }
    lines.finish()?;
    store.close()?;
    Ok(ending)
}
