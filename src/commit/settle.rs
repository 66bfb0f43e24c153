//! Protocol step 6: verdicts, item by item in order, and what they write.
//!
//! The first hit decides (protocol: "which record wins"). What is first seen goes into the log,
//! placed at the later of its own slice and the hit's, and flagged `over` if there was one.

use std::sync::Arc;

use crate::claims::Change;
use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::{Class, FOR_EVER, FOR_EVER_MS, LogBuilder, Meta, Slice, Stamp, State};
use crate::policy::Retention;
use crate::verdict::{IdState, InProgress, Refusal, Verdict, Verdicts};
use crate::why::Grounds;

use super::Committer;
use super::audit::Event;
use super::dead_tally::DeadChange;
use super::decide::{ASK_AGAIN, Decision};
use super::draft::Draft;
use super::evaluate::Overlay;
use super::item::Item;
use super::record::How;
use super::sequences::Producers;
use super::sighting::sighting;
use super::write::{What, When, Write};

/// A scope's rules as one commit sees them.
pub(super) struct Rules {
    pub(super) versions: Arc<[Retention]>,
    pub(super) sources: bool,
    /// Where a plain record of now goes, and what it says.
    pub(super) placement: Slice,
    pub(super) meta: Meta,
    /// The class of its retention in force.
    pub(super) class: Option<Class>,
    /// Whether an expiry tells the first sight, so that a record needs no more.
    pub(super) is_plain: bool,
}

impl Rules {
    pub(super) fn in_force(&self) -> Retention {
        self.versions.last().copied().unwrap_or(Retention::Forever)
    }
}

/// What has become of an id within the batch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Open,
    /// By this item.
    Recorded {
        by: u32,
        how: How,
    },
    /// A duplicate whose expiry this batch has moved already.
    Prolonged,
}

pub(super) fn in_progress() -> Verdict {
    Verdict::InProgress(InProgress::new(ASK_AGAIN.as_millis() as u64))
}

/// How an item came out.
pub(super) enum Outcome {
    Done,
    Refused { write: u32, settled: bool },
}

/// A settled batch.
pub(super) struct Settled<'a> {
    pub(super) verdicts: Verdicts,
    pub(super) unkeyed: u64,
    pub(super) changes: Vec<Change>,
    pub(super) producers: Producers<'a>,
    /// What the audit is to tell, and why it was done.
    pub(super) audits: Vec<(Event, Grounds)>,
    /// Positions in the log of records whose expiry doesn't count from this commit.
    pub(super) prolonged: Vec<u32>,
    pub(super) dead: DeadChange,
    /// Whether it is known without looking that all are first seen, in one scope.
    pub(super) is_all_first: bool,
}

/// The work of settling one batch.
pub(super) struct Settling<'a, 'd> {
    pub(super) committer: &'a Committer,
    pub(super) draft: &'d Draft,
    pub(super) decision: &'a Decision,
    pub(super) rules: Vec<Rules>,
    pub(super) fates: Vec<Fate>,
    pub(super) producers: Producers<'d>,
    overlay: Overlay,
    pub(super) log: &'a mut LogBuilder,
    pub(super) rows: &'a mut Rep,
    pub(super) extras: Vec<u8>,
    pub(super) changes: Vec<Change>,
    pub(super) audits: Vec<(Event, Grounds)>,
    pub(super) prolonged: Vec<u32>,
    /// What becomes of the numbers of dead letters.
    pub(super) dead: DeadChange,
    pub(super) unkeyed: u64,
}

