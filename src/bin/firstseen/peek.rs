//! `peek`: everything that is known about ids, without deciding anything.

use firstseen::{Explanation, RecordFound, RecordState, Tier};
use serde_json::{Value, json};

use crate::args::Peek;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{self, Lines, outcome};
use crate::time::rfc3339;
use crate::work::{claim_json, letter_json};

pub(crate) fn run(args: &Peek) -> Result<Ending, Failure> {
    let ids = place::ids(&args.ids)?;
    let store = place::look(&args.place.store)?;
    let scope = place::scope(&store, &args.place.scope)?;
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    for id in &ids {
        let found = scope.explain(id)?;
        if !found.is_known() {
            ending = Ending::NotKnown;
        }
        let sighting = found.remembered().map(|f| &f.seen);
        if args.place.json {
            let mut line = show::sighting_json(id, sighting);
            line["known"] = json!(found.is_known());
            if let Some(record) = &found.record {
                add(&mut line, record);
            }
            if let Some(claim) = &found.claim {
                line["claim"] = claim_json(claim);
                line["first_seen_at"] = json!(rfc3339(claim.first_seen_at));
            }
            line["dead_letter"] = json!(found.dead_letter.as_ref().map(letter_json));
            lines.print(&line.to_string())?;
        } else {
            let claim = found.claim.as_ref().filter(|_| sighting.is_none());
            lines.print(&match claim {
                Some(claim) => format!("{}  {}", rfc3339(claim.first_seen_at), show::id_text(id)),
                None => show::sighting_text(id, sighting),
            })?;
            for line in details(&found) {
                lines.print(&format!("    {line}"))?;
            }
        }
    }
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(ending)
}

fn details(found: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    lines.extend(found.record.as_ref().map(record_text));
    if let Some(claim) = &found.claim {
        let left = claim.left.as_secs_f64();
        let (state, attempt) = (claim.state, claim.attempt);
        let run = if claim.is_of_dead_run {
            ", of a run that has ended"
        } else {
            ""
        };
        let why = Some(&claim.why).filter(|why| !why.is_empty());
        let why = why.map_or_else(String::new, |why| format!(": {why}"));
        let claim = format!("claim: {state:?}, attempt {attempt}, {left:.1} s left{run}{why}");
        lines.push(claim);
    }
    if let Some(letter) = &found.dead_letter {
        let (since, attempts) = (rfc3339(letter.dead_since), letter.attempts);
        let why = &letter.why;
        lines.push(format!(
            "dead letter since {since}, after {attempts}: {why}"
        ));
    }
    lines
}

fn state(found: &RecordFound) -> &'static str {
    match found.state {
        RecordState::Remembered => "remembered",
        RecordState::Expired => "expired",
        RecordState::Forgotten => "forgotten",
        _ => "other",
    }
}

fn tier(found: &RecordFound) -> &'static str {
    match found.tier {
        Tier::ActiveSet => "active set",
        Tier::Generation => "generation",
        _ => "other",
    }
}

fn add(line: &mut Value, found: &RecordFound) {
    line["state"] = json!(state(found));
    line["first_seen_at"] = json!(rfc3339(found.seen.first_seen_at()));
    line["source"] = json!(found.seen.source());
    line["refused"] = json!(found.seen.was_refused());
    line["outcome"] = json!(outcome(&found.seen));
    line["attempt"] = json!(found.seen.attempt());
    line["result"] = json!(found.seen.result().map(show::hex));
    line["expires_at"] = json!(found.expires_at.map(rfc3339));
    line["tier"] = json!(tier(found));
    line["class"] = json!(found.class);
    line["generation_ends_at"] = json!(found.generation_ends_at.map(rfc3339));
    line["retention_version"] = json!(found.retention_version);
}

fn record_text(found: &RecordFound) -> String {
    let never = || "never".to_string();
    let refused = if found.seen.was_refused() {
        ", refused"
    } else {
        ""
    };
    let attempt = found.seen.attempt();
    let attempt = attempt.map_or_else(String::new, |n| format!(" by attempt {n}"));
    format!(
        "{}, {}{attempt}{refused}, expires {}, in the {}, class {}, generation ends {}",
        state(found),
        outcome(&found.seen),
        found.expires_at.map_or_else(never, rfc3339),
        tier(found),
        found.class,
        found.generation_ends_at.map_or_else(never, rfc3339),
    )
}
