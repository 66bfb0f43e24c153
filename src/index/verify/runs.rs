//! Sealed ids: every page can be read and is where it belongs, what it holds is in order and
//! known to the catalog, and no filter denies an id of its run.

use std::sync::Arc;

use crate::engine::Family;
use crate::error::{Error, Result};
use crate::front::{Ask, Filter};
use crate::index::footers::read_footers;
use crate::index::hash::IdHash;
use crate::index::page::{Page, page_of};
use crate::index::record::{FOR_EVER_MS, Slice, Stamp};
use crate::index::run::RunInfo;
use crate::index::snapshot::{self, NamedFilter};
use crate::index::{FOR_EVER_CLASS, names};
use crate::report::{Area, Findings, Remedy};

use super::{AtRest, ScopeFacts};

/// Whether a run has a record of an id.
pub(super) fn holds(
    family: &Family,
    slice: Slice,
    run: &RunInfo,
    ids: &IdHash,
    scope: u16,
    id: &[u8],
) -> Result<bool> {
    let hash = ids.of(scope, id);
    let Some(bytes) = family.get(&run.key.page(page_of(hash, run.pages)))? else {
        return Ok(false);
    };
    let page = Page::parse(&bytes, slice).map_err(|damage| Error::damaged(damage.to_string()))?;
    Ok(page.find(ids, hash, scope, id).is_some())
}

/// One run while its pages are gone through.
struct RunCheck<'a> {
    at_rest: &'a AtRest,
    slice: Slice,
    run: RunInfo,
    scopes: Option<&'a [ScopeFacts]>,
    filter: Option<&'a Filter>,
    /// Records so far, and bytes of their extras.
    count: u64,
    extras_bytes: u64,
    /// Records that the filter denies.
    denied: u64,
    /// The hash of the last record.
    last: u64,
}

impl AtRest {
    pub(super) fn check_generations(
        &self,
        scopes: Option<&[ScopeFacts]>,
        found: &mut Findings<'_>,
    ) {
        let mut known = Vec::new();
        for (slice, family) in &self.families.generations {
            known.push(snapshot::name(*slice));
            if let Err(error) = self.check_slice(*slice) {
                found.fault(Area::Catalog, family.name(), error, Remedy::Restore);
            }
            let mut runs = match read_footers(family) {
                Ok(runs) => runs,
                Err(error) => {
                    found.fault(Area::Ids, family.name(), error, Remedy::Restore);
                    continue;
                }
            };
            let all = runs.clone();
            runs.retain(|run| !all.iter().any(|other| other.covers(run)));
            if runs.len() < all.len() {
                let place = family.name();
                found.note(format_args!("{place} has merged runs that an open removes"));
            }
            let filters = self.filters(*slice, &runs, found);
            for (run, filter) in runs.iter().zip(&filters) {
                self.check_run(*slice, family, run, scopes, filter.as_ref(), found);
            }
        }
        for file in self
            .engine
            .home()
            .list(snapshot::FOLDER)
            .unwrap_or_default()
        {
            if !known.contains(&file) {
                found.note(format_args!(
                    "{file} is of no generation; an open removes it"
                ));
            }
        }
    }

    /// Whether a generation's class is one that was stored.
    fn check_slice(&self, slice: Slice) -> Result<()> {
        let class = self.marks.classes.iter().find(|c| c.number == slice.class);
        let fits = match class {
            Some(class) => {
                slice.end_ms.is_multiple_of(class.width_ms) || slice.end_ms == FOR_EVER_MS - 1
            }
            None => slice.class == FOR_EVER_CLASS && slice.end_ms == FOR_EVER_MS,
        };
        if fits {
            return Ok(());
        }
        let name = names::generation(slice);
        Err(Error::damaged(format!(
            "no stored retention class has the slice {name}"
        )))
    }

    /// Whether the catalog knows a record's scope, the version of its retention, and that ids of
    /// it may be in this class: else nobody asks for it there.
    pub(super) fn check_stamp(
        &self,
        stamp: Stamp,
        slice: Slice,
        scopes: Option<&[ScopeFacts]>,
    ) -> Result<()> {
        let Some(scopes) = scopes else { return Ok(()) };
        let Stamp { scope, version } = stamp;
        let wrong = |what: &str| Err(Error::damaged(format!("an id of scope {scope}: {what}")));
        let Some(facts) = scopes.get(usize::from(scope)) else {
            return wrong("the catalog has no such scope");
        };
        if usize::from(version) >= facts.versions {
            return wrong("the catalog has no such version of its retention");
        }
        let bit = 1_u32.checked_shl(slice.class.into()).unwrap_or(0);
        if facts.classes & bit == 0 {
            return wrong("the catalog says that it has none in this retention class");
        }
        Ok(())
    }

