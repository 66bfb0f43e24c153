//! Protocol steps 1 to 5: validate, reserve, hold, look up, read the time.
//!
//! The order is the point. Room is reserved while nothing is held, so the leader never waits.
//! Ids are held before the view is loaded, so nobody can decide one of them behind our back.
//! Time is read after every lookup, so what a lookup found unexpired is judged at a later
//! moment, never an earlier one.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::claims::Entry as Claim;
use crate::clock;
use crate::error::{Error, Result};
use crate::index::{Class, Hit, Probe, Room, Scratch, Tiers};
use crate::sync::thread_local;

use super::Committer;
use super::doubts::{ASK_PREPARED, leave_out};
use super::draft::Draft;
use super::holds::{EARLIER_CALL, HoldError, Holds, Owner};
use super::item::Item;
use super::need::{Extent, carried, need};

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// Hashes held in a table; released when dropped.
pub(crate) struct Held {
    pub(super) committer: Arc<Committer>,
    owner: Owner,
    hashes: Vec<u64>,
    is_rows: bool,
    keep: bool,
}

impl Held {
    pub(super) fn new(committer: &Arc<Committer>, owner: Owner, is_rows: bool) -> Held {
        let committer = Arc::clone(committer);
        Held {
            committer,
            owner,
            hashes: Vec::new(),
            is_rows,
            keep: false,
        }
    }

    fn table(&self) -> &Holds {
        if self.is_rows {
            &self.committer.rows
        } else {
            &self.committer.ids
        }
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Notes more hashes that this owner holds now.
    pub(super) fn add(&mut self, hashes: impl IntoIterator<Item = u64>) {
        self.hashes.extend(hashes);
    }

    pub(super) fn hashes(&self) -> &[u64] {
        &self.hashes
    }

    /// Releases now what is held; more may be held later.
    pub(super) fn release(&mut self) {
        self.table().release(self.owner, &self.hashes);
        self.hashes.clear();
    }

    /// The outcome is unknown: what is held stays held until the store is reopened.
    pub(super) fn keep(mut self) {
        self.keep = true;
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if !self.keep {
            self.release();
        }
    }
}

/// One id to hold and look up: an item's own, or its older form.
pub(super) struct Entry {
    item: u32,
    scope: u16,
    hash: u64,
    id: Range<u32>,
}

/// No entry, or no hit.
pub(super) const NONE: u32 = u32::MAX;

/// Ids held, and what is known of them.
pub(crate) struct Decision {
    pub(super) held: Held,
    pub(super) room: Room,
    pub(super) now_ms: u64,
    /// Monotonic time, for leases; 0 where there are no claims.
    pub(super) mono_ms: u64,
    /// The last commit written when the ids were held.
    pub(super) written: u64,
    pub(super) entries: Vec<Entry>,
    /// Items' own entries; NONE for those without an id.
    pub(super) entry_of: Vec<u32>,
    /// Entries of older forms, by item; empty if there are none.
    also_of: Vec<(u32, u32)>,
    /// The first entry of the same id, if any is repeated.
    canon: Vec<u32>,
    hit_of: Vec<u32>,
    hits: Vec<Hit>,
    /// Claims of entries, ascending.
    pub(super) claims: Vec<(u32, Arc<Claim>)>,
    /// Items another caller held until the deadline, ascending, and when to ask again.
    in_progress: Vec<(u32, Duration)>,
    /// Classes of items with a retention of their own.
    pub(super) classes: Vec<(u32, Class)>,
    /// Scopes of the draft that only observe, as they were switched when this was decided: a held
    /// batch is committed as it was held.
    observing: Vec<u32>,
}

impl Decision {
    pub(super) fn is_in_progress(&self, item: u32) -> bool {
        self.ask_again(item).is_some()
    }

    /// When to ask again for an item whose id another caller holds.
    pub(super) fn ask_again(&self, item: u32) -> Option<Duration> {
        let at = self.in_progress.binary_search_by_key(&item, |i| i.0).ok()?;
        Some(self.in_progress[at].1)
    }

