//! `audit`: what was done by request against the rule, oldest first.

use firstseen::{AuditEntry, AuditEvent, Position};
use serde_json::{Value, json};

use crate::args::Audit;
use crate::failure::{Ending, Failure};
use crate::place;
use crate::resume_points::position;
use crate::show::{Lines, hex, id_text};
use crate::stop;
use crate::time::rfc3339;

pub(crate) fn run(args: &Audit) -> Result<Ending, Failure> {
    let store = place::look(&args.store)?;
    stop::catch()?;
    let audit = store.audit()?;
    let mut lines = Lines::new();
    let mut ending = Ending::Done;
    if let Some(until) = audit.gone_until() {
        let (gone, until) = (audit.gone(), rfc3339(until));
        lines.print(&if args.json {
            json!({ "gone": gone, "gone_until": until }).to_string()
        } else {
            format!("{gone} older entries went for newer ones, up to {until}")
        })?;
    }
    for entry in audit {
        let entry = entry?;
        let is_early = args.times.since.is_some_and(|since| entry.at < since);
        if is_early || args.times.until.is_some_and(|until| entry.at >= until) {
            continue;
        }
        lines.print(&if args.json {
            line(&entry).to_string()
        } else {
            text(&entry)
        })?;
        if stop::requested() {
            ending = Ending::Interrupted;
            break;
        }
    }
    lines.finish()?;
    place::end_look(store)?;
    Ok(ending)
}

fn line(entry: &AuditEntry) -> Value {
    let mut line = match &entry.event {
        AuditEvent::Forgotten { scope, id } => {
            json!({ "what": "forgotten", "scope": scope, "id": id_text(id), "hex": hex(id) })
        }
        AuditEvent::Recorded {
            scope,
            id,
            first_seen_at,
        } => json!({
            "what": "recorded",
            "scope": scope,
            "id": id_text(id),
            "hex": hex(id),
            "first_seen_at": rfc3339(*first_seen_at),
        }),
        AuditEvent::Imported { scope, ids } => {
            json!({ "what": "imported", "scope": scope, "ids": ids })
        }
        AuditEvent::Rewound { source, from, to } => json!({
            "what": "rewound",
            "source": source,
            "from": from.as_ref().map(position),
            "to": position(to),
        }),
        AuditEvent::Redriven { scope, id } => {
            json!({ "what": "redriven", "scope": scope, "id": id_text(id), "hex": hex(id) })
        }
        AuditEvent::Purged { scope, id } => {
            json!({ "what": "purged", "scope": scope, "id": id_text(id), "hex": hex(id) })
        }
        AuditEvent::Decided { scope, id, outcome } => json!({
            "what": "decided",
            "scope": scope,
            "id": id_text(id),
            "hex": hex(id),
            "outcome": outcome,
        }),
        AuditEvent::Resent { outbox, from, to } => json!({
            "what": "resent",
            "outbox": outbox,
            "from": from,
            "to": to,
        }),
        AuditEvent::TransactionSettled { txn, committed } => json!({
            "what": settled(*committed),
            "txn": id_text(txn),
            "hex": hex(txn),
        }),
        other => json!({ "what": format!("{other:?}") }),
    };
    line["at"] = json!(rfc3339(entry.at));
    line["who"] = json!(entry.who);
    line["why"] = json!(entry.why);
    line
}

fn settled(committed: bool) -> &'static str {
    if committed { "committed" } else { "aborted" }
}

fn text(entry: &AuditEntry) -> String {
    let place = |p: &Position| position(p).to_string();
    let what = match &entry.event {
        AuditEvent::Forgotten { scope, id } => format!("forgotten  {scope}: {}", id_text(id)),
        AuditEvent::Recorded { scope, id, .. } => format!("recorded   {scope}: {}", id_text(id)),
        AuditEvent::Imported { scope, ids } => format!("imported   {scope}: {ids} ids"),
        AuditEvent::Rewound { source, from, to } => {
            let from = from.as_ref().map_or("nowhere".to_string(), place);
            format!("rewound    {source}: from {from} to {}", place(to))
        }
        AuditEvent::Redriven { scope, id } => format!("redriven   {scope}: {}", id_text(id)),
        AuditEvent::Purged { scope, id } => format!("purged     {scope}: {}", id_text(id)),
        AuditEvent::Decided { scope, id, outcome } => {
            format!("decided    {scope}: {} {outcome}", id_text(id))
        }
        AuditEvent::Resent { outbox, from, to } => {
            format!("resent     {outbox}: from {from} to {to}")
        }
        AuditEvent::TransactionSettled { txn, committed } => {
            format!("{:9}  transaction {}", settled(*committed), id_text(txn))
        }
        other => format!("{other:?}"),
    };
    let who = entry.who.as_deref().unwrap_or("unnamed");
    format!("{}  {what}  by {who}: {}", rfc3339(entry.at), entry.why)
}
