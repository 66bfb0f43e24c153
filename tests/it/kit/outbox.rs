//! The outbox: the model's, a list, and the runner's, which knows each message by its number and
//! holds it to one id for ever.

use std::collections::BTreeMap;

use firstseen::{Outbox as Real, OutboxId, Outgoing, Store};

use super::model::failed;
use super::op::{Op, value};
use super::runner::{Called, Runner};
use super::said::{INVALID, bytes, list};

/// The outbox's name.
const NAME: &str = "mails";

/// The model's outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outbox {
    /// All payloads ever sent; the first has number 1.
    sent: Vec<Vec<u8>>,
    acknowledged: usize,
    deleted: usize,
}

impl Outbox {
    pub(super) fn send(&mut self, v: u8) {
        self.sent.push(value(v));
    }

    /// What was sent since it was as `before`.
    pub(super) fn sent_since(&self, before: &Outbox) -> Vec<Vec<u8>> {
        self.sent[before.sent.len()..].to_vec()
    }

    pub(super) fn send_all(&mut self, payloads: Vec<Vec<u8>>) {
        self.sent.extend(payloads);
    }

    fn waiting(&self, limit: usize) -> Vec<String> {
        let waiting = (1..).zip(&self.sent).skip(self.acknowledged).take(limit);
        waiting.map(|(n, payload)| message(n, payload)).collect()
    }

    pub(super) fn state(&self) -> String {
        let kept = self.acknowledged - self.deleted;
        state(
            self.acknowledged as u64,
            kept as u64,
            &self.waiting(usize::MAX),
        )
    }
}

fn message(number: u64, payload: &[u8]) -> String {
    format!("{number} {}", bytes(payload))
}

fn state(acknowledged: u64, kept: u64, waiting: &[String]) -> String {
    format!("past {acknowledged}, {kept} kept, {}", list(waiting))
}

impl Outbox {
    pub(super) fn step(&mut self, op: &Op) -> String {
        match *op {
            Op::Drain(limit) => list(&self.waiting(usize::from(limit))),
            Op::Ack(messages, keep) => self.ack(messages, keep).to_string(),
            Op::Resend(messages) => self.resend(messages),
            _ => panic!("{op:?} is no step of an outbox"),
        }
    }

    fn ack(&mut self, messages: u8, keep: u8) -> usize {
        let to = self.sent.len();
        let to = to.min(self.acknowledged + usize::from(messages));
        let acked = to - self.acknowledged;
        if acked > 0 {
            self.acknowledged = to;
            self.deleted = self.deleted.max(to.saturating_sub(usize::from(keep)));
        }
        acked
    }

    fn resend(&mut self, messages: u8) -> String {
        let Some(to) = self.acknowledged.checked_sub(usize::from(messages)) else {
            return "never".to_string();
        };
        if messages == 0 || to < self.deleted {
            return failed(INVALID);
        }
        self.acknowledged = to;
        "done".to_string()
    }
}

/// The real outbox, and the ids that its messages were handed out under.
pub(super) struct Drained {
    pub(super) outbox: Real,
    ids: BTreeMap<u64, OutboxId>,
}

impl Drained {
    pub(super) fn of(store: &Store) -> Called<Drained> {
        let (outbox, ids) = (store.outbox(NAME)?, BTreeMap::new());
        Ok(Drained { outbox, ids })
    }

    /// After a reopening.
    pub(super) fn renew(&mut self, store: &Store) -> Called<()> {
        self.outbox = store.outbox(NAME)?;
        Ok(())
    }

    fn note(&mut self, messages: &[Outgoing]) {
        for message in messages {
            let known = self.ids.entry(message.id.number()).or_insert(message.id);
            assert_eq!(*known, message.id, "a message has one id");
        }
    }
}

fn texts(messages: &[Outgoing]) -> Vec<String> {
    let text = |m: &Outgoing| message(m.id.number(), &m.payload);
    messages.iter().map(text).collect()
}

impl Runner<'_> {
    pub(super) fn drain(&mut self, limit: u8) -> Called<String> {
        let messages = self.drained.outbox.drain(usize::from(limit))?;
        self.drained.note(&messages);
        Ok(list(&texts(&messages)))
    }

    pub(super) fn ack(&mut self, messages: u8, keep: u8) -> Called<String> {
        let drained = self.drained.outbox.drain_unsynced(usize::from(messages))?;
        self.drained.note(&drained);
        let Some(last) = drained.last() else {
            return Ok("0".to_string());
        };
        let outbox = self.drained.outbox.clone().keeping(u64::from(keep));
        Ok(outbox.ack(last.id)?.to_string())
    }

    pub(super) fn resend(&mut self, messages: u8) -> Called<String> {
        let at = self.drained.outbox.acknowledged()?;
        let Some(to) = at.checked_sub(u64::from(messages)) else {
            return Ok("never".to_string());
        };
        // Whatever was acknowledged was handed out before.
        match self.drained.ids.get(&(to + 1)) {
            Some(id) => self.drained.outbox.rewind(*id, "a test")?,
            None => return Ok(failed(INVALID)),
        }
        Ok("done".to_string())
    }

    /// All that waits, and how far it is drained.
    pub(super) fn outbox(&self) -> Called<String> {
        let messages = self.drained.outbox.drain_unsynced(usize::MAX)?;
        let stats = &self.store.stats()?.outboxes[0];
        assert_eq!(stats.waiting, messages.len() as u64);
        Ok(state(stats.acknowledged, stats.kept, &texts(&messages)))
    }
}
