//! The model's claims: an id taken for long work, by lease, attempt and token.
//!
//! Rules, as the library's documentation states them:
//! - a claim keeps its id from every call until its lease ends; the next one gets attempt + 1;
//! - only the token of the current claim ends it; the lease's end alone makes no token stale;
//! - attempts only rise; at the limit whoever asks next gives the id up;
//! - every state obeys its expiry.

use std::collections::BTreeMap;

use super::draft::{Draft, Staged, brought, check, own};
use super::model::{Effects, Model, Seen, failed};
use super::op::{
    Deciding, Ending, Item, Keep, LEASE_MS, LIMITED, Name, WITH_SOURCES, Write, id, source,
};
use super::said::{BUSY, INVALID, Said, Sight};

/// Attempts after which the limited scope gives an id up.
pub(crate) const ATTEMPTS_MAX: u32 = 3;

pub(super) type Key = (usize, Vec<u8>);

/// What a claim's row says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Held,
    Free,
    Unknown,
}

/// A claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(super) phase: Phase,
    serial: u64,
    pub(super) attempt: u32,
    pardoned: u32,
    pub(super) first_ms: u64,
    pub(super) until_ms: u64,
    pub(super) expiry_ms: u64,
    pub(super) source: Option<String>,
    pub(super) payload: Option<Vec<u8>>,
    /// When its id is late, if that has its own time.
    own_expiry: Option<i64>,
}

/// Claims, and how many attempts each dead letter had since when.
#[derive(Clone, Debug, Default)]
pub(crate) struct Claims {
    pub(super) of: BTreeMap<Key, Claim>,
    pub(super) dead: BTreeMap<Key, (u32, u64)>,
}

impl Claim {
    pub(super) fn sight(&self, ended: &'static str) -> Sight {
        Sight {
            first_ms: self.first_ms,
            refused: false,
            source: self.source.clone(),
            result: None,
            state: ended,
            attempt: self.attempt,
        }
    }

    pub(super) fn state(&self) -> &'static str {
        match self.phase {
            Phase::Held => "claimed",
            Phase::Free => "waiting",
            Phase::Unknown => "unknown",
        }
    }

    fn is_exhausted(&self, scope: usize) -> bool {
        scope == LIMITED && self.attempt - self.pardoned >= ATTEMPTS_MAX
    }
}

impl Draft<'_> {
    fn forms(&self, scope: usize, item: &Item) -> Vec<Key> {
        let named = [own(item), item.also.map(id)].into_iter().flatten();
        named.map(|id| (scope, id)).collect()
    }

    /// The claim of an item's id, or of its older form.
    pub(super) fn claim_of(&self, scope: usize, item: &Item) -> Option<Claim> {
        let mut forms = self.forms(scope, item).into_iter();
        forms.find_map(|key| {
            let claim = self.claims.of.get(&key)?;
            (claim.expiry_ms > self.now_ms).then(|| claim.clone())
        })
    }

    /// The verdict if the id's claim keeps the item out.
    pub(super) fn claimed(&mut self, scope: usize, item: &Item) -> Option<Said> {
        let forms = self.forms(scope, item);
        if self.ids.contains_key(forms.first()?) {
            return None;
        }
        for key in forms {
            let Some(claim) = self.claims.of.get(&key).cloned() else {
                continue;
            };
            if claim.expiry_ms <= self.now_ms {
                continue;
            }
            let other = brought(scope, item).zip(claim.payload.as_ref());
            if other.is_some_and(|(brought, kept)| brought != *kept) {
                return Some(Said::Mismatch(claim.sight(claim.state())));
            }
            match claim.phase {
                Phase::Unknown => return Some(Said::Unknown(claim.sight("unknown"))),
                _ if claim.until_ms > self.now_ms => return Some(Said::InProgress),
                _ if claim.is_exhausted(scope) => {
                    self.bury(scope, item, &claim);
                    return Some(Said::Dead(claim.sight("dead")));
                }
                _ => {}
            }
        }
        None
    }

    fn bury(&mut self, scope: usize, item: &Item, claim: &Claim) {
        if let Some(id) = own(item) {
            let letter = (claim.attempt, claim.first_ms);
            self.claims.dead.insert((scope, id), letter);
        }
        self.record_as(scope, item, ("dead", claim.attempt), None);
    }

    pub(super) fn end_claims(&mut self, scope: usize, item: &Item) {
        for key in self.forms(scope, item) {
            self.claims.of.remove(&key);
        }
    }

    fn put(&mut self, key: Key, claim: Claim, keep_ms: u64) {
        let until_ms = self.now_ms + keep_ms;
        let expiry_ms = match self.model.keeps[key.0] {
            Keep::Fixed(ms) | Keep::Sliding(ms, _) => (self.now_ms + ms).max(until_ms),
            Keep::Forever => u64::MAX,
        };
        let claim = Claim {
            until_ms,
            expiry_ms,
            ..claim
        };
        self.claims.of.insert(key, claim);
    }

    fn take(&mut self, scope: usize, item: &Item, serial: u64) -> Said {
        if self.is_in_progress(scope, item) {
            return Said::InProgress;
        }
        if let Some(said) = self.claimed(scope, item) {
            return said;
        }
        if let Some(said) = self.seen(scope, item) {
            return said;
        }
        if let Some(said) = self.ahead(scope, item) {
            return said;
        }
        let before = self.claim_of(scope, item);
        let kept = item.source.filter(|_| scope == WITH_SOURCES).map(source);
        let claim = Claim {
            phase: Phase::Held,
            serial,
            attempt: before.as_ref().map_or(0, |c| c.attempt) + 1,
            pardoned: before.as_ref().map_or(0, |c| c.pardoned),
            first_ms: before.as_ref().map_or(self.now_ms, |c| c.first_ms),
            until_ms: 0,
            expiry_ms: 0,
            source: kept.or(before.as_ref().and_then(|c| c.source.clone())),
            payload: brought(scope, item).or(before.and_then(|c| c.payload)),
            own_expiry: self.own_expiry(scope, item),
        };
        self.end_claims(scope, item);
        let key = self.forms(scope, item).swap_remove(0);
        self.put(key, claim, LEASE_MS);
        Said::First
    }
}

