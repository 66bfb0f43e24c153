//! The outbox after a crash: a message is there iff its row is, and whoever got the messages got
//! each, in order, under one id.

use std::collections::{BTreeMap, HashSet};

use firstseen::Error;

use super::found::Found;
use super::ledger::{Attempt, Ledger};
use super::worker::Open;

/// Compares what waits and what came out with the rows there are.
pub(crate) fn check(
    ledger: &Ledger,
    open: &Open,
    attempts: &HashSet<Attempt>,
    found: &mut Found,
) -> Result<(), Error> {
    let mut messages: BTreeMap<u64, (String, String)> = BTreeMap::new();
    let mut last = 0;
    for (number, id, payload) in &ledger.out {
        // The same again, from any point on; else the next.
        if *number > last + 1 {
            found.lost(format!("message {number} came after {last}"));
        }
        last = last.max(*number);
        take(&mut messages, *number, (id, payload), found);
    }
    let acknowledged = open.outbox.acknowledged()?;
    if acknowledged > last {
        found.lost(format!("{acknowledged} are acknowledged, {last} came out"));
    }
    let waiting = open.outbox.drain_unsynced(usize::MAX)?;
    for (number, message) in (acknowledged + 1..).zip(&waiting) {
        if message.id.number() != number {
            found.lost(format!("message {number} is missing"));
        }
        let (id, payload) = (message.id.to_string(), message.payload.to_vec());
        let payload = String::from_utf8_lossy(&payload).into_owned();
        take(&mut messages, message.id.number(), (&id, &payload), found);
    }
    let end = acknowledged + waiting.len() as u64;
    if last > end {
        found.lost(format!("message {last} came out, and {end} is the last"));
    }
    let mut sent = HashSet::new();
    for (number, (_, payload)) in &messages {
        let words: Vec<&str> = payload.split(' ').collect();
        let attempt = Attempt::parse(&words);
        if !attempts.contains(&attempt) {
            found.torn(format!("message {number} of {attempt:?} has no row"));
        }
        if !sent.insert(attempt) {
            found.doubled(format!(
                "message {number} of {attempt:?} is not the only one"
            ));
        }
    }
    for attempt in attempts.difference(&sent) {
        found.torn(format!("{attempt:?} has a row and no message"));
    }
    Ok(())
}

fn take(
    messages: &mut BTreeMap<u64, (String, String)>,
    number: u64,
    (id, payload): (&String, &String),
    found: &mut Found,
) {
    let new = (id.clone(), payload.clone());
    let known = messages.entry(number).or_insert_with(|| new.clone());
    if *known != new {
        found.doubled(format!("message {number} is {known:?} and {new:?}"));
    }
}
