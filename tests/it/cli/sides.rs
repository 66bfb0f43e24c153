//! `export`, `import`, `reconcile`, `audit` and `resume-points`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;

use firstseen::{Error, Failure, Id, Options, Policy, Store, Verdict, days};
use serde_json::{Value, json};

use super::program::{run, run_piped};

const ROWS: &[u8] = b"a,b\n1,x\n2,y\n3,z\n";

#[test]
fn an_export_is_imported_into_another_store_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key a", ROWS).expect(0);
    let exported = run(dir.path(), "export --store s");
    assert_eq!(exported.expect(0).json_lines().len(), 3);
    let into = "import --store other --retention 7d --json";
    let ran = run_piped(dir.path(), into, &exported.stdout);
    let summary = ran.expect(0).json_lines();
    assert_eq!(
        (&summary[0]["recorded"], &summary[0]["known"]),
        (&json!(3), &json!(0))
    );
    let again = run_piped(dir.path(), into, &exported.stdout);
    let summary = again.expect(0).json_lines();
    assert_eq!(
        (&summary[0]["recorded"], &summary[0]["known"]),
        (&json!(0), &json!(3))
    );
    let sorted = |text: &[u8]| {
        let mut lines: Vec<_> = text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
        lines.sort();
        lines
    };
    let copy = run(dir.path(), "export --store other");
    assert_eq!(sorted(&copy.expect(0).stdout), sorted(&exported.stdout));
    // What was imported is a duplicate.
    let ran = run_piped(dir.path(), "dedup --store other --key a --json", ROWS);
    assert_eq!(ran.expect(0).counts(), [3, 0, 3, 0]);
}

