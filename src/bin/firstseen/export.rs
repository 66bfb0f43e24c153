//! `export`: the remembered ids of a scope as JSONL, which `import` reads.

use std::ops::Bound;

use serde_json::json;

use crate::args::Export;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{Lines, hex, id_text};
use crate::stop;
use crate::time::rfc3339;

pub(crate) fn run(args: &Export) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let scope = place::scope(&store, &args.scope)?;
    stop::catch()?;
    let since = args.times.since.map_or(Bound::Unbounded, Bound::Included);
    let until = args.times.until.map_or(Bound::Unbounded, Bound::Excluded);
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for record in scope.records((since, until))? {
        let record = record?;
        let line = json!({
            "id": id_text(&record.id),
            "hex": hex(&record.id),
            "first_seen_at": rfc3339(record.seen.first_seen_at()),
            "expires_at": record.expires_at.map(rfc3339),
            "source": record.seen.source(),
        });
        lines.print(&line.to_string())?;
        if stop::requested() {
            ending = Ending::Interrupted;
            break;
        }
    }
    lines.finish()?;
    drop(scope);
    store.close()?;
    Ok(ending)
}
