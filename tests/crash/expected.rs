//! What must be in a store, from what its children acknowledged; and the look that compares.
//!
//! - *lost*: acknowledged, and not there: an id, its row, a resume point, a synced commit.
//! - *doubled*: one id that was first twice within its retention, or was refused because its
//!   row was there though it was first.
//! - *torn*: parts of one commit there and others not: ids without rows, rows without ids,
//!   counters that count other than the rows, batches behind their resume point.

use std::collections::{BTreeMap, HashMap, HashSet};

use firstseen::{Error, Table};

use super::worker::{Open, owned};
use super::workload::{In, Message, SCOPES, SENDERS, SHORT, counter, plan, source};

/// One attempt to be first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
struct Attempt {
    run: u64,
    thread: usize,
    n: u64,
    i: usize,
}

impl Attempt {
    fn parse(words: &[&str]) -> Attempt {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let (thread, i) = (number(1) as usize, number(3) as usize);
        Attempt {
            run: number(0),
            thread,
            n: number(2),
            i,
        }
    }

    fn text(&self) -> String {
        format!("{} {} {} {}", self.run, self.thread, self.n, self.i)
    }
}

/// An acknowledged batch.
#[derive(Clone, Debug)]
struct Ack {
    said: String,
    before_ms: u64,
    after_ms: u64,
}

/// What one child told.
#[derive(Clone, Debug, Default)]
struct Run {
    starts: BTreeMap<usize, u64>,
    last_sent: BTreeMap<usize, u64>,
    last_synced: Option<u64>,
    /// Seals, merges and drops.
    did: [u64; 3],
}

/// Everything that the children of one store told.
pub(crate) struct Ledger {
    seed: u64,
    runs: Vec<Run>,
    acks: HashMap<(u64, usize, u64), Ack>,
    pub(crate) acknowledged: u64,
}

/// What a look found.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) lost: u64,
    pub(crate) doubled: u64,
    pub(crate) torn: u64,
    /// The first few, in words.
    notes: Vec<String>,
}

impl Found {
    pub(crate) fn is_clean(&self) -> bool {
        self.lost + self.doubled + self.torn == 0
    }

    pub(crate) fn add(&mut self, more: Found) {
        self.lost += more.lost;
        self.doubled += more.doubled;
        self.torn += more.torn;
        more.notes.into_iter().for_each(|note| self.note(note));
    }

    pub(crate) fn text(&self) -> String {
        self.notes.join("\n")
    }

    fn note(&mut self, what: String) {
        if self.notes.len() < 8 {
            self.notes.push(what);
        }
    }

    fn lost(&mut self, what: String) {
        self.lost += 1;
        self.note(format!("lost: {what}"));
    }

    fn doubled(&mut self, what: String) {
        self.doubled += 1;
        self.note(format!("doubled: {what}"));
    }

    fn torn(&mut self, what: String) {
        self.torn += 1;
        self.note(format!("torn: {what}"));
    }
}

