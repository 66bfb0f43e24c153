//! What a batch holds before it is decided: items, their ids, and their writes.
//!
//! Everything is copied once into a few growing buffers, which a batch keeps and uses again.
//! Writes into plain tables go at once into RocksDB's own form, so that those of first seen
//! items are copied as they are; writes that need a row's value are kept apart and evaluated
//! under the row's lock.

use std::sync::Arc;

use crate::catalog::TableState;
use crate::claims::Change;
use crate::clock::millis;
use crate::engine::Rep;
use crate::error::{Error, ErrorKind, Result};
use crate::id::Id;
use crate::index::{Fingerprint, LogBuilder};
use crate::policy::{DURATION_MS_MAX, OnMissingId, Policy};
use crate::position::{POSITION_BYTES_MAX, Position};
use crate::verdict::BadId;

use super::decide::Entry;
use super::item::{Item, More, ScopeUse, check_id};
use super::sequences::{Run, SequencesUse};
use super::write::{Bytes, Op, StoredOp, What, When, Write};

/// How much a batch may hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DraftCaps {
    pub(crate) items: usize,
    pub(crate) bytes: usize,
    /// Whether the sources of ids count, also where the scope keeps none.
    pub(crate) sources: bool,
}

/// A batch that is being filled.
#[derive(Default)]
pub(crate) struct Draft {
    pub(crate) bytes: Vec<u8>,
    pub(crate) scopes: Vec<ScopeUse>,
    /// Producers of sequences; one may be there more than once.
    pub(super) runs: Vec<Run>,
    pub(super) spaces: Vec<SequencesUse>,
    pub(crate) tables: Vec<Arc<TableState>>,
    pub(crate) items: Vec<Item>,
    /// Of the items that have more than most.
    more: Vec<More>,
    pub(crate) writes: Vec<Write>,
    pub(crate) plain: Rep,
    pub(crate) points: Vec<(String, Position)>,
    /// The first misuse; the commit reports it and nothing is recorded.
    pub(crate) error: Option<Error>,
    pub(crate) has_guarded: bool,
    /// Whether some item is about a claim, or gives its message up.
    pub(crate) has_claims: bool,
    pub(crate) has_dead: bool,
    is_unconditional: bool,
    is_out_of_order: bool,
    /// Whether some item is more than a good id of the first one's length.
    pub(super) is_mixed: bool,
    /// What the last commit was made with, for the next one's use.
    pub(super) spare: Spare,
}

/// The large buffers of a commit. Allocating them anew for each batch costs some 5 % of it.
#[derive(Default)]
pub(super) struct Spare {
    pub(super) entries: Vec<Entry>,
    pub(super) entry_of: Vec<u32>,
    pub(super) log: LogBuilder,
    pub(super) rows: Rep,
    pub(super) changes: Vec<Change>,
}

impl Draft {
    /// For the writes of a closure's `if_refused`: one item, which they and the result are of.
    pub(crate) fn fallback(scope: &ScopeUse) -> Draft {
        let mut draft = Draft::default();
        draft.scope_at(scope);
        draft.items.push(Item::default());
        draft
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
        self.scopes.clear();
        self.runs.clear();
        self.spaces.clear();
        self.tables.clear();
        self.items.clear();
        self.more.clear();
        self.writes.clear();
        self.plain.clear();
        self.points.clear();
        self.error = None;
        self.has_guarded = false;
        self.has_claims = false;
        self.has_dead = false;
        self.is_unconditional = false;
        self.is_out_of_order = false;
        self.is_mixed = false;
    }

    /// The length of the ids, if all items are nothing but good ids of one scope and one
    /// length: then `bytes` is their ids and no more.
    pub(super) fn uniform(&self) -> Option<usize> {
        let first = self.items.first()?;
        let is_uniform = !self.is_mixed && self.scopes.len() == 1 && self.writes.is_empty();
        is_uniform.then(|| first.id.len())
    }

    /// An item, to make more of it than an id.
    pub(crate) fn item_mut(&mut self, item: u32) -> Option<&mut Item> {
        self.is_mixed = true;
        self.items.get_mut(item as usize)
    }

    /// What an item has that few have.
    pub(super) fn more(&self, item: &Item) -> Option<&More> {
        self.more.get((item.more as usize).checked_sub(1)?)
    }

