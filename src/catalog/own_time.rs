//! Scopes whose ids carry their own time: what of that is stored, and their one class.
//!
//! - O1: such a scope's form, skew, retention and class never change, so that the place of an id's
//!   record follows from the id alone.
//!
//! Why the class is stored: which class a retention may share depends on those there are, and
//! would be another one after a shorter retention came.

use crate::clock::millis;
use crate::error::{Error, Result};
use crate::id_time::OwnTime;
use crate::index::Class;
use crate::policy::Policy;

use super::{Catalog, ScopeState};

impl ScopeState {
    /// Whether its ids carry their time, if at all, as a policy says.
    pub(super) fn has_time_of(&self, policy: &Policy) -> bool {
        let ahead_ms = millis(policy.ahead_max);
        match (self.own_time, policy.id_time) {
            (None, None) => true,
            (Some(own), Some(form)) => own.form == form && own.ahead_ms == ahead_ms,
            _ => false,
        }
    }
}

impl Catalog {
    /// The class of a new scope, and how its ids carry their time.
    pub(super) fn own_class(&self, policy: &Policy) -> Result<(u8, Option<OwnTime>)> {
        let (Some(form), Some(ms)) = (policy.id_time, policy.retention.longest_ms()) else {
            return Ok((self.class_of(&policy.retention)?, None));
        };
        let ahead_ms = millis(policy.ahead_max);
        // As many slices live at once as there are between the latest and the earliest expiry.
        let class = self.class(ms.saturating_add(ahead_ms))?;
        self.index.classes.note(class, ms);
        let own = OwnTime {
            form,
            ahead_ms,
            class: class.number,
        };
        Ok((class.number, Some(own)))
    }

    /// Where a scope's records of a retention go. That of ids with their own time is one for life.
    pub(crate) fn class_for(&self, scope: &ScopeState, retention_ms: u64) -> Result<Class> {
        match scope.own_time {
            None => self.allow_class(scope, retention_ms),
            Some(own) => self.index.classes.get(own.class).ok_or_else(|| {
                Error::damaged(format!("the class of scope {:?} is gone", scope.name))
            }),
        }
    }
}

pub(super) fn other_time(name: &str) -> Error {
    Error::invalid(format!(
        "scope {name:?} has its ids' own times otherwise (`id_time`, `ahead_max`), which can't \
         change; make a new scope"
    ))
}