impl Ledger {
    pub(crate) fn new(seed: u64) -> Ledger {
        Ledger {
            seed,
            runs: Vec::new(),
            acks: HashMap::new(),
            acknowledged: 0,
        }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Seals, merges and drops within the children, as far as they lived to tell.
    pub(crate) fn did(&self) -> [u64; 3] {
        let sum = |i: usize| self.runs.iter().map(|run| run.did[i]).sum();
        [sum(0), sum(1), sum(2)]
    }

    /// Begins a child; returns its run's number.
    pub(crate) fn begin(&mut self) -> u64 {
        self.runs.push(Run::default());
        (self.runs.len() - 1) as u64
    }

    /// Takes down a line of the current child's. Panics if it says that the child failed.
    pub(crate) fn take(&mut self, words: &[String]) {
        let number = |at: usize| words[at].parse::<u64>().expect("a number");
        let run = self.runs.len() as u64 - 1;
        let current = self.runs.last_mut().expect("a child was begun");
        match words[0].as_str() {
            "ready" | "buffered" => {}
            "start" => {
                current.starts.insert(number(1) as usize, number(2));
            }
            "did" => current.did = [number(1), number(2), number(3)],
            "synced" => current.last_synced = Some(number(1)),
            how @ ("sent" | "again") => {
                let (thread, n) = (number(1) as usize, number(2));
                let said = words.get(5).cloned().unwrap_or_default();
                self.acknowledged += said.len() as u64;
                let ack = Ack {
                    said,
                    before_ms: number(3),
                    after_ms: number(4),
                };
                self.acks.insert((run, thread, n), ack);
                if how == "sent" {
                    current.last_sent.insert(thread, n);
                }
            }
            _ => panic!("the child: {}", words.join(" ")),
        }
    }

    /// Looks at everything in the store.
    pub(crate) fn check(&self, open: &Open) -> Result<Found, Error> {
        let mut found = Found::default();
        let rows = Rows::read(&open.rows)?;
        self.check_acks(&rows, &mut found);
        self.check_doubles(&rows, &mut found);
        for thread in 0..SENDERS {
            self.check_source(open, thread, &rows, &mut found)?;
        }
        self.check_buffered(&rows, &mut found);
        check_ids(open, &rows, &mut found)?;
        check_counters(open, &rows, &mut found)?;
        check_owners(open, &rows, &mut found)?;
        Ok(found)
    }

    fn check_acks(&self, rows: &Rows, found: &mut Found) {
        for ((run, thread, n), ack) in &self.acks {
            let messages = plan(self.seed, *thread, *n).messages;
            assert_eq!(ack.said.len(), messages.len(), "a verdict for each message");
            for (i, (message, verdict)) in messages.iter().zip(ack.said.chars()).enumerate() {
                let attempt = Attempt {
                    run: *run,
                    thread: *thread,
                    n: *n,
                    i,
                };
                let text = format!("{message:?} by {}", attempt.text());
                match verdict {
                    'F' if !rows.attempts.contains(&attempt) => found.lost(text),
                    'D' if !rows.of.contains_key(&key(message)) => found.lost(text),
                    'F' | 'D' => {}
                    other => found.doubled(format!("{text} got {other}")),
                }
            }
        }
    }

    fn check_doubles(&self, rows: &Rows, found: &mut Found) {
        let short_ms = SHORT.as_millis() as u64;
        let ack = |a: &Attempt| self.acks.get(&(a.run, a.thread, a.n));
        for ((scope, id), attempts) in &rows.of {
            if scope.is_long() {
                if attempts.len() > 1 {
                    found.doubled(format!("{scope:?} {id}: {attempts:?}"));
                }
                continue;
            }
            for (at, a) in attempts.iter().enumerate() {
                for b in &attempts[at + 1..] {
                    let (Some(x), Some(y)) = (ack(a), ack(b)) else {
                        continue;
                    };
                    let from = x.before_ms.min(y.before_ms);
                    if x.after_ms.max(y.after_ms) - from < short_ms {
                        found.doubled(format!("{scope:?} {id}: {a:?} {b:?}"));
                    }
                }
            }
        }
    }

    /// A batch is there iff its source's resume point is past it.
    fn check_source(
        &self,
        open: &Open,
        thread: usize,
        rows: &Rows,
        found: &mut Found,
    ) -> Result<(), Error> {
        let point = open
            .store
            .resume_point(&source(thread))?
            .and_then(|p| p.as_u64())
            .unwrap_or(0);
        for (run, told) in self.runs.iter().enumerate() {
            let Some(start) = told.starts.get(&thread) else {
                continue;
            };
            let later = self.runs[run + 1..]
                .iter()
                .find_map(|r| r.starts.get(&thread));
            let end = later.copied().unwrap_or(point);
            let acked = told.last_sent.get(&thread).map_or(*start, |n| n + 1);
            if end < acked {
                found.lost(format!(
                    "run {run}, thread {thread}: at {end}, acknowledged {acked}"
                ));
            } else if end > acked + 1 {
                found.torn(format!(
                    "run {run}, thread {thread}: at {end}, sent {acked}"
                ));
            }
            for n in *start..end {
                for message in plan(self.seed, thread, n).messages {
                    if !rows.of.contains_key(&key(&message)) {
                        found.torn(format!("{message:?} of thread {thread}, batch {n}: no row"));
                    }
                }
            }
            let beyond = |a: &&Attempt| a.run == run as u64 && a.thread == thread && a.n >= end;
            for attempt in rows.attempts.iter().filter(beyond) {
                found.torn(format!("{attempt:?} has a row, and the source is at {end}"));
            }
        }
        Ok(())
    }

    fn check_buffered(&self, rows: &Rows, found: &mut Found) {
        let mut present: BTreeMap<u64, BTreeMap<u64, u32>> = BTreeMap::new();
        for attempt in rows.attempts.iter().filter(|a| a.thread == SENDERS) {
            *present
                .entry(attempt.run)
                .or_default()
                .entry(attempt.n)
                .or_default() += 1;
        }
        for (run, batches) in &present {
            for (expected, (n, rows)) in (0..).zip(batches) {
                if *n != expected || *rows != 3 {
                    found.torn(format!("run {run}, buffered batch {n}: {rows} rows of 3"));
                }
            }
        }
        for (run, told) in self.runs.iter().enumerate() {
            let batches = present.get(&(run as u64));
            let last = batches.and_then(|b| b.last_key_value()).map(|(n, _)| *n);
            if told.last_synced > last {
                found.lost(format!(
                    "run {run}: synced {:?}, found {last:?}",
                    told.last_synced
                ));
            }
        }
    }
}

type Key = (In, String);

fn key(message: &Message) -> Key {
    (message.scope, message.id.clone())
}

/// The rows that attempts left.
struct Rows {
    of: BTreeMap<Key, Vec<Attempt>>,
    attempts: HashSet<Attempt>,
}

impl Rows {
    fn read(table: &Table) -> Result<Rows, Error> {
        let mut rows = Rows {
            of: BTreeMap::new(),
            attempts: HashSet::new(),
        };
        for name in names(table)? {
            let words: Vec<&str> = name.0.split(' ').collect();
            let attempt = Attempt::parse(&words[2..]);
            let key = (In::named(words[0]), words[1].to_string());
            rows.of.entry(key).or_default().push(attempt);
            rows.attempts.insert(attempt);
        }
        Ok(rows)
    }
}

fn names(table: &Table) -> Result<Vec<(String, Vec<u8>)>, Error> {
    let rows = table.range("")?.map(|row| {
        let (key, value) = row?;
        Ok((String::from_utf8_lossy(&key).into_owned(), value.to_vec()))
    });
    rows.collect()
}

/// The ids that are known are those that have rows.
fn check_ids(open: &Open, rows: &Rows, found: &mut Found) -> Result<(), Error> {
    for scope in SCOPES {
        let mut known = HashSet::new();
        for entry in open.scope(scope).scan(..)? {
            let id = String::from_utf8_lossy(&entry?.0).into_owned();
            if !rows.of.contains_key(&(scope, id.clone())) {
                found.torn(format!("{scope:?} {id} is known and has no row"));
            }
            known.insert(id);
        }
        if !scope.is_long() {
            continue;
        }
        for (of, id) in rows.of.keys().filter(|(of, _)| *of == scope) {
            let seen = open.scope(scope).peek(id)?.is_some();
            if !known.contains(id) || !seen {
                found.torn(format!("{of:?} {id} has a row and is not known"));
            }
        }
    }
    Ok(())
}

fn check_counters(open: &Open, rows: &Rows, found: &mut Found) -> Result<(), Error> {
    let mut counts: BTreeMap<String, i64> = BTreeMap::new();
    for ((scope, id), attempts) in rows.of.iter().filter(|((s, _), _)| *s != In::Buffered) {
        *counts.entry(counter(*scope, id)).or_default() += attempts.len() as i64;
    }
    let mut stored = BTreeMap::new();
    for (name, value) in names(&open.counters)? {
        let count = <[u8; 8]>::try_from(&value[..]).map(i64::from_le_bytes);
        stored.insert(name, count.expect("a counter has 8 bytes"));
    }
    if stored != counts {
        found.torn(format!(
            "the counters are {stored:?}, the rows say {counts:?}"
        ));
    }
    Ok(())
}

/// Each id of the long scopes is owned by the attempt that left its row.
fn check_owners(open: &Open, rows: &Rows, found: &mut Found) -> Result<(), Error> {
    let owners: BTreeMap<String, Vec<u8>> = names(&open.owners)?.into_iter().collect();
    let mut expected = 0;
    for ((scope, id), attempts) in &rows.of {
        if !scope.is_long() || *scope == In::Buffered {
            continue;
        }
        expected += 1;
        let row = owned(&Message {
            scope: *scope,
            id: id.clone(),
        });
        let owner = owners.get(&row).map(Vec::as_slice);
        if owner != Some(attempts[0].text().as_bytes()) {
            found.torn(format!(
                "{scope:?} {id} of {attempts:?} is owned by {owner:?}"
            ));
        }
    }
    if owners.len() != expected {
        found.torn(format!("{} owners, and {expected} owned", owners.len()));
    }
    Ok(())
}