impl Committer {
    fn rules(&self, draft: &Draft, now_ms: u64) -> Result<Vec<Rules>> {
        let rules = draft.scopes.iter().map(|scope| {
            let versions = scope.state.versions();
            let retention = versions.last().and_then(Retention::longest_ms);
            let (placement, expiry_ms, class) = match retention {
                None => (FOR_EVER, FOR_EVER_MS, None),
                Some(ms) => {
                    let expiry_ms = now_ms.saturating_add(ms).min(FOR_EVER_MS - 1);
                    let class = self.catalog.class_for(&scope.state, ms)?;
                    (class.slice(expiry_ms), expiry_ms, Some(class))
                }
            };
            let version = u8::try_from(versions.len() - 1).unwrap_or(u8::MAX);
            let stamp = Stamp {
                scope: scope.state.number,
                version,
            };
            let meta = Meta {
                stamp,
                state: State::Seen,
                over: false,
                expiry_ms,
            };
            let is_plain = versions.last().is_some_and(Retention::is_fixed);
            let sources = scope.policy.sources;
            Ok(Rules {
                versions,
                sources,
                placement,
                meta,
                class,
                is_plain,
            })
        });
        rules.collect()
    }

    /// The verdicts as far as lookups go, without any write: for `hold` and `Undecided`.
    pub(super) fn preview(&self, draft: &Draft, decision: &Decision) -> Result<Verdicts> {
        let (mut log, mut rows) = (LogBuilder::default(), Rep::default());
        let mut settling = self.settling(draft, decision, &mut log, &mut rows)?;
        let items = (0..).zip(&draft.items);
        let verdicts = items.map(|(i, item)| Ok(settling.item(i, item, None)?.map(|()| ())));
        Ok(Verdicts::new(verdicts.collect::<Result<Vec<_>>>()?))
    }

    /// The verdicts, with what they write in `log` and `rows`.
    pub(super) fn settle<'a>(
        &self,
        draft: &'a Draft,
        decision: &Decision,
        log: &mut LogBuilder,
        rows: &mut Rep,
    ) -> Result<Settled<'a>> {
        if let Some(settled) = self.settle_new(draft, decision, log, rows)? {
            self.points(draft, rows)?;
            log.finish();
            return Ok(settled);
        }
        let mut settling = self.settling(draft, decision, log, rows)?;
        let mut verdicts = Vec::with_capacity(draft.items.len());
        let mut writes = &draft.writes[..];
        for (i, item) in (0..).zip(&draft.items) {
            let end = writes.iter().take_while(|w| w.item == i).count();
            let (of_item, rest) = writes.split_at(end);
            writes = rest;
            settling.always(of_item)?;
            verdicts.push(settling.item(i, item, Some(of_item))?);
        }
        settling.always(writes)?;
        let unkeyed = settling.unkeyed;
        let changes = std::mem::take(&mut settling.changes);
        let producers = settling.producers;
        let audits = std::mem::take(&mut settling.audits);
        let prolonged = std::mem::take(&mut settling.prolonged);
        let dead = std::mem::take(&mut settling.dead);
        self.points(draft, rows)?;
        log.finish();
        Ok(Settled {
            verdicts: Verdicts::new(verdicts),
            unkeyed,
            changes,
            producers,
            audits,
            prolonged,
            dead,
            is_all_first: false,
        })
    }

    pub(super) fn settling<'a, 'd>(
        &'a self,
        draft: &'d Draft,
        decision: &'a Decision,
        log: &'a mut LogBuilder,
        rows: &'a mut Rep,
    ) -> Result<Settling<'a, 'd>> {
        Ok(Settling {
            committer: self,
            draft,
            decision,
            rules: self.rules(draft, decision.now_ms)?,
            fates: vec![Fate::Open; decision.entries()],
            producers: Producers::of(draft),
            overlay: Overlay::default(),
            log,
            rows,
            extras: Vec::new(),
            changes: Vec::new(),
            audits: Vec::new(),
            prolonged: Vec::new(),
            dead: DeadChange::new(),
            unkeyed: 0,
        })
    }

    /// Records a draft's one id as seen, whatever its writes were.
    pub(super) fn record_one(
        &self,
        draft: &Draft,
        decision: &Decision,
        (refused, is_observed): (bool, bool),
        (log, rows): (&mut LogBuilder, &mut Rep),
    ) -> Result<(Vec<Change>, DeadChange)> {
        let mut settling = self.settling(draft, decision, log, rows)?;
        match draft.items.first().filter(|item| !item.is_unkeyed) {
            Some(item) if is_observed => settling.record_observed(item, refused)?,
            Some(item) => settling.record(0, item, decision.entry(0), refused)?,
            None => {}
        }
        let changes = std::mem::take(&mut settling.changes);
        let dead = std::mem::take(&mut settling.dead);
        log.finish();
        Ok((changes, dead))
    }

    /// Resume points; their locks are held. None may go back.
    pub(super) fn points(&self, draft: &Draft, rows: &mut Rep) -> Result<()> {
        for (source, next) in &draft.points {
            if let Some(now) = self.resume_point(source)?
                && !now.allows(next)
            {
                return Err(Error::invalid(format!(
                    "the resume point of {source:?} can't go from {now:?} back to {next:?}; \
                     `rewind` can"
                )));
            }
            rows.put(
                self.index.points.number(),
                source.as_bytes(),
                &next.encode(),
            );
        }
        Ok(())
    }
}

