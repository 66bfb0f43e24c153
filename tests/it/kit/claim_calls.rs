//! The runner's claims. A claim is left to its lease and known by its token only, as by a
//! process that goes on elsewhere; each later step makes a handle of the token.

use firstseen::{Decided, Failure, Token};

use super::calls::with_writes;
use super::draft::own;
use super::op::{Deciding, Ending, Item, Name, SCOPES};
use super::runner::{Called, Runner};
use super::said::{Said, list};

impl Runner<'_> {
    pub(super) fn claim(&mut self, scope: usize, item: &Item) -> Called<String> {
        let verdict = self.with_id(scope, item, |id| self.scopes[scope].claim(id))?;
        let said = Said::of(&verdict, self.start);
        if let Some(mut claim) = verdict.first() {
            claim.start();
            let key = (scope, own(item).unwrap_or_default());
            self.tokens.entry(key).or_default().push(claim.token());
        }
        Ok(list(&[said]))
    }

    pub(super) fn end(
        &mut self,
        scope: usize,
        name: Name,
        stale: bool,
        how: &Ending,
    ) -> Called<String> {
        self.held = None;
        let key = (scope, own(&Item::plain(name)).unwrap_or_default());
        let tokens = self.tokens.get(&key).map_or(&[][..], |t| t);
        let Some(token) = tokens.iter().rev().nth(usize::from(stale)) else {
            return Ok("no token".to_string());
        };
        // As bytes, as they are kept elsewhere.
        let token = Token::from_bytes(&token.to_bytes())?;
        let mut claim = self.scopes[scope].reclaim(&token)?;
        match how {
            Ending::Complete(writes, result) => {
                claim.complete([*result], |w| with_writes(self, w, writes))?;
            }
            Ending::Retry => claim.fail(Failure::Retryable, "a test")?,
            Ending::Fail(result) => claim.fail(Failure::Permanent, [*result])?,
            Ending::Release => claim.release()?,
            Ending::Unknown => claim.outcome_unknown("a test")?,
            Ending::Renew => claim.renew()?,
        }
        Ok("done".to_string())
    }

    pub(super) fn redrive(&mut self, scope: usize, name: Name) -> Called<String> {
        self.held = None;
        let item = Item::plain(name);
        let done = self.with_id(scope, &item, |id| self.scopes[scope].redrive(id, "a test"));
        Ok(done?.to_string())
    }

    pub(super) fn purge(&mut self, scope: usize, name: Name) -> Called<String> {
        self.held = None;
        let item = Item::plain(name);
        let done = self.with_id(scope, &item, |id| self.scopes[scope].purge(id, "a test"));
        Ok(done?.to_string())
    }

    pub(super) fn decide(&mut self, scope: usize, name: Name, what: Deciding) -> Called<String> {
        self.held = None;
        let what = match what {
            Deciding::Done => Decided::Done,
            Deciding::Failed => Decided::Failed,
            Deciding::Retry => Decided::Retry,
        };
        let item = Item::plain(name);
        let done = self.with_id(scope, &item, |id| {
            self.scopes[scope].decide(id, what, "a test")
        });
        Ok(done?.to_string())
    }

    /// All claims and dead letters, as text.
    pub(super) fn claims_told(&self) -> Called<String> {
        let mut told = Vec::new();
        for scope in 0..SCOPES.len() {
            for claim in self.scopes[scope].claims()? {
                let state = super::said::state(claim.state);
                let (id, left) = (claim.id.escape_ascii(), claim.left.as_millis());
                told.push(format!("{scope} {id} {state} {} {left}", claim.attempt));
            }
        }
        for scope in 0..SCOPES.len() {
            for letter in self.scopes[scope].dead_letters()? {
                let letter = letter?;
                let id = letter.id.escape_ascii();
                told.push(format!("{scope} {id} dead {}", letter.attempts));
            }
        }
        Ok(told.join("; "))
    }
}
