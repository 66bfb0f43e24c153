//! `top`: where duplicates come from, as the process that counts them wrote it last.

use firstseen::{Top, TopEntry};
use serde_json::json;

use crate::args::TopArgs;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::Lines;
use crate::table::{self, span};
use crate::time::rfc3339;

pub(crate) fn run(args: &TopArgs) -> Result<Ending, Failure> {
    let store = place::look(&args.look.store)?;
    let top = store.top()?;
    let mut lines = Lines::new();
    let ending = match &top {
        Some(top) => {
            show(args, top, &mut lines)?;
            Ending::Done
        }
        None => {
            eprintln!(
                "firstseen: nothing is counted here: the service that has the store open must \
                 set `top_sources`, and run for ten seconds or close the store"
            );
            Ending::NotKnown
        }
    };
    lines.finish()?;
    place::end_look(store)?;
    Ok(ending)
}

fn show(args: &TopArgs, top: &Top, lines: &mut Lines) -> Result<(), Failure> {
    let at = rfc3339(top.at);
    if args.look.json {
        let entry = |e: &TopEntry| json!({ "name": e.name, "count": e.count, "error": e.error });
        let all = |entries: &[TopEntry]| -> Vec<_> {
            entries.iter().take(args.show).map(entry).collect()
        };
        let pairs = top.sources_by_scope.iter().take(args.show);
        let pairs: Vec<_> = pairs
            .map(|p| {
                json!({
                    "scope": p.scope,
                    "source": p.source,
                    "count": p.count,
                    "error": p.error,
                })
            })
            .collect();
        return lines.print(
            &json!({
                "at": at,
                "window_s": top.window.as_secs_f64(),
                "duplicates": top.duplicates,
                "with_source": top.with_source,
                "scopes": all(&top.scopes),
                "sources": all(&top.sources),
                "sources_by_scope": pairs,
            })
            .to_string(),
        );
    }
    let bounds = |least: u64, most: u64| [least.to_string(), most.to_string()];
    let scopes = top.scopes.iter().take(args.show).map(|e| {
        let [least, most] = bounds(e.at_least(), e.count);
        vec![e.name.clone(), "(all)".to_string(), least, most]
    });
    let pairs = top.sources_by_scope.iter().take(args.show).map(|p| {
        let [least, most] = bounds(p.at_least(), p.count);
        vec![p.scope.clone(), p.source.clone(), least, most]
    });
    let columns = [
        ("scope", false),
        ("source", false),
        ("at least", true),
        ("at most", true),
    ];
    for line in table::lines(&columns, &scopes.chain(pairs).collect::<Vec<_>>()) {
        lines.print(&line)?;
    }
    let (all, sourced, window) = (top.duplicates, top.with_source, span(top.window));
    lines.print(&format!(
        "{all} duplicates in the {window} before {at}, {sourced} of them with a source"
    ))
}
