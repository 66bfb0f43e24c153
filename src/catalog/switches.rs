//! The switches of scopes: set by policies and calls, stored for whoever looks from outside.
//!
//! ```text
//! switches/<u16 BE>   flags u8 (1: only observes, 2: open on store errors); absent: 0
//! ```
//! A row is written when it would change. The switch is in force before, and also if that fails:
//! on a store that can't write it is needed most.

use std::sync::Arc;

use crate::engine::Family;
use crate::error::{Error, Result};
use crate::index::Index;
use crate::mode::Switched;
use crate::policy::Policy;
use crate::sync::atomic::Ordering;

use super::{Catalog, ScopeState};

const SWITCHES_PREFIX: &[u8] = b"switches/";

fn key(number: u16) -> Vec<u8> {
    [SWITCHES_PREFIX, &number.to_be_bytes()].concat()
}

/// Each scope's switches as they are stored, by its number.
pub(super) fn read_switches(meta: &Arc<Family>) -> Result<Vec<(u16, Switched)>> {
    let mut all = Vec::new();
    for row in meta.rows(SWITCHES_PREFIX) {
        let (key, value) = row?;
        let Some(number) = key.strip_prefix(SWITCHES_PREFIX) else {
            break;
        };
        let read = match (number.try_into(), value.as_ref()) {
            (Ok(number), [flags]) => Switched::decode(*flags).map(|s| (number, s)),
            _ => None,
        };
        let wrong = || Error::damaged("stored switches of a scope are of an unknown form");
        let (number, switched) = read.ok_or_else(wrong)?;
        all.push((u16::from_be_bytes(number), switched));
    }
    Ok(all)
}

/// Shows whoever only looks how each scope was switched; in all others policies decide.
pub(super) fn show_switches(index: &Index, scopes: &[Arc<ScopeState>]) -> Result<()> {
    for (number, switched) in read_switches(&index.meta)? {
        if let Some(scope) = scopes
            .get(usize::from(number))
            .filter(|_| index.poison.is_reader())
        {
            scope.switches.set(switched);
        }
    }
    Ok(())
}

impl Catalog {
    /// Sets a scope's switches as a policy says that opens it. The first one since the open decides
    /// about what it does not say, too; later ones leave that as it is.
    pub(super) fn switch_by(&self, scope: &ScopeState, policy: &Policy) {
        if self.index.poison.is_reader() {
            return;
        }
        let before = match scope.switches.is_set.swap(true, Ordering::AcqRel) {
            true => scope.switches.now(),
            false => Switched::default(),
        };
        let to = Switched {
            mode: policy.mode.unwrap_or(before.mode),
            on_store_error: policy.on_store_error.unwrap_or(before.on_store_error),
        };
        if let Err(error) = self.set_switches(scope, to) {
            log::warn!(
                "switches of scope {:?} were not stored: {error}",
                scope.name
            );
        }
    }

    /// Sets a scope's switches.
    ///
    /// # Errors
    /// If they could not be stored; they are in force all the same.
    pub(crate) fn switch(
        &self,
        scope: &ScopeState,
        change: impl FnOnce(&mut Switched),
    ) -> Result<()> {
        let _inner = self.inner.lock();
        let mut to = scope.switches.now();
        change(&mut to);
        scope.switches.is_set.store(true, Ordering::Release);
        self.set_switches(scope, to)
    }

    fn set_switches(&self, scope: &ScopeState, to: Switched) -> Result<()> {
        if scope.switches.now() != to {
            log::info!("scope {:?} is switched to {to:?}", scope.name);
        }
        scope.switches.set(to);
        let (key, flags) = (key(scope.number), to.encode());
        let stored = self.index.meta.get(&key)?;
        let stored = stored
            .as_ref()
            .map_or(0, |v| v.first().copied().unwrap_or(0));
        if stored == flags {
            return Ok(());
        }
        self.put((key, vec![flags]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_golden() {
        assert_eq!(key(0x0102), b"switches/\x01\x02");
    }
}
