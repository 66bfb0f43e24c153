//! `reconcile`: the ids of a scope against the effects that are there, a dry run unless told.

use std::ops::Bound;

use firstseen::{
    Counts, Effect, Finding, FindingClass, Reconcile as How, Reconciliation, Repair, Repaired,
    Scope, Store, Why,
};
use serde_json::{Value, json};

use crate::args::{Only, Reconcile};
use crate::failure::{Ending, Failure};
use crate::id_rows::IdRows;
use crate::place;
use crate::progress;
use crate::show::{Lines, hex, id_text};
use crate::stop;
use crate::time::rfc3339;

pub(crate) fn run(args: &Reconcile) -> Result<Ending, Failure> {
    stop::catch()?;
    let store = if args.apply {
        place::store(&args.place.store)?
    } else {
        place::look(&args.place.store)?
    };
    let scope = place::scope(&store, &args.place.scope)?;
    let mut found = compare(args, &store, &scope)?;
    let mut lines = Lines::new();
    let ending = if stop::requested() {
        Ending::Interrupted
    } else if args.apply {
        apply(args, found, &mut lines)?
    } else {
        for (shown, finding) in (&mut found).enumerate() {
            let finding = finding?;
            if args.place.json || shown < args.show {
                show(args, &finding, &mut lines)?;
            }
        }
        let counts = found.counts();
        count(args, &counts, None, &mut lines)?;
        drop(found);
        ending(counts.faults)
    };
    lines.finish()?;
    drop(scope);
    place::end_look(store)?;
    Ok(ending)
}

fn compare(args: &Reconcile, store: &Store, scope: &Scope) -> Result<Reconciliation, Failure> {
    let since = args.times.since.map_or(Bound::Unbounded, Bound::Included);
    let until = args.times.until.map_or(Bound::Unbounded, Bound::Excluded);
    let mut how = How::new().between((since, until)).grace(args.grace);
    if args.one_effect {
        how = how.one_effect();
    }
    if let Some(dir) = &args.sort_dir {
        how = how.sort_dir(dir);
    }
    if let Some(name) = &args.table {
        let table = store.existing_table(name)?;
        let table =
            table.ok_or_else(|| Failure::File(format!("the store has no table {name:?}")))?;
        let rows = table.range("")?;
        let effects = rows.map(|row| Ok::<_, Failure>(Effect::new(row?.0)));
        return scope.reconcile(&how, effects);
    }
    let path = args.effects.as_deref().unwrap_or("-".as_ref());
    let mut rows = IdRows::open(path, args.format, &args.rows)?;
    let bar = progress::ids(None, false);
    let effects = std::iter::from_fn(|| {
        bar.inc(1);
        let Some(row) = rows.as_mut()?.next_row().transpose() else {
            bar.finish_and_clear();
            return None;
        };
        Some(row.map(|row| {
            let effect = Effect::new(&row.id);
            row.at.map_or(effect.clone(), |at| effect.at(at))
        }))
    });
    scope.reconcile(&how, effects)
}

fn apply(args: &Reconcile, found: Reconciliation, lines: &mut Lines) -> Result<Ending, Failure> {
    let plan = found.plan(args.show)?;
    for finding in plan.sample() {
        show(args, finding, lines)?;
    }
    let actor = place::actor(&args.actor);
    let why = Why::new(args.why.as_deref().unwrap_or_default()).by(&actor);
    let repair = match args.only {
        None => Repair::all(why),
        Some(Only::Forget) => Repair::forget(why),
        Some(Only::Record) => Repair::record(why),
    };
    let repaired = plan.apply(&repair)?;
    count(args, &plan.counts(), Some(&repaired), lines)?;
    let done = repaired.forgotten + repaired.recorded;
    Ok(ending(plan.counts().faults.saturating_sub(done)))
}

fn ending(faults: u64) -> Ending {
    if faults == 0 {
        Ending::Done
    } else {
        Ending::Differs
    }
}

fn class(finding: &Finding) -> &'static str {
    match finding.class {
        FindingClass::EffectMissing => "effect missing",
        FindingClass::IdUnknown => "id unknown",
        FindingClass::PayloadDiffers => "payload differs",
        FindingClass::EffectRepeated => "effect repeated",
        _ => "other",
    }
}

fn show(args: &Reconcile, finding: &Finding, lines: &mut Lines) -> Result<(), Failure> {
    let first = finding.seen.as_ref().map(|s| rfc3339(s.first_seen_at()));
    let effect = finding.effect_at.map(rfc3339);
    let id = id_text(&finding.id);
    lines.print(&if args.place.json {
        json!({
            "finding": class(finding),
            "id": id,
            "hex": hex(&finding.id),
            "first_seen_at": first,
            "effect_at": effect,
            "effects": finding.effects,
        })
        .to_string()
    } else {
        let at = first.or(effect).unwrap_or_default();
        format!("{:15}  {at:24}  {id}", class(finding))
    })
}

fn count(
    args: &Reconcile,
    counts: &Counts,
    repaired: Option<&Repaired>,
    lines: &mut Lines,
) -> Result<(), Failure> {
    let rows = [
        ("agreed", counts.agreed),
        ("effect_missing", counts.effect_missing),
        ("id_unknown", counts.id_unknown),
        ("payload_differs", counts.payload_differs),
        ("effect_repeated", counts.effect_repeated),
        ("refused", counts.refused),
        ("in_progress", counts.in_progress),
        ("near_edge", counts.near_edge),
        ("expired", counts.expired),
        ("outside", counts.outside),
        ("ids_read", counts.ids_read),
        ("effects_read", counts.effects_read),
    ];
    let done = repaired.map(|r| {
        [
            ("forgotten", r.forgotten),
            ("recorded", r.recorded),
            ("changed", r.changed),
            ("not_recorded_expired", r.expired),
            ("left_in_progress", r.in_progress),
            ("bad", r.bad),
        ]
    });
    let all = rows.into_iter().chain(done.into_iter().flatten());
    if args.place.json {
        let object: serde_json::Map<String, Value> =
            all.map(|(name, n)| (name.to_string(), json!(n))).collect();
        return lines.print(&json!({ "counts": object }).to_string());
    }
    for (name, n) in all {
        lines.print(&format!("{:21} {n}", name.replace('_', " ")))?;
    }
    if repaired.is_none() && counts.faults > 0 {
        lines.print("nothing was changed; --apply --why TEXT repairs")?;
    }
    Ok(())
}
