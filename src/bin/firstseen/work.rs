//! `claims`, `dead`, `decide` and `sequences`: work that is under way, was given up, or comes in
//! order.
//!
//! Whatever only looks works on a store that another process has open. What ends a dead letter
//! opens the store, and leaves a row in the audit.

use std::time::SystemTime;

use firstseen::{ClaimEntry, DeadLetter, Decided, ProducerState, Scope};
use serde_json::{Value, json};

use crate::args::{ByHand, Claims, Dead, DeadAct, Decide, Ids, Outcome, Place, Sequences};
use crate::failure::{Ending, Failure};
use crate::place;
use crate::show::{Lines, hex, id_text};
use crate::table;
use crate::time::rfc3339;

pub(crate) fn claims(args: &Claims) -> Result<Ending, Failure> {
    let store = place::look(&args.place.store)?;
    let claims = place::scope(&store, &args.place.scope)?.claims()?;
    let mut lines = Lines::new();
    if args.place.json {
        for claim in &claims {
            lines.print(&claim_json(claim).to_string())?;
        }
    } else {
        let columns = [
            ("STATE", false),
            ("ATTEMPT", true),
            ("LEFT", true),
            ("SINCE", false),
            ("ID", false),
            ("WHY", false),
        ];
        let rows: Vec<_> = claims.iter().map(claim_cells).collect();
        for line in table::lines(&columns, &rows) {
            lines.print(&line)?;
        }
    }
    lines.finish()?;
    place::end_look(store)?;
    Ok(Ending::Done)
}

pub(crate) fn claim_json(claim: &ClaimEntry) -> Value {
    json!({
        "id": id_text(&claim.id),
        "hex": hex(&claim.id),
        "state": format!("{:?}", claim.state),
        "attempt": claim.attempt,
        "left_ms": u64::try_from(claim.left.as_millis()).unwrap_or(u64::MAX),
        "first_seen_at": rfc3339(claim.first_seen_at),
        "of_a_dead_run": claim.is_of_dead_run,
        "reference": id_text(&claim.reference),
        "why": claim.why,
    })
}

fn claim_cells(claim: &ClaimEntry) -> Vec<String> {
    let dead = if claim.is_of_dead_run {
        ", dead run"
    } else {
        ""
    };
    vec![
        format!("{:?}{dead}", claim.state),
        claim.attempt.to_string(),
        format!("{:.1} s", claim.left.as_secs_f64()),
        rfc3339(claim.first_seen_at),
        id_text(&claim.id),
        claim.why.clone(),
    ]
}

pub(crate) fn dead(args: &Dead) -> Result<Ending, Failure> {
    match &args.act {
        DeadAct::List { place } => list(place),
        DeadAct::Show { place, ids } => show(place, ids),
        DeadAct::Redrive(by_hand) => end(by_hand, "redriven", NO_LETTER, |scope, id, why| {
            scope.redrive(id, why)
        }),
        DeadAct::Purge(by_hand) => end(by_hand, "purged", NO_LETTER, |scope, id, why| {
            scope.purge(id, why)
        }),
    }
}

fn list(place: &Place) -> Result<Ending, Failure> {
    let store = place::look(&place.store)?;
    let scope = place::scope(&store, &place.scope)?;
    let mut lines = Lines::new();
    for letter in scope.dead_letters()? {
        let letter = letter?;
        lines.print(&if place.json {
            letter_json(&letter).to_string()
        } else {
            let (since, attempts) = (rfc3339(letter.dead_since), letter.attempts);
            let (id, why) = (id_text(&letter.id), &letter.why);
            format!("{since}  after {attempts}  {id}  {why}")
        })?;
    }
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(Ending::Done)
}

fn show(place: &Place, ids: &Ids) -> Result<Ending, Failure> {
    let ids = place::ids(ids)?;
    let store = place::look(&place.store)?;
    let scope = place::scope(&store, &place.scope)?;
    let (mut found, mut letters) = (vec![false; ids.len()], Vec::new());
    for letter in scope.dead_letters()? {
        let letter = letter?;
        if let Some(at) = ids.iter().position(|id| id[..] == letter.id[..]) {
            found[at] = true;
            letters.push(letter);
        }
    }
    let mut lines = Lines::new();
    for letter in &letters {
        if place.json {
            lines.print(&letter_json(letter).to_string())?;
            continue;
        }
        for (name, value) in letter_fields(letter) {
            lines.print(&format!("{name:>12}  {value}"))?;
        }
    }
    for (id, _) in ids.iter().zip(&found).filter(|(_, found)| !**found) {
        lines.print(&if place.json {
            json!({ "id": id_text(id), "hex": hex(id), "dead": false }).to_string()
        } else {
            format!("no dead letter  {}", id_text(id))
        })?;
    }
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(known_if(found.iter().all(|found| *found)))
}

