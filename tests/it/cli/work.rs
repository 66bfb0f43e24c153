//! `claims`, `dead` and `sequences`.

use std::path::Path;

use firstseen::{Error, Options, Policy, Producer, SequencePolicy, Store, Verdict, days};
use serde_json::json;

use super::program::run;

/// A store with a claim under way, two dead letters and a producer.
fn make(dir: &Path) -> Result<Store, Error> {
    let store = Store::open(dir.join("s"), Options::new())?;
    let jobs = store.scope("jobs", Policy::remember(days(7)))?;
    let Verdict::First(mut claim) = jobs.claim("job-1")? else {
        panic!("nobody had it");
    };
    claim.start();
    std::mem::forget(claim);
    let mut batch = store.batch();
    batch
        .once(&jobs, "job-2")
        .dead_letter("no such customer", b"{}");
    batch.once(&jobs, "job-3").dead_letter("no price", b"[]");
    let _ = batch.commit()?;
    let clicks = store.sequences("clicks", SequencePolicy::new())?;
    let web = Producer {
        name: "web-1",
        epoch: 4,
    };
    for n in [1, 2, 5] {
        let _ = clicks.accept(web, n)?;
    }
    store.sync()?;
    Ok(store)
}

#[test]
fn who_is_on_call_sees_claims_dead_letters_and_producers_of_a_store_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let _in_use = make(dir.path()).unwrap();

    let ran = run(dir.path(), "claims --store s --scope jobs --json");
    let claims = ran.expect(0).json_lines();
    assert_eq!(claims.len(), 1);
    assert_eq!(
        (&claims[0]["id"], &claims[0]["attempt"]),
        (&json!("job-1"), &json!(1))
    );
    let text = run(dir.path(), "claims --store s --scope jobs")
        .expect(0)
        .stdout
        .clone();
    assert!(String::from_utf8(text).unwrap().contains("job-1"));

    let ran = run(dir.path(), "dead list --store s --scope jobs --json");
    let mut dead = ran.expect(0).json_lines();
    dead.sort_by_key(|letter| letter["id"].to_string());
    let found: Vec<_> = dead.iter().map(|d| (&d["id"], &d["why"])).collect();
    let (two, three) = (json!("job-2"), json!("job-3"));
    let (customer, price) = (json!("no such customer"), json!("no price"));
    assert_eq!(found, [(&two, &customer), (&three, &price)]);
    let ran = run(
        dir.path(),
        "dead show --store s --scope jobs --json job-3 job-9",
    );
    let shown = ran.expect(4).json_lines();
    assert_eq!(
        (&shown[0]["payload"], &shown[1]["dead"]),
        (&json!("[]"), &json!(false))
    );

    let ran = run(dir.path(), "sequences --store s --json");
    let producers = ran.expect(0).json_lines();
    let web = &producers[0];
    let known = [
        &web["space"],
        &web["producer"],
        &web["epoch"],
        &web["high"],
        &web["gaps"],
    ];
    assert_eq!(
        known,
        [
            &json!("clicks"),
            &json!("web-1"),
            &json!(4),
            &json!(5),
            &json!(2)
        ]
    );
    run(dir.path(), "sequences --store s --space other").expect(1);
}

#[test]
fn dead_letters_are_ended_by_name_and_with_a_reason() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path()).unwrap().close().unwrap();

    run(dir.path(), "dead redrive --store s --scope jobs job-2").expect(2);
    let redrive = "dead redrive --store s --scope jobs --why fixed --actor ada job-2";
    run(dir.path(), redrive).expect(0);
    run(dir.path(), redrive).expect(4);
    run(
        dir.path(),
        "dead purge --store s --scope jobs --why old --actor ada job-3",
    )
    .expect(0);
    assert_eq!(
        run(dir.path(), "dead list --store s --scope jobs")
            .expect(0)
            .stdout,
        b""
    );

    let audit = run(dir.path(), "audit --store s --json")
        .expect(0)
        .json_lines();
    let what: Vec<_> = audit
        .iter()
        .map(|a| (&a["what"], &a["who"], &a["why"]))
        .collect();
    let text = |s: &str| json!(s);
    let (ada, redriven, purged) = (text("ada"), text("redriven"), text("purged"));
    let (fixed, old) = (text("fixed"), text("old"));
    assert_eq!(what, [(&redriven, &ada, &fixed), (&purged, &ada, &old)]);

    let store = Store::open(dir.path().join("s"), Options::new()).unwrap();
    let jobs = store.scope("jobs", Policy::remember(days(7))).unwrap();
    assert!(jobs.claim("job-2").unwrap().is_first());
    assert!(!jobs.claim("job-3").unwrap().is_first());
}
