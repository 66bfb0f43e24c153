//! The one commit queue: whoever finds it idle leads, and takes all who wait along.
//!
//! Many callers with one commit each cost one write together; a lone caller leads at once and
//! pays nothing for the queue. Members come fully validated, holding their ids and rows, so the
//! leader never waits for them (I1, I4).

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::{Index, LogBuilder, Member};
use crate::sync::{Condvar, Mutex};

/// The queue.
#[derive(Default)]
pub(crate) struct Queue(Mutex<State>);

#[derive(Default)]
struct State {
    is_led: bool,
    waiting: Vec<Arc<Ticket>>,
}

/// A member that waits for a leader, or to lead.
struct Ticket {
    payload: Mutex<Option<(LogBuilder, Rep)>>,
    turn: Mutex<Turn>,
    changed: Condvar,
}

enum Turn {
    Wait,
    Lead,
    Done(Result<u64>),
}

impl Ticket {
    fn set(&self, turn: Turn) {
        *self.turn.lock() = turn;
        self.changed.notify_one();
    }
}

impl Queue {
    /// Commits; returns its number. The buffers come back, to be used again.
    ///
    /// # Errors
    /// As [`Index::append`].
    pub(crate) fn commit(
        &self,
        index: &Index,
        log: &mut LogBuilder,
        rows: &mut Rep,
    ) -> Result<u64> {
        let mut state = self.0.lock();
        if !state.is_led {
            state.is_led = true;
            drop(state);
            let _leader = Leader(self);
            return index.append(&[Member { log, rows }]);
        }
        let ticket = Arc::new(Ticket {
            payload: Mutex::new(Some((std::mem::take(log), std::mem::take(rows)))),
            turn: Mutex::new(Turn::Wait),
            changed: Condvar::new(),
        });
        state.waiting.push(Arc::clone(&ticket));
        drop(state);
        let outcome = self.wait(index, &ticket);
        if let Some((l, r)) = ticket.payload.lock().take() {
            (*log, *rows) = (l, r);
        }
        outcome
    }

    fn wait(&self, index: &Index, ticket: &Ticket) -> Result<u64> {
        let mut turn = ticket.turn.lock();
        loop {
            match std::mem::replace(&mut *turn, Turn::Wait) {
                Turn::Wait => ticket.changed.wait(&mut turn),
                Turn::Done(outcome) => return outcome,
                Turn::Lead => {
                    drop(turn);
                    self.lead(index);
                    turn = ticket.turn.lock();
                }
            }
        }
    }

    /// Commits for all who wait, the caller among them.
    fn lead(&self, index: &Index) {
        let _leader = Leader(self);
        let tickets = std::mem::take(&mut self.0.lock().waiting);
        let payloads: Vec<_> = tickets.iter().map(|t| t.payload.lock()).collect();
        let members: Vec<Member<'_>> = payloads
            .iter()
            .filter_map(|p| p.as_ref().map(|(log, rows)| Member { log, rows }))
            .collect();
        // Members must learn of it even if the leader unwinds; the store is poisoned then.
        let outcome = catch_unwind(AssertUnwindSafe(|| index.append(&members)))
            .unwrap_or_else(|_| index.poison.check().map(|()| 0).map_err(Error::unknown));
        drop(members);
        drop(payloads);
        for (i, ticket) in tickets.iter().enumerate() {
            let outcome = match &outcome {
                Ok(first) => Ok(first + i as u64),
                Err(error) => Err(error.copy()),
            };
            ticket.set(Turn::Done(outcome));
        }
    }
}

/// Hands the lead on when it ends, also by a panic.
struct Leader<'a>(&'a Queue);

impl Drop for Leader<'_> {
    fn drop(&mut self) {
        let mut state = self.0.0.lock();
        match state.waiting.first() {
            None => state.is_led = false,
            Some(next) => next.set(Turn::Lead),
        }
    }
}