fn known_if(all: bool) -> Ending {
    if all { Ending::Done } else { Ending::NotKnown }
}

pub(crate) fn letter_json(letter: &DeadLetter) -> Value {
    json!({
        "id": id_text(&letter.id),
        "hex": hex(&letter.id),
        "dead": true,
        "why": letter.why,
        "attempts": letter.attempts,
        "first_seen_at": rfc3339(letter.first_seen_at),
        "dead_since": rfc3339(letter.dead_since),
        "source": letter.source,
        "reference": id_text(&letter.reference),
        "payload": id_text(&letter.payload),
        "payload_hex": hex(&letter.payload),
    })
}

fn letter_fields(letter: &DeadLetter) -> [(&'static str, String); 8] {
    let time = |at: SystemTime| rfc3339(at);
    [
        ("id", id_text(&letter.id)),
        ("why", letter.why.clone()),
        ("attempts", letter.attempts.to_string()),
        ("first seen", time(letter.first_seen_at)),
        ("dead since", time(letter.dead_since)),
        ("source", letter.source.clone().unwrap_or_default()),
        ("reference", id_text(&letter.reference)),
        ("payload", id_text(&letter.payload)),
    ]
}

const NO_LETTER: &str = "no dead letter";

pub(crate) fn decide(args: &Decide) -> Result<Ending, Failure> {
    let outcome = match args.outcome {
        Outcome::Done => Decided::Done,
        Outcome::Failed => Decided::Failed,
        Outcome::Retry => Decided::Retry,
    };
    end(&args.by_hand, "decided", "not unknown", |scope, id, why| {
        scope.decide(id, outcome, why)
    })
}

/// Ends dead letters or unknown outcomes, one audited commit each.
fn end(
    args: &ByHand,
    done: &str,
    otherwise: &str,
    act: impl Fn(&Scope, &[u8], &str) -> firstseen::Result<bool>,
) -> Result<Ending, Failure> {
    let ids = place::ids(&args.ids)?;
    let store = place::store_as(&args.place.store, &place::actor(&args.actor))?;
    let scope = place::scope(&store, &args.place.scope)?;
    let (mut lines, mut all) = (Lines::new(), true);
    for id in &ids {
        let was_dead = act(&scope, id, &args.why)?;
        all &= was_dead;
        let text = id_text(id);
        lines.print(&if args.place.json {
            json!({ "id": text, "hex": hex(id), done: was_dead }).to_string()
        } else if was_dead {
            format!("{done}  {text}")
        } else {
            format!("{otherwise}  {text}")
        })?;
    }
    lines.finish()?;
    drop(scope);
    store.close()?;
    Ok(known_if(all))
}

pub(crate) fn sequences(args: &Sequences) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    let names = match &args.space {
        Some(name) => vec![name.clone()],
        None => store.sequences_names()?,
    };
    let mut lines = Lines::new();
    for name in names {
        let space = store.existing_sequences(&name)?.ok_or_else(|| {
            Failure::File(format!("the store has no space of sequences {name:?}"))
        })?;
        let mut producers = space.producers()?;
        producers.sort_by(|a, b| a.name.cmp(&b.name));
        for producer in &producers {
            lines.print(&if args.json {
                producer_json(&name, producer).to_string()
            } else {
                producer_text(&name, producer)
            })?;
        }
    }
    lines.finish()?;
    place::end_look(store)?;
    Ok(Ending::Done)
}

fn producer_json(space: &str, producer: &ProducerState) -> Value {
    json!({
        "space": space,
        "producer": producer.name,
        "epoch": producer.epoch,
        "high": producer.high,
        "gaps": producer.gaps,
        "last_at": rfc3339(producer.last_at),
    })
}

fn producer_text(space: &str, producer: &ProducerState) -> String {
    let high = producer
        .high
        .map_or("nothing".to_string(), |n| n.to_string());
    let (name, epoch, gaps) = (&producer.name, producer.epoch, producer.gaps);
    let at = rfc3339(producer.last_at);
    format!("{at}  {space}: {name}  epoch {epoch}  up to {high}, {gaps} missing")
}
