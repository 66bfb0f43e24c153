//! How many claims of a scope are in which state, and since when the oldest is, without a look
//! at each: kept up with every change, for who watches a store.
//!
//! - W9: a census has what the table has. A claim counts under its row's phase; one that is held
//!   moves from `held` to `lapsed` when it is read first after its lease ran out.
//! - W10: a read costs the moves that are due, one a claim and lease at most, and no more.
//!
//! What has expired by effective time counts until it is swept, within a minute or so.

use std::collections::BTreeMap;

use super::row::Phase;
use super::table::Entry;

/// First sights of claims, and how many have each.
#[derive(Debug, Default)]
struct Ages {
    first_ms: BTreeMap<u64, u64>,
    claims: u64,
}

/// How many there are, and the first sight of the oldest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Group {
    pub(crate) claims: u64,
    pub(crate) oldest_ms: Option<u64>,
}

/// The claims of one scope.
#[derive(Debug, Default)]
pub(crate) struct Census {
    held: Ages,
    lapsed: Ages,
    free: Ages,
    unknown: Ages,
    /// Leases that ran when they were last looked at: their ends, with the claims' first sights.
    running: BTreeMap<(u64, u64), u64>,
    /// Up to here leases have been looked at.
    looked_mono_ms: u64,
}

/// A census as it was read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) held: Group,
    pub(crate) lapsed: Group,
    pub(crate) free: Group,
    pub(crate) unknown: Group,
}

fn more<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    *counts.entry(key).or_default() += 1;
}

fn less<K: Ord>(counts: &mut BTreeMap<K, u64>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

impl Ages {
    fn add(&mut self, first_ms: u64) {
        more(&mut self.first_ms, first_ms);
        self.claims += 1;
    }

    fn remove(&mut self, first_ms: u64) {
        less(&mut self.first_ms, first_ms);
        self.claims -= 1;
    }

    fn group(&self) -> Group {
        Group {
            claims: self.claims,
            oldest_ms: self.first_ms.first_key_value().map(|(ms, _)| *ms),
        }
    }
}

impl Census {
    fn ages(&mut self, entry: &Entry) -> &mut Ages {
        match entry.row.phase {
            Phase::Free => &mut self.free,
            Phase::Unknown => &mut self.unknown,
            Phase::Held if entry.until_mono_ms <= self.looked_mono_ms => &mut self.lapsed,
            Phase::Held => &mut self.held,
        }
    }

    fn is_running(&self, entry: &Entry) -> bool {
        entry.row.is_held() && entry.until_mono_ms > self.looked_mono_ms
    }

    pub(super) fn add(&mut self, entry: &Entry) {
        if self.is_running(entry) {
            more(&mut self.running, (entry.until_mono_ms, entry.row.first_ms));
        }
        self.ages(entry).add(entry.row.first_ms);
    }

    pub(super) fn remove(&mut self, entry: &Entry) {
        if self.is_running(entry) {
            less(&mut self.running, (entry.until_mono_ms, entry.row.first_ms));
        }
        self.ages(entry).remove(entry.row.first_ms);
    }

    pub(super) fn read(&mut self, mono_ms: u64) -> Counted {
        self.looked_mono_ms = self.looked_mono_ms.max(mono_ms);
        while let Some(first) = self.running.first_entry() {
            let (until_ms, first_ms) = *first.key();
            if until_ms > self.looked_mono_ms {
                break;
            }
            for _ in 0..first.remove() {
                self.held.remove(first_ms);
                self.lapsed.add(first_ms);
            }
        }
        Counted {
            held: self.held.group(),
            lapsed: self.lapsed.group(),
            free: self.free.group(),
            unknown: self.unknown.group(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::row::{ClaimRow, Nonce};
    use super::*;

    fn entry(phase: Phase, first_ms: u64, until_mono_ms: u64) -> Entry {
        let row = ClaimRow {
            phase,
            nonce: Nonce { run: 1, serial: 0 },
            attempt: 1,
            pardoned: 0,
            first_ms,
            lease_ms: 10,
            until_ms: 0,
            expiry_ms: 1_000,
            why: String::new(),
            reference: Vec::new(),
            extras: Vec::new(),
        };
        Entry { row, until_mono_ms }
    }

    fn group(claims: u64, oldest_ms: u64) -> Group {
        Group {
            claims,
            oldest_ms: (claims > 0).then_some(oldest_ms),
        }
    }

    /// Whatever comes and goes, and whenever it is read, a census is what a look at each claim
    /// would have given.
    #[test]
    fn a_census_is_what_a_look_at_each_claim_gives() {
        let phases = [Phase::Held, Phase::Held, Phase::Free, Phase::Unknown];
        for seed in 0..200 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let (mut census, mut all, mut mono_ms) = (Census::default(), Vec::new(), 0);
            for _ in 0..200 {
                match rng.u8(0..4) {
                    0 if !all.is_empty() => {
                        let gone: Entry = all.swap_remove(rng.usize(..all.len()));
                        census.remove(&gone);
                    }
                    1 => mono_ms += rng.u64(0..8),
                    _ => {
                        let phase = phases[rng.usize(..phases.len())];
                        let until = mono_ms + rng.u64(0..12);
                        let new = entry(phase, rng.u64(0..9), until);
                        census.add(&new);
                        all.push(new);
                    }
                }
                if rng.bool() {
                    continue;
                }
                let of = |is: &dyn Fn(&Entry) -> bool| {
                    let chosen: Vec<u64> = all
                        .iter()
                        .filter(|e| is(e))
                        .map(|e| e.row.first_ms)
                        .collect();
                    let oldest = chosen.iter().min().copied().unwrap_or(0);
                    group(chosen.len() as u64, oldest)
                };
                let is_over = |e: &Entry| e.until_mono_ms <= mono_ms;
                let expected = Counted {
                    held: of(&|e| e.row.is_held() && !is_over(e)),
                    lapsed: of(&|e| e.row.is_held() && is_over(e)),
                    free: of(&|e| e.row.phase == Phase::Free),
                    unknown: of(&|e| e.row.phase == Phase::Unknown),
                };
                assert_eq!(census.read(mono_ms), expected, "seed {seed}");
            }
        }
    }
}
