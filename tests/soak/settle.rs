//! What a store must have after it was opened again, and sums that hold at any time.

use firstseen::{Sighting, Table};

use super::book::{Book, SLOTS, Slot, State};
use super::fail::{Kind, fail, must};
use super::lanes::{self, ACCOUNTS, COUNTERS, LANES, Lane, MONEY, Open, SLACK_MS, now_ms};

/// Acknowledged batches that are looked at after an opening, besides the latest.
const SAMPLE: usize = 200;
const LATEST: u64 = 50;

/// Compares a lane with its book and brings the book up to date: a batch that was under way
/// is there whole, with all before it, or not at all.
pub(crate) fn settle(open: &Open, seed: u64, number: usize, book: &mut Book) {
    let lane = &LANES[number];
    if !lane.has_points() {
        settle_buffered(open, seed, number, book);
    }
    let mut is_ended = false;
    while let Some(slot) = next_sent(book) {
        if !is_there(open, seed, number, &slot) {
            if slot.state == State::Acknowledged && lane.has_points() {
                fail(
                    Kind::Lost,
                    &format!("{} {slot:?}: acknowledged, but gone", lane.name),
                );
            }
            is_ended = true;
            break;
        }
        book.set(Slot {
            state: State::Acknowledged,
            to_ms: now_ms(),
            last_to_ms: now_ms(),
            ..slot
        });
        book.head.next += 1;
        book.head.ids += lane.ids as u64;
    }
    let next = book.head.next;
    for later in next..next + lane.depth as u64 {
        let slot = book.slot(later);
        let sent = slot.batch == later && slot.state == State::Sent;
        if sent && is_ended && later > next && is_there(open, seed, number, &slot) {
            fail(
                Kind::Torn,
                &format!("{} {later} is there, {next} is not", lane.name),
            );
        }
        if slot.batch == later {
            book.clear(later);
        }
    }
    if lane.has_points() {
        let point = must("a resume point", open.store.resume_point(lane.name));
        let found = point.and_then(|p| p.as_u64()).unwrap_or(0);
        if found != next {
            let kind = if found < next { Kind::Lost } else { Kind::Torn };
            fail(
                kind,
                &format!("{}: the resume point is {found}, not {next}", lane.name),
            );
        }
    }
    check_counters(&open.counters, number, next);
    book.save_head();
    sample(open, seed, number, book);
}

/// The batch that the head does not count yet; a kill may have come between its slot's
/// acknowledgement and the head.
fn next_sent(book: &Book) -> Option<Slot> {
    let slot = book.slot(book.head.next);
    (slot.state != State::Empty && slot.batch == book.head.next).then_some(slot)
}

/// Buffered batches that were not synced may be gone, the last first.
fn settle_buffered(open: &Open, seed: u64, number: usize, book: &mut Book) {
    let lane = &LANES[number];
    for batch in book.head.synced..book.head.next {
        let slot = book.slot(batch);
        if slot.batch != batch || slot.state == State::Empty {
            continue;
        }
        if now_ms() + 1_000 > lane.window(&slot).0 {
            book.clear(batch);
        } else if !is_there(open, seed, number, &slot) {
            for later in batch..book.head.next {
                let slot = book.slot(later);
                let known = slot.batch == later && slot.state != State::Empty;
                if known && is_there(open, seed, number, &slot) {
                    fail(
                        Kind::Torn,
                        &format!("{} {later} is there, {batch} is not", lane.name),
                    );
                }
                book.clear(later);
            }
            // Its ids may be sent again, as the same batch.
            book.head.next = batch;
            break;
        }
    }
    book.head.synced = book.head.next;
}

