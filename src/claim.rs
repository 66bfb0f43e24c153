//! A claim: an id taken for work whose effect lies outside the store.
//!
//! The handle is the caller's; what counts is the row (`crate::claims`). Every call is one commit
//! that compares the handle's token with the row while the id is held. Dropping a handle releases
//! the id if nothing was started, and otherwise leaves the lease to run out: what was started may
//! have happened.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::batch::Writes;
use crate::claims::{Entry, Nonce, Phase};
use crate::commit::{ClaimOp, Draft, ScopeUse, When, owned};
use crate::error::{Error, ErrorKind, Result};
use crate::id::Id;
use crate::options::Durability;
use crate::renewals::Lease;
use crate::scope::Scope;
use crate::store::Core;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::verdict::{IdState, Verdict};

/// How an attempt failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Another attempt may succeed: the id is free for the next call, with the attempt counted,
    /// or dead-lettered at the policy's limit.
    Retryable,
    /// No attempt will succeed: later calls answer [`Failed`](crate::Verdict::Failed) with the
    /// result, for as long as the id is remembered.
    Permanent,
}

/// What is decided about an unknown outcome; see [`Scope::decide`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Decided {
    /// The effect took place: later calls are duplicates.
    Done,
    /// It did not, and must not: later calls answer [`Failed`](crate::Verdict::Failed).
    Failed,
    /// It did not: the next attempt may begin.
    Retry,
}

/// What fences a claim: only who has the token of the current one can end it. It may be kept
/// elsewhere as bytes, to end the claim from a webhook or from another process's request
/// ([`Scope::reclaim`]).
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Token {
    id: Box<[u8]>,
    nonce: Nonce,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl Token {
    /// Its bytes: 16 and the id's.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let nonce = [
            self.nonce.run.to_be_bytes(),
            self.nonce.serial.to_be_bytes(),
        ];
        [&nonce.concat(), &*self.id].concat()
    }

    /// A token from its bytes.
    ///
    /// # Errors
    /// `Invalid` if they are none.
    pub fn from_bytes(bytes: &[u8]) -> Result<Token> {
        let parts = bytes.split_first_chunk::<8>().and_then(|(run, rest)| {
            let (serial, id) = rest.split_first_chunk::<8>()?;
            (!id.is_empty()).then_some((run, serial, id))
        });
        let (run, serial, id) = parts.ok_or_else(|| Error::invalid("these bytes are no token"))?;
        Ok(Token {
            id: id.into(),
            nonce: Nonce {
                run: u64::from_be_bytes(*run),
                serial: u64::from_be_bytes(*serial),
            },
        })
    }

    pub(crate) fn is_of(&self, nonce: Nonce) -> bool {
        self.nonce == nonce
    }

    /// The id that it is a claim of.
    #[must_use]
    pub fn id(&self) -> &[u8] {
        &self.id
    }
}

/// An id taken for work that takes long; see [`Scope::claim`].
///
/// `Send + Sync`, not `Clone`. Each of its calls is one commit at the level
/// [`Options::claims_durability`](crate::Options::claims_durability), and fails with `LeaseLost`,
/// changing nothing, if the id was taken over meanwhile.
#[must_use = "a claim that is dropped is released, or runs out if it was started"]
pub struct Claim {
    scope: Scope,
    lease: Arc<Lease>,
    attempt: u32,
    is_started: bool,
    level: Durability,
}

impl std::fmt::Debug for Claim {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Claim")
            .field("id", &self.lease.id.escape_ascii().to_string())
            .field("attempt", &self.attempt)
            .field("is_lost", &self.is_lost())
            .finish_non_exhaustive()
    }
}

impl Claim {
    pub(crate) fn new(
        scope: &Scope,
        core: &Core,
        id: &Id<'_>,
        entry: &Entry,
        is_started: bool,
    ) -> Claim {
        let lease = Lease {
            used: patient(scope),
            id: id.bytes.unwrap_or_default().into(),
            remember: id.remember,
            nonce: entry.row.nonce,
            lease_ms: entry.row.lease_ms,
            until_mono_ms: AtomicU64::new(entry.until_mono_ms),
            is_lost: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            is_unclaimed: false,
        };
        Claim {
            scope: scope.clone(),
            lease: Arc::new(lease),
            attempt: entry.row.attempt,
            is_started,
            level: core.claims_durability,
        }
    }

