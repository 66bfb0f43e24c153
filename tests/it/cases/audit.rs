//! The audit: who did what, why and when; its bound; ids imported; ids explained.

use firstseen::{
    AuditEvent, Clock, Id, Imported, ManualClock, Options, Policy, Position, RecordState, Result,
    Store, Tier, Why, days,
};

use super::{expect_invalid, memory, quiet, secs, timed, week};

#[test]
fn the_audit_names_who_acted() {
    let store = Store::in_memory(quiet().actor("consumer-3")).unwrap();
    let ids = week(&store);
    let _ = ids.insert_all(["a", "b"]).unwrap();
    assert!(ids.forget("a", "asked for").unwrap());
    assert!(ids.forget("b", Why::new("asked for").by("alice")).unwrap());
    store.rewind("s", 5, Why::new("replay").by("bob")).unwrap();
    let store = store.crash_and_reopen().unwrap();
    let audit: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    let who: Vec<_> = audit.iter().map(|e| e.who.as_deref()).collect();
    assert_eq!(who, [Some("consumer-3"), Some("alice"), Some("bob")]);
    expect_invalid(
        Store::in_memory(quiet().actor("x".repeat(256)).audit_rows_max(999)),
        "audit_rows_max must be 1,000 or more; actor",
    );
    let points: Vec<_> = store.resume_points().unwrap().map(Result::unwrap).collect();
    assert_eq!(points, [("s".to_string(), Position::from(5))]);
    let none = memory();
    let _ = week(&none).insert("a").unwrap();
    assert!(week(&none).forget("a", "nobody").unwrap());
    assert_eq!(none.audit().unwrap().next().unwrap().unwrap().who, None);
}

/// The oldest entries go, and how many went is known, also after a crash.
#[test]
fn the_audit_is_bounded_and_counts_what_went() {
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .audit_rows_max(1000);
    let mut store = Store::in_memory(options).unwrap();
    let start = clock.now();
    for i in 0..2500_u64 {
        let ids = week(&store);
        let _ = ids.insert("a").unwrap();
        assert!(ids.forget("a", &format!("{i}")).unwrap());
        clock.advance(secs(1));
        if i % 500 != 499 {
            continue;
        }
        drop(ids);
        store = store.crash_and_reopen().unwrap();
        let audit = store.audit().unwrap();
        let (gone, until) = (audit.gone(), audit.gone_until());
        let kept: Vec<String> = audit.map(|e| e.unwrap().why).collect();
        assert!(kept.len() <= 1000, "{}", kept.len());
        assert!(kept.len() > 900 || i < 1000, "{}", kept.len());
        assert_eq!(gone + kept.len() as u64, i + 1, "each is there or counted");
        let expected: Vec<String> = (gone..=i).map(|n| n.to_string()).collect();
        assert_eq!(kept, expected, "the oldest went");
        assert_eq!(until, (gone > 0).then(|| start + secs(gone - 1)));
    }
}

/// Entries go by their age too, with the next act or by themselves.
#[test]
fn entries_that_are_too_old_go_and_are_counted() {
    let clock = ManualClock::new();
    let options = quiet()
        .clock(Clock::Manual(clock.clone()))
        .audit_age_max(days(30));
    let store = Store::in_memory(options).unwrap();
    let ids = week(&store);
    let forget = |why: &str| {
        let _ = ids.insert("a").unwrap();
        assert!(ids.forget("a", why).unwrap());
    };
    let kept = || -> Vec<String> {
        let audit = store.audit().unwrap();
        audit.map(|e| e.unwrap().why).collect()
    };
    for n in 0..3 {
        forget(&format!("{n}"));
        clock.advance(days(10));
    }
    // What removes something goes by the stored mark of time.
    store.seal().unwrap();
    forget("3");
    assert_eq!(kept(), ["0", "1", "2", "3"], "not a moment too early");
    clock.advance(secs(1));
    store.compact().unwrap();
    store.compact().unwrap();
    assert_eq!(kept(), ["1", "2", "3"], "by itself");
    assert_eq!(store.audit().unwrap().gone(), 1);
    clock.advance(days(10));
    store.seal().unwrap();
    forget("4");
    assert_eq!(kept(), ["2", "3", "4"], "with the next act");
    clock.advance(days(400));
    store.compact().unwrap();
    store.compact().unwrap();
    assert!(kept().is_empty());
    let audit = store.audit().unwrap();
    assert_eq!(audit.gone(), 5);
    assert_eq!(audit.gone_until(), Some(clock.now() - days(400)));
    expect_invalid(
        Store::in_memory(quiet().audit_age_max(secs(86_399))),
        "audit_age_max must be a day or more",
    );
}

