//! `peek`: everything that is known about ids, without deciding anything.

use firstseen::{Explanation, RecordState, Tier};
use serde_json::{Value, json};

use crate::args::Peek;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{self, Lines};
use crate::time::rfc3339;

pub(crate) fn run(args: &Peek) -> Result<Ending, Failure> {
    let ids = place::ids(&args.ids)?;
    let store = place::look(&args.place.store)?;
    let scope = place::scope(&store, &args.place.scope)?;
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for id in &ids {
        let found = scope.explain(id)?;
        let remembered = found
            .as_ref()
            .filter(|f| f.state == RecordState::Remembered);
        if remembered.is_none() {
            ending = Ending::NotKnown;
        }
        let sighting = remembered.map(|f| &f.seen);
        if args.place.json {
            let mut line = show::sighting_json(id, sighting);
            if let Some(found) = &found {
                add(&mut line, found);
            }
            lines.print(&line.to_string())?;
        } else {
            lines.print(&show::sighting_text(id, sighting))?;
            if let Some(found) = &found {
                lines.print(&details(found))?;
            }
        }
    }
    lines.finish()?;
    drop(scope);
    store.close()?;
    Ok(ending)
}

fn state(found: &Explanation) -> &'static str {
    match found.state {
        RecordState::Remembered => "remembered",
        RecordState::Expired => "expired",
        RecordState::Forgotten => "forgotten",
        _ => "other",
    }
}

fn tier(found: &Explanation) -> &'static str {
    match found.tier {
        Tier::ActiveSet => "active set",
        Tier::Generation => "generation",
        _ => "other",
    }
}

fn add(line: &mut Value, found: &Explanation) {
    line["state"] = json!(state(found));
    line["first_seen_at"] = json!(rfc3339(found.seen.first_seen_at()));
    line["source"] = json!(found.seen.source());
    line["refused"] = json!(found.seen.was_refused());
    line["expires_at"] = json!(found.expires_at.map(rfc3339));
    line["tier"] = json!(tier(found));
    line["class"] = json!(found.class);
    line["generation_ends_at"] = json!(found.generation_ends_at.map(rfc3339));
    line["retention_version"] = json!(found.retention_version);
}

fn details(found: &Explanation) -> String {
    let never = || "never".to_string();
    let refused = if found.seen.was_refused() {
        ", refused"
    } else {
        ""
    };
    format!(
        "    {}{refused}, expires {}, in the {}, class {}, generation ends {}",
        state(found),
        found.expires_at.map_or_else(never, rfc3339),
        tier(found),
        found.class,
        found.generation_ends_at.map_or_else(never, rfc3339),
    )
}