    pub(super) fn more_mut(&mut self, item: u32) -> &mut More {
        self.is_mixed = true;
        let number = &mut self.items[item as usize].more;
        if *number == 0 {
            self.more.push(More::default());
            *number = self.more.len() as u32;
        }
        &mut self.more[*number as usize - 1]
    }

    /// The result that an item's record stores.
    pub(super) fn result(&self, item: &Item, refused: bool) -> Option<&[u8]> {
        let bytes = self.more(item)?.result(refused)?;
        Some(self.get(bytes))
    }

    /// Sets the result of an item, or of its fallback; the last one given counts.
    pub(crate) fn set_result(&mut self, (item, when): (u32, When), bytes: &[u8], caps: DraftCaps) {
        let has_one = |of: &&Item| when != When::Always && !of.is_sequence;
        let Some(of) = self.items.get(item as usize).filter(has_one) else {
            return self.fail(Error::invalid("only an item with an id has a result"));
        };
        let checked = self.scopes[of.scope as usize].policy.check_result(bytes);
        if let Err(error) = checked {
            return self.fail(error);
        }
        let bytes = self.push(bytes, caps);
        let more = self.more_mut(item);
        match when {
            When::Refused => more.refused_result = Some(bytes),
            _ => more.result = Some(bytes),
        }
    }

    /// The result of a closure's one item, which its policy allows.
    pub(super) fn keep_result(&mut self, refused: bool, bytes: &[u8]) {
        let start = self.bytes.len() as u32;
        self.bytes.extend_from_slice(bytes);
        let bytes = Some(start..self.bytes.len() as u32);
        let more = self.more_mut(0);
        match refused {
            true => more.refused_result = bytes,
            false => more.result = bytes,
        }
    }

    pub(crate) fn get(&self, range: &Bytes) -> &[u8] {
        &self.bytes[range.start as usize..range.end as usize]
    }

    pub(crate) fn fail(&mut self, error: Error) {
        self.error.get_or_insert(error);
    }

    /// Adds an item; returns its position.
    pub(crate) fn add_item(&mut self, scope: &ScopeUse, id: &Id<'_>, caps: DraftCaps) -> u32 {
        if self.items.len() >= caps.items {
            let text = format!("the batch has more than {} items", caps.items);
            self.fail(Error::new(ErrorKind::Full, text));
        }
        if let Some(bytes) = id.bytes
            && id.is_plain()
            && scope.policy.id_time.is_none()
            && !bytes.is_empty()
            && bytes.len() <= scope.policy.id_bytes_max
        {
            // Nearly every item: only an id, and a good one.
            let scope = self.scope_at(scope);
            let id = self.push(bytes, caps);
            self.is_mixed |= self.items.last().is_some_and(|l| l.id.len() != id.len());
            self.items.push(Item {
                scope,
                id,
                ..Item::default()
            });
            return (self.items.len() - 1) as u32;
        }
        self.add_odd_item(scope, id, caps)
    }

    fn add_odd_item(&mut self, scope: &ScopeUse, id: &Id<'_>, caps: DraftCaps) -> u32 {
        self.is_mixed = true;
        let time = self.item_time(id, scope);
        let bad = check_id(id, &scope.policy).or(time.err());
        let is_unkeyed =
            bad == Some(BadId::Missing) && scope.policy.on_missing_id == OnMissingId::Process;
        let payload = self.check_payload(id, scope);
        let scope = self.scope_at(scope);
        let bad = if is_unkeyed { None } else { bad };
        let usable = bad.is_none() && !is_unkeyed;
        let id_bytes = id.bytes.filter(|_| usable).unwrap_or_default();
        let source = id
            .source
            .filter(|_| usable && (caps.sources || self.scopes[scope as usize].policy.sources));
        let item = Item {
            scope,
            id: self.push(id_bytes, caps),
            also: id.also.filter(|_| usable).map(|also| self.push(also, caps)),
            source: source.map(|source| self.push(source.as_bytes(), caps)),
            time: time.unwrap_or_default(),
            bad,
            is_unkeyed,
            ..Item::default()
        };
        self.items.push(item);
        let at = (self.items.len() - 1) as u32;
        if let Some(fingerprint) = payload.filter(|_| usable) {
            self.more_mut(at).fingerprint = Some(fingerprint);
        }
        at
    }

