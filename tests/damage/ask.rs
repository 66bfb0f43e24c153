//! Asks a store everything and says what the answers come to.
//!
//! An error is an answer, if its kind is one that damage may have. Everything else must be right,
//! for one and the same number of commits, which the resume point tells.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use firstseen::{AuditEvent, Durability, Error, ErrorKind, Scope, Verdict};

use super::content::{ALL, FLOOR, FORGOTTEN, Open, SOURCE, Setup, month_id, row, week_ids};

/// What the answers came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    /// Everything was answered, all of it right.
    Right,
    /// Everything was answered as after an earlier commit, at or above the floor.
    Prefix,
    /// Some answers were errors, all others right.
    Partly,
    /// The store did not open: damaged.
    Refused,
    /// The store did not open: recovered short.
    Short,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Outcome::Right => "right",
            Outcome::Prefix => "prefix",
            Outcome::Partly => "partly",
            Outcome::Refused => "damaged",
            Outcome::Short => "short",
        })
    }
}

/// The answers of one store.
#[derive(Default)]
pub(crate) struct Asked {
    /// The commit up to which the store answers.
    pub(crate) k: Option<u64>,
    /// Answers that were errors.
    pub(crate) errors: Vec<Error>,
    /// Answers that were wrong, which must never be.
    pub(crate) wrong: Vec<String>,
    /// The fewest commits it may answer for.
    lowest: u64,
    /// Whether new ids were inserted meanwhile.
    inserted: bool,
}

/// Opens a store and asks it everything, three times: as it came back, after new ids were
/// inserted and everything was sealed and merged, and after another open.
pub(crate) fn ask(dir: &Path, level: Durability) -> (Outcome, Asked) {
    ask_from(dir, level, FLOOR, false)
}

/// The same, of a store that may have come back with as few as `lowest` commits; `accept`: also
/// if its floor is higher.
pub(crate) fn ask_from(
    dir: &Path,
    level: Durability,
    lowest: u64,
    accept: bool,
) -> (Outcome, Asked) {
    let setup = Setup::later();
    let mut asked = Asked {
        lowest,
        ..Asked::default()
    };
    let mut refused = None;
    for round in 0..2 {
        // Once accepted, a loss needs no acceptance any more.
        let options = setup
            .options(level)
            .accept_recovered_short(accept && round == 0);
        match Open::new(dir, options) {
            Ok(open) => {
                asked.everything(&open, &setup);
                if round == 0 {
                    asked.insert(&open);
                    asked.compact(&open);
                    asked.everything(&open, &setup);
                }
                let closed = open.close();
                asked.fine("close", closed);
            }
            Err(error) => {
                asked.check_kind("open", &error);
                refused.get_or_insert((round, error.kind()));
                asked.errors.push(error);
            }
        }
    }
    let outcome = match refused {
        Some((0, ErrorKind::RecoveredShort)) => Outcome::Short,
        Some((0, _)) => Outcome::Refused,
        Some(_) => Outcome::Partly,
        None if !asked.errors.is_empty() => Outcome::Partly,
        None if asked.k == Some(ALL) => Outcome::Right,
        None => Outcome::Prefix,
    };
    (outcome, asked)
}

impl Asked {
    /// The answer, unless it was an error.
    fn fine<T>(&mut self, what: &str, answer: Result<T, Error>) -> Option<T> {
        match answer {
            Ok(answer) => Some(answer),
            Err(error) => {
                self.check_kind(what, &error);
                self.errors.push(error);
                None
            }
        }
    }

    /// The items up to the first error, after which there must be no more; whether there was none.
    fn items<T>(
        &mut self,
        what: &str,
        items: Result<impl Iterator<Item = Result<T, Error>>, Error>,
        mut each: impl FnMut(&mut Asked, T),
    ) -> bool {
        let Some(mut items) = self.fine(what, items) else {
            return false;
        };
        while let Some(item) = items.next() {
            let Some(item) = self.fine(what, item) else {
                if items.next().is_some() {
                    self.wrong.push(format!("{what} goes on after an error"));
                }
                return false;
            };
            each(self, item);
        }
        true
    }

    fn check_kind(&mut self, what: &str, error: &Error) {
        let stopped = error.kind() == ErrorKind::Degraded && what != "open";
        let damaged = matches!(error.kind(), ErrorKind::Damaged | ErrorKind::RecoveredShort);
        if !damaged && !stopped {
            self.wrong.push(format!("{what}: the kind of {error:?}"));
        }
    }

    fn expect<T: PartialEq + fmt::Debug>(&mut self, what: &str, answer: T, right: T) {
        if answer != right {
            self.wrong
                .push(format!("{what}: {answer:?}, not {right:?}"));
        }
    }

    fn everything(&mut self, open: &Open, setup: &Setup) {
        self.point(open);
        let k = self.k.unwrap_or(ALL);
        let week: BTreeMap<String, u64> = (1..=k)
            .flat_map(|k| week_ids(k).map(move |id| (id, k)))
            .collect();
        let month: BTreeMap<String, u64> = (1..=k).map(|k| (month_id(k), k)).collect();
        self.peeks(&open.week, &week, setup);
        self.peeks(&open.month, &month, setup);
        for k in k + 1..=ALL {
            let ids = week_ids(k).map(|id| (&open.week, id));
            for (scope, id) in ids.chain([(&open.month, month_id(k))]) {
                self.unknown(scope, &id);
            }
        }
        for n in 0..200 {
            self.unknown(&open.week, &format!("order-9999-{n:04}"));
        }
        if !self.inserted {
            self.unknown(&open.week, FORGOTTEN.0);
        }
        self.scan(&open.week, &week, setup);
        self.scan(&open.month, &month, setup);
        self.rows(open, &week);
        if let Some(total) = self.fine("the counter", open.total.get("n")) {
            let total = total.and_then(|v| v.as_counter());
            self.expect("the counter", total, Some(k as i64));
        }
        self.audit(open);
    }

