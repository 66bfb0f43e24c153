//! Two-phase commit: what a prepared transaction holds, and how it ends.

mod ends;
mod held;
mod reopened;

use firstseen::{Batch, Policy, Scope, Sighting, Store, Table, Verdict, Verdicts};

use super::{counter, ms, put, quiet, week};

/// A store with what the tests write to.
struct World {
    store: Store,
    ids: Scope,
    rows: Table,
    stock: Table,
}

impl World {
    fn of(store: Store) -> World {
        World {
            ids: week(&store),
            rows: store.table("rows").unwrap(),
            stock: store.guarded_table("stock").unwrap(),
            store,
        }
    }

    /// In memory, with a stock of 5; nobody waits long.
    fn new() -> World {
        let world = World::of(Store::in_memory(quiet().wait_max(ms(20))).unwrap());
        put(&world.store, &world.stock, "sku", 5_i64.to_le_bytes());
        world
    }

    fn crashed(self) -> World {
        let World {
            store,
            ids,
            rows,
            stock,
        } = self;
        drop((ids, rows, stock));
        World::of(store.crash_and_reopen().unwrap())
    }

    /// An order: its id, a row, one of the stock, and where to go on.
    fn order(&self, id: &str, next: u64) -> Batch {
        let mut batch = self.store.batch();
        let mut item = batch.once(&self.ids, id);
        item.put(&self.rows, id, "sold")
            .add(&self.stock, "sku", -1, 0..);
        batch.resume_at("orders/3", next);
        batch
    }

    fn next(&self) -> Option<u64> {
        let point = self.store.resume_point("orders/3").unwrap();
        point.and_then(|p| p.as_u64())
    }

    /// Id, row, stock and resume point, as all can see them.
    #[track_caller]
    fn expect(&self, id: &str, is_there: bool, stock: i64, next: Option<u64>) {
        assert_eq!(self.ids.peek(id).unwrap().is_some(), is_there, "{id}");
        assert_eq!(self.rows.get(id).unwrap().is_some(), is_there, "{id}'s row");
        assert_eq!(
            (counter(&self.stock, "sku"), self.next()),
            (Some(stock), next)
        );
    }

    fn names(&self) -> Vec<String> {
        let all = self.store.in_doubt().unwrap();
        let names = all.iter().map(|d| String::from_utf8_lossy(&d.txn));
        names.map(|name| name.into_owned()).collect()
    }
}

#[track_caller]
fn is_first(verdicts: &Verdicts) {
    assert!(verdicts.iter().all(Verdict::is_first), "{verdicts:?}");
}

#[track_caller]
fn is_in_progress(verdict: &Verdict) {
    let Verdict::InProgress(progress) = verdict else {
        panic!("{verdict:?}");
    };
    assert!(!progress.retry_after().is_zero());
}

fn first_seen(verdict: &Verdict) -> std::time::SystemTime {
    let seen: Option<&Sighting> = match verdict {
        Verdict::Duplicate(seen) => Some(seen),
        _ => None,
    };
    seen.unwrap_or_else(|| panic!("{verdict:?}"))
        .first_seen_at()
}

#[test]
fn a_prepared_batch_shows_nothing_and_its_commit_everything_at_once() {
    let world = World::new();
    let mut batch = world.order("a", 7);
    is_first(&batch.prepare("t1").unwrap());
    assert!(batch.is_empty(), "it is empty, as after a commit");
    world.expect("a", false, 5, None);
    assert_eq!(world.ids.scan(..).unwrap().count(), 0);
    is_in_progress(&world.ids.insert("a").unwrap());
    let doubt = world.store.in_doubt().unwrap().remove(0);
    assert_eq!(
        (&doubt.txn[..], doubt.ids, doubt.writes),
        (&b"t1"[..], 1, 3)
    );
    assert_eq!(
        (doubt.scopes, doubt.tables),
        (vec!["ids".into()], vec!["rows".into(), "stock".into()])
    );

    let outcome = world.store.commit_prepared("t1").unwrap();
    assert_eq!((outcome.ids, outcome.is_repeat), (1, false));
    world.expect("a", true, 4, Some(7));
    assert!(world.ids.insert("a").unwrap().is_duplicate());
    assert!(world.names().is_empty());
}

#[test]
fn an_aborted_batch_was_never_there_and_is_audited() {
    let world = World::new();
    is_first(&world.order("a", 7).prepare("t1").unwrap());
    let outcome = world.store.abort_prepared("t1", "no checkpoint").unwrap();
    assert_eq!((outcome.ids, outcome.is_repeat), (0, false));
    world.expect("a", false, 5, None);
    let entry = world.store.audit().unwrap().next().unwrap().unwrap();
    let settled = firstseen::AuditEvent::TransactionSettled {
        txn: "t1".into(),
        committed: false,
    };
    assert_eq!((entry.event, &entry.why[..]), (settled, "no checkpoint"));
    is_first(&world.order("a", 7).commit().unwrap());
    world.expect("a", true, 4, Some(7));
}

