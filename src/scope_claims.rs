//! What a scope does with claims and dead letters.

use std::sync::Arc;
use std::time::Duration;

use crate::claim::{Claim, ClaimEntry, Decided, Token};
use crate::claims::{Nonce, claim_key};
use crate::clock;
use crate::commit::{ClaimOp, Draft, Settlement, check_id, taken};
use crate::dead::DeadLetters;
use crate::error::{Error, ErrorKind, Result};
use crate::id::Id;
use crate::index::Book;
use crate::scope::Scope;
use crate::store::Core;
use crate::verdict::{BadId, Verdict};
use crate::why::{Grounds, Why};

impl Scope {
    /// Takes an id for work whose effect lies outside the store: a call to another system,
    /// minutes of computing. `First` brings the [`Claim`], to be started, and ended with what
    /// became of it.
    ///
    /// Of concurrent calls with one id exactly one is first, and so is one call after a failed
    /// attempt, a release or a lease that ran out; others are `InProgress` with the time that is
    /// left of the lease. A completed id is a `Duplicate` with its result. The lease
    /// ([`Policy::lease`](crate::Policy::lease)) starts with this call. One commit, at
    /// [`Options::claims_durability`](crate::Options::claims_durability).
    ///
    /// # Errors
    /// `Full` beyond [`Options::claims_max`](crate::Options::claims_max); as [`Scope::insert`]
    /// otherwise.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Options, Policy, Store, Verdict};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let pays = store.scope("payments", Policy::remember(days(7)).attempts_max(5))?;
    /// if let Verdict::First(mut claim) = pays.claim("pay-17")? {
    ///     claim.start(); // from here on the card may have been charged
    ///     claim.complete("receipt 4711", |_| {})?;
    /// }
    /// let again = pays.claim("pay-17")?;
    /// assert!(matches!(again, Verdict::Duplicate(s) if s.result() == Some(b"receipt 4711")));
    /// # Ok(()) }
    /// ```
    pub fn claim<'a>(&self, id: impl Into<Id<'a>>) -> Result<Verdict<Claim>> {
        let core = self.shared.core()?;
        self.claim_once(&core, &id.into())
    }

    /// [`Scope::claim`] that waits while another caller has the id, up to `timeout`: for its
    /// result, or to take the id over when its lease runs out.
    ///
    /// # Errors
    /// As [`Scope::claim`].
    pub fn wait_for<'a>(&self, id: impl Into<Id<'a>>, timeout: Duration) -> Result<Verdict<Claim>> {
        let id = id.into();
        let by = clock::deadline(timeout);
        loop {
            let core = self.shared.core()?;
            let verdict = self.claim_once(&core, &id)?;
            let left = clock::left(by);
            if !matches!(verdict, Verdict::InProgress(_)) || left.is_zero() {
                return Ok(verdict);
            }
            let key = claim_key(self.used.state.number, id.bytes.unwrap_or_default());
            match core.committer.claims.get(&key) {
                Some(before) => core.committer.wait_for_claim(&key, &before, left),
                None => clock::pause(left.min(Duration::from_millis(1))),
            }
        }
    }

    fn claim_once(&self, core: &Arc<Core>, id: &Id<'_>) -> Result<Verdict<Claim>> {
        if id.bytes.is_none() {
            // A claim is of an id, whatever the policy says about messages without one.
            let bad = Verdict::BadId(BadId::Missing);
            if !self.used.state.switches.observes() {
                return Ok(bad.map(|()| unreachable!("no claim comes with it")));
            }
            self.used.state.switches.count_observed(&bad);
            let claim = Claim::unclaimed(self, core, id, &bad);
            return Ok(Verdict::Observed(claim, Box::new(bad)));
        }
        core.committer.expect_claims(&self.used.state)?;
        let mut draft = Draft::default();
        draft.add_claim(&self.used, id, ClaimOp::Take, core.caps);
        let verdicts = core
            .committer
            .commit_claim(&mut draft, core.claims_durability)?;
        match verdicts.into_iter().next().ok_or_else(Error::closed)? {
            Verdict::First(()) => {
                let entry = taken(&draft).ok_or_else(Error::closed)?;
                Ok(Verdict::First(Claim::new(self, core, id, &entry, false)))
            }
            Verdict::Observed((), instead) => {
                let claim = Claim::unclaimed(self, core, id, &instead);
                Ok(Verdict::Observed(claim, instead))
            }
            Verdict::Declined(()) => Err(Error::closed()),
            other => Ok(other.map(|()| unreachable!("no claim comes with it"))),
        }
    }

    /// The claim of a token, to end it from a webhook or another thread. It counts as started,
    /// and renews itself once [`Claim::start`] is called.
    ///
    /// # Errors
    /// `LeaseLost` if the token is not the current one's; `Invalid` if the scope was dropped;
    /// `Closed`.
    pub fn reclaim(&self, token: &Token) -> Result<Claim> {
        let core = self.shared.core()?;
        self.check_not_dropped()?;
        let key = claim_key(self.used.state.number, token.id());
        let now_ms = core.index().time.now_ms();
        let found = core.committer.claims.get(&key);
        let is_it = |nonce: Nonce, expiry_ms| token.is_of(nonce) && expiry_ms > now_ms;
        match found.filter(|e| is_it(e.row.nonce, e.row.expiry_ms) && e.row.is_held()) {
            Some(entry) => Ok(Claim::new(self, &core, &Id::new(token.id()), &entry, true)),
            None => {
                let text = "the token is of no claim there is";
                Err(Error::new(ErrorKind::LeaseLost, text))
            }
        }
    }

    /// The ids that are claimed, wait for their next attempt or for a decision, in the order of
    /// their bytes; those of earlier runs of the store included. From memory.
    ///
    /// # Errors
    /// `Invalid` if the scope was dropped; `Closed`.
    pub fn claims(&self) -> Result<Vec<ClaimEntry>> {
        let core = self.shared.core()?;
        self.check_not_dropped()?;
        let mono_ms = core.index().time.mono_ms();
        let claims = core.committer.claims_of(&self.used.state).into_iter();
        let listed = claims.map(|(id, entry)| {
            let is_of_dead_run = !core.committer.claims.is_of_this_run(entry.row.nonce);
            ClaimEntry::new(id, &entry, mono_ms, is_of_dead_run)
        });
        Ok(listed.collect())
    }

    /// The messages of this scope that were given up, in the order of their ids, streaming.
    /// They stay until they are redriven or purged.
    ///
    /// # Errors
    /// `Invalid` if the scope was dropped; `Closed`; later ones come as items.
    pub fn dead_letters(&self) -> Result<DeadLetters> {
        let core = self.shared.core()?;
        self.check_not_dropped()?;
        core.committer.flush_buffer()?;
        let number = self.used.state.number;
        let family = core.index().book(Book::Dead);
        let rows = family.map(|family| family.rows(&number.to_be_bytes()));
        Ok(DeadLetters::new(rows, number))
    }

    /// Makes a dead-lettered id claimable again and removes its dead letter; `why` goes into the
    /// audit. Attempts go on rising; the policy's limit counts anew from here. False if the id
    /// is not dead-lettered (then nothing is written).
    ///
    /// # Errors
    /// As [`Scope::forget`].
    pub fn redrive<'a, 'w>(&self, id: impl Into<Id<'a>>, why: impl Into<Why<'w>>) -> Result<bool> {
        self.by_hand(&id.into(), &why.into(), ClaimOp::Redrive)
    }

    /// Removes a dead letter for good; `why` goes into the audit. The id stays dead-lettered for
    /// as long as it is remembered. False if there is no such dead letter.
    ///
    /// # Errors
    /// As [`Scope::forget`].
    pub fn purge<'a, 'w>(&self, id: impl Into<Id<'a>>, why: impl Into<Why<'w>>) -> Result<bool> {
        self.by_hand(&id.into(), &why.into(), ClaimOp::Purge)
    }

    /// Says what became of an effect whose outcome was unknown; `why` goes into the audit. False
    /// if the id waits for no decision.
    ///
    /// # Errors
    /// As [`Scope::forget`].
    pub fn decide<'a, 'w>(
        &self,
        id: impl Into<Id<'a>>,
        what: Decided,
        why: impl Into<Why<'w>>,
    ) -> Result<bool> {
        let settlement = match what {
            Decided::Done => Settlement::Done,
            Decided::Failed => Settlement::Failed,
            Decided::Retry => Settlement::Retry,
        };
        self.by_hand(&id.into(), &why.into(), |why| {
            ClaimOp::Decide(settlement, why)
        })
    }

    fn by_hand(
        &self,
        id: &Id<'_>,
        why: &Why<'_>,
        op: impl FnOnce(Grounds) -> ClaimOp,
    ) -> Result<bool> {
        if let Some(bad) = check_id(id, &self.used.policy) {
            return Err(Error::invalid(bad.to_string()));
        }
        why.check("what is done by hand")?;
        let op = op(Grounds::of(why));
        let core = self.shared.core()?;
        core.committer.flush_buffer()?;
        core.committer.expect_claims(&self.used.state)?;
        let mut draft = Draft::default();
        draft.add_claim(&self.used, id, op, core.caps);
        let level = core.durability.max(core.claims_durability);
        let verdicts = core.committer.commit_claim(&mut draft, level)?;
        match verdicts.into_iter().next() {
            Some(Verdict::InProgress(_)) => {
                Err(Error::new(ErrorKind::Busy, "another caller holds the id"))
            }
            verdict => Ok(verdict.is_some_and(|v| v.is_first())),
        }
    }
}