impl Model {
    pub(super) fn claim(&mut self, scope: usize, item: &Item) -> String {
        if item.name == Name::Missing {
            // Not an answer of the store's: the call is turned away before.
            return super::said::list(&[Said::Bad("missing")]);
        }
        if let Err(kind) = self.misused(&super::op::Batch::of(scope, [item])) {
            return failed(kind);
        }
        let serial = self.serials;
        let foreign = self.foreign();
        let mut draft = Draft::new(self, self.now_ms, &foreign);
        let said = match check(scope, item) {
            Err(bad) => Said::Bad(bad),
            Ok(_) => draft.take(scope, item, serial),
        };
        let effects = Effects::of(draft);
        if self.commit(effects, &[]).is_err() {
            return failed(INVALID);
        }
        self.totals.count(&said);
        if said == Said::First {
            self.serials += 1;
            let key = (scope, own(item).unwrap_or_default());
            self.tokens.entry(key).or_default().push(serial);
        }
        super::said::list(&[said])
    }

    /// What is done with a claim by its token.
    pub(super) fn end(&mut self, scope: usize, name: Name, stale: bool, how: &Ending) -> String {
        self.held = None;
        let item = Item::plain(name);
        let key = (scope, own(&item).unwrap_or_default());
        let tokens = self.tokens.get(&key).map_or(&[][..], |t| t);
        let Some(serial) = tokens.iter().rev().nth(usize::from(stale)).copied() else {
            return "no token".to_string();
        };
        let found = self.claims.of.get(&key).filter(|claim| {
            claim.serial == serial && claim.phase == Phase::Held && claim.expiry_ms > self.now_ms
        });
        let Some(claim) = found.cloned() else {
            return failed("LeaseLost");
        };
        let is_held = self.foreign().contains(&key);
        let mut draft = Draft::new(self, self.now_ms, &[]);
        let attempt = claim.attempt;
        let phase = |phase| Claim {
            phase,
            ..claim.clone()
        };
        match how {
            Ending::Complete(writes, _) if writes.iter().any(Write::is_misuse) => {
                return failed(INVALID);
            }
            Ending::Complete(writes, _) if writes.iter().any(|w| self.check_write(w).is_err()) => {
                return failed(BUSY);
            }
            _ if is_held => return failed(BUSY),
            Ending::Complete(writes, result) => {
                match draft.write_all(writes) {
                    Ok(None) => {}
                    Ok(Some(_)) => return failed(INVALID),
                    Err(kind) => return failed(kind),
                }
                draft.record_as(scope, &item, ("", attempt), Some(vec![*result]));
            }
            Ending::Retry if claim.is_exhausted(scope) => draft.bury(scope, &item, &claim),
            Ending::Retry | Ending::Release => draft.put(key, phase(Phase::Free), 0),
            Ending::Fail(result) => {
                draft.record_as(scope, &item, ("failed", attempt), Some(vec![*result]));
            }
            Ending::Unknown => draft.put(key, phase(Phase::Unknown), 0),
            Ending::Renew => draft.put(key, claim, LEASE_MS),
        }
        let effects = Effects::of(draft);
        self.commit(effects, &[])
            .map_or_else(failed, |()| "done".to_string())
    }

