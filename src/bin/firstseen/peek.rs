//! `peek`: what is known about ids, without deciding anything.

use crate::args::Peek;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{self, Lines};

pub(crate) fn run(args: &Peek) -> Result<Ending, Failure> {
    let ids = place::ids(&args.ids)?;
    let store = place::store(&args.place.store)?;
    let scope = place::scope(&store, &args.place.scope)?;
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for id in &ids {
        let sighting = scope.peek(id)?;
        if sighting.is_none() {
            ending = Ending::NotKnown;
        }
        lines.print(&if args.place.json {
            show::sighting_json(id, sighting.as_ref()).to_string()
        } else {
            show::sighting_text(id, sighting.as_ref())
        })?;
    }
    lines.finish()?;
    drop(scope);
    store.close()?;
    Ok(ending)
}
