//! `stat`, `peek`, `scan` and `forget`.

use firstseen::{Options, Store};
use serde_json::json;

use super::program::{run, run_piped};

const ROWS: &[u8] = b"a,b\n1,x\n2,y\n1,x\n";

#[test]
fn an_id_is_found_by_its_columns_its_digits_and_in_the_scan() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key a,b", ROWS).expect(0);

    let ran = run(dir.path(), "peek --store s --json --columns 1,x 2,y");
    let found = ran.expect(0).json_lines();
    assert_eq!(found.len(), 2);
    assert_eq!(found[0]["id"], json!(r#""1" "x""#));
    assert_eq!(found[0]["known"], json!(true));
    assert_eq!(found[0]["state"], json!("remembered"));
    assert_eq!(found[0]["tier"], json!("active set"));
    assert!(found[0]["expires_at"].as_str() < found[0]["generation_ends_at"].as_str());

    let ran = run(dir.path(), "scan --store s --json");
    let mut scanned = ran.expect(0).json_lines();
    scanned.sort_by_key(|line| line["hex"].to_string());
    for (scanned, found) in scanned.iter().zip(&found) {
        for (name, value) in scanned.as_object().unwrap() {
            assert_eq!(&found[name], value, "{name}");
        }
    }

    let hex = found[1]["hex"].as_str().unwrap();
    let ran = run(dir.path(), &format!("peek --store s --json --hex {hex}"));
    assert_eq!(ran.expect(0).json_lines(), found[1..]);

    let ran = run(dir.path(), "peek --store s --columns 1,y");
    assert!(String::from_utf8_lossy(&ran.expect(4).stdout).starts_with("not known"));
}

#[test]
fn whole_rows_are_found_as_text_and_json_values_as_an_array() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key *", ROWS).expect(0);
    run(dir.path(), "peek --store s 1,x 2,y").expect(0);
    run(dir.path(), "peek --store s 1,x 3,z").expect(4);
    run_piped(
        dir.path(),
        "dedup --store s --key a --format jsonl",
        b"{\"a\":7}\n",
    )
    .expect(0);
    run(dir.path(), "peek --store s --values [7]").expect(0);
    run(dir.path(), "peek --store s --values [\"7\"]").expect(4);
}

#[test]
fn a_scan_keeps_to_its_times() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key *", ROWS).expect(0);
    for (range, lines) in [
        ("--since 1h", 2),
        ("--until 1h", 0),
        ("--since 2020-01-01", 2),
        ("--until 2020-01-01T00:00:00Z", 0),
        ("--since @4000000000", 0),
        ("", 2),
    ] {
        let ran = run(dir.path(), &format!("scan --store s {range}"));
        let found = ran
            .expect(0)
            .stdout
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        assert_eq!(found, lines, "scan {range}");
    }
}

#[test]
fn a_forgotten_id_is_first_seen_again() {
    let dir = tempfile::tempdir().unwrap();
    let dedup = "dedup --store s --key a --json";
    assert_eq!(
        run_piped(dir.path(), dedup, ROWS).expect(0).counts(),
        [3, 2, 1, 0]
    );
    run(dir.path(), "forget --store s --columns 1").expect(2);
    let ran = run(
        dir.path(),
        "forget --store s --why test --columns --json 1 9",
    );
    let forgotten: Vec<_> = ran
        .expect(4)
        .json_lines()
        .iter()
        .map(|line| line["forgotten"].clone())
        .collect();
    assert_eq!(forgotten, [json!(true), json!(false)]);
    assert_eq!(
        run_piped(dir.path(), dedup, ROWS).expect(0).counts(),
        [3, 1, 2, 0]
    );
}

#[test]
fn looking_makes_neither_store_nor_scope() {
    let dir = tempfile::tempdir().unwrap();
    for verb in [
        "stat --store none",
        "scan --store none",
        "peek --store none x",
    ] {
        run(dir.path(), verb).expect_said(1, "none");
    }
    assert!(!dir.path().join("none").exists());
    run_piped(dir.path(), "dedup --store s --key a", ROWS).expect(0);
    for verb in ["scan", "peek x", "forget --why w x"] {
        let ran = run(dir.path(), &format!("{verb} --store s --scope none"));
        ran.expect_said(1, "no scope \"none\"");
    }
}