    pub(super) fn redrive(&mut self, scope: usize, name: Name) -> String {
        self.held = None;
        let item = Item::plain(name);
        let Ok(Some(id)) = check(usize::MAX, &item).map(|_| own(&item)) else {
            return failed(INVALID);
        };
        let key = (scope, id);
        if self.foreign().contains(&key) {
            return failed(BUSY);
        }
        let record = self.live(scope, &key.1, self.now_ms).cloned();
        let letter = self.claims.dead.get(&key).copied();
        let draft = Draft::new(self, self.now_ms, &[]);
        let is_claimed = draft.claim_of(scope, &item).is_some();
        let is_other = record.as_ref().is_some_and(|seen| seen.ended != "dead");
        if is_claimed || is_other || (record.is_none() && letter.is_none()) {
            return "false".to_string();
        }
        let recorded = record.as_ref().map_or(0, |seen| seen.attempt);
        let attempt = letter.map_or(recorded, |l| l.0.max(recorded));
        let first_ms = record.as_ref().map(|seen| seen.first_ms);
        let claim = Claim {
            phase: Phase::Free,
            serial: u64::MAX,
            attempt,
            pardoned: attempt,
            first_ms: first_ms.or(letter.map(|l| l.1)).unwrap_or(self.now_ms),
            until_ms: 0,
            expiry_ms: 0,
            source: record.as_ref().and_then(|seen| seen.source.clone()),
            payload: record.as_ref().and_then(|seen| seen.payload.clone()),
            own_expiry: None,
        };
        let mut draft = Draft::new(self, self.now_ms, &[]);
        draft.claims.dead.remove(&key);
        draft.put(key.clone(), claim, 0);
        self.claims = draft.claims;
        if record.is_some() {
            self.ids.remove(&key);
        }
        "true".to_string()
    }

    pub(super) fn purge(&mut self, scope: usize, name: Name) -> String {
        self.held = None;
        let item = Item::plain(name);
        match check(usize::MAX, &item).map(|_| own(&item)) {
            Ok(Some(id)) if self.foreign().contains(&(scope, id.clone())) => failed(BUSY),
            Ok(Some(id)) => self.claims.dead.remove(&(scope, id)).is_some().to_string(),
            _ => failed(INVALID),
        }
    }

    pub(super) fn decide(&mut self, scope: usize, name: Name, what: Deciding) -> String {
        self.held = None;
        let item = Item::plain(name);
        let Ok(Some(id)) = check(usize::MAX, &item).map(|_| own(&item)) else {
            return failed(INVALID);
        };
        if self.foreign().contains(&(scope, id.clone())) {
            return failed(BUSY);
        }
        let mut draft = Draft::new(self, self.now_ms, &[]);
        let claim = draft.claim_of(scope, &item);
        let Some(claim) = claim.filter(|claim| claim.phase == Phase::Unknown) else {
            return "false".to_string();
        };
        let attempt = claim.attempt;
        match what {
            Deciding::Done => draft.record_as(scope, &item, ("", attempt), None),
            Deciding::Failed => draft.record_as(scope, &item, ("failed", attempt), None),
            Deciding::Retry => {
                let claim = Claim {
                    phase: Phase::Free,
                    ..claim
                };
                draft.put((scope, id), claim, 0);
            }
        }
        let effects = Effects::of(draft);
        let committed = self.commit(effects, &[]);
        committed.map_or_else(failed, |()| "true".to_string())
    }

    /// All claims and dead letters, as text.
    pub(super) fn claims_told(&self) -> String {
        let live = self
            .claims
            .of
            .iter()
            .filter(|c| c.1.expiry_ms > self.now_ms);
        let claims = live.map(|((scope, id), claim)| {
            let (id, left) = (
                id.escape_ascii(),
                claim.until_ms.saturating_sub(self.now_ms),
            );
            format!("{scope} {id} {} {} {left}", claim.state(), claim.attempt)
        });
        let dead = self.claims.dead.iter().map(|((scope, id), (attempts, _))| {
            format!("{scope} {} dead {attempts}", id.escape_ascii())
        });
        claims.chain(dead).collect::<Vec<_>>().join("; ")
    }
}

impl Draft<'_> {
    /// Records how an id ended: the state ("" is done), and the attempt.
    pub(super) fn record_as(
        &mut self,
        scope: usize,
        item: &Item,
        (ended, attempt): (&'static str, u32),
        result: Option<Vec<u8>>,
    ) {
        let claim = self.claim_of(scope, item);
        let Some(id) = own(item) else { return };
        let ms = match self.model.keeps[scope] {
            Keep::Fixed(ms) => item.remember_ms.unwrap_or(ms),
            Keep::Sliding(ms, cap_ms) => item.remember_ms.unwrap_or(ms).min(cap_ms),
            Keep::Forever => u64::MAX,
        };
        let own_expiry = self
            .own_expiry(scope, item)
            .or(claim.as_ref().and_then(|c| c.own_expiry));
        let kept = item.source.filter(|_| scope == WITH_SOURCES).map(source);
        let seen = Seen {
            first_ms: claim.as_ref().map_or(self.now_ms, |c| c.first_ms),
            expiry_ms: own_expiry.map_or(self.now_ms.saturating_add(ms), |own_ms| {
                // A late one leaves nothing that is remembered.
                u64::try_from(own_ms).unwrap_or(0)
            }),
            refused: self.is_refused,
            source: kept.or(claim.as_ref().and_then(|c| c.source.clone())),
            payload: brought(scope, item).or(claim.and_then(|c| c.payload)),
            result,
            ended,
            attempt,
        };
        self.end_claims(scope, item);
        self.ids.insert((scope, id), Staged::Recorded(seen));
    }
}