    fn check_payload(&mut self, id: &Id<'_>, scope: &ScopeUse) -> Option<Fingerprint> {
        let body = id.payload?;
        if !scope.policy.payloads {
            self.fail(Error::invalid(
                "an id has a payload, but its scope's policy compares none (`payloads`)",
            ));
            return None;
        }
        Some(scope.state.fingerprint(&scope.hash, body))
    }

    pub(super) fn check_remember(&mut self, id: &Id<'_>, policy: &Policy) -> Option<u64> {
        let ms = millis(id.remember?);
        if policy.retention.longest_ms().is_none() {
            self.fail(Error::invalid(
                "an id of a scope that remembers for ever has a retention",
            ));
        } else if ms == 0 || ms > DURATION_MS_MAX {
            self.fail(Error::invalid(
                "an id's retention must be 1 ms to 200 years",
            ));
        }
        Some(ms)
    }

    /// Its scopes that only observe now.
    pub(super) fn observing(&self) -> Vec<u32> {
        let scopes = (0..).zip(&self.scopes);
        let observing = scopes.filter(|(_, scope)| scope.state.switches.observes());
        observing.map(|(at, _)| at).collect()
    }

    fn scope_at(&mut self, scope: &ScopeUse) -> u32 {
        let same = |s: &ScopeUse| {
            Arc::ptr_eq(&s.state, &scope.state) && Arc::ptr_eq(&s.policy, &scope.policy)
        };
        // Mostly it is the last one's.
        if self.scopes.last().is_some_and(same) {
            return (self.scopes.len() - 1) as u32;
        }
        if let Some(at) = self.scopes.iter().rposition(same) {
            return at as u32;
        }
        self.scopes.push(scope.clone());
        (self.scopes.len() - 1) as u32
    }

    pub(super) fn push(&mut self, part: &[u8], caps: DraftCaps) -> Bytes {
        let start = self.bytes.len();
        if start + self.plain.body().len() + part.len() > caps.bytes {
            let text = format!("the batch has more than {} bytes", caps.bytes);
            self.fail(Error::new(ErrorKind::Full, text));
            return 0..0;
        }
        self.bytes.extend_from_slice(part);
        start as u32..self.bytes.len() as u32
    }

    /// Adds a write to the item at a position.
    pub(crate) fn add_write(
        &mut self,
        (item, when): (u32, When),
        table: &Arc<TableState>,
        key: &[u8],
        op: Op<'_>,
        caps: DraftCaps,
    ) {
        self.is_unconditional |= when == When::Always;
        if table.guarded {
            return self.add_guarded((item, when), table, key, op, caps);
        }
        if op.is_conditional() {
            let text = format!(
                "table {:?} is plain; conditions need a guarded one",
                table.name
            );
            return self.fail(Error::invalid(text));
        }
        let value = if let Op::Put { value } = op {
            value.len()
        } else {
            0
        };
        if self.bytes.len() + self.plain.body().len() + key.len() + value > caps.bytes {
            let text = format!("the batch has more than {} bytes", caps.bytes);
            return self.fail(Error::new(ErrorKind::Full, text));
        }
        let start = self.plain.body().len();
        match op {
            Op::Put { value } => self.plain.put(table.family_number, key, value),
            _ => self.plain.delete(table.family_number, key),
        }
        let end = self.plain.body().len();
        self.table_at(table);
        if let Some(last) = self.writes.last_mut()
            && last.item == item
            && last.when == when
            && let What::Plain { body, count } = &mut last.what
            && body.end == start
        {
            body.end = end;
            *count += 1;
            return;
        }
        self.add(
            (item, when),
            What::Plain {
                body: start..end,
                count: 1,
            },
        );
    }

    /// Adds a message into an outbox to the item at a position.
    pub(crate) fn add_send(
        &mut self,
        to: (u32, When),
        outbox: &Arc<TableState>,
        payload: &[u8],
        caps: DraftCaps,
    ) {
        self.is_unconditional |= to.1 == When::Always;
        let payload = self.push(payload, caps);
        let table = self.table_at(outbox);
        self.add(to, What::Send { table, payload });
    }