    /// The filters of a generation's snapshot, for each run one, if it has one that is used.
    fn filters(
        &self,
        slice: Slice,
        runs: &[RunInfo],
        found: &mut Findings<'_>,
    ) -> Vec<Option<Filter>> {
        let file = snapshot::name(slice);
        let mut none = Vec::new();
        none.resize_with(runs.len(), || None);
        let bytes = match self.engine.home().read(&file) {
            Ok(Some(bytes)) => bytes,
            Ok(None) => return none,
            Err(error) => {
                found.fault(Area::Filter, &file, error, Remedy::Delete);
                return none;
            }
        };
        let Some(mut named) = snapshot::decode(&bytes) else {
            let what = "it fails its checksum or is no snapshot";
            found.fault(Area::Filter, &file, what, Remedy::Delete);
            return none;
        };
        let bound = |named: &[NamedFilter], run: &RunInfo| {
            let is_its = |n: &NamedFilter| n.0 == run.key && n.1 == run.id;
            named.iter().position(is_its)
        };
        if !runs.iter().all(|run| bound(&named, run).is_some()) {
            found.note(format_args!("{file} is of other runs and is not used"));
            return none;
        }
        let take = |run: &RunInfo| {
            let (_, _, filter) = named.swap_remove(bound(&named, run)?);
            (filter.ids() as u64 == run.ids).then_some(filter)
        };
        runs.iter().map(take).collect()
    }

    fn check_run(
        &self,
        slice: Slice,
        family: &Arc<Family>,
        run: &RunInfo,
        scopes: Option<&[ScopeFacts]>,
        filter: Option<&Filter>,
        found: &mut Findings<'_>,
    ) {
        let mut check = RunCheck {
            at_rest: self,
            slice,
            run: *run,
            scopes,
            filter,
            count: 0,
            extras_bytes: 0,
            denied: 0,
            last: 0,
        };
        let name = format!("run {}.{}", run.key.order, run.key.serial);
        let mut is_whole = true;
        let mut rows = family.rows_once(&run.key.page(0));
        for page in 0..run.pages {
            let key = run.key.page(page);
            if rows.here().is_none_or(|(at, _)| at < &key[..]) {
                // Also after a block that could not be read.
                rows.seek(&key);
            }
            let checked = match rows.here() {
                None => rows.status(),
                Some((at, _)) if at != key => continue,
                Some((_, value)) => {
                    found.read(value.len(), family.name());
                    let checked = check.page(page, value);
                    rows.step();
                    checked
                }
            };
            if let Err(error) = checked {
                is_whole = false;
                let error = error.context(format_args!("page {page} of {name}"));
                found.fault(Area::Ids, family.name(), error, Remedy::Restore);
            }
        }
        let RunCheck {
            count,
            extras_bytes,
            denied,
            ..
        } = check;
        found.report.checked.runs += 1;
        found.report.checked.sealed_ids += count;
        if is_whole && count != run.ids {
            let what = format!("{name} has {count} ids, its footer says {}", run.ids);
            found.fault(Area::Ids, family.name(), what, Remedy::Restore);
        }
        if is_whole && extras_bytes != run.extras_bytes {
            let said = run.extras_bytes;
            let what = format!("{name} has {extras_bytes} bytes of extras, its footer says {said}");
            found.fault(Area::Ids, family.name(), what, Remedy::Restore);
        }
        if filter.is_some() {
            found.report.checked.filtered_ids += count;
        }
        if denied > 0 {
            let what = format!("it denies {denied} ids of {name}, which would be first seen");
            found.fault(Area::Filter, &snapshot::name(slice), what, Remedy::Delete);
        }
    }
}

impl RunCheck<'_> {
    fn page(&mut self, number: u32, bytes: &[u8]) -> Result<()> {
        let damaged = |what: String| Err(Error::damaged(what));
        let page = Page::parse(bytes, self.slice).map_err(|e| Error::damaged(e.to_string()))?;
        let mut same_hash: Vec<(u16, &[u8])> = Vec::new();
        for i in 0..page.len() {
            let record = page.get(i);
            let stamp = record.meta.stamp;
            let hash = self.at_rest.marks.ids.of(stamp.scope, record.id);
            if page_of(hash, self.run.pages) != number {
                return damaged(format!("record {i} belongs to another page"));
            }
            if hash < self.last {
                return damaged(format!("record {i} is out of order"));
            }
            if hash > self.last {
                same_hash.clear();
            }
            if same_hash.contains(&(stamp.scope, record.id)) {
                return damaged(format!("record {i} is there twice"));
            }
            same_hash.push((stamp.scope, record.id));
            self.last = hash;
            self.at_rest.check_stamp(stamp, self.slice, self.scopes)?;
            if let Some(filter) = self.filter
                && !filter.lines().may_contain(hash, &Filter::mask(hash))
            {
                self.denied += 1;
            }
            self.count += 1;
            self.extras_bytes += record.extras.map_or(0, <[u8]>::len) as u64;
        }
        Ok(())
    }
}
