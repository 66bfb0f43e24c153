//! What a closure of [`Scope::once`](crate::Scope::once) reads and writes with.

use std::marker::PhantomData;
use std::ops::RangeBounds;
use std::sync::Arc;

use crate::batch::Writes;
use crate::commit::{Draft, DraftCaps, Op, ScopeUse, TxState, When, counter_bounds};
use crate::error::{Error, Result};
use crate::outbox::Outbox;
use crate::position::Position;
use crate::scope::Scope;
use crate::store::Shared;
use crate::table::{Table, Value};

/// A closure's transaction. Its writes take effect together with the id, or not at all.
pub struct Tx<'a> {
    shared: Arc<Shared>,
    used: ScopeUse,
    caps: DraftCaps,
    state: TxState,
    _closure: PhantomData<&'a mut ()>,
}

impl Tx<'_> {
    pub(crate) fn new(scope: &Scope, caps: DraftCaps, state: TxState) -> Tx<'static> {
        Tx {
            shared: Arc::clone(&scope.shared),
            used: scope.used.clone(),
            caps,
            state,
            _closure: PhantomData,
        }
    }

    pub(crate) fn into_state(self) -> TxState {
        self.state
    }

    /// The store's failure that this run met.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.failure()
    }

    /// Takes back what was written so far.
    pub(crate) fn undo(&mut self) {
        self.state.undo();
    }

    /// Leaves resume points where they are.
    pub(crate) fn stay(&mut self) {
        self.state.stay();
    }

    /// The id is recorded as failed for good, with a text if the scope stores results.
    pub(crate) fn fail_for_good(&mut self, text: &str) {
        self.state.set_failed();
        if self.used.policy.check_result(text.as_bytes()).is_ok() {
            self.state.set_result(text.as_bytes());
        }
    }

    /// A row's value, with the closure's own writes seen. In a guarded table the row stays
    /// locked until the commit.
    ///
    /// # Errors
    /// The store's; also the one that makes the closure run again when another commit has the
    /// row. Pass errors on.
    pub fn get(&mut self, table: &Table, key: impl AsRef<[u8]>) -> Result<Option<Value>> {
        if !Arc::ptr_eq(&table.shared, &self.shared) {
            self.state.fail(Error::foreign("the table"));
            return Err(Error::foreign("the table"));
        }
        Ok(self.state.get(&table.state, key.as_ref())?.map(Value::from))
    }

    fn write(&mut self, table: &Table, key: &[u8], op: Op<'_>) -> &mut Self {
        if Arc::ptr_eq(&table.shared, &self.shared) {
            self.state.write(&table.state, key, op);
        } else {
            self.state.fail(Error::foreign("the table"));
        }
        self
    }

    /// Puts a row.
    pub fn put(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::Put {
                value: value.as_ref(),
            },
        )
    }

    /// Sends a message through an [`Outbox`] with this commit; see [`Writes::send`].
    pub fn send(&mut self, outbox: &Outbox, payload: impl AsRef<[u8]>) -> &mut Self {
        if Arc::ptr_eq(&outbox.shared, &self.shared) {
            self.state.send(&outbox.state, payload.as_ref());
        } else {
            self.state.fail(Error::foreign("the outbox"));
        }
        self
    }

    /// Deletes a row.
    pub fn delete(&mut self, table: &Table, key: impl AsRef<[u8]>) -> &mut Self {
        self.write(table, key.as_ref(), Op::Delete)
    }

    /// Adds to a counter; see [`Writes::add`].
    pub fn add(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        by: i64,
        within: impl RangeBounds<i64>,
    ) -> &mut Self {
        let (low, high) = counter_bounds(&within);
        self.write(table, key.as_ref(), Op::Add { by, low, high })
    }

    /// Moves a state; see [`Writes::transition`].
    pub fn transition(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        from: &[u8],
        to: &[u8],
    ) -> &mut Self {
        self.write(table, key.as_ref(), Op::Transition { from, to })
    }

    /// Replaces an expected value; see [`Writes::compare_and_set`].
    pub fn compare_and_set(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::CompareAndSet {
                expected,
                value: value.as_ref(),
            },
        )
    }

    /// Replaces an expected version; see [`Writes::compare_version`].
    pub fn compare_version(
        &mut self,
        table: &Table,
        key: impl AsRef<[u8]>,
        expected: Option<u64>,
        value: impl AsRef<[u8]>,
    ) -> &mut Self {
        self.write(
            table,
            key.as_ref(),
            Op::CompareVersion {
                expected,
                value: value.as_ref(),
            },
        )
    }

    /// What is written instead, with the id recorded as refused, if a condition does not hold.
    pub fn if_refused(&mut self, f: impl FnOnce(&mut Writes<'_>)) -> &mut Self {
        let mut draft = Draft::fallback(&self.used);
        f(&mut Writes::new(
            &self.shared,
            &mut draft,
            self.caps,
            (0, When::Refused),
        ));
        match draft.error.take() {
            Some(error) => self.state.fail(error),
            None => self.state.set_fallback(draft),
        }
        self
    }

    /// Moves a source's resume point in the same commit: the *next* position to read.
    pub fn resume_at(&mut self, source: &str, next: impl Into<Position>) -> &mut Self {
        self.state.resume_at(source, next.into());
        self
    }

    /// Stores a result with the id, for its duplicates; see [`Writes::result`]. The closure's
    /// last one counts.
    pub fn result(&mut self, bytes: impl AsRef<[u8]>) -> &mut Self {
        match self.used.policy.check_result(bytes.as_ref()) {
            Ok(()) => self.state.set_result(bytes.as_ref()),
            Err(error) => self.state.fail(error),
        }
        self
    }

    /// Gives the message up; see [`Writes::dead_letter`].
    pub fn dead_letter(&mut self, why: &str, payload: &[u8]) -> &mut Self {
        self.state.set_dead(why, payload);
        self
    }

    /// Finishes without recording anything: the verdict is `Declined`.
    pub fn decline(&mut self) {
        self.state.decline();
    }
}
