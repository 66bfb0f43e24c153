//! What must be in a store, from what its children acknowledged; and the look that compares.

use std::collections::{BTreeMap, HashSet};

use firstseen::{Durability, Error, Table};

use super::found::Found;
use super::ledger::{Ack, Attempt, End, Ledger, Run};
use super::outbox;
use super::worker::{Open, owned};
use super::workload::{
    BUFFERED, In, LIMIT, Message, SCOPES, SENDERS, SHORT, SUBMITTED, counter, plan, source,
};

/// One look at everything in a store.
struct Look<'a> {
    ledger: &'a Ledger,
    rows: Rows,
    /// Each source's resume point.
    points: Vec<u64>,
    found: Found,
}

/// Looks at everything in the store, and takes down what a crash took and was free to take.
pub(crate) fn check(ledger: &mut Ledger, open: &Open) -> Result<Found, Error> {
    let points = (0..SENDERS).map(|thread| {
        let point = open.store.resume_point(&source(thread))?;
        Ok(point.and_then(|p| p.as_u64()).unwrap_or(0))
    });
    let mut look = Look {
        ledger,
        rows: Rows::read(&open.rows)?,
        points: points.collect::<Result<_, Error>>()?,
        found: Found::default(),
    };
    let gone: Vec<Gone> = (0..ledger.runs.len()).map(|r| look.check_run(r)).collect();
    look.check_doubles();
    let Look {
        rows, mut found, ..
    } = look;
    check_ids(open, &rows, &mut found)?;
    check_counters(open, &rows, &mut found)?;
    check_owners(open, &rows, &mut found)?;
    outbox::check(ledger, open, &rows.attempts, &mut found)?;
    for (run, gone) in ledger.runs.iter_mut().zip(gone) {
        run.settled = true;
        run.acks.retain(|at, _| !gone.acks.contains(at));
        run.buffered.retain(|n, _| !gone.buffered.contains(n));
        ledger.taken += gone.acks.len() as u64;
    }
    Ok(found)
}

/// Acknowledged batches of a run that are not there.
#[derive(Default)]
struct Gone {
    acks: HashSet<(usize, u64)>,
    buffered: HashSet<u64>,
}

