//! The model's looks: peeks, scans, and everything at once.

use super::draft::own;
use super::model::Model;
use super::op::{IDS, Item, Name, SCOPES, SOURCES, SPACES, id, producer};
use super::said::{self, entry, list, row};

impl Model {
    pub(super) fn peek(&self, scope: usize, name: Name) -> String {
        let id = own(&Item::plain(name));
        let claim = id.clone().and_then(|id| self.claims.of.get(&(scope, id)));
        if let Some(claim) = claim.filter(|claim| claim.expiry_ms > self.now_ms) {
            return claim.sight(claim.state()).to_string();
        }
        let seen = id.and_then(|id| self.live(scope, &id, self.now_ms));
        seen.map_or_else(|| "unknown".to_string(), |seen| seen.sight().to_string())
    }

    pub(super) fn scan(&self, scope: usize, last_ms: Option<u64>) -> String {
        let from_ms = last_ms.map_or(0, |ms| self.now_ms.saturating_sub(ms));
        let all = self.ids.iter().filter(|((of, _), seen)| {
            *of == scope && self.now_ms < seen.expiry_ms && seen.first_ms >= from_ms
        });
        let entries: Vec<String> = all
            .map(|((_, id), seen)| entry(id, &seen.sight()))
            .collect();
        list(&entries)
    }

    /// Everything that can be seen.
    pub(super) fn check(&self) -> String {
        format!("{}\n  {:?}", self.state(), self.totals)
    }

    /// Everything that outlives the process.
    pub(crate) fn state(&self) -> String {
        let rows: Vec<String> = self
            .rows
            .0
            .iter()
            .map(|((table, key), v)| row(table.name(), key, v))
            .collect();
        let (ids, claims) = (self.ids_and_points(), self.claims_told());
        let outbox = self.rows.1.state();
        let (rows, doubts) = (list(&rows), self.doubts());
        format!("{ids}\n  rows {rows}\n  claims {claims}\n  in doubt {doubts}\n  outbox {outbox}")
    }

    fn ids_and_points(&self) -> String {
        let scopes = (0..SCOPES.len()).map(|s| format!("\n  {} {}", SCOPES[s], self.scan(s, None)));
        let points = (0..SOURCES.len()).map(|s| said::point(self.points.get(&s).copied()));
        let points: Vec<String> = points.collect();
        let peeks = (0..SCOPES.len()).map(|scope| {
            let known = (0..IDS).filter(|n| self.live(scope, &id(*n), self.now_ms).is_some());
            known.count().to_string()
        });
        let peeks: Vec<String> = peeks.collect();
        let scopes: String = scopes.collect();
        format!(
            "{scopes}\n  producers {}\n  points {}\n  peeked {}",
            list(&self.producers()),
            list(&points),
            list(&peeks)
        )
    }

    fn producers(&self) -> Vec<String> {
        let all = self.numbers.0.iter().map(|((space, n), p)| {
            let name = producer(*n);
            let marks = (p.high(), p.gaps());
            said::producer(SPACES[*space], &name, p.epoch, marks, p.last_ms)
        });
        all.collect()
    }
}
