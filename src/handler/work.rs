//! Handling a message whose effect lies outside the store: a claim around it.
//!
//! Begin, the effect, end: two commits, with the effect between them and nothing held but the
//! claim. [`Handler::perform`] does all three on one thread; async code awaits the effect between
//! [`Handler::begin`] and [`Work::end`].

use crate::batch::{Batch, Writes};
use crate::claim::{Claim, Failure, Token};
use crate::commit::{ClaimOp, check_id};
use crate::error::{Error, ErrorKind, Result};
use crate::options::Durability;
use crate::policy::OnUnknown;
use crate::store::Core;
use crate::verdict::{Action, Sighting, Verdict};

use super::failure::{FailureKind, HandlerError};
use super::handled::{Handled, is_misuse};
use super::message::{Message, Source};
use super::point::Point;
use super::{Handler, PAUSE_MIN};

/// What a message's beginning came to; see [`Handler::begin`].
#[must_use = "work that is dropped leaves its lease to run out"]
#[derive(Debug)]
pub enum Begun {
    /// The effect is this message's: make it, then [`Work::end`].
    Work(Work),
    /// There is nothing to do.
    Handled(Handled),
}

/// The effect of one message, to be made and ended.
///
/// `Send`, owned. Dropped without an end its lease runs out: what was begun may have happened.
#[must_use = "work that is dropped leaves its lease to run out"]
pub struct Work {
    handler: Handler,
    /// None if the store had failed with this, and the scope is open.
    claim: Result<Claim>,
    /// What the scope would have answered, had it not only observed.
    instead: Option<Box<Verdict>>,
    /// The id's item, which the rows are of.
    batch: Box<Batch>,
    result: Vec<u8>,
    has_writes: bool,
    payload: Box<[u8]>,
    has_id: bool,
    point: Option<Point>,
}

impl std::fmt::Debug for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Work")
            .field("attempt", &self.attempt())
            .field("is_guarded", &self.is_guarded())
            .finish_non_exhaustive()
    }
}

/// How often a completion is tried that the store is too busy for: its effect has happened.
const COMPLETIONS_MAX: u32 = 3;

impl Handler {
    /// Handles a message whose effect lies outside the store, once for each claim of its id:
    /// [`Scope::claim`](crate::Scope::claim), the effect, its end, then the action.
    ///
    /// The claim is started (and renews itself) before the closure runs. What the closure gave
    /// [`Work`] to keep, the id and the source's resume point are one commit. An error from it is
    /// classified ([`HandlerError`]). A panic goes through and leaves the lease to run out.
    ///
    /// If the store fails before the effect, the scope's
    /// [`OnStoreError`](crate::OnStoreError) decides: `Closed` answers `Retry` or `Stop`, `Open`
    /// makes the effect without a claim. If it fails after it, what has happened is not known to
    /// the store: `Closed` answers `Retry` or `Stop`, and the next attempt begins when the lease
    /// has run out; `Open` answers `Proceed` if there were neither rows nor a result to keep.
    pub fn perform<T, E: HandlerError>(
        &self,
        message: Message<'_>,
        run: impl FnOnce(&mut Work) -> Result<T, E>,
    ) -> Handled<T, E> {
        match self.begin(message) {
            Begun::Handled(handled) => handled.cast(),
            Begun::Work(mut work) => {
                let ran = run(&mut work);
                work.end(ran)
            }
        }
    }

    /// Begins a message whose effect lies outside the store, as [`Handler::perform`] does.
    ///
    /// ```
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// use firstseen::{days, Action, Begun, Failed, Message, Options, Policy, Source, Store};
    /// let store = Store::open(dir.path(), Options::new())?;
    /// let mails = store.scope("mails", Policy::remember(days(7)))?.handler(Source::AckOnce);
    /// let Begun::Work(mut work) = mails.begin(Message::new("mail-1")) else { panic!() };
    /// // The mail is sent here; async code awaits that.
    /// work.result("250 OK");
    /// assert_eq!(work.end(Ok::<_, Failed>(())).action(), Action::Proceed);
    /// let Begun::Handled(again) = mails.begin(Message::new("mail-1")) else { panic!() };
    /// assert_eq!(again.action(), Action::Ack);
    /// # Ok(()) }
    /// ```
    pub fn begin(&self, message: Message<'_>) -> Begun {
        match self.try_begin(&message) {
            Ok(begun) => begun,
            Err(error) if self.scope.used.state.switches.is_open() && !is_misuse(&error) => {
                self.begin_open(&message, error)
            }
            Err(error) => Begun::Handled(Handled::unstored(error, self.pause)),
        }
    }

