//! One lane at work: new batches, duplicates of a moment ago and of long ago, ids whose time is
//! over, forgotten ids, scans. Every answer is known before it is given.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use firstseen::{Batch, Durability, Error, Submitted, Verdict, Verdicts};

use super::book::{Book, SLOTS, Slot, State};
use super::fail::{Broken, Kind, fail, must};
use super::lanes::{self, LANES, Lane, Open, SLACK_MS, now_ms};
use super::settle;

/// The id that is refused in each batch of a guarded lane.
const REFUSED: usize = 1 << 20;
/// A duplicate is asked for only if it surely lives that much longer.
const ROOM_MS: u64 = 300;

pub(crate) struct Worker<'a> {
    pub(crate) open: &'a Open,
    pub(crate) number: usize,
    pub(crate) seed: u64,
    pub(crate) book: Book,
    pub(crate) broken: Broken,
    pub(crate) random: fastrand::Rng,
    pub(crate) flight: VecDeque<Submitted>,
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long a commit takes is measured"
)]
fn now() -> Instant {
    Instant::now()
}

impl Worker<'_> {
    fn lane(&self) -> &'static Lane {
        &LANES[self.number]
    }

    /// Works until it is told to stop; then nothing of it is under way.
    pub(crate) fn work(&mut self, stop: &AtomicBool) {
        let mut scan_at = now() + Duration::from_secs(self.random.u64(1..8));
        let (began, first) = (now(), self.book.head.next);
        while !stop.load(Ordering::Relaxed) {
            match self.random.u8(..20) {
                0..11 => self.send(),
                11..14 => self.ask_recent(),
                14..17 => self.ask_any(),
                17 => self.peek(),
                18 if self.random.u8(..8) == 0 => self.forget(),
                18 if self.random.u8(..8) == 0 => self.check_sums(),
                18 => self.ask_recent(),
                _ => self.ask_any(),
            }
            if now() > scan_at {
                scan_at = now() + Duration::from_secs(10);
                self.scan();
            }
            self.keep_pace(began, first);
        }
        while !self.flight.is_empty() {
            self.land();
        }
        self.check_sums();
    }

    #[expect(clippy::disallowed_methods, reason = "some lanes are slow on purpose")]
    fn keep_pace(&self, began: Instant, first: u64) {
        let Some(per_second) = self.lane().per_second else {
            return;
        };
        let sent = self.book.head.next - first;
        let due = Duration::from_millis(1_000 * sent / per_second);
        let early = due.saturating_sub(began.elapsed());
        std::thread::sleep(early.min(Duration::from_millis(50)));
    }

    fn stalled(&mut self, since: Instant) {
        let us = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.book.head.stall_us = self.book.head.stall_us.max(us);
    }

    /// The next batch.
    fn send(&mut self) {
        let number = self.book.head.next + self.flight.len() as u64;
        self.book.set(Slot::sent(number, now_ms()));
        if self.broken == Broken::AckFirst && number % 50 == 49 {
            return self.acknowledge(number, None);
        }
        if self.lane().name == "forever" {
            return self.send_closure(number);
        }
        let mut batch = self.fill(number);
        let probe = self.probe(&mut batch);
        let started = now();
        if self.lane().depth > 1 {
            self.flight.push_back(batch.submit());
            if self.flight.len() >= self.lane().depth {
                self.land();
            }
            return;
        }
        let verdicts = must("a commit", batch.commit());
        self.stalled(started);
        if let (Some(slot), Some(verdict)) = (probe, verdicts.last()) {
            self.probed(&slot, verdict);
        }
        self.acknowledge(number, Some(&verdicts));
    }

    /// The effects of a batch's ids, one id that must be refused, and the resume point.
    fn fill(&mut self, number: u64) -> Batch {
        let (lane, open) = (self.lane(), self.open);
        let scope = &open.scopes[self.number];
        let mut batch = open.store.batch();
        let torn = self.broken == Broken::Torn && number == 30;
        for (place, id) in lanes::ids(self.seed, self.number, number, lane.ids)
            .iter()
            .enumerate()
        {
            let mut writes = batch.once(scope, id);
            if !torn {
                lanes::effects(open, &mut writes, (self.number, number, place), id);
            }
        }
        if lane.is_guarded {
            let id = lanes::id(self.seed, self.number, number, REFUSED);
            batch.once(scope, &id).add(&open.counters, "none", -1, 0..);
            if self.broken == Broken::CountTwice && number == 30 {
                let twice = lanes::id(self.seed, self.number, number, REFUSED + 1);
                batch.once(scope, &twice).add(
                    &open.counters,
                    lanes::counter(self.number, 0),
                    1,
                    ..,
                );
            }
        }
        if lane.has_points() {
            batch.resume_at(lane.name, number + 1);
        }
        batch.durability(lane.level);
        if torn {
            let _ = must("a torn commit", batch.commit());
            super::fail::kill_self();
        }
        batch
    }

    /// A recent id once more, at the end of the batch; its row must not be written.
    fn probe(&mut self, batch: &mut Batch) -> Option<Slot> {
        let lane = self.lane();
        if lane.depth > 1 || lane.cap_ms.is_some() || self.random.bool() {
            return None;
        }
        let slot = self
            .book
            .slot(self.book.head.next.checked_sub(1 + self.random.u64(..4))?);
        let (lives, _) = lane.window(&slot);
        if slot.state != State::Acknowledged || now_ms() + ROOM_MS > lives {
            return None;
        }
        let id = lanes::id(self.seed, self.number, slot.batch, 0);
        let row = lanes::row(self.number, slot.batch, 0);
        batch
            .once(&self.open.scopes[self.number], &id)
            .put(&self.open.rows, row, "twice");
        Some(slot)
    }

    fn probed(&mut self, slot: &Slot, verdict: &Verdict) {
        if verdict.is_duplicate() {
            self.book.head.duplicates += 1;
        } else if now_ms() < self.lane().window(slot).0 {
            let text = format!(
                "{} {slot:?}: within a batch it was {verdict:?}",
                self.lane().name
            );
            fail(Kind::Lost, &text);
        } else {
            self.book.clear(slot.batch);
        }
    }

    /// Waits for the oldest of the submitted batches.
    fn land(&mut self) {
        let Some(submitted) = self.flight.pop_front() else {
            return;
        };
        let number = self.book.head.next;
        // What the lane did meanwhile is not the commit's time.
        let started = now();
        let verdicts = must("a submitted commit", submitted.wait());
        self.stalled(started);
        self.acknowledge(number, Some(&verdicts));
    }

    fn send_closure(&mut self, number: u64) {
        let (open, number_of_lane) = (self.open, self.number);
        let id = lanes::id(self.seed, self.number, number, 0);
        let (from, to) = lanes::accounts(&id);
        let started = now();
        let verdict = open.scopes[self.number].once(&id, |tx| {
            for (account, by) in [(&from, -1), (&to, 1)] {
                let row = tx.get(&open.accounts, account)?;
                let sum = row.and_then(|v| v.as_counter()).unwrap_or(0) + by;
                tx.put(&open.accounts, account, i64::to_le_bytes(sum));
            }
            tx.put(
                &open.rows,
                lanes::row(number_of_lane, number, 0),
                number.to_le_bytes(),
            );
            tx.resume_at(LANES[number_of_lane].name, number + 1);
            Ok::<_, Error>(())
        });
        self.stalled(started);
        let verdict = must("a closure", verdict);
        if !verdict.is_first() {
            fail(
                Kind::Wrong,
                &format!("forever {number}: a new id was {verdict:?}"),
            );
        }
        self.acknowledge(number, None);
    }

    fn acknowledge(&mut self, number: u64, verdicts: Option<&Verdicts>) {
        let lane = self.lane();
        for (place, verdict) in verdicts.iter().flat_map(|v| v.iter()).enumerate() {
            let is_right = match verdict {
                Verdict::First(()) => place != lane.ids || !lane.is_guarded,
                Verdict::Refused(refusal) => place == lane.ids && !refusal.is_settled(),
                _ => place >= lane.ids,
            };
            if !is_right {
                fail(
                    Kind::Wrong,
                    &format!("{} {number}: new id {place} was {verdict:?}", lane.name),
                );
            }
        }
        let slot = Slot {
            state: State::Acknowledged,
            to_ms: now_ms(),
            last_to_ms: now_ms(),
            ..self.book.slot(number)
        };
        self.book.set(slot);
        let head = &mut self.book.head;
        head.next = number + 1;
        head.calls += 1;
        head.ids += lane.ids as u64;
        if lane.level == Durability::Buffered && head.next.is_multiple_of(50) {
            must("a sync", self.open.store.sync());
            head.synced = head.next;
        }
        self.book.save_head();
    }

    fn ask_recent(&mut self) {
        let back = 1 + self.random.u64(..8);
        if let Some(number) = self.book.head.next.checked_sub(back) {
            self.ask(self.book.slot(number));
        }
    }

    /// Any batch in the ring, or, where nothing is ever forgotten, any at all.
    fn ask_any(&mut self) {
        if self.lane().retention_ms.is_none() && self.book.head.next > 0 {
            let number = self.random.u64(..self.book.head.next);
            self.ask(Slot {
                state: State::Acknowledged,
                to_ms: now_ms(),
                ..Slot::sent(number, 0)
            });
            return;
        }
        let slot = self.book.slots[self.random.usize(..SLOTS)];
        self.ask(slot);
    }

    /// The ids of an acknowledged batch again: duplicates, or all first if their time is over.
    fn ask(&mut self, slot: Slot) {
        let lane = self.lane();
        let (lives, gone) = lane.window(&slot);
        let asked_ms = now_ms();
        let is_over = asked_ms > gone;
        if slot.state != State::Acknowledged || !(is_over || asked_ms + ROOM_MS < lives) {
            return;
        }
        if is_over {
            self.book.clear(slot.batch);
        } else if lane.cap_ms.is_some() {
            self.book.set(Slot {
                last_to_ms: u64::MAX,
                ..slot
            });
        }
        let ids = lanes::ids(self.seed, self.number, slot.batch, lane.ids);
        let started = now();
        let verdicts = must("insert_all", self.open.scopes[self.number].insert_all(&ids));
        self.stalled(started);
        let answered_ms = now_ms();
        if is_over {
            self.all_first(&slot, &verdicts);
            self.book.head.ids += ids.len() as u64;
        } else if answered_ms < lives {
            self.all_duplicates(&slot, &verdicts);
            self.book.head.duplicates += ids.len() as u64;
            if lane.cap_ms.is_some() {
                self.book.set(Slot {
                    last_from_ms: asked_ms,
                    last_to_ms: answered_ms,
                    ..slot
                });
            }
        } else {
            self.book.clear(slot.batch);
        }
        self.book.head.calls += 1;
        self.book.save_head();
    }

    fn all_first(&self, slot: &Slot, verdicts: &Verdicts) {
        if let Some(verdict) = verdicts.iter().find(|v| !v.is_first()) {
            let text = format!(
                "{} {slot:?}: its time is over, but {verdict:?}",
                self.lane().name
            );
            fail(Kind::Wrong, &text);
        }
    }

    fn all_duplicates(&self, slot: &Slot, verdicts: &Verdicts) {
        for verdict in verdicts {
            match verdict {
                Verdict::Duplicate(seen) => settle::check_time(self.lane(), slot, seen),
                other => {
                    let text =
                        format!("{} {slot:?}: acknowledged, but {other:?}", self.lane().name);
                    fail(Kind::Lost, &text);
                }
            }
        }
    }

    fn peek(&mut self) {
        let slot = self.book.slots[self.random.usize(..SLOTS)];
        if slot.state == State::Acknowledged {
            settle::look(self.open, self.seed, self.number, &slot);
            self.book.head.calls += 1;
        }
    }

    /// Forgets an id, and sees that it is first once. The oracle gives up its batch.
    fn forget(&mut self) {
        let lane = self.lane();
        let recent = self.book.head.next.checked_sub(1 + self.random.u64(..50));
        // Where all batches are asked for, a kill within a forget would be taken for a loss.
        let Some(number) = recent.filter(|_| lane.retention_ms.is_some()) else {
            return;
        };
        let slot = self.book.slot(number);
        let (lives, _) = lane.window(&slot);
        if slot.state != State::Acknowledged || now_ms() + 1_000 > lives {
            return;
        }
        self.book.clear(number);
        let id = lanes::id(self.seed, self.number, number, lane.ids - 1);
        let scope = &self.open.scopes[self.number];
        let known = must("a forget", scope.forget(&id, "the soak"));
        let peeked = must("a peek", scope.peek(&id));
        let first = must("an insert", scope.insert(&id));
        let again = must("an insert", scope.insert(&id));
        if now_ms() < lives
            && !(known && peeked.is_none() && first.is_first() && again.is_duplicate())
        {
            let text = format!("{slot:?}: forgotten {known}, then {peeked:?} {first:?} {again:?}");
            fail(Kind::Wrong, &text);
        }
        self.book.head.calls += 4;
    }

    /// A scan shows each id of some live batches once.
    fn scan(&mut self) {
        let lane = self.lane();
        let mut expected: HashMap<[u8; 16], u32> = HashMap::new();
        let mut earliest = u64::MAX;
        for back in 1..20 {
            let number = self.book.head.next.saturating_sub(back * 7);
            let slot = self.book.slot(number);
            let (lives, _) = lane.window(&slot);
            if slot.state == State::Acknowledged && lives > now_ms() + 2_000 {
                earliest = earliest.min(slot.from_ms);
                let ids = lanes::ids(self.seed, self.number, slot.batch, lane.ids);
                expected.extend(ids.into_iter().map(|id| (id, 0)));
            }
        }
        let since = Duration::from_millis(earliest.saturating_sub(SLACK_MS));
        if expected.is_empty() {
            return;
        }
        let from = std::time::SystemTime::UNIX_EPOCH + since;
        for item in must("a scan", self.open.scopes[self.number].scan(from..)) {
            let (id, _) = must("a scanned id", item);
            let id = <[u8; 16]>::try_from(&id[..]).unwrap_or_default();
            expected.entry(id).and_modify(|times| *times += 1);
        }
        if let Some((_, times)) = expected.iter().find(|(_, times)| **times != 1) {
            let kind = if *times == 0 {
                Kind::Lost
            } else {
                Kind::Doubled
            };
            fail(
                kind,
                &format!("{}: a scan shows a live id {times} times", lane.name),
            );
        }
        self.book.head.calls += 1;
    }

    /// The lane's counters are the sum of its acknowledged batches, when none is under way.
    fn check_sums(&mut self) {
        if self.flight.is_empty() {
            settle::check_counters(&self.open.counters, self.number, self.book.head.next);
            self.book.head.calls += 1;
        }
    }
}