    /// The resume point says up to which commit the store answers; from then on it must not move.
    fn point(&mut self, open: &Open) {
        let Some(point) = self.fine("the resume point", open.store.resume_point(SOURCE)) else {
            return;
        };
        let k = point.and_then(|p| p.as_u64()).unwrap_or(0);
        if !(self.lowest..=ALL).contains(&k) {
            self.wrong.push(format!("the resume point is {k}"));
        }
        let before = *self.k.get_or_insert(k);
        self.expect("the resume point", k, before);
    }

    fn peeks(&mut self, scope: &Scope, known: &BTreeMap<String, u64>, setup: &Setup) {
        for (id, k) in known {
            if let Some(sighting) = self.fine("a peek", scope.peek(id)) {
                let at = sighting.map(|s| s.first_seen_at());
                self.expect(id, at, Some(setup.made_at(*k)));
            }
        }
    }

    fn unknown(&mut self, scope: &Scope, id: &str) {
        if let Some(sighting) = self.fine("a peek", scope.peek(id)) {
            self.expect(id, sighting, None);
        }
    }

    fn scan(&mut self, scope: &Scope, known: &BTreeMap<String, u64>, setup: &Setup) {
        let mut found = 0;
        let whole = self.items("a scan", scope.scan(..), |asked, (id, sighting)| {
            let id = String::from_utf8_lossy(&id).into_owned();
            if asked.inserted && is_new(&id) {
                return;
            }
            found += 1;
            let at = sighting.first_seen_at();
            match known.get(&id) {
                Some(k) => asked.expect(&id, at, setup.made_at(*k)),
                None => asked.wrong.push(format!("the scan has {id}")),
            }
        });
        if whole {
            self.expect("ids of a scan", found, known.len());
        }
    }

    fn rows(&mut self, open: &Open, known: &BTreeMap<String, u64>) {
        for id in known.keys() {
            if let Some(value) = self.fine("a row", open.rows.get(id)) {
                let value = value.map(|v| String::from_utf8_lossy(&v).into_owned());
                self.expect(id, value, Some(row(id)));
            }
        }
        let mut found = 0;
        let whole = self.items("rows", open.rows.range(""), |asked, (key, value)| {
            let id = String::from_utf8_lossy(&key).into_owned();
            asked.expect(&id, known.contains_key(&id), true);
            asked.expect(&id, &value[..], row(&id).as_bytes());
            found += 1;
        });
        if whole {
            self.expect("rows", found, known.len());
        }
    }

    fn audit(&mut self, open: &Open) {
        let mut found = Vec::new();
        let entries = open.store.audit();
        if !self.items("the audit", entries, |_, entry| {
            found.push((entry.event, entry.why))
        }) {
            return;
        }
        let event = AuditEvent::Forgotten {
            scope: "week".to_string(),
            id: FORGOTTEN.0.as_bytes().to_vec().into(),
        };
        self.expect("the audit", found, vec![(event, FORGOTTEN.1.to_string())]);
    }

    /// Every known id is a duplicate, every other one first seen, and a duplicate from then on.
    fn insert(&mut self, open: &Open) {
        let k = self.k.unwrap_or(ALL);
        let known: Vec<String> = (1..=k).flat_map(week_ids).collect();
        let verdicts = open.week.insert_all(known.iter().map(String::as_str));
        if let Some(verdicts) = self.fine("many inserts", verdicts) {
            let firsts = verdicts.iter().filter(|v| !v.is_duplicate()).count();
            self.expect("known ids that were not duplicates", firsts, 0);
        } else {
            for id in &known {
                let verdict = open.week.insert(id);
                if let Some(verdict) = self.fine("an insert", verdict) {
                    self.expect(id, verdict.is_duplicate(), true);
                }
            }
        }
        for k in 1..=k {
            if let Some(verdict) = self.fine("an insert", open.month.insert(&month_id(k))) {
                self.expect("a customer", verdict.is_duplicate(), true);
            }
        }
        for id in new_ids() {
            for is_first in [true, false] {
                let verdict: Option<Verdict> = self.fine("an insert", open.week.insert(&id));
                if let Some(verdict) = verdict {
                    let right = verdict.is_first() == is_first;
                    self.expect(&id, (right, verdict.is_duplicate()), (true, !is_first));
                }
            }
        }
        self.inserted = true;
    }

    fn compact(&mut self, open: &Open) {
        let compacted = open.store.compact();
        self.fine("a compaction", compacted);
    }

    /// What it said first, and how often.
    pub(crate) fn summary(&self) -> String {
        let first = self.errors.first().map(Error::to_string);
        let (k, errors, wrong) = (self.k, self.errors.len(), self.wrong.len());
        let first_wrong = self.wrong.first();
        format!("commits {k:?}, errors {errors} {first:?}, wrong {wrong} {first_wrong:?}")
    }
}

fn new_ids() -> impl Iterator<Item = String> {
    let fresh = (0..20).map(|n| format!("fresh-{n}"));
    fresh.chain([FORGOTTEN.0.to_string()])
}

fn is_new(id: &str) -> bool {
    id.starts_with("fresh-") || id == FORGOTTEN.0
}
