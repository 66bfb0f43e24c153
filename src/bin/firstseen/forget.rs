//! `forget`: makes ids unknown again. The store keeps who did it to what and why.

use firstseen::Why;
use serde_json::json;

use crate::args::Forget;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{self, Lines};

pub(crate) fn run(args: &Forget) -> Result<Ending, Failure> {
    let ids = place::ids(&args.ids)?;
    let store = place::store(&args.place.store)?;
    let scope = place::scope(&store, &args.place.scope)?;
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    let actor = place::actor(&args.actor);
    let why = Why::new(&args.why).by(&actor);
    for id in &ids {
        let forgotten = scope.forget(id, why)?;
        if !forgotten {
            ending = Ending::NotKnown;
        }
        let text = show::id_text(id);
        lines.print(&if args.place.json {
            json!({ "id": text, "hex": show::hex(id), "forgotten": forgotten }).to_string()
        } else {
            format!(
                "{:9}  {text}",
                if forgotten { "forgotten" } else { "not known" }
            )
        })?;
    }
    lines.finish()?;
    drop(scope);
    store.close()?;
    Ok(ending)
}