impl Look<'_> {
    fn check_run(&mut self, r: usize) -> Gone {
        let ledger = self.ledger;
        let run = &ledger.runs[r];
        let mut gone = Gone::default();
        let safe_ns = self.safe_before_ns(r);
        for ((thread, n), ack) in &run.acks {
            let synced = plan(ledger.seed, *thread, *n).level == Durability::Synced;
            let must = run.end == End::Kill || run.settled || synced || ack.after_ns < safe_ns;
            if !self.check_ack(r, *thread, *n, ack, must) {
                gone.acks.insert((*thread, *n));
            }
        }
        for thread in 0..SENDERS {
            self.check_source(r, thread);
        }
        self.check_buffered(r, run, &mut gone);
        gone
    }

    /// What returned before this must be there (L1, L2).
    fn safe_before_ns(&self, r: usize) -> u128 {
        let run = &self.ledger.runs[r];
        let there = run
            .acks
            .iter()
            .filter(|((thread, n), ack)| match ack.again {
                false => *n < self.ledger.left_at(r, *thread, self.points[*thread]),
                true => self.has_some(r, *thread, *n, ack),
            });
        let last = there.map(|(_, ack)| ack.before_ns).max();
        last.unwrap_or(0).max(run.safe_before_ns(self.ledger.seed))
    }

    /// Whether a row of the batch is there.
    fn has_some(&self, r: usize, thread: usize, n: u64, ack: &Ack) -> bool {
        let firsts = ack.said.chars().enumerate().filter(|(_, v)| *v == 'F');
        let mut attempts = firsts.map(|(i, _)| attempt(r, thread, n, i));
        attempts.any(|a| self.rows.attempts.contains(&a))
    }

    /// Compares an acknowledged batch; whether it is there.
    fn check_ack(&mut self, r: usize, thread: usize, n: u64, ack: &Ack, must: bool) -> bool {
        let messages = plan(self.ledger.seed, thread, n).messages;
        assert_eq!(ack.said.len(), messages.len(), "a verdict for each message");
        let point = self.ledger.left_at(r, thread, self.points[thread]);
        let there = match ack.again {
            false => n < point,
            true => self.has_some(r, thread, n, ack) || !ack.said.contains('F'),
        };
        if !there && !must {
            return false;
        }
        for (i, (message, verdict)) in messages.iter().zip(ack.said.chars()).enumerate() {
            let attempt = attempt(r, thread, n, i);
            let text = || format!("{message:?} by {}, said {verdict}", attempt.text());
            let has_row = match verdict {
                'F' => self.rows.attempts.contains(&attempt),
                'D' => self.rows.of.contains_key(&key(message)),
                'R' if message.scope == In::Limited && !self.rows.attempts.contains(&attempt) => {
                    true
                }
                // Said by a child that is broken on purpose, and can't know.
                '-' => true,
                _ => {
                    self.found.doubled(text());
                    continue;
                }
            };
            match (has_row, must) {
                (true, _) => {}
                (false, true) => self.found.lost(text()),
                (false, false) => self.found.torn(text()),
            }
        }
        if !there && !ack.again {
            let text = format!("run {r}, thread {thread}: at {point}, acknowledged {n}");
            self.found.lost(text);
        }
        there
    }

    /// A batch is there iff its source's resume point is past it.
    fn check_source(&mut self, r: usize, thread: usize) {
        let Look { ledger, found, .. } = self;
        let run = &ledger.runs[r];
        let Some(start) = run.starts.get(&thread) else {
            return;
        };
        let end = ledger.left_at(r, thread, self.points[thread]);
        let sent = run.acks.range((thread, *start)..(thread, u64::MAX)).last();
        let acked = sent.map_or(*start, |((_, n), _)| n + 1);
        let told = run
            .too_late
            .get(&thread)
            .map_or(acked, |n| acked.max(n + 1));
        if end < *start {
            found.lost(format!(
                "run {r}, thread {thread}: at {end}, started at {start}"
            ));
        } else if end > told + SUBMITTED {
            found.torn(format!("run {r}, thread {thread}: at {end}, sent {told}"));
        }
        if let Some(n) = run.denied.get(&thread)
            && end > *n
            && !run.acks.contains_key(&(thread, *n))
        {
            found.torn(format!(
                "run {r}, thread {thread}: {n} is there, and failed"
            ));
        }
        for n in *start..end {
            for message in plan(ledger.seed, thread, n).messages {
                let may_be_refused = message.scope == In::Limited;
                if !may_be_refused && !self.rows.of.contains_key(&key(&message)) {
                    found.torn(format!("{message:?} of thread {thread}, batch {n}: no row"));
                }
            }
        }
        let beyond = |a: &&Attempt| a.run == r as u64 && a.thread == thread && a.n >= end;
        for attempt in self.rows.attempts.iter().filter(beyond) {
            found.torn(format!("{attempt:?} has a row, and the source is at {end}"));
        }
    }

    /// The first of a run's buffered batches are there, whole.
    fn check_buffered(&mut self, r: usize, run: &Run, gone: &mut Gone) {
        let mut present: BTreeMap<u64, usize> = BTreeMap::new();
        let ours = |a: &&Attempt| a.thread == SENDERS && a.run == r as u64;
        for attempt in self.rows.attempts.iter().filter(ours) {
            *present.entry(attempt.n).or_default() += 1;
        }
        for (expected, (n, rows)) in (0..).zip(&present) {
            if *n != expected || *rows != BUFFERED {
                let text = format!("run {r}, buffered batch {n}: {rows} rows of {BUFFERED}");
                self.found.torn(text);
            }
        }
        for (n, ack) in run
            .buffered
            .iter()
            .filter(|(n, _)| !present.contains_key(n))
        {
            gone.buffered.insert(*n);
            if run.keeps_buffered(ack) {
                self.found.lost(format!("run {r}: buffered batch {n}"));
            }
        }
    }

    fn check_doubles(&mut self) {
        // The store's times are whole milliseconds: an id recorded late in one is remembered for
        // as much less.
        let short_ns = SHORT.as_nanos() - 1_000_000;
        for ((scope, id), attempts) in &self.rows.of {
            if scope.is_long() {
                if attempts.len() > 1 {
                    self.found.doubled(format!("{scope:?} {id}: {attempts:?}"));
                }
                continue;
            }
            for (at, a) in attempts.iter().enumerate() {
                for b in &attempts[at + 1..] {
                    let (Some(x), Some(y)) = (self.ledger.ack(a), self.ledger.ack(b)) else {
                        continue;
                    };
                    let from = x.before_ns.min(y.before_ns);
                    if x.after_ns.max(y.after_ns) - from < short_ns {
                        let times = [x.before_ns, x.after_ns, y.before_ns, y.after_ns]
                            .map(|t| t.saturating_sub(from) / 1_000_000);
                        self.found
                            .doubled(format!("{scope:?} {id}: {a:?} {b:?}, {times:?} ms"));
                    }
                }
            }
        }
    }
}

fn attempt(r: usize, thread: usize, n: u64, i: usize) -> Attempt {
    Attempt {
        run: r as u64,
        thread,
        n,
        i,
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
    let limited = stored
        .iter()
        .filter(|(name, _)| name.starts_with(In::Limited.name()));
    for (name, count) in limited.filter(|(_, count)| **count > LIMIT) {
        found.doubled(format!("{name} came to {count}, more than {LIMIT}"));
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