/// Whether a batch is there: all of its ids and rows, or none.
fn is_there(open: &Open, seed: u64, number: usize, slot: &Slot) -> bool {
    let lane = &LANES[number];
    let rows = (0..lane.rows).filter(|place| {
        let row = open.rows.get(lanes::row(number, slot.batch, *place));
        must("a row", row).is_some_and(|v| v[..] == slot.batch.to_le_bytes())
    });
    let rows = rows.count();
    let mut ids = 0;
    for id in lanes::ids(seed, number, slot.batch, lane.ids) {
        if let Some(seen) = must("a peek", open.scopes[number].peek(&id)) {
            check_time(lane, slot, &seen);
            ids += 1;
        }
    }
    // Ids that may have expired since tell nothing.
    let lives = now_ms() < lane.window(slot).0;
    let all = rows == lane.rows && (ids == lane.ids || !lives);
    if !all && (rows > 0 || ids > 0) {
        let text = format!(
            "{} {slot:?}: {ids} of {} ids, {rows} of {} rows",
            lane.name, lane.ids, lane.rows
        );
        fail(Kind::Torn, &text);
    }
    all
}

fn sample(open: &Open, seed: u64, number: usize, book: &Book) {
    for back in 1..LATEST {
        let batch = book.head.next.saturating_sub(back);
        look(open, seed, number, &book.slot(batch));
    }
    for _ in 0..SAMPLE {
        look(open, seed, number, &book.slots[fastrand::usize(..SLOTS)]);
    }
}

/// An id of an acknowledged batch is known while it surely lives, and not once it surely
/// does not.
pub(crate) fn look(open: &Open, seed: u64, number: usize, slot: &Slot) {
    let lane = &LANES[number];
    if slot.state != State::Acknowledged {
        return;
    }
    let (lives, gone) = lane.window(slot);
    let id = lanes::id(seed, number, slot.batch, fastrand::usize(..lane.ids));
    let asked_ms = now_ms();
    let seen = must("a peek", open.scopes[number].peek(&id));
    match seen {
        Some(seen) if asked_ms > gone => {
            let text = format!("{} {slot:?}: its time is over, but {seen:?}", lane.name);
            fail(Kind::Wrong, &text);
        }
        Some(seen) => check_time(lane, slot, &seen),
        // A buffered one is not seen by a peek until it is written, a moment later.
        None if !lane.has_points() && asked_ms < slot.to_ms + 1_000 => {}
        None if now_ms() < lives => {
            let text = format!("{} {slot:?}: acknowledged, but unknown", lane.name);
            fail(Kind::Lost, &text);
        }
        None => {}
    }
}

/// A sighting tells when the batch was first seen.
pub(crate) fn check_time(lane: &Lane, slot: &Slot, seen: &Sighting) {
    let at = seen.first_seen_at().duration_since(std::time::UNIX_EPOCH);
    let at_ms = at.map_or(0, |at| at.as_millis());
    let from = u128::from(slot.from_ms.saturating_sub(SLACK_MS));
    let to = u128::from(slot.to_ms.saturating_add(SLACK_MS));
    if !(from..=to).contains(&at_ms) {
        fail(
            Kind::Wrong,
            &format!("{} {slot:?}: first seen at {at_ms}", lane.name),
        );
    }
}

fn sum(table: &Table, keys: impl Iterator<Item = String>) -> i64 {
    let values = keys.map(|key| must("a counter", table.get(key)));
    values
        .map(|v| v.and_then(|v| v.as_counter()).unwrap_or(0))
        .sum()
}

/// A lane's counters after so many batches.
pub(crate) fn check_counters(counters: &Table, number: usize, batches: u64) {
    let lane = &LANES[number];
    if !lane.is_guarded {
        return;
    }
    let found = sum(
        counters,
        (0..COUNTERS).map(|place| lanes::counter(number, place)),
    );
    let expected = lane.counted(batches);
    if found != expected {
        let kind = if found < expected {
            Kind::Lost
        } else {
            Kind::Doubled
        };
        fail(
            kind,
            &format!("{}: counters of {found}, not {expected}", lane.name),
        );
    }
}

/// Money moves between accounts, and none is made or lost; only while nobody moves any.
pub(crate) fn check_money(accounts: &Table) {
    let found = sum(accounts, (0..ACCOUNTS).map(|account| account.to_string()));
    let expected = MONEY * i64::try_from(ACCOUNTS).unwrap_or(0);
    if found != expected {
        fail(Kind::Torn, &format!("accounts of {found}, not {expected}"));
    }
}