    fn try_begin(&self, message: &Message<'_>) -> Result<Begun> {
        message.check(self.source)?;
        let core = self.scope.shared.core()?;
        let point = Point::of(&core, message)?;
        let id = message.id(self.scope.used.policy.payloads);
        let (mut claim, instead) = match self.scope.claim(id)? {
            Verdict::First(claim) => (claim, None),
            Verdict::Observed(claim, instead) => (claim, Some(instead)),
            verdict => {
                let verdict = verdict.map(|_| unreachable!("no claim comes with it"));
                if verdict.action() == Action::Ack {
                    self.settle(&core, point.as_ref())?;
                }
                return Ok(Begun::Handled(Handled::answered(verdict)));
            }
        };
        let mut batch = self.scope.shared_batch();
        batch.complete(&claim, []);
        claim.start();
        Ok(Begun::Work(self.work(
            message,
            (Ok(claim), instead),
            batch,
            point,
        )))
    }

    /// Begins without a claim.
    fn begin_open(&self, message: &Message<'_>, error: Error) -> Begun {
        let policy = &self.scope.used.policy;
        if let Some(bad) = check_id(&message.id, policy) {
            return Begun::Handled(Handled::answered(Verdict::BadId(bad)));
        }
        self.scope.used.state.switches.count_failed_open();
        let mut batch = self.scope.shared_batch();
        batch.once(&self.scope, message.id(policy.payloads));
        // Its resume point stays: what was made without the store is not behind it.
        Begun::Work(self.work(message, (Err(error), None), batch, None))
    }

    fn work(
        &self,
        message: &Message<'_>,
        (claim, instead): (Result<Claim>, Option<Box<Verdict>>),
        batch: Batch,
        point: Option<Point>,
    ) -> Work {
        Work {
            handler: self.clone(),
            claim,
            instead,
            batch: Box::new(batch),
            result: Vec::new(),
            has_writes: false,
            payload: message.payload.into(),
            has_id: check_id(&message.id, &self.scope.used.policy).is_none(),
            point,
        }
    }

    /// What an acknowledged message needs that no commit of its own was made for.
    fn settle(&self, core: &Core, point: Option<&Point>) -> Result<()> {
        if let Some(point) = point {
            point.advance(&self.scope, core.durability)?;
        }
        if self.source == Source::AckOnce && core.claims_durability < Durability::Synced {
            core.committer.sync()?;
        }
        Ok(())
    }
}

impl Work {
    /// Which attempt at the id this is, from 1; 1 also where the store can't say.
    #[must_use]
    pub fn attempt(&self) -> u32 {
        self.claim.as_ref().map_or(1, Claim::attempt)
    }

    /// What the claim is known by elsewhere; `None` without a claim.
    #[must_use]
    pub fn token(&self) -> Option<Token> {
        self.claim.as_ref().ok().map(Claim::token)
    }

