//! `export`: the remembered ids of a scope as JSONL, with what is kept with them, which `import`
//! reads.

use std::ops::Bound;

use firstseen::IdState;
use serde_json::json;

use crate::args::Export;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::progress;
use crate::show::{Lines, hex, id_text, outcome};
use crate::stop;
use crate::time::rfc3339;

pub(crate) fn run(args: &Export) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let scope = place::scope(&store, &args.scope)?;
    stop::catch()?;
    let since = args.times.since.map_or(Bound::Unbounded, Bound::Included);
    let until = args.times.until.map_or(Bound::Unbounded, Bound::Excluded);
    let bar = progress::printed_ids(store.stats()?.live_ids_estimate);
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for record in scope.records((since, until))? {
        let record = record?;
        let mut line = json!({
            "id": id_text(&record.id),
            "hex": hex(&record.id),
            "first_seen_at": rfc3339(record.seen.first_seen_at()),
            "expires_at": record.expires_at.map(rfc3339),
            "source": record.seen.source(),
        });
        // What few ids have.
        let seen = &record.seen;
        if let Some(result) = seen.result() {
            line["result_hex"] = json!(hex(result));
        }
        if let Some((fingerprint, key)) = &record.fingerprint {
            line["fingerprint"] = json!(hex(fingerprint));
            line["payload_key"] = json!(hex(&key.to_bytes()));
        }
        if seen.was_refused() {
            line["refused"] = json!(true);
        }
        if seen.state() != IdState::Done {
            line["outcome"] = json!(outcome(seen));
        }
        if let Some(attempt) = seen.attempt() {
            line["attempt"] = json!(attempt);
        }
        lines.print(&line.to_string())?;
        bar.inc(1);
        if stop::requested() {
            ending = Ending::Interrupted;
            break;
        }
    }
    bar.finish_and_clear();
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(ending)
}