/// Threads that forget at the same time lose no entry and miscount none.
#[test]
fn entries_of_many_threads_are_all_there() {
    let store = Store::in_memory(quiet().audit_rows_max(1000)).unwrap();
    std::thread::scope(|threads| {
        for t in 0..4 {
            let ids = week(&store);
            threads.spawn(move || {
                for i in 0..400 {
                    let id = format!("{t}-{i}");
                    let _ = ids.insert(&id).unwrap();
                    assert!(ids.forget(&id, "a test").unwrap());
                }
            });
        }
    });
    let audit = store.audit().unwrap();
    let gone = audit.gone();
    assert_eq!(gone as usize + audit.count(), 1600);
    assert!(gone >= 600, "{gone}");
}

#[test]
fn imported_ids_are_duplicates_until_their_own_time_is_over() {
    let (mut store, clock) = timed();
    let now = clock.now();
    let day = |n: u64| secs(n * 86_400);
    let ids = week(&store);
    let _ = ids.insert("known").unwrap();
    clock.advance(secs(1));
    let rows = [
        ("six days old", now - day(6)),
        ("new", now),
        ("expired", now - day(7)),
        ("known", now - day(2)),
        ("new", now - day(3)),
        ("of the future", now + day(9)),
        ("", now),
    ];
    let imported = ids.import(rows, "from the old table").unwrap();
    let Imported {
        recorded,
        known,
        expired,
        bad,
        in_progress,
        ..
    } = imported;
    assert_eq!(
        (recorded, known, expired, bad, in_progress),
        (3, 2, 1, 1, 0)
    );
    assert_eq!(ids.import(rows, "again").unwrap().recorded, 0);
    let audit: Vec<_> = store.audit().unwrap().map(Result::unwrap).collect();
    let event = AuditEvent::Imported {
        scope: "ids".to_string(),
        ids: 3,
    };
    assert_eq!((audit.len(), &audit[0].event), (1, &event));
    for _ in 0..2 {
        let ids = week(&store);
        let first = |id| ids.peek(id).unwrap().map(|s| s.first_seen_at());
        assert_eq!(first("six days old"), Some(now - day(6)));
        assert_eq!(first("known"), Some(now), "what is known stays");
        assert_eq!(first("of the future"), Some(now + secs(1)));
        assert!(ids.insert("new").unwrap().is_duplicate());
        store.seal().unwrap();
        drop(ids);
        store = store.crash_and_reopen().unwrap();
    }
    let ids = week(&store);
    clock.advance(day(1) - secs(2));
    assert!(ids.insert("six days old").unwrap().is_duplicate());
    clock.advance(secs(1));
    assert!(ids.insert("six days old").unwrap().is_first());
    expect_invalid(ids.import([("a", now)], ""), "reason");
}

