//! What a record says of its id, under the retentions that its scope has had.

use crate::index::{Ended, Extras, Hit};
use crate::policy::Retention;
use crate::verdict::{Extra, IdState, Sighting};

pub(super) fn first_seen_ms(hit: &Hit, extras: &Extras<'_>, versions: &[Retention]) -> u64 {
    let version = usize::from(hit.meta.stamp.version);
    let retention_ms = versions
        .get(version)
        .and_then(Retention::longest_ms)
        .unwrap_or(0);
    extras
        .first_seen_ms
        .unwrap_or(hit.meta.expiry_ms.saturating_sub(retention_ms))
}

/// How an id ended, as callers are told.
pub(super) fn id_state(ended: Ended) -> IdState {
    match ended {
        Ended::Done => IdState::Done,
        Ended::Failed => IdState::Failed,
        Ended::Dead => IdState::DeadLettered,
    }
}

/// What a record says of its id.
pub(crate) fn sighting(hit: &Hit, versions: &[Retention]) -> Sighting {
    let extras = Extras::decode(hit.extras.as_deref().unwrap_or_default());
    let first_ms = first_seen_ms(hit, &extras, versions);
    if hit.extras.is_none() {
        return Sighting::new(first_ms, None);
    }
    let extra = Extra {
        source: extras.source.map(Box::from),
        refused: extras.refused,
        result: extras.result.map(Box::from),
        state: id_state(extras.ended),
        attempt: extras.attempt,
        is_dropped: false,
    };
    Sighting::new(first_ms, Some(extra))
}