    /// The handle of work that a scope which only observes lets through: the id is known or taken
    /// already and stays as it is; its rows are written, and no more.
    pub(crate) fn unclaimed(scope: &Scope, core: &Core, id: &Id<'_>, instead: &Verdict) -> Claim {
        let attempt = match instead {
            Verdict::Duplicate(s) | Verdict::Failed(s) | Verdict::OutcomeUnknown(s) => s.attempt(),
            _ => None,
        };
        let lease = Lease {
            used: patient(scope),
            id: id.bytes.unwrap_or_default().into(),
            remember: id.remember,
            nonce: Nonce { run: 0, serial: 0 },
            lease_ms: u64::MAX,
            until_mono_ms: AtomicU64::new(u64::MAX),
            is_lost: AtomicBool::new(false),
            is_over: AtomicBool::new(true),
            is_unclaimed: true,
        };
        Claim {
            scope: scope.clone(),
            lease: Arc::new(lease),
            attempt: attempt.unwrap_or(1),
            is_started: true,
            level: core.claims_durability,
        }
    }

    /// Effects may begin. From now on the claim renews itself, at a third of its lease, until it
    /// is ended, lost or dropped; and dropping it leaves the lease to run out. The first call
    /// starts the store's one thread for that.
    pub fn start(&mut self) -> &mut Claim {
        self.is_started = true;
        if self.lease.is_unclaimed {
            return self;
        }
        if let Ok(core) = self.scope.shared.core() {
            core.renewals.add(&core.committer, &self.lease, self.level);
        }
        self
    }

    /// Which attempt at the id this is, from 1. Only rises, also over crashes.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// What it is known by elsewhere.
    #[must_use]
    pub fn token(&self) -> Token {
        Token {
            id: self.lease.id.clone(),
            nonce: self.lease.nonce,
        }
    }

    /// Whether it was taken over, as far as is known here, or its lease has run out, so that it
    /// may be at any moment. Costs no look at the store's files.
    #[must_use]
    pub fn is_lost(&self) -> bool {
        match self.scope.shared.core() {
            Ok(core) => self.lease.is_lost(core.index().time.mono_ms()),
            Err(_) => true,
        }
    }

    /// Begins the lease anew.
    ///
    /// # Errors
    /// `LeaseLost`; as [`Scope::insert`](crate::Scope::insert) otherwise.
    pub fn renew(&self) -> Result<()> {
        if self.lease.is_unclaimed {
            return Ok(());
        }
        let core = self.scope.shared.core()?;
        let mut draft = self.draft(&core, ClaimOp::Renew(self.lease.nonce));
        let verdicts = core.committer.commit_claim(&mut draft, self.level);
        let renewed = owned(verdicts?.into_iter().next());
        self.note(&renewed);
        if let (Ok(()), Some(entry)) = (&renewed, crate::commit::taken(&draft)) {
            self.lease.renewed(&entry);
        }
        renewed
    }

