//! Damage that no checksum shows: rows changed through RocksDB itself, as a fault of ours would.
//!
//! Keys and families are written as `docs/format.md` has them.

#![cfg(feature = "testing")]

use std::path::Path;
use std::sync::Arc;

use crate::core::settings;
use crate::engine::{Access, Engine, Family, Home, Kind, Recovery, Rep};
use crate::policy::{Policy, days};
use crate::{Area, Options, Remedy, Resources, Store, verify};

const IDS: u64 = 3_000;

/// Key and value.
type Row = (Box<[u8]>, Box<[u8]>);

/// A store with a sealed generation of three pages, commits in the log, rows, messages, a resume
/// point, audit entries, and a prepared transaction.
fn made(dir: &Path) {
    let store = Store::open(dir, Options::new().background(false)).unwrap();
    let ids = store.scope("ids", Policy::remember(days(7))).unwrap();
    let (rows, mails) = (store.table("rows").unwrap(), store.outbox("mails").unwrap());
    let some: Vec<[u8; 8]> = (0..IDS).map(u64::to_be_bytes).collect();
    let _ = ids.insert_all(&some).unwrap();
    store.seal().unwrap();
    for id in ["a", "b", "c", "d"] {
        let mut batch = store.batch();
        let mut writes = batch.once(&ids, id);
        writes.put(&rows, id, "row").send(&mails, id);
        batch.resume_at("s", 1);
        let _ = batch.commit().unwrap();
    }
    assert!(ids.forget("a", "a reason").unwrap());
    for txn in ["ended", "in doubt"] {
        let mut batch = store.batch();
        batch.once(&ids, txn).put(&rows, txn, "row");
        let _ = batch.prepare(txn).unwrap();
    }
    store.abort_prepared("ended", "a reason").unwrap();
    drop((ids, rows, mails));
    store.close().unwrap();
}

/// The database of a store, opened to be harmed.
struct Harmed {
    engine: Engine,
    families: Vec<Arc<Family>>,
}

impl Harmed {
    fn open(dir: &Path) -> Harmed {
        let resources = Resources::new();
        let settings = settings(Home::at(dir), &Options::new(), &resources);
        let kind = |name: &str| {
            Some(match name.split(['1', '.']).next()? {
                "log" => Kind::Log,
                "gen" => Kind::Generation,
                "table" => Kind::Table,
                _ => Kind::Rows,
            })
        };
        let opened = Engine::open(settings, Recovery::Unsynced, Access::Write, kind, |_| None);
        let (engine, families) = opened.unwrap();
        Harmed { engine, families }
    }

    /// The family whose name begins so and that has rows.
    fn family(&self, name: &str) -> &Arc<Family> {
        let mut named = self.families.iter().filter(|f| f.name().starts_with(name));
        named.find(|f| f.rows(&[]).next().is_some()).unwrap()
    }

    /// All rows of a family.
    fn rows(&self, name: &str) -> Vec<Row> {
        self.family(name).rows(&[]).map(Result::unwrap).collect()
    }

    fn put(&self, name: &str, key: &[u8], value: &[u8]) {
        let mut rows = Rep::default();
        rows.put(self.family(name).number(), key, value);
        self.engine.write(&rows.whole()).unwrap();
    }

    fn delete(&self, name: &str, key: &[u8]) {
        let mut rows = Rep::default();
        rows.delete(self.family(name).number(), key);
        self.engine.write(&rows.whole()).unwrap();
    }
}

/// Makes a store, harms it, and expects a fault that says so.
#[track_caller]
fn expect(area: Area, remedy: Remedy, what: &str, harm: impl FnOnce(&Harmed)) {
    let dir = tempfile::tempdir().unwrap();
    made(dir.path());
    let sound = verify(dir.path(), &Options::new(), |_| {}).unwrap();
    assert!(sound.is_sound(), "{sound:?}");
    let harmed = Harmed::open(dir.path());
    harm(&harmed);
    harmed.engine.sync().unwrap();
    drop(harmed);
    let report = verify(dir.path(), &Options::new(), |_| {}).unwrap();
    let told = report.faults.iter().find(|f| f.what.contains(what));
    let told = told.unwrap_or_else(|| panic!("nothing says {what:?}: {report:?}"));
    assert_eq!((told.area, told.remedy), (area, remedy), "{told}");
}

