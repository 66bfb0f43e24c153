//! What a call wants of an id's claim, as part of a draft's item.
//!
//! Each is settled like any other item, under the hold of its id and in the item's one commit, so
//! a nonce is compared with the claim as the last commit left it, at the time of the write.

use crate::catalog::ScopeState;
use crate::claims::{Change, Nonce};
use crate::error::{Error, Result};
use crate::id::Id;
use crate::why::Grounds;

use super::Committer;
use super::draft::{Draft, DraftCaps};
use super::item::ScopeUse;
use super::write::{Bytes, When};

/// What is wanted. The verdict of what a nonce doesn't allow is `LeaseLost`, and so is that of
/// a call by hand that finds nothing to do; of all else but `Take` it is `First`.
#[derive(Clone, Debug)]
pub(crate) enum ClaimOp {
    Take,
    Renew(Nonce),
    Complete(Nonce),
    /// The attempt failed; another one may be made.
    Retry(Nonce),
    /// The id failed for good.
    Fail(Nonce),
    Release(Nonce),
    Unknown(Nonce, String),
    /// By hand, with the reason.
    Redrive(Grounds),
    Purge(Grounds),
    Decide(Settlement, Grounds),
    /// The writes of work that was done without a claim of the id: by a scope that only observes.
    Unclaimed,
}

/// What a decision by hand makes of an unknown outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Settlement {
    Done,
    Failed,
    Retry,
}

impl Settlement {
    /// As the audit says it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Settlement::Done => "done",
            Settlement::Failed => "failed",
            Settlement::Retry => "retry",
        }
    }
}

/// A message that is given up with its item.
#[derive(Clone, Debug)]
pub(crate) struct DeadWrite {
    pub(crate) why: Bytes,
    pub(crate) payload: Bytes,
}

/// The longest reason and reference that are kept, in bytes.
pub(crate) const TEXT_BYTES_MAX: usize = 1_024;

/// A text cut to its limit at a character's border.
pub(crate) fn shortened(text: &str) -> &str {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

impl Draft {
    /// Adds an item that is about an id's claim.
    pub(crate) fn add_claim(
        &mut self,
        scope: &ScopeUse,
        id: &Id<'_>,
        op: ClaimOp,
        caps: DraftCaps,
    ) -> u32 {
        let id = match op {
            ClaimOp::Take => *id,
            _ => id.timeless(),
        };
        let at = self.add_item(scope, &id, caps);
        let reference = id.reference.unwrap_or_default();
        if reference.len() > TEXT_BYTES_MAX {
            let text = format!("a reference has more than {TEXT_BYTES_MAX} bytes");
            self.fail(Error::invalid(text));
        } else if !reference.is_empty() {
            let reference = self.push(reference, caps);
            self.more_mut(at).reference = Some(reference);
        }
        self.more_mut(at).claim = Some(op);
        self.has_claims = true;
        at
    }

    /// What a claim ends with.
    pub(crate) fn end_with(&mut self, item: u32, result: &[u8], caps: DraftCaps) {
        let of = self.items[item as usize].scope as usize;
        if let Err(error) = self.scopes[of].policy.check_claim_result(result) {
            return self.fail(error);
        }
        let result = self.push(result, caps);
        self.more_mut(item).result = Some(result);
    }

    /// Gives an item's message up, or that of its fallback; the last call counts.
    pub(crate) fn set_dead(
        &mut self,
        (item, when): (u32, When),
        (why, payload): (&str, &[u8]),
        caps: DraftCaps,
    ) {
        match self.items.get(item as usize) {
            Some(of) if when != When::Always && !of.is_unkeyed && !of.is_sequence => {}
            _ => {
                let text = "only an item with an id can be dead-lettered";
                return self.fail(Error::invalid(text));
            }
        }
        let why = self.push(shortened(why).as_bytes(), caps);
        let payload = self.push(payload, caps);
        let dead = Some(DeadWrite { why, payload });
        self.has_dead = true;
        let more = self.more_mut(item);
        match when {
            When::Refused => more.refused_dead = dead,
            _ => more.dead = dead,
        }
    }

    /// What a closure's fallback gives its message up with.
    pub(super) fn dead_of_first(&self) -> Option<(String, Vec<u8>)> {
        let dead = self.more(self.items.first()?)?.dead(true)?;
        let why = String::from_utf8_lossy(self.get(&dead.why)).into_owned();
        Some((why, self.get(&dead.payload).to_vec()))
    }

    /// What a closure gave its message up with.
    pub(super) fn keep_dead(&mut self, refused: bool, why: &str, payload: &[u8]) {
        let when = if refused { When::Refused } else { When::First };
        let caps = DraftCaps {
            items: usize::MAX,
            bytes: usize::MAX,
            sources: false,
        };
        self.set_dead((0, when), (why, payload), caps);
    }

    /// What a claim became in the last commit.
    pub(crate) fn changes(&self) -> &[Change] {
        &self.spare.changes
    }
}

impl Committer {
    /// Makes the families that claims of a scope need, before any id is held.
    pub(crate) fn expect_claims(&self, scope: &ScopeState) -> Result<()> {
        if !scope.has_claims() {
            self.make_claim_books()?;
            scope.expect_claims();
        }
        Ok(())
    }
}