    /// Ends it: the effect took place. The result, and the rows that `w` writes, are recorded
    /// with the id in one commit; later calls answer `Duplicate` with the result, for the scope's
    /// retention from now.
    ///
    /// # Errors
    /// `LeaseLost`; `Invalid` if a condition of the writes did not hold, or the result is longer
    /// than the policy's `result_bytes_max`: then the claim is as it was. As
    /// [`Scope::insert`](crate::Scope::insert) otherwise. Acknowledge a message only after `Ok`.
    pub fn complete(
        &mut self,
        result: impl AsRef<[u8]>,
        w: impl FnOnce(&mut Writes<'_>),
    ) -> Result<()> {
        let core = self.scope.shared.core()?;
        let mut draft = self.draft(&core, ClaimOp::Complete(self.lease.nonce));
        draft.end_with(0, result.as_ref(), core.caps);
        w(&mut Writes::new(
            &self.scope.shared,
            &mut draft,
            core.caps,
            (0, When::First),
        ));
        self.end(&core, &mut draft)
    }

    /// Ends the attempt without its effect; `result` says why. A permanent failure's is replayed
    /// to later calls, a retryable one's last is in the dead letter.
    ///
    /// # Errors
    /// As [`Claim::complete`].
    pub fn fail(&mut self, how: Failure, result: impl AsRef<[u8]>) -> Result<()> {
        let op = match how {
            Failure::Retryable => ClaimOp::Retry(self.lease.nonce),
            Failure::Permanent => ClaimOp::Fail(self.lease.nonce),
        };
        let core = self.scope.shared.core()?;
        let mut draft = self.draft(&core, op);
        draft.end_with(0, result.as_ref(), core.caps);
        self.end(&core, &mut draft)
    }

    /// Gives the id back at once: nothing was begun. The attempt stays counted.
    ///
    /// # Errors
    /// As [`Claim::complete`].
    pub fn release(&mut self) -> Result<()> {
        let core = self.scope.shared.core()?;
        let mut draft = self.draft(&core, ClaimOp::Release(self.lease.nonce));
        self.end(&core, &mut draft)
    }

    /// Nobody knows whether the effect took place: a timeout, a connection that broke. The policy
    /// says what becomes of the id ([`Policy::on_unknown`](crate::Policy::on_unknown)).
    ///
    /// # Errors
    /// As [`Claim::complete`].
    pub fn outcome_unknown(&mut self, why: &str) -> Result<()> {
        let op = ClaimOp::Unknown(self.lease.nonce, why.to_string());
        let core = self.scope.shared.core()?;
        let mut draft = self.draft(&core, op);
        self.end(&core, &mut draft)
    }

    fn draft(&self, core: &Core, op: ClaimOp) -> Draft {
        let mut draft = Draft::default();
        let op = self.lease.op(op);
        self.lease
            .add_to(&mut draft, &self.lease.used, op, core.caps);
        draft
    }

    fn end(&self, core: &Core, draft: &mut Draft) -> Result<()> {
        let verdicts = core.committer.commit_claim(draft, self.level)?;
        let ended = owned(verdicts.into_iter().next());
        self.note(&ended);
        if ended.is_ok() {
            self.lease.is_over.store(true, Ordering::Release);
        }
        ended
    }

    fn note(&self, outcome: &Result<()>) {
        if let Err(error) = outcome
            && error.kind() == ErrorKind::LeaseLost
        {
            self.lease.is_lost.store(true, Ordering::Release);
        }
    }

    /// For a batch that completes it.
    pub(crate) fn lease(&self) -> (&Scope, &Arc<Lease>) {
        (&self.scope, &self.lease)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let is_over = self.lease.is_over.load(Ordering::Acquire);
        if self.is_started || is_over || self.lease.is_lost.load(Ordering::Acquire) {
            return;
        }
        match self.release() {
            // A batch may have completed it.
            Ok(()) => {}
            Err(e) if matches!(e.kind(), ErrorKind::Closed | ErrorKind::LeaseLost) => {}
            Err(error) => log::warn!("a claim was not released, its lease runs out: {error}"),
        }
    }
}

/// A scope as its claims use it: waiting for an id is for those who ask for it, not for who has it.
fn patient(scope: &Scope) -> ScopeUse {
    let mut policy = (*scope.used.policy).clone();
    policy.wait = None;
    ScopeUse {
        policy: Arc::new(policy),
        ..scope.used.clone()
    }
}

/// A claim as it is listed; see [`Scope::claims`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClaimEntry {
    /// The id.
    pub id: Vec<u8>,
    /// `Claimed`, `Waiting` or `OutcomeUnknown`.
    pub state: IdState,
    /// The attempt that it is at, or was.
    pub attempt: u32,
    /// When the id was first claimed, by the store's clock.
    pub first_seen_at: SystemTime,
    /// What is left of the lease, or of the rest after a failed attempt; zero: the next call
    /// gets the next attempt.
    pub left: Duration,
    /// Whether it is of an earlier run of the store, whose process is gone.
    pub is_of_dead_run: bool,
    /// Why the last attempt failed, or its outcome is unknown.
    pub why: String,
    /// Where the payload can be read again ([`Id::reference`]).
    pub reference: Vec<u8>,
    /// Its token, to end it with [`Scope::reclaim`].
    pub token: Token,
}

impl ClaimEntry {
    pub(crate) fn new(
        id: Vec<u8>,
        entry: &Entry,
        mono_ms: u64,
        is_of_dead_run: bool,
    ) -> ClaimEntry {
        let row = &entry.row;
        let state = match row.phase {
            Phase::Held => IdState::Claimed,
            Phase::Free => IdState::Waiting,
            Phase::Unknown => IdState::OutcomeUnknown,
        };
        ClaimEntry {
            state,
            attempt: row.attempt,
            first_seen_at: UNIX_EPOCH + Duration::from_millis(row.first_ms),
            left: Duration::from_millis(entry.until_mono_ms.saturating_sub(mono_ms)),
            is_of_dead_run: is_of_dead_run && row.phase == Phase::Held,
            why: row.why.clone(),
            reference: row.reference.clone(),
            token: Token {
                id: id.clone().into(),
                nonce: row.nonce,
            },
            id,
        }
    }
}

const _: fn() = || {
    fn owned<T: Send + Sync + 'static>() {}
    owned::<Claim>();
    owned::<Token>();
};
