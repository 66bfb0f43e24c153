//! `scan`: the ids of a scope that are still remembered, in the store's order of ids.
//!
//! It streams: memory does not grow with the scope.

use std::ops::Bound;

use crate::args::Scan;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{self, Lines};
use crate::stop;

pub(crate) fn run(args: &Scan) -> Result<Ending, Failure> {
    let store = place::look(&args.place.store)?;
    let scope = place::scope(&store, &args.place.scope)?;
    stop::catch()?;
    let since = args.since.map_or(Bound::Unbounded, Bound::Included);
    let until = args.until.map_or(Bound::Unbounded, Bound::Excluded);
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for found in scope.scan((since, until))? {
        let (id, sighting) = found?;
        lines.print(&if args.place.json {
            show::sighting_json(&id, Some(&sighting)).to_string()
        } else {
            show::sighting_text(&id, Some(&sighting))
        })?;
        if stop::requested() {
            ending = Ending::Interrupted;
            break;
        }
    }
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(ending)
}
