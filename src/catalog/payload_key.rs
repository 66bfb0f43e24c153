//! The key of a scope's fingerprints: the store's own, or one that the scope was made with, so
//! that fingerprints of another store can be compared with payloads here.
//!
//! It never changes: records that were made under another key would differ from every payload.

use crate::error::{Error, Result};
use crate::index::{Fingerprint, IdHash, fingerprint};
use crate::policy::Policy;

use super::ScopeState;

impl ScopeState {
    pub(crate) fn payload_key(&self, ids: &IdHash) -> u64 {
        let own = self.payload_key;
        own.unwrap_or_else(|| ids.payload_key(self.number))
    }

    /// The fingerprint of a message's payload.
    pub(crate) fn fingerprint(&self, ids: &IdHash, body: &[u8]) -> Fingerprint {
        fingerprint(self.payload_key(ids), body)
    }

    pub(super) fn check_payload_key(&self, policy: &Policy, ids: &IdHash) -> Result<()> {
        match policy.payload_key {
            Some(key) if key != self.payload_key(ids) => Err(Error::invalid(format!(
                "scope {:?} has another payload key, which can't change; make a new scope",
                self.name
            ))),
            _ => Ok(()),
        }
    }
}
