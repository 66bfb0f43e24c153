//! What is recorded of a run: calls, reads of counters, syncs and crashes.
//!
//! Each thread writes a log of its own; only the counter of stamps is shared, so that recording
//! orders nothing that the calls themselves don't. Ids are numbers here; what bytes they have is
//! the caller's business.

use std::sync::atomic::{AtomicU64, Ordering};

/// What a call said about an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// First seen.
    First,
    /// A duplicate of a first sight at this time.
    Duplicate(u64),
    /// Whether a forget found it.
    Forgot(bool),
    /// What a peek knew: the time of first sight.
    Peeked(Option<u64>),
    /// The call failed and said that its outcome is unknown: first seen, or nothing.
    Unknown,
    /// A forget that failed like that.
    UnknownForget,
}

/// The two moments between which something took effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    /// Stamps of invocation and return.
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// The store's time at both, in milliseconds; a clock that is only nearly the store's is
    /// widened by whoever records.
    pub(crate) from_ms: u64,
    pub(crate) to_ms: u64,
}

/// A call about ids, each at most once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Call {
    pub(crate) thread: u64,
    pub(crate) span: Span,
    /// Acknowledged, but a crash may take it until something later makes it safe.
    pub(crate) is_buffered: bool,
    /// Each first seen added one to the counter of its id.
    pub(crate) counts: bool,
    pub(crate) said: Vec<(u64, Answer)>,
}

/// A read of an id's counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Read {
    pub(crate) span: Span,
    pub(crate) id: u64,
    pub(crate) value: u64,
}

/// All that happened.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// What spans last, if they end by themselves.
    pub(crate) retention_ms: Option<u64>,
    pub(crate) calls: Vec<Call>,
    pub(crate) reads: Vec<Read>,
    /// Calls of `sync` that succeeded.
    pub(crate) syncs: Vec<Span>,
    /// Stamps of crashes, or of closing and reopening, while no call was under way.
    pub(crate) crashes: Vec<u64>,
}

/// Gives out stamps and time.
pub(crate) struct Recorder<T> {
    stamp: AtomicU64,
    time: T,
    slack_ms: u64,
}

/// A call that was made and has not returned.
#[derive(Clone, Copy)]
pub(crate) struct Started {
    from: u64,
    from_ms: u64,
}

impl<T: Fn() -> u64> Recorder<T> {
    /// With a clock that is at most `slack_ms` from the store's.
    pub(crate) fn new(time: T, slack_ms: u64) -> Recorder<T> {
        Recorder {
            stamp: AtomicU64::new(0),
            time,
            slack_ms,
        }
    }

    fn stamp(&self) -> u64 {
        self.stamp.fetch_add(1, Ordering::SeqCst)
    }

    pub(crate) fn start(&self) -> Started {
        let from_ms = (self.time)().saturating_sub(self.slack_ms);
        Started {
            from: self.stamp(),
            from_ms,
        }
    }

    fn end(&self, started: Started) -> Span {
        let to = self.stamp();
        Span {
            from: started.from,
            to,
            from_ms: started.from_ms,
            to_ms: (self.time)() + self.slack_ms,
        }
    }

    /// A crash now, while nobody is in a call.
    pub(crate) fn crash(&self, history: &mut History) {
        history.crashes.push(self.stamp());
    }
}

/// One thread's part of a history.
pub(crate) struct Log<'a, T> {
    recorder: &'a Recorder<T>,
    thread: u64,
    part: History,
}

impl<'a, T: Fn() -> u64> Log<'a, T> {
    pub(crate) fn new(recorder: &'a Recorder<T>, thread: u64) -> Log<'a, T> {
        Log {
            recorder,
            thread,
            part: History::default(),
        }
    }

    pub(crate) fn start(&self) -> Started {
        self.recorder.start()
    }

    /// What a call said; nothing is kept of one that recorded nothing and knew nothing.
    pub(crate) fn called(
        &mut self,
        started: Started,
        (is_buffered, counts): (bool, bool),
        said: Vec<(u64, Answer)>,
    ) {
        self.part.calls.push(Call {
            thread: self.thread,
            span: self.recorder.end(started),
            is_buffered,
            counts,
            said,
        });
    }

    pub(crate) fn read(&mut self, started: Started, id: u64, value: u64) {
        let span = self.recorder.end(started);
        self.part.reads.push(Read { span, id, value });
    }

    pub(crate) fn synced(&mut self, started: Started) {
        let span = self.recorder.end(started);
        self.part.syncs.push(span);
    }

    pub(crate) fn into_part(self) -> History {
        self.part
    }
}

impl History {
    pub(crate) fn new(retention_ms: Option<u64>) -> History {
        History {
            retention_ms,
            ..History::default()
        }
    }

    /// Takes in a thread's part.
    pub(crate) fn add(&mut self, part: History) {
        self.calls.extend(part.calls);
        self.reads.extend(part.reads);
        self.syncs.extend(part.syncs);
        self.crashes.extend(part.crashes);
    }
}
