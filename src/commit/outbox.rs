//! Outboxes: messages to other systems, committed with the verdicts that they follow from.
//!
//! An outbox is a table whose keys nobody chooses: a message's key is its number, drawn by the
//! leader as it writes (`engine/rep.rs`). So:
//!
//! - X1: numbers are in the order of the commits, and none is missing: a commit that fails draws
//!   none, and no drain passes a message that comes later. Senders need no lock and don't wait
//!   for each other.
//! - X2: nothing is handed out that a power failure could take, unless asked for: a drain syncs
//!   what it hands out. Else the other system would have what this one never did, and would get
//!   it again under another id.
//! - X3: an id is never given to two messages. Numbers that were lost with a tail, or that a
//!   restored copy draws again, come with another run beside them.
//! - X4: the resume point moves in a commit of its own, and only rises; back it goes by a rewind,
//!   which the audit tells of. A crash before that commit leads to the same messages again, in
//!   the same order.
//! - X5: what is acknowledged is deleted in commits of at most [`DELETES`] rows, by number, without
//!   reading; a drain begins behind them and meets no tombstone.
//!
//! Why not a key of commit number and place: then nobody knew how many wait without counting, nor
//! saw that one is missing; and after a recovery that came back short, new commits would draw
//! numbers below rows that are there.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;

use crate::catalog::{Point, Sends, TableState, outbox};
use crate::engine::{Rep, failpoint};
use crate::error::{Error, ErrorKind, Result};
use crate::index::LogBuilder;
use crate::options::Durability;
use crate::stats::OutboxStats;
use crate::why::Why;

use super::audit::Audit;
use super::decide::Held;
use super::evaluate::row_hash;
use super::{Committer, keep_if_unknown};

/// Rows that one commit deletes.
const DELETES: u64 = 4096;

/// What a message is known by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RowId {
    pub(crate) number: u64,
    pub(crate) run: u64,
}

/// A message that waits.
pub(crate) struct Waiting {
    pub(crate) id: RowId,
    pub(crate) sent_ms: u64,
    pub(crate) payload: Bytes,
}

fn sends(table: &TableState) -> Result<&Sends> {
    let none = || Error::invalid(format!("table {:?} is no outbox", table.name));
    table.sends.as_ref().ok_or_else(none)
}

impl Committer {
    /// Adds a message to a commit's rows.
    pub(super) fn send(&self, table: &TableState, payload: &[u8], rows: &mut Rep) -> Result<()> {
        let sends = sends(table)?;
        let message = outbox::Message {
            run: sends.run,
            sent_ms: self.index.time.now_ms(),
            payload,
        };
        rows.put_numbered(table.family_number, &sends.numbering, &message.encode());
        Ok(())
    }

    /// The first messages that are not acknowledged, in their order.
    pub(crate) fn drain(
        &self,
        table: &TableState,
        limit: usize,
        synced: bool,
    ) -> Result<Vec<Waiting>> {
        let _tables = self.tables.read_recursive();
        self.index.poison.check()?;
        let family = table.family()?;
        match self.flush_buffer() {
            // What is buffered has no number yet, and its turn comes.
            Err(error) if error.kind() == ErrorKind::Full => {}
            flushed => flushed?,
        }
        let mut next = Point::read(&family)?.acknowledged + 1;
        // Numbers are shown after the mark of their commit.
        let last = sends(table)?.numbering.last();
        if synced && next <= last {
            self.index.wait_durable(self.index.written())?;
        }
        let mut messages = Vec::new();
        let mut rows = family.rows(&outbox::key(next));
        while next <= last && messages.len() < limit {
            let row = rows.next().transpose()?;
            let Some((_, value)) = row.filter(|(key, _)| outbox::number(key) == Some(next)) else {
                // An acknowledgement on another thread may have passed this drain.
                return match Point::read(&family)?.deleted >= next {
                    true => Ok(messages),
                    false => Err(outbox::missing(next)),
                };
            };
            let value = Bytes::from(value);
            let message = outbox::Message::decode(&value)?;
            messages.push(Waiting {
                id: RowId {
                    number: next,
                    run: message.run,
                },
                sent_ms: message.sent_ms,
                payload: value.slice_ref(message.payload),
            });
            next += 1;
        }
        Ok(messages)
    }

    /// The number of the last message that is acknowledged.
    pub(crate) fn acknowledged(&self, table: &TableState) -> Result<u64> {
        Ok(Point::read(&*table.family()?)?.acknowledged)
    }