#[test]
fn a_look_leaves_the_scope_as_it_is() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(
        dir.path(),
        "dedup --store s --key a --retention forever",
        ROWS,
    )
    .expect(0);
    run(dir.path(), "peek --store s --columns 1").expect(0);
    // Without a retention the scope keeps its own; another form of it is refused.
    run_piped(dir.path(), "dedup --store s --key a", ROWS).expect(0);
    run_piped(dir.path(), "dedup --store s --key a --retention 7d", ROWS).expect(1);
}

#[test]
fn stat_counts_what_is_there() {
    let dir = tempfile::tempdir().unwrap();
    run_piped(dir.path(), "dedup --store s --key a", ROWS).expect(0);
    let ran = run(dir.path(), "stat --store s --json");
    let lines = ran.expect(0).json_lines();
    assert_eq!(lines.len(), 1);
    assert_eq!(lines[0]["scopes"], json!(["default"]));
    assert_eq!(lines[0]["live_ids_estimate"], json!(2));
    let ran = run(dir.path(), "stat --store s");
    let text = String::from_utf8_lossy(&ran.expect(0).stdout);
    assert!(text.contains("scopes          default\n"), "{text}");
}

#[test]
fn stat_shows_what_waits_in_an_outbox_and_the_audit_what_was_sent_again() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("s"), Options::new()).unwrap();
    let outbox = store.outbox("mails").unwrap().keeping(2);
    let mut batch = store.batch();
    for payload in ["1", "2", "3"] {
        batch.always().send(&outbox, payload);
    }
    let _ = batch.commit().unwrap();
    drop(batch);
    let ids: Vec<_> = outbox.drain(9).unwrap().iter().map(|m| m.id).collect();
    assert_eq!(outbox.ack(ids[2]).unwrap(), 3);
    outbox.rewind(ids[1], "their disk burnt").unwrap();
    drop(outbox);
    store.close().unwrap();

    let ran = run(dir.path(), "stat --store s --json");
    let told = &ran.expect(0).json_lines()[0]["outboxes"][0];
    assert_eq!(
        (&told["name"], &told["waiting"]),
        (&json!("mails"), &json!(2))
    );
    assert_eq!(
        (&told["sent"], &told["acknowledged"]),
        (&json!(3), &json!(1))
    );
    assert!(told["oldest_at"].is_string());
    let ran = run(dir.path(), "stat --store s");
    let text = String::from_utf8_lossy(&ran.expect(0).stdout).into_owned();
    assert!(text.contains("mails: 2 waiting, the first since"), "{text}");
    let ran = run(dir.path(), "audit --store s --json");
    let entry = &ran.expect(0).json_lines()[0];
    assert_eq!(
        (&entry["what"], &entry["outbox"]),
        (&json!("resent"), &json!("mails"))
    );
    assert_eq!((&entry["from"], &entry["to"]), (&json!(3), &json!(1)));
    let ran = run(dir.path(), "audit --store s");
    let text = String::from_utf8_lossy(&ran.expect(0).stdout).into_owned();
    assert!(text.contains("mails: from 3 to 1"), "{text}");
    run(dir.path(), "verify --store s").expect(0);
}

/// The process that has the store open switched a scope; from outside it is seen.
#[test]
fn stat_shows_scopes_that_are_switched() {
    use firstseen::{Mode, OnStoreError, Options, Policy, Store, days};
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path().join("s"), Options::new()).unwrap();
    let policy = || Policy::remember(days(7));
    let _plain = store.scope("plain", policy()).unwrap();
    let odd = store
        .scope("odd", policy().mode(Mode::ObserveOnly))
        .unwrap();
    let said = |args: &str| {
        let ran = run(dir.path(), args);
        String::from_utf8_lossy(&ran.expect(0).stdout).into_owned()
    };
    let text = said("stat --store s");
    assert!(
        text.contains("switches        odd: only observes\n"),
        "{text}"
    );
    odd.set_on_store_error(OnStoreError::Open).unwrap();
    let json = run(dir.path(), "stat --store s --json");
    let switches = &json.expect(0).json_lines()[0]["switches"];
    assert_eq!(switches, &json!([["odd", "only observes, fails open"]]));
    odd.set_mode(Mode::Enforce).unwrap();
    odd.set_on_store_error(OnStoreError::Closed).unwrap();
    assert!(!said("stat --store s").contains("switches"));
}