impl Settling<'_, '_> {
    /// One item's verdict; with its writes unless this is a preview.
    pub(super) fn item(
        &mut self,
        i: u32,
        item: &Item,
        writes: Option<&[Write]>,
    ) -> Result<Verdict> {
        if self.is_unclaimed(item) {
            return self.unrecorded(item, writes);
        }
        if let Some(bad) = item.bad {
            return self.keep_out(item, writes, Verdict::BadId(bad));
        }
        if item.is_sequence {
            return self.sequence(item, writes);
        }
        if let Some(after) = self.decision.ask_again(i) {
            let mut ms = after.as_millis() as u64;
            if self.draft.has_claims {
                let policy = &self.draft.scopes[item.scope as usize].policy;
                ms = ms.min(crate::clock::millis(policy.lease));
            }
            return Ok(Verdict::InProgress(InProgress::new(ms)));
        }
        if item.is_unkeyed {
            return self.unkeyed(item, writes);
        }
        if let Some(op) = self.draft.more(item).and_then(|more| more.claim.as_ref()) {
            return self.claim_op(i, item, op, writes);
        }
        let entry = self.decision.entry(i);
        match self.kept_out(i, item, entry)? {
            Some(verdict) => self.keep_out(item, writes, verdict),
            None => self.effect(i, item, entry, writes),
        }
    }

    /// The verdict that keeps an item out by what is known of its id, if anything does.
    pub(super) fn kept_out(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
    ) -> Result<Option<Verdict>> {
        if let Some(verdict) = self.claimed(i, item, entry)? {
            return Ok(Some(verdict));
        }
        let seen = self.seen(i, item, entry);
        Ok(seen.or_else(|| self.untimely(item)))
    }

    /// What an item does whose effect is its own.
    pub(super) fn effect(
        &mut self,
        i: u32,
        item: &Item,
        entry: usize,
        writes: Option<&[Write]>,
    ) -> Result<Verdict> {
        if item.is_declined {
            return Ok(Verdict::Declined(()));
        }
        let outcome = self.write(item, writes.unwrap_or_default())?;
        match outcome {
            Outcome::Done => {
                self.unkeyed += u64::from(self.draft.is_unrecorded(item, self.decision.now_ms));
                self.record(i, item, entry, false)?;
                Ok(Verdict::First(()))
            }
            Outcome::Refused { write, settled } => {
                if settled {
                    self.record(i, item, entry, true)?;
                }
                Ok(Verdict::Refused(Refusal::new(write, settled)))
            }
        }
    }

    fn unkeyed(&mut self, item: &Item, writes: Option<&[Write]>) -> Result<Verdict> {
        if item.is_declined {
            return Ok(Verdict::Declined(()));
        }
        match self.write(item, writes.unwrap_or_default())? {
            Outcome::Done => {
                self.unkeyed += 1;
                Ok(Verdict::First(()))
            }
            Outcome::Refused { write, settled } => {
                Ok(Verdict::Refused(Refusal::new(write, settled)))
            }
        }
    }