    fn add_guarded(
        &mut self,
        to: (u32, When),
        table: &Arc<TableState>,
        key: &[u8],
        op: Op<'_>,
        caps: DraftCaps,
    ) {
        let op = match op {
            Op::Put { value } => StoredOp::Put {
                value: self.push(value, caps),
            },
            Op::Delete => StoredOp::Delete,
            Op::Add { by, low, high } => StoredOp::Add { by, low, high },
            Op::Transition { from, to } => {
                let from = self.push(from, caps);
                StoredOp::Transition {
                    from,
                    to: self.push(to, caps),
                }
            }
            Op::CompareAndSet { expected, value } => {
                let expected = expected.map(|e| self.push(e, caps));
                StoredOp::CompareAndSet {
                    expected,
                    value: self.push(value, caps),
                }
            }
            Op::CompareVersion { expected, value } => StoredOp::CompareVersion {
                expected,
                value: self.push(value, caps),
            },
        };
        let key = self.push(key, caps);
        let table = self.table_at(table);
        self.has_guarded = true;
        self.add(to, What::Guarded { table, key, op });
    }

    fn add(&mut self, (item, when): (u32, When), what: What) {
        self.is_out_of_order |= self.writes.last().is_some_and(|w| w.item > item);
        self.writes.push(Write { item, when, what });
    }

    fn table_at(&mut self, table: &Arc<TableState>) -> u32 {
        if let Some(at) = self.tables.iter().rposition(|t| Arc::ptr_eq(t, table)) {
            return at as u32;
        }
        self.tables.push(Arc::clone(table));
        (self.tables.len() - 1) as u32
    }

    /// Sets a source's next position; the last one given counts.
    pub(crate) fn resume_at(&mut self, source: &str, next: Position) {
        if source.is_empty() || source.len() > 1024 {
            return self.fail(Error::invalid("a source's name must have 1 to 1,024 bytes"));
        }
        if next
            .as_bytes()
            .is_some_and(|b| b.len() > POSITION_BYTES_MAX)
        {
            let text = format!("a position must have at most {POSITION_BYTES_MAX} bytes");
            return self.fail(Error::invalid(text));
        }
        match self.points.iter_mut().find(|p| p.0 == source) {
            Some(point) => point.1 = next,
            None => self.points.push((source.to_string(), next)),
        }
    }

    /// Puts the writes in the order of their items. Within an item they keep theirs.
    pub(crate) fn order_writes(&mut self) {
        if std::mem::take(&mut self.is_out_of_order) {
            self.writes.sort_by_key(|w| w.item);
        }
    }

    /// A guarded write's operands.
    pub(crate) fn op<'a>(&'a self, op: &StoredOp) -> Op<'a> {
        match op {
            StoredOp::Put { value } => Op::Put {
                value: self.get(value),
            },
            StoredOp::Delete => Op::Delete,
            StoredOp::Add { by, low, high } => Op::Add {
                by: *by,
                low: *low,
                high: *high,
            },
            StoredOp::Transition { from, to } => Op::Transition {
                from: self.get(from),
                to: self.get(to),
            },
            StoredOp::CompareAndSet { expected, value } => Op::CompareAndSet {
                expected: expected.as_ref().map(|e| self.get(e)),
                value: self.get(value),
            },
            StoredOp::CompareVersion { expected, value } => Op::CompareVersion {
                expected: *expected,
                value: self.get(value),
            },
        }
    }

    /// Whether something is written whatever the verdicts.
    pub(crate) fn is_unconditional(&self) -> bool {
        !self.points.is_empty() || self.is_unconditional
    }

    /// Misuse fails each commit of the batch, not only the first: a second try must not record
    /// ids without the writes that were refused.
    pub(crate) fn check_use(&self) -> Result<()> {
        self.error
            .as_ref()
            .map_or(Ok(()), |error| Err(error.copy()))
    }

    /// A dropped scope or table can't be used any more.
    pub(crate) fn check_handles(&self) -> Result<()> {
        let gone = |text: String| Err(Error::invalid(text));
        if let Some(scope) = self.scopes.iter().find(|s| s.state.is_dropped()) {
            return gone(format!("scope {:?} was dropped", scope.state.name));
        }
        if let Some(space) = self.spaces.iter().find(|s| s.state.is_dropped()) {
            let name = &space.state.name;
            return gone(format!("the sequences {name:?} were dropped"));
        }
        if let Some(table) = self.tables.iter().find(|t| t.is_dropped()) {
            return gone(format!("table {:?} was dropped", table.name));
        }
        Ok(())
    }
}