    pub(super) fn has_in_progress(&self) -> bool {
        !self.in_progress.is_empty()
    }

    /// The entry that stands for an item's id: the first one of the same id.
    pub(super) fn entry(&self, item: u32) -> usize {
        self.canonical(self.entry_of[item as usize])
    }

    /// The entry of an item's older id, if it has one.
    pub(super) fn also(&self, item: u32) -> Option<usize> {
        let at = self.also_of.binary_search_by_key(&item, |a| a.0).ok()?;
        Some(self.canonical(self.also_of[at].1))
    }

    fn canonical(&self, entry: u32) -> usize {
        self.canon.get(entry as usize).copied().unwrap_or(entry) as usize
    }

    pub(super) fn entries(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn hash(&self, entry: usize) -> u64 {
        self.entries[entry].hash
    }

    /// What was found of an entry's id.
    pub(super) fn hit(&self, entry: usize) -> Option<&Hit> {
        let at = *self.hit_of.get(entry)?;
        self.hits.get(at as usize)
    }

    /// Item, scope and id of an entry that stands for its id.
    pub(super) fn first_of(&self, entry: usize) -> Option<(u32, u16, Range<u32>)> {
        let of = &self.entries[entry];
        (self.canonical(entry as u32) == entry).then(|| (of.item, of.scope, of.id.clone()))
    }

    /// The entries of which something was found, ascending.
    pub(super) fn found(&self) -> impl Iterator<Item = usize> {
        let each = self.hit_of.iter().enumerate();
        each.filter_map(|(at, hit)| (*hit != NONE).then_some(at))
    }

    /// All that was found.
    pub(super) fn hits(&self) -> &[Hit] {
        &self.hits
    }

    /// Whether every entry is an id of its own that nobody holds or has claimed.
    pub(super) fn is_all_separate(&self) -> bool {
        self.canon.is_empty() && self.in_progress.is_empty() && self.claims.is_empty()
    }

    /// Whether a scope of the draft only observes.
    pub(super) fn observes(&self, scope: u32) -> bool {
        !self.observing.is_empty() && self.observing.contains(&scope)
    }

    pub(super) fn class(&self, item: u32) -> Option<Class> {
        self.classes.iter().find(|c| c.0 == item).map(|c| c.1)
    }
}

impl Committer {
    /// Steps 1 to 5 for a draft.
    ///
    /// # Errors
    /// Nothing is held or recorded after an error.
    pub(super) fn decide(self: &Arc<Self>, draft: &mut Draft, extent: Extent) -> Result<Decision> {
        draft.check_use()?;
        self.index.poison.check()?;
        draft.check_handles()?;
        let classes = self.classes_of(draft)?;
        if draft.has_dead {
            self.make_claim_books()?;
        }
        let need = need(draft, extent);
        let room_by = clock::deadline(self.wait_max);
        // How long to wait for ids is the policies' affair; for room it is not.
        let wait = draft
            .scopes
            .iter()
            .map(|s| s.policy.wait.unwrap_or(self.wait_max));
        let by = clock::deadline(wait.max().unwrap_or(self.wait_max));
        let mut more = 0;
        loop {
            let (ids, words) = (need.0, need.1 + more);
            let room = self.index.reserve(ids, words, room_by)?;
            let mut decision = self.hold(draft, room, by)?;
            self.look_up_claims(draft, &mut decision);
            self.look_up(draft, &mut decision)?;
            // Only now is known what a prolonged record carries on. While ids are held nothing
            // may be waited for: if the room is not to be had at once, let go and begin anew.
            let carried = carried(draft, &decision);
            if carried > more && !self.index.grow(&mut decision.room, carried - more)? {
                more = carried;
                continue;
            }
            decision.classes = classes;
            decision.now_ms = self.index.time.now_ms();
            if draft.has_claims || decision.has_claims() {
                decision.mono_ms = self.index.time.mono_ms();
            }
            return Ok(decision);
        }
    }

