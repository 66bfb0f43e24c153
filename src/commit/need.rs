//! How much room a commit's records may take in the current segment, whatever its verdicts.
//!
//! Reserved before anything is held, so that the leader never waits. It must be enough in every
//! case: a record that doesn't fit would be written to the log and not into the set. So of an
//! item whose writes may still be added the most that its policy allows counts, and what a
//! prolonged record or one that ends a claim brings along is added when it is known ([`carried`]).

use crate::index::{Extras, SOURCE_BYTES_MAX, words_for_item};
use crate::policy::{Policy, Retention};

use super::decide::Decision;
use super::draft::Draft;
use super::item::Item;

/// Whether a draft's items may still get writes, as those of a held batch or a closure do.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    Open,
    Final,
}

/// Ids and words that the items may take, but for what prolonged records carry on.
pub(super) fn need(draft: &Draft, extent: Extent) -> (usize, usize) {
    if let Some(len) = draft.uniform()
        && draft.scopes[0].policy.retention.is_fixed()
    {
        let count = draft.items.len();
        let extras = match extent {
            Extent::Final => None,
            Extent::Open => Some(Extras::bytes_max(None, result_max(&draft.scopes[0].policy))),
        };
        return (count, count * words_for_item(len, extras));
    }
    let ids = || draft.items.iter().filter(|item| !item.is_sequence);
    let words = ids().map(|item| item_words(draft, item, extent));
    (ids().count(), words.sum())
}

fn result_max(policy: &Policy) -> Option<usize> {
    policy.results.then_some(policy.result_bytes_max)
}

fn item_words(draft: &Draft, item: &Item, extent: Extent) -> usize {
    let policy = &draft.scopes[item.scope as usize].policy;
    if extent == Extent::Final
        && item.is_plain()
        && !item.has_fallback
        && policy.retention.is_fixed()
    {
        return words_for_item(item.id.len(), None);
    }
    // What a sliding scope prolongs may lie under the older id, and brings its own source.
    let source = match policy.retention {
        Retention::Sliding { .. } => Some(SOURCE_BYTES_MAX),
        _ => {
            let carried = draft.more(item).and_then(|more| more.source.as_ref());
            carried.or(item.source.as_ref()).map(|s| s.len())
        }
    };
    let result = match extent {
        Extent::Open => result_max(policy),
        Extent::Final => [false, true]
            .into_iter()
            .filter_map(|refused| draft.result(item, refused))
            .map(<[u8]>::len)
            .max(),
    };
    let longest = item
        .also
        .as_ref()
        .map_or(0, |also| also.len())
        .max(item.id.len());
    words_for_item(longest, Some(Extras::bytes_max(source, result)))
}

/// Words by which records found may exceed what [`need`] counts for prolonging them: those of
/// their results, which no handle's policy bounds.
pub(super) fn carried(draft: &Draft, decision: &Decision) -> usize {
    let is_sliding = |policy: &Policy| matches!(policy.retention, Retention::Sliding { .. });
    // What ends a claim has all that a record may carry but the result, which is counted.
    let of_claim = 1 + Extras::bytes_max(Some(SOURCE_BYTES_MAX), None).div_ceil(8);
    let of_claims = decision.claims() * of_claim;
    if decision.hits().is_empty() || !draft.scopes.iter().any(|s| is_sliding(&s.policy)) {
        return of_claims;
    }
    let counted = Extras::bytes_max(Some(SOURCE_BYTES_MAX), None);
    let beyond = decision.hits().iter().map(|hit| {
        // With the first sight, which prolonging may add.
        let bytes = hit.extras.as_ref().map_or(0, |e| e.len()) + Extras::bytes_max(None, None);
        bytes.saturating_sub(counted).div_ceil(8)
    });
    of_claims + beyond.sum::<usize>()
}