    /// The verdict if the item's id was seen: earlier in the batch, or by a record that stands.
    /// A payload is compared on the way of every duplicate; another one prolongs nothing.
    pub(super) fn seen(&mut self, i: u32, item: &Item, entry: usize) -> Option<Verdict> {
        let now_ms = self.decision.now_ms;
        let also = self.decision.also(i).zip(item.also.as_ref());
        let older = also.map(|(entry, id)| (entry, id.clone()));
        for (entry, id) in [(entry, item.id.clone())].into_iter().chain(older) {
            if let Fate::Recorded { by, how } = self.fates[entry] {
                let sighting = self.sighting_within(by, entry, how);
                return Some(match self.is_other_payload_within(item, by, entry) {
                    true => Verdict::PayloadMismatch(sighting),
                    false => Verdict::seen(sighting),
                });
            }
            let hit = self
                .decision
                .hit(entry)
                .filter(|h| h.meta.is_duplicate_at(now_ms));
            if let Some(hit) = hit {
                let sighting = sighting(hit, &self.rules[item.scope as usize].versions);
                if self.is_other_payload(item, hit.extras.as_deref().unwrap_or_default()) {
                    return Some(Verdict::PayloadMismatch(sighting));
                }
                // What failed or was given up must not live on by being asked for.
                if self.fates[entry] == Fate::Open && sighting.state() == IdState::Done {
                    self.prolong(i, item, entry, &id);
                }
                return Some(Verdict::seen(sighting));
            }
        }
        None
    }

    /// Makes an item's writes, or its fallback's if one is refused.
    pub(super) fn write(&mut self, item: &Item, writes: &[Write]) -> Result<Outcome> {
        if writes.is_empty() {
            return Ok(Outcome::Done);
        }
        let mark = self.overlay.begin(self.rows);
        let Some(refused) = self.apply(writes, When::First)? else {
            return Ok(Outcome::Done);
        };
        self.overlay.undo(&mark, self.rows);
        if !item.has_fallback {
            return Ok(Outcome::Refused {
                write: refused,
                settled: false,
            });
        }
        let mark = self.overlay.begin(self.rows);
        let settled = self.apply(writes, When::Refused)?.is_none();
        if !settled {
            self.overlay.undo(&mark, self.rows);
        }
        Ok(Outcome::Refused {
            write: refused,
            settled,
        })
    }

    /// Applies the writes of one kind; the position of the first that is refused.
    fn apply(&mut self, writes: &[Write], when: When) -> Result<Option<u32>> {
        let mut at = 0;
        for write in writes.iter().filter(|w| w.when == when) {
            match &write.what {
                What::Plain { body, count } => {
                    self.rows
                        .copy(&self.draft.plain.body()[body.clone()], *count);
                    at += count;
                }
                What::Send { table, payload } => {
                    let outbox = &self.draft.tables[*table as usize];
                    let payload = self.draft.get(payload);
                    self.committer.send(outbox, payload, self.rows)?;
                    at += 1;
                }
                What::Guarded { table, key, op } => {
                    let table = &self.draft.tables[*table as usize];
                    let (key, op) = (self.draft.get(key), self.draft.op(op));
                    if !self.overlay.apply(table, key, op, self.rows)? {
                        return Ok(Some(at));
                    }
                    at += 1;
                }
            }
        }
        Ok(None)
    }

    /// Unconditional writes stand before the others of their position.
    fn always(&mut self, writes: &[Write]) -> Result<()> {
        if writes.first().is_none_or(|w| w.when != When::Always) {
            return Ok(());
        }
        let _ = self.overlay.begin(self.rows);
        // They hold no conditions; that was checked when they were added.
        self.apply(writes, When::Always).map(|_| ())
    }
}