/// An id's own retention counts from its time; sliding and endless scopes keep the time too.
#[test]
fn imports_keep_to_every_form_of_retention() {
    let (store, clock) = timed();
    let now = clock.now();
    let ids = store
        .scope("sourced", Policy::remember(days(7)).sources())
        .unwrap();
    let brief = Id::new("brief").remember(secs(100)).source("redis");
    let imported = ids.import([(brief, now - secs(60))], "a dump").unwrap();
    assert_eq!(imported.recorded, 1);
    assert_eq!(ids.peek("brief").unwrap().unwrap().source(), Some("redis"));
    let sliding = store
        .scope("sliding", Policy::sliding(secs(100), secs(150)))
        .unwrap();
    let endless = store.scope("endless", Policy::forever()).unwrap();
    for scope in [&sliding, &endless] {
        let imported = scope.import([("a", now - secs(60))], "a dump").unwrap();
        assert_eq!(imported.recorded, 1);
        let first = scope.peek("a").unwrap().unwrap().first_seen_at();
        assert_eq!(first, now - secs(60));
    }
    clock.advance(secs(39));
    store.seal().unwrap();
    assert!(ids.insert("brief").unwrap().is_duplicate());
    assert!(sliding.insert("a").unwrap().is_duplicate());
    clock.advance(secs(1));
    assert!(ids.insert("brief").unwrap().is_first());
    // Prolonged a second ago, up to its cap of 150 s from the first sight of the import.
    clock.advance(secs(49));
    assert!(sliding.peek("a").unwrap().is_some());
    clock.advance(secs(1));
    assert!(sliding.peek("a").unwrap().is_none());
    assert!(endless.peek("a").unwrap().is_some());
}

#[test]
fn an_explanation_tells_everything_of_an_id() {
    let (store, clock) = timed();
    let now = clock.now();
    let ids = week(&store);
    assert!(!ids.explain("a").unwrap().is_known());
    let _ = ids.insert("a").unwrap();
    let seen = ids.explain("a").unwrap().record.unwrap();
    assert_eq!(
        (seen.state, seen.tier),
        (RecordState::Remembered, Tier::ActiveSet)
    );
    assert_eq!(seen.seen.first_seen_at(), now);
    assert_eq!(seen.expires_at, Some(now + days(7)));
    assert!(seen.generation_ends_at > seen.expires_at && !seen.supersedes);
    store.seal().unwrap();
    let sealed = ids.explain("a").unwrap().record.unwrap();
    assert_eq!(sealed.tier, Tier::Generation);
    assert_eq!(
        (sealed.expires_at, sealed.class),
        (seen.expires_at, seen.class)
    );
    assert!(ids.forget("a", "a test").unwrap());
    let forgotten = ids.explain("a").unwrap().record.unwrap();
    assert_eq!(forgotten.state, RecordState::Forgotten);
    assert_eq!(
        (forgotten.tier, forgotten.supersedes),
        (Tier::ActiveSet, true)
    );
    let _ = ids.insert("b").unwrap();
    clock.advance(days(7));
    let expired = ids.explain("b").unwrap().record.unwrap();
    assert_eq!(expired.state, RecordState::Expired);
    let endless = store.scope("endless", Policy::forever()).unwrap();
    let _ = endless.insert("a").unwrap();
    let endless = endless.explain("a").unwrap().record.unwrap();
    assert_eq!(
        (endless.expires_at, endless.generation_ends_at),
        (None, None)
    );
    expect_invalid(ids.explain(""), "empty");
}

/// Records say what an export needs: an import of them into another store gives the same ids
/// with the same times.
#[test]
fn records_go_from_store_to_store() {
    let (store, clock) = timed();
    let ids = week(&store);
    for i in 0..100 {
        let id = format!("id-{i}");
        let retention = Id::new(&id).remember(secs(1000 + i));
        let _ = if i % 2 == 0 {
            ids.insert(&id)
        } else {
            ids.insert(retention)
        }
        .unwrap();
        clock.advance(secs(1));
    }
    let options = Options::new()
        .background(false)
        .clock(Clock::Manual(clock.clone()));
    let other = Store::in_memory(options).unwrap();
    let copies = week(&other);
    let all = |store: &firstseen::Scope| {
        let records = store.records(..).unwrap();
        let mut all: Vec<_> = records.map(Result::unwrap).collect();
        all.sort_by(|a, b| a.id.cmp(&b.id));
        all
    };
    let records = all(&ids);
    let rows = records.iter().map(|r| {
        let at = r.seen.first_seen_at();
        let retention = r.expires_at.unwrap().duration_since(at).unwrap();
        (Id::new(&r.id).remember(retention), at)
    });
    assert_eq!(copies.import(rows, "moved").unwrap().recorded, 100);
    assert_eq!(all(&copies), records);
}
