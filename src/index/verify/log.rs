//! Commits that are not sealed: they decode, their numbers are whole down to the floor, and what
//! a seal that was cut short already wrote of them is in its run.

use std::collections::HashMap;
use std::sync::Arc;

use crate::engine::Family;
use crate::error::{Error, Result};
use crate::index::footers::read_footers;
use crate::index::log::{Sections, log_number};
use crate::index::numbers::Numbers;
use crate::index::record::{Meta, Slice};
use crate::index::recover::short;
use crate::index::run::RunInfo;
use crate::index::seal::{has_ended, is_worthless};
use crate::report::{Area, Findings, Remedy};

use super::runs::holds;
use super::{AtRest, ScopeFacts};

/// A run that was sealed of segments some of which are still in the log.
struct Sealed<'a> {
    slice: Slice,
    family: &'a Arc<Family>,
    info: RunInfo,
}

/// The last record of each id in a segment: what its seal writes.
type Standing = HashMap<(u16, Box<[u8]>), (u64, Meta, Slice)>;

impl AtRest {
    pub(super) fn check_log(&self, scopes: Option<&[ScopeFacts]>, found: &mut Findings<'_>) {
        let sealed = self.sealed();
        let mut numbers = Numbers::new(self.marks.marker);
        let mut oldest = None;
        for (number, family) in &self.families.logs {
            let covers = |s: &&Sealed<'_>| (s.info.first_order..=s.info.key.order).contains(number);
            let runs: Vec<&Sealed<'_>> = sealed.iter().filter(covers).collect();
            let mut standing = (!runs.is_empty()).then(Standing::new);
            for row in family.rows_once(&[]) {
                let read = row.and_then(|(key, value)| {
                    oldest.get_or_insert(*number);
                    let n = log_number(&key)?;
                    numbers.take(n);
                    found.report.checked.commits += 1;
                    found.read(key.len() + value.len(), family.name());
                    self.check_commit(n, &value, scopes, standing.as_mut(), found)
                });
                if let Err(error) = read {
                    found.fault(Area::Log, family.name(), error, Remedy::Restore);
                }
            }
            if let Err(error) = self.check_sealed(&standing.unwrap_or_default(), &runs) {
                found.fault(Area::Log, family.name(), error, Remedy::Restore);
            }
        }
        numbers.end();
        if let Some(newest) = sealed.iter().map(|s| s.info.key.order).max()
            && let Some(oldest) = oldest.filter(|oldest| newest > *oldest)
        {
            let what = format!("segment {newest} was sealed before segment {oldest}");
            found.fault(Area::Log, "log families", what, Remedy::Restore);
        }
        let floor = self.floor.map_or(0, |mark| mark.n);
        if let Some((expected, last)) = numbers.short_of(floor) {
            let what = short(expected, last);
            found.fault(Area::Log, "log families", what, Remedy::AcceptShort);
        }
    }

    /// All runs; footers that can't be read are faults of the ids.
    fn sealed(&self) -> Vec<Sealed<'_>> {
        let mut sealed = Vec::new();
        for (slice, family) in &self.families.generations {
            for info in read_footers(family).unwrap_or_default() {
                sealed.push(Sealed {
                    slice: *slice,
                    family,
                    info,
                });
            }
        }
        sealed
    }

    fn check_commit(
        &self,
        n: u64,
        value: &[u8],
        scopes: Option<&[ScopeFacts]>,
        mut standing: Option<&mut Standing>,
        found: &mut Findings<'_>,
    ) -> Result<()> {
        for section in Sections::new(value) {
            let section = section?;
            found.report.checked.unsealed_ids += u64::from(section.count);
            let (meta, placed) = (section.meta, section.placement);
            self.check_stamp(meta.stamp, placed, scopes)
                .map_err(|e| e.context(format_args!("commit {n}")))?;
            if let Some(standing) = &mut standing {
                for (id, _) in section.ids() {
                    standing.insert((meta.stamp.scope, id.into()), (n, meta, placed));
                }
            }
        }
        Ok(())
    }

    /// What the runs of a segment whose log is still there must have of it.
    fn check_sealed(&self, standing: &Standing, runs: &[&Sealed<'_>]) -> Result<()> {
        let mark = self.marks.mark;
        for ((scope, id), (n, meta, placed)) in standing {
            if has_ended(*placed, mark) || is_worthless(meta, mark) {
                continue;
            }
            for run in runs.iter().filter(|run| run.slice == *placed) {
                let ids = &self.marks.ids;
                if !holds(run.family, run.slice, &run.info, ids, *scope, id)? {
                    let run = run.family.name();
                    return Err(Error::damaged(format!(
                        "an id of commit {n} is not in {run}, where its segment was sealed"
                    )));
                }
            }
        }
        Ok(())
    }
}