    /// Whether it has a claim, or was let through by a scope that only observes. If not, the store
    /// had failed and the scope is open: the effect may happen twice.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.claim.is_ok()
    }

    /// Whether the claim was taken over, or may be at any moment: see [`Claim::is_lost`].
    #[must_use]
    pub fn is_lost(&self) -> bool {
        self.claim.as_ref().is_ok_and(Claim::is_lost)
    }

    /// Rows to be written with the end of the claim, if the effect took place. Their conditions are
    /// asked then; one that does not hold, without an `if_refused`, leaves the outcome unknown, as
    /// the effect was made.
    pub fn writes(&mut self) -> Writes<'_> {
        self.has_writes = true;
        self.batch.item(0)
    }

    /// The result that duplicates are answered with; see [`Claim::complete`].
    pub fn result(&mut self, bytes: impl AsRef<[u8]>) -> &mut Work {
        self.result = bytes.as_ref().to_vec();
        self
    }

    /// Ends it with what became of the effect.
    pub fn end<T, E: HandlerError>(self, ran: Result<T, E>) -> Handled<T, E> {
        match (&self.claim, ran) {
            (Ok(_), Ok(value)) => self.complete(value),
            (Ok(_), Err(failure)) => self.fail(failure),
            (Err(_), Ok(value)) => self.complete_open(value),
            (Err(_), Err(failure)) => self.fail_open(failure),
        }
    }

    fn level(&self) -> Durability {
        let own = self.handler.scope.shared.options.claims_durability;
        self.handler.level(own.max(Durability::Written))
    }

    /// The commit that ends it; its verdict. What may pass is tried again.
    fn commit(&mut self) -> Result<Verdict> {
        if let Some(point) = &self.point {
            self.batch.resume_at(point.source(), point.next().clone());
        }
        let level = self.level();
        self.batch.durability(level);
        let mut left = COMPLETIONS_MAX;
        loop {
            left -= 1;
            match self.batch.commit() {
                Ok(verdicts) => return verdicts.into_iter().next().ok_or_else(Error::closed),
                Err(error) if error.is_retryable() && left > 0 => {}
                Err(error) if error.kind() == ErrorKind::Invalid && self.is_overtaken()? => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether somebody else has moved the resume point further; then it stays there.
    fn is_overtaken(&mut self) -> Result<bool> {
        let Some(point) = &self.point else {
            return Ok(false);
        };
        if point.is_ahead(&*self.batch.shared.core()?)? {
            return Ok(false);
        }
        self.point = None;
        self.batch.draft.points.clear();
        Ok(true)
    }

    fn complete<T, E>(mut self, value: T) -> Handled<T, E> {
        let caps = self.batch.shared.caps;
        self.batch.draft.end_with(0, &self.result, caps);
        let verdict = match self.commit() {
            Ok(verdict) => verdict,
            Err(error) => return self.unrecorded(value, error),
        };
        match (verdict, self.instead.take()) {
            (Verdict::First(()), None) => Handled::answered(Verdict::First(value)),
            (Verdict::First(()), Some(instead)) => {
                Handled::answered(Verdict::Observed(value, instead))
            }
            (Verdict::Refused(refusal), None) if !refusal.is_settled() => {
                // The effect was made, its rows were not: somebody has to look.
                let why = "the effect was made, but a condition of its rows did not hold";
                self.unknown(why, None)
            }
            (verdict, _) => {
                Handled::answered(verdict.map(|()| unreachable!("no value comes with it")))
            }
        }
    }

    /// The effect was made, and the store could not be told.
    fn unrecorded<T, E>(mut self, value: T, error: Error) -> Handled<T, E> {
        let switches = &self.handler.scope.used.state.switches;
        let keeps_nothing = !self.has_writes && self.result.is_empty();
        if switches.is_open() && keeps_nothing && !is_misuse(&error) {
            switches.count_failed_open();
            return Handled::answered(Verdict::First(value)).unguarded(error);
        }
        if let (true, Ok(claim)) = (is_misuse(&error), &mut self.claim) {
            // It would fail again, and the effect would be made again: somebody has to look.
            let _ = claim.outcome_unknown(&format!("the effect was made, but: {error}"));
        }
        Handled::unstored(error, self.handler.pause)
    }

    fn fail<T, E: HandlerError>(mut self, failure: E) -> Handled<T, E> {
        let kind = failure.failure_kind();
        let text = self.handler.result_of(&failure);
        let ended = match (kind, &mut self.claim) {
            (FailureKind::Unknown, _) => return self.unknown(&text, Some(failure)),
            (FailureKind::Poison, _) if !self.has_id => {
                return Handled::failed(failure, Action::DeadLetter);
            }
            (FailureKind::Poison | FailureKind::Permanent, _) => {
                self.give_up(kind, &failure.to_string(), &text)
            }
            (FailureKind::Stop, Ok(claim)) => claim.release(),
            (_, Ok(claim)) => claim.fail(Failure::Retryable, &text),
            (_, Err(error)) => Err(error.copy()),
        };
        let action = self.handler.again(kind).unwrap_or(Action::Ack);
        match (ended, action) {
            // Whoever stops stops, and leaves the lease to run out.
            (Ok(()), _) | (_, Action::Stop) => Handled::failed(failure, action),
            (Err(error), _) => {
                Handled::unstored(error, self.handler.pause).with_failure(Some(failure))
            }
        }
    }

    /// Records that no attempt will succeed, in one commit with the resume point.
    fn give_up(&mut self, kind: FailureKind, why: &str, result: &str) -> Result<()> {
        let Ok(claim) = &self.claim else {
            return Err(Error::closed());
        };
        let mut batch = self.handler.scope.shared_batch();
        if kind == FailureKind::Poison {
            batch.complete(claim, []).dead_letter(why, &self.payload);
        } else {
            batch.end_claim(claim, ClaimOp::Fail, result.as_bytes());
        }
        *self.batch = batch;
        match self.commit()? {
            Verdict::LeaseLost => Err(Error::new(
                ErrorKind::LeaseLost,
                "the claim was taken over, ended or forgotten",
            )),
            _ => Ok(()),
        }
    }

    /// Nobody knows whether the effect took place, or it did and can't be recorded.
    fn unknown<T, E>(mut self, why: &str, failure: Option<E>) -> Handled<T, E> {
        let noted = match &mut self.claim {
            Ok(claim) => claim.outcome_unknown(why),
            Err(error) => Err(error.copy()),
        };
        let waits = self.handler.scope.used.policy.on_unknown == OnUnknown::Hold;
        let again = self.handler.backoff();
        let action = match waits && self.instead.is_none() {
            true => Verdict::<()>::OutcomeUnknown(Sighting::new(0, None)).action(),
            false => Action::Retry(again),
        };
        let handled = match noted {
            Ok(()) => Handled {
                action,
                verdict: None,
                failure: None,
                error: None,
                is_unguarded: false,
            },
            Err(error) => Handled::unstored(error, self.handler.pause),
        };
        handled.with_failure(failure)
    }

    /// Records what was made without a claim, if the store can do that again.
    fn complete_open<T, E>(mut self, value: T) -> Handled<T, E> {
        let keeps = self.has_writes || !self.result.is_empty();
        let before = self
            .claim
            .as_ref()
            .err()
            .map_or_else(Error::closed, Error::copy);
        if !self.result.is_empty() {
            let caps = self.batch.shared.caps;
            self.batch.draft.end_with(0, &self.result, caps);
        }
        let handled = match self.commit() {
            Ok(Verdict::First(())) => Handled::answered(Verdict::First(value)),
            Ok(Verdict::Observed((), instead)) => {
                Handled::answered(Verdict::Observed(value, instead))
            }
            // Its original has all there is to keep; else nothing is to be kept.
            Ok(Verdict::Duplicate(_)) => Handled::answered(Verdict::First(value)),
            Ok(_) if !keeps => Handled::answered(Verdict::First(value)),
            Ok(other) => {
                let mut handled =
                    Handled::answered(other.map(|()| unreachable!("no value comes with it")));
                if handled.action == Action::Ack {
                    // Its rows are nowhere.
                    handled.action = Action::Retry(self.handler.pause);
                }
                handled
            }
            Err(_) if !keeps => Handled::answered(Verdict::First(value)),
            Err(error) => return Handled::unstored(error, self.handler.pause).unguarded(before),
        };
        handled.unguarded(before)
    }

    fn fail_open<T, E: HandlerError>(self, failure: E) -> Handled<T, E> {
        let kind = failure.failure_kind();
        let action = match (self.handler.again(kind), kind) {
            (Some(action), _) => action,
            // The store keeps no dead letter now: the caller has to.
            (None, FailureKind::Poison) => Action::DeadLetter,
            (None, _) => Action::Ack,
        };
        let before = self
            .claim
            .as_ref()
            .err()
            .map_or_else(Error::closed, Error::copy);
        Handled::failed(failure, action).unguarded(before)
    }
}

const _: () = assert!(PAUSE_MIN.as_millis() > 0);
