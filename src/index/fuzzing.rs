//! Stored bytes of the index, read and written again, for tests that bring bytes of any kind.
//!
//! Each kind is read by the decoder that the store uses, and what was read is written by the
//! store's encoder: what the two disagree about shows in the bytes or in the text.

use crate::error::Result;
use crate::front::{Ask, Filter};

use super::floor::{Floor, Mark};
use super::hash::IdHash;
use super::log::{LogBuilder, Sections, log_key, log_number};
use super::page::{Page, PageBuilder, PageRecord};
use super::record::Slice;
use super::run::{RunInfo, RunKey};
use super::{Extras, Name, meta, names, snapshot};

/// What was read, as text, and written again.
pub(crate) type Again = (String, Vec<u8>);

/// A log record's value, section by section.
pub(crate) fn log(bytes: &[u8]) -> Option<Again> {
    let (mut shown, mut again) = (String::new(), Vec::new());
    for section in Sections::new(bytes) {
        let section = section.ok()?;
        assert!(section.words() > 0);
        let mut log = LogBuilder::default();
        for (id, extras) in section.ids() {
            shown += &format!("{:?} {:?} {id:?} ", section.meta, section.placement);
            shown += &format!("{extras:?} {:?}\n", extras.map(Extras::decode));
            log.add(0, &section.meta, section.placement, id, extras);
        }
        log.finish();
        again.extend_from_slice(log.value());
    }
    Some((shown, again))
}

/// The scope and the bytes of each id in a log record's value.
pub fn log_ids(bytes: &[u8]) -> Option<Vec<(u16, Vec<u8>)>> {
    let sections = Sections::new(bytes).collect::<Result<Vec<_>>>().ok()?;
    let of = |s: &super::log::Section<'_>| {
        let scope = s.meta.stamp.scope;
        s.ids()
            .map(move |(id, _)| (scope, id.to_vec()))
            .collect::<Vec<_>>()
    };
    Some(sections.iter().flat_map(of).collect())
}

/// A log record's key.
pub(crate) fn number(bytes: &[u8]) -> Option<Again> {
    let n = log_number(bytes).ok()?;
    Some((n.to_string(), log_key(n).to_vec()))
}

/// The end of a slice, 8 bytes, and a page of it. Its columns may be wider than need be.
pub(crate) fn page(bytes: &[u8]) -> Option<Again> {
    let (end_ms, page) = bytes.split_first_chunk::<8>()?;
    let slice = Slice {
        end_ms: u64::from_le_bytes(*end_ms),
        class: 0,
    };
    let page = Page::parse(page, slice).ok()?;
    let records: Vec<PageRecord<'_>> = (0..page.len()).map(|i| page.get(i)).collect();
    let mut builder = PageBuilder::new(slice, u64::MAX);
    for record in &records {
        builder.push(&record.meta, record.id, record.extras);
    }
    look_up(&page, &records);
    let mut again = end_ms.to_vec();
    builder.finish(&mut again);
    Some((format!("{records:?}"), again))
}

/// Every record is found, if they are in the order in which a page is searched.
fn look_up(page: &Page<'_>, records: &[PageRecord<'_>]) {
    let ids = IdHash::new(0);
    let hash = |r: &PageRecord<'_>| ids.of(r.meta.stamp.scope, r.id);
    let is_sorted = records.is_sorted_by_key(hash);
    for record in records {
        let scope = record.meta.stamp.scope;
        let hit = page.find(&ids, hash(record), scope, record.id);
        assert!(hit.is_some() || !is_sorted, "{record:?} is not found");
    }
}

/// The key of a run's page.
pub(crate) fn run_key(bytes: &[u8]) -> Option<Again> {
    let key = RunKey::of(bytes).ok()?;
    let page = u32::from_be_bytes(*bytes.last_chunk()?);
    Some((format!("{key:?}"), key.page(page).to_vec()))
}

/// A run's key without the page, 12 bytes, and its footer.
pub(crate) fn footer(bytes: &[u8]) -> Option<Again> {
    let (key, footer) = bytes.split_first_chunk::<12>()?;
    let key = RunKey::of(&[&key[..], &[0xff; 4]].concat()).ok()?;
    let info = RunInfo::decode(key, footer).ok()?;
    let again = [&key.footer()[..12], &info.encode()].concat();
    Some((format!("{info:?}"), again))
}

/// One slot of the floor file.
pub(crate) fn slot(bytes: &[u8]) -> Option<Again> {
    let mark = Mark::decode(bytes)?;
    Some((format!("{mark:?}"), mark.encode().to_vec()))
}

/// A floor file, of which only the slot that counts is written again.
pub(crate) fn floor(bytes: &[u8]) -> Option<Again> {
    let mark = Floor::newest(bytes)?;
    Some((format!("{mark:?}"), mark.encode().to_vec()))
}

/// A filter.
pub(crate) fn filter(bytes: &[u8]) -> Option<Again> {
    let filter = Filter::decode(bytes)?;
    for hash in [0, 1 << 63, u64::MAX] {
        let _ = filter.lines().may_contain(hash, &Filter::mask(hash));
    }
    Some((filter.ids().to_string(), filter.encode()))
}

/// A filter snapshot.
pub(crate) fn filters(bytes: &[u8]) -> Option<Again> {
    snapshot::recoded(bytes)
}

/// The number of a retention class, one byte, and its row.
pub(crate) fn class(bytes: &[u8]) -> Option<Again> {
    let (&number, value) = bytes.split_first()?;
    let class = meta::class(number, value)?;
    let (_, value) = meta::class_row(&class);
    let again = [&[class.number][..], &value].concat();
    Some((format!("{class:?}"), again))
}

/// A family's name.
pub(crate) fn name(bytes: &[u8]) -> Option<Again> {
    let text = std::str::from_utf8(bytes).ok()?;
    let name = Name::parse(text)?;
    let again = match name {
        Name::Rows => text.to_string(),
        Name::Log(number) => names::log(number),
        Name::Generation(slice) => names::generation(slice),
        Name::Table(number) => names::table(number, &names::table_name(text)?),
    };
    Some((format!("{name:?}"), again.into_bytes()))
}

/// What a rich record carries. Unknown and damaged fields are left out, so only what was
/// understood is written again.
pub(crate) fn extras(bytes: &[u8]) -> Option<Again> {
    let mut extras = Extras::decode(bytes);
    extras.source = extras.source.map(Extras::shortened);
    let mut again = Vec::new();
    extras.encode(&mut again);
    let (source, result) = (extras.source.map(str::len), extras.result.map(<[u8]>::len));
    assert!(again.len() <= Extras::bytes_max(source, result));
    Some((format!("{extras:?}"), again))
}
