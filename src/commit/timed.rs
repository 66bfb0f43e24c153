//! Ids that carry their own time, on the way of a commit: where their records are, and which are
//! late.
//!
//! - W7: such an id is remembered until its own time plus the retention, to the millisecond. From
//!   then on it is late for good: effective time never goes below what removed its record.
//! - W8: what is known of an id decides first: a claim or a record that stands makes no id late.
//! - W9: a late id that is processed all the same leaves no record. The generation it would be in
//!   is gone or going, and a record elsewhere would not be found where the id says it is.

use crate::error::{Error, Result};
use crate::id::Id;
use crate::id_time::{IdTime, OnLate};
use crate::index::{Class, Extras, FOR_EVER_MS, Slice};
use crate::policy::Retention;
use crate::verdict::{BadId, Extra, Sighting, Verdict};

use super::Committer;
use super::draft::Draft;
use super::item::{Item, ItemTime, ScopeUse};
use super::settle::Settling;

/// When an id of a time is new again, or rather late.
fn own_expiry(own_ms: u64, retention_ms: u64) -> u64 {
    own_ms.saturating_add(retention_ms).min(FOR_EVER_MS - 1)
}

impl ScopeUse {
    fn retention_ms(&self) -> u64 {
        let versions = self.state.versions();
        let in_force = versions.last().and_then(Retention::longest_ms);
        in_force.unwrap_or(FOR_EVER_MS)
    }
}

impl Draft {
    /// What an id says of its time, or that it lacks one.
    pub(super) fn item_time(&mut self, id: &Id<'_>, scope: &ScopeUse) -> Result<ItemTime, BadId> {
        let form = scope.state.own_time.map(|own| own.form);
        if id.event_ms.is_some() && form != Some(IdTime::Given) {
            self.fail(Error::invalid(
                "an id has an event time, but those of its scope are not given (`IdTime::Given`)",
            ));
        }
        let Some(form) = form else {
            let remember = self.check_remember(id, &scope.policy);
            return Ok(remember.map_or(ItemTime::Scope, ItemTime::Remember));
        };
        if id.remember.is_some() {
            self.fail(Error::invalid(
                "an id has a retention, but those of its scope carry their own time",
            ));
        }
        match form {
            IdTime::Given if id.is_timeless => Ok(ItemTime::Scope),
            IdTime::Given => id.event_ms.map(ItemTime::Own).ok_or(BadId::NoTime),
            form => {
                let read = id.bytes.and_then(|bytes| form.read(bytes));
                read.map(ItemTime::Own).ok_or(BadId::NoTime)
            }
        }
    }

    /// The own time of an id that only its message tells.
    pub(super) fn given_ms(&self, item: &Item) -> Option<u64> {
        let own = self.scopes[item.scope as usize].state.own_time?;
        item.own_ms().filter(|_| own.form == IdTime::Given)
    }

    /// By how much an id's own time is ahead, if that is more than its scope allows.
    pub(super) fn ahead_ms(&self, item: &Item, now_ms: u64) -> Option<u64> {
        let own_ms = item.own_ms()?;
        let own = self.scopes[item.scope as usize].state.own_time?;
        let ahead_ms = own_ms.saturating_sub(now_ms);
        (ahead_ms > own.ahead_ms).then_some(ahead_ms)
    }

    /// Whether an id is older than its scope's window.
    fn is_late(&self, item: &Item, now_ms: u64) -> bool {
        let scope = |own_ms| (own_ms, self.scopes[item.scope as usize].retention_ms());
        let own = item.own_ms().map(scope);
        own.is_some_and(|(own_ms, retention_ms)| own_expiry(own_ms, retention_ms) <= now_ms)
    }

    /// Whether a message that is processed leaves no record of an id: it has none, or it is late.
    /// The end of a claim is no message.
    pub(super) fn is_unrecorded(&self, item: &Item, now_ms: u64) -> bool {
        let is_claims = self.more(item).is_some_and(|more| more.claim.is_some());
        item.is_unkeyed || !is_claims && self.is_late(item, now_ms)
    }
}

impl Settling<'_, '_> {
    /// The verdict of an id that nothing is known of, if its own time keeps it out.
    pub(super) fn untimely(&self, item: &Item) -> Option<Verdict> {
        let (own_ms, now_ms) = (item.own_ms()?, self.decision.now_ms);
        if let Some(ms) = self.draft.ahead_ms(item, now_ms) {
            let secs = u32::try_from(ms.div_ceil(1000)).unwrap_or(u32::MAX);
            return Some(Verdict::BadId(BadId::TooFarAhead { secs }));
        }
        if !self.draft.is_late(item, now_ms) {
            return None;
        }
        let is_dropped = match self.policy(item).on_late {
            OnLate::Process => return None,
            OnLate::Drop => true,
            OnLate::Refuse => false,
        };
        let extra = Extra {
            is_dropped,
            ..Extra::default()
        };
        Some(Verdict::Late(Sighting::new(own_ms, Some(extra))))
    }

    /// When an id with its own time is late: its message's, or that of its claim.
    pub(super) fn own_expiry_ms(&self, item: &Item, claim: Option<&Extras<'_>>) -> Option<u64> {
        let scope = &self.draft.scopes[item.scope as usize];
        scope.state.own_time?;
        let own_ms = item.own_ms().or(claim.and_then(|kept| kept.event_ms));
        let own_ms = own_ms.unwrap_or(self.decision.now_ms);
        Some(own_expiry(own_ms, scope.retention_ms()))
    }
}

/// Where the records of a scope's ids are.
struct Route {
    form: IdTime,
    retention_ms: u64,
    class: Class,
}

/// Those of a draft's scopes; empty if none has ids with their own time, as mostly.
pub(super) struct Routes(Vec<Option<Route>>);

impl Routes {
    /// The one place of an id's record, if the id tells it.
    #[inline]
    pub(super) fn only(&self, scope: u32, id: &[u8]) -> Option<Slice> {
        let route = self.0.get(scope as usize)?.as_ref()?;
        let own_ms = route.form.read(id)?;
        Some(route.class.slice(own_expiry(own_ms, route.retention_ms)))
    }
}

impl Committer {
    pub(super) fn routes(&self, draft: &Draft) -> Result<Routes> {
        if draft.scopes.iter().all(|s| s.state.own_time.is_none()) {
            return Ok(Routes(Vec::new()));
        }
        let routes = draft.scopes.iter().map(|scope| {
            let Some(own) = scope.state.own_time else {
                return Ok(None);
            };
            let retention_ms = scope.retention_ms();
            let class = self.catalog.class_for(&scope.state, retention_ms)?;
            Ok(Some(Route {
                form: own.form,
                retention_ms,
                class,
            }))
        });
        Ok(Routes(routes.collect::<Result<_>>()?))
    }
}
