//! `claims`, `dead` and `sequences`.

use std::path::Path;

use firstseen::{Error, Id, Options, Policy, Producer, SequencePolicy, Store, Verdict, days};
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

#[test]
fn a_peek_tells_of_claim_and_dead_letter_and_stat_counts_them() {
    let dir = tempfile::tempdir().unwrap();
    let _in_use = make(dir.path()).unwrap();
    let peek = run(
        dir.path(),
        "peek --store s --scope jobs --json job-1 job-2 job-9",
    );
    let found = peek.expect(4).json_lines();
    assert_eq!(
        (&found[0]["known"], &found[1]["known"]),
        (&json!(true), &json!(true))
    );
    assert_eq!(found[0]["claim"]["state"], json!("Claimed"));
    assert_eq!(found[0]["claim"]["attempt"], json!(1));
    assert_eq!(found[1]["dead_letter"]["why"], json!("no such customer"));
    assert_eq!(found[1]["outcome"], json!("dead"));
    assert_eq!(found[2]["known"], json!(false));
    let me = format!("open by process {}", std::process::id());
    assert!(peek.stderr.contains(&me), "{}", peek.stderr);
    let text = run(dir.path(), "peek --store s --scope jobs job-1 job-2");
    let text = String::from_utf8(text.expect(0).stdout.clone()).unwrap();
    for part in [
        "claim: Claimed, attempt 1",
        "dead letter since",
        "no such customer",
    ] {
        assert!(text.contains(part), "{text} lacks {part}");
    }

    let stat = run(dir.path(), "stat --store s --json")
        .expect(0)
        .json_lines();
    assert_eq!(stat[0]["producers"], json!(1));
    assert_eq!(stat[0]["dead_letters"]["jobs"], json!(2));
    assert_eq!(stat[0]["claims"]["jobs"]["held"]["count"], json!(1));
    let text = run(dir.path(), "stat --store s");
    let text = String::from_utf8(text.expect(0).stdout.clone()).unwrap();
    assert!(
        text.contains("dead letters") && text.contains("1, oldest"),
        "{text}"
    );
}

#[test]
fn an_unknown_outcome_is_decided_with_a_reason_and_a_name() {
    let dir = tempfile::tempdir().unwrap();
    let store = make(dir.path()).unwrap();
    let jobs = store.scope("jobs", Policy::remember(days(7))).unwrap();
    let mut claim = jobs.claim("job-4").unwrap().first().unwrap();
    claim.start();
    claim.outcome_unknown("a timeout").unwrap();
    drop((claim, jobs));
    store.close().unwrap();
    let decide = "decide --store s --scope jobs --outcome done";
    run(dir.path(), &format!("{decide} job-4")).expect(2);
    run(dir.path(), &format!("{decide} --why asked --by ada job-4")).expect(0);
    run(dir.path(), &format!("{decide} --why asked --by ada job-4")).expect(4);
    let audit = run(dir.path(), "audit --store s --json")
        .expect(0)
        .json_lines();
    assert_eq!(
        (&audit[0]["who"], &audit[0]["outcome"]),
        (&json!("ada"), &json!("done"))
    );
    let found = run(dir.path(), "peek --store s --scope jobs --json job-4");
    let found = found.expect(0).json_lines();
    assert_eq!(
        (&found[0]["outcome"], &found[0]["attempt"]),
        (&json!("done"), &json!(1))
    );
}

#[test]
fn top_names_scopes_and_sources_with_bounds_and_says_when() {
    let dir = tempfile::tempdir().unwrap();
    make(dir.path()).unwrap().close().unwrap();
    let top = run(dir.path(), "top --store s");
    top.expect_said(4, "top_sources");
    let options = Options::new().top_sources(50);
    let store = Store::open(dir.path().join("s"), options).unwrap();
    let jobs = store.scope("jobs", Policy::remember(days(7))).unwrap();
    for source in ["web", "web", "app", "web"] {
        let _ = jobs.insert(Id::new("x").source(source)).unwrap();
    }
    drop(jobs);
    store.close().unwrap();
    let top = run(dir.path(), "top --store s --json")
        .expect(0)
        .json_lines();
    let pairs = &top[0]["sources_by_scope"];
    let web = json!({ "scope": "jobs", "source": "web", "count": 2, "error": 0 });
    assert_eq!((&pairs[0], pairs.as_array().unwrap().len()), (&web, 2));
    assert_eq!(
        (&top[0]["duplicates"], &top[0]["with_source"]),
        (&json!(3), &json!(3))
    );
    let text = run(dir.path(), "top --store s --show 1");
    let text = String::from_utf8(text.expect(0).stdout.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(
        lines[1].starts_with("jobs   (all)") && lines[2].starts_with("jobs   web"),
        "{text}"
    );
    assert!(
        lines[3].starts_with("3 duplicates in the 10 minutes before"),
        "{text}"
    );
}