    /// Reserves room for what was held while the disk was full, if it can be had at once.
    pub(super) fn reserve_again(&self, draft: &Draft, decision: &mut Decision) {
        if !decision.room.is_reserved() {
            let (ids, words) = need(draft, Extent::Final);
            let words = words + carried(draft, decision);
            if let Ok(room) = self
                .index
                .reserve(ids, words, clock::deadline(Duration::ZERO))
            {
                decision.room = room;
            }
        }
    }

    fn classes_of(&self, draft: &Draft) -> Result<Vec<(u32, Class)>> {
        let mut classes = Vec::new();
        if draft.uniform().is_some() {
            return Ok(classes);
        }
        for (i, item) in draft.items.iter().enumerate() {
            if let Some(ms) = item.remember_ms() {
                let scope = &draft.scopes[item.scope as usize].state;
                classes.push((i as u32, self.catalog.allow_class(scope, ms)?));
            }
        }
        Ok(classes)
    }

    /// Step 3: pass 1 never waits; pass 2 waits in hash order; who is still held by another
    /// caller at the deadline is in progress.
    fn hold(self: &Arc<Self>, draft: &mut Draft, room: Room, by: Instant) -> Result<Decision> {
        let owner = self.ids.owner();
        let mut in_progress = Vec::new();
        loop {
            let (entries, entry_of, also_of) = self.entries(draft, &in_progress);
            let wanted: Vec<u64> = entries.iter().map(|e| e.hash).collect();
            let mut met = Vec::new();
            let mut taken = self.ids.try_hold(owner, &wanted, &mut met);
            if let Err(HoldError::Foreign(foreign)) = taken {
                self.check_reentrant(foreign, false)?;
                // Nobody knows when a prepared transaction ends: it is not waited for.
                let prepared = self.doubts.holding(&wanted);
                if !prepared.is_empty() {
                    let items = prepared.iter().map(|at| (entries[*at].item, ASK_PREPARED));
                    leave_out(&mut in_progress, items);
                    continue;
                }
                // A buffered commit may be what holds it.
                self.flush_buffer()?;
                taken = self.ids.hold_sorted(owner, &wanted, &mut met, by);
            }
            match taken {
                Ok(()) => {}
                Err(HoldError::Foreign(foreign)) => {
                    let item = entries[foreign.at].item;
                    leave_out(&mut in_progress, [(item, ASK_AGAIN)]);
                    continue;
                }
                Err(HoldError::Poisoned) => {
                    self.index.poison.check()?;
                    return Err(Error::closed());
                }
            }
            let mut held = Held::new(self, owner, false);
            held.hashes = wanted;
            let canon = canonical(draft, &entries, &met);
            return Ok(Decision {
                held,
                room,
                now_ms: 0,
                mono_ms: 0,
                written: self.index.written(),
                entries,
                entry_of,
                also_of,
                canon,
                hit_of: Vec::new(),
                hits: Vec::new(),
                claims: Vec::new(),
                in_progress,
                classes: Vec::new(),
                observing: draft.observing(),
            });
        }
    }

    fn entries(
        &self,
        draft: &mut Draft,
        left_out: &[(u32, Duration)],
    ) -> (Vec<Entry>, Vec<u32>, Vec<(u32, u32)>) {
        let mut entries = std::mem::take(&mut draft.spare.entries);
        let mut entry_of = std::mem::take(&mut draft.spare.entry_of);
        entries.clear();
        entry_of.clear();
        let draft = &*draft;
        if let (Some(len), true) = (draft.uniform(), left_out.is_empty()) {
            self.uniform_entries(draft, len, &mut entries, &mut entry_of);
            return (entries, entry_of, Vec::new());
        }
        entry_of.resize(draft.items.len(), NONE);
        let mut also_of = Vec::new();
        let usable = |i: u32, item: &Item| {
            let is_left_out = || left_out.binary_search_by_key(&i, |l| l.0).is_ok();
            item.bad.is_none() && !item.is_unkeyed && !item.is_sequence && !is_left_out()
        };
        let mut add = |item: u32, scope: u16, id: &Range<u32>| {
            let hash = self.index.ids.of(scope, draft.get(id));
            entries.push(Entry {
                item,
                scope,
                hash,
                id: id.clone(),
            });
            (entries.len() - 1) as u32
        };
        for (i, item) in (0..).zip(&draft.items) {
            if usable(i, item) {
                let scope = draft.scopes[item.scope as usize].state.number;
                entry_of[i as usize] = add(i, scope, &item.id);
            }
        }
        for (i, item) in (0..).zip(&draft.items) {
            if let Some(also) = &item.also
                && usable(i, item)
            {
                let scope = draft.scopes[item.scope as usize].state.number;
                also_of.push((i, add(i, scope, also)));
            }
        }
        (entries, entry_of, also_of)
    }