/// Results, fingerprints of payloads and outcomes go along, into a store of another seed too.
#[test]
fn an_export_carries_results_fingerprints_and_outcomes() {
    let dir = tempfile::tempdir().unwrap();
    let policy = || Policy::remember(days(7)).payloads().results().sources();
    let make = |name: &str| Store::open(dir.path().join(name), Options::new()).unwrap();
    let store = make("s");
    let pays = store.scope("default", policy()).unwrap();
    let paid = Id::new("paid").payload(b"body").source("web");
    let once = pays.once(paid, |tx| {
        tx.result(b"receipt");
        Ok::<_, Error>(())
    });
    assert!(once.unwrap().is_first());
    let mut claim = pays.claim("declined").unwrap().first().unwrap();
    claim.fail(Failure::Permanent, "no funds").unwrap();
    let mut batch = store.batch();
    batch.once(&pays, "bad").dead_letter("no sense", b"");
    let _ = batch.commit().unwrap();
    drop((claim, pays, batch));
    store.close().unwrap();
    let exported = run(dir.path(), "export --store s");
    assert_eq!(exported.expect(0).json_lines().len(), 3);
    let into = "import --store t --retention 7d --json";
    let ran = run_piped(dir.path(), into, &exported.stdout);
    let summary = ran.expect(0).json_lines();
    assert_eq!(summary[0]["recorded"], json!(3));
    assert_eq!(summary[0]["fingerprints_left_out"], json!(0));
    let sorted = |ran: &super::program::Ran| {
        let mut lines: Vec<_> = ran
            .expect(0)
            .json_lines()
            .iter()
            .map(Value::to_string)
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(
        sorted(&run(dir.path(), "export --store t")),
        sorted(&exported)
    );

    let store = make("t");
    let pays = store.scope("default", policy()).unwrap();
    let Verdict::Duplicate(seen) = pays.insert(paid).unwrap() else {
        panic!("it was imported");
    };
    assert_eq!(
        (seen.result(), seen.source()),
        (Some(&b"receipt"[..]), Some("web"))
    );
    let other = pays
        .insert(Id::new("paid").payload(b"another body"))
        .unwrap();
    assert!(matches!(other, Verdict::PayloadMismatch(_)), "{other:?}");
    let Verdict::Failed(seen) = pays.insert("declined").unwrap() else {
        panic!("it failed there");
    };
    assert_eq!(
        (seen.result(), seen.attempt()),
        (Some(&b"no funds"[..]), Some(1))
    );
    assert!(matches!(
        pays.insert("bad").unwrap(),
        Verdict::DeadLettered(_)
    ));
    let key = pays.payload_key().unwrap();
    assert!(store.scope("default", policy().payload_key(key)).is_ok());
    drop((pays, store));

    // A scope with a key of its own can't compare them: they are left out, and that is told.
    run_piped(dir.path(), "dedup --store u --key a", ROWS).expect(0);
    let ran = run_piped(dir.path(), "import --store u --json", &exported.stdout);
    assert_eq!(
        ran.expect(0).json_lines()[0]["fingerprints_left_out"],
        json!(1)
    );
    assert!(ran.stderr.contains("another key"), "{}", ran.stderr);
    let store = make("u");
    let pays = store.scope("default", policy()).unwrap();
    assert!(
        pays.insert(Id::new("paid").payload(b"another body"))
            .unwrap()
            .is_duplicate()
    );
    let other = store.scope("default", policy().payload_key(key));
    assert!(other.is_err_and(|e| e.to_string().contains("payload key")));
    let bad = "{\"hex\":\"61\",\"first_seen_at\":\"2024-11-30T12:00:00Z\",";
    for (line, said) in [
        ("\"fingerprint\":\"00\"}", "payload_key: it is missing"),
        (
            "\"fingerprint\":\"00\",\"payload_key\":\"0011223344556677\"}",
            "not 16 bytes",
        ),
        ("\"outcome\":\"lost\"}", "none of done, failed, dead"),
        ("\"attempt\":-1}", "no number of an attempt"),
        ("\"result_hex\":\"0\"}", "hexadecimal"),
    ] {
        let line = format!("{bad}{line}\n");
        run_piped(dir.path(), "import --store v", line.as_bytes()).expect_said(3, said);
    }
}

#[test]
fn csv_and_a_redis_listing_give_a_warm_window() {
    let dir = tempfile::tempdir().unwrap();
    let rows = b"seen,order\n2020-01-01,old\n@4000000000,\"a,b\"\n2h,never\n";
    let import = "import --store s --format csv --id order --time seen --json";
    let ran = run_piped(dir.path(), import, rows);
    ran.expect_said(3, "line 4, column 1 (seen): \"2h\" is no time");
    let summary = ran.json_lines();
    let counts = |name: &str| summary[0][name].clone();
    assert_eq!(
        (counts("recorded"), counts("expired")),
        (json!(1), json!(1))
    );
    run(dir.path(), "peek --store s a,b").expect(0);
    for (rows, said) in [
        (
            &b"seen,order\n@1,\"a\nb\"\n\n@1\n"[..],
            "line 5, column 2 (order): it is missing",
        ),
        (
            b"seen,order\n@1,\n",
            "line 2, column 2 (order): an id of 0 bytes",
        ),
    ] {
        run_piped(dir.path(), import, rows).expect_said(3, said);
    }
    let jsonl = "import --store s --format jsonl --id a.id --time at";
    let rows = b"{\"a\":{\"id\":\"json\"},\"at\":\"2999-01-01\"}\n{\"a\": ";
    run_piped(dir.path(), jsonl, rows).expect_said(3, "line 2, column 6: invalid JSON");
    run(dir.path(), "peek --store s json").expect(0);

    let listing = b"dedup:k1\t60\ndedup:k2\ndedup:k3\t-1\ndedup:k4\t-2\nother\ndedup:k5\tx\n";
    let redis = "import --store s --format redis --prefix dedup: --json";
    let ran = run_piped(dir.path(), redis, listing);
    ran.expect_said(3, "line 6, column 10: the remaining time is no number");
    let summary = ran.json_lines();
    assert_eq!(summary[0]["recorded"], json!(3));
    assert_eq!(summary[0]["passed_over"], json!(2));
    let ran = run(dir.path(), "peek --store s --json k1 k2 k3");
    let found = ran.expect(0).json_lines();
    assert!(found[0]["expires_at"].as_str() < found[1]["expires_at"].as_str());
    run(dir.path(), "peek --store s k4").expect(4);
    run(dir.path(), "import --store s --format csv --input none.csv").expect(1);
}

/// A dry run tells, a repair repairs what it was told to, and the audit tells of it.
#[test]
fn differing_sides_are_told_repaired_and_audited() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key a", ROWS).expect(0);
    // Of 1, 2, 3 the effect of 2 is missing; 4 is unknown.
    fs::write(dir.path().join("effects.csv"), "b,a\nx,1\nz,3\nq,4\n").unwrap();
    let reconcile = "reconcile --store s --effects effects.csv --key a --grace 0s --json";
    let kinds = |lines: &[Value]| {
        let mut kinds: Vec<_> = lines
            .iter()
            .filter_map(|l| Some(format!("{} {}", l["finding"].as_str()?, l["id"].as_str()?)))
            .collect();
        kinds.sort();
        kinds
    };
    let ran = run(dir.path(), reconcile);
    let lines = ran.expect(5).json_lines();
    assert_eq!(kinds(&lines), ["effect missing \"2\"", "id unknown \"4\""]);
    assert_eq!(lines.last().unwrap()["counts"]["agreed"], json!(2));
    run(dir.path(), &format!("{reconcile} --apply")).expect(2);
    let apply = "--apply --actor alice --why rollout";
    run(dir.path(), &format!("{reconcile} {apply} --only record")).expect(5);
    let ran = run(dir.path(), reconcile);
    assert_eq!(kinds(&ran.expect(5).json_lines()), ["effect missing \"2\""]);
    run(dir.path(), &format!("{reconcile} {apply}")).expect(0);
    // The forgotten one is neither known nor there.
    assert!(kinds(&run(dir.path(), reconcile).expect(0).json_lines()).is_empty());
    run(dir.path(), "peek --store s --columns 2").expect(4);
    run(dir.path(), "forget --store s --why asked --columns 3").expect(0);

    let ran = run(dir.path(), "audit --store s --json");
    let audit = ran.expect(0).json_lines();
    let told: Vec<_> = audit
        .iter()
        .map(|l| format!("{} {} {}", l["what"], l["id"], l["why"]).replace(['"', '\\'], ""))
        .collect();
    assert_eq!(
        told,
        [
            "recorded 4 rollout",
            "forgotten 2 rollout",
            "forgotten 3 asked"
        ]
    );
    assert_eq!(audit[0]["who"], json!("alice"));
    assert!(audit[2]["who"].as_str().is_some_and(|who| !who.is_empty()));
    let text = run(dir.path(), "audit --store s --since 1h");
    assert_eq!(
        String::from_utf8_lossy(&text.expect(0).stdout)
            .lines()
            .count(),
        3
    );
    assert_eq!(
        run(dir.path(), "audit --store s --until 1h")
            .expect(0)
            .stdout,
        b""
    );
    fs::write(dir.path().join("bad.csv"), "a\n1\n\"\"\n").unwrap();
    let bad = "reconcile --store s --effects bad.csv --id a";
    run(dir.path(), bad).expect_said(3, "line 3, column 1 (a): an id of 0 bytes");
    run(dir.path(), "reconcile --store s --table none").expect_said(1, "no table \"none\"");
}

#[test]
fn resume_points_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("in.csv"), ROWS).unwrap();
    run(
        dir.path(),
        "dedup --store s --key a --input in.csv --output out.csv",
    )
    .expect(0);
    let ran = run(dir.path(), "resume-points --store s --json");
    let points = ran.expect(0).json_lines();
    assert_eq!(points.len(), 1);
    assert!(points[0]["source"].as_str().unwrap().starts_with("dedup "));
    assert!(points[0]["next"].is_string());
}
