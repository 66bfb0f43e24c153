//! What a call may say about an id beside its bytes, and looking at many of them.

use std::collections::BTreeSet;

use firstseen::{Id, Policy, Scope, Store, Verdict, days};

use super::{memory, secs, timed, week};

fn with_old<'a>(new: &'a str, old: &'a str) -> Id<'a> {
    Id::new(new).also(old)
}

/// `Id::also`: for the time of a key migration an id seen under either form is a duplicate.
#[test]
fn an_id_seen_under_its_older_form_is_a_duplicate() {
    let places: [fn(&Store); 2] = [|_| {}, |store| store.seal().unwrap()];
    for place in places {
        let store = memory();
        let ids = week(&store);
        assert!(ids.insert("old-1").unwrap().is_first());
        place(&store);
        assert!(
            ids.insert(with_old("new-1", "old-1"))
                .unwrap()
                .is_duplicate()
        );
        // A new one is recorded under the new form only.
        assert!(ids.insert(with_old("new-2", "old-2")).unwrap().is_first());
        assert_eq!(ids.peek("old-2").unwrap(), None);
        assert!(ids.insert("new-2").unwrap().is_duplicate());
        place(&store);
        assert!(
            ids.insert(with_old("new-2", "old-2"))
                .unwrap()
                .is_duplicate()
        );
    }
}

#[test]
fn within_a_batch_old_and_new_forms_meet() {
    let store = memory();
    let ids = week(&store);
    let firsts = |ids: &Scope, items: &[Id<'_>]| -> Vec<bool> {
        ids.insert_all(items.iter().copied())
            .unwrap()
            .iter()
            .map(|v| v.is_first())
            .collect()
    };
    let mixed = [
        Id::new("o"),
        with_old("n", "o"),
        with_old("n", "o"),
        Id::new("n"),
    ];
    // The second one is a duplicate of the first, so the new form is recorded by the last.
    assert_eq!(firsts(&ids, &mixed), [true, false, false, true]);
    let twice = [with_old("p", "q"), with_old("p", "q")];
    assert_eq!(firsts(&ids, &twice), [true, false]);
    // Two callers, each with the other's order, must not wait for each other for ever.
    std::thread::scope(|s| {
        for flip in [false, true] {
            let ids = &ids;
            s.spawn(move || {
                for n in 0..500 {
                    let (a, b) = (format!("a{n}"), format!("b{n}"));
                    let id = if flip {
                        with_old(&a, &b)
                    } else {
                        with_old(&b, &a)
                    };
                    let verdict = ids.insert(id).unwrap();
                    assert!(verdict.is_first() || verdict.is_duplicate(), "{verdict:?}");
                }
            });
        }
    });
    assert_eq!(ids.scan(..).unwrap().count(), 2 + 1 + 500);
}

/// A scan streams a scope's ids, each once, filtered by first sight.
#[test]
fn a_scan_tells_the_ids_of_a_range_of_time() {
    let (store, clock) = timed();
    let ids = store.scope("s", Policy::remember(secs(3600))).unwrap();
    let other = store.scope("other", Policy::remember(secs(3600))).unwrap();
    let mut times = Vec::new();
    for part in 0..5_u32 {
        times.push(clock.now());
        for n in 0..100 {
            let id = (part * 100 + n).to_be_bytes();
            assert!(ids.insert(&id).unwrap().is_first());
            assert!(other.insert(&id).unwrap().is_first());
        }
        if part % 2 == 0 {
            store.seal().unwrap();
        }
        clock.advance(secs(60));
    }
    let of = |range: &dyn Fn() -> firstseen::Scan| -> BTreeSet<u32> {
        let all: Vec<u32> = range()
            .map(|item| u32::from_be_bytes(item.unwrap().0[..].try_into().unwrap()))
            .collect();
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!(all.len(), distinct.len(), "an id came twice");
        distinct
    };
    assert_eq!(of(&|| ids.scan(..).unwrap()), (0..500).collect());
    assert_eq!(
        of(&|| ids.scan(times[1]..times[3]).unwrap()),
        (100..300).collect()
    );
    assert_eq!(
        of(&|| ids.scan(times[1]..=times[3]).unwrap()),
        (100..400).collect()
    );
    assert_eq!(of(&|| ids.scan(times[4]..).unwrap()), (400..500).collect());
    assert!(ids.forget(&7_u32.to_be_bytes(), "test").unwrap());
    assert_eq!(of(&|| ids.scan(..times[1]).unwrap()).len(), 99);
    clock.advance(secs(3300));
    assert_eq!(of(&|| ids.scan(..).unwrap()), (100..500).collect());
}

/// A scan sees the store as it was when it began.
#[test]
fn a_scan_is_not_disturbed_by_what_happens_meanwhile() {
    let store = memory();
    let ids = week(&store);
    for n in 0..1000_u32 {
        let _ = ids.insert(&n.to_be_bytes()).unwrap();
        if n % 250 == 249 {
            store.seal().unwrap();
        }
    }
    let mut scan = ids.scan(..).unwrap();
    let mut seen = scan.by_ref().take(10).count();
    for n in 1000..2000_u32 {
        let _ = ids.insert(&n.to_be_bytes()).unwrap();
    }
    store.compact().unwrap();
    store.compact().unwrap();
    seen += scan.filter(|item| item.is_ok()).count();
    assert_eq!(seen, 1000);
    assert_eq!(ids.scan(..).unwrap().count(), 2000);
}

/// A duplicate says when it was first seen, and each time the same.
#[test]
fn a_sighting_keeps_its_time_through_every_place() {
    let (store, clock) = timed();
    let policies = [
        Policy::remember(days(7)),
        Policy::sliding(days(7), days(70)),
        Policy::forever(),
    ];
    for (n, policy) in policies.iter().enumerate() {
        let name = format!("s{n}");
        let ids = store.scope(&name, policy.clone()).unwrap();
        let seen_at = clock.now();
        assert!(ids.insert("a").unwrap().is_first());
        let steps: [fn(&Store); 4] = [
            |_| {},
            |s| s.seal().unwrap(),
            |_| {},
            |s| s.compact().unwrap(),
        ];
        for step in steps {
            clock.advance(secs(60));
            let Verdict::Duplicate(seen) = ids.insert("a").unwrap() else {
                panic!("{policy:?}")
            };
            assert_eq!(seen.first_seen_at(), seen_at, "{policy:?}");
            assert!(!seen.was_refused());
            step(&store);
        }
    }
}