#[test]
fn pages_out_of_their_place_are_faults() {
    expect(Area::Ids, Remedy::Restore, "belongs to another page", |h| {
        let pages = h.rows("gen1");
        h.put("gen1", &pages[1].0, &pages[0].1);
    });
    expect(Area::Ids, Remedy::Restore, "its footer says 3000", |h| {
        let pages = h.rows("gen1");
        h.delete("gen1", &pages[1].0);
    });
    expect(Area::Ids, Remedy::Restore, "no footer", |h| {
        let pages = h.rows("gen1");
        h.delete("gen1", &pages.last().unwrap().0);
    });
    expect(Area::Ids, Remedy::Restore, "damaged page", |h| {
        let pages = h.rows("gen1");
        h.put("gen1", &pages[2].0, b"no page");
    });
}

#[test]
fn records_out_of_order_are_faults() {
    expect(Area::Ids, Remedy::Restore, "out of order", |h| {
        let (key, mut page) = h.rows("gen1").swap_remove(0);
        // One id length, one stamp: the ids stand behind 24 bytes and the stamp's 3.
        let (first, second) = page[27..43].split_at_mut(8);
        first.swap_with_slice(second);
        h.put("gen1", &key, &page);
    });
    expect(Area::Ids, Remedy::Restore, "there twice", |h| {
        let (key, mut page) = h.rows("gen1").swap_remove(0);
        page.copy_within(27..35, 35);
        h.put("gen1", &key, &page);
    });
}

#[test]
fn ids_that_the_catalog_hides_are_faults() {
    // Flags, then the classes that are asked.
    expect(
        Area::Ids,
        Remedy::Restore,
        "none in this retention class",
        |h| {
            let mut scope = h
                .family("meta")
                .get(b"scope/\0\0")
                .unwrap()
                .unwrap()
                .to_vec();
            scope[1..5].fill(0);
            h.put("meta", b"scope/\0\0", &scope);
        },
    );
    expect(Area::Ids, Remedy::Restore, "no such scope", |h| {
        h.delete("meta", b"scope/\0\0");
    });
    expect(
        Area::Catalog,
        Remedy::Restore,
        "no stored retention class",
        |h| {
            h.delete("meta", b"class/\0");
        },
    );
}

#[test]
fn a_log_with_a_hole_or_cut_records_is_a_fault() {
    let short = "commit 9 was durable, 2 was found";
    expect(Area::Log, Remedy::AcceptShort, short, |h| {
        h.delete("log1", &3_u64.to_be_bytes());
    });
    expect(Area::Log, Remedy::Restore, "cut short", |h| {
        let rows = h.rows("log1");
        h.put("log1", &rows[0].0, &rows[0].1[..20]);
    });
    let early = "segment 9 was sealed before segment";
    expect(Area::Log, Remedy::Restore, early, |h| {
        for (key, value) in h.rows("gen1") {
            let (_, rest) = key.split_at(8);
            h.put("gen1", &[&9_u64.to_be_bytes(), rest].concat(), &value);
        }
    });
}

/// A run of a segment that is still in the log, as a seal leaves it that was cut short.
#[test]
fn a_logged_id_that_its_sealed_run_lacks_is_a_fault() {
    expect(
        Area::Log,
        Remedy::Restore,
        "where its segment was sealed",
        |h| {
            let log = h.family("log1").name().strip_prefix("log1.").unwrap();
            let segment = u64::from_str_radix(log, 16).unwrap();
            for (key, value) in h.rows("gen1") {
                let (_, rest) = key.split_at(8);
                h.put("gen1", &[&segment.to_be_bytes(), rest].concat(), &value);
            }
        },
    );
}

