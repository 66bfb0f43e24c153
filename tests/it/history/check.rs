//! The pass over a history, stamp by stamp.

use std::collections::HashMap;
use std::fmt;

use super::counter::Counter;
use super::machine::{Machine, Op};
use super::record::{Answer, Call, History};

/// What is wrong with a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wrong {
    /// Two calls at once were first within one span.
    Doubled,
    /// An acknowledged id was not known to a later call, within its span.
    Lost,
    /// A duplicate, or another call that knew the id, and no first sight that it tells of.
    Unfounded,
    /// A call knew the id after its span had ended.
    Stale,
    /// A counter is not the sum of what was acknowledged.
    Miscounted,
}

/// The first thing that is wrong, with all that happened to that id.
pub(crate) struct Fault {
    pub(crate) wrong: Wrong,
    pub(crate) id: u64,
    text: String,
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "id {}: {:?}\n{}", self.id, self.wrong, self.text)
    }
}

/// What a history without a fault had in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Passed {
    pub(crate) calls: u64,
    pub(crate) firsts: u64,
    pub(crate) duplicates: u64,
    pub(crate) reads: u64,
    pub(crate) unknown: u64,
}

#[derive(Clone, Copy)]
enum Event {
    None,
    Begin(usize),
    End(usize),
    BeginRead(usize),
    EndRead(usize),
    EndSync(usize),
    Crash,
}

/// Whether all answers have an order.
///
/// # Errors
/// The first call that has no place in any.
pub(crate) fn check(history: &History) -> Result<Passed, Fault> {
    let mut pass = Pass {
        history,
        ids: HashMap::new(),
        counters: HashMap::new(),
        places: vec![Vec::new(); history.calls.len()],
        least: vec![0; history.reads.len()],
        synced_from: 0,
        passed: Passed::default(),
    };
    for event in events(history) {
        pass.step(event)?;
    }
    Ok(pass.passed)
}

/// Stamps are given out one by one, so they are places in a list.
fn events(history: &History) -> Vec<Event> {
    let calls = history.calls.iter().enumerate();
    let calls =
        calls.flat_map(|(i, c)| [(c.span.from, Event::Begin(i)), (c.span.to, Event::End(i))]);
    let reads = history.reads.iter().enumerate();
    let reads = reads.flat_map(|(i, r)| {
        [
            (r.span.from, Event::BeginRead(i)),
            (r.span.to, Event::EndRead(i)),
        ]
    });
    let syncs = history.syncs.iter().enumerate();
    let syncs = syncs.map(|(i, s)| (s.to, Event::EndSync(i)));
    let crashes = history.crashes.iter().map(|at| (*at, Event::Crash));
    let all: Vec<(u64, Event)> = calls.chain(reads).chain(syncs).chain(crashes).collect();
    let last = all.iter().map(|(at, _)| *at + 1).max().unwrap_or(0);
    let mut events = vec![Event::None; last as usize];
    for (at, event) in all {
        events[at as usize] = event;
    }
    events
}

struct Pass<'a> {
    history: &'a History,
    ids: HashMap<u64, Machine>,
    counters: HashMap<u64, Counter>,
    /// For each call, its places in the machines of its ids.
    places: Vec<Vec<usize>>,
    /// For each read, the least it may say.
    least: Vec<u64>,
    /// When the latest sync began of those that ended.
    synced_from: u64,
    passed: Passed,
}

