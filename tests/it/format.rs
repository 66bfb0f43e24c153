//! A store of format 1, written once and kept in `tests/fixtures/format1`: every later release
//! must open it and answer the same.
//!
//! `FIXTURE=write cargo test … format_1` writes it anew (only when the format changes, into a
//! new folder). What is in it: sealed, merged and unsealed ids, a tombstone, a superseding
//! record, sliding, endless and per-id retentions, sources, two policy versions, a dropped
//! scope, rows, a resume point, audit rows, a filter snapshot.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use firstseen::{
    AuditEvent, Clock, Durability, Id, ManualClock, Options, Policy, Position, Result, Store, days,
};

fn fixture() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/format1")
}

fn open(dir: &Path, clock: &ManualClock) -> Result<Store> {
    let options = Options::new()
        .clock(Clock::Manual(clock.clone()))
        .durability(Durability::Synced)
        .segment_ids_max(4096)
        .background(false);
    Store::open(dir, options)
}

fn name(i: u32) -> String {
    format!("order-{i}")
}

/// How far the clock was when the fixture was closed.
const CLOSED_AFTER: Duration = Duration::from_secs(7 * 3600);

fn write(dir: &Path) -> Result<()> {
    let clock = ManualClock::new();
    let store = open(dir, &clock)?;
    let orders = store.scope("orders", Policy::remember(days(7)).sources())?;
    let hourly = store.scope("hourly", Policy::remember(Duration::from_secs(3600)))?;
    let sliding = store.scope(
        "sliding",
        Policy::sliding(Duration::from_secs(86_400), days(3)),
    )?;
    let endless = store.scope("endless", Policy::forever())?;
    let gone = store.scope("gone", Policy::remember(days(7)))?;
    let (rows, stock) = (store.table("rows")?, store.guarded_table("stock")?);
    let mut batch = store.batch();
    batch.always().put(&stock, "sku", 100_i64.to_le_bytes());
    for i in 0..50 {
        let id = name(i);
        let source = Id::new(&id).source("orders/3");
        batch
            .once(&orders, source)
            .put(&rows, &id, "row")
            .add(&stock, "sku", -1, 0..);
    }
    batch.resume_at("orders/3", 50);
    let _ = batch.commit()?;
    let _ = hourly.insert("taken over")?;
    let _ = sliding.insert("slid")?;
    let _ = endless.insert("kept")?;
    let _ = gone.insert("dropped")?;
    store.seal()?;
    assert!(orders.forget("order-0", "a test")?);
    assert!(store.drop_scope("gone")?);
    let orders = store.alter_scope("orders", Policy::remember(days(6)).sources())?;
    clock.advance(Duration::from_secs(3600));
    let _ = hourly.insert("taken over")?; // over the expired one
    let _ = sliding.insert("slid")?; // prolonged
    let _ = orders.insert(Id::new("brief").remember(Duration::from_secs(60)))?;
    store.seal()?;
    store.compact()?;
    clock.advance(CLOSED_AFTER - Duration::from_secs(3600));
    let _ = orders.insert("unsealed")?;
    store.rewind("orders/3", Position::from(40), "a test")?;
    store.close()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("the fixture").flatten() {
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(path, target).expect("a copy");
        }
    }
}

/// Leaves out what a store does without and what names the place it was made in.
fn prune(dir: &Path) {
    for entry in fs::read_dir(dir).expect("a folder").flatten() {
        let (path, name) = (
            entry.path(),
            entry.file_name().to_string_lossy().into_owned(),
        );
        if path.is_dir() {
            prune(&path);
        } else if name.starts_with("LOG") || name.starts_with("OPTIONS") || name == "LOCK" {
            fs::remove_file(path).expect("a file to leave out");
        }
    }
}

#[test]
fn a_store_of_format_1_opens_and_answers_as_it_did() {
    if std::env::var("FIXTURE").as_deref() == Ok("write") {
        let made = tempfile::tempdir().expect("a folder");
        write(made.path()).expect("a fixture");
        prune(made.path());
        copy(made.path(), &fixture());
    }
    let dir = tempfile::tempdir().expect("a folder");
    copy(&fixture(), dir.path());
    for empty in ["tmp", "filters"] {
        fs::create_dir_all(dir.path().join(empty)).expect("a folder");
    }
    check(dir.path()).expect("the fixture opens");
}

fn check(dir: &Path) -> Result<()> {
    let clock = ManualClock::new();
    let start = clock.now();
    clock.advance(CLOSED_AFTER);
    let store = open(dir, &clock)?;
    let orders = store.scope("orders", Policy::remember(days(6)).sources())?;
    for i in 1..50 {
        let seen = orders.peek(&name(i))?.expect("a known order");
        assert_eq!(seen.first_seen_at(), start, "order {i}");
        assert_eq!(seen.source(), Some("orders/3"));
    }
    assert!(orders.peek("order-0")?.is_none(), "it was forgotten");
    assert!(orders.peek("brief")?.is_none(), "its minute is over");
    assert!(orders.insert("unsealed")?.is_duplicate());
    assert!(orders.insert("order-0")?.is_first());
    let hourly = store.existing_scope("hourly")?.expect("the scope");
    assert!(
        hourly.insert("taken over")?.is_first(),
        "its second hour is over"
    );
    let sliding = store.existing_scope("sliding")?.expect("the scope");
    assert_eq!(
        sliding.peek("slid")?.expect("a known id").first_seen_at(),
        start
    );
    let endless = store.scope("endless", Policy::forever())?;
    assert_eq!(
        endless.peek("kept")?.expect("a known id").first_seen_at(),
        start
    );
    assert!(store.existing_scope("gone")?.is_none());
    let gone = store.scope("gone", Policy::remember(days(7)))?;
    assert!(
        gone.insert("dropped")?.is_first(),
        "a new scope of an old name starts empty"
    );
    let rows = store.table("rows")?;
    assert_eq!(rows.range("")?.count(), 50);
    let stock = store
        .guarded_table("stock")?
        .get("sku")?
        .expect("the stock");
    assert_eq!(stock.as_counter(), Some(50));
    assert_eq!(store.resume_point("orders/3")?, Some(Position::from(40)));
    let audit = store.audit()?.collect::<Result<Vec<_>>>()?;
    assert!(
        matches!(&audit[0].event, AuditEvent::Forgotten { scope, id }
            if scope == "orders" && id == "order-0")
    );
    let rewound = AuditEvent::Rewound {
        source: "orders/3".to_string(),
        from: Some(Position::from(50)),
        to: Position::from(40),
    };
    assert_eq!(audit[1].event, rewound);
    assert_eq!((audit.len(), audit[1].at), (2, start + CLOSED_AFTER));
    store.compact()?;
    assert!(orders.insert("order-49")?.is_duplicate());
    store.close()
}
