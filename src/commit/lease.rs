//! A store's claims as a whole: found at open, asked about by batches, swept when they expired.
//!
//! A claim that expired (W4) means nothing any more; the sweep only takes back its room. It
//! removes what has expired by the *persisted* mark, as whatever removes a record does (T3), and
//! holds each id meanwhile, without waiting: one that is in use is left to the next sweep.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Catalog, ScopeState};
use crate::claims::{ClaimRow, Claims, Entry, claim_key, id_of, scope_of};
use crate::clock;
use crate::engine::Rep;
use crate::error::{Error, Result};
use crate::index::{Book, Index, LogBuilder};
use crate::options::Durability;
use crate::verdict::{Verdict, Verdicts};

use super::dead_tally::{DeadChange, DeadTurn};
use super::decide::{Decision, Held};
use super::draft::Draft;
use super::{Committer, keep_if_unknown};

/// How many claims one commit of a sweep removes.
const SWEEP_MAX: usize = 1_000;

/// The claims that a store was left with, in memory, before its first verdict.
pub(crate) fn load_claims(index: &Index, catalog: &Catalog, claims: &Claims) -> Result<()> {
    let Some(family) = index.book(Book::Claims) else {
        return Ok(());
    };
    let (now_ms, mono_ms) = (index.time.now_ms(), index.time.mono_ms());
    for row in family.rows(&[]) {
        let (key, value) = row?;
        let scope = scope_of(&key).and_then(|number| catalog.scope_of(number));
        let scope = scope.ok_or_else(|| Error::damaged("a claim is of no scope there is"))?;
        // Those of a dropped scope are swept; nobody asks for them.
        scope.expect_claims();
        claims.found(key, ClaimRow::decode(&value)?, now_ms, mono_ms);
    }
    Ok(())
}

impl Decision {
    /// An entry's claim, whatever has become of it.
    pub(super) fn claim(&self, entry: usize) -> Option<&Arc<Entry>> {
        let at = self.claims.binary_search_by_key(&entry, |c| c.0 as usize);
        Some(&self.claims[at.ok()?].1)
    }

    pub(super) fn add_claim(&mut self, entry: usize, claim: Option<Arc<Entry>>) {
        self.claims.extend(claim.map(|claim| (entry as u32, claim)));
    }

    pub(super) fn has_claims(&self) -> bool {
        !self.claims.is_empty()
    }

    pub(super) fn claims(&self) -> usize {
        self.claims.len()
    }
}

impl Committer {
    /// Makes the families of claims and dead letters, if the store has none yet.
    pub(crate) fn make_claim_books(&self) -> Result<()> {
        self.index.make_book(Book::Claims)?;
        self.index.make_book(Book::Dead)?;
        Ok(())
    }

    /// Step 4: claims first. Most scopes have none, which is known without a look.
    pub(super) fn look_up_claims(&self, draft: &Draft, d: &mut Decision) {
        if !draft.scopes.iter().any(|s| s.state.has_claims()) {
            return;
        }
        for e in 0..d.entries() {
            let Some((item, scope_number, id)) = d.first_of(e) else {
                continue;
            };
            let scope = draft.items[item as usize].scope;
            if draft.scopes[scope as usize].state.has_claims() {
                let found = self.claims.get(&claim_key(scope_number, draft.get(&id)));
                d.add_claim(e, found);
            }
        }
    }

    /// Commits a draft that is about claims; they are acknowledged at their own level.
    pub(crate) fn commit_claim(
        self: &Arc<Self>,
        draft: &mut Draft,
        level: Durability,
    ) -> Result<Verdicts> {
        self.make_claim_books()?;
        self.commit(draft, &mut None, level.max(Durability::Written))
    }

    /// The claims of a scope with their ids, in the order of the ids.
    pub(crate) fn claims_of(&self, scope: &ScopeState) -> Vec<(Vec<u8>, Arc<Entry>)> {
        let now_ms = self.index.time.now_ms();
        let of = |key: &[u8], entry: &Entry| {
            scope_of(key) == Some(scope.number) && entry.row.expiry_ms > now_ms
        };
        let listed = self.claims.list(of).into_iter();
        listed
            .map(|(k, entry)| (id_of(&k).to_vec(), entry))
            .collect()
    }