impl Pass<'_> {
    fn step(&mut self, event: Event) -> Result<(), Fault> {
        let history = self.history;
        match event {
            Event::None => {}
            Event::Begin(i) => self.begin(i),
            Event::End(i) => self.end(i)?,
            Event::BeginRead(i) => {
                let counter = self.counters.entry(history.reads[i].id).or_default();
                self.least[i] = counter.least();
            }
            Event::EndRead(i) => self.end_read(i)?,
            Event::EndSync(i) => self.synced_from = self.synced_from.max(history.syncs[i].from),
            Event::Crash => {
                let synced_from = self.synced_from;
                let ids = self.ids.values_mut();
                ids.for_each(|id| id.crash(synced_from));
            }
        }
        Ok(())
    }

    fn begin(&mut self, i: usize) {
        let call = &self.history.calls[i];
        for (id, answer) in &call.said {
            let op = Op {
                span: call.span,
                is_buffered: call.is_buffered,
                answer: *answer,
            };
            let retention_ms = self.history.retention_ms;
            let machine = self
                .ids
                .entry(*id)
                .or_insert_with(|| Machine::new(retention_ms));
            self.places[i].push(machine.begin(op));
            if call.counts && matches!(answer, Answer::First | Answer::Unknown) {
                self.counters.entry(*id).or_default().begin();
            }
        }
    }

    fn end(&mut self, i: usize) -> Result<(), Fault> {
        let call = &self.history.calls[i];
        self.passed.calls += 1;
        for ((id, answer), place) in call.said.iter().zip(&self.places[i]) {
            match answer {
                Answer::First => self.passed.firsts += 1,
                Answer::Duplicate(_) => self.passed.duplicates += 1,
                // Whether it took effect comes out after the reopening.
                Answer::Unknown | Answer::UnknownForget => {
                    self.passed.unknown += 1;
                    continue;
                }
                Answer::Forgot(_) | Answer::Peeked(_) => {}
            }
            let fits = self
                .ids
                .get_mut(id)
                .is_some_and(|machine| machine.end(*place));
            if !fits {
                return Err(self.fault(*id, wrong(self.history, call, *id, *answer), call));
            }
            if call.counts && *answer == Answer::First {
                self.counters.entry(*id).or_default().end();
            }
        }
        Ok(())
    }

    fn end_read(&mut self, i: usize) -> Result<(), Fault> {
        let read = &self.history.reads[i];
        self.passed.reads += 1;
        let counter = self.counters.entry(read.id).or_default();
        if counter.read(read.value, self.least[i]) {
            return Ok(());
        }
        Err(Fault {
            wrong: Wrong::Miscounted,
            id: read.id,
            text: format!("{read:?}, but at least {} was acknowledged", self.least[i]),
        })
    }

    /// The calls of an id up to the one that does not fit.
    fn fault(&self, id: u64, wrong: Wrong, last: &Call) -> Fault {
        const SHOWN: usize = 40;
        let mut lines: Vec<(u64, String)> = Vec::new();
        for call in self
            .history
            .calls
            .iter()
            .filter(|c| c.span.from < last.span.to)
        {
            for (_, answer) in call.said.iter().filter(|(said, _)| *said == id) {
                let Call { thread, span, .. } = call;
                let buffered = if call.is_buffered { " buffered" } else { "" };
                let line = format!(
                    "{}..{} (time {}..{}) thread {thread}: {answer:?}{buffered}",
                    span.from, span.to, span.from_ms, span.to_ms
                );
                lines.push((span.to, line));
            }
        }
        let crashes = self.history.crashes.iter();
        lines.extend(crashes.map(|at| (*at, format!("{at} crash"))));
        lines.sort();
        let from = lines.len().saturating_sub(SHOWN);
        let lines: Vec<String> = lines.drain(from..).map(|(_, line)| line).collect();
        Fault {
            wrong,
            id,
            text: lines.join("\n"),
        }
    }
}

/// Which kind of wrong an answer without a place is.
fn wrong(history: &History, call: &Call, id: u64, answer: Answer) -> Wrong {
    let firsts = || {
        let calls = history.calls.iter();
        let said = |c: &&Call| {
            let mut said = c.said.iter();
            said.any(|(i, a)| *i == id && matches!(a, Answer::First | Answer::Unknown))
        };
        calls.filter(said).map(|c| c.span)
    };
    match answer {
        Answer::First | Answer::Unknown => match firsts().any(|s| s.to < call.span.from) {
            true => Wrong::Lost,
            false => Wrong::Doubled,
        },
        Answer::Forgot(false) | Answer::Peeked(None) => Wrong::Lost,
        Answer::Forgot(true) | Answer::UnknownForget => {
            match firsts().any(|s| s.from < call.span.to) {
                true => Wrong::Stale,
                false => Wrong::Unfounded,
            }
        }
        Answer::Duplicate(at) | Answer::Peeked(Some(at)) => {
            let tells = |s: super::record::Span| {
                s.from < call.span.to && (s.from_ms..=s.to_ms).contains(&at)
            };
            match firsts().any(tells) {
                true => Wrong::Stale,
                false => Wrong::Unfounded,
            }
        }
    }
}