    /// [`Committer::entries`] of items that are ids of one length and nothing else.
    fn uniform_entries(
        &self,
        draft: &Draft,
        len: usize,
        entries: &mut Vec<Entry>,
        entry_of: &mut Vec<u32>,
    ) {
        let scope = draft.scopes[0].state.number;
        let ids = (0..).zip(draft.bytes.chunks_exact(len));
        entries.extend(ids.map(|(item, id)| Entry {
            item,
            scope,
            hash: self.index.ids.of(scope, id),
            id: item * len as u32..(item + 1) * len as u32,
        }));
        entry_of.extend(0..entries.len() as u32);
    }

    /// Step 4: one view, loaded after the hold.
    fn look_up(&self, draft: &Draft, d: &mut Decision) -> Result<()> {
        // Only the first entry of each id, if any is repeated.
        let numbers: Vec<u32> = (0..)
            .zip(&d.canon)
            .filter_map(|(e, first)| (e == *first).then_some(e))
            .collect();
        let gathered: Vec<u64> = numbers.iter().map(|e| d.hash(*e as usize)).collect();
        let hashes = if d.canon.is_empty() {
            d.held.hashes()
        } else {
            &gathered
        };
        let number = |at: usize| numbers.get(at).map_or(at, |e| *e as usize);
        let all = &d.entries;
        let routes = self.routes(draft)?;
        let probe = |at: usize| {
            let entry = &all[number(at)];
            let item = &draft.items[entry.item as usize];
            Probe {
                scope: entry.scope,
                classes: draft.scopes[item.scope as usize].state.classes(),
                only: routes.only(item.scope, draft.get(&entry.id)),
                id: draft.get(&entry.id),
            }
        };
        let mut tiers = Tiers::default();
        let entries = d.entries.len();
        let (hit_of, hits) = (&mut d.hit_of, &mut d.hits);
        SCRATCH.with_borrow_mut(|scratch| {
            let found = |at: usize, hit| {
                if hit_of.is_empty() {
                    hit_of.resize(entries, NONE);
                }
                hit_of[number(at)] = hits.len() as u32;
                hits.push(hit);
            };
            self.index.lookup(hashes, probe, scratch, &mut tiers, found)
        })?;
        self.counters.tiers(&tiers);
        Ok(())
    }
}

/// Positions met, as the first entry of the same id for each entry. Two ids whose hashes
/// collide are told apart by their bytes.
fn canonical(draft: &Draft, entries: &[Entry], met: &[(u32, u32)]) -> Vec<u32> {
    if met.is_empty() {
        return Vec::new();
    }
    let mut canon: Vec<u32> = (0..entries.len() as u32).collect();
    let same = |a: &Entry, b: &Entry| {
        a.hash == b.hash && a.scope == b.scope && draft.get(&a.id) == draft.get(&b.id)
    };
    for &(at, earlier) in met {
        let entry = &entries[at as usize];
        debug_assert_ne!(earlier, EARLIER_CALL, "an owner holds ids once");
        let first = if same(entry, &entries[earlier as usize]) {
            Some(earlier)
        } else {
            (0..at).find(|e| same(entry, &entries[*e as usize]))
        };
        if let Some(first) = first {
            canon[at as usize] = first;
        }
    }
    canon
}

/// When a caller is told to ask again for an id that is in flight.
pub(super) const ASK_AGAIN: Duration = Duration::from_millis(20);