    /// Removes claims that have expired, and those of dropped scopes.
    pub(crate) fn sweep_claims(self: &Arc<Self>) -> Result<()> {
        if self.claims.len() == 0 {
            return Ok(());
        }
        let mark_ms = self.index.time.persisted_ms();
        let is_dropped = |key: &[u8]| {
            let scope = scope_of(key).and_then(|number| self.catalog.scope_of(number));
            scope.is_none_or(|scope| scope.is_dropped())
        };
        let gone = |key: &[u8], entry: &Entry| entry.row.expiry_ms <= mark_ms || is_dropped(key);
        let all = self.claims.list(gone);
        for part in all.chunks(SWEEP_MAX) {
            self.remove_claims(part, &gone)?;
        }
        Ok(())
    }

    fn remove_claims(
        self: &Arc<Self>,
        part: &[(Box<[u8]>, Arc<Entry>)],
        gone: &impl Fn(&[u8], &Entry) -> bool,
    ) -> Result<()> {
        let family = self.index.make_book(Book::Claims)?;
        let mut held = Held::new(self, self.ids.owner(), false);
        let (mut rows, mut changes) = (Rep::default(), Vec::new());
        for (key, _) in part {
            let hash = self
                .index
                .ids
                .of(scope_of(key).unwrap_or_default(), id_of(key));
            let mut met = Vec::new();
            if self.ids.try_hold(held.owner(), &[hash], &mut met).is_err() {
                continue;
            }
            if met.is_empty() {
                held.add([hash]);
            }
            // It may have been claimed anew before it was held.
            if self.claims.get(key).is_some_and(|entry| gone(key, &entry)) {
                rows.delete(family.number(), key);
                changes.push((key.clone(), None));
            }
        }
        if changes.is_empty() {
            return Ok(());
        }
        let level = Durability::Synced;
        match self.append(&mut LogBuilder::default(), &mut rows, level) {
            Ok(_) => self.claims.apply(&changes),
            Err(error) => {
                keep_if_unknown(&error, [Some(held)]);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Drops a scope; its dead letters and claims go with it. What a crash leaves of them is swept.
    pub(crate) fn drop_scope(self: &Arc<Self>, name: &str) -> Result<bool> {
        let Some(number) = self.retire_scope(name)? else {
            return Ok(false);
        };
        self.remove_dead_of(number)?;
        self.sweep_claims()?;
        Ok(true)
    }

    fn remove_dead_of(&self, scope: u16) -> Result<()> {
        let Some(family) = self.index.book(Book::Dead) else {
            return Ok(());
        };
        let (mut rows, mut change) = (Rep::default(), DeadChange::new());
        for row in family.rows(&scope.to_be_bytes()) {
            let (key, _) = row?;
            if scope_of(&key) != Some(scope) {
                break;
            }
            rows.delete(family.number(), &key);
            *change.entry(scope).or_default() -= 1;
        }
        if rows.is_empty() {
            return Ok(());
        }
        let level = Durability::Synced;
        let dead = self.put_dead_tally(&mut rows, &change);
        self.append(&mut LogBuilder::default(), &mut rows, level)?;
        dead.into_iter().for_each(DeadTurn::written);
        Ok(())
    }

    /// Waits until an id's claim changes, or for so long at most. Leases run in the store's time,
    /// which nobody signals: so it looks again soon.
    pub(crate) fn wait_for_claim(&self, key: &[u8], before: &Arc<Entry>, most: Duration) {
        let until = clock::deadline(most.min(LOOK_AGAIN));
        self.claims.wait_changed(key, before, until);
    }
}

/// How long a wait for a claim's end goes on without a look at the time.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What a claim that was taken or renewed in a draft's last commit is.
pub(crate) fn taken(draft: &Draft) -> Option<Arc<Entry>> {
    draft.changes().iter().find_map(|(_, entry)| entry.clone())
}

/// What a claim's own call came to; others' verdicts are errors here.
pub(crate) fn owned(verdict: Option<Verdict>) -> Result<()> {
    use crate::error::ErrorKind;
    match verdict {
        Some(Verdict::First(())) => Ok(()),
        Some(Verdict::Refused(r)) if r.is_settled() => Ok(()),
        Some(Verdict::Refused(_)) => Err(Error::invalid(
            "a condition of the completion did not hold; the claim is as it was",
        )),
        Some(Verdict::InProgress(_)) => Err(Error::new(
            ErrorKind::Busy,
            "another call holds the id of the claim",
        )),
        Some(Verdict::LeaseLost) => Err(Error::new(
            ErrorKind::LeaseLost,
            "the claim was taken over, ended or forgotten",
        )),
        _ => Err(Error::closed()),
    }
}