/// The stored result, the payload, the source and `if_refused` come with the commit, and the
/// verdicts that the prepare told are those of the commit.
#[test]
fn verdicts_and_all_that_is_stored_are_those_of_an_ordinary_commit() {
    let fill = |world: &World| {
        let policy = Policy::remember(super::secs(60));
        let policy = policy.results().payloads().sources();
        let rich = world.store.scope("rich", policy).unwrap();
        let mut batch = world.store.batch();
        let id = firstseen::Id::new("r").payload(b"body").source("s");
        batch.once(&rich, id).result("receipt");
        batch
            .once(&world.ids, "many")
            .add(&world.stock, "sku", -9, 0..)
            .if_refused(|w| {
                w.put(&world.rows, "many", "refused");
            });
        batch
            .once(&world.ids, "none")
            .add(&world.stock, "sku", -9, 0..);
        batch
            .once(&world.ids, "old")
            .put(&world.rows, "old", "twice");
        batch.once(&world.ids, "");
        batch
            .once(&world.ids, "poison")
            .dead_letter("no sense", b"?");
        (batch, rich)
    };
    let told = |is_prepared: bool| {
        let world = World::new();
        assert!(world.ids.insert("old").unwrap().is_first());
        let (mut batch, rich) = fill(&world);
        let verdicts = if is_prepared {
            let verdicts = batch.prepare("t").unwrap();
            assert!(world.ids.insert("none").unwrap().is_first(), "not recorded");
            assert_eq!(world.store.commit_prepared("t").unwrap().ids, 3);
            verdicts
        } else {
            let verdicts = batch.commit().unwrap();
            assert!(world.ids.insert("none").unwrap().is_first());
            verdicts
        };
        let kinds = verdicts.iter().map(|v| format!("{:?}", v.action()));
        let other = firstseen::Id::new("r").payload(b"other");
        let seen = rich.peek("r").unwrap().unwrap();
        let many = world.ids.peek("many").unwrap().unwrap();
        (
            kinds.collect::<Vec<_>>(),
            (
                seen.result().map(<[u8]>::to_vec),
                seen.source().map(str::to_string),
            ),
            matches!(rich.insert(other).unwrap(), Verdict::PayloadMismatch(_)),
            many.was_refused(),
            world.rows.range("").unwrap().count(),
            world.ids.dead_letters().unwrap().count(),
            world.store.stats().unwrap().verdicts,
        )
    };
    assert_eq!(told(true), told(false));
}

#[test]
fn a_batch_that_was_held_can_be_prepared() {
    let world = World::new();
    let mut batch = world.store.batch();
    batch.once(&world.ids, "a");
    batch.once(&world.ids, "b");
    is_first(&batch.hold().unwrap());
    batch.item(1).put(&world.rows, "b", "late");
    is_first(&batch.prepare("t").unwrap());
    is_in_progress(&world.ids.insert("b").unwrap());
    world.store.commit_prepared("t").unwrap();
    assert!(world.rows.get("b").unwrap().is_some());
    assert_eq!(world.ids.scan(..).unwrap().count(), 2);
}

/// One with nothing to write is a transaction all the same: the coordinator asks for its end.
#[test]
fn a_batch_of_duplicates_is_prepared_and_ends() {
    let world = World::new();
    let _ = world.ids.insert("a").unwrap();
    let mut batch = world.store.batch();
    batch.once(&world.ids, "a");
    assert!(batch.prepare("t").unwrap()[0].is_duplicate());
    assert!(
        world.ids.insert("a").unwrap().is_duplicate(),
        "held no more"
    );
    assert_eq!(world.store.commit_prepared("t").unwrap().ids, 0);
    assert!(world.names().is_empty());
}

#[test]
fn numbers_of_producers_are_recorded_by_the_commit() {
    use firstseen::{Producer, SequencePolicy};
    let world = World::new();
    let policy = || SequencePolicy::new().producers_max(1);
    let events = world.store.sequences("events", policy()).unwrap();
    let web = |epoch| Producer { name: "web", epoch };
    assert!(events.accept(web(1), 5).unwrap().is_first());
    let mut batch = world.store.batch();
    let other = Producer {
        name: "other",
        epoch: 1,
    };
    batch.sequence(&events, other, 1).put(&world.rows, "n", "1");
    is_first(&batch.prepare("t").unwrap());
    // The one that makes room for it is locked too.
    for producer in [other, web(1)] {
        let locked = events.accept(producer, 9);
        super::expect_error(locked, firstseen::ErrorKind::Busy, firstseen::Recorded::No);
    }
    let drop_it = world.store.drop_sequences("events");
    super::expect_error(
        drop_it,
        firstseen::ErrorKind::InDoubt,
        firstseen::Recorded::No,
    );
    let world = {
        drop(events);
        world.crashed()
    };
    world.store.commit_prepared("t").unwrap();
    let events = world.store.sequences("events", policy()).unwrap();
    assert!(events.accept(other, 1).unwrap().is_duplicate());
    let names: Vec<String> = events
        .producers()
        .unwrap()
        .into_iter()
        .map(|p| p.name)
        .collect();
    assert_eq!(names, ["other"]);

    // Also while the space is open.
    let mut batch = world.store.batch();
    batch.sequence(&events, other, 2);
    is_first(&batch.prepare("t2").unwrap());
    world.store.commit_prepared("t2").unwrap();
    assert!(events.accept(other, 2).unwrap().is_duplicate());
}
