//! One id: the set of states it may be in, given the answers so far.
//!
//! A *configuration* is a state together with the calls under way that have already taken
//! effect. When a call returns, every configuration in which it has not yet taken effect is
//! extended by calls under way, in every order that their answers allow, until it has. No
//! configuration left means that the answers have no order.
//!
//! A call that changes nothing where it stands takes effect at once, without a branch: no order
//! is lost by that, and of duplicates, which most calls are, no power set is built.

use super::record::{Answer, Span};

/// What of a call concerns one id.
#[derive(Clone, Copy, Debug)]
pub(super) struct Op {
    pub(super) span: Span,
    pub(super) is_buffered: bool,
    pub(super) answer: Answer,
}

/// Whether an id is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    New,
    /// First seen between two times. `loose`: when the call that began the span returned, if a
    /// crash may take it; 0 if not.
    Seen {
        since: u64,
        until: u64,
        loose: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Config {
    state: State,
    /// A bit for each place of a call under way that took effect.
    done: u64,
}

/// Calls that may be under way at once, unknown ones included.
const PLACES: usize = 64;

pub(super) struct Machine {
    retention_ms: Option<u64>,
    configs: Vec<Config>,
    under_way: Vec<Option<Op>>,
}

impl Machine {
    pub(super) fn new(retention_ms: Option<u64>) -> Machine {
        Machine {
            retention_ms,
            configs: vec![Config {
                state: State::New,
                done: 0,
            }],
            under_way: Vec::new(),
        }
    }

    /// A call is made; its place, for when it returns.
    pub(super) fn begin(&mut self, op: Op) -> usize {
        let free = self.under_way.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.under_way.push(None);
            self.under_way.len() - 1
        });
        assert!(place < PLACES, "too many calls of one id under way");
        self.under_way[place] = Some(op);
        place
    }

    /// A call returns: it has taken effect. False if it can't have.
    pub(super) fn end(&mut self, place: usize) -> bool {
        let bit = 1 << place;
        let mut left = self.reachable(Some(bit));
        left.retain(|config| config.done & bit != 0);
        left.iter_mut().for_each(|config| config.done &= !bit);
        self.under_way[place] = None;
        self.keep(left)
    }

    /// A crash while nobody is in a call: unknown outcomes are settled, and what was buffered
    /// and not made safe by a sync that began at `synced_from` or before may be gone.
    pub(super) fn crash(&mut self, synced_from: u64) {
        let mut left = self.reachable(None);
        let lost =
            |state: &State| matches!(state, State::Seen { loose, .. } if *loose > synced_from);
        let gone = left.iter().any(|config| lost(&config.state));
        left.iter_mut().for_each(|config| config.done = 0);
        if gone {
            left.push(Config {
                state: State::New,
                done: 0,
            });
        }
        self.under_way.clear();
        self.keep(left);
    }

    fn keep(&mut self, mut left: Vec<Config>) -> bool {
        left.sort_unstable();
        left.dedup();
        self.configs = left;
        !self.configs.is_empty()
    }

    /// All configurations that calls under way lead to; those with the `goal` go no further.
    fn reachable(&self, goal: Option<u64>) -> Vec<Config> {
        let mut found = Vec::new();
        let mut open = self.configs.clone();
        while let Some(config) = open.pop() {
            let config = self.read_all(config);
            if found.contains(&config) {
                continue;
            }
            found.push(config);
            if goal.is_some_and(|bit| config.done & bit != 0) {
                continue;
            }
            for (place, op) in self.under_way.iter().enumerate() {
                let bit = 1 << place;
                let Some(op) = op.as_ref().filter(|_| config.done & bit == 0) else {
                    continue;
                };
                if let Some(state) = after(config.state, op, self.retention_ms) {
                    let done = config.done | bit;
                    open.push(Config { state, done });
                }
            }
        }
        found
    }

    /// With the effect of all calls that change nothing.
    fn read_all(&self, mut config: Config) -> Config {
        for (place, op) in self.under_way.iter().enumerate() {
            let Some(op) = op else { continue };
            if after(config.state, op, self.retention_ms) == Some(config.state) {
                config.done |= 1 << place;
            }
        }
        config
    }
}

/// The state after a call with this answer, if it can be given here.
fn after(state: State, op: &Op, retention_ms: Option<u64>) -> Option<State> {
    let (from, to) = (op.span.from_ms, op.span.to_ms);
    // The earliest time at which a span has ended by itself, if the call may have come then.
    let ended = |since: u64| {
        let end = since + retention_ms?;
        (to >= end).then_some(end)
    };
    let lives = |until: u64| retention_ms.is_none_or(|ms| from < until + ms);
    let seen = |since: u64| State::Seen {
        since,
        until: to,
        loose: if op.is_buffered { op.span.to } else { 0 },
    };
    match (op.answer, state) {
        (Answer::First | Answer::Unknown, State::New) => Some(seen(from)),
        (Answer::First | Answer::Unknown, State::Seen { since, .. }) => {
            ended(since).map(|end| seen(end.max(from)))
        }
        (
            Answer::Duplicate(at) | Answer::Peeked(Some(at)),
            State::Seen {
                since,
                until,
                loose,
            },
        ) => {
            let fits = (since..=until).contains(&at) && at <= to && lives(at);
            // Another level's duplicate waited until its original was as safe; a peek sees what
            // is written.
            let stays = op.is_buffered && !matches!(op.answer, Answer::Peeked(_));
            let loose = if stays { loose } else { 0 };
            fits.then_some(State::Seen {
                since: at,
                until: at,
                loose,
            })
        }
        (Answer::Forgot(true) | Answer::UnknownForget, State::Seen { until, .. }) => {
            lives(until).then_some(State::New)
        }
        (Answer::Forgot(false) | Answer::Peeked(None), State::New) => Some(State::New),
        // Buffered commits are invisible to a peek until they are written.
        (Answer::Peeked(None), State::Seen { loose, .. }) if loose != 0 => Some(state),
        (Answer::Forgot(false) | Answer::Peeked(None), State::Seen { since, .. }) => {
            ended(since).map(|_| State::New)
        }
        (Answer::UnknownForget, State::New) => None,
        (Answer::Duplicate(_) | Answer::Peeked(Some(_)) | Answer::Forgot(true), State::New) => None,
    }
}
