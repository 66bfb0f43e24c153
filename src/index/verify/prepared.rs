//! Ids of prepared transactions: each is of a scope there is, in one transaction, and in no record
//! that was written since it was new.

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::index::footers::read_footers;
use crate::index::log::Sections;
use crate::index::page::{Page, page_of};
use crate::index::record::{Meta, State};
use crate::report::{Area, Findings, Remedy};

use super::{AtRest, ScopeFacts};

/// Ids that transactions hold, with the time of the prepare where nothing was known of them then.
#[derive(Default)]
pub(crate) struct PreparedIds(HashMap<(u16, Box<[u8]>), Option<u64>>);

impl AtRest {
    /// Notes the ids of one transaction: of its log record, those at the positions `standing`
    /// being duplicates.
    ///
    /// # Errors
    /// `Damaged` if it says what cannot be, or an id is another transaction's too.
    pub(crate) fn note_prepared(
        &self,
        (log, standing, prepared_ms): (&[u8], &[u32], u64),
        scopes: Option<&[ScopeFacts]>,
        ids: &mut PreparedIds,
    ) -> Result<()> {
        let damaged = |what: &str| Err(Error::damaged(what));
        let mut at = 0_u32;
        for section in Sections::new(log) {
            let section = section?;
            let (meta, placed) = (section.meta, section.placement);
            self.check_stamp(meta.stamp, placed, scopes)?;
            for (id, _) in section.ids() {
                let was_known = meta.over || standing.binary_search(&at).is_ok();
                let since = (!was_known).then_some(prepared_ms);
                if (ids.0.insert((meta.stamp.scope, id.into()), since)).is_some() {
                    return damaged("two prepared transactions have one id");
                }
                at += 1;
            }
        }
        match standing.last() {
            Some(last) if *last >= at => damaged("a prepared transaction names ids it has not"),
            _ => Ok(()),
        }
    }

    /// Whether an id that was new when it was prepared has been recorded since.
    pub(crate) fn check_prepared(&self, ids: &PreparedIds, found: &mut Findings<'_>) {
        let mut fault = |place: &str, error: Error| {
            found.fault(Area::Prepared, place, error, Remedy::Restore);
        };
        let wrong = |meta: &Meta, since: u64| meta.state == State::Seen && meta.expiry_ms > since;
        let recorded = || Error::damaged("an id of a prepared transaction is recorded as well");
        let new = ids.0.iter().filter_map(|(id, since)| Some((id, (*since)?)));
        let new: Vec<_> = new.collect();
        if new.is_empty() {
            return;
        }
        for (slice, family) in &self.families.generations {
            // What can't be read was told already.
            for run in read_footers(family).unwrap_or_default() {
                for ((scope, id), since) in &new {
                    let hash = self.marks.ids.of(*scope, id);
                    let Ok(Some(bytes)) = family.get(&run.key.page(page_of(hash, run.pages)))
                    else {
                        continue;
                    };
                    let Ok(page) = Page::parse(&bytes, *slice) else {
                        continue;
                    };
                    let record = page.find(&self.marks.ids, hash, *scope, id);
                    if record.is_some_and(|record| wrong(&record.meta, *since)) {
                        fault(family.name(), recorded());
                    }
                }
            }
        }
        for (_, family) in &self.families.logs {
            for (_, value) in family.rows_once(&[]).flatten() {
                for section in Sections::new(&value).flatten() {
                    for (id, _) in section.ids() {
                        let key = (section.meta.stamp.scope, id.into());
                        let since = ids.0.get(&key).copied().flatten();
                        if since.is_some_and(|since| wrong(&section.meta, since)) {
                            fault(family.name(), recorded());
                        }
                    }
                }
            }
        }
    }
}