#[test]
fn prepared_transactions_that_cannot_be_are_faults() {
    let (area, remedy) = (Area::Prepared, Remedy::Restore);
    let row = |h: &Harmed| h.rows("prepared").pop().unwrap();
    expect(area, remedy, "of an unknown form", |h| {
        h.put("prepared", &row(h).0, b"\x02");
    });
    expect(area, remedy, "the end of a transaction", |h| {
        h.put("prepared", b"eended", b"\x01");
    });
    expect(area, remedy, "is of no kind", |h| {
        h.put("prepared", b"x", b"");
    });
    expect(area, remedy, "have one id", |h| {
        h.put("prepared", b"pother", &row(h).1);
    });
    expect(area, remedy, "a table there is not", |h| {
        let mut value = row(h).1.to_vec();
        // Its last write: the table's number stands before the put, key and value.
        let at = value.len() - (1 + 4 + "in doubt".len() + 4 + "row".len()) - 4;
        value[at] = 9;
        h.put("prepared", b"pin doubt", &value);
    });
    expect(area, remedy, "is recorded as well", |h| {
        let mut value = row(h).1.to_vec();
        let at = value.windows(8).position(|w| w == b"in doubt").unwrap();
        // An id that was sealed, of eight bytes as well.
        value[at..at + 8].copy_from_slice(&5_u64.to_be_bytes());
        h.put("prepared", b"pin doubt", &value);
    });
    expect(area, remedy, "is recorded as well", |h| {
        let mut value = row(h).1.to_vec();
        let at = value.windows(8).position(|w| w == b"in doubt").unwrap();
        // One that is still in the log: a section of one id of one byte.
        value.splice(at..at + 8, *b"b");
        value[at - 6] = 1;
        let len = at - 27 - 4;
        let bytes = u32::from_le_bytes(value[len..len + 4].try_into().unwrap()) - 7;
        value[len..len + 4].copy_from_slice(&bytes.to_le_bytes());
        h.put("prepared", b"pin doubt", &value);
    });
}

#[test]
fn rows_that_do_not_decode_are_faults() {
    expect(Area::ResumePoints, Remedy::Restore, "unknown form", |h| {
        h.put("points", b"s", b"\x07");
    });
    expect(Area::Audit, Remedy::Restore, "audit", |h| {
        let rows = h.rows("audit");
        h.put("audit", &rows[0].0, b"\x09");
    });
    expect(Area::Catalog, Remedy::Restore, "a stored scope", |h| {
        h.put("meta", b"scope/\0\0", b"\0");
    });
    expect(Area::Catalog, Remedy::Restore, "a stored table", |h| {
        h.put("meta", b"table/\0\0\0\0", b"");
    });
    expect(
        Area::Catalog,
        Remedy::Restore,
        "hash seed is missing",
        |h| {
            h.delete("meta", b"seed");
        },
    );
    let other = "this release reads format 1";
    expect(Area::Catalog, Remedy::OtherRelease, other, |h| {
        h.put("meta", b"format", &9_u32.to_le_bytes());
    });
    expect(Area::Catalog, Remedy::Restore, "catalog is gone", |h| {
        h.delete("meta", b"format");
    });
    expect(Area::Table, Remedy::Restore, "are gone", |h| {
        h.put("meta", b"table/\0\0\0\x05", b"\0lost");
    });
}

#[test]
fn a_message_that_is_missing_from_an_outbox_is_a_fault() {
    const OUTBOX: &str = "table.00000001";
    let number = |n: u64| n.to_be_bytes();
    let point = |to: u64| [to.to_le_bytes(), [0; 8]].concat();
    for (missing, text) in [
        (1, "message 1 of"),
        (2, "message 2 of"),
        (3, "message 3 of"),
    ] {
        expect(Area::Table, Remedy::Restore, text, |h| {
            h.delete(OUTBOX, &number(missing));
        });
    }
    expect(Area::Table, Remedy::Restore, "past its last", |h| {
        h.put(OUTBOX, &[0xff], &point(5));
    });
    for (key, value) in [
        (&number(5)[..], &[0; 15][..]),
        (&[0xff], &[0; 15]),
        (&[1], &[0; 16]),
    ] {
        expect(Area::Table, Remedy::Restore, "unknown form", |h| {
            h.put(OUTBOX, key, value);
        });
    }
}