    /// Acknowledges all messages up to one, and deletes all but the last `keep` of those that
    /// are; how many were acknowledged.
    pub(crate) fn acknowledge(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        up_to: RowId,
        (keep, level): (u64, Durability),
    ) -> Result<u64> {
        let _tables = self.tables.read_recursive();
        let held = self.hold_point(table)?;
        let before = Point::read(&*table.family()?)?;
        if up_to.number <= before.acknowledged {
            return Ok(0);
        }
        self.check_message(table, up_to)?;
        let mut point = Point {
            acknowledged: up_to.number,
            ..before
        };
        let level = level.max(Durability::Written);
        let (mut rows, mut acknowledged) = (Rep::default(), None);
        loop {
            rows.clear();
            let end = point.acknowledged.saturating_sub(keep);
            let end = end.min(point.deleted.saturating_add(DELETES));
            for number in point.deleted + 1..=end {
                rows.delete(table.family_number, &outbox::key(number));
            }
            point.deleted = end.max(point.deleted);
            rows.put(table.family_number, outbox::POINT, &point.encode());
            let written = self.append(&mut LogBuilder::default(), &mut rows, level);
            let n = match (written, acknowledged) {
                (Ok(n), _) => n,
                // It is acknowledged all the same, and the next time deletes the rest.
                (Err(error), Some(_)) if error.kind() == ErrorKind::Full => break,
                (Err(error), _) => {
                    keep_if_unknown(&error, [Some(held)]);
                    return Err(error);
                }
            };
            acknowledged.get_or_insert(n);
            failpoint!("outbox::after_ack");
            if point.deleted >= point.acknowledged.saturating_sub(keep) {
                break;
            }
        }
        if let (Durability::Synced, Some(n)) = (level, acknowledged)
            && let Err(error) = self.index.wait_durable(n)
        {
            keep_if_unknown(&error, [Some(held)]);
            return Err(error);
        }
        Ok(up_to.number - before.acknowledged)
    }

    /// Has the next drain begin again at a message that is acknowledged, and still there.
    pub(crate) fn rewind_outbox(
        self: &Arc<Self>,
        table: &Arc<TableState>,
        first: RowId,
        why: &Why<'_>,
    ) -> Result<()> {
        let _tables = self.tables.read_recursive();
        let held = self.hold_point(table)?;
        let before = Point::read(&*table.family()?)?;
        if first.number > before.acknowledged {
            let text = format!("message {} is not acknowledged", first.number);
            return Err(Error::invalid(text));
        }
        self.check_message(table, first)?;
        let point = Point {
            acknowledged: first.number - 1,
            ..before
        };
        let audit = Audit::Resend {
            outbox: &table.name,
            from: before.acknowledged,
            to: point.acknowledged,
        };
        let mut rows = Rep::default();
        rows.put(table.family_number, outbox::POINT, &point.encode());
        self.write_audited(rows, &audit, why, held)
    }

    /// The resume point is moved by one caller at a time.
    fn hold_point(self: &Arc<Self>, table: &TableState) -> Result<Held> {
        let mut held = Held::new(self, self.rows.owner(), true);
        self.hold_rows(&mut held, &[row_hash(table, outbox::POINT)])?;
        Ok(held)
    }

    fn check_message(&self, table: &TableState, id: RowId) -> Result<()> {
        let family = table.family()?;
        let row = match id.number <= sends(table)?.numbering.last() {
            true => family.get(&outbox::key(id.number))?,
            false => None,
        };
        let is_there = match row {
            Some(row) => outbox::Message::decode(&row)?.run == id.run,
            None => false,
        };
        let none = || {
            let text = format!("outbox {:?} has no message of this id", table.name);
            Error::invalid(text)
        };
        is_there.then_some(()).ok_or_else(none)
    }

    /// What waits in each outbox.
    pub(super) fn outbox_stats(&self) -> Result<Vec<OutboxStats>> {
        let _tables = self.tables.read_recursive();
        let mut all = Vec::new();
        for table in self.catalog.outboxes() {
            let (Ok(sends), Ok(family)) = (sends(&table), table.family()) else {
                continue;
            };
            let point = Point::read(&family)?;
            let sent = sends.numbering.last();
            let waiting = sent.saturating_sub(point.acknowledged);
            let oldest = match waiting {
                0 => None,
                _ => family.get(&outbox::key(point.acknowledged + 1))?,
            };
            let sent_ms = match &oldest {
                Some(row) => Some(outbox::Message::decode(row)?.sent_ms),
                None => None,
            };
            all.push(OutboxStats {
                name: table.name.clone(),
                sent,
                acknowledged: point.acknowledged,
                waiting,
                kept: point.acknowledged - point.deleted,
                oldest_at: sent_ms.map(|ms| UNIX_EPOCH + Duration::from_millis(ms)),
            });
        }
        Ok(all)
    }
}
