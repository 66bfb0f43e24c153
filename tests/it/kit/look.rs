//! The runner's looks: peeks, scans, and everything at once.

use std::time::Duration;

use firstseen::Position;

use super::op::{IDS, Item, Name, Point, SCOPES, SOURCES, SPACES, Table, id};
use super::runner::{Called, Runner};
use super::said::{self, Sight, Totals, entry, list, point, row};

impl Runner<'_> {
    pub(super) fn peek(&self, scope: usize, name: Name) -> Called<String> {
        self.flush()?;
        self.with_id(scope, &Item::plain(name), |id| {
            let seen = self.scopes[scope].peek(id)?;
            let sight = seen.map(|seen| Sight::of(&seen, self.start));
            Ok(sight.map_or_else(|| "unknown".to_string(), |sight| sight.to_string()))
        })
    }

    /// Has what is buffered written: until then a look does not see it.
    pub(super) fn flush(&self) -> Called<()> {
        self.table(Table::Plain).get("none").map(|_| ())
    }

    pub(super) fn live(&self, scope: usize, last_ms: Option<u64>) -> Called<Vec<(Vec<u8>, Sight)>> {
        let scope = &self.scopes[scope];
        let from = last_ms.and_then(|ms| self.clock.now().checked_sub(Duration::from_millis(ms)));
        let scan = match from {
            Some(from) => scope.scan(from..)?,
            None => scope.scan(..)?,
        };
        let ids = scan.map(|entry| {
            let (id, seen) = entry?;
            Ok((id.to_vec(), Sight::of(&seen, self.start)))
        });
        let mut ids = ids.collect::<Called<Vec<_>>>()?;
        ids.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(ids)
    }

    pub(super) fn scan(&self, scope: usize, last_ms: Option<u64>) -> Called<String> {
        let live = self.live(scope, last_ms)?;
        let entries: Vec<String> = live.iter().map(|(id, sight)| entry(id, sight)).collect();
        Ok(list(&entries))
    }

    /// Everything that can be seen.
    pub(super) fn check(&self) -> Called<String> {
        Ok(format!("{}\n  {:?}", self.state()?, self.totals()?))
    }

    /// Everything that outlives the process.
    pub(crate) fn state(&self) -> Called<String> {
        let rows = self.rows()?;
        let mut scans = String::new();
        let mut peeks = Vec::new();
        for (scope, name) in SCOPES.iter().enumerate() {
            scans += &format!("\n  {name} {}", self.scan(scope, None)?);
            peeks.push(self.peeked(scope)?.to_string());
        }
        let points: Vec<String> = SOURCES
            .iter()
            .map(|source| Ok(point(self.store.resume_point(source)?.map(given))))
            .collect::<Called<_>>()?;
        let (claims, doubts) = (self.claims_told()?, self.doubts()?);
        Ok(format!(
            "{scans}\n  producers {}\n  points {}\n  peeked {}\n  rows {}\n  claims {claims}\
             \n  in doubt {doubts}\n  outbox {}",
            list(&self.producers()?),
            list(&points),
            list(&peeks),
            list(&rows),
            self.outbox()?
        ))
    }

    /// How many ids of the pool a look knows; each must be as the scan says.
    pub(super) fn peeked(&self, scope: usize) -> Called<usize> {
        let live = self.live(scope, None)?;
        let mut known = 0;
        for n in 0..IDS {
            let seen = self.scopes[scope].peek(&id(n))?;
            let sight = seen.map(|seen| Sight::of(&seen, self.start));
            let scanned = live
                .iter()
                .find(|(of, _)| *of == id(n))
                .map(|(_, sight)| sight);
            known += usize::from(sight.is_some() && sight.as_ref() == scanned);
        }
        Ok(known)
    }

    pub(super) fn rows(&self) -> Called<Vec<String>> {
        let mut rows = Vec::new();
        for table in [Table::Plain, Table::Guarded] {
            for entry in self.table(table).range("")? {
                let (key, value) = entry?;
                rows.push(row(table.name(), &String::from_utf8_lossy(&key), &value));
            }
        }
        Ok(rows)
    }

    fn producers(&self) -> Called<Vec<String>> {
        let mut all = Vec::new();
        for (space, numbers) in SPACES.iter().zip(&self.numbers) {
            for p in numbers.producers()? {
                let since = p.last_at.duration_since(self.start);
                let last_ms = since.map_or(u64::MAX, |d| d.as_millis() as u64);
                let marks = (p.high, p.gaps);
                all.push(said::producer(space, &p.name, p.epoch, marks, last_ms));
            }
        }
        Ok(all)
    }

    pub(super) fn totals(&self) -> Called<Totals> {
        let stats = self.store.stats()?;
        let v = stats.verdicts;
        Ok(Totals {
            first: v.first,
            duplicates: v.duplicates,
            mismatches: v.payload_mismatches,
            in_progress: v.in_progress,
            refused: v.refused,
            bad_ids: v.bad_ids,
            declined: v.declined,
            late: v.late,
            fenced: v.fenced,
            unknown_producers: v.unknown_producers,
            evicted: stats.sequences.evicted,
            unkeyed: stats.unkeyed,
            forgotten: stats.forgotten,
            undecided: stats.undecided,
            failed: v.failed,
            dead: v.dead_lettered,
            unknown: v.outcome_unknown,
        })
    }
}

/// The point that a stored position was given as.
fn given(position: Position) -> Point {
    match (position.as_u64(), position.as_bytes()) {
        (Some(n), _) => Point::Number(n),
        (None, Some([b])) => Point::Bytes(*b),
        _ => panic!("a position nobody gave: {position:?}"),
    }
}
